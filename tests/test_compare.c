/* Predicted against measured, on timelines whose figures are known. */
#include <math.h>
#include <string.h>

#include "report/report.h"
#include "tests/compared.h"

static void
assert_pair(struct mw_pair pair, double predicted_ms, double measured_ms)
{
    g_assert_cmpfloat_with_epsilon(pair.predicted_s * 1e3, predicted_ms, 1e-9);
    g_assert_cmpfloat_with_epsilon(pair.measured_s * 1e3, measured_ms, 1e-9);
}

/* A later step takes forward + 29 ms and the millisecond since the one before: the median is that
 * of 12 ms. */
static void
test_step(struct compared *f, gconstpointer data)
{
    const struct mw_compare *c = f->compare;

    (void)data;
    g_assert_cmpuint(c->steps, ==, 3);
    assert_pair(c->step, 42, 42);
    assert_pair(c->first_step, 50, 119);
    g_assert_cmpint(c->typical_step, ==, 3);
    g_assert_cmpfloat_with_epsilon(c->fastest_s, 0.040, 1e-12);
    g_assert_cmpfloat_with_epsilon(c->slowest_s, 0.060, 1e-12);
    g_assert_cmpfloat_with_epsilon(c->idle_s, 0.002, 1e-12);
    g_assert_cmpfloat_with_epsilon(mw_pair_error((struct mw_pair){1.1, 1}), 0.1, 1e-12);
    g_assert_true(isnan(mw_pair_error((struct mw_pair){1, 0})));
}

/* Read hides behind backward; write is exposed. */
static void
test_lanes(struct compared *f, gconstpointer data)
{
    const struct mw_compare *c = f->compare;

    (void)data;
    g_assert_cmpuint(c->lane_count, ==, 3);
    g_assert_cmpuint(c->lanes[0].ops, ==, 2);
    assert_pair(c->lanes[0].busy, 35, 32);
    assert_pair(c->lanes[1].busy, 5, 5);
    assert_pair(c->lanes[1].exposed, 0, 0);
    assert_pair(c->lanes[2].exposed, 8, 8);
    g_assert_cmpuint(c->phase_count, ==, 3);
    g_assert_cmpstr(c->phases[0].name, ==, "forward");
    assert_pair(c->phases[0].takes, 15, 12);
    assert_pair(c->phases[1].takes, 20, 20);
    assert_pair(c->phases[2].takes, 9, 9);
}

/* What differs comes first, then what comes first in kind, operator and phase. */
static void
test_operators(struct compared *f, gconstpointer data)
{
    const struct mw_compare *c = f->compare;

    (void)data;
    g_assert_cmpuint(c->operator_count, ==, OPS);
    g_assert_cmpint(c->operators[0].kind, ==, MW_OP_COMPUTE);
    g_assert_cmpint(c->operators[0].operator_, ==, MW_OPERATOR_QKV);
    g_assert_cmpint(c->operators[0].phase, ==, MW_PHASE_FORWARD);
    g_assert_cmpuint(c->operators[0].ops, ==, 1);
    assert_pair(c->operators[0].sum, 15, 12);
    g_assert_cmpint(c->operators[1].phase, ==, MW_PHASE_BACKWARD);
    g_assert_cmpint(c->operators[3].kind, ==, MW_OP_NVME_WRITE);
    g_assert_cmpuint(c->op_count, ==, OPS);
    g_assert_cmpuint(c->ops[0].op, ==, FORWARD);
    assert_pair(c->ops[0].takes, 15, 12);
}

/* The first step is all there is. */
static void
test_alone(struct compared *f, gconstpointer data)
{
    static const int64_t forward_ms[] = {90};
    struct mw_measured *measured = compare_fixture_measured(forward_ms, 1);
    struct mw_compare *c = mw_compare_new(f->predicted, measured, NAN);

    (void)data;
    g_assert_cmpuint(c->steps, ==, 1);
    assert_pair(c->step, 42, 119);
    assert_pair(c->phases[0].takes, 15, 90);
    mw_compare_free(c);
    mw_measured_free(measured);
}

