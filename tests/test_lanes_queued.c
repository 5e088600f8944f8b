/* Lanes of a device that orders ops by itself. */
#include <cuda_runtime_api.h> /* of cuda/fake.h */

#include <limits.h>

#include "base/error.h"
#include "tests/cuda/fake.h"
#include "tests/mixer.h"

#define REQUESTS 40
#define LADDER 50 /* ops */
#define CLOCK_OFF_NS (MW_LANES_CLOCK_SLACK_NS / 2)

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

    it->start_ns = mixer_clock_ns();
    mixer_mix(&it->device->mixer, it->op, it->step);
    it->end_ns = mixer_clock_ns();
}

/* As the device's clock says it: behind one mark too early, behind the next too late. */
static int64_t
off(const struct on_device *it, int64_t time_ns)
{
    return time_ns + (it->op / 3 % 2 ? CLOCK_OFF_NS : -CLOCK_OFF_NS);
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
        mw_lanes_done_at(it->lanes, it->op, it->step, off(it, it->start_ns), off(it, it->end_ns));
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
        return mixer_run(&device->mixer, lanes, op, step, error);
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
    struct device device = {.mixer = mixer_new(plan, seed),
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
    mixer_clear(&device->mixer);
}

static void
check_queued(const struct mw_plan *plan, guint32 seed)
{
    struct device device = new_device(plan, seed);

    mixer_check(&device.mixer,
                (struct mw_exec_backend){.run = queue_op, .context = &device, .queues = on_device});
    free_device(&device);
}

static void
test_queued(void)
{
    int ran = 0;

    for (guint32 seed = 1000; ran < REQUESTS; seed++) {
        struct mw_plan *plan = mixer_plan(seed);
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
        plan, (struct mw_work){.kind = MW_OP_BEGIN, .comm = MW_NONE, .bytes = 1}, NULL, 0);
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
    g_assert_false(mw_lanes_run(lanes, MIXER_STEPS, NULL, NULL, &error));
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
    fake_machine.holds = INT_MAX; /* nobody here keeps an eye on it */
    g_test_add_func("/lanes/queued", test_queued);
    g_test_add_func("/lanes/queued-ahead", test_queued_ahead);
    g_test_add_func("/lanes/queued-failure", test_queued_failure);
    return g_test_run();
}
