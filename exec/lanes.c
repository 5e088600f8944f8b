#include "exec/lanes.h"

#include <pthread.h> /* whose locks the thread sanitizer sees; those of GLib it does not */
#include <string.h>
#include <time.h>

#include "exec/thread.h"
#include "planner/error.h"

/* Steps in flight at most; their rows are kept apart. */
#define STEPS_AT_ONCE 2

struct lane {
    struct mw_lanes *all;
    uint32_t index;
    uint32_t *ops; /* in plan order */
    uint32_t op_count;
    uint32_t oldest, oldest_step; /* the first op, in `ops`, that has not ended */
    int64_t ended_ns;             /* when the one before it did */
    uint32_t in_flight;           /* but for those that the device orders */
    int64_t in_flight_bytes;
    uint32_t queued; /* those */
    GThread *thread;
    pthread_cond_t wake;      /* the op that it waits for may start, or the run has failed */
    uint32_t next, next_step; /* that op, while it waits */
    bool waits;
};

struct mw_lanes {
    const struct mw_plan *plan;
    struct mw_exec_backend backend;
    struct lane *lanes; /* [plan->lane_count] */
    uint32_t *lane_ops;

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* for the caller: a step is done, the run has failed, or at its end
                               an op is done */
    uint32_t *through;      /* [op_count] steps in which the op has done its work */
    uint32_t *ended;  /* [op_count] steps in which it is done, and all before it in its lane */
    uint32_t *queued; /* [op_count] steps in which it was queued on the device */
    uint32_t *left;   /* [STEPS_AT_ONCE] ops of the step that are not done */
    struct mw_timeline_row *rows[STEPS_AT_ONCE];
    int64_t *settled_ns; /* [op_count] ends in the step whose rows were taken last; of this run */
    uint32_t steps, taken; /* of this run; steps whose rows were taken */
    int64_t origin_ns;
    int64_t moved_ns; /* when an op ended, or rows were taken, at last; clock_ns */
    bool ends, failed;
    GError *error;
};

static int64_t
clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int64_t
now_ns(const struct mw_lanes *lanes)
{
    return clock_ns() - lanes->origin_ns;
}

/* --- the rule -------------------------------------------------------------------------------- */

static bool
queues(const struct mw_lanes *lanes, uint32_t op)
{
    return lanes->backend.queues && lanes->backend.queues(lanes->backend.context, op);
}

/* What is queued is as good as done for an op that the device orders behind it. */
static bool
dependencies_done(const struct mw_lanes *lanes, const struct mw_op *op, uint32_t step,
                  bool on_device)
{
    const uint32_t *deps = &lanes->plan->deps[op->dep_begin];

    for (uint32_t i = 0; i < op->dep_count; i++) {
        uint32_t dep = MW_DEP_INDEX(deps[i]);
        uint32_t wanted = deps[i] & MW_DEP_PREVIOUS_STEP ? step : step + 1;
        if (lanes->ended[dep] < wanted && !(on_device && lanes->queued[dep] >= wanted))
            return false;
    }
    return true;
}

/* One op is always let in.  Of what is queued the device lets in one after the other. */
static bool
window_has_room(const struct mw_lanes *lanes, const struct lane *lane, const struct mw_op *op,
                bool on_device)
{
    const struct mw_lane *planned = &lanes->plan->lanes[lane->index];
    int64_t bytes = lanes->plan->works[op->work].bytes;

    if (lane->in_flight >= planned->window_ops || (lane->queued && !on_device))
        return false;
    return !lane->in_flight || !planned->window_bytes ||
           lane->in_flight_bytes + bytes <= planned->window_bytes;
}

static bool
may_start(const struct mw_lanes *lanes, const struct lane *lane, uint32_t index, uint32_t step)
{
    const struct mw_op *op = &lanes->plan->ops[index];
    bool on_device = queues(lanes, index);

    return step < lanes->taken + STEPS_AT_ONCE && window_has_room(lanes, lane, op, on_device) &&
           dependencies_done(lanes, op, step, on_device);
}

