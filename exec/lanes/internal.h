/* internal.h - what the files of the lanes share. */
#ifndef MW_EXEC_LANES_INTERNAL_H
#define MW_EXEC_LANES_INTERNAL_H

#include <pthread.h> /* whose locks the thread sanitizer sees; those of GLib it does not */

#include "exec/lanes/crew.h"
#include "exec/lanes/lanes.h"

/* Steps in flight at most; their rows are kept apart. */
#define MW_LANES_STEPS_AT_ONCE 2

struct mw_lanes_lane {
    struct mw_lanes *all;
    uint32_t index;
    uint32_t *ops; /* in plan order */
    uint32_t op_count;
    uint32_t oldest, oldest_step; /* the first op, in `ops`, that has not ended */
    int64_t ended_ns;             /* when the one before it did */
    uint32_t in_flight;           /* without those that the device orders */
    int64_t in_flight_bytes;
    uint32_t queued;          /* those that the device orders */
    pthread_cond_t wake;      /* the op that it waits for may start, or the run has failed */
    uint32_t next, next_step; /* that op, while it waits */
    bool waits;
};

struct mw_lanes {
    const struct mw_plan *plan;
    struct mw_exec_backend backend;
    struct mw_lanes_lane *lanes; /* [plan->lane_count] */
    uint32_t *lane_ops;
    struct mw_crew *crew;
    bool owns_crew;

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* for the caller: a step is done, the run has failed, or at its end
                               an op is done */
    uint32_t *through;      /* [op_count] steps in which the op has done its work */
    uint32_t *ended;  /* [op_count] steps in which it is done, and all before it in its lane */
    uint32_t *queued; /* [op_count] steps in which it was queued on the device */
    uint32_t *left;   /* [MW_LANES_STEPS_AT_ONCE] ops of the step that are not done */
    struct mw_timeline_row *rows[MW_LANES_STEPS_AT_ONCE];
    int64_t *last_end_ns;  /* [op_count] ends in the step whose rows were taken last; of this run */
    uint32_t steps, taken; /* of this run; steps whose rows were taken */
    /* When they were of the step before the last; of this run. */
    int64_t let_in_ns[MW_LANES_STEPS_AT_ONCE];
    int64_t origin_ns;
    int64_t moved_ns; /* when an op last ended or rows were last taken; mw_lanes_clock_ns */
    bool ends, failed;
    GError *error;
};

/* --- lanes.c --- */
/* Of the monotonic clock, which moved_ns is of. */
int64_t mw_lanes_clock_ns(void);

/* --- exec/lanes/ops.c: with the mutex --- */
/* No op of the step starts any more. */
bool mw_lanes_is_over(const struct mw_lanes *lanes, uint32_t step);
/* Takes the error; the first failure is the one that is reported. */
void mw_lanes_give_up(struct mw_lanes *lanes, GError *error);
/* Wakes the lanes that can go on or have come to their end.  Waking all of them, only to find that
 * they cannot, would take cores from those that compute. */
void mw_lanes_wake(struct mw_lanes *lanes);

/* Without the mutex: the thread of a lane, a struct mw_lanes_lane. */
gpointer mw_lanes_run_lane(gpointer lane);

/* --- exec/lanes/rows.c --- */
/* Where a step's rows break the rule by no more than the clocks' error, moves their times.  Keeps
 * their ends for the step after it. */
void mw_lanes_order_rows(const struct mw_lanes *lanes, struct mw_timeline_row *rows);

#endif
