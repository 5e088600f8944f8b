/*
 * engine.h - the event engine: when every op of a checked plan would run.
 *
 * A binary heap on (time, sequence), int64 nanoseconds.  An op starts by the rule in
 * planner/plan.h; while it runs it moves at a speed in (0, 1] of its uncontended rate.
 * Channels share by max-min fairness on the share of the channel that an op draws (progressive
 * filling; the model of SimGrid's LMM solver): nobody gets less than an equal share unless it asks
 * for less.  Only ops that share an oversubscribed channel are recomputed; a stale completion is
 * dropped by its generation number.  A channel with room for all its ops costs nothing.
 *
 * Ops of different ranks with equal `match` start moving when all have arrived and are done
 * together.
 *
 * The same input gives the same output, bit for bit.
 */
#ifndef MW_SIM_ENGINE_H
#define MW_SIM_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "planner/plan.h"
#include "sim/cost.h"

struct mw_engine_options {
    uint32_t steps;     /* 0: as many as the steady state needs (1 if plan->barriered, else 3) */
    bool keep_timeline; /* of the last step */
};

struct mw_engine_result {
    int64_t first_step_ns;   /* end of step 0 */
    int64_t step_ns;         /* steady state: end of the last step less end of the one before */
    uint64_t ops_done;
    uint64_t reshares;       /* how often speeds were recomputed */
    int64_t *lane_busy_ns;   /* [lane_count] last step: time in which the lane has an op in flight */
    double *channel_busy_ns; /* [channel_count] last step: integral of the used share */
    struct mw_timeline timeline; /* empty unless kept; rows sorted by op */
};

/* Refuses (returns false, one line in `why`) an unchecked plan, and one on which time overflows.
 * The caller clears the result; it is empty after a refusal. */
bool mw_engine_run(const struct mw_plan *plan, const struct mw_costs *costs,
                   struct mw_engine_options options, struct mw_engine_result *result, char *why,
                   size_t why_size);
void mw_engine_result_clear(struct mw_engine_result *result);

#endif
