#include "sim/engine_internal.h"

#include <math.h>
#include <stdio.h>

static bool
refuse(char *why, size_t why_size, const char *line)
{
    if (why_size > 0)
        snprintf(why, why_size, "%s", line);
    return false;
}

/* Also counts what one step does of each work. */
static bool
check_time(struct mw_engine *engine)
{
    const struct mw_plan *plan = engine->plan;
    int64_t total = 0, product;

    engine->work_uses = g_new0(uint64_t, plan->work_count);
    for (uint32_t i = 0; i < plan->op_count; i++)
        engine->work_uses[plan->ops[i].work]++;
    for (uint32_t w = 0; w < plan->work_count; w++) {
        if (engine->costs->work_ns[w] < 0 ||
            __builtin_mul_overflow(engine->costs->work_ns[w], engine->work_uses[w], &product) ||
            __builtin_add_overflow(total, product, &total))
            return false;
    }
    return !__builtin_mul_overflow(total, engine->steps, &product) && product <= INT64_MAX / 4;
}

static bool
check_rates(const struct mw_engine *engine)
{
    const struct mw_costs *costs = engine->costs;

    for (uint32_t i = 0; i < engine->plan->draw_count; i++) {
        double capacity = costs->capacity[engine->plan->draws[i].channel];
        double share = costs->draw_rate[i] == 0 ? 0 : costs->draw_rate[i] / capacity;

        if (!isfinite(share) || share < 0)
            return false;
    }
    return true;
}

/* The plan's deps, turned around: counting sort by the op that is waited for. */
static void
build_successors(struct mw_engine *engine)
{
    const struct mw_plan *plan = engine->plan;
    uint32_t *begin = engine->successor_begin = g_new0(uint32_t, (size_t)plan->op_count + 2);

    engine->successors = g_new(uint32_t, plan->dep_count);
    for (uint32_t i = 0; i < plan->op_count; i++)
        for (uint32_t d = 0; d < plan->ops[i].dep_count; d++)
            begin[MW_DEP_INDEX(plan->deps[plan->ops[i].dep_begin + d]) + 2]++;
    for (uint32_t i = 0; i < plan->op_count; i++)
        begin[i + 2] += begin[i + 1];
    /* begin[i + 1] is the cursor of i; when all are placed, it is where i ends. */
    for (uint32_t i = 0; i < plan->op_count; i++) {
        for (uint32_t d = 0; d < plan->ops[i].dep_count; d++) {
            uint32_t dep = plan->deps[plan->ops[i].dep_begin + d];
            engine->successors[begin[MW_DEP_INDEX(dep) + 1]++] = i | (dep & MW_DEP_PREVIOUS_STEP);
        }
    }
}

/* In step 0 the step before counts as done. */
static void
build_pending(struct mw_engine *engine)
{
    const struct mw_plan *plan = engine->plan;

    for (int slot = 0; slot < MW_STEP_SLOTS; slot++)
        engine->pending[slot] = g_new(uint8_t, plan->op_count);
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        uint8_t within = 0;

        for (uint32_t d = 0; d < op->dep_count; d++)
            within += !(plan->deps[op->dep_begin + d] & MW_DEP_PREVIOUS_STEP);
        engine->pending[0][i] = within;
        engine->pending[1][i] = engine->pending[2][i] = op->dep_count;
    }
}

static void
build_lanes(struct mw_engine *engine)
{
    const struct mw_plan *plan = engine->plan;
    uint32_t begin = 0;

    engine->lanes = g_new0(struct mw_lane_state, plan->lane_count);
    engine->lane_queue = g_new(uint32_t, plan->lane_count);
    engine->lane_ops = g_new(uint32_t, plan->op_count);
    for (uint32_t i = 0; i < plan->op_count; i++)
        engine->lanes[plan->ops[i].lane].next++;
    for (uint32_t l = 0; l < plan->lane_count; l++) {
        struct mw_lane_state *lane = &engine->lanes[l];

        lane->window_ops = plan->lanes[l].window_ops;
        lane->window_bytes = plan->lanes[l].window_bytes;
        lane->begin = lane->end = begin;
        begin += lane->next;
        lane->next = lane->begin;
    }
    for (uint32_t i = 0; i < plan->op_count; i++) {
        struct mw_lane_state *lane = &engine->lanes[plan->ops[i].lane];
        engine->lane_ops[lane->end++] = i;
    }
    for (uint32_t l = 0; l < plan->lane_count; l++) {
        struct mw_lane_state *lane = &engine->lanes[l];
        lane->head = lane->begin < lane->end ? engine->lane_ops[lane->begin] : MW_NONE;
    }
}

static bool
build_matches(struct mw_engine *engine)
{
    const struct mw_plan *plan = engine->plan;

    for (uint32_t i = 0; i < plan->op_count; i++) {
        uint32_t match = plan->ops[i].match;

        if (match == MW_NONE)
            continue;
        if (match >= plan->op_count)
            return false;
        engine->match_count = MAX(engine->match_count, match + 1);
    }
    engine->matches = g_new0(struct mw_match_state, engine->match_count);
    for (uint32_t i = 0; i < plan->op_count; i++)
        if (plan->ops[i].match != MW_NONE)
            engine->matches[plan->ops[i].match].members++;
    return true;
}

bool
mw_engine_prepare(struct mw_engine *engine, char *why, size_t why_size)
{
    if (!check_rates(engine))
        return refuse(why, why_size, "an op draws on a channel that has no capacity");
    if (!check_time(engine))
        return refuse(why, why_size, "time overflows: the ops' durations add up to over 73 years");
    if (!build_matches(engine))
        return refuse(why, why_size, "a match number is not below the number of ops");
    build_successors(engine);
    build_pending(engine);
    build_lanes(engine);
    mw_engine_share_init(engine);
    engine->free_flow = MW_NONE;
    return true;
}

void
mw_engine_release(struct mw_engine *engine)
{
    mw_engine_share_clear(engine);
    g_free(engine->work_uses);
    g_free(engine->successor_begin);
    g_free(engine->successors);
    g_free(engine->lane_ops);
    for (int slot = 0; slot < MW_STEP_SLOTS; slot++)
        g_free(engine->pending[slot]);
    g_free(engine->lanes);
    g_free(engine->lane_queue);
    g_free(engine->flows);
    g_free(engine->matches);
}
