/*
 * clock.h - which orders of two ops are certain for every timing.  Private to the plan library.
 *
 * This is Lamport's happened-before with vector clocks (Fidge 1988, Mattern 1989), with one entry
 * per lane of the op's program.  It follows from the rule in plan.h.  An op starts no earlier than
 * the ops before it in its lane (the last op of the previous step comes before the first), and not
 * before its dependencies are done.  Then its lane has room: all of its ops are done except as many
 * as the window holds, this one included.  If an op of a lane is done, all ops before it in that
 * lane are done.  The clock does not follow a match to other programs and back.  So every "yes" is
 * certain, and so is every "no" within a program.
 */
#ifndef MW_PLAN_CLOCK_H
#define MW_PLAN_CLOCK_H

#include "plan/plan.h"

struct mw_plan_clock {
    const struct mw_plan *plan;
    const uint32_t *order;       /* [op_count] */
    uint32_t first_op, op_count; /* the ops it is of */
    uint32_t program_count;      /* number of programs with ops */
    uint32_t *program_of_lane;   /* [lane_count] from 0 to program_count - 1 */
    uint8_t *column;             /* [lane_count] column of the lane in a row */
    uint32_t width;              /* number of columns */
    uint32_t *position;          /* [op_count] place in the op's lane, from 1, of first_op on */
    uint32_t *last;              /* [lane_count] last op of the lane, or MW_NONE */
    /* Rows of positions.  Each entry is the last op of a lane that is done when this op starts; 0
     * if none. */
    uint32_t *done;          /* [op_count * width] for the same step, of first_op on */
    uint32_t *done_previous; /* for the previous step; NULL before mw_plan_clock_add_previous */
};

/* Of all ops of some programs, which lie side by side in the plan.  `order` is a topological order
 * of them and is borrowed.  Returns NULL if a program has more than MW_MAX_LANES_PER_RANK lanes
 * with ops. */
struct mw_plan_clock *mw_plan_clock_new(const struct mw_plan *plan, const uint32_t *order,
                                        uint32_t first_op, uint32_t op_count);
/* An op's place in its lane, from 1. */
static inline uint32_t
mw_plan_clock_position(const struct mw_plan_clock *clock, uint32_t op)
{
    return clock->position[op - clock->first_op];
}
/* Adds the rows that mw_plan_clock_done_before_next needs. */
void mw_plan_clock_add_previous(struct mw_plan_clock *clock);
void mw_plan_clock_free(struct mw_plan_clock *clock);

static inline uint32_t
mw_plan_clock_done_of(const uint32_t *rows, const struct mw_plan_clock *clock, uint32_t lane,
                      uint32_t op)
{
    return rows[(size_t)(op - clock->first_op) * clock->width + clock->column[lane]];
}

/* Whether `first` is done before `second` starts, which is in the same step (or in the next
 * step).  A check asks it for every use of a slot. */
static inline bool
mw_plan_clock_done_before(const struct mw_plan_clock *clock, uint32_t first, uint32_t second)
{
    return mw_plan_clock_done_of(clock->done, clock, clock->plan->ops[first].lane, second) >=
           mw_plan_clock_position(clock, first);
}
bool mw_plan_clock_done_before_next(const struct mw_plan_clock *clock, uint32_t first,
                                    uint32_t second);

#endif
