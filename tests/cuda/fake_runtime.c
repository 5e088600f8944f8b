/* CUDA's runtime over threads: see fake.h. */
#include <cuda_runtime_api.h>
#include <glib.h>
#include <pthread.h> /* whose locks the thread sanitizer sees */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/cuda/fake.h"

#define RUNTIME_VERSION 13000
#define ALIGNMENT 256
#define URGENT (-5) /* the greatest priority of a stream */

struct fake_machine fake_machine = {
    .gpus = 1,
    .driver_version = RUNTIME_VERSION,
    .major = 9,
    .memory_bytes = (size_t)256 << 20,
    .threads = 1,
    .holds = 1024,
    .bad_algorithms = 1,
};

struct range {
    char *at;
    size_t bytes;
};

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

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    char *device, *reach;           /* its memory, as the host may not and as kernels do */
    GArray *allocated, *registered; /* struct range; the first sorted by address */
    GPtrArray *streams;
    bool held;
    const char *failing;
    int failing_count;
    cudaError_t failure, lost;
} fake = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void
lock(void)
{
    pthread_mutex_lock(&fake.mutex);
}

static void
unlock(void)
{
    pthread_mutex_unlock(&fake.mutex);
}

/* The same, of what somebody may wait for. */
static void
tell(void)
{
    pthread_cond_broadcast(&fake.changed);
    unlock();
}

static int64_t
clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* --- failures -------------------------------------------------------------------------------- */

void
fake_fail(const char *call, int count, int error)
{
    lock();
    fake.failing = call;
    fake.failing_count = count;
    fake.failure = (cudaError_t)error;
    fake.lost = cudaSuccess;
    unlock();
}

/* Whether this call fails. */
static cudaError_t
failing(const char *call)
{
    lock();
    if (fake.failing && !strcmp(fake.failing, call) && --fake.failing_count == 0) {
        fake.failing = NULL;
        fake.lost = fake.failure;
    }
    cudaError_t status = fake.lost;
    unlock();
    return status;
}

/* Of this thread: what CUDA has of it until it is asked for. */
static _Thread_local cudaError_t last;

static cudaError_t
keep(cudaError_t status)
{
    if (status)
        last = status;
    return status;
}

cudaError_t
cudaGetLastError(void)
{
    cudaError_t status = last;

    last = cudaSuccess;
    return status;
}

#define MAY_FAIL()                                                                                 \
    do {                                                                                           \
        cudaError_t failure_ = keep(failing(__func__));                                            \
        if (failure_)                                                                              \
            return failure_;                                                                       \
    } while (0)

const char *
cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorIllegalAddress:
        return "an illegal memory access was encountered";
    default:
        return "some other error";
    }
}

/* --- the machine ----------------------------------------------------------------------------- */

cudaError_t
cudaDriverGetVersion(int *version)
{
    *version = fake_machine.driver_version;
    return cudaSuccess;
}

cudaError_t
cudaRuntimeGetVersion(int *version)
{
    *version = RUNTIME_VERSION;
    return cudaSuccess;
}

