/* The device of the cuda backend on a GPU made of threads (fake.h): its memory and the host's that
 * it is given, its queues when they are broken off, full or far ahead, and its clock. */
#include <cuda_runtime_api.h>
#include <glib/gstdio.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "exec/device/backend.h"
#include "exec/device/cuda/clock.h"
#include "exec/device/cuda/gpu.h"
#include "exec/device/cuda/pinned.h"
#include "exec/device/cuda/queue.h"
#include "tests/cuda/fake.h"
#include "tests/says.h"

static char *directory;

/* --- memory ---------------------------------------------------------------------------------- */

/* A call that failed, and that nobody minds, is not taken for a kernel that was not started. */
static void
test_got_over(void)
{
    const struct mw_backend *cuda = &mw_backend_cuda;
    struct mw_backend_options options = {.node_ranks = 1};
    struct mw_backend_device other;
    GError *error = NULL;
    void *memory;
    void *device = cuda->open(&options, 8192, &memory, &error);

    g_assert_no_error(error);
    g_assert_false(cuda->describe(1, &other, NULL));
    cuda->kernels->release(cuda->enter(device),
                           cuda->kernels->allocate(cuda->enter(device), INT64_C(1) << 40));
    cuda->accumulate(device, memory, (uint16_t *)memory + 2048, 1024, true, &error);
    g_assert_no_error(error);
    cuda->close(device);
}

static void
push_end(void *data, int64_t start_ns, int64_t end_ns, GError *error)
{
    (void)start_ns;
    (void)end_ns;
    g_assert_no_error(error);
    g_async_queue_push(data, data);
}

/* What was uploaded is there for whichever stream. */
static void
test_upload(void)
{
    const struct mw_backend *cuda = &mw_backend_cuda;
    struct mw_backend_options options = {.node_ranks = 1};
    g_autoptr(GAsyncQueue) ended = g_async_queue_new();
    g_autofree int64_t *there = g_new0(int64_t, 1);
    int64_t here = 42;
    GError *error = NULL;
    void *memory;
    void *device = cuda->open(&options, 64, &memory, &error);

    g_assert_no_error(error);
    g_assert_true(cuda->pin(device, there, sizeof *there, NULL));
    g_assert_true(cuda->kernels->upload(cuda->enter(device), memory, &here, sizeof here, NULL));
    g_assert_true(cuda->begin(device, 0, 0, NULL, 0, NULL));
    g_assert_true(cuda->copy(device, there, memory, sizeof here, NULL));
    g_assert_true(cuda->end(device, push_end, ended, NULL));
    g_async_queue_pop(ended);
    g_assert_cmpint(*there, ==, here);
    cuda->unpin(device, there);
    cuda->close(device);
}

#define HUGE_BYTES ((int64_t)2 << 20)

/* What the kernel would say of memory on one huge page and ordinary ones behind it, or of ordinary
 * ones alone. */
static void
say_pages(const char *base, bool huge)
{
    g_autofree char *text = g_strdup_printf(
        "%" PRIxPTR "-%" PRIxPTR " rw-p 00000000 00:00 0\nKernelPageSize:     %d kB\n"
        "%" PRIxPTR "-%" PRIxPTR " rw-p 00000000 00:00 0\nKernelPageSize:        4 kB\n",
        (uintptr_t)base, (uintptr_t)base + HUGE_BYTES, huge ? 2048 : 4,
        (uintptr_t)base + HUGE_BYTES, (uintptr_t)base + 2 * HUGE_BYTES);

    g_assert_true(g_file_set_contents(mw_cuda_mappings, text, -1, NULL));
}

/* The kernel takes long to say it of a large process. */
static bool
was_opened(int watch)
{
    char events[4096];

    return read(watch, events, sizeof events) > 0;
}

/* To the device and back, `bytes` around the middle. */
static void
assert_copied(void *device, void *memory, char *base, int64_t bytes)
{
    const struct mw_backend *cuda = &mw_backend_cuda;
    char *at = base + HUGE_BYTES - bytes / 2;
    g_autofree char *expected = g_malloc(bytes);
    GError *error = NULL;

    for (int64_t i = 0; i < bytes; i++)
        expected[i] = at[i] = (char)(i * 31 + i / 256);
    cuda->copy(device, memory, at, bytes, &error);
    g_assert_no_error(error);
    memset(at, 0, bytes);
    cuda->copy(device, at, memory, bytes, &error);
    g_assert_no_error(error);
    g_assert_cmpmem(at, bytes, expected, bytes);
}

