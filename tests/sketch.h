/*
 * sketch.h - random small plans for tests, with an oracle of their own.
 *
 * A sketch is a plan that can still be changed: at most 64 ops, so that a set of ops is one word.
 * Its ops are in an order that obeys all edges.  The oracle asks the question of mw_plan_check the
 * slow way: it unrolls two steps and looks at every pair of users of every slot.
 */
#ifndef MW_TESTS_SKETCH_H
#define MW_TESTS_SKETCH_H

#include <glib.h>

#include "plan/plan.h"

#define SKETCH_MAX_OPS 64
#define SKETCH_MAX_DEPS (2 * SKETCH_MAX_OPS)
#define SKETCH_MAX_USES 3
#define SKETCH_MAX_RANKS 3
#define SKETCH_MAX_LANES (SKETCH_MAX_RANKS * 5)
#define SKETCH_MAX_SLOTS (SKETCH_MAX_RANKS * 6)

struct sketch_op {
    uint32_t lane, work, match;
    uint32_t deps[SKETCH_MAX_DEPS], dep_count;
    struct mw_use uses[SKETCH_MAX_USES];
    uint32_t use_count;
};

struct sketch {
    uint32_t ranks;
    struct mw_lane lanes[SKETCH_MAX_LANES];
    uint32_t lane_count;
    struct mw_slot slots[SKETCH_MAX_SLOTS];
    uint32_t slot_count;
    struct sketch_op ops[SKETCH_MAX_OPS];
    uint32_t op_count;
    struct mw_tier_info tiers[MW_TIER_COUNT];
};

enum { SKETCH_WORK_COMPUTE, SKETCH_WORK_GATHER, SKETCH_WORK_COMMIT };

/* Ops that are certainly done when an op starts: [0] of the step before, [1] of its own. */
struct sketch_set {
    uint64_t step[2];
};

/* A plan that is safe; with `barriered`, one whose steps are apart. */
void sketch_random(struct sketch *sketch, GRand *random, bool barriered);
struct mw_plan *sketch_build(const struct sketch *sketch);

/* For every op of a second step. */
void sketch_close(const struct sketch *sketch, struct sketch_set done[SKETCH_MAX_OPS]);
bool sketch_is_safe(const struct sketch *sketch);
bool sketch_is_barriered(const struct sketch *sketch);

#endif
