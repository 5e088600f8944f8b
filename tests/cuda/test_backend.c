/* The cuda backend on a GPU made of threads (fake.h): what it trains has the bits of the cpu
 * backend, in every placement, while its ops are queued without a wait of the host; and what it
 * says where a GPU fails. */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "exec/cuda/clock.h"
#include "exec/cuda/gpu.h"
#include "exec/cuda/pinned.h"
#include "exec/cuda/queue.h"
#include "planner/error.h"
#include "tests/cuda/fake.h"
#include "tests/says.h"
#include "tests/trained_commits.h"
#include "tests/weights_fixture.h"

#define STEPS 4
#define FP16_STEPS 20
#define OVERFLOWING 0x1p20 /* a loss scale */
#define THREADS 1
#define GPT2 FIXTURES "gpt2-small/config.json"
#define LLAMA FIXTURES "llama-small/config.json"

/* cudaError_t */
#define OUT_OF_MEMORY 2
#define ILLEGAL_ADDRESS 700

#define OLD_DRIVER                                                                                 \
    "GPUs: the NVIDIA driver is for CUDA 12.2, this build needs one for CUDA 13.0: version 580 "   \
    "or later"

static char *directory;

static void
compare_placements(const struct trained_case *common)
{
    struct trained expected = trained_run(common, STEPS, THREADS, directory);

    for (int i = 0; i < TRAINED_PLACEMENTS; i++) {
        struct trained_case what = trained_placed(common, i);
        what.backend = &mw_backend_cuda;
        struct trained trained = trained_run(&what, STEPS, THREADS, directory);
        trained_assert_same(what.name, &expected, &trained);
        trained_clear(&trained);
    }
    trained_clear(&expected);
}

static void
test_gpt2(void)
{
    compare_placements(&(struct trained_case){.name = "gpt2",
                                              .strategy = MW_STRATEGY_ZERO3,
                                              .model = GPT2,
                                              .sequences = 2,
                                              .seq = 24,
                                              .grad_accum = 2,
                                              .interval = 1});
}

static void
test_llama(void)
{
    compare_placements(&(struct trained_case){.name = "llama",
                                              .strategy = MW_STRATEGY_ZERO3,
                                              .model = LLAMA,
                                              .sequences = 3,
                                              .seq = 17,
                                              .grad_accum = 1,
                                              .interval = 0,
                                              .logits_chunks = 3,
                                              .tiles = 2});
}

/* Turns from a plan to another in the same memory. */
static void
test_delayed(void)
{
    struct trained_case what = {.name = "delayed",
                                .model = GPT2,
                                .strategy = MW_STRATEGY_ZERO_OFFLOAD,
                                .sequences = 2,
                                .seq = 24,
                                .grad_accum = 2,
                                .interval = 1,
                                .prefetch = 1,
                                .delayed = true,
                                .undelayed_steps = 2};
    struct trained expected = trained_run(&what, STEPS, THREADS, directory);

    what.backend = &mw_backend_cuda;
    struct trained trained = trained_run(&what, STEPS, THREADS, directory);
    trained_assert_same(what.name, &expected, &trained);
    trained_clear(&expected);
    trained_clear(&trained);
}

/* Of fp16, from a loss scale at which gradients overflow: both leave out the same steps. */
static void
test_fp16(void)
{
    struct trained_case common = {.name = "fp16",
                                  .strategy = MW_STRATEGY_ZERO3,
                                  .model = GPT2,
                                  .sequences = 2,
                                  .seq = 24,
                                  .grad_accum = 2,
                                  .interval = 1,
                                  .dtype = MW_DTYPE_FP16,
                                  .loss_scaling = mw_loss_scaling_dynamic(OVERFLOWING)};
    struct trained expected = trained_run(&common, FP16_STEPS, THREADS, directory);
    int skipped = 0;

    while (skipped < FP16_STEPS && !isfinite(expected.norms[skipped]))
        skipped++;
    g_test_message("%d steps are left out", skipped);
    g_assert_cmpint(skipped, >, 0);
    g_assert_cmpint(skipped, <, FP16_STEPS / 2);
    g_assert_cmpfloat(expected.losses[FP16_STEPS - 1], <, expected.losses[0]);
    for (int i = 0; i < TRAINED_PLACEMENTS; i += TRAINED_PLACEMENTS / 2) {
        struct trained_case what = trained_placed(&common, i);
        what.backend = &mw_backend_cuda;
        struct trained trained = trained_run(&what, FP16_STEPS, THREADS, directory);
        trained_assert_same(what.name, &expected, &trained);
        trained_clear(&trained);
    }
    trained_clear(&expected);
}

/* --- failures -------------------------------------------------------------------------------- */

static const struct trained_case offloaded = {.name = "offloaded",
                                              .strategy = MW_STRATEGY_ZERO_INFINITY_CPU,
                                              .model = GPT2,
                                              .params = "cpu",
                                              .gradients = "cpu",
                                              .optimizer = "cpu",
                                              .activations = "cpu",
                                              .sequences = 2,
                                              .seq = 24,
                                              .grad_accum = 2,
                                              .interval = 1,
                                              .backend = &mw_backend_cuda};

