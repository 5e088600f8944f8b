/* Lanes: the rule on a real clock.  Ops do no work but to mix numbers held in their slots: what
 * comes out must be what one thread makes of them in plan order, whatever the lanes' speed. */
#include <cuda_runtime_api.h> /* of cuda/fake.h */
#include <string.h>
#include <time.h>

#include "exec/lanes.h"
#include "planner/error.h"
#include "random_request.h"
#include "tests/cuda/fake.h"

#define REQUESTS 150
#define STEPS 4
#define QUEUED_REQUESTS 40
#define LADDER 50 /* ops */

/* --- the mixing backend -------------------------------------------------------------------------
 */

struct mixer {
    const struct mw_plan *plan;
    guint64 *content; /* [slot_count] */
    guint32 seed;
    uint32_t failing; /* op that fails in step 1, or MW_NONE */
    gint after_failure;
};

static guint64
mix(guint64 a, guint64 b)
{
    guint64 x = (a ^ b) * G_GUINT64_CONSTANT(0x9e3779b97f4a7c15);
    return x ^ x >> 29;
}

static void
mix_op(struct mixer *mixer, uint32_t index, uint32_t step)
{
    const struct mw_op *op = &mixer->plan->ops[index];
    const struct mw_use *uses = &mixer->plan->uses[op->use_begin];
    guint64 value = mix(index + 1, step + 1);

    for (uint32_t i = 0; i < op->use_count; i++)
        if (uses[i].mode != MW_USE_DEFINE)
            value = mix(value, mixer->content[uses[i].slot]);
    for (uint32_t i = 0; i < op->use_count; i++)
        if (uses[i].mode != MW_USE_READ)
            mixer->content[uses[i].slot] = mix(value, i);
}

static enum mw_exec_outcome
run_op(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    struct mixer *mixer = context;

    if (mix(mix(op, step), mixer->seed) % 16 == 0)
        g_usleep(20);
    if (op == mixer->failing && step == 1) {
        g_set_error(error, MW_ERROR, MW_ERROR_IO, "op %u: broken", op);
        return MW_EXEC_FAILED;
    }
    if (step > 1 && mixer->failing != MW_NONE)
        g_atomic_int_inc(&mixer->after_failure);
    mix_op(mixer, op, step);
    return MW_EXEC_DONE;
}

static struct mixer
new_mixer(const struct mw_plan *plan, guint32 seed)
{
    return (struct mixer){plan, g_new0(guint64, plan->slot_count + 1), seed, MW_NONE, 0};
}

/* --- the rule, from the rows --------------------------------------------------------------------
 */

struct record {
    const struct mw_plan *plan;
    struct mw_timeline_row *rows; /* [STEPS][op_count] */
    uint32_t steps;
};

static bool
keep_step(void *data, uint32_t step, const struct mw_timeline *timeline, GError **error)
{
    struct record *record = data;

    g_assert_cmpuint(step, ==, record->steps++);
    g_assert_cmpuint(timeline->row_count, ==, record->plan->op_count);
    memcpy(record->rows + (size_t)step * record->plan->op_count, timeline->rows,
           timeline->row_count * sizeof *timeline->rows);
    return true;
}

static const struct mw_timeline_row *
row_of(const struct record *record, uint32_t step, uint32_t op)
{
    return &record->rows[(size_t)step * record->plan->op_count + op];
}

static void
check_dependencies(const struct record *record, uint32_t step, uint32_t op)
{
    const struct mw_op *planned = &record->plan->ops[op];
    const struct mw_timeline_row *row = row_of(record, step, op);

    g_assert_cmpuint(row->op, ==, op);
    g_assert_cmpuint(row->step, ==, step);
    g_assert_cmpint(row->start_ns, <=, row->end_ns);
    for (uint32_t i = 0; i < planned->dep_count; i++) {
        uint32_t dep = record->plan->deps[planned->dep_begin + i];
        bool previous = dep & MW_DEP_PREVIOUS_STEP;
        if (!previous || step)
            g_assert_cmpint(row_of(record, step - previous, MW_DEP_INDEX(dep))->end_ns, <=,
                            row->start_ns);
    }
}

