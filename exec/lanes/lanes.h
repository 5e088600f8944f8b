/*
 * lanes.h - runs a plan on a real clock: every lane issues its ops by the rule of plan/plan.h, and
 * says when each of them started and ended.
 *
 * Each lane has a thread, which stays from run to run (crew.h).  The backend executes an op in
 * place, or starts it and reports its end later, from any thread.  Only in the second case does the
 * lane's window matter, since an op executed in place keeps its lane busy.  An op that finishes
 * before an earlier op of its lane counts as done when that one is done, and its time begins then.
 * The lanes do not know what an op is.
 *
 * Ops have their numbers of the unfolded plan: what a section says once is not unfolded.
 *
 * A device may order ops by itself.  Then its ops are queued one behind the other before they are
 * done, without a limit, and no host thread wakes up in between.  Among these ops the device keeps
 * the rule: it starts an op when all its dependencies are done, and the ops of one lane one after
 * the other.  All other ops wait here until their dependencies are done.  Rows of such ops have
 * times of the device's clock: they keep the rule to within that clock's error.
 *
 * Steps follow one another lane by lane, with at most two in flight: no op of a step starts before
 * all ops of the step before the last are done and its rows are taken.  In the first step, edges of
 * distance 1 count as met.
 */
#ifndef MW_EXEC_LANES_LANES_H
#define MW_EXEC_LANES_LANES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/lanes/crew.h"
#include "plan/plan.h"

enum mw_exec_outcome {
    MW_EXEC_DONE,
    MW_EXEC_PENDING, /* mw_lanes_done or mw_lanes_fail follows, possibly before this returns */
    MW_EXEC_QUEUED,  /* the same for an op that the device orders; mw_lanes_done_at may follow
                      * instead */
    MW_EXEC_FAILED,  /* the error is set */
};

struct mw_lanes;

/* `context` belongs to the caller.  Ops of different lanes run at the same time. */
struct mw_exec_backend {
    enum mw_exec_outcome (*run)(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step,
                                GError **error);
    void *context;
    /* Called once if the run fails while ops are in flight, in the thread of mw_lanes_run.  Ops
     * that wait for something that may never come must then end.  NULL if no op waits that way. */
    void (*stop)(void *context);
    /* Whether the device orders this op; the answer is the same in every step.  Such an op may be
     * run while other such ops, of its lane or among its dependencies, are still queued.  NULL if
     * the device orders none. */
    bool (*queues)(void *context, uint32_t op);
    /* The run fails if no op ends for this long: something hangs, and *error names the ops in
     * flight.  0: never. */
    int64_t patience_ns;
    /* The threads that run the lanes, borrowed; NULL: the lanes have their own. */
    struct mw_crew *crew;
};

/* The most that two times of a device's clock may differ for one event: quartz drifts by some ppm
 * from one mark of the clock to the next, half a second later (exec/device/cuda/clock.h). */
#define MW_LANES_CLOCK_SLACK_NS 50000

/* Receives one step: a row for each op of the unfolded plan, in their order.  Times count from the
 * start of the run, on the monotonic clock.  Called in the thread of mw_lanes_run, before the step
 * after the next begins.  Returning false ends the run. */
typedef bool (*mw_lanes_step)(void *data, uint32_t step, const struct mw_timeline *timeline,
                              GError **error);

/* Borrows the plan.  Returns NULL with an error for a plan that is not checked, or that has
 * programs of several ranks, since a process is one rank. */
struct mw_lanes *mw_lanes_new(const struct mw_plan *plan, struct mw_exec_backend backend,
                              GError **error);
void mw_lanes_free(struct mw_lanes *lanes); /* NULL is allowed */

/* Runs steps [0, steps).  After a failure no further op starts, and those in flight end first. */
bool mw_lanes_run(struct mw_lanes *lanes, uint32_t steps, mw_lanes_step on_step, void *data,
                  GError **error);

/* For on_step: the earliest time at which ops of its step could begin, since on_step was still busy
 * with the step before the last.  On the timeline's clock; 0 for the first two steps. */
int64_t mw_lanes_let_in_ns(const struct mw_lanes *lanes, uint32_t step);

/* Lets no step after `step` begin.  The run then ends with success, or earlier if it has fewer
 * steps. Call it in an op of `step` if a barrier keeps the next step from having begun, or in an op
 * of the step before it, since no more than two steps are in flight. */
void mw_lanes_end_with(struct mw_lanes *lanes, uint32_t step);

/* Says that the running op has spent this time waiting for other ranks.  In the step's rows it
 * begins that much later, since waiting is not work.  Call it from any thread before the op
 * ends. */
void mw_lanes_add_wait(struct mw_lanes *lanes, uint32_t op, uint32_t step, int64_t waited_ns);

/* Ends a pending op.  Any thread may call these; fail takes ownership of the error. */
void mw_lanes_done(struct mw_lanes *lanes, uint32_t op, uint32_t step);
void mw_lanes_fail(struct mw_lanes *lanes, uint32_t op, uint32_t step, GError *error);
/* The same as mw_lanes_done, for an op that ran from start_ns to end_ns on the monotonic clock. */
void mw_lanes_done_at(struct mw_lanes *lanes, uint32_t op, uint32_t step, int64_t start_ns,
                      int64_t end_ns);

#endif