/* No op of the step starts any more. */
static bool
is_over(const struct mw_lanes *lanes, uint32_t step)
{
    return lanes->failed || step >= lanes->steps;
}

/* Wakes the lanes that can go on, or are at their end.  To wake them all, for each to see that it
 * cannot, would take cores from those that compute. */
static void
wake_lanes(struct mw_lanes *lanes)
{
    for (uint32_t l = 0; l < lanes->plan->lane_count; l++) {
        struct lane *lane = &lanes->lanes[l];

        if (!lane->waits || !(is_over(lanes, lane->next_step) ||
                              may_start(lanes, lane, lane->next, lane->next_step)))
            continue;
        lane->waits = false;
        pthread_cond_signal(&lane->wake);
    }
}

/* --- starts and ends ------------------------------------------------------------------------- */

/* The mutex is held.  The first failure is the one that is told. */
static void
fail(struct mw_lanes *lanes, GError *error)
{
    if (lanes->failed)
        g_clear_error(&error);
    else
        lanes->error = error;
    lanes->failed = true;
}

/* Ops that the device orders have no room of the window. */
static void
count(struct mw_lanes *lanes, uint32_t index, int by)
{
    const struct mw_op *op = &lanes->plan->ops[index];
    struct lane *lane = &lanes->lanes[op->lane];

    if (queues(lanes, index)) {
        lane->queued += by;
        return;
    }
    lane->in_flight += by;
    lane->in_flight_bytes += by * lanes->plan->works[op->work].bytes;
}

/* While others of its lane were before it, an op waited for its turn; that is not its time. */
static void
retire(struct mw_lanes *lanes, struct lane *lane, uint32_t index, uint32_t step)
{
    struct mw_timeline_row *row = &lanes->rows[step % STEPS_AT_ONCE][index];

    row->start_ns = MAX(row->start_ns, lane->ended_ns);
    row->end_ns = lane->ended_ns = MAX(row->start_ns, row->end_ns);
    count(lanes, index, -1);
    if (!lanes->failed) {
        lanes->ended[index] = step + 1;
        lanes->left[step % STEPS_AT_ONCE]--;
    }
    if (++lane->oldest == lane->op_count) {
        lane->oldest = 0;
        lane->oldest_step++;
    }
}

/* In the order in which they started. */
static void
retire_all(struct mw_lanes *lanes, struct lane *lane)
{
    while (lanes->through[lane->ops[lane->oldest]] == lane->oldest_step + 1)
        retire(lanes, lane, lane->ops[lane->oldest], lane->oldest_step);
}

/* A device's clock may be off by a little: no op starts before it was given to the device, nor ends
 * after it was seen to. */
static void
end_op(struct mw_lanes *lanes, uint32_t index, uint32_t step, int64_t start_ns, int64_t end_ns,
       GError *error)
{
    pthread_mutex_lock(&lanes->mutex);
    struct mw_timeline_row *row = &lanes->rows[step % STEPS_AT_ONCE][index];
    row->start_ns = MAX(row->start_ns, start_ns);
    row->end_ns = end_ns;
    if (error)
        fail(lanes, error);
    lanes->through[index] = step + 1;
    lanes->moved_ns = clock_ns();
    retire_all(lanes, &lanes->lanes[lanes->plan->ops[index].lane]);
    wake_lanes(lanes);
    if (lanes->ends || lanes->failed || !lanes->left[step % STEPS_AT_ONCE])
        pthread_cond_signal(&lanes->changed);
    pthread_mutex_unlock(&lanes->mutex);
}

void
mw_lanes_done(struct mw_lanes *lanes, uint32_t op, uint32_t step)
{
    end_op(lanes, op, step, 0, now_ns(lanes), NULL);
}

