/* CUDA's runtime over threads (fake.h): streams, which are threads, and events. */
#include <string.h>
#include <time.h>

#include "tests/cuda/fake_internal.h"

#define URGENT (-5) /* the greatest priority of a stream */

struct task {
    void (*run)(void *data);
    void *data;
    cudaEvent_t waits, records; /* instead of run; NULL */
    uint64_t times;             /* of the event: that it must have been, or will be */
};

struct CUstream_st {
    pthread_t thread;
    GQueue tasks;
    uint64_t queued, done;
    bool over;
    int priority;
    uint32_t random;
};

struct CUevent_st {
    uint64_t recorded, done; /* times */
    int64_t at_ns;
};

static int64_t
clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* With the lock, as below.  NULL: it is all over. */
static struct task *
next_task(cudaStream_t stream)
{
    struct task *head;

    while (!(head = g_queue_peek_head(&stream->tasks)) || fake.held ||
           (head->waits && head->waits->done < head->times)) {
        if (!head && stream->over)
            return NULL;
        pthread_cond_wait(&fake.changed, &fake.mutex);
    }
    return g_queue_pop_head(&stream->tasks);
}

static void
finish(cudaStream_t stream, struct task *task)
{
    fake_lock();
    if (task->records) {
        task->records->done = task->times;
        task->records->at_ns = clock_ns();
    }
    stream->done++;
    fake_tell();
    g_free(task);
}

/* Now and then others go first. */
static void
dawdle(cudaStream_t stream)
{
    stream->random = stream->random * 1664525 + 1013904223;
    if (stream->random >> 29 == 0)
        g_usleep(stream->random >> 16 & 0x7f);
}

static void *
work(void *data)
{
    cudaStream_t stream = data;

    for (;;) {
        fake_lock();
        struct task *task = next_task(stream);
        fake_unlock();
        if (!task)
            return NULL;
        dawdle(stream);
        if (task->run)
            task->run(task->data);
        finish(stream, task);
    }
}

cudaError_t
cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = URGENT;
    return cudaSuccess;
}

cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    return cudaStreamCreateWithPriority(out, flags, 0);
}

bool
fake_is_urgent(void *stream)
{
    return ((cudaStream_t)stream)->priority == URGENT;
}

cudaError_t
cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    FAKE_MAY_FAIL();
    cudaStream_t stream = g_new0(struct CUstream_st, 1);

    g_assert_cmpint(flags, ==, cudaStreamNonBlocking);
    g_queue_init(&stream->tasks);
    stream->priority = priority;
    fake_lock();
    stream->random = fake.streams->len * 2654435761u;
    g_ptr_array_add(fake.streams, stream);
    fake_unlock();
    g_assert_cmpint(pthread_create(&stream->thread, NULL, work, stream), ==, 0);
    *out = stream;
    return cudaSuccess;
}

cudaError_t
cudaStreamDestroy(cudaStream_t stream)
{
    fake_lock();
    stream->over = true;
    g_ptr_array_remove(fake.streams, stream);
    fake_tell();
    pthread_join(stream->thread, NULL);
    g_free(stream);
    return cudaSuccess;
}

static void
wait_for_stream(cudaStream_t stream)
{
    fake_arrive();
    fake_lock();
    while (stream->done < stream->queued)
        pthread_cond_wait(&fake.changed, &fake.mutex);
    fake_unlock();
}

cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
    if (stream != cudaStreamPerThread)
        wait_for_stream(stream);
    else
        fake_arrive();
    FAKE_MAY_FAIL();
    return cudaSuccess;
}

cudaError_t
cudaDeviceSynchronize(void)
{
    fake_arrive();
    for (guint i = 0; i < fake.streams->len; i++)
        wait_for_stream(fake.streams->pdata[i]);
    FAKE_MAY_FAIL();
    return cudaSuccess;
}

static void
push(cudaStream_t stream, const struct task *task)
{
    if (stream->queued - stream->done >= (uint64_t)fake_machine.holds)
        g_error("a stream is full: the driver would keep everybody waiting");
    while (fake_machine.queue_limit &&
           stream->queued - stream->done >= (uint64_t)fake_machine.queue_limit)
        pthread_cond_wait(&fake.changed, &fake.mutex);
    g_queue_push_tail(&stream->tasks, g_memdup2(task, sizeof *task));
    stream->queued++;
}

void
fake_push(void *to, void (*run)(void *data), void *data)
{
    cudaStream_t stream = to;
    struct task task = {.run = run, .data = data};

    if (stream == cudaStreamPerThread) {
        fake_arrive();
        run(data);
        return;
    }
    fake_lock();
    push(stream, &task);
    fake_tell();
}

static void
set_held(bool held)
{
    fake_lock();
    fake.held = held;
    fake_tell();
}

void
fake_hold(void)
{
    set_held(true);
}

void
fake_release(void)
{
    set_held(false);
}

/* --- events ---------------------------------------------------------------------------------- */

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    FAKE_MAY_FAIL();
    (void)flags;
    *event = g_new0(struct CUevent_st, 1);
    return cudaSuccess;
}

cudaError_t
cudaEventDestroy(cudaEvent_t event)
{
    g_free(event);
    return cudaSuccess;
}

cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    FAKE_MAY_FAIL();
    fake_lock();
    struct task task = {.records = event, .times = ++event->recorded};
    push(stream, &task);
    fake_tell();
    return cudaSuccess;
}

/* Of what was recorded before: an event that never was is none to wait for. */
cudaError_t
cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    FAKE_MAY_FAIL();
    (void)flags;
    fake_lock();
    struct task task = {.waits = event, .times = event->recorded};
    push(stream, &task);
    fake_tell();
    return cudaSuccess;
}

cudaError_t
cudaEventSynchronize(cudaEvent_t event)
{
    fake_lock();
    for (uint64_t times = event->recorded; event->done < times;)
        pthread_cond_wait(&fake.changed, &fake.mutex);
    fake_unlock();
    FAKE_MAY_FAIL();
    return cudaSuccess;
}

cudaError_t
cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    fake_lock();
    bool ready =
        start->done && end->done && start->done == start->recorded && end->done == end->recorded;
    *ms = (float)((double)(end->at_ns - start->at_ns) / 1e6);
    fake_unlock();
    return fake_keep(ready ? cudaSuccess : cudaErrorNotReady);
}
