/* Invariant 5: with overlap the engine's step is at least the busiest lane, the busiest channel and
 * the longest path, all uncontended, and at most the sum of all durations.  On random requests. */
#include <math.h>

#include "sim/engine.h"
#include "tests/cases.h"
#include "tests/random_request.h"

#define PLANS MW_CASES(1500)

/* Rounding: a nanosecond an op. */
struct bounds {
    int64_t lane_ns, path_ns, sum_ns;
    double channel_ns;
};

/* An op draws on channels, and keeps its lane from others, but for its latency. */
static int64_t
moving_ns(const struct mw_costs *costs, uint32_t work)
{
    return costs->work_ns[work] - costs->lead_ns[work];
}

static void
bound_lanes(const struct mw_plan *plan, const struct mw_costs *costs, struct bounds *bounds)
{
    g_autofree int64_t *lanes = g_new0(int64_t, plan->lane_count);

    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_op *op = &plan->ops[o];
        lanes[op->lane] += moving_ns(costs, op->work);
        bounds->sum_ns += costs->work_ns[op->work];
        bounds->lane_ns = MAX(bounds->lane_ns, lanes[op->lane]);
    }
}

static void
bound_channels(const struct mw_plan *plan, const struct mw_costs *costs, struct bounds *bounds)
{
    g_autofree double *units = g_new0(double, plan->channel_count);

    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_work *work = &plan->works[plan->ops[o].work];
        for (uint32_t d = work->draw_begin; d < work->draw_begin + work->draw_count; d++)
            units[plan->draws[d].channel] +=
                costs->draw_rate[d] * (double)moving_ns(costs, plan->ops[o].work);
    }
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        double both = costs->mixed[c].read > 0 ? costs->mixed[c].read + costs->mixed[c].write : 1;
        bounds->channel_ns = fmax(bounds->channel_ns, units[c] / (costs->capacity[c] * both));
    }
}

/* The planner adds ops in an order that obeys every edge.  Ranks apart: a match is left out. */
static void
bound_path(const struct mw_plan *plan, const struct mw_costs *costs, struct bounds *bounds)
{
    g_autofree int64_t *end_ns = g_new0(int64_t, plan->op_count);
    g_autofree int64_t *lane_end_ns = g_new0(int64_t, plan->lane_count);

    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_op *op = &plan->ops[o];
        int64_t start_ns = lane_end_ns[op->lane] - costs->lead_ns[op->work];
        start_ns = MAX(start_ns, 0);
        for (uint32_t d = op->dep_begin; d < op->dep_begin + op->dep_count; d++)
            if (!(plan->deps[d] & MW_DEP_PREVIOUS_STEP))
                start_ns = MAX(start_ns, end_ns[plan->deps[d]]);
        end_ns[o] = lane_end_ns[op->lane] = start_ns + costs->work_ns[op->work];
        bounds->path_ns = MAX(bounds->path_ns, end_ns[o]);
    }
}

static void
check_plan(const struct mw_plan *plan, const struct mw_hardware *hardware)
{
    struct bounds bounds = {0};
    struct mw_engine_result result;
    struct mw_costs costs;
    char why[256] = "";

    mw_costs_init(&costs, plan, hardware);
    bound_lanes(plan, &costs, &bounds);
    bound_channels(plan, &costs, &bounds);
    bound_path(plan, &costs, &bounds);
    mw_engine_run(plan, &costs, (struct mw_engine_options){0}, &result, why, sizeof why);
    g_assert_cmpstr(why, ==, "");
    g_assert_cmpint(result.step_ns, >=, bounds.lane_ns);
    g_assert_cmpint(result.step_ns, >=, bounds.path_ns);
    g_assert_cmpfloat((double)result.step_ns * (1 + 1e-9), >=, bounds.channel_ns);
    g_assert_cmpint(result.step_ns, <=, bounds.sum_ns + plan->op_count);
    g_assert_cmpint(result.first_step_ns, <=, bounds.sum_ns + plan->op_count);
    mw_engine_result_clear(&result);
    mw_costs_clear(&costs);
}

static void
test_overlapping_plans(void)
{
    int plans = 0;

    for (guint32 seed = 200000; plans < PLANS; seed++) {
        struct random_request request;
        random_request_init(&request, seed);
        g_autoptr(GPtrArray) found = random_request_candidates(&request, NULL);
        for (guint i = 0; found && i < found->len; i++) {
            const struct mw_sizing *sizing = found->pdata[i];
            if (!sizing->fits)
                continue;
            struct mw_plan *plan = mw_build_plan(sizing);
            check_plan(plan, &request.hardware);
            mw_plan_free(plan);
            plans++;
        }
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/engine-bounds/invariant-5/overlapping-plans", test_overlapping_plans);
    return g_test_run();
}