void
mw_lanes_ran(struct mw_lanes *lanes, uint32_t op, uint32_t step, int64_t start_ns, int64_t end_ns)
{
    end_op(lanes, op, step, start_ns - lanes->origin_ns,
           MIN(end_ns - lanes->origin_ns, now_ns(lanes)), NULL);
}

void
mw_lanes_fail(struct mw_lanes *lanes, uint32_t op, uint32_t step, GError *error)
{
    end_op(lanes, op, step, 0, now_ns(lanes), error);
}

static void
mark_queued(struct mw_lanes *lanes, uint32_t index, uint32_t step)
{
    pthread_mutex_lock(&lanes->mutex);
    lanes->queued[index] = step + 1;
    wake_lanes(lanes);
    pthread_mutex_unlock(&lanes->mutex);
}

void
mw_lanes_waited(struct mw_lanes *lanes, uint32_t op, uint32_t step, int64_t waited_ns)
{
    pthread_mutex_lock(&lanes->mutex);
    lanes->rows[step % STEPS_AT_ONCE][op].start_ns += waited_ns;
    pthread_mutex_unlock(&lanes->mutex);
}

void
mw_lanes_end_with(struct mw_lanes *lanes, uint32_t step)
{
    pthread_mutex_lock(&lanes->mutex);
    lanes->steps = MIN(lanes->steps, step + 1);
    wake_lanes(lanes);
    pthread_mutex_unlock(&lanes->mutex);
}

/* Waits until the op may start; false when the run has failed, or ends before its step. */
static bool
begin_op(struct lane *lane, uint32_t index, uint32_t step)
{
    struct mw_lanes *lanes = lane->all;

    pthread_mutex_lock(&lanes->mutex);
    lane->next = index;
    lane->next_step = step;
    while (!is_over(lanes, step) && !may_start(lanes, lane, index, step)) {
        lane->waits = true;
        pthread_cond_wait(&lane->wake, &lanes->mutex);
    }
    lane->waits = false;
    bool goes = !is_over(lanes, step);
    if (goes) {
        count(lanes, index, 1);
        lanes->rows[step % STEPS_AT_ONCE][index] =
            (struct mw_timeline_row){index, step, now_ns(lanes), 0};
    }
    pthread_mutex_unlock(&lanes->mutex);
    return goes;
}

static bool
issue(struct lane *lane, uint32_t index, uint32_t step)
{
    struct mw_lanes *lanes = lane->all;
    GError *error = NULL;

    if (!begin_op(lane, index, step))
        return false;
    switch (lanes->backend.run(lanes->backend.context, lanes, index, step, &error)) {
    case MW_EXEC_DONE:
        mw_lanes_done(lanes, index, step);
        return true;
    case MW_EXEC_QUEUED:
        mark_queued(lanes, index, step);
        return true;
    case MW_EXEC_PENDING:
        return true;
    default:
        mw_lanes_fail(lanes, index, step, error);
        return false;
    }
}

static gpointer
run_lane(gpointer data)
{
    struct lane *lane = data;

    for (uint32_t step = 0;; step++)
        for (uint32_t i = 0; i < lane->op_count; i++)
            if (!issue(lane, lane->ops[i], step))
                return NULL;
}

/* --- a run ----------------------------------------------------------------------------------- */

static void
start_run(struct mw_lanes *lanes, uint32_t steps)
{
    const struct mw_plan *plan = lanes->plan;

    lanes->steps = steps;
    lanes->taken = 0;
    lanes->ends = lanes->failed = false;
    memset(lanes->through, 0, plan->op_count * sizeof *lanes->through);
    memset(lanes->ended, 0, plan->op_count * sizeof *lanes->ended);
    memset(lanes->queued, 0, plan->op_count * sizeof *lanes->queued);
    for (int i = 0; i < STEPS_AT_ONCE; i++)
        lanes->left[i] = plan->op_count;
    memset(lanes->settled_ns, 0, plan->op_count * sizeof *lanes->settled_ns);
    lanes->origin_ns = lanes->moved_ns = clock_ns();
    for (uint32_t l = 0; l < plan->lane_count; l++) {
        lanes->lanes[l].oldest = lanes->lanes[l].oldest_step = 0;
        lanes->lanes[l].ended_ns = 0;
    }
}