static void
assert_fails(const char *why)
{
    struct trained_course course = {.steps = STEPS, .threads = THREADS, .directory = directory};
    struct trained trained;
    GError *error = NULL;

    g_assert_false(trained_train(&offloaded, &course, &trained, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_DEVICE);
    mw_test_says(error->message, why);
    g_clear_error(&error);
    trained_clear(&trained);
}

static void
test_no_gpu(void)
{
    struct fake_machine good = fake_machine;

    fake_machine.driver_version = 0;
    assert_fails("GPUs: no NVIDIA driver is loaded");
    fake_machine.driver_version = 12020;
    assert_fails(OLD_DRIVER);
    fake_machine = good;
    fake_machine.gpus = 0;
    assert_fails("GPUs: 1 rank of this machine, 0 GPUs");
    fake_machine = good;
    fake_machine.major = 7;
    assert_fails("GPU 0 (made of threads): its compute capability is 7.0");
    fake_machine = good;
}

/* What is said of a rank's GPU is said of that which it picks. */
static void
assert_own(int node_rank, const char *bus)
{
    struct mw_backend_device device;

    g_assert_true(mw_backend_describe_own(&mw_backend_cuda, node_rank, &device, NULL));
    g_assert_nonnull(strstr(device.name, bus));
}

/* A GPU for each rank, or the one that the launcher lets it see. */
static void
test_ranks(void)
{
    struct mw_cuda_gpu gpu;
    g_autoptr(GError) error = NULL;

    g_unsetenv("CUDA_VISIBLE_DEVICES");
    g_assert_false(mw_cuda_gpu_pick(0, 2, &gpu, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_DEVICE);
    g_assert_cmpstr(error->message, ==,
                    "GPUs: 2 ranks of this machine, 1 GPU: one rank has one GPU");
    g_setenv("CUDA_VISIBLE_DEVICES", "3", TRUE);
    g_assert_true(mw_cuda_gpu_pick(1, 2, &gpu, NULL));
    g_assert_cmpint(gpu.ordinal, ==, 0);
    assert_own(1, "0000:03:00.0");
    g_unsetenv("CUDA_VISIBLE_DEVICES");
    fake_machine.gpus = 2;
    g_assert_true(mw_cuda_gpu_pick(1, 2, &gpu, NULL));
    g_assert_cmpstr(gpu.bus, ==, "0000:01:00.0");
    assert_own(1, "0000:01:00.0");
    fake_machine.gpus = 1;
}

static void
assert_best(int ranks, const struct mw_backend *expected, const char *why)
{
    struct mw_backend_place place = {.ranks = ranks, .node_ranks = ranks};
    g_autoptr(GError) error = NULL;

    g_assert_true(mw_backend_best(&place, &error) == expected);
    g_assert_cmpstr(error ? error->message : NULL, ==, why);
    g_assert_true(mw_backend_takes(&mw_backend_cpu, &place, NULL));
    /* What keeps a rank from it is what is said where it is asked for. */
    bool there = mw_backend_cuda.devices(NULL) > 0;
    g_assert_cmpint(mw_backend_takes(&mw_backend_cuda, &place, NULL), ==, there && !why);
}

/* Cores, silently where there is no GPU, else with the reason; NCCL is several ranks' concern. */
static void
test_best(void)
{
    struct fake_machine good = fake_machine;

    g_unsetenv("CUDA_VISIBLE_DEVICES");
    assert_best(1, &mw_backend_cuda, NULL);
    assert_best(2, &mw_backend_cpu, "GPUs: 2 ranks of this machine, 1 GPU: one rank has one GPU");
    fake_machine.gpus = 2;
    assert_best(2, &mw_backend_cuda, NULL);
    fake_nccl.missing = true;
    assert_best(2, &mw_backend_cpu,
                "several ranks on GPUs need NCCL: GPUs: libnccl.so.2: cannot open shared object "
                "file: No such file or directory");
    fake_nccl.missing = false;
    fake_nccl.version = 21003;
    assert_best(2, &mw_backend_cpu,
                "GPUs: NCCL, which several ranks need, is 2.10.3, the oldest that will do is 2.14");
    fake_nccl.version = 2708;
    assert_best(2, &mw_backend_cpu,
                "GPUs: NCCL, which several ranks need, is 2.7.8, the oldest that will do is 2.14");
    fake_nccl.version = 21400;
    fake_machine.lacks_cublaslt = true;
    assert_best(1, &mw_backend_cpu,
                "GPUs: libcublasLt.so.13: cannot open shared object file: No such file or "
                "directory");
    fake_machine.lacks_cublaslt = false;
    fake_machine.major = 7;
    assert_best(1, &mw_backend_cpu,
                "GPU 0 (made of threads): its compute capability is 7.0, the oldest that will do "
                "8.0");
    fake_machine.gpus = 0;
    assert_best(1, &mw_backend_cpu, NULL);
    fake_machine = good;
    fake_machine.driver_version = 12020;
    assert_best(1, &mw_backend_cpu, OLD_DRIVER);
    fake_machine.driver_version = 0;
    assert_best(2, &mw_backend_cpu, NULL);
    fake_machine = good;
}

static void
test_out_of_memory(void)
{
    struct fake_machine good = fake_machine;

    fake_machine.memory_bytes = 100000;
    assert_fails("GPU 0 (made of threads): cudaMalloc of the workspace of matrix products");
    fake_machine.memory_bytes = (32 << 20) + 300000;
    assert_fails("GPU 0 (made of threads): out of memory: the plan needs ");
    fake_machine = good;
    fake_fail("cudaMalloc", 5, OUT_OF_MEMORY);
    assert_fails("GPU 0 (made of threads): cudaMalloc of ");
    fake_fail("cudaHostRegister", 1, OUT_OF_MEMORY);
    assert_fails("GPU 0 (made of threads): cudaHostRegister of ");
    fake_fail(NULL, 0, 0);
}

/* Whatever call sees it first, in whichever lane: the run ends, and says so. */
static void
test_lost(void)
{
    static const char *const calls[] = {"cudaMemcpyAsync", "cudaEventRecord",
                                        "cudaEventSynchronize", "cudaStreamWaitEvent",
                                        "cudaMemsetAsync"};

    for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
        fake_fail(calls[i], calls[i] == calls[4] ? 1 : 300, ILLEGAL_ADDRESS);
        assert_fails("an illegal memory access was encountered");
    }
    fake_fail(NULL, 0, 0);
    struct trained trained = trained_run(&offloaded, STEPS, THREADS, directory);
    trained_clear(&trained);
}

#define LOST_AT 7 /* a step */

static bool
lose_gpu(const struct trained_case *what, int64_t step, GError **error)
{
    if (step == LOST_AT)
        fake_fail("cudaEventRecord", g_test_rand_int_range(1, 100), ILLEGAL_ADDRESS);
    return true;
}

/* A run whose GPU is lost goes on from the last step that was committed, to the same bits. */
static void
test_resumed(void)
{
    for (int i = 0; i < TRAINED_COMMITS; i++) {
        struct trained_case what = trained_commits[i];
        struct trained_course course = trained_commit_course(directory, false);
        GError *error = NULL;

        what.backend = &mw_backend_cuda;
        struct trained whole = trained_well(&what, &course), lost;
        what.before_batch = lose_gpu;
        g_assert_false(trained_train(&what, &course, &lost, &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_DEVICE);
        g_clear_error(&error);
        fake_fail(NULL, 0, 0);
        what.before_batch = NULL;
        course.resume = true;
        struct trained resumed = trained_well(&what, &course);
        g_test_message("%s: from step %d", what.name, (int)resumed.first_step);
        g_assert_cmpint(resumed.first_step, >=, LOST_AT - MAX(what.save_every, 1));
        g_assert_cmpint(resumed.first_step, <=, LOST_AT + 1);
        trained_assert_same(what.name, &whole, &resumed);
        trained_clear(&whole);
        trained_clear(&lost);
        trained_clear(&resumed);
    }
}

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
    fake_machine.room = ROOM;
    full.queues = mw_cuda_queues_create(&gpu, NULL);
    g_mutex_lock(&full.shut);
    GThread *thread = g_thread_new("fill", fill, &full);
    while (!g_atomic_int_get(&full.begins))
        g_usleep(100);
    alarm(60);
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
    fake_machine.room = 0;
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
    fake_machine.threads = THREADS;
    directory = trained_directory();
    g_test_add_func("/cuda-backend/gpt2", test_gpt2);
    g_test_add_func("/cuda-backend/llama", test_llama);
    g_test_add_func("/cuda-backend/delayed", test_delayed);
    g_test_add_func("/cuda-backend/fp16", test_fp16);
    g_test_add_func("/cuda-backend/no-gpu", test_no_gpu);
    g_test_add_func("/cuda-backend/ranks", test_ranks);
    g_test_add_func("/cuda-backend/best", test_best);
    g_test_add_func("/cuda-backend/got-over", test_got_over);
    g_test_add_func("/cuda-backend/upload", test_upload);
    g_test_add_func("/cuda-backend/pages", test_pages);
    g_test_add_func("/cuda-backend/broken-off", test_broken_off);
    g_test_add_func("/cuda-backend/full", test_full);
    g_test_add_func("/cuda-backend/far-ahead", test_far_ahead);
    g_test_add_func("/cuda-backend/clock", test_clock);
    g_test_add_func("/cuda-backend/out-of-memory", test_out_of_memory);
    g_test_add_func("/cuda-backend/lost", test_lost);
    g_test_add_func("/cuda-backend/resumed", test_resumed);
    int status = g_test_run();
    trained_remove(directory);
    return status;
}
