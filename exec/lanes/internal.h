/* internal.h - declarations that the files of the lanes share. */
#ifndef MW_EXEC_LANES_INTERNAL_H
#define MW_EXEC_LANES_INTERNAL_H

#include <pthread.h> /* the thread sanitizer sees these locks, but not those of GLib */

#include "exec/lanes/crew.h"
#include "exec/lanes/lanes.h"

/* The most steps in flight.  Each has rows of its own. */
#define MW_LANES_STEPS_AT_ONCE 2

struct mw_lanes_lane {
    struct mw_lanes *all;
    uint32_t index;
    uint32_t *ops; /* in plan order */
    uint32_t op_count;
    uint32_t oldest, oldest_step; /* the first op, in `ops`, that has not ended */
    int64_t ended_ns;             /* when the op before `oldest` ended */
    uint32_t in_flight;           /* ops in flight, except those that the device orders */
    int64_t in_flight_bytes;
    uint32_t queued;          /* ops in flight that the device orders */
    pthread_cond_t wake;      /* the op that the lane waits for may start, or the run has failed */
    uint32_t next, next_step; /* the op that the lane waits for */
    bool waits;
};

struct mw_lanes {
    const struct mw_plan *plan;
    uint32_t op_count; /* of the unfolded plan */
    struct mw_exec_backend backend;
    struct mw_lanes_lane *lanes; /* [plan->lane_count] */
    uint32_t *lane_ops;
    struct mw_crew *crew;
    bool owns_crew;

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* wakes the caller: a step is done, the run has failed, or an op of a
                             * failed run is done */
    uint32_t *through;      /* [op_count] number of steps in which the op has done its work */
    uint32_t *ended;  /* [op_count] number of steps in which it and all ops before it in its lane
                       * are done */
    uint32_t *queued; /* [op_count] number of steps in which it was queued on the device */
    uint32_t *left;   /* [MW_LANES_STEPS_AT_ONCE] number of ops of the step that are not done */
    struct mw_timeline_row *rows[MW_LANES_STEPS_AT_ONCE];
    int64_t *last_end_ns;  /* [op_count] ends in this run's step whose rows were taken last */
    uint32_t steps, taken; /* steps of this run; steps whose rows were taken */
    /* When the rows of the step before the last were taken, in this run. */
    int64_t let_in_ns[MW_LANES_STEPS_AT_ONCE];
    int64_t origin_ns;
    int64_t moved_ns; /* when an op last ended or rows were last taken, by mw_clock_now_ns */
    bool ends, failed;
    GError *error;
};

/* --- lanes.c --- */

/* --- exec/lanes/ops.c: call these with the mutex held --- */
/* Whether no more ops of the step will start. */
bool mw_lanes_is_over(const struct mw_lanes *lanes, uint32_t step);
/* Fails the run and takes ownership of the error.  Only the first failure is reported. */
void mw_lanes_give_up(struct mw_lanes *lanes, GError *error);
/* Wakes the lanes that can continue or have ended.  Waking all lanes would take cores from those
 * that compute. */
void mw_lanes_wake(struct mw_lanes *lanes);

/* The thread function of a lane, a struct mw_lanes_lane.  Call without the mutex. */
gpointer mw_lanes_run_lane(gpointer lane);

/* --- exec/lanes/rows.c --- */
/* Moves the times of rows that break the rule by no more than the clocks' error.  Keeps the ends
 * for the next step. */
void mw_lanes_order_rows(const struct mw_lanes *lanes, struct mw_timeline_row *rows);

#endif