/* No op starts before all lanes have their threads, nor if one has none. */
static void
start_lanes(struct mw_lanes *lanes)
{
    GError *error = NULL;

    pthread_mutex_lock(&lanes->mutex);
    for (uint32_t l = 0; l < lanes->plan->lane_count && !error; l++)
        if (lanes->lanes[l].op_count)
            lanes->lanes[l].thread = mw_thread_start(mw_lane_kind_name(lanes->plan->lanes[l].kind),
                                                     run_lane, &lanes->lanes[l], &error);
    if (error)
        fail(lanes, error);
    pthread_mutex_unlock(&lanes->mutex);
}

/* The oldest op of each lane that has some in flight. */
static char *
list_in_flight(const struct mw_lanes *lanes)
{
    const struct mw_plan *plan = lanes->plan;
    GString *text = g_string_new(NULL);

    for (uint32_t l = 0; l < plan->lane_count; l++) {
        const struct lane *lane = &lanes->lanes[l];
        if (!lane->in_flight && !lane->queued)
            continue;
        const struct mw_op *op = &plan->ops[lane->ops[lane->oldest]];
        const struct mw_work *work = &plan->works[op->work];
        g_string_append_printf(text, "%s%s", text->len ? ", " : "", mw_op_kind_name(work->kind));
        if (work->operator_ != MW_OPERATOR_NONE)
            g_string_append_printf(text, " of %s", mw_operator_name(work->operator_));
        if (op->layer >= 0)
            g_string_append_printf(text, " (layer %d)", op->layer);
    }
    return g_string_free(text, FALSE);
}

/* With the mutex: until something changes, or patience is at its end. */
static void
wait_patiently(struct mw_lanes *lanes)
{
    int64_t end_ns = lanes->moved_ns + lanes->backend.patience_ns;
    struct timespec until = {end_ns / 1000000000, end_ns % 1000000000};

    if (!lanes->backend.patience_ns) {
        pthread_cond_wait(&lanes->changed, &lanes->mutex);
        return;
    }
    pthread_cond_timedwait(&lanes->changed, &lanes->mutex, &until);
    if (lanes->failed || clock_ns() < lanes->moved_ns + lanes->backend.patience_ns)
        return;
    g_autofree char *ops = list_in_flight(lanes);
    fail(lanes,
         g_error_new(
             MW_ERROR, MW_ERROR_DEVICE,
             "no op has ended for %g s; still running: %s; a device, a drive or a rank hangs",
             (double)lanes->backend.patience_ns * 1e-9, *ops ? ops : "no op"));
    wake_lanes(lanes);
}

/* False when the run has failed, or has no such step. */
static bool
wait_for_step(struct mw_lanes *lanes, uint32_t step)
{
    pthread_mutex_lock(&lanes->mutex);
    while (!is_over(lanes, step) && lanes->left[step % STEPS_AT_ONCE])
        wait_patiently(lanes);
    bool good = !is_over(lanes, step);
    pthread_mutex_unlock(&lanes->mutex);
    return good;
}

/* When its time may begin: what it depends on has ended, and the op before it in its lane. */
static int64_t
earliest_start_ns(const struct mw_lanes *lanes, const struct mw_timeline_row *rows,
                  const struct mw_op *op, int64_t lane_end_ns)
{
    int64_t earliest_ns = lane_end_ns;

    for (uint32_t i = 0; i < op->dep_count; i++) {
        uint32_t dep = lanes->plan->deps[op->dep_begin + i], index = MW_DEP_INDEX(dep);
        int64_t end_ns =
            dep & MW_DEP_PREVIOUS_STEP ? lanes->settled_ns[index] : rows[index].end_ns;
        earliest_ns = MAX(earliest_ns, end_ns);
    }
    return earliest_ns;
}

