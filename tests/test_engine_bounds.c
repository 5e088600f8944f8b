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

/* --- sums of tensor slices beside products --------------------------------------------------- */

/* What a plan computes and sends, and how long it takes. */
struct done {
    int64_t flops, bytes, launches, fabric_bytes, regathered_bytes, weights, ops, step_ns;
};

static bool
is_regather(const struct mw_plan *plan, const struct mw_op *op)
{
    const struct mw_work *work = &plan->works[op->work];

    return work->kind == MW_OP_ALL_GATHER && work->object == MW_OBJECT_ACTIVATIONS &&
           mw_operator_row(work->operator_)->sums_backward;
}

static void
add_op(const struct mw_plan *plan, const struct mw_op *op, struct done *done)
{
    const struct mw_work *work = &plan->works[op->work];
    bool computes = work->kind == MW_OP_COMPUTE;

    done->flops += work->flops;
    done->bytes += computes ? work->bytes : 0;
    done->launches += computes ? work->launches : 0;
    done->ops++;
    done->weights += computes && work->object == MW_OBJECT_GRADIENTS;
    for (uint32_t d = work->draw_begin; d < work->draw_begin + work->draw_count; d++)
        if (plan->channels[plan->draws[d].channel].kind == MW_CHANNEL_FABRIC)
            *(is_regather(plan, op) ? &done->regathered_bytes : &done->fabric_bytes) +=
                plan->draws[d].amount;
}

/* Of the embedding's gradient, which without overlap is half of the logits' sum: it has moved to
 * where other collectives may be in its way. */
static bool
is_gather_of_end(const struct mw_plan *plan, const struct mw_op *op)
{
    const struct mw_work *work = &plan->works[op->work];

    return work->kind == MW_OP_ALL_GATHER && work->object == MW_OBJECT_ACTIVATIONS &&
           work->operator_ == MW_OPERATOR_EMBEDDING;
}

static int64_t
moved_gathers_ns(const struct mw_plan *plan, const struct mw_costs *costs)
{
    int64_t all_ns = 0;

    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_op *op = &plan->ops[o];
        bool moved = is_regather(plan, op) || is_gather_of_end(plan, op);
        all_ns += moved ? costs->work_ns[op->work] : 0;
    }
    return all_ns;
}

static struct done
run_request(struct random_request *request, bool overlap, int64_t *regather_ns)
{
    struct mw_engine_result result;
    struct mw_costs costs;
    struct done done = {0};
    char why[256] = "";

    request->hardware.tensor_overlap = overlap;
    g_autoptr(GPtrArray) found = random_request_candidates(request, NULL);
    const struct mw_sizing *sizing = found ? found->pdata[0] : NULL;
    if (!sizing || !sizing->fits)
        return done;
    struct mw_plan *plan = mw_build_plan(sizing);
    mw_costs_init(&costs, plan, &request->hardware);
    mw_engine_run(plan, &costs, (struct mw_engine_options){0}, &result, why, sizeof why);
    g_assert_cmpstr(why, ==, "");
    for (uint32_t o = 0; o < plan->op_count; o++)
        add_op(plan, &plan->ops[o], &done);
    done.step_ns = result.step_ns;
    *regather_ns = moved_gathers_ns(plan, &costs);
    mw_engine_result_clear(&result);
    mw_costs_clear(&costs);
    mw_plan_free(plan);
    return done;
}

/* One group of slices, whose collectives no others compete with. */
static void
ask_for_slices(struct random_request *request)
{
    struct mw_settings *s = &request->settings;

    s->strategy = MW_STRATEGY_DDP;
    s->nodes = 1;
    s->gpus_per_node = s->tp = 2 << request->seed % 2;
    s->sequence_parallel = request->seed % 3 == 0;
    s->logits_chunks = 1; /* chunks count as equal ones, rounded up */
    /* Without overlap half of the logits' sum is the gather of the embedding's gradient. */
    s->trained.frozen &= ~(UINT32_C(1) << MW_OPERATOR_EMBEDDING);
    s->overlap = true;
    s->serialize = false;
    request->hardware.gpu_collective_sm_share = 0.25 * (request->seed % 5);
    request->hardware.tensor_pieces = false;
    request->hardware.tensor_parts = false; /* which gathers as much, and needs more room */
}

/* The same is computed and sent, in no more time: with slices that share tokens products gather
 * their inputs again, which plans without overlap take to be hidden (docs/MODEL.md, 6.8a).  Times
 * are rounded up, a nanosecond an op. */
static void
test_tensor_overlap(void)
{
    int plans = 0, faster = 0;

    for (guint32 seed = 210000; plans < PLANS / 5; seed++) {
        struct random_request request;
        int64_t none_ns, regather_ns;
        random_request_init(&request, seed);
        ask_for_slices(&request);
        bool shares = request.settings.sequence_parallel;
        struct done apart = run_request(&request, false, &none_ns);
        struct done beside = run_request(&request, true, &regather_ns);
        g_assert_true(!apart.step_ns == !beside.step_ns);
        if (!apart.step_ns)
            continue;
        g_assert_cmpint(beside.flops, ==, apart.flops);
        g_assert_cmpint(beside.bytes, ==, apart.bytes);
        g_assert_cmpint(beside.launches, ==, apart.launches);
        g_assert_cmpint(beside.fabric_bytes, ==, apart.fabric_bytes);
        g_assert_cmpint(apart.regathered_bytes + apart.weights, ==, 0);
        g_assert_true(!beside.regathered_bytes == !(shares && beside.weights));
        g_assert_cmpint(beside.step_ns, <=, apart.step_ns + regather_ns + beside.ops);
        faster += beside.step_ns < apart.step_ns;
        plans++;
    }
    g_assert_cmpint(faster, >, plans / 2);
}

/* The same is computed and sent where products are in pieces, each a kernel, and in less time if a
 * piece is as fast as the whole. */
static void
test_tensor_pieces(void)
{
    int plans = 0, faster = 0;

    for (guint32 seed = 220000; plans < PLANS / 5; seed++) {
        struct random_request request;
        int64_t moved_ns;
        random_request_init(&request, seed);
        ask_for_slices(&request);
        request.settings.sequence_parallel = 1;
        request.settings.tiles = 1;
        request.hardware.gpu_collective_sm_share = 0;
        request.hardware.gpu_launch_s = 0;
        request.hardware.gpu_multiprocessors = request.hardware.matmul_points = 0;
        struct done whole = run_request(&request, true, &moved_ns);
        request.hardware.tensor_pieces = true;
        struct done pieces = run_request(&request, true, &moved_ns);
        if (!whole.step_ns || pieces.ops == whole.ops)
            continue;
        g_assert_cmpint(pieces.flops, ==, whole.flops);
        g_assert_cmpint(pieces.bytes, ==, whole.bytes);
        g_assert_cmpint(pieces.launches, >, whole.launches);
        g_assert_cmpint(pieces.fabric_bytes + pieces.regathered_bytes, ==,
                        whole.fabric_bytes + whole.regathered_bytes);
        /* Halves of sums that have moved may meet other transfers there. */
        g_assert_cmpint(pieces.step_ns, <=, whole.step_ns + whole.step_ns / 50 + pieces.ops);
        faster += pieces.step_ns < whole.step_ns;
        plans++;
    }
    g_assert_cmpint(faster, >, plans / 2);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/engine-bounds/invariant-5/overlapping-plans", test_overlapping_plans);
    g_test_add_func("/engine-bounds/tensor-overlap", test_tensor_overlap);
    g_test_add_func("/engine-bounds/tensor-pieces", test_tensor_pieces);
    return g_test_run();
}
