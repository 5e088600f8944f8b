/* The cuda backend on a GPU made of threads (fake.h): what it trains has the bits of the cpu
 * backend, in every placement, while its ops are queued without a wait of the host; and what it
 * says where a GPU fails. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "exec/device/cuda/gpu.h"
#include "tests/cuda/fake_refused.h"
#include "tests/says.h"
#include "tests/trained_commits.h"
#include "tests/weights_fixture.h"

#define STEPS 4
#define FP16_STEPS 20
#define OVERFLOWING 0x1p20 /* a loss scale */
#define THREADS 1
#define GPT2 FIXTURES "gpt2-small/config.json"
#define LLAMA FIXTURES "llama-small/config.json"

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

/* NULL: it does not fail.  g_free */
static char *
failure(void)
{
    struct trained_course course = {.steps = STEPS, .threads = THREADS, .directory = directory};
    struct trained trained;
    g_autoptr(GError) error = NULL;
    const bool trains = trained_train(&offloaded, &course, &trained, &error);

    trained_clear(&trained);
    if (trains)
        return NULL;
    g_assert_error(error, MW_ERROR, MW_ERROR_DEVICE);
    return g_strdup(error->message);
}

static void
assert_fails(const char *why)
{
    g_autofree char *said = failure();

    g_assert_nonnull(said);
    mw_test_says(said, why);
}

static void
test_no_gpu(void)
{
    fake_each_refused(assert_fails);
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
    assert_best(1, &mw_backend_cpu, FAKE_OLD_DRIVER);
    fake_machine.driver_version = 0;
    assert_best(2, &mw_backend_cpu, NULL);
    fake_machine = good;
}

/* With more and more memory there is at last room for all but the plan's arena.  How much that is
 * depends on the scratch, and so on the processor that stands for the GPU. */
static void
assert_arena_is_last(void)
{
    g_autofree char *last = NULL;
    char *said;

    for (fake_machine.memory_bytes = 32 << 20; (said = failure());
         fake_machine.memory_bytes += 50000) {
        g_free(last);
        last = said;
    }
    mw_test_says(last, "GPU 0 (made of threads): out of memory: the plan needs ");
}

static void
test_out_of_memory(void)
{
    struct fake_machine good = fake_machine;

    fake_machine.memory_bytes = 100000;
    assert_fails("GPU 0 (made of threads): cudaMalloc of the workspace of matrix products");
    assert_arena_is_last();
    fake_machine = good;
    fake_fail("cudaMalloc", 5, FAKE_OUT_OF_MEMORY);
    assert_fails("GPU 0 (made of threads): cudaMalloc of ");
    fake_fail("cudaHostRegister", 1, FAKE_OUT_OF_MEMORY);
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
        fake_fail(calls[i], calls[i] == calls[4] ? 1 : 300, FAKE_ILLEGAL_ADDRESS);
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
        fake_fail("cudaEventRecord", g_test_rand_int_range(1, 100), FAKE_ILLEGAL_ADDRESS);
    return true;
}

/* A run whose GPU is lost continues from the last step that was committed, to the same bits. */
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
    g_test_add_func("/cuda-backend/out-of-memory", test_out_of_memory);
    g_test_add_func("/cuda-backend/lost", test_lost);
    g_test_add_func("/cuda-backend/resumed", test_resumed);
    int status = g_test_run();
    trained_remove(directory);
    return status;
}
