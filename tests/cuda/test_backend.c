/* The cuda backend on a GPU made of threads (fake.h): what it trains has the bits of the cpu
 * backend, in every placement, while its ops are queued without a wait of the host; and what it
 * says where a GPU fails. */
#include <string.h>

#include "planner/error.h"
#include "tests/cuda/fake.h"
#include "tests/trained.h"
#include "tests/weights_fixture.h"

#define STEPS 4
#define THREADS 1
#define GPT2 FIXTURES "gpt2-small/config.json"
#define LLAMA FIXTURES "llama-small/config.json"

/* cudaError_t */
#define OUT_OF_MEMORY 2
#define ILLEGAL_ADDRESS 700

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
    if (!strstr(error->message, why) || strchr(error->message, '\n'))
        g_error("\"%s\" is not one line with \"%s\"", error->message, why);
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
    assert_fails("GPUs: the driver is for CUDA 12.2, this build needs one for CUDA 13.0");
    fake_machine = good;
    fake_machine.gpus = 0;
    assert_fails("GPUs: 1 rank of this machine, 0 GPUs");
    fake_machine = good;
    fake_machine.major = 7;
    assert_fails("GPU 0 (made of threads): its compute capability is 7.0");
    fake_machine = good;
}

static void
test_out_of_memory(void)
{
    fake_fail("cudaMalloc", 2, OUT_OF_MEMORY);
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

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    fake_machine.threads = THREADS;
    directory = trained_directory();
    g_test_add_func("/cuda-backend/gpt2", test_gpt2);
    g_test_add_func("/cuda-backend/llama", test_llama);
    g_test_add_func("/cuda-backend/delayed", test_delayed);
    g_test_add_func("/cuda-backend/no-gpu", test_no_gpu);
    g_test_add_func("/cuda-backend/out-of-memory", test_out_of_memory);
    g_test_add_func("/cuda-backend/lost", test_lost);
    int status = g_test_run();
    trained_remove(directory);
    return status;
}