/* All planned lanes have a window of one op. */
static void
check_rows(const struct record *record)
{
    g_autofree int64_t *lane_end = g_new0(int64_t, record->plan->lane_count);

    for (uint32_t step = 0; step < record->steps; step++)
        for (uint32_t op = 0; op < record->plan->op_count; op++) {
            uint32_t lane = record->plan->ops[op].lane;
            check_dependencies(record, step, op);
            g_assert_cmpint(row_of(record, step, op)->start_ns, >=, lane_end[lane]);
            lane_end[lane] = row_of(record, step, op)->end_ns;
        }
}

static void
check_plan(const struct mw_plan *plan, guint32 seed)
{
    struct mixer mixer = new_mixer(plan, seed), alone = new_mixer(plan, seed);
    struct record record = {plan, g_new0(struct mw_timeline_row, (size_t)STEPS * plan->op_count),
                            0};
    g_autoptr(GError) error = NULL;
    struct mw_exec_backend run = {.run = run_op, .context = &mixer};
    struct mw_lanes *lanes = mw_lanes_new(plan, run, &error);

    g_assert_no_error(error);
    g_assert_true(mw_lanes_run(lanes, STEPS, keep_step, &record, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(record.steps, ==, STEPS);
    check_rows(&record);
    for (uint32_t step = 0; step < STEPS; step++)
        for (uint32_t op = 0; op < plan->op_count; op++)
            mix_op(&alone, op, step);
    g_assert_cmpmem(mixer.content, plan->slot_count * sizeof *mixer.content, alone.content,
                    plan->slot_count * sizeof *alone.content);
    mw_lanes_free(lanes);
    g_free(mixer.content);
    g_free(alone.content);
    g_free(record.rows);
}

/* A plan of one program with some hundred ops; NULL where the request has none. */
static struct mw_plan *
plan_of(guint32 seed)
{
    struct random_request request;
    g_autoptr(GError) error = NULL;

    random_request_init(&request, seed);
    request.settings.unfold = false;
    g_autoptr(GPtrArray) found = random_request_candidates(&request, &error);
    if (!found || !((struct mw_sizing *)found->pdata[0])->fits)
        return NULL;
    struct mw_plan *plan = mw_build_plan(found->pdata[0]);
    if (plan->op_count < 2000)
        return plan;
    mw_plan_free(plan);
    return NULL;
}

static void
test_planned(void)
{
    int ran = 0;

    for (guint32 seed = 0; ran < REQUESTS; seed++) {
        struct mw_plan *plan = plan_of(seed);
        if (!plan)
            continue;
        check_plan(plan, seed);
        mw_plan_free(plan);
        ran++;
    }
}

/* --- failures ------------------------------------------------------------------------------------
 */

static bool
stop_after_second(void *data, uint32_t step, const struct mw_timeline *timeline, GError **error)
{
    if (step == 0)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "enough");
    return false;
}

/* A planned step ends with a commit after all its ops: with one op missing, none follows. */
static void
test_failing_op(void)
{
    int ran = 0;

    for (guint32 seed = 0; ran < REQUESTS; seed++) {
        struct mw_plan *plan = plan_of(seed);
        if (!plan)
            continue;
        struct mixer mixer = new_mixer(plan, seed);
        g_autoptr(GError) error = NULL;
        mixer.failing = mix(seed, 7) % plan->op_count;
        struct mw_exec_backend run = {.run = run_op, .context = &mixer};
        struct mw_lanes *lanes = mw_lanes_new(plan, run, NULL);
        g_assert_false(mw_lanes_run(lanes, STEPS, NULL, NULL, &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_IO);
        g_assert_cmpint(mixer.after_failure, ==, 0);
        mw_lanes_free(lanes);
        g_free(mixer.content);
        mw_plan_free(plan);
        ran++;
    }
}

static void
test_stopped_by_step(void)
{
    struct mw_plan *plan = NULL;

    for (guint32 seed = 0; !plan; seed++)
        plan = plan_of(seed);
    struct mixer mixer = new_mixer(plan, 1);
    g_autoptr(GError) error = NULL;
    struct mw_exec_backend run = {.run = run_op, .context = &mixer};
    struct mw_lanes *lanes = mw_lanes_new(plan, run, NULL);
    g_assert_false(mw_lanes_run(lanes, 1000, stop_after_second, NULL, &error));
    g_assert_cmpstr(error->message, ==, "enough");
    /* and once more, from the start */
    g_assert_true(mw_lanes_run(lanes, 1, stop_after_second, NULL, NULL));
    mw_lanes_free(lanes);
    g_free(mixer.content);
    mw_plan_free(plan);
}

static void
test_unchecked(void)
{
    struct mw_plan *plan = mw_plan_new("unchecked");
    g_autoptr(GError) error = NULL;

    g_assert_null(mw_lanes_new(plan, (struct mw_exec_backend){.run = run_op}, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    mw_plan_free(plan);
}

/* --- pending ops and windows
 * ------------------------------------------------------------------------ */

#define WIDE_OPS 64
#define WIDE_WINDOW 8
#define WIDE_BYTES 10
#define WIDE_WINDOW_BYTES 55 /* room for five of ten bytes */

struct pending {
    GAsyncQueue *started;
    gint in_flight, most, expected;
};

static enum mw_exec_outcome
start_op(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    struct pending *pending = context;
    int now = g_atomic_int_add(&pending->in_flight, 1) + 1;

    pending->most = MAX(pending->most, now); /* one lane: one thread */
    g_async_queue_push(pending->started, GUINT_TO_POINTER(step * WIDE_OPS + op + 1));
    return MW_EXEC_PENDING;
}

/* Ends ops in pairs, the later one first. */
static gpointer
finish_ops(gpointer data)
{
    struct mw_lanes *lanes = ((gpointer *)data)[0];
    struct pending *pending = ((gpointer *)data)[1];

    while (g_atomic_int_get(&pending->in_flight) < pending->expected)
        g_usleep(100);                            /* a full window, once */
    for (int pair = 0; pair < WIDE_OPS; pair++) { /* two steps */
        guint ends[2];
        for (int i = 1; i >= 0; i--)
            ends[i] = GPOINTER_TO_UINT(g_async_queue_pop(pending->started)) - 1;
        g_usleep(100);
        for (int i = 0; i < 2; i++) {
            g_atomic_int_add(&pending->in_flight, -1);
            mw_lanes_done(lanes, ends[i] % WIDE_OPS, ends[i] / WIDE_OPS);
        }
    }
    return NULL;
}

static struct mw_plan *
wide_plan(int64_t window_bytes)
{
    struct mw_plan *plan = mw_plan_new("one wide lane");
    char why[200];

    mw_plan_add_lane(plan, (struct mw_lane){0, MW_LANE_NVME_READ, 0, WIDE_WINDOW, window_bytes});
    uint32_t work = mw_plan_add_work(
        plan,
        (struct mw_work){
            .kind = MW_OP_COPY, .comm = MW_NONE, .bytes = WIDE_BYTES, .bytes_max = WIDE_BYTES},
        NULL, 0);
    for (int i = 0; i < WIDE_OPS; i++)
        mw_plan_add_op(plan, (struct mw_op){.work = work, .layer = -1, .match = MW_NONE});
    if (!mw_plan_check(plan, why, sizeof why))
        g_error("%s", why);
    return plan;
}

static void
check_window(int64_t window_bytes, int expected)
{
    struct mw_plan *plan = wide_plan(window_bytes);
    struct pending pending = {g_async_queue_new(), 0, 0, expected};
    struct mw_exec_backend run = {.run = start_op, .context = &pending};
    struct mw_lanes *lanes = mw_lanes_new(plan, run, NULL);
    gpointer data[] = {lanes, &pending};
    GThread *thread = g_thread_new("finisher", finish_ops, data);

    g_assert_true(mw_lanes_run(lanes, 2, NULL, NULL, NULL));
    g_thread_join(thread);
    g_assert_cmpint(pending.most, ==, expected);
    mw_lanes_free(lanes);
    g_async_queue_unref(pending.started);
    mw_plan_free(plan);
}

static void
test_windows(void)
{
    check_window(0, WIDE_WINDOW);
    check_window(WIDE_WINDOW_BYTES, WIDE_WINDOW_BYTES / WIDE_BYTES);
}

/* Two reads under way; the second is through first, and what depends on that waits for both. */
static enum mw_exec_outcome
end_backwards(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    if (op == 2)
        return MW_EXEC_DONE;
    if (op == 1) {
        mw_lanes_done(lanes, 1, step);
        g_usleep(1000);
        mw_lanes_done(lanes, 0, step);
    }
    return MW_EXEC_PENDING;
}

static bool
ended_in_order(void *data, uint32_t step, const struct mw_timeline *timeline, GError **error)
{
    const struct mw_timeline_row *rows = timeline->rows;

    g_assert_cmpint(rows[0].end_ns - rows[0].start_ns, >=, 1000000);
    g_assert_cmpint(rows[1].start_ns, ==, rows[0].end_ns);
    g_assert_cmpint(rows[1].end_ns, ==, rows[0].end_ns);
    g_assert_cmpint(rows[2].start_ns, >=, rows[0].end_ns);
    return true;
}

static void
test_order_of_ends(void)
{
    struct mw_plan *plan = mw_plan_new("two reads and what waits for the second");
    struct mw_exec_backend run = {.run = end_backwards};
    char why[200];

    mw_plan_add_lane(plan, (struct mw_lane){0, MW_LANE_NVME_READ, 0, 2, 0});
    mw_plan_add_lane(plan, (struct mw_lane){0, MW_LANE_HOST, 0, 1, 0});
    uint32_t work =
        mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_COPY, .comm = MW_NONE}, NULL, 0);
    for (uint32_t i = 0; i < 3; i++)
        mw_plan_add_op(plan,
                       (struct mw_op){.lane = i / 2, .work = work, .layer = -1, .match = MW_NONE});
    mw_plan_add_dep(plan, 1);
    if (!mw_plan_check(plan, why, sizeof why))
        g_error("%s", why);
    struct mw_lanes *lanes = mw_lanes_new(plan, run, NULL);
    g_assert_true(mw_lanes_run(lanes, 3, ended_in_order, NULL, NULL));
    mw_lanes_free(lanes);
    mw_plan_free(plan);
}

/* --- what waits for others ------------------------------------------------------------------- */

/* The first op waits until it is told not to, the second fails. */
struct waiting {
    struct mw_lanes *lanes;
    gint begun;
};

static enum mw_exec_outcome
wait_or_fail(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    struct waiting *waiting = context;

    if (!op) {
        g_atomic_int_set(&waiting->begun, 1);
        return MW_EXEC_PENDING;
    }
    while (!g_atomic_int_get(&waiting->begun))
        g_usleep(10);
    g_set_error_literal(error, MW_ERROR, MW_ERROR_IO, "the first failure");
    return MW_EXEC_FAILED;
}

static void
stop_waiting(void *context)
{
    struct waiting *waiting = context;

    mw_lanes_fail(waiting->lanes, 0, 0, g_error_new(MW_ERROR, MW_ERROR_DEVICE, "what followed"));
}

static void
test_stop(void)
{
    struct mw_plan *plan = wide_plan(0);
    struct waiting waiting = {0};
    struct mw_exec_backend backend = {
        .run = wait_or_fail, .context = &waiting, .stop = stop_waiting};
    g_autoptr(GError) error = NULL;

    waiting.lanes = mw_lanes_new(plan, backend, NULL);
    g_assert_false(mw_lanes_run(waiting.lanes, 1, NULL, NULL, &error));
    g_assert_cmpstr(error->message, ==, "the first failure");
    mw_lanes_free(waiting.lanes);
    mw_plan_free(plan);
}

static enum mw_exec_outcome
wait_for_ever(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    (void)context;
    (void)lanes;
    (void)step;
    (void)error;
    return op ? MW_EXEC_DONE : MW_EXEC_PENDING;
}

/* When nothing has ended for as long as it is to be waited, that is a failure, and what is in
 * flight is told. */
static void
test_patience(void)
{
    struct mw_plan *plan = wide_plan(0);
    struct waiting waiting = {0};
    struct mw_exec_backend backend = {
        .run = wait_for_ever, .context = &waiting, .stop = stop_waiting, .patience_ns = 20000000};
    g_autoptr(GError) error = NULL;

    waiting.lanes = mw_lanes_new(plan, backend, NULL);
    g_assert_false(mw_lanes_run(waiting.lanes, 1, NULL, NULL, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_DEVICE);
    g_assert_cmpstr(error->message, ==,
                    "no op has ended for 0.02 s: copy in flight; what it waits for hangs");
    mw_lanes_free(waiting.lanes);
    mw_plan_free(plan);
}

static int64_t
clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Every op says how long it has waited: all of its time, as far as it can know. */
struct waits {
    int64_t began_ns[WIDE_OPS], woke_ns[WIDE_OPS];
};

static enum mw_exec_outcome
wait_a_little(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    struct waits *waits = context;

    waits->began_ns[op] = clock_ns();
    g_usleep(200);
    waits->woke_ns[op] = clock_ns();
    mw_lanes_waited(lanes, op, step, waits->woke_ns[op] - waits->began_ns[op]);
    return MW_EXEC_DONE;
}

static bool
check_waits(void *data, uint32_t step, const struct mw_timeline *timeline, GError **error)
{
    const struct waits *waits = data;

    for (uint32_t op = 1; op < WIDE_OPS; op++) {
        const struct mw_timeline_row *row = &timeline->rows[op];
        int64_t waited = waits->woke_ns[op] - waits->began_ns[op];
        g_assert_cmpint(row->start_ns - timeline->rows[op - 1].end_ns, >=, waited);
        g_assert_cmpint(row->end_ns, >=, row->start_ns);
    }
    return true;
}

static void
test_waited(void)
{
    struct mw_plan *plan = wide_plan(0);
    struct waits waits;
    struct mw_exec_backend backend = {.run = wait_a_little, .context = &waits};
    struct mw_lanes *lanes = mw_lanes_new(plan, backend, NULL);

    g_assert_true(mw_lanes_run(lanes, 1, check_waits, &waits, NULL));
    mw_lanes_free(lanes);
    mw_plan_free(plan);
}

/* --- a device that orders ops by itself ------------------------------------------------------ */

/* A stream for each lane but those of drives and host; an event for each op, of even and odd
 * steps. */
struct device {
    struct mixer mixer;
    cudaStream_t *streams; /* [lane_count]; NULL: the host runs its ops */
    cudaEvent_t *events;   /* [2][op_count] */
    gint queued;           /* ops that are not done, */
    gint most;             /* and were at once */
    uint32_t held_until;   /* so many are queued: then the device begins; 0: it has */
};

struct on_device {
    struct device *device;
    struct mw_lanes *lanes;
    uint32_t op, step;
    int64_t start_ns, end_ns;
};

static bool
on_device(void *context, uint32_t op)
{
    const struct device *device = context;
    return device->streams[device->mixer.plan->ops[op].lane] != NULL;
}

static void
run_on_device(void *data)
{
    struct on_device *it = data;

    it->start_ns = clock_ns();
    mix_op(&it->device->mixer, it->op, it->step);
    it->end_ns = clock_ns();
}

static void
tell_done(void *data)
{
    struct on_device *it = data;

    g_atomic_int_add(&it->device->queued, -1);
    if (it->op == it->device->mixer.failing && it->step == 1)
        mw_lanes_fail(it->lanes, it->op, it->step,
                      g_error_new(MW_ERROR, MW_ERROR_DEVICE, "op %u: broken", it->op));
    else
        mw_lanes_ran(it->lanes, it->op, it->step, it->start_ns, it->end_ns);
    g_free(it);
}

static cudaEvent_t *
event_of(const struct device *device, uint32_t op, uint32_t step)
{
    return &device->events[step % 2 * device->mixer.plan->op_count + op];
}

static void
follow(const struct device *device, const struct mw_op *op, uint32_t step)
{
    for (uint32_t i = 0; i < op->dep_count; i++) {
        uint32_t dep = device->mixer.plan->deps[op->dep_begin + i];
        uint32_t back = dep & MW_DEP_PREVIOUS_STEP ? 1 : 0;
        cudaEvent_t event = *event_of(device, MW_DEP_INDEX(dep), step - back);
        if (step >= back && event)
            cudaStreamWaitEvent(device->streams[op->lane], event, 0);
    }
}

static void
count_queued(struct device *device)
{
    int now = g_atomic_int_add(&device->queued, 1) + 1;
    int most = g_atomic_int_get(&device->most);

    while (now > most && !g_atomic_int_compare_and_exchange(&device->most, most, now))
        most = g_atomic_int_get(&device->most);
    if (device->held_until && now == (int)device->held_until)
        fake_release();
}

static enum mw_exec_outcome
queue_op(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    struct device *device = context;
    const struct mw_op *it = &device->mixer.plan->ops[op];
    struct on_device queued = {device, lanes, op, step, 0, 0};

    if (!on_device(device, op))
        return run_op(&device->mixer, lanes, op, step, error);
    cudaStream_t stream = device->streams[it->lane];
    cudaEvent_t *event = event_of(device, op, step);
    struct on_device *data = g_memdup2(&queued, sizeof queued);
    follow(device, it, step);
    fake_push(stream, run_on_device, data);
    if (!*event)
        cudaEventCreateWithFlags(event, cudaEventDefault);
    cudaEventRecord(*event, stream);
    count_queued(device);
    fake_push(stream, tell_done, data);
    return MW_EXEC_QUEUED;
}

static struct device
new_device(const struct mw_plan *plan, guint32 seed)
{
    struct device device = {.mixer = new_mixer(plan, seed),
                            .streams = g_new0(cudaStream_t, plan->lane_count),
                            .events = g_new0(cudaEvent_t, 2 * (size_t)plan->op_count)};

    cudaSetDevice(0);
    for (uint32_t l = 0; l < plan->lane_count; l++)
        if (plan->lanes[l].kind < MW_LANE_NVME_READ)
            cudaStreamCreateWithFlags(&device.streams[l], cudaStreamNonBlocking);
    return device;
}

static void
free_device(struct device *device)
{
    for (uint32_t l = 0; l < device->mixer.plan->lane_count; l++)
        if (device->streams[l])
            cudaStreamDestroy(device->streams[l]);
    for (uint32_t i = 0; i < 2 * device->mixer.plan->op_count; i++)
        cudaEventDestroy(device->events[i]);
    g_free(device->streams);
    g_free(device->events);
    g_free(device->mixer.content);
}

/* What comes out is what one thread makes of them, and the rows keep the rule. */
static void
check_queued(const struct mw_plan *plan, guint32 seed)
{
    struct device device = new_device(plan, seed);
    struct mixer alone = new_mixer(plan, seed);
    struct record record = {plan, g_new0(struct mw_timeline_row, (size_t)STEPS * plan->op_count),
                            0};
    struct mw_exec_backend run = {.run = queue_op, .context = &device, .queues = on_device};
    struct mw_lanes *lanes = mw_lanes_new(plan, run, NULL);
    g_autoptr(GError) error = NULL;

    g_assert_true(mw_lanes_run(lanes, STEPS, keep_step, &record, &error));
    g_assert_no_error(error);
    check_rows(&record);
    for (uint32_t step = 0; step < STEPS; step++)
        for (uint32_t op = 0; op < plan->op_count; op++)
            mix_op(&alone, op, step);
    g_assert_cmpmem(device.mixer.content, plan->slot_count * sizeof *alone.content, alone.content,
                    plan->slot_count * sizeof *alone.content);
    mw_lanes_free(lanes);
    g_free(alone.content);
    g_free(record.rows);
    free_device(&device);
}

static void
test_queued(void)
{
    int ran = 0;

    for (guint32 seed = 1000; ran < QUEUED_REQUESTS; seed++) {
        struct mw_plan *plan = plan_of(seed);
        if (!plan)
            continue;
        check_queued(plan, seed);
        mw_plan_free(plan);
        ran++;
    }
}

/* Two lanes of the device, each op of which follows the one before in the other; then the host's.
 */
static struct mw_plan *
ladder_plan(uint32_t ops)
{
    struct mw_plan *plan = mw_plan_new("a ladder");
    char why[200];

    mw_plan_add_lane(plan, (struct mw_lane){0, MW_LANE_COMPUTE, 0, 1, 0});
    mw_plan_add_lane(plan, (struct mw_lane){0, MW_LANE_H2D, 0, 1, 0});
    mw_plan_add_lane(plan, (struct mw_lane){0, MW_LANE_HOST, 0, 1, 0});
    uint32_t work = mw_plan_add_work(
        plan, (struct mw_work){.kind = MW_OP_COPY, .comm = MW_NONE, .bytes = 1, .bytes_max = 1},
        NULL, 0);
    for (uint32_t i = 0; i <= ops; i++) {
        mw_plan_add_op(
            plan, (struct mw_op){
                      .work = work, .lane = i == ops ? 2 : i % 2, .layer = -1, .match = MW_NONE});
        if (i)
            mw_plan_add_dep(plan, i - 1);
    }
    if (!mw_plan_check(plan, why, sizeof why))
        g_error("%s", why);
    return plan;
}

/* The device does nothing before all its ops are queued: no thread waits for one of them to be
 * done before it queues the next. */
static void
test_queued_ahead(void)
{
    struct mw_plan *plan = ladder_plan(LADDER);
    struct device device = new_device(plan, 1);
    struct mw_exec_backend run = {.run = queue_op, .context = &device, .queues = on_device};
    struct mw_lanes *lanes = mw_lanes_new(plan, run, NULL);

    device.held_until = LADDER;
    fake_hold();
    g_assert_true(mw_lanes_run(lanes, 1, NULL, NULL, NULL));
    g_assert_cmpint(device.most, ==, LADDER);
    mw_lanes_free(lanes);
    free_device(&device);
    mw_plan_free(plan);
}

/* An op that fails on the device: what is queued behind it ends, nothing else begins. */
static void
test_queued_failure(void)
{
    struct mw_plan *plan = ladder_plan(LADDER);
    struct device device = new_device(plan, 1);
    struct mw_exec_backend run = {.run = queue_op, .context = &device, .queues = on_device};
    struct mw_lanes *lanes = mw_lanes_new(plan, run, NULL);
    g_autoptr(GError) error = NULL;

    device.mixer.failing = LADDER / 2;
    g_assert_false(mw_lanes_run(lanes, STEPS, NULL, NULL, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_DEVICE);
    g_assert_cmpint(device.queued, ==, 0);
    mw_lanes_free(lanes);
    free_device(&device);
    mw_plan_free(plan);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/lanes/queued", test_queued);
    g_test_add_func("/lanes/queued-ahead", test_queued_ahead);
    g_test_add_func("/lanes/queued-failure", test_queued_failure);
    g_test_add_func("/lanes/planned", test_planned);
    g_test_add_func("/lanes/failing-op", test_failing_op);
    g_test_add_func("/lanes/stopped-by-step", test_stopped_by_step);
    g_test_add_func("/lanes/unchecked", test_unchecked);
    g_test_add_func("/lanes/windows", test_windows);
    g_test_add_func("/lanes/order-of-ends", test_order_of_ends);
    g_test_add_func("/lanes/stop", test_stop);
    g_test_add_func("/lanes/patience", test_patience);
    g_test_add_func("/lanes/waited", test_waited);
    return g_test_run();
}
