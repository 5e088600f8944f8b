#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "exec/lanes/internal.h"

/* --- a run ----------------------------------------------------------------------------------- */

static void
start_run(struct mw_lanes *lanes, uint32_t steps)
{
    const struct mw_plan *plan = lanes->plan;

    lanes->steps = steps;
    lanes->taken = 0;
    lanes->ends = lanes->failed = false;
    memset(lanes->let_in_ns, 0, sizeof lanes->let_in_ns);
    memset(lanes->through, 0, lanes->op_count * sizeof *lanes->through);
    memset(lanes->ended, 0, lanes->op_count * sizeof *lanes->ended);
    memset(lanes->queued, 0, lanes->op_count * sizeof *lanes->queued);
    for (int i = 0; i < MW_LANES_STEPS_AT_ONCE; i++)
        lanes->left[i] = lanes->op_count;
    memset(lanes->last_end_ns, 0, lanes->op_count * sizeof *lanes->last_end_ns);
    lanes->origin_ns = lanes->moved_ns = mw_clock_now_ns();
    for (uint32_t l = 0; l < plan->lane_count; l++) {
        lanes->lanes[l].oldest = lanes->lanes[l].oldest_step = 0;
        lanes->lanes[l].ended_ns = 0;
    }
}

/* No op starts before all lanes have their threads, and none starts if a lane has no thread. */
static void
start_lanes(struct mw_lanes *lanes)
{
    GError *error = NULL;

    pthread_mutex_lock(&lanes->mutex);
    for (uint32_t l = 0; l < lanes->plan->lane_count && !error; l++)
        if (lanes->lanes[l].op_count)
            mw_crew_begin(lanes->crew, &lanes->plan->lanes[l], l, mw_lanes_run_lane,
                          &lanes->lanes[l], &error);
    if (error)
        mw_lanes_give_up(lanes, error);
    pthread_mutex_unlock(&lanes->mutex);
}

/* Lists the oldest op in flight of each lane. */
static char *
list_in_flight(const struct mw_lanes *lanes)
{
    const struct mw_plan *plan = lanes->plan;
    GString *text = g_string_new(NULL);

    for (uint32_t l = 0; l < plan->lane_count; l++) {
        const struct mw_lanes_lane *lane = &lanes->lanes[l];
        if (!lane->in_flight && !lane->queued)
            continue;
        const struct mw_op op = mw_plan_numbered_op(plan, lane->ops[lane->oldest]);
        const struct mw_work *work = &plan->works[op.work];
        g_string_append_printf(text, "%s%s", text->len ? ", " : "", mw_op_kind_name(work->kind));
        if (work->object != MW_OBJECT_NONE)
            g_string_append_printf(text, " of %s", mw_work_name(work));
        if (op.layer >= 0)
            g_string_append_printf(text, " (layer %d)", op.layer);
    }
    return g_string_free(text, FALSE);
}

/* Waits until something changes, or until the run's patience ends.  Call with the mutex held. */
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
    if (lanes->failed || mw_clock_now_ns() < lanes->moved_ns + lanes->backend.patience_ns)
        return;
    g_autofree char *ops = list_in_flight(lanes);
    mw_lanes_give_up(
        lanes, g_error_new(
                   MW_ERROR, MW_ERROR_DEVICE,
                   "no op has ended for %g s; still running: %s; a device, a drive or a rank hangs",
                   (double)lanes->backend.patience_ns * 1e-9, *ops ? ops : "no op"));
    mw_lanes_wake(lanes);
}

/* Returns false if the run has failed or has no such step. */
static bool
wait_for_step(struct mw_lanes *lanes, uint32_t step)
{
    pthread_mutex_lock(&lanes->mutex);
    while (!mw_lanes_is_over(lanes, step) && lanes->left[step % MW_LANES_STEPS_AT_ONCE])
        wait_patiently(lanes);
    bool good = !mw_lanes_is_over(lanes, step);
    pthread_mutex_unlock(&lanes->mutex);
    return good;
}

/* Passes the step's rows to the caller.  After that, their place is free for the step after the
 * next. */
