/* When ops start, and which ops their ends release. */
#include "base/clock.h"
#include "exec/lanes/internal.h"

/* --- the rule -------------------------------------------------------------------------------- */

static bool
queues(const struct mw_lanes *lanes, uint32_t op)
{
    return lanes->backend.queues && lanes->backend.queues(lanes->backend.context, op);
}

/* For an op that the device orders, a queued dependency counts as done if the device orders it
 * too. */
static bool
dependencies_done(const struct mw_lanes *lanes, const struct mw_op *op, uint32_t step,
                  bool on_device)
{
    for (uint32_t i = 0; i < op->dep_count; i++) {
        uint32_t edge = mw_plan_op_dep(lanes->plan, op, i), dep = MW_DEP_INDEX(edge);
        uint32_t wanted = edge & MW_DEP_PREVIOUS_STEP ? step : step + 1;
        if (lanes->ended[dep] < wanted && !(on_device && lanes->queued[dep] >= wanted))
            return false;
    }
    return true;
}

/* One op is always let in.  The device lets queued ops in one after the other. */
static bool
window_is_open(const struct mw_lanes *lanes, const struct mw_lanes_lane *lane,
               const struct mw_op *op, bool on_device)
{
    const struct mw_lane *planned = &lanes->plan->lanes[lane->index];
    int64_t bytes = lanes->plan->works[op->work].bytes;

    if (lane->in_flight >= planned->window_ops || (lane->queued && !on_device))
        return false;
    return !lane->in_flight || !planned->window_bytes ||
           lane->in_flight_bytes + bytes <= planned->window_bytes;
}

static bool
may_start(const struct mw_lanes *lanes, const struct mw_lanes_lane *lane, uint32_t index,
          uint32_t step)
{
    const struct mw_op op = mw_plan_numbered_op(lanes->plan, index);
    bool on_device = queues(lanes, index);

    return step < lanes->taken + MW_LANES_STEPS_AT_ONCE &&
           window_is_open(lanes, lane, &op, on_device) &&
           dependencies_done(lanes, &op, step, on_device);
}

bool
mw_lanes_is_over(const struct mw_lanes *lanes, uint32_t step)
{
    return lanes->failed || step >= lanes->steps;
}

void
mw_lanes_wake(struct mw_lanes *lanes)
{
    for (uint32_t l = 0; l < lanes->plan->lane_count; l++) {
        struct mw_lanes_lane *lane = &lanes->lanes[l];

        if (!lane->waits || !(mw_lanes_is_over(lanes, lane->next_step) ||
                              may_start(lanes, lane, lane->next, lane->next_step)))
            continue;
        lane->waits = false;
        pthread_cond_signal(&lane->wake);
    }
}

/* --- starts and ends ------------------------------------------------------------------------- */

static int64_t
now_ns(const struct mw_lanes *lanes)
{
    return mw_clock_now_ns() - lanes->origin_ns;
}

void
mw_lanes_give_up(struct mw_lanes *lanes, GError *error)
{
    if (lanes->failed)
        g_clear_error(&error);
    else
        lanes->error = error;
    lanes->failed = true;
}

/* Ops that the device orders take no room of the window. */
static void
count(struct mw_lanes *lanes, struct mw_lanes_lane *lane, uint32_t index, int by)
{
    uint32_t work = mw_plan_numbered_op(lanes->plan, index).work;

    if (queues(lanes, index)) {
        lane->queued += by;
        return;
    }
    lane->in_flight += by;
    lane->in_flight_bytes += by * lanes->plan->works[work].bytes;
}

/* While other ops of its lane were before it, an op waited for its turn.  That time is not its
 * own. */
static void
retire(struct mw_lanes *lanes, struct mw_lanes_lane *lane, uint32_t index, uint32_t step)
{
    struct mw_timeline_row *row = &lanes->rows[step % MW_LANES_STEPS_AT_ONCE][index];

    row->start_ns = MAX(row->start_ns, lane->ended_ns);
    row->end_ns = lane->ended_ns = MAX(row->start_ns, row->end_ns);
    count(lanes, lane, index, -1);
    if (!lanes->failed) {
        lanes->ended[index] = step + 1;
        lanes->left[step % MW_LANES_STEPS_AT_ONCE]--;
    }
    if (++lane->oldest == lane->op_count) {
        lane->oldest = 0;
        lane->oldest_step++;
    }
}