cudaError_t
cudaGetDeviceCount(int *count)
{
    *count = fake_machine.gpus;
    if (fake_machine.driver_version < RUNTIME_VERSION)
        return keep(cudaErrorInsufficientDriver);
    return keep(fake_machine.gpus ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t
cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    if (device >= fake_machine.gpus)
        return keep(cudaErrorInvalidDevice);
    *properties = (struct cudaDeviceProp){.name = "made of threads",
                                          .major = fake_machine.major,
                                          .multiProcessorCount = 2,
                                          .totalGlobalMem = fake_machine.memory_bytes};
    return cudaSuccess;
}

cudaError_t
cudaDeviceGetPCIBusId(char *bus, int length, int device)
{
    const char *first = g_getenv("CUDA_VISIBLE_DEVICES");

    g_snprintf(bus, (gulong)length, "0000:%02x:00.0", device + (first ? atoi(first) : 0));
    return cudaSuccess;
}

cudaError_t
cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    *value = attribute == cudaDevAttrCanUseHostPointerForRegisteredMem;
    return keep(device < fake_machine.gpus ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t
cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
    (void)device_flags;
    (void)flags;
    if (!g_getenv("CUDA_DEVICE_MAX_CONNECTIONS"))
        g_error("streams of one connection wait for each other");
    if (g_strcmp0(g_getenv("CUDA_MODULE_LOADING"), "EAGER"))
        g_error("kernels are loaded while the device is busy");
    return cudaSetDevice(device);
}

static char *
map(int file, int protection)
{
    void *at = mmap(NULL, fake_machine.memory_bytes, protection, MAP_SHARED, file, 0);

    g_assert_true(at != MAP_FAILED);
    return at;
}

static void
make_device(void)
{
    int file = memfd_create("device", 0);

    g_assert_cmpint(ftruncate(file, (off_t)fake_machine.memory_bytes), ==, 0);
    fake.reach = map(file, PROT_READ | PROT_WRITE);
    fake.device = fake_machine.reachable ? fake.reach : map(file, PROT_NONE);
    close(file);
    fake.allocated = g_array_new(FALSE, FALSE, sizeof(struct range));
    fake.registered = g_array_new(FALSE, FALSE, sizeof(struct range));
    fake.streams = g_ptr_array_new();
}

cudaError_t
cudaSetDevice(int device)
{
    if (device >= fake_machine.gpus)
        return keep(cudaErrorInvalidDevice);
    lock();
    if (!fake.device)
        make_device();
    unlock();
    return cudaSuccess;
}

/* --- memory ---------------------------------------------------------------------------------- */

static const struct range *
range_of(const GArray *ranges, const char *at)
{
    for (guint i = 0; i < ranges->len; i++) {
        const struct range *range = &g_array_index(ranges, struct range, i);
        if (at >= range->at && at < range->at + range->bytes)
            return range;
    }
    return NULL;
}

/* The first gap that is large enough. */
cudaError_t
cudaMalloc(void **memory, size_t bytes)
{
    MAY_FAIL();
    struct range range = {fake.device, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT};
    guint i;

    lock();
    for (i = 0; i < fake.allocated->len; i++) {
        const struct range *next = &g_array_index(fake.allocated, struct range, i);
        if (range.at + range.bytes <= next->at)
            break;
        range.at = next->at + next->bytes;
    }
    bool fits = range.at + range.bytes <= fake.device + fake_machine.memory_bytes;
    if (fits)
        g_array_insert_val(fake.allocated, i, range);
    unlock();
    *memory = fits ? range.at : NULL;
    if (fits) /* NaN in bf16 and fp32: nobody may count on zeros */
        memset(fake.reach + (range.at - fake.device), 0xff, range.bytes);
    return keep(fits ? cudaSuccess : cudaErrorMemoryAllocation);
}

static cudaError_t
forget(GArray *ranges, void *memory)
{
    cudaError_t status = memory ? cudaErrorInvalidValue : cudaSuccess;

    lock();
    for (guint i = 0; memory && i < ranges->len; i++) {
        if (g_array_index(ranges, struct range, i).at != memory)
            continue;
        g_array_remove_index(ranges, i);
        status = cudaSuccess;
        break;
    }
    unlock();
    return keep(status);
}

cudaError_t
cudaFree(void *memory)
{
    return memory ? forget(fake.allocated, memory) : cudaSuccess;
}

cudaError_t
cudaMemGetInfo(size_t *left, size_t *all)
{
    *all = *left = fake_machine.memory_bytes;
    lock();
    for (guint i = 0; i < fake.allocated->len; i++)
        *left -= g_array_index(fake.allocated, struct range, i).bytes;
    unlock();
    return cudaSuccess;
}

cudaError_t
cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
    struct range range = {memory, bytes};

    MAY_FAIL();
    (void)flags;
    lock();
    const char *border = fake_machine.border;
    bool refused = range_of(fake.registered, memory) != NULL ||
                   (border && range.at < border && border < range.at + bytes);
    if (!refused)
        g_array_append_val(fake.registered, range);
    unlock();
    return keep(refused ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t
cudaHostUnregister(void *memory)
{
    return forget(fake.registered, memory);
}

/* NULL: the device does not reach it. */
static char *
reached(const void *memory)
{
    char *at = (char *)memory;

    lock();
    bool device = range_of(fake.allocated, at) != NULL;
    bool host = range_of(fake.registered, at) != NULL;
    unlock();
    return device ? fake.reach + (at - fake.device) : host ? at : NULL;
}

void *
fake_at(const void *memory)
{
    char *at = memory ? reached(memory) : NULL;

    if (memory && !at)
        g_error("a kernel was given %p, which is neither the device's nor registered", memory);
    return at;
}

/* --- streams --------------------------------------------------------------------------------- */

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
    lock();
    if (task->records) {
        task->records->done = task->times;
        task->records->at_ns = clock_ns();
    }
    stream->done++;
    tell();
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
        lock();
        struct task *task = next_task(stream);
        unlock();
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
    MAY_FAIL();
    cudaStream_t stream = g_new0(struct CUstream_st, 1);

    g_assert_cmpint(flags, ==, cudaStreamNonBlocking);
    g_queue_init(&stream->tasks);
    stream->priority = priority;
    lock();
    stream->random = fake.streams->len * 2654435761u;
    g_ptr_array_add(fake.streams, stream);
    unlock();
    g_assert_cmpint(pthread_create(&stream->thread, NULL, work, stream), ==, 0);
    *out = stream;
    return cudaSuccess;
}

cudaError_t
cudaStreamDestroy(cudaStream_t stream)
{
    lock();
    stream->over = true;
    g_ptr_array_remove(fake.streams, stream);
    tell();
    pthread_join(stream->thread, NULL);
    g_free(stream);
    return cudaSuccess;
}

static void arrive(void);

static void
settle(cudaStream_t stream)
{
    arrive();
    lock();
    while (stream->done < stream->queued)
        pthread_cond_wait(&fake.changed, &fake.mutex);
    unlock();
}

cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
    if (stream != cudaStreamPerThread)
        settle(stream);
    else
        arrive();
    MAY_FAIL();
    return cudaSuccess;
}

