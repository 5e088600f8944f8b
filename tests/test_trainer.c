/* A run's weights are the same bits wherever its state lives. */
#include <math.h>
#include <string.h>

#include "tests/forced.h"
#include "tests/trained.h"
#include "tests/weights_fixture.h"

#define STEPS 20
/* Measured: 0.0006 of losses near 5.5. */
#define CODED_LOSS_OFF 0.005
#define GPT2 FIXTURES "gpt2-small/config.json"
#define LLAMA FIXTURES "llama-small/config.json"

static char *directory;

/* Every placement against all in device memory, with accumulation and clipping. */
static void
compare_placements(const struct trained_case *common)
{
    struct trained reference = {0};

    for (int i = 0; i < TRAINED_PLACEMENTS; i++) {
        struct trained_case what = trained_placed(common, i);
        struct trained trained = trained_run(&what, STEPS, 2, directory);
        if (!i)
            reference = trained;
        else {
            trained_assert_same(what.name, &reference, &trained);
            trained_clear(&trained);
        }
    }
    g_test_message("loss %g to %g", reference.losses[0], reference.losses[STEPS - 1]);
    g_assert_cmpfloat(reference.losses[STEPS - 1], <, reference.losses[0]);
    trained_clear(&reference);
}

static void
test_placements(void)
{
    compare_placements(&(struct trained_case){
        .model = GPT2, .sequences = 2, .seq = 24, .grad_accum = 2, .interval = 1});
}

static void
test_llama(void)
{
    compare_placements(&(struct trained_case){
        .model = LLAMA, .sequences = 3, .seq = 17, .grad_accum = 3, .interval = 2, .tiles = 2});
}

static void
test_without_checkpoints(void)
{
    compare_placements(&(struct trained_case){.model = GPT2,
                                              .sequences = 2,
                                              .seq = 24,
                                              .grad_accum = 1,
                                              .interval = 0,
                                              .logits_chunks = 3,
                                              .tiles = 3});
}

/* How far losses are from those of 16 bits.  Forward has its own activations all the same, so the
 * first loss is that one. */
static void
compare_coded(const struct trained_case *coded)
{
    struct trained_case what = *coded;
    double off = 0;

    what.lr = 1e-3;
    struct trained in_8 = trained_run(&what, STEPS, 2, directory);
    what.checkpoint_dtype = what.kept_dtype = MW_DTYPE_NONE;
    struct trained in_16 = trained_run(&what, STEPS, 2, directory);
    g_assert_true(in_8.losses[0] == in_16.losses[0]);
    g_assert_true(in_8.norms[0] != in_16.norms[0]);
    for (int s = 0; s < STEPS; s++)
        off = fmax(off, fabs(in_8.losses[s] - in_16.losses[s]));
    g_test_message("loss off by at most %g", off);
    g_assert_cmpfloat(off, <, CODED_LOSS_OFF);
    trained_clear(&in_16);
    trained_clear(&in_8);
}

/* Checkpoints of 8 bits lose bits, the same wherever they are kept. */
static void
test_coded_checkpoints(void)
{
    struct trained_case what = {.model = GPT2,
                                .sequences = 2,
                                .seq = 24,
                                .grad_accum = 2,
                                .interval = 1,
                                .checkpoint_dtype = MW_DTYPE_MXFP8};

    compare_coded(&what);
    compare_placements(&what);
    what.model = LLAMA;
    what.interval = 2;
    what.dtype = MW_DTYPE_FP32;
    compare_placements(&what);
}

/* So do activations that layers keep: of all layers, of the last ones beside recomputed ones, and
 * where the product that stores and restores them is cut in tiles. */
static void
test_coded_activations(void)
{
    struct trained_case what = {
        .model = GPT2, .sequences = 2, .seq = 24, .grad_accum = 2, .kept_dtype = MW_DTYPE_MXFP8};

    compare_coded(&what);
    compare_placements(&what);
    what.interval = 1;
    what.recompute_layers = 1;
    what.checkpoint_dtype = MW_DTYPE_MXFP8;
    what.tiles = 3;
    compare_coded(&what);
    compare_placements(&what);
    what.model = LLAMA;
    compare_coded(&what);
}

