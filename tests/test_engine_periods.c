/* The engine leaves out micro-batches that repeat earlier ones: every figure and every row is that
 * of a run that takes all of them. */
#include <glib.h>
#include <string.h>

#include "sim/engine.h"
#include "study/known_steps.h"
#include "tests/cases.h"
#include "tests/random_request.h"

#define REQUESTS MW_CASES(240)

static uint64_t all_ops, repeated_ops;

static void
assert_rows_equal(const struct mw_timeline *a, const struct mw_timeline *b)
{
    g_assert_cmpuint(a->row_count, ==, b->row_count);
    for (size_t i = 0; i < a->row_count; i++) {
        g_assert_cmpuint(a->rows[i].op, ==, b->rows[i].op);
        g_assert_cmpuint(a->rows[i].step, ==, b->rows[i].step);
        g_assert_cmpuint(a->rows[i].more, ==, b->rows[i].more);
        g_assert_cmpint(a->rows[i].start_ns, ==, b->rows[i].start_ns);
        g_assert_cmpint(a->rows[i].end_ns, ==, b->rows[i].end_ns);
        g_assert_cmpint(a->rows[i].skipped_ns, ==, b->rows[i].skipped_ns);
    }
}

static void
assert_results_equal(const struct mw_plan *plan, const struct mw_engine_result *a,
                     const struct mw_engine_result *b)
{
    g_assert_cmpint(a->step_ns, ==, b->step_ns);
    g_assert_cmpint(a->first_step_ns, ==, b->first_step_ns);
    g_assert_cmpuint(a->ops_done, ==, b->ops_done);
    g_assert_cmpuint(a->reshares, ==, b->reshares);
    for (uint32_t l = 0; l < plan->lane_count; l++)
        g_assert_cmpint(a->lane_busy_ns[l], ==, b->lane_busy_ns[l]);
    for (uint32_t c = 0; c < plan->channel_count; c++)
        g_assert_cmpfloat(a->channel_busy_ns[c], ==, b->channel_busy_ns[c]);
    assert_rows_equal(&a->timeline, &b->timeline);
}

/* Returns the share of the ops that repeat others. */
static double
compare(const struct mw_plan *plan, const struct mw_hardware *hardware)
{
    struct mw_engine_options options = {.keep_timeline = true}, every = options;
    struct mw_engine_result a, b, again;
    struct mw_engine_graph *graph = mw_engine_graph_new(plan, NULL, 0);
    struct mw_costs costs;

    every.skip_nothing = true;
    mw_costs_init(&costs, plan, hardware);
    g_assert_true(mw_engine_run_graph(graph, &costs, options, &a, NULL, 0));
    g_assert_true(mw_engine_run_graph(graph, &costs, every, &b, NULL, 0));
    g_assert_cmpuint(b.ops_repeated, ==, 0);
    assert_results_equal(plan, &a, &b);
    options.keep_timeline = false;
    g_assert_true(mw_engine_run(plan, &costs, options, &again, NULL, 0));
    g_assert_cmpint(again.step_ns, ==, a.step_ns);
    g_assert_cmpuint(again.ops_done, ==, a.ops_done);
    double share = (double)a.ops_repeated / (double)a.ops_done;
    all_ops += a.ops_done;
    repeated_ops += a.ops_repeated;
    mw_engine_result_clear(&a);
    mw_engine_result_clear(&b);
    mw_engine_result_clear(&again);
    mw_costs_clear(&costs);
    mw_engine_graph_free(graph);
    return share;
}

typedef void (*changer)(struct random_request *request);

/* Of requests that `change` has changed, with many micro-batches.  Sections are a plan's own way to
 * say what repeats. */
static void
for_requests(guint32 first_seed, changer change, bool stages)
{
    int looked = 0, repeating = 0;

    all_ops = repeated_ops = 0;
    for (guint32 seed = first_seed; looked < REQUESTS; seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;

        random_request_init(&request, seed);
        if (change)
            change(&request);
        if (stages)
            random_request_stages(&request);
        if (request.settings.grad_accum > 0)
            request.settings.grad_accum *= 4 + seed % 12;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing || stages != (sizing->pp > 1))
            continue;
        struct mw_plan *plan = mw_build_plan(sizing);
        if (!plan->section_count) {
            repeating += compare(plan, &request.hardware) > 0;
            looked++;
        }
        mw_plan_free(plan);
    }
    g_test_message("%d of %d plans repeat themselves, in %.1f%% of all ops", repeating, looked,
                   100 * (double)repeated_ops / (double)all_ops);
    g_assert_cmpint(repeating, >, looked / 10);
}

static void
test_one_program(void)
{
    for_requests(700000, NULL, false);
}

static void
test_pipelines(void)
{
    for_requests(710000, NULL, true);
}

static void
test_filled_bubbles(void)
{
    for_requests(720000, random_request_fill_bubbles, true);
}

