#include <stdlib.h>
#include <string.h>

#include "plan/check.h"
#include "plan/internal.h"

/*
 * Runs the plan without a clock.  Each lane waits before its head, the first of its ops that is not
 * done, until the head's dependencies are done and all members of its match wait before theirs.  An
 * op that is never done is on a cycle, or depends on one.
 *
 * Lane order counts in full, even where the window lets two ops start.  They end in order, and the
 * members of collectives must not depend on the width of a window.
 */
struct walk {
    const struct mw_plan *plan;
    const struct mw_plan_matches *matches;
    uint32_t *order;
    uint32_t done_count;
    bool *done;             /* [op_count] */
    uint32_t *next;         /* [op_count] next op of the same lane */
    uint32_t *head;         /* [lane_count] op, or MW_NONE when the lane has no more ops */
    uint8_t *deps_done;     /* [lane_count] done dependencies of the head */
    uint32_t *waits_for;    /* [lane_count] op that the head waits for; MW_NONE if it waits for its
                             * match */
    uint32_t *first_waiter; /* [op_count] first lane that waits for the op */
    uint32_t *next_waiter;  /* [lane_count] next lane that waits for the same op */
    uint32_t *arrived;      /* [matches->count] members whose dependencies are done */
    uint32_t *stack;        /* lanes to look at, each at most once */
    uint32_t stack_count;
};

static void
walk_init(struct walk *walk, struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;

    walk->plan = plan;
    walk->matches = &check->matches;
    walk->order = check->order = mw_plan_allocate(plan->op_count, sizeof *walk->order);
    walk->done = mw_plan_allocate(plan->op_count, sizeof *walk->done);
    walk->next = mw_plan_allocate(plan->op_count, sizeof *walk->next);
    walk->head = mw_plan_allocate_nones(plan->lane_count);
    walk->deps_done = mw_plan_allocate(plan->lane_count, sizeof *walk->deps_done);
    walk->waits_for = mw_plan_allocate_nones(plan->lane_count);
    walk->first_waiter = mw_plan_allocate_nones(plan->op_count);
    walk->next_waiter = mw_plan_allocate(plan->lane_count, sizeof *walk->next_waiter);
    walk->arrived = mw_plan_allocate(check->matches.count, sizeof *walk->arrived);
    walk->stack = mw_plan_allocate(plan->lane_count, sizeof *walk->stack);
    for (uint32_t op = plan->op_count; op-- > 0;) {
        uint32_t lane = plan->ops[op].lane;
        walk->next[op] = walk->head[lane];
        walk->head[lane] = op;
    }
    for (uint32_t lane = 0; lane < plan->lane_count; lane++)
        walk->stack[walk->stack_count++] = lane;
}

static void
walk_clear(struct walk *walk)
{
    free(walk->done);
    free(walk->next);
    free(walk->head);
    free(walk->deps_done);
    free(walk->waits_for);
    free(walk->first_waiter);
    free(walk->next_waiter);
    free(walk->arrived);
    free(walk->stack);
}

/* Removes the head from its lane and looks again at the lanes that waited for it. */
static void
finish(struct walk *walk, uint32_t op)
{
    uint32_t lane = walk->plan->ops[op].lane;

    walk->order[walk->done_count++] = op;
    walk->done[op] = true;
    walk->head[lane] = walk->next[op];
    walk->deps_done[lane] = 0;
    for (lane = walk->first_waiter[op]; lane != MW_NONE; lane = walk->next_waiter[lane]) {
        walk->waits_for[lane] = MW_NONE;
        walk->stack[walk->stack_count++] = lane;
    }
}

/* Whether the head's dependencies are done.  If not, the lane waits for the first that is not. */
static bool
deps_are_done(struct walk *walk, uint32_t lane)
{
    const struct mw_op *op = &walk->plan->ops[walk->head[lane]];

    for (; walk->deps_done[lane] < op->dep_count; walk->deps_done[lane]++) {
        uint32_t dep = walk->plan->deps[op->dep_begin + walk->deps_done[lane]];

        if ((dep & MW_DEP_PREVIOUS_STEP) || walk->done[dep])
            continue;
        walk->waits_for[lane] = dep;
        walk->next_waiter[lane] = walk->first_waiter[dep];
        walk->first_waiter[dep] = lane;
        return false;
    }
    return true;
}

/* The last member to arrive finishes all of them.  Returns true if this lane's op was the last. */
static bool
arrive(struct walk *walk, uint32_t lane, uint32_t match)
{
    const struct mw_plan_matches *matches = walk->matches;
    uint32_t begin = matches->begin[match], end = matches->begin[match + 1];

    if (++walk->arrived[match] < end - begin)
        return false;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t other = walk->plan->ops[matches->members[i]].lane;

        finish(walk, matches->members[i]);
        if (other != lane)
            walk->stack[walk->stack_count++] = other;
    }
    return true;
}