/* An arena on huge pages and ordinary ones, which CUDA does not take as one. */
static void
test_pages(void)
{
    const struct mw_backend *cuda = &mw_backend_cuda;
    struct mw_backend_options options = {.node_ranks = 1};
    const int64_t bytes = 1 << 16;
    char *base = aligned_alloc(HUGE_BYTES, 2 * HUGE_BYTES);
    const char *real = mw_cuda_mappings;
    g_autofree char *mappings = g_build_filename(directory, "smaps", NULL);
    g_autoptr(GError) error = NULL;
    void *memory, *device = cuda->open(&options, bytes, &memory, NULL);

    mw_cuda_mappings = mappings;
    say_pages(base, true);
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    g_assert_cmpint(inotify_add_watch(watch, mappings, IN_OPEN), >=, 0);
    g_assert_true(cuda->pin(device, base, 2 * HUGE_BYTES, &error)); /* as one */
    cuda->unpin(device, base);
    g_assert_false(was_opened(watch));
    fake_machine.border = base + HUGE_BYTES;
    for (int times = 0; times < 2; times++) {
        g_assert_true(cuda->pin(device, base, 2 * HUGE_BYTES, &error));
        assert_copied(device, memory, base, bytes);
        cuda->unpin(device, base);
    }
    g_assert_true(was_opened(watch));
    close(watch);
    say_pages(base, false);
    g_assert_false(cuda->pin(device, base, 2 * HUGE_BYTES, &error));
    mw_test_says(error->message, "GPU 0 (made of threads): cudaHostRegister of 4194304 bytes on "
                                 "pages of 4 KiB: ");
    fake_machine.border = NULL;
    g_assert_true(cuda->pin(device, base, 2 * HUGE_BYTES, NULL));
    assert_copied(device, memory, base, bytes);
    cuda->unpin(device, base);
    mw_cuda_mappings = real;
    g_unlink(mappings);
    cuda->close(device);
    free(base);
}

/* --- what is broken off ---------------------------------------------------------------------- */

struct ended {
    GMutex mutex;
    GCond cond;
    bool done;
    GError *error;
};

static void
has_ended(void *data, int64_t start_ns, int64_t end_ns, GError *error)
{
    struct ended *ended = data;

    (void)start_ns;
    (void)end_ns;
    g_mutex_lock(&ended->mutex);
    ended->done = true;
    ended->error = error;
    g_cond_signal(&ended->cond);
    g_mutex_unlock(&ended->mutex);
}

/* An op that comes to its end after all has failed has failed, though no call says so. */
static void
test_broken_off(void)
{
    struct mw_cuda_gpu gpu = {.ordinal = 0};
    struct ended ended = {0};

    cudaSetDevice(0);
    struct mw_cuda_queues *queues = mw_cuda_queues_create(&gpu, NULL);
    g_assert_true(mw_cuda_queues_begin(queues, 0, 0, NULL, 0, NULL));
    fake_hold();
    mw_cuda_queues_name("a call");
    g_assert_true(mw_cuda_queues_end(queues, has_ended, &ended, NULL));
    while (g_strcmp0(mw_cuda_queues_awaited(queues), "a call"))
        g_usleep(100);
    mw_cuda_queues_fail(queues, "the reason");
    fake_release();
    g_mutex_lock(&ended.mutex);
    while (!ended.done)
        g_cond_wait(&ended.cond, &ended.mutex);
    g_mutex_unlock(&ended.mutex);
    g_assert_error(ended.error, MW_ERROR, MW_ERROR_DEVICE);
    g_assert_cmpstr(ended.error->message, ==, "the reason");
    g_clear_error(&ended.error);
    mw_cuda_queues_destroy(queues);
}

/* --- a stream that is full ------------------------------------------------------------------- */

#define ROOM 4
#define WAITS (2 * ROOM)

struct full {
    struct mw_cuda_queues *queues;
    GMutex shut; /* what the stream has begun waits for it */
    gint begins; /* atomic: the op that the stream has no room for */
};

static void
pass(void *data)
{
    struct full *full = data;

    g_mutex_lock(&full->shut);
    g_mutex_unlock(&full->shut);
}

static void
pass_over(void *data, int64_t start_ns, int64_t end_ns, GError *error)
{
    (void)data;
    (void)start_ns;
    (void)end_ns;
    g_assert_no_error(error);
}