/* Of the lane, in the step before. */
static int64_t
settled_end_ns(const struct mw_lanes *lanes, const struct lane *lane)
{
    return lane->op_count ? lanes->settled_ns[lane->ops[lane->op_count - 1]] : 0;
}

/* Of ops that a device orders, times come from marks of its clock, which drifts between them: an op
 * may seem to start before the end of another that it follows.  It is moved there where that is
 * within the clocks' uncertainty; more than that stays, and is no clock's doing.  False: nothing
 * was moved. */
static bool
move_to_rule(const struct mw_lanes *lanes, struct mw_timeline_row *rows, int64_t *lane_end_ns)
{
    const struct mw_plan *plan = lanes->plan;
    bool moved = false;

    for (uint32_t l = 0; l < plan->lane_count; l++)
        lane_end_ns[l] = settled_end_ns(lanes, &lanes->lanes[l]);
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        struct mw_timeline_row *row = &rows[i];
        int64_t earliest_ns = earliest_start_ns(lanes, rows, op, lane_end_ns[op->lane]);
        int64_t early_ns = earliest_ns - row->start_ns;
        if (early_ns > 0 && early_ns <= MW_LANES_CLOCK_SLACK_NS) {
            row->start_ns = earliest_ns;
            row->end_ns = MAX(row->end_ns, row->start_ns);
            moved = true;
        }
        lane_end_ns[op->lane] = row->end_ns;
    }
    return moved;
}

/* An op may stand before one that it depends on; each round settles at least one op for good. */
static void
settle_rows(const struct mw_lanes *lanes, struct mw_timeline_row *rows)
{
    g_autofree int64_t *lane_end_ns = g_new0(int64_t, lanes->plan->lane_count);
    uint32_t rounds = lanes->backend.queues ? lanes->plan->op_count : 0;

    while (rounds && move_to_rule(lanes, rows, lane_end_ns))
        rounds--;
    for (uint32_t i = 0; i < lanes->plan->op_count; i++)
        lanes->settled_ns[i] = rows[i].end_ns;
}

/* What the caller makes of the step's rows; then their place is free for the step after the next.
 */
static void
take_step(struct mw_lanes *lanes, uint32_t step, mw_lanes_step on_step, void *data)
{
    struct mw_timeline timeline = {lanes->rows[step % STEPS_AT_ONCE], lanes->plan->op_count};
    GError *error = NULL;

    settle_rows(lanes, timeline.rows);
    bool good = !on_step || on_step(data, step, &timeline, &error);
    pthread_mutex_lock(&lanes->mutex);
    if (!good)
        fail(lanes, error);
    lanes->left[step % STEPS_AT_ONCE] = lanes->plan->op_count;
    lanes->taken = step + 1;
    lanes->moved_ns = clock_ns();
    wake_lanes(lanes);
    pthread_mutex_unlock(&lanes->mutex);
}

static void
stop_waiting(struct mw_lanes *lanes)
{
    pthread_mutex_lock(&lanes->mutex);
    bool failed = lanes->failed;
    pthread_mutex_unlock(&lanes->mutex);
    if (failed && lanes->backend.stop)
        lanes->backend.stop(lanes->backend.context);
}

/* What is pending ends before the caller may free what it works on. */
static void
end_run(struct mw_lanes *lanes)
{
    pthread_mutex_lock(&lanes->mutex);
    lanes->ends = true;
    pthread_mutex_unlock(&lanes->mutex);
    for (uint32_t l = 0; l < lanes->plan->lane_count; l++) {
        if (lanes->lanes[l].thread)
            g_thread_join(g_steal_pointer(&lanes->lanes[l].thread));
        pthread_mutex_lock(&lanes->mutex);
        while (lanes->lanes[l].in_flight || lanes->lanes[l].queued)
            pthread_cond_wait(&lanes->changed, &lanes->mutex);
        pthread_mutex_unlock(&lanes->mutex);
    }
}

