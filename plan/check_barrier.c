#include <stdlib.h>

#include "plan/check.h"
#include "plan/clock.h"
#include "plan/internal.h"

/*
 * A plan is barriered by its commit: one op per program, all with one match if there are several
 * programs.  Every other op of the step is done before the commit, and every op of the next step
 * starts after it.
 */

/* The last commit of each program, or MW_NONE if it has none. */
static uint32_t *
find_commits(const struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_plan_clock *clock = check->clock;
    uint32_t *commits = mw_plan_allocate(clock->program_count, sizeof *commits);

    for (uint32_t i = 0; i < clock->program_count; i++)
        commits[i] = MW_NONE;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[check->order[i]];

        if (plan->works[op->work].kind == MW_OP_COMMIT)
            commits[clock->program_of_lane[op->lane]] = check->order[i];
    }
    return commits;
}

static bool
commits_are_one(const struct mw_plan *plan, const uint32_t *commits, uint32_t program_count)
{
    if (!program_count)
        return false;
    for (uint32_t i = 0; i < program_count; i++)
        if (commits[i] == MW_NONE ||
            (program_count > 1 && plan->ops[commits[i]].match == MW_NONE) ||
            plan->ops[commits[i]].match != plan->ops[commits[0]].match)
            return false;
    return true;
}

static bool
all_are_before(const struct mw_plan_check *check, const uint32_t *commits)
{
    const struct mw_plan_clock *clock = check->clock;

    for (uint32_t i = 0; i < check->plan->op_count; i++) {
        uint32_t commit = commits[clock->program_of_lane[check->plan->ops[i].lane]];

        if (i != commit && !mw_plan_clock_done_before(clock, i, commit))
            return false;
    }
    return true;
}

/* Whether `index` starts after the commit of the previous step.  `behind` has the answer for
 * earlier ops, `lane_behind` for the previous op of the lane. */
static bool
is_behind(const struct mw_plan_check *check, uint32_t index, uint32_t commit, const bool *behind,
          const bool *lane_behind)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_op *op = &plan->ops[index];

    if (lane_behind[op->lane])
        return true;
    /* The commit is the last op of its lane if all others are done before it. */
    if (op->lane == plan->ops[commit].lane &&
        check->clock->position[index] >= plan->lanes[op->lane].window_ops)
        return true;
    for (uint32_t i = 0; i < op->dep_count; i++) {
        uint32_t dep = plan->deps[op->dep_begin + i];

        if (dep & MW_DEP_PREVIOUS_STEP ? MW_DEP_INDEX(dep) == commit : behind[dep])
            return true;
    }
    return false;
}

static bool
all_are_behind(const struct mw_plan_check *check, const uint32_t *commits)
{
    const struct mw_plan *plan = check->plan;
    bool *behind = mw_plan_allocate(plan->op_count, sizeof *behind);
    bool *lane_behind = mw_plan_allocate(plan->lane_count, sizeof *lane_behind);
    bool all = true;

    for (uint32_t i = 0; i < plan->op_count && all; i++) {
        uint32_t index = check->order[i];
        uint32_t lane = plan->ops[index].lane;

        all = is_behind(check, index, commits[check->clock->program_of_lane[lane]], behind,
                        lane_behind);
        behind[index] = lane_behind[lane] = all;
    }
    free(behind);
    free(lane_behind);
    return all;
}

bool
mw_plan_find_barrier(const struct mw_plan_check *check)
{
    uint32_t *commits = find_commits(check);
    bool found = commits_are_one(check->plan, commits, check->clock->program_count) &&
                 all_are_before(check, commits) && all_are_behind(check, commits);

    free(commits);
    return found;
}
