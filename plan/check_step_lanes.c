/*
 * Each op is in a lane of the hardware that executes it, and ranks meet in lanes that are alike.
 *
 * An executor has a thread for each lane, and messages of its own for each kind and index.  So ops
 * that meet wait for each other only where they are in lanes of the same index; and two lanes that
 * are the same one, or messages between two stages in two lanes, have no order.
 */
#include <stdlib.h>

#include "plan/check_step.h"
#include "plan/internal.h"

/* A send or recv goes on towards later stages or back. */
enum way { SEND_ON, SEND_BACK, RECV_ON, RECV_BACK, WAY_COUNT };

static const struct mw_work *
work_of(const struct mw_plan *plan, uint32_t op)
{
    return &plan->works[plan->ops[op].work];
}

static const struct mw_lane *
lane_of(const struct mw_plan *plan, uint32_t op)
{
    return &plan->lanes[plan->ops[op].lane];
}

static bool
is_hop(const struct mw_work *work)
{
    return mw_op_traits(work->kind)->joins == MW_JOINS_PAIR;
}

static int
compare_lanes(const void *a, const void *b)
{
    const struct mw_lane *x = *(const struct mw_lane *const *)a;
    const struct mw_lane *y = *(const struct mw_lane *const *)b;

    return x->program != y->program ? (x->program < y->program ? -1 : 1)
           : x->kind != y->kind     ? (int)x->kind - y->kind
           : x->index != y->index   ? (int)x->index - y->index
                                    : (x > y) - (x < y);
}

static bool
are_one(const struct mw_lane *a, const struct mw_lane *b)
{
    return a->program == b->program && a->kind == b->kind && a->index == b->index;
}

static bool
check_lanes(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_lane **sorted = mw_plan_allocate(plan->lane_count, sizeof *sorted);
    bool good = true;

    for (uint32_t l = 0; l < plan->lane_count; l++)
        sorted[l] = &plan->lanes[l];
    qsort(sorted, plan->lane_count, sizeof *sorted, compare_lanes);
    for (uint32_t l = 1; l < plan->lane_count && good; l++)
        if (are_one(sorted[l - 1], sorted[l]))
            good = mw_plan_refuse(check,
                                  "lane %u: program %u has lane %u of the same kind and "
                                  "index: expected another index",
                                  (uint32_t)(sorted[l] - plan->lanes), sorted[l]->program,
                                  (uint32_t)(sorted[l - 1] - plan->lanes));
    free(sorted);
    return good;
}

static bool
check_kinds(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;

    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_lane *lane = lane_of(plan, i);
        int kind = mw_work_lane_kind(work_of(plan, i));
        if (lane->kind != kind)
            return mw_plan_refuse(
                check, "%s: is in lane %u (%s), and %s%s belongs to a lane of %s",
                mw_plan_label(plan, i).text, plan->ops[i].lane, mw_lane_kind_name(lane->kind),
                mw_op_kind_name(work_of(plan, i)->kind),
                work_of(plan, i)->host ? " by the host" : "", mw_lane_kind_name(kind));
    }
    return true;
}

/* `first`: the number of the first op of each way, plus 1, by program; all 0. */
static bool
check_hops(struct mw_plan_check *check, uint32_t *first)
{
    const struct mw_plan *plan = check->plan;

    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_work *work = work_of(plan, i);
        if (!is_hop(work))
            continue;
        enum way way = (work->kind == MW_OP_SEND ? SEND_ON : RECV_ON) + (work->hop < 0);
        uint32_t *other = &first[lane_of(plan, i)->program * WAY_COUNT + way];
        if (!*other)
            *other = i + 1;
        uint32_t same = *other - 1;
        if (plan->ops[same].lane != plan->ops[i].lane)
            return mw_plan_refuse(check,
                                  "%s: is in lane %u, and %s, which goes the same way, in lane %u",
                                  mw_plan_label(plan, i).text, plan->ops[i].lane,
                                  mw_plan_label(plan, same).text, plan->ops[same].lane);
    }
    return true;
}

bool
mw_step_check_lanes(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    uint32_t *first = mw_plan_allocate((size_t)plan->program_count * WAY_COUNT, sizeof *first);
    bool good = check_lanes(check) && check_kinds(check) && check_hops(check, first);

    free(first);
    return good;
}

bool
mw_step_check_meetings(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_plan_matches *matches = &check->matches;

    for (uint32_t m = 0; m < matches->count; m++)
        for (uint32_t i = matches->begin[m] + 1; i < matches->begin[m + 1]; i++) {
            uint32_t one = matches->members[i - 1], other = matches->members[i];
            if (is_hop(work_of(plan, one)) ||
                lane_of(plan, one)->index == lane_of(plan, other)->index)
                continue;
            return mw_plan_refuse(check,
                                  "match %u: %s is in lane %u, of index %u, and %s in lane "
                                  "%u, of index %u: ranks meet in lanes of one index",
                                  plan->ops[one].match, mw_plan_label_op(check, one).text,
                                  plan->ops[one].lane, lane_of(plan, one)->index,
                                  mw_plan_label_op(check, other).text, plan->ops[other].lane,
                                  lane_of(plan, other)->index);
        }
    return true;
}
