/*
 * engine.h - the event engine: when every op of a checked plan would run.
 *
 * The engine is a binary heap on (time, work), in int64 nanoseconds.  An op starts by the rule in
 * plan/plan.h.  When its latency has passed and it is first in its lane, it moves at a speed in (0,
 * 1] of its uncontended rate.  A lane's window counts work.bytes.  Channels share by max-min
 * fairness on the share of the channel that a rank draws (progressive filling; the model of
 * SimGrid's LMM solver): no op gets less than an equal share unless it asks for less.  Only ops
 * that share an oversubscribed channel are recomputed, once for everything that happens at one
 * instant.  A channel with room for all its ops costs next to nothing.
 *
 * Ops of different ranks with equal `match` (a number below op_count) start moving when all have
 * arrived, and are done together.
 *
 * Steps follow one another lane by lane.  Two are in flight at most: no op of a step starts before
 * all ops of the step before the last are done.  In the first step, edges of distance 1 count as
 * met.
 *
 * Where a plan without sections repeats itself from micro-batch to micro-batch, and so does the
 * state of the run, the micro-batches up to the last that is alike are not run one by one: their
 * rows are those of the ones before, moved in time (engine_periods.c).  No figure of the result
 * depends on whether this was done.
 *
 * The same input gives the same output, bit for bit.
 */
#ifndef MW_SIM_ENGINE_H
#define MW_SIM_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"
#include "sim/cost.h"

struct mw_engine_options {
    uint32_t steps;     /* 0: as many as the steady state needs (1 if plan->barriered, else 3) */
    bool keep_timeline; /* keep the timeline of the last step */
    bool skip_nothing;  /* run every micro-batch, even where they repeat each other */
};

struct mw_engine_result {
    int64_t first_step_ns; /* end of step 0 */
    int64_t step_ns;       /* steady state: end of the last step minus end of the step before */
    uint64_t ops_done;
    int64_t rounds_skipped; /* rounds of sections that are skipped, as they repeat earlier rounds */
    int64_t rounds_by_mean; /* rounds of sections that take the mean of the last rounds, as no state
                             * recurred */
    uint64_t ops_repeated;  /* of the ops that are done, those that were not run one by one */
    int64_t period_ns; /* after which the state was the same again, as long as ops are alike; */
    uint32_t period_micro_batches; /* so many further on in all lanes.  0: no state recurred */
    uint64_t reshares;             /* number of times that speeds were recomputed */
    int64_t *lane_busy_ns;   /* [lane_count] time in which the lane has an op of the last step in
                             * flight that waits neither for its match nor for its turn */
    double *channel_busy_ns; /* [channel_count] integral of the share used by one step's ops */
    struct mw_timeline timeline; /* empty unless kept; rows sorted by op.  Skipped rounds have no
                                  * rows: the timeline is of a shorter step */
};

/* Refuses (returns false, one line in `why`) a plan that is not checked, and a plan whose time
 * overflows. The caller clears the result, which is empty after a refusal. A row starts when the op
 * is first in its lane; for a match, that is before it moves.  An op that waits in a queue does not
 * work. */
bool mw_engine_run(const struct mw_plan *plan, const struct mw_costs *costs,
                   struct mw_engine_options options, struct mw_engine_result *result, char *why,
                   size_t why_size);

/* What runs of a plan have in common, whatever its ops cost; it borrows the plan.  NULL with a line
 * in `why` if the plan is refused. */
struct mw_engine_graph *mw_engine_graph_new(const struct mw_plan *plan, char *why, size_t why_size);
void mw_engine_graph_free(struct mw_engine_graph *graph); /* NULL is allowed */
bool mw_engine_run_graph(const struct mw_engine_graph *graph, const struct mw_costs *costs,
                         struct mw_engine_options options, struct mw_engine_result *result,
                         char *why, size_t why_size);
void mw_engine_result_clear(struct mw_engine_result *result);

#endif