static gpointer
fill(gpointer data)
{
    static const uint32_t after[WAITS];
    struct full *full = data;

    cudaSetDevice(0);
    g_assert_true(mw_cuda_queues_begin(full->queues, 0, 0, NULL, 0, NULL));
    fake_push(mw_cuda_stream(), pass, full);
    g_assert_true(mw_cuda_queues_end(full->queues, pass_over, NULL, NULL));
    g_atomic_int_set(&full->begins, true);
    g_assert_true(mw_cuda_queues_begin(full->queues, 0, 1, after, WAITS, NULL));
    g_assert_true(mw_cuda_queues_end(full->queues, pass_over, NULL, NULL));
    return NULL;
}

/* Who waits until a stream has room keeps nobody from the others. */
static void
test_full(void)
{
    struct mw_cuda_gpu gpu = {.ordinal = 0};
    struct full full = {.begins = false};

    cudaSetDevice(0);
    fake_machine.queue_limit = ROOM;
    full.queues = mw_cuda_queues_create(&gpu, NULL);
    g_mutex_lock(&full.shut);
    GThread *thread = g_thread_new("fill", fill, &full);
    while (!g_atomic_int_get(&full.begins))
        g_usleep(100);
    alarm(300);
    for (uint32_t i = 0; i < 20; i++) {
        g_usleep(1000);
        g_assert_true(mw_cuda_queues_begin(full.queues, 1, 2 + i, NULL, 0, NULL));
        g_assert_true(mw_cuda_queues_end(full.queues, pass_over, NULL, NULL));
    }
    alarm(0);
    g_mutex_unlock(&full.shut);
    g_thread_join(thread);
    cudaDeviceSynchronize();
    mw_cuda_queues_destroy(full.queues);
    fake_machine.queue_limit = 0;
}

#define MANY 500 /* ops, of four tasks each */

static gpointer
queue_many(gpointer data)
{
    struct full *full = data;

    cudaSetDevice(0);
    for (uint32_t i = 0; i < MANY; i++) {
        g_assert_true(mw_cuda_queues_begin(full->queues, 0, i, NULL, 0, NULL));
        for (int task = 0; task < 4; task++)
            fake_push(mw_cuda_stream(), pass, full);
        g_assert_true(mw_cuda_queues_end(full->queues, pass_over, NULL, NULL));
    }
    return NULL;
}

/* Who queues far ahead is held back before the driver holds up everybody. */
static void
test_far_ahead(void)
{
    struct mw_cuda_gpu gpu = {.ordinal = 0};
    struct full full = {.begins = false};

    cudaSetDevice(0);
    full.queues = mw_cuda_queues_create(&gpu, NULL);
    g_mutex_lock(&full.shut);
    GThread *thread = g_thread_new("many", queue_many, &full);
    g_usleep(100000);
    g_mutex_unlock(&full.shut);
    g_thread_join(thread);
    cudaDeviceSynchronize();
    mw_cuda_queues_destroy(full.queues);
}

/* --- clock ----------------------------------------------------------------------------------- */

static int64_t
clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* A mark is off by less than it takes to make one; single precision by less than 1 us. */
static void
test_clock(void)
{
    struct mw_cuda_gpu gpu = {.ordinal = 0};
    cudaStream_t stream;
    cudaEvent_t event;

    cudaSetDevice(0);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDefault);
    for (int round = 0; round < 20; round++) {
        struct mw_cuda_clock *clock = mw_cuda_clock_create(&gpu, NULL);
        int64_t begin_ns = clock_ns(), at_ns = 0;
        struct mw_cuda_mark *mark = mw_cuda_clock_mark(clock, NULL);
        int64_t off_ns = clock_ns() - begin_ns + 1000, before_ns = clock_ns();
        cudaEventRecord(event, stream);
        cudaEventSynchronize(event);
        int64_t after_ns = clock_ns();
        g_assert_true(mw_cuda_clock_time(clock, mark, event, &at_ns, NULL));
        g_assert_cmpint(at_ns, >=, before_ns - off_ns);
        g_assert_cmpint(at_ns, <=, after_ns + off_ns);
        mw_cuda_clock_drop(clock, mark);
        mw_cuda_clock_destroy(clock);
    }
    cudaEventDestroy(event);
    cudaStreamDestroy(stream);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    directory = g_dir_make_tmp("memwall-XXXXXX", NULL);
    g_test_add_func("/cuda-device/got-over", test_got_over);
    g_test_add_func("/cuda-device/upload", test_upload);
    g_test_add_func("/cuda-device/pages", test_pages);
    g_test_add_func("/cuda-device/broken-off", test_broken_off);
    g_test_add_func("/cuda-device/full", test_full);
    g_test_add_func("/cuda-device/far-ahead", test_far_ahead);
    g_test_add_func("/cuda-device/clock", test_clock);
    int status = g_test_run();
    g_rmdir(directory);
    g_free(directory);
    return status;
}