static struct mw_sizing *
sizing_of(const struct mw_model *model, const struct mw_hardware *hardware,
          struct mw_settings asked)
{
    struct mw_request request = {model, hardware};
    struct mw_settings resolved;
    g_autoptr(GError) error = NULL;

    mw_settings_complete(&request, &asked, &resolved, &error);
    g_assert_no_error(error);
    struct mw_sizing *sizing = mw_sizing_new(model, hardware, &resolved, &error);
    g_assert_no_error(error);
    g_assert_true(sizing->fits);
    return sizing;
}

/* Where stages go forward and back in turn, most micro-batches of many repeat others; not where
 * those of the next step are among them. */
static void
test_schedules(void)
{
    static const struct {
        enum mw_schedule schedule;
        double share;
    } rows[] = {{MW_SCHEDULE_1F1B, 0.7},
                {MW_SCHEDULE_INTERLEAVED, 0.4},
                {MW_SCHEDULE_ZB_H1, 0.7},
                {MW_SCHEDULE_GPIPE, 0}};
    g_autoptr(GError) error = NULL;
    struct mw_profile *profile = mw_hwprofile_load("dgx-a100", &error);
    struct mw_model model;

    g_assert_no_error(error);
    mw_model_load("gpt2-xl", &model, &error);
    g_assert_no_error(error);
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct mw_settings asked;
        mw_settings_init(&asked);
        asked.strategy = MW_STRATEGY_DDP;
        asked.micro_batch = 1;
        asked.pp = 4;
        asked.grad_accum = 64;
        asked.schedule = rows[i].schedule;
        if (asked.schedule == MW_SCHEDULE_INTERLEAVED)
            asked.virtual_stages = 2;
        struct mw_sizing *sizing = sizing_of(&model, &hardware, asked);
        struct mw_plan *plan = mw_build_plan(sizing);
        double share = compare(plan, &hardware);
        g_test_message("%s: %.1f%% of the ops", mw_schedule_row(rows[i].schedule)->name,
                       100 * share);
        g_assert_cmpfloat(share, >=, rows[i].share);
        mw_plan_free(plan);
        mw_sizing_free(sizing);
    }
    mw_profile_free(profile);
}

/* A step of many micro-batches follows from one of fewer, to the ns. */
static void
test_fewer(void)
{
    int known = 0, looked = 0;

    for (guint32 seed = 730000; looked < REQUESTS / 4; seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;

        random_request_init(&request, seed);
        if (seed % 3 == 0)
            random_request_fill_bubbles(&request);
        random_request_stages(&request);
        if (request.settings.grad_accum > 0)
            request.settings.grad_accum *= 16 + seed % 5;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing || sizing->pp == 1)
            continue;
        double step_s = mw_step_by_few_s(sizing);
        if (step_s > 0) {
            struct mw_plan *plan = mw_build_plan(sizing);
            g_assert_cmpfloat(step_s, ==, mw_step_s(plan, sizing->hardware, false));
            mw_plan_free(plan);
            known++;
        }
        looked++;
    }
    g_test_message("%d of %d steps follow from shorter ones", known, looked);
    g_assert_cmpint(known, >, looked / 10);
}

/* Each stage cuts its optimizer step by its own parameters. */
static void
test_fewer_of_unequal_stages(void)
{
    g_autoptr(GError) error = NULL;
    struct mw_profile *profile = mw_hwprofile_load("dgx-a100", &error);
    struct mw_settings asked;
    struct mw_model model;

    g_assert_no_error(error);
    mw_model_load("gpt3-13b", &model, &error);
    g_assert_no_error(error);
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    mw_settings_init(&asked);
    asked.strategy = MW_STRATEGY_ZERO1;
    asked.nodes = 4;
    asked.micro_batch = 1;
    asked.pp = 8;
    asked.grad_accum = 64;
    struct mw_sizing *sizing = sizing_of(&model, &hardware, asked);
    struct mw_plan *plan = mw_build_plan(sizing);
    g_assert_cmpfloat(mw_step_by_few_s(sizing), ==, mw_step_s(plan, &hardware, false));
    mw_plan_free(plan);
    mw_sizing_free(sizing);
    mw_profile_free(profile);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_setenv("XDG_CONFIG_HOME", "/nonexistent", TRUE); /* shipped profiles only */
    g_test_add_func("/engine-periods/one-program", test_one_program);
    g_test_add_func("/engine-periods/pipelines", test_pipelines);
    g_test_add_func("/engine-periods/filled-bubbles", test_filled_bubbles);
    g_test_add_func("/engine-periods/schedules", test_schedules);
    g_test_add_func("/engine-periods/fewer", test_fewer);
    g_test_add_func("/engine-periods/fewer-of-unequal-stages", test_fewer_of_unequal_stages);
    return g_test_run();
}