/* Retires ops in the order in which they started. */
static void
retire_all(struct mw_lanes *lanes, struct mw_lanes_lane *lane)
{
    while (lanes->through[lane->ops[lane->oldest]] == lane->oldest_step + 1)
        retire(lanes, lane, lane->ops[lane->oldest], lane->oldest_step);
}

/* A device's clock may be slightly off, so an op starts no earlier than it was given to the device
 * and ends no later than its end was seen. */
static void
end_op(struct mw_lanes *lanes, uint32_t index, uint32_t step, int64_t start_ns, int64_t end_ns,
       GError *error)
{
    pthread_mutex_lock(&lanes->mutex);
    struct mw_timeline_row *row = &lanes->rows[step % MW_LANES_STEPS_AT_ONCE][index];
    row->start_ns = MAX(row->start_ns, start_ns);
    row->end_ns = end_ns;
    if (error)
        mw_lanes_give_up(lanes, error);
    lanes->through[index] = step + 1;
    lanes->moved_ns = mw_clock_now_ns();
    retire_all(lanes, &lanes->lanes[mw_plan_numbered_op(lanes->plan, index).lane]);
    mw_lanes_wake(lanes);
    if (lanes->ends || lanes->failed || !lanes->left[step % MW_LANES_STEPS_AT_ONCE])
        pthread_cond_signal(&lanes->changed);
    pthread_mutex_unlock(&lanes->mutex);
}

void
mw_lanes_done(struct mw_lanes *lanes, uint32_t op, uint32_t step)
{
    end_op(lanes, op, step, 0, now_ns(lanes), NULL);
}

void
mw_lanes_done_at(struct mw_lanes *lanes, uint32_t op, uint32_t step, int64_t start_ns,
                 int64_t end_ns)
{
    int64_t seen_ns = now_ns(lanes); /* MIN would read the clock twice */

    end_op(lanes, op, step, start_ns - lanes->origin_ns, MIN(end_ns - lanes->origin_ns, seen_ns),
           NULL);
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
    mw_lanes_wake(lanes);
    pthread_mutex_unlock(&lanes->mutex);
}

void
mw_lanes_add_wait(struct mw_lanes *lanes, uint32_t op, uint32_t step, int64_t waited_ns)
{
    pthread_mutex_lock(&lanes->mutex);
    lanes->rows[step % MW_LANES_STEPS_AT_ONCE][op].start_ns += waited_ns;
    pthread_mutex_unlock(&lanes->mutex);
}

void
mw_lanes_end_with(struct mw_lanes *lanes, uint32_t step)
{
    pthread_mutex_lock(&lanes->mutex);
    lanes->steps = MIN(lanes->steps, step + 1);
    mw_lanes_wake(lanes);
    pthread_mutex_unlock(&lanes->mutex);
}

static void
begin_row(struct mw_lanes *lanes, uint32_t index, uint32_t step)
{
    struct mw_op_place place;

    mw_plan_find_number(lanes->plan, index, &place);
    lanes->rows[step % MW_LANES_STEPS_AT_ONCE][index] =
        (struct mw_timeline_row){.op = place.op,
                                 .step = step,
                                 .round = {place.round[0], place.round[1]},
                                 .start_ns = now_ns(lanes)};
}

/* Waits until the op may start.  Returns false if the run has failed or ends before the op's
 * step. */
static bool
begin_op(struct mw_lanes_lane *lane, uint32_t index, uint32_t step)
{
    struct mw_lanes *lanes = lane->all;

    pthread_mutex_lock(&lanes->mutex);
    lane->next = index;
    lane->next_step = step;
    while (!mw_lanes_is_over(lanes, step) && !may_start(lanes, lane, index, step)) {
        lane->waits = true;
        pthread_cond_wait(&lane->wake, &lanes->mutex);
    }
    lane->waits = false;
    bool goes = !mw_lanes_is_over(lanes, step);
    if (goes) {
        count(lanes, lane, index, 1);
        begin_row(lanes, index, step);
    }
    pthread_mutex_unlock(&lanes->mutex);
    return goes;
}

static bool
issue(struct mw_lanes_lane *lane, uint32_t index, uint32_t step)
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

gpointer
mw_lanes_run_lane(gpointer data)
{
    struct mw_lanes_lane *lane = data;

    for (uint32_t step = 0;; step++)
        for (uint32_t i = 0; i < lane->op_count; i++)
            if (!issue(lane, lane->ops[i], step))
                return NULL;
}