cudaError_t
cudaDeviceSynchronize(void)
{
    arrive();
    for (guint i = 0; i < fake.streams->len; i++)
        settle(fake.streams->pdata[i]);
    MAY_FAIL();
    return cudaSuccess;
}

static void
push(cudaStream_t stream, const struct task *task)
{
    if (stream->queued - stream->done >= (uint64_t)fake_machine.holds)
        g_error("a stream is full: the driver would keep everybody waiting");
    while (fake_machine.room && stream->queued - stream->done >= (uint64_t)fake_machine.room)
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
        arrive();
        run(data);
        return;
    }
    lock();
    push(stream, &task);
    tell();
}

static void
set_held(bool held)
{
    lock();
    fake.held = held;
    tell();
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
    MAY_FAIL();
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
    MAY_FAIL();
    lock();
    struct task task = {.records = event, .times = ++event->recorded};
    push(stream, &task);
    tell();
    return cudaSuccess;
}

/* Of what was recorded before: an event that never was is none to wait for. */
cudaError_t
cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    MAY_FAIL();
    (void)flags;
    lock();
    struct task task = {.waits = event, .times = event->recorded};
    push(stream, &task);
    tell();
    return cudaSuccess;
}

cudaError_t
cudaEventSynchronize(cudaEvent_t event)
{
    lock();
    for (uint64_t times = event->recorded; event->done < times;)
        pthread_cond_wait(&fake.changed, &fake.mutex);
    unlock();
    MAY_FAIL();
    return cudaSuccess;
}

cudaError_t
cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    lock();
    bool ready =
        start->done && end->done && start->done == start->recorded && end->done == end->recorded;
    *ms = (float)((double)(end->at_ns - start->at_ns) / 1e6);
    unlock();
    return keep(ready ? cudaSuccess : cudaErrorNotReady);
}

/* --- copies ---------------------------------------------------------------------------------- */

struct copy {
    void *to;
    const void *from; /* NULL: filled with value */
    int value;
    size_t bytes;
};

static void
run_copy(void *data)
{
    struct copy *copy = data;

    if (copy->from)
        memmove(copy->to, copy->from, copy->bytes);
    else
        memset(copy->to, copy->value, copy->bytes);
    g_free(copy);
}

/* Whether host memory, where it is registered, is so in one range. */
static bool
is_whole(const void *memory, size_t bytes)
{
    lock();
    const struct range *range = range_of(fake.registered, memory);
    bool whole = !range || (const char *)memory + bytes <= range->at + range->bytes;
    unlock();
    return whole;
}

/* Whether both ends are what the kind says. */
static bool
suits(const void *to, const void *from, enum cudaMemcpyKind kind)
{
    lock();
    bool to_device = range_of(fake.allocated, to) != NULL;
    bool from_device = range_of(fake.allocated, from) != NULL;
    unlock();
    return kind == cudaMemcpyDefault ||
           (to_device == (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) &&
            from_device == (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice));
}

cudaError_t
cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                cudaStream_t stream)
{
    MAY_FAIL();
    char *to_reached = reached(to), *from_reached = reached(from);
    bool pageable = !to_reached || !from_reached;

    /* CUDA would stage it, and wait. */
    if (!suits(to, from, kind) || !is_whole(to, bytes) || !is_whole(from, bytes) ||
        (pageable && stream != cudaStreamPerThread))
        return keep(cudaErrorInvalidValue);
    struct copy copy = {to_reached ? to_reached : to, from_reached ? from_reached : from, 0, bytes};
    fake_push(stream, run_copy, g_memdup2(&copy, sizeof copy));
    return cudaSuccess;
}

/* Copies that are on their way, of struct copy; `from` is their own. */
static GQueue late = G_QUEUE_INIT;

static void
arrive(void)
{
    struct copy *copy;

    lock();
    while ((copy = g_queue_pop_head(&late))) {
        void *from = (void *)copy->from;
        run_copy(copy);
        g_free(from);
    }
    unlock();
}

/* What is pageable may have left the host when it returns, and not be there: streams but those that
 * wait for the default one do not see it. */
cudaError_t
cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    if (suits(to, from, kind) && kind == cudaMemcpyHostToDevice && !reached(from)) {
        MAY_FAIL();
        struct copy copy = {reached(to), g_memdup2(from, bytes), 0, bytes};
        lock();
        g_queue_push_tail(&late, g_memdup2(&copy, sizeof copy));
        unlock();
        return cudaSuccess;
    }
    return cudaMemcpyAsync(to, from, bytes, kind, cudaStreamPerThread);
}

cudaError_t
cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    MAY_FAIL();
    struct copy copy = {fake_at(memory), NULL, value, bytes};

    fake_push(stream, run_copy, g_memdup2(&copy, sizeof copy));
    return cudaSuccess;
}

cudaError_t
cudaMemset(void *memory, int value, size_t bytes)
{
    return cudaMemsetAsync(memory, value, bytes, cudaStreamPerThread);
}
