#include <stdlib.h>

#include "plan/check.h"
#include "plan/clock.h"
#include "plan/internal.h"

/*
 * A plan is barriered by its commit: one op per program, all with one match if there are several
 * programs.  Every other op of the step is done before the commit, and every op of the next step
 * starts after it.
 */

/* The last commit of each of the clock's programs, or MW_NONE if it has none. */
static uint32_t *
find_commits(const struct mw_plan *plan, const struct mw_plan_clock *clock)
{
    uint32_t *commits = mw_plan_allocate(clock->program_count, sizeof *commits);

    for (uint32_t i = 0; i < clock->program_count; i++)
        commits[i] = MW_NONE;
    for (uint32_t i = 0; i < clock->op_count; i++) {
        const struct mw_op *op = &plan->ops[clock->order[i]];

        if (plan->works[op->work].kind == MW_OP_COMMIT)
            commits[clock->program_of_lane[op->lane]] = clock->order[i];
    }
    return commits;
}

/* Adds the commits of some programs to those of the ones before. */
static bool
commits_are_one(const struct mw_plan *plan, const uint32_t *commits, uint32_t program_count,
                struct mw_plan_barrier *barrier)
{
    for (uint32_t i = 0; i < program_count; i++) {
        if (commits[i] == MW_NONE ||
            (barrier->commit != MW_NONE &&
             (plan->ops[commits[i]].match == MW_NONE ||
              plan->ops[commits[i]].match != plan->ops[barrier->commit].match)))
            return false;
        barrier->commit = commits[i];
    }
    return true;
}

static bool
all_are_before(const struct mw_plan *plan, const struct mw_plan_clock *clock,
               const uint32_t *commits)
{
    for (uint32_t i = clock->first_op; i < clock->first_op + clock->op_count; i++) {
        uint32_t commit = commits[clock->program_of_lane[plan->ops[i].lane]];

        if (i != commit && !mw_plan_clock_done_before(clock, i, commit))
            return false;
    }
    return true;
}

/* Whether `index` starts after the commit of the previous step.  `behind` has the answer for
 * earlier ops, from the clock's first on, `lane_behind` for the previous op of the lane. */
static bool
is_behind(const struct mw_plan *plan, const struct mw_plan_clock *clock, uint32_t index,
          uint32_t commit, const bool *behind, const bool *lane_behind)
{
    const struct mw_op *op = &plan->ops[index];

    if (lane_behind[op->lane])
        return true;
    /* The commit is the last op of its lane if all others are done before it. */
    if (op->lane == plan->ops[commit].lane &&
        mw_plan_clock_position(clock, index) >= plan->lanes[op->lane].window_ops)
        return true;
    for (uint32_t i = 0; i < op->dep_count; i++) {
        uint32_t dep = plan->deps[op->dep_begin + i];

        if (dep & MW_DEP_PREVIOUS_STEP ? MW_DEP_INDEX(dep) == commit
                                       : behind[dep - clock->first_op])
            return true;
    }
    return false;
}

static bool
all_are_behind(const struct mw_plan *plan, const struct mw_plan_clock *clock,
               const uint32_t *commits)
{
    bool *behind = mw_plan_allocate(clock->op_count, sizeof *behind);
    bool *lane_behind = mw_plan_allocate(plan->lane_count, sizeof *lane_behind);
    bool all = true;

    for (uint32_t i = 0; i < clock->op_count && all; i++) {
        uint32_t index = clock->order[i];
        uint32_t lane = plan->ops[index].lane;

        all = is_behind(plan, clock, index, commits[clock->program_of_lane[lane]], behind,
                        lane_behind);
        behind[index - clock->first_op] = lane_behind[lane] = all;
    }
    free(behind);
    free(lane_behind);
    return all;
}

bool
mw_plan_finds_barrier(const struct mw_plan *plan, const struct mw_plan_clock *clock,
                      struct mw_plan_barrier *barrier)
{
    uint32_t *commits = find_commits(plan, clock);
    bool found = commits_are_one(plan, commits, clock->program_count, barrier) &&
                 all_are_before(plan, clock, commits) && all_are_behind(plan, clock, commits);

    free(commits);
    return found;
}
