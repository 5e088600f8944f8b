/* Training on a GPU: the same bits in every placement, and the losses of the cpu backend.  Skipped
 * where there is no GPU; with MW_TEST_EMULATED kernels are emulated, in the streams of a GPU made
 * of threads, and only a little is trained. */
#include <math.h>

#include "exec/device/cuda/gpu.h"
#include "tests/cases.h"
#include "tests/trained.h"
#include "tests/weights_fixture.h"

#if defined(MW_TEST_EMULATED)
#include "tests/cuda/fake.h"
#define STEPS 2
#define PLACEMENT_STRIDE 6 /* all on the device; on drives */
#else
#define STEPS 20
#define PLACEMENT_STRIDE 1
#endif
#define THREADS 2
#define GPT2 FIXTURES "gpt2-small/config.json"
#define LLAMA FIXTURES "llama-small/config.json"

/* Both round to 16 bits after every operation, sums in other orders: each loss is within 2^-8
 * (fp16: 2^-11) of its own exact one, and the weights that they come from drift apart with the
 * steps. */
#define LOSS_TOLERANCE 0.01

static char *directory;

static void
follow_cpu(const struct trained_case *common, const struct trained *trained)
{
    struct trained_case what = *common;

    what.backend = NULL;
    struct trained expected = trained_run(&what, STEPS, THREADS, directory);
    for (int s = 0; s < STEPS; s++) {
        g_test_message("step %d: loss %.4f, on the cpu %.4f", s, trained->losses[s],
                       expected.losses[s]);
        g_assert_cmpfloat(fabs(trained->losses[s] / expected.losses[s] - 1), <, LOSS_TOLERANCE);
    }
    trained_clear(&expected);
}

static void
compare_placements(const struct trained_case *common)
{
    struct trained reference = {0};

    for (int i = 0; i < TRAINED_PLACEMENTS; i += PLACEMENT_STRIDE) {
        struct trained_case what = trained_placed(common, i);
        what.backend = &mw_backend_cuda;
        struct trained trained = trained_run(&what, STEPS, THREADS, directory);
        if (!i) {
            follow_cpu(&what, &trained);
            reference = trained;
        } else {
            trained_assert_same(what.name, &reference, &trained);
            trained_clear(&trained);
        }
    }
    trained_clear(&reference);
}

static void
test_gpt2(void)
{
    compare_placements(&(struct trained_case){
        .model = GPT2, .sequences = 2, .seq = 24, .grad_accum = 2, .interval = 1});
}

static void
test_llama(void)
{
    compare_placements(&(struct trained_case){.model = LLAMA,
                                              .sequences = 3,
                                              .seq = 17,
                                              .grad_accum = 3,
                                              .interval = 2,
                                              .tiles = 2,
                                              .logits_chunks = 3});
}

/* Checkpoints and kept activations in 8 bits, in streams beside what computes with them. */
static void
test_coded(void)
{
    compare_placements(&(struct trained_case){.model = GPT2,
                                              .sequences = 2,
                                              .seq = 24,
                                              .grad_accum = 2,
                                              .interval = 1,
                                              .recompute_layers = 1,
                                              .checkpoint_dtype = MW_DTYPE_MXFP8,
                                              .kept_dtype = MW_DTYPE_MXFP8});
}

/* With the loss scale that fp16 begins with. */
static void
test_fp16(void)
{
    struct trained_case what = {.name = "fp16",
                                .strategy = MW_STRATEGY_ZERO3,
                                .model = LLAMA,
                                .sequences = 2,
                                .seq = 24,
                                .grad_accum = 2,
                                .interval = 1,
                                .dtype = MW_DTYPE_FP16,
                                .backend = &mw_backend_cuda};
    struct trained trained = trained_run(&what, STEPS, THREADS, directory);

    follow_cpu(&what, &trained);
    trained_clear(&trained);
}

/* A plan with a section of micro-batches, whose ops are queued on the device round by round. */
static void
test_folded(void)
{
    struct trained_case what = {.name = "folded",
                                .strategy = MW_STRATEGY_ZERO_INFINITY_CPU,
                                .params = "cpu",
                                .gradients = "cpu",
                                .optimizer = "cpu",
                                .model = GPT2,
                                .sequences = 1,
                                .seq = 8,
                                .grad_accum = 14,
                                .interval = 1,
                                .backend = &mw_backend_cuda};
    struct trained flat = trained_run(&what, STEPS, THREADS, directory);

    what.folds.micro_batches = true;
    struct trained folded = trained_run(&what, STEPS, THREADS, directory);
    trained_assert_same(what.name, &flat, &folded);
    trained_clear(&flat);
    trained_clear(&folded);
}

/* Moments of fewer bits: the GPU and the cores update them alike. */
static void
test_narrow_moments(gconstpointer data)
{
    struct trained_case what = {.name = "narrow moments",
                                .strategy = MW_STRATEGY_ZERO_OFFLOAD,
                                .gradients = "cpu",
                                .optimizer = "cpu",
                                .model = GPT2,
                                .sequences = 2,
                                .seq = 24,
                                .grad_accum = 2,
                                .interval = 1,
                                .kind = (enum mw_optimizer_kind)GPOINTER_TO_INT(data),
                                .backend = &mw_backend_cuda};
    struct trained on_cores = trained_run(&what, STEPS, THREADS, directory);

    follow_cpu(&what, &on_cores);
    what.strategy = MW_STRATEGY_DDP;
    what.gradients = what.optimizer = "gpu";
    struct trained on_gpu = trained_run(&what, STEPS, THREADS, directory);
    trained_assert_same(what.name, &on_cores, &on_gpu);
    trained_clear(&on_gpu);
    trained_clear(&on_cores);
}

static void
skip(void)
{
    g_autoptr(GError) error = NULL;
    int count = mw_cuda_gpu_count(&error);

    g_test_skip(count < 0 ? error->message : "no GPU");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#if defined(MW_TEST_EMULATED)
    fake_machine.reachable = true;
#endif
    bool there = mw_cuda_gpu_count(NULL) > 0;
    directory = trained_directory();
    g_test_add_func("/cuda-training/gpt2", there ? test_gpt2 : skip);
    g_test_add_func("/cuda-training/coded", there ? test_coded : skip);
    g_test_add_func("/cuda-training/fp16", there ? test_fp16 : skip);
    if (there)
        g_test_add_data_func("/cuda-training/adamw-8bit", GINT_TO_POINTER(MW_OPTIMIZER_ADAMW_8BIT),
                             test_narrow_moments);
    /* The same kernels, of another family, order and type. */
    if (!MW_FEW_CASES) {
        g_test_add_func("/cuda-training/llama", there ? test_llama : skip);
        g_test_add_func("/cuda-training/folded", there ? test_folded : skip);
        if (there)
            g_test_add_data_func("/cuda-training/adamw-16bit",
                                 GINT_TO_POINTER(MW_OPTIMIZER_ADAMW_16BIT), test_narrow_moments);
    }
    int status = g_test_run();
    trained_remove(directory);
    return status;
}
