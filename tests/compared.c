#include "tests/compared.h"

#include "report/report.h"
#include "study/lanes.h"

/* Predicted: forward 15 ms, the step 44 ms.  Measured: forward 90 ms, then 10, 12 and 30. */
static void
set_up(struct compared *f, gconstpointer data)
{
    static const int64_t forward_ms[] = {90, 10, 30, 12};

    (void)data;
    f->plan = compare_fixture_plan();
    compare_fixture_rows(f->rows, 0, 3 * MS, 15);
    f->timeline = (struct mw_timeline){f->rows, OPS};
    f->predicted = mw_result_new();
    f->predicted->plan = f->plan;
    f->predicted->timeline = &f->timeline;
    f->predicted->hardware = g_strdup("profile");
    f->predicted->feasible = f->predicted->simulated = true;
    f->predicted->nodes = f->predicted->gpus_per_node = 1;
    for (int o = 0; o < 3; o++) {
        f->predicted->step_time_s[o] = 0.042;
        f->predicted->tflops_per_gpu[o] = 10;
        f->predicted->efficiency[o] = 0.5;
    }
    f->predicted->first_step_time_s = 0.05;
    f->predicted->tokens_per_s = 1000;
    mw_summary_lanes(f->plan, &f->timeline, f->predicted);
    f->measured = compare_fixture_measured(forward_ms, G_N_ELEMENTS(forward_ms));
    f->compare = mw_compare_new(f->predicted, f->measured, 0.021);
    f->run = (struct mw_run){f->predicted, f->measured, f->compare, NULL, "a machine"};
}

static void
tear_down(struct compared *f, gconstpointer data)
{
    (void)data;
    mw_compare_free(f->compare);
    mw_measured_free(f->measured);
    mw_result_free(f->predicted);
    mw_plan_free(f->plan);
}

void
compared_add_rank(struct compared *f)
{
    int64_t more_ms = 2 * (f->measured->rank_count + 1);
    struct mw_timeline_row rows[OPS];
    struct mw_measured_rank rank = {
        .lane_count = 3, .busy_ns = g_new0(int64_t, 3), .exposed_ns = g_new0(int64_t, 3)};

    compare_fixture_rows(rows, 3, 500 * MS, 12);
    rows[READ].end_ns += more_ms * MS;
    rank.timeline = (struct mw_timeline){g_memdup2(rows, sizeof rows), OPS};
    rank.busy_ns[0] = 32 * MS;
    rank.busy_ns[1] = (5 + more_ms) * MS;
    rank.busy_ns[2] = 8 * MS;
    rank.exposed_ns[1] = (more_ms - 1) * MS;
    mw_measured_add_rank(f->measured, &rank);
    mw_compare_free(f->compare);
    f->run.compare = f->compare = mw_compare_new(f->predicted, f->measured, 0.021);
}

int
compared_run(int argc, char **argv, const struct compared_test *tests, size_t count)
{
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < count; i++)
        g_test_add(tests[i].path, struct compared, NULL, set_up, tests[i].test, tear_down);
    return g_test_run();
}
