/*
 * two_ranks.h - a good plan to spoil.
 *
 * Two ranks alike.  A lane that reads drives (several at once) fills buffers, the compute lane uses
 * them, a collective lane joins the ranks, and a commit ends the step.
 */
#ifndef MW_TESTS_TWO_RANKS_H
#define MW_TESTS_TWO_RANKS_H

#include "plan/plan.h"

/* Indices of rank 0; rank 1 has the same lanes, slots and ops once more. */
enum { LANE_READ, LANE_COMPUTE, LANE_COLLECTIVE, LANES };
enum { SLOT_BUFFER0, SLOT_BUFFER1, SLOT_STATE, SLOT_EMPTY, SLOTS };
enum {
    OP_READ0,
    OP_READ1,
    OP_COMPUTE0,
    OP_COMPUTE1,
    OP_READ2,
    OP_COMPUTE2,
    OP_GATHER0,
    OP_GATHER1,
    OP_COMMIT,
    OPS
};
enum { WORK_READ, WORK_COMPUTE, WORK_GATHER, WORK_COMMIT, WORK_SEND, WORK_RECV, WORK_GATHER_MORE };

struct mw_plan *two_ranks_new(void);

#endif