static void
take_step(struct mw_lanes *lanes, uint32_t step, mw_lanes_step on_step, void *data)
{
    struct mw_timeline timeline = {lanes->rows[step % MW_LANES_STEPS_AT_ONCE], lanes->op_count};
    GError *error = NULL;

    mw_lanes_order_rows(lanes, timeline.rows);
    bool good = !on_step || on_step(data, step, &timeline, &error);
    pthread_mutex_lock(&lanes->mutex);
    if (!good)
        mw_lanes_give_up(lanes, error);
    lanes->left[step % MW_LANES_STEPS_AT_ONCE] = lanes->op_count;
    lanes->taken = step + 1;
    lanes->moved_ns = mw_clock_now_ns();
    lanes->let_in_ns[step % MW_LANES_STEPS_AT_ONCE] = lanes->moved_ns - lanes->origin_ns;
    mw_lanes_wake(lanes);
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

/* Ends pending ops, so that the caller may free the memory they work on. */
static void
end_run(struct mw_lanes *lanes)
{
    pthread_mutex_lock(&lanes->mutex);
    lanes->ends = true;
    pthread_mutex_unlock(&lanes->mutex);
    for (uint32_t l = 0; l < lanes->plan->lane_count; l++) {
        mw_crew_wait(lanes->crew, &lanes->plan->lanes[l], l);
        pthread_mutex_lock(&lanes->mutex);
        while (lanes->lanes[l].in_flight || lanes->lanes[l].queued)
            pthread_cond_wait(&lanes->changed, &lanes->mutex);
        pthread_mutex_unlock(&lanes->mutex);
    }
}

int64_t
mw_lanes_let_in_ns(const struct mw_lanes *lanes, uint32_t step)
{
    return lanes->let_in_ns[step % MW_LANES_STEPS_AT_ONCE];
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
        lanes->lanes[plan->ops[i].lane].op_count += (uint32_t)mw_plan_op_rounds(plan, i);
    for (uint32_t l = 0; l < plan->lane_count; l++) {
        lanes->lanes[l].all = lanes;
        lanes->lanes[l].index = l;
        lanes->lanes[l].ops = lanes->lane_ops + begin;
        begin += lanes->lanes[l].op_count;
        lanes->lanes[l].op_count = 0;
    }
    for (uint32_t i = 0; i < lanes->op_count; i++) {
        struct mw_lanes_lane *lane = &lanes->lanes[mw_plan_numbered_op(plan, i).lane];
        lane->ops[lane->op_count++] = i;
    }
}

struct mw_lanes *
mw_lanes_new(const struct mw_plan *plan, struct mw_exec_backend backend, GError **error)
{
    if (!plan->checked || plan->program_count != 1) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "plan: must be checked and hold the program of one rank (has %u)",
                    plan->program_count);
        return NULL;
    }
    struct mw_lanes *lanes = g_new0(struct mw_lanes, 1);
    pthread_condattr_t attributes;
    lanes->plan = plan;
    lanes->op_count = (uint32_t)mw_plan_unfolded_ops(plan);
    lanes->backend = backend;
    lanes->owns_crew = !backend.crew;
    lanes->crew = backend.crew ? backend.crew : mw_crew_new();
    lanes->lanes = g_new0(struct mw_lanes_lane, plan->lane_count);
    lanes->lane_ops = g_new(uint32_t, lanes->op_count);
    lanes->through = g_new0(uint32_t, lanes->op_count);
    lanes->ended = g_new0(uint32_t, lanes->op_count);
    lanes->queued = g_new0(uint32_t, lanes->op_count);
    lanes->left = g_new0(uint32_t, MW_LANES_STEPS_AT_ONCE);
    lanes->last_end_ns = g_new0(int64_t, lanes->op_count + 1);
    for (int i = 0; i < MW_LANES_STEPS_AT_ONCE; i++)
        lanes->rows[i] = g_new0(struct mw_timeline_row, lanes->op_count);
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
    if (lanes->owns_crew)
        mw_crew_free(lanes->crew);
    for (int i = 0; i < MW_LANES_STEPS_AT_ONCE; i++)
        g_free(lanes->rows[i]);
    for (uint32_t l = 0; l < lanes->plan->lane_count; l++)
        pthread_cond_destroy(&lanes->lanes[l].wake);
    g_free(lanes->lanes);
    g_free(lanes->lane_ops);
    g_free(lanes->through);
    g_free(lanes->ended);
    g_free(lanes->queued);
    g_free(lanes->left);
    g_free(lanes->last_end_ns);
    pthread_mutex_destroy(&lanes->mutex);
    pthread_cond_destroy(&lanes->changed);
    g_free(lanes);
}
