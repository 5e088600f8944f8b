/*
 * lanes.h - a plan on a real clock: every lane issues its ops by the rule of plan/plan.h, and
 * says when each of them started and ended.
 *
 * Each lane has a thread, which stays from run to run (crew.h).  The backend carries ops out: in
 * place, or it starts an op and reports its end later, from any thread.  Only in the second case
 * does the lane's window matter, since an op done in place keeps its lane busy.  An op that
 * finishes before an earlier op of its lane counts as done when that one is done, and its time
 * begins then.  Nothing here knows what an op is.
 *
 * A device may order ops by itself: then its ops are queued one behind another before they are
 * done, as many as there are, and no host thread wakes up in between.  Among these ops the device
 * keeps the rule: it starts an op when all that the op depends on are done, and ops of one lane one
 * after the other.  All other ops wait here until their dependencies are done.  Rows of such ops
 * have the device's clock: they keep the rule to within that clock's error.
 *
 * Steps follow one another lane by lane, two in flight at most: no op of a step starts before all
 * ops of the step before the last are done and its rows are taken.  In the first step, edges of
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
    MW_EXEC_QUEUED,  /* the same, of an op that the device orders; also mw_lanes_done_at */
    MW_EXEC_FAILED,  /* with the error set */
};

struct mw_lanes;

/* `context` is the caller's.  Ops of different lanes run at once. */
struct mw_exec_backend {
    enum mw_exec_outcome (*run)(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step,
                                GError **error);
    void *context;
    /* Called once when the run has failed and ops are in flight, in the thread of mw_lanes_run: ops
     * that wait for what may never come must end now.  NULL: no op waits so. */
    void (*stop)(void *context);
    /* Whether the device orders this op, in every step alike: it may be run while other such ops of
     * its lane, or such ops that it depends on, are still queued.  NULL: the device orders none. */
    bool (*queues)(void *context, uint32_t op);
    /* The run fails if no op ends for so long: something hangs, and *error names the ops in flight.
     * 0: never. */
    int64_t patience_ns;
    /* Whose threads run the lanes, borrowed; NULL: their own. */
    struct mw_crew *crew;
};

/* How far apart two times of a device's clock may be for one event: quartz drifts by some ppm from
 * one mark of the clock to the next, half a second later (exec/device/cuda/clock.h). */
#define MW_LANES_CLOCK_SLACK_NS 50000

/* Of one step: op_count rows, sorted by op; times from the start of the run, monotonic clock.
 * Called in the thread that runs, before the step after the next begins.  False ends the run. */
typedef bool (*mw_lanes_step)(void *data, uint32_t step, const struct mw_timeline *timeline,
                              GError **error);

/* The plan is borrowed.  NULL with an error for a plan that is not checked, or that has programs of
 * several ranks: a process is one rank. */
struct mw_lanes *mw_lanes_new(const struct mw_plan *plan, struct mw_exec_backend backend,
                              GError **error);
void mw_lanes_free(struct mw_lanes *lanes); /* NULL is allowed */

/* Runs steps [0, steps).  After a failure no further op starts; those in flight end first. */
bool mw_lanes_run(struct mw_lanes *lanes, uint32_t steps, mw_lanes_step on_step, void *data,
                  GError **error);

/* For on_step: the earliest time at which ops of its step could begin, because on_step was still
 * busy with the step before the last.  On the timeline's clock; 0 for the first two steps. */
int64_t mw_lanes_let_in_ns(const struct mw_lanes *lanes, uint32_t step);

/* Lets no step after `step` begin: the run then ends with success, earlier if it has fewer steps.
 * To be called in an op of `step` where a barrier keeps the next step from having begun, or in an
 * op of the step before it, since no more than two steps are in flight. */
void mw_lanes_end_with(struct mw_lanes *lanes, uint32_t step);

/* The running op has spent so much of its time waiting for other ranks: it begins that much later
 * in the step's rows, since waiting is not work.  Any thread, before the op ends. */
void mw_lanes_add_wait(struct mw_lanes *lanes, uint32_t op, uint32_t step, int64_t waited_ns);

/* A pending op has ended.  Any thread; fail takes the error. */
void mw_lanes_done(struct mw_lanes *lanes, uint32_t op, uint32_t step);
void mw_lanes_fail(struct mw_lanes *lanes, uint32_t op, uint32_t step, GError *error);
/* The same as mw_lanes_done, for an op that ran from start_ns to end_ns of the monotonic clock. */
void mw_lanes_done_at(struct mw_lanes *lanes, uint32_t op, uint32_t step, int64_t start_ns,
                      int64_t end_ns);

#endif
