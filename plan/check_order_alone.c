#include <stdlib.h>

#include "plan/check.h"
#include "plan/internal.h"

/*
 * Of a plan that is only timed, what the engine relies on, in one pass over its ops and without
 * clocks: that no op waits for a later one, and that the commit is a barrier (check_barrier.c).
 */
struct steps {
    const struct mw_plan *plan;
    uint32_t *position; /* [op_count] place in the op's lane, from 1 */
    uint32_t *length;   /* [lane_count] */
    uint32_t
        *started;   /* [lane_count] ops of the lane that have started before the commit starts, */
    uint32_t *done; /* and that are done by then */
};

static struct steps
steps_new(const struct mw_plan *plan)
{
    struct steps steps = {.plan = plan,
                          .position = mw_plan_allocate(plan->op_count, sizeof *steps.position),
                          .length = mw_plan_allocate(plan->lane_count, sizeof *steps.length),
                          .started = mw_plan_allocate(plan->lane_count, sizeof *steps.started),
                          .done = mw_plan_allocate(plan->lane_count, sizeof *steps.done)};

    for (uint32_t i = 0; i < plan->op_count; i++)
        steps.position[i] = ++steps.length[plan->ops[i].lane];
    return steps;
}

static void
steps_clear(struct steps *steps)
{
    free(steps->position);
    free(steps->length);
    free(steps->started);
    free(steps->done);
}

static bool
waits_for_earlier(const struct mw_plan *plan, uint32_t index)
{
    const struct mw_op *op = &plan->ops[index];
    bool earlier = op->match == MW_NONE && op->lane < plan->lane_count &&
                   op->work < plan->work_count &&
                   (uint64_t)op->dep_begin + op->dep_count <= plan->dep_count;

    for (uint32_t i = 0; i < op->dep_count && earlier; i++) {
        uint32_t dep = plan->deps[op->dep_begin + i];
        earlier = MW_DEP_INDEX(dep) < (dep & MW_DEP_PREVIOUS_STEP ? plan->op_count : index);
    }
    return earlier;
}

static void
put_at_least(uint32_t *to, uint32_t by)
{
    *to = by > *to ? by : *to;
}

/* What an op that starts says of ops before it. */
static void
start(struct steps *steps, uint32_t index)
{
    const struct mw_plan *plan = steps->plan;
    const struct mw_op *op = &plan->ops[index];
    uint32_t window = plan->lanes[op->lane].window_ops, position = steps->position[index];

    put_at_least(&steps->done[op->lane], position > window ? position - window : 0);
    for (uint32_t i = 0; i < op->dep_count; i++) {
        uint32_t dep = plan->deps[op->dep_begin + i];
        if (dep & MW_DEP_PREVIOUS_STEP)
            continue;
        put_at_least(&steps->done[plan->ops[dep].lane], steps->position[dep]);
        put_at_least(&steps->started[plan->ops[dep].lane], steps->position[dep]);
    }
}

/* Goes back from the commit, as no op waits for a later one. */
static bool
all_are_before(struct steps *steps, uint32_t commit)
{
    const struct mw_plan *plan = steps->plan;
    uint32_t own = plan->ops[commit].lane;
    bool all = steps->position[commit] == steps->length[own];

    start(steps, commit);
    put_at_least(&steps->started[own], steps->position[commit] - 1);
    for (uint32_t i = plan->op_count; i-- > 0;)
        if (i != commit && steps->position[i] <= steps->started[plan->ops[i].lane])
            start(steps, i);
    for (uint32_t l = 0; l < plan->lane_count; l++)
        all = all && steps->done[l] + (l == own) >= steps->length[l];
    return all;
}

/* Whether an op starts after the commit of the step before; `behind`: whether earlier ops do. */
static bool
is_behind(const struct steps *steps, uint32_t index, uint32_t commit, const bool *behind)
{
    const struct mw_plan *plan = steps->plan;
    const struct mw_op *op = &plan->ops[index];
    bool is = op->lane == plan->ops[commit].lane &&
              steps->position[index] >= plan->lanes[op->lane].window_ops;

    for (uint32_t i = 0; i < op->dep_count && !is; i++) {
        uint32_t dep = plan->deps[op->dep_begin + i];
        is = dep & MW_DEP_PREVIOUS_STEP ? MW_DEP_INDEX(dep) == commit : behind[dep];
    }
    return is;
}

static bool
all_are_behind(const struct steps *steps, uint32_t commit)
{
    const struct mw_plan *plan = steps->plan;
    bool *behind = mw_plan_allocate(plan->op_count, sizeof *behind);
    bool *lane_behind = mw_plan_allocate(plan->lane_count, sizeof *lane_behind);
    bool all = true;

    for (uint32_t i = 0; i < plan->op_count && all; i++) {
        bool *of_lane = &lane_behind[plan->ops[i].lane];
        all = *of_lane = behind[i] = *of_lane || is_behind(steps, i, commit, behind);
    }
    free(behind);
    free(lane_behind);
    return all;
}

static uint32_t
last_commit(const struct mw_plan *plan)
{
    uint32_t commit = plan->op_count;

    while (commit-- > 0)
        if (plan->works[plan->ops[commit].work].kind == MW_OP_COMMIT)
            return commit;
    return MW_NONE;
}

bool
mw_plan_check_order_alone(struct mw_plan *plan)
{
    bool good = plan->program_count == 1 && !plan->section_count;

    for (uint32_t i = 0; i < plan->op_count && good; i++)
        good = waits_for_earlier(plan, i);
    uint32_t commit = good ? last_commit(plan) : MW_NONE;
    if (commit == MW_NONE)
        return false;
    struct steps steps = steps_new(plan);
    good = all_are_before(&steps, commit) && all_are_behind(&steps, commit);
    steps_clear(&steps);
    plan->checked = plan->barriered = good;
    return good;
}