/* A delayed update takes the gradient of the step before; steps before it begins are as ever. */
static void
test_delayed(void)
{
    struct trained_case what = {.name = "undelayed",
                                .model = GPT2,
                                .strategy = MW_STRATEGY_ZERO_OFFLOAD,
                                .sequences = 2,
                                .seq = 24,
                                .grad_accum = 2,
                                .interval = 1,
                                .prefetch = 1};
    struct trained undelayed = trained_run(&what, STEPS, 2, directory);

    what.name = "delayed";
    what.delayed = true;
    struct trained delayed = trained_run(&what, STEPS, 2, directory);
    g_assert_true(delayed.losses[0] == undelayed.losses[0]);
    g_assert_true(delayed.norms[1] == undelayed.norms[0]);
    g_assert_true(delayed.losses[2] != undelayed.losses[2]);
    g_assert_cmpfloat(delayed.losses[STEPS - 1], <, delayed.losses[0]);
    for (int64_t first = 1; first < STEPS; first += 5) {
        what.undelayed_steps = first;
        struct trained later = trained_run(&what, STEPS, 2, directory);
        for (int64_t s = 0; s <= first; s++)
            g_assert_true(later.losses[s] == undelayed.losses[s]);
        g_assert_true(first + 1 >= STEPS || later.norms[first + 1] != undelayed.norms[first + 1]);
        trained_clear(&later);
    }
    trained_clear(&undelayed);
    trained_clear(&delayed);
}

/* Where the state of a delayed update lives changes nothing. */
static void
test_delayed_placements(void)
{
    static const struct trained_case rows[] = {
        {.name = "cpu", .optimizer = "cpu", .gradients = "cpu"},
        {.name = "optimizer on drives", .optimizer = "nvme", .gradients = "cpu"},
        {.name = "gradients on the device", .optimizer = "cpu", .gradients = "gpu"},
        {.name = "split", .optimizer = "cpu:0.2MB,nvme", .gradients = "gpu:0.04MB,cpu"},
    };
    struct trained reference = {0};

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct trained_case what = rows[i];
        what.model = LLAMA;
        what.strategy = MW_STRATEGY_ZERO_OFFLOAD;
        what.sequences = 2;
        what.seq = 16;
        what.grad_accum = 1;
        what.interval = 1;
        what.prefetch = i;
        what.delayed = true;
        what.undelayed_steps = 4;
        struct trained trained = trained_run(&what, STEPS, 2, directory);
        if (!i)
            reference = trained;
        else {
            trained_assert_same(what.name, &reference, &trained);
            trained_clear(&trained);
        }
    }
    trained_clear(&reference);
}

/* A power of two changes no bit; a scale at which gradients overflow is halved until none does. */
static void
test_loss_scale(void)
{
    struct trained_case what = {.name = "scaled",
                                .model = GPT2,
                                .strategy = MW_STRATEGY_ZERO_OFFLOAD,
                                .sequences = 2,
                                .seq = 24,
                                .grad_accum = 2,
                                .interval = 1,
                                .prefetch = 1};
    struct trained plain = trained_run(&what, STEPS, 2, directory);

    what.loss_scaling = mw_loss_scaling_dynamic(4096);
    struct trained scaled = trained_run(&what, STEPS, 2, directory);
    trained_assert_same(what.name, &plain, &scaled);
    what.loss_scaling = (struct mw_loss_scaling){0x1p140, 1, 0x1p140, 1000};
    struct trained high = trained_run(&what, STEPS, 2, directory);
    int skipped = 0;
    while (skipped < STEPS && !isfinite(high.norms[skipped]))
        skipped++;
    g_assert_cmpint(skipped, >, 0);
    g_assert_cmpint(skipped, <, STEPS);
    g_assert_true(high.losses[0] == plain.losses[0]);
    for (int s = skipped; s < STEPS; s++)
        g_assert_true(isfinite(high.norms[s]) && isfinite(high.losses[s]));
    trained_clear(&plain);
    trained_clear(&scaled);
    trained_clear(&high);
}

/* In fp16, from a scale at which gradients are infinite: it is halved until none is, the same way
 * in every placement. */
static void
test_fp16(void)
{
    struct trained_case common = {.model = LLAMA,
                                  .sequences = 3,
                                  .seq = 17,
                                  .grad_accum = 2,
                                  .interval = 1,
                                  .tiles = 2,
                                  .dtype = MW_DTYPE_FP16,
                                  .loss_scaling = mw_loss_scaling_dynamic(0x1p24)};
    struct trained_case first = trained_placed(&common, 0);
    struct trained reference = trained_run(&first, STEPS, 2, directory);
    int skipped = 0;

    while (skipped < STEPS && !isfinite(reference.norms[skipped]))
        skipped++;
    g_assert_cmpint(skipped, >, 0);
    for (int s = 0; s < skipped; s++)
        g_assert_true(isfinite(reference.losses[s]));
    g_assert_cmpfloat(reference.losses[STEPS - 1], <, reference.losses[0]);
    for (int i = 2; i < TRAINED_PLACEMENTS; i += 3) {
        struct trained_case what = trained_placed(&common, i);
        struct trained trained = trained_run(&what, STEPS, 2, directory);
        trained_assert_same(what.name, &reference, &trained);
        trained_clear(&trained);
    }
    trained_clear(&reference);
}