bool
mw_lanes_run(struct mw_lanes *lanes, uint32_t steps, mw_lanes_step on_step, void *data,
             GError **error)
{
    start_run(lanes, steps);
    start_lanes(lanes);
    for (uint32_t step = 0; wait_for_step(lanes, step); step++)
        take_step(lanes, step, on_step, data);
    stop_waiting(lanes);
    end_run(lanes);
    if (!lanes->failed)
        return true;
    g_propagate_error(error, g_steal_pointer(&lanes->error));
    return false;
}

/* --- life ------------------------------------------------------------------------------------ */

static void
sort_ops(struct mw_lanes *lanes)
{
    const struct mw_plan *plan = lanes->plan;
    uint32_t begin = 0;

    for (uint32_t i = 0; i < plan->op_count; i++)
        lanes->lanes[plan->ops[i].lane].op_count++;
    for (uint32_t l = 0; l < plan->lane_count; l++) {
        lanes->lanes[l].all = lanes;
        lanes->lanes[l].index = l;
        lanes->lanes[l].ops = lanes->lane_ops + begin;
        begin += lanes->lanes[l].op_count;
        lanes->lanes[l].op_count = 0;
    }
    for (uint32_t i = 0; i < plan->op_count; i++) {
        struct lane *lane = &lanes->lanes[plan->ops[i].lane];
        lane->ops[lane->op_count++] = i;
    }
}

struct mw_lanes *
mw_lanes_new(const struct mw_plan *plan, struct mw_exec_backend backend, GError **error)
{
    if (!plan->checked || plan->ranks != 1) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "plan: must be checked and hold the program of one rank (has %u)", plan->ranks);
        return NULL;
    }
    struct mw_lanes *lanes = g_new0(struct mw_lanes, 1);
    pthread_condattr_t attributes;
    lanes->plan = plan;
    lanes->backend = backend;
    lanes->lanes = g_new0(struct lane, plan->lane_count);
    lanes->lane_ops = g_new(uint32_t, plan->op_count);
    lanes->through = g_new0(uint32_t, plan->op_count);
    lanes->ended = g_new0(uint32_t, plan->op_count);
    lanes->queued = g_new0(uint32_t, plan->op_count);
    lanes->left = g_new0(uint32_t, STEPS_AT_ONCE);
    lanes->settled_ns = g_new0(int64_t, plan->op_count + 1);
    for (int i = 0; i < STEPS_AT_ONCE; i++)
        lanes->rows[i] = g_new0(struct mw_timeline_row, plan->op_count);
    pthread_mutex_init(&lanes->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&lanes->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    for (uint32_t l = 0; l < plan->lane_count; l++)
        pthread_cond_init(&lanes->lanes[l].wake, NULL);
    sort_ops(lanes);
    return lanes;
}

void
mw_lanes_free(struct mw_lanes *lanes)
{
    if (!lanes)
        return;
    for (int i = 0; i < STEPS_AT_ONCE; i++)
        g_free(lanes->rows[i]);
    for (uint32_t l = 0; l < lanes->plan->lane_count; l++)
        pthread_cond_destroy(&lanes->lanes[l].wake);
    g_free(lanes->lanes);
    g_free(lanes->lane_ops);
    g_free(lanes->through);
    g_free(lanes->ended);
    g_free(lanes->queued);
    g_free(lanes->left);
    g_free(lanes->settled_ns);
    pthread_mutex_destroy(&lanes->mutex);
    pthread_cond_destroy(&lanes->changed);
    g_free(lanes);
}
