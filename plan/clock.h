/*
 * clock.h - what is certain about the order of two ops, for every timing.  Private to the plan
 * library.
 *
 * Lamport's happened-before with vector clocks (Fidge 1988, Mattern 1989), one entry a lane of the
 * op's program.  From the rule in plan.h: an op starts no earlier than the ops before it in its
 * lane (the last of the step before stands before the first), and when its dependencies are done.
 * Then its lane has room, so that all of its ops but as many as its window holds, with this one,
 * are done; and what is done in a lane, all before it in that lane is.  What goes through a match
 * to other programs and back is not followed: every "yes" is certain, and so is every "no" within a
 * program.
 */
#ifndef MW_PLAN_CLOCK_H
#define MW_PLAN_CLOCK_H

#include "plan/plan.h"

struct mw_plan_clock {
    const struct mw_plan *plan;
    const uint32_t *order;
    uint32_t program_count;    /* programs that have ops */
    uint32_t *program_of_lane; /* [lane_count] from 0 to program_count - 1 */
    uint8_t *column;        /* [lane_count] */
    uint32_t width;         /* columns */
    uint32_t *position;     /* [op_count] place in the op's lane, from 1 */
    uint32_t *last;         /* [lane_count] op, or MW_NONE */
    /* Rows of positions: the last op of each lane that is done when this op starts; 0: none. */
    uint32_t *done;          /* [op_count * width] in the same step */
    uint32_t *done_previous; /* in the step before; NULL before mw_plan_clock_add_previous */
};

/* `order` is a topological order of the ops and is borrowed.  NULL if a program has more than
 * MW_MAX_LANES_PER_RANK lanes with ops. */
struct mw_plan_clock *mw_plan_clock_new(const struct mw_plan *plan, const uint32_t *order);
/* Adds what mw_plan_clock_done_before_next needs. */
void mw_plan_clock_add_previous(struct mw_plan_clock *clock);
void mw_plan_clock_free(struct mw_plan_clock *clock);

/* Whether `first` is done before `second` of the same step (of the next step) starts. */
bool mw_plan_clock_done_before(const struct mw_plan_clock *clock, uint32_t first, uint32_t second);
bool mw_plan_clock_done_before_next(const struct mw_plan_clock *clock, uint32_t first,
                                    uint32_t second);

#endif
