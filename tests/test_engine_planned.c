/* The event engine on plans that the planner made: the reference agrees, and so do folded ranks. */
#include <glib.h>
#include <math.h>

#include "sim/engine.h"
#include "tests/planned.h"
#include "tests/reference_engine.h"

static void
assert_like_reference(struct planned what)
{
    struct mw_engine_options options = {.steps = 1, .keep_timeline = true};
    struct reference_result reference;
    struct mw_engine_result result;
    struct mw_hardware hardware;
    struct mw_plan *plan = planned_new(what, &hardware);
    struct mw_costs costs;

    mw_costs_init(&costs, plan, &hardware);
    g_assert_true(mw_engine_run(plan, &costs, options, &result, NULL, 0));
    reference_run(plan, &costs, 1, &reference);
    g_assert_true(reference.converged);
    g_assert_cmpuint(result.reshares, >, 0);
    for (uint32_t op = 0; op < plan->op_count; op++) {
        g_assert_cmpint(llabs(result.timeline.rows[op].start_ns - reference.start_ns[op]), <=, 2);
        g_assert_cmpint(llabs(result.timeline.rows[op].end_ns - reference.end_ns[op]), <=, 2);
    }
    reference_clear(&reference);
    mw_engine_result_clear(&result);
    mw_costs_clear(&costs);
    mw_plan_free(plan);
}

static void
test_reference(void)
{
    assert_like_reference((struct planned){.layers = 2, .gpus = 1, .micro_batch = 1});
    assert_like_reference((struct planned){.layers = 2, .gpus = 16, .micro_batch = 1});
    assert_like_reference(
        (struct planned){.layers = 1, .gpus = 2, .micro_batch = 1, .unfold = true});
}

static double
step_s(struct planned what, uint32_t *ranks)
{
    struct mw_engine_result result;
    struct mw_hardware hardware;
    struct mw_plan *plan = planned_new(what, &hardware);
    struct mw_costs costs;
    double seconds;

    *ranks = plan->program_count;
    mw_costs_init(&costs, plan, &hardware);
    g_assert_true(mw_engine_run(plan, &costs, (struct mw_engine_options){0}, &result, NULL, 0));
    seconds = (double)result.step_ns * 1e-9;
    mw_engine_result_clear(&result);
    mw_costs_clear(&costs);
    mw_plan_free(plan);
    return seconds;
}

/* A folded rank has a node's channels divided by their users. */
static void
test_folded(void)
{
    for (int64_t gpus = 2; gpus <= 16; gpus *= 2) {
        for (int no_latency = 0; no_latency < 2; no_latency++) {
            struct planned what = {
                .layers = 4, .gpus = gpus, .micro_batch = 1, .no_latency = no_latency};
            uint32_t ranks;
            double folded_s = step_s(what, &ranks), unfolded_s;

            g_assert_cmpuint(ranks, ==, 1);
            what.unfold = true;
            unfolded_s = step_s(what, &ranks);
            g_assert_cmpuint(ranks, ==, gpus);
            g_test_message("%d GPUs: folded %.4f s, unfolded %.4f s", (int)gpus, folded_s,
                           unfolded_s);
            g_assert_cmpfloat_with_epsilon(unfolded_s / folded_s, 1, 1e-6);
        }
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/engine-planned/reference", test_reference);
    g_test_add_func("/engine-planned/folded", test_folded);
    return g_test_run();
}
