/*
 * lanes.h - a plan on a real clock: every lane issues its ops by the rule of plan/plan.h, and
 * says when each of them started and ended.
 *
 * A thread a lane.  What an op does is the backend's: it does it in place, or starts it and says
 * later, from any thread, that it is done; only then does the lane's window matter, since an op
 * done in place keeps its lane busy.  What is done before an earlier op of its lane counts as done
 * with that, and its time begins there.  Nothing here knows what an op is.
 *
 * A device may order ops by itself: then one op that it runs is queued behind another before that
 * is done, as many as there are, and no thread stands between them.  The rule is the device's to
 * keep among those: it lets an op start when all that it depends on are done, one of a lane after
 * the other.  All else waits here until they are done.  Rows of such ops have the device's clock:
 * where it is off, they keep the rule by as much less.
 *
 * Steps follow one another lane by lane, two in flight at most: no op of a step starts before all
 * ops of the step before the last are done and its rows are taken.  In the first step, edges of
 * distance 1 are met.
 */
#ifndef MW_EXEC_LANES_LANES_H
#define MW_EXEC_LANES_LANES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"

enum mw_exec_outcome {
    MW_EXEC_DONE,
    MW_EXEC_PENDING, /* mw_lanes_done or mw_lanes_fail follows, possibly before this returns */
    MW_EXEC_QUEUED,  /* the same, of an op that the device orders; also mw_lanes_ran */
    MW_EXEC_FAILED,  /* with the error set */
};

struct mw_lanes;

/* `context` is the caller's.  Ops of different lanes run at once. */
struct mw_exec_backend {
    enum mw_exec_outcome (*run)(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step,
                                GError **error);
    void *context;
    /* The run has failed: ops that wait for what may never come now end.  Called once then, in the
     * thread that runs, while ops are in flight.  NULL: none does. */
    void (*stop)(void *context);
    /* Whether an op is one that the device orders: it may be run while others such are queued, in
     * its lane or among those that it depends on.  The same for every step.  NULL: none is. */
    bool (*queues)(void *context, uint32_t op);
    /* When for so long no op has ended, the run has failed, and *error names ops in flight: they
     * wait for something that hangs.  0: that may be for ever. */
    int64_t patience_ns;
};

/* How far two times of a device's clock may be off against each other: quartz drifts by some ppm
 * from one mark of it to the next, half a second later (exec/device/cuda/clock.h). */
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

/* In on_step, of its step: when ops of it could begin at the soonest, for until then on_step had
 * the step before the last.  Of the timeline's clock; 0 of the first two. */
int64_t mw_lanes_let_in_ns(const struct mw_lanes *lanes, uint32_t step);

/* Lets no step after `step` begin: the run ends well with it, or before where it is that short. To
 * be called in an op of that step, where a barrier keeps the next one from having begun, or of the
 * one before, for of three steps no two are in flight with the third. */
void mw_lanes_end_with(struct mw_lanes *lanes, uint32_t step);

/* Of its time so far, an op that runs has waited so long for other ranks: it begins that much later
 * in the step's rows, since waiting is not work.  Any thread, before the op ends. */
void mw_lanes_waited(struct mw_lanes *lanes, uint32_t op, uint32_t step, int64_t waited_ns);

/* A pending op has ended.  Any thread; fail takes the error. */
void mw_lanes_done(struct mw_lanes *lanes, uint32_t op, uint32_t step);
void mw_lanes_fail(struct mw_lanes *lanes, uint32_t op, uint32_t step, GError *error);
/* As done, of one that ran from start_ns to end_ns of the monotonic clock. */
void mw_lanes_ran(struct mw_lanes *lanes, uint32_t op, uint32_t step, int64_t start_ns,
                  int64_t end_ns);

#endif