static void
advance(struct walk *walk, uint32_t lane)
{
    while (walk->head[lane] != MW_NONE && deps_are_done(walk, lane)) {
        uint32_t op = walk->head[lane];
        uint32_t match = walk->matches->count ? walk->matches->of_op[op] : MW_NONE;

        if (match == MW_NONE)
            finish(walk, op);
        else if (!arrive(walk, lane, match))
            return;
    }
}

/* The op that a blocked lane waits for: a dependency, or a member that did not arrive. */
static uint32_t
find_blocker(const struct walk *walk, uint32_t lane)
{
    const struct mw_plan_matches *matches = walk->matches;
    uint32_t match;

    if (walk->waits_for[lane] != MW_NONE)
        return walk->waits_for[lane];
    match = matches->of_op[walk->head[lane]];
    for (uint32_t i = matches->begin[match]; i < matches->begin[match + 1]; i++) {
        uint32_t member = matches->members[i];
        uint32_t other = walk->plan->ops[member].lane;

        if (walk->head[other] != member || walk->waits_for[other] != MW_NONE)
            return member;
    }
    return MW_NONE;
}

/* Follows blocked lanes, each to the one it waits for, until a lane comes up again. */
static bool
explain_cycle(struct mw_plan_check *check, const struct walk *walk)
{
    const struct mw_plan *plan = check->plan;
    uint32_t lane = 0, blocker;

    while (walk->head[lane] == MW_NONE)
        lane++;
    for (uint32_t i = 0; i < plan->lane_count; i++)
        lane = plan->ops[find_blocker(walk, lane)].lane;
    blocker = find_blocker(walk, lane);
    return mw_plan_refuse(check, "cycle: %s of lane %u waits for %s of lane %u, which waits for it",
                          mw_plan_label_op(check, walk->head[lane]).text, lane,
                          mw_plan_label_op(check, blocker).text, plan->ops[blocker].lane);
}

static bool
check_programs_apart(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;

    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];

        for (uint32_t j = 0; j < op->dep_count; j++) {
            uint32_t dep = MW_DEP_INDEX(plan->deps[op->dep_begin + j]);

            if (plan->lanes[plan->ops[dep].lane].program != plan->lanes[op->lane].program)
                return mw_plan_refuse(check,
                                      "%s of program %u depends on op %u of program %u: only a "
                                      "match joins programs",
                                      mw_plan_label_op(check, i).text,
                                      plan->lanes[op->lane].program, mw_plan_named_op(check, dep),
                                      plan->lanes[plan->ops[dep].lane].program);
        }
    }
    return true;
}

static uint32_t
program_of(const struct mw_plan *plan, uint32_t op)
{
    return plan->lanes[plan->ops[op].lane].program;
}

/* Where each program's ops begin in an order by program.  Returns whether they lie side by side in
 * the plan too. */
static bool
find_programs(const struct mw_plan *plan, uint32_t *begin)
{
    bool apart = true;

    for (uint32_t op = 0; op < plan->op_count; op++) {
        begin[program_of(plan, op) + 1]++;
        apart = apart && (!op || program_of(plan, op - 1) <= program_of(plan, op));
    }
    for (uint32_t p = 0; p < plan->program_count; p++)
        begin[p + 1] += begin[p];
    return apart;
}

/* Sorts the order by program, and leaves each program's as it is: no edge joins programs, and the
 * checks that go through the order have a program's ops and slots at hand all the while. */
static void
group_by_program(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    uint32_t programs = plan->program_count;

    if (programs == 1)
        return;
    uint32_t *grouped = mw_plan_allocate(plan->op_count, sizeof *grouped);
    uint32_t *begin = mw_plan_allocate(programs + 1, sizeof *begin);
    uint32_t *place = mw_plan_allocate(programs + 1, sizeof *place);
    bool apart = find_programs(plan, begin);
    memcpy(place, begin, (programs + 1) * sizeof *place);
    for (uint32_t i = 0; i < plan->op_count; i++)
        grouped[place[program_of(plan, check->order[i])]++] = check->order[i];
    free(place);
    free(check->order);
    check->order = grouped;
    if (apart)
        check->program_begin = begin;
    else
        free(begin);
}

bool
mw_plan_check_order(struct mw_plan_check *check)
{
    struct walk walk = {0};
    bool good;

    if (!check_programs_apart(check))
        return false;
    walk_init(&walk, check);
    while (walk.stack_count)
        advance(&walk, walk.stack[--walk.stack_count]);
    good = walk.done_count == check->plan->op_count || explain_cycle(check, &walk);
    walk_clear(&walk);
    if (good)
        group_by_program(check);
    return good;
}