/* --- PyTorch --- */

static void *
read_all(const struct mw_safetensors *set, const char *name, size_t size)
{
    const struct mw_safetensor *tensor = mw_safetensors_find(set, name);
    int64_t count = 1;
    GError *error = NULL;

    for (int i = 0; i < tensor->rank; i++)
        count *= tensor->shape[i];
    void *out = g_malloc(count * size);
    if (!mw_safetensors_read_raw(set, tensor, 0, count, out, &error))
        g_error("%s", error->message);
    return out;
}

/* Twenty steps in 16 bits beside PyTorch's in fp64: the same data, weights and settings. */
static void
follow_torch(const char *folder, const char *model, enum mw_dtype dtype)
{
    g_autofree char *path = g_build_filename(folder, "training.safetensors", NULL);
    struct mw_safetensors *training = mw_safetensors_open(path, NULL);
    struct mw_safetensors *weights = mw_safetensors_open(folder, NULL);
    const struct mw_safetensor *shape = mw_safetensors_find(training, "inputs");
    g_autofree int32_t *inputs = read_all(training, "inputs", sizeof *inputs);
    g_autofree int32_t *targets = read_all(training, "targets", sizeof *targets);
    g_autofree float *losses = read_all(training, "losses", sizeof *losses);
    g_autofree float *norms = read_all(training, "norms", sizeof *norms);
    struct trained_case what = {.name = folder,
                                .model = model,
                                .strategy = MW_STRATEGY_ZERO_INFINITY_NVME,
                                .params = "nvme",
                                .gradients = "cpu",
                                .optimizer = "nvme",
                                .activations = "cpu",
                                .sequences = shape->shape[1],
                                .seq = shape->shape[2],
                                .grad_accum = 1,
                                .interval = 1,
                                .prefetch = 2,
                                .dtype = dtype,
                                .weights = weights,
                                .inputs = inputs,
                                .targets = targets};

    g_assert_cmpint(shape->shape[0], ==, STEPS);
    struct trained trained = trained_run(&what, STEPS, 2, directory);
    for (int s = 0; s < STEPS; s++) {
        g_test_message("step %d: loss %.4f, torch %.4f; norm %.3f, torch %.3f", s,
                       trained.losses[s], losses[s], trained.norms[s], norms[s]);
        g_assert_cmpfloat_with_epsilon(trained.losses[s], losses[s], 0.01 * losses[s]);
        g_assert_cmpfloat_with_epsilon(trained.norms[s], norms[s], 0.05 * norms[s]);
    }
    trained_clear(&trained);
    mw_safetensors_close(training);
    mw_safetensors_close(weights);
}

static void
test_torch(void)
{
    for (int dtype = MW_DTYPE_BF16; dtype <= MW_DTYPE_FP16; dtype++) {
        follow_torch(FIXTURES "gpt2-small", GPT2, (enum mw_dtype)dtype);
        follow_torch(FIXTURES "llama-small", LLAMA, (enum mw_dtype)dtype);
    }
}

int
main(int argc, char **argv)
{
    if (forced_elsewhere())
        return 0;
    g_test_init(&argc, &argv, NULL);
    directory = trained_directory();
    g_test_add_func("/trainer/placements", test_placements);
    g_test_add_func("/trainer/llama", test_llama);
    g_test_add_func("/trainer/without-checkpoints", test_without_checkpoints);
    g_test_add_func("/trainer/coded-checkpoints", test_coded_checkpoints);
    g_test_add_func("/trainer/coded-activations", test_coded_activations);
    g_test_add_func("/trainer/delayed", test_delayed);
    g_test_add_func("/trainer/delayed-placements", test_delayed_placements);
    g_test_add_func("/trainer/torch", test_torch);
    g_test_add_func("/trainer/loss-scale", test_loss_scale);
    g_test_add_func("/trainer/fp16", test_fp16);
    int result = g_test_run();
    trained_remove(directory);
    return result;
}