/* Of many steps the ones that are kept span all of them. */
static void
test_thinned(struct compared *f, gconstpointer data)
{
    g_autofree int64_t *forward_ms = g_new(int64_t, 1000);
    uint32_t count;

    (void)data;
    for (int i = 0; i < 1000; i++)
        forward_ms[i] = i;
    struct mw_measured *measured = compare_fixture_measured(forward_ms, 1000);
    const struct mw_measured_step *steps = mw_measured_steps(measured, &count);
    g_assert_cmpint(measured->seen, ==, 1000);
    g_assert_cmpuint(count, ==, 63);
    for (uint32_t i = 0; i < count; i++) {
        g_assert_cmpint(steps[i].step, ==, 1 + 16 * i);
        g_assert_cmpint(steps[i].time_ns, ==, (steps[i].step + 30) * MS);
        g_assert_cmpint(steps[i].timeline.rows[FORWARD].step, ==, steps[i].step);
    }
    struct mw_compare *c = mw_compare_new(f->predicted, measured, NAN);
    assert_pair(c->step, 42, 1 + 16 * 31 + 30);
    mw_compare_free(c);
    mw_measured_free(measured);
}

/* A trainer that runs twice begins its clock anew. */
static void
test_anew(struct compared *f, gconstpointer data)
{
    struct mw_timeline_row rows[OPS];

    (void)data;
    compare_fixture_rows(rows, 0, 0, 5);
    g_assert_cmpint(mw_measured_add(f->measured, &(struct mw_timeline){rows, OPS}), ==, 34 * MS);
}

/* What was measured stands where the prediction stood. */
static void
test_result(struct compared *f, gconstpointer data)
{
    (void)data;
    f->predicted->step_time_s[0] = f->predicted->step_time_s[1] = f->predicted->step_time_s[2] =
        0.084;
    mw_compare_free(f->compare);
    f->run.compare = f->compare = mw_compare_new(f->predicted, f->measured, NAN);
    struct mw_result *r = mw_run_result(&f->run);
    for (int o = 0; o < 3; o++) {
        g_assert_cmpfloat_with_epsilon(r->step_time_s[o], 0.042, 1e-12);
        g_assert_cmpfloat_with_epsilon(r->tflops_per_gpu[o], 20, 1e-9);
        g_assert_cmpfloat_with_epsilon(r->efficiency[o], 1, 1e-12);
    }
    g_assert_cmpfloat_with_epsilon(r->tokens_per_s, 2000, 1e-9);
    g_assert_cmpfloat_with_epsilon(r->first_step_time_s, 0.119, 1e-12);
    g_assert_cmpstr(r->bottleneck, ==, "compute lane");
    g_assert_cmpfloat_with_epsilon(r->bottleneck_share, 32.0 / 42, 1e-9);
    g_assert_cmpfloat_with_epsilon(r->lanes[0].busy_s, 0.032, 1e-12);
    mw_run_result_free(r);
}

static void
test_ranks(struct compared *f, gconstpointer data)
{
    (void)data;
    g_assert_cmpuint(f->compare->ranks, ==, 1);
    compared_add_rank(f);
    const struct mw_compare *c = f->compare;
    g_assert_cmpuint(c->ranks, ==, 2);
    assert_pair(c->lanes[1].busy, 5, 5);
    g_assert_cmpfloat_with_epsilon(c->lanes[1].busy_s[0], 0.005, 1e-12);
    g_assert_cmpfloat_with_epsilon(c->lanes[1].busy_s[1], 0.007, 1e-12);
    g_assert_cmpfloat_with_epsilon(c->lanes[1].exposed_s[1], 0.001, 1e-12);
}

/* What a rank says of itself is what the first would. */
static void
test_own_rank(struct compared *f, gconstpointer data)
{
    struct mw_measured_rank rank = mw_compare_rank(f->plan, f->measured, 2);

    (void)data;
    for (uint32_t l = 0; l < 3; l++) {
        g_assert_cmpint(rank.busy_ns[l], ==, llround(f->compare->lanes[l].busy.measured_s * 1e9));
        g_assert_cmpint(rank.exposed_ns[l], ==,
                        llround(f->compare->lanes[l].exposed.measured_s * 1e9));
    }
    g_assert_cmpmem(rank.timeline.rows, OPS * sizeof *rank.timeline.rows,
                    f->measured->later[1].timeline.rows, OPS * sizeof *rank.timeline.rows);
    mw_measured_rank_clear(&rank);
}

int
main(int argc, char **argv)
{
    static const struct compared_test tests[] = {
        {"/compare/step", test_step},           {"/compare/lanes", test_lanes},
        {"/compare/operators", test_operators}, {"/compare/first-alone", test_alone},
        {"/compare/thinned", test_thinned},     {"/compare/clock-anew", test_anew},
        {"/compare/result", test_result},       {"/compare/ranks", test_ranks},
        {"/compare/own-rank", test_own_rank},
    };

    return compared_run(argc, argv, tests, G_N_ELEMENTS(tests));
}
