/* The operators on a device, a whole step of them: against what PyTorch computes, between
 * tile counts, chunks, layouts, and again. */
#include <math.h>
#include <string.h>

#include "exec/device/cpu/device.h"
#include "exec/device/cpu/matmul.h"
#include "exec/operators/operators.h"
#include "tests/compute_driver.h"
#include "tests/says.h"
#include "tests/weights_fixture.h"
#include "tests/whole_model.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

struct fixture {
    struct mw_decoder decoder;
    struct mw_safetensors *expected;
    double *params;
    int32_t *ids, *targets;
    struct mw_drive drive;
};

static void *
read_all(const struct mw_safetensors *set, const char *name, size_t element_bytes)
{
    const struct mw_safetensor *tensor = mw_safetensors_find(set, name);
    void *values = g_malloc((size_t)tensor->elements * element_bytes);
    GError *error = NULL;

    mw_safetensors_read_raw(set, tensor, 0, tensor->elements, values, &error);
    g_assert_no_error(error);
    return values;
}

static struct mw_safetensors *
open_set(const char *name, const char *file)
{
    g_autofree char *path = g_strdup_printf("%s%s/%s", FIXTURES, name, file);
    GError *error = NULL;
    struct mw_safetensors *set = mw_safetensors_open(path, &error);

    g_assert_no_error(error);
    return set;
}

static void
set_up(struct fixture *f, gconstpointer name)
{
    g_autofree char *folder = g_strconcat(FIXTURES, name, NULL);
    struct mw_safetensors *weights = open_set(name, "model.safetensors");

    f->decoder = mw_test_decoder(folder);
    f->params = mw_whole_load(&f->decoder, weights, "");
    mw_safetensors_close(weights);
    f->expected = open_set(name, "expected.safetensors");
    const struct mw_safetensor *inputs = mw_safetensors_find(f->expected, "inputs");
    f->ids = read_all(f->expected, "inputs", sizeof *f->ids);
    f->targets = read_all(f->expected, "targets", sizeof *f->targets);
    f->drive = (struct mw_drive){.decoder = &f->decoder,
                                 .params = f->params,
                                 .ids = f->ids,
                                 .targets = f->targets,
                                 .sequences = inputs->shape[0],
                                 .seq = inputs->shape[1]};
}

static void
tear_down(struct fixture *f, gconstpointer name)
{
    (void)name;
    mw_safetensors_close(f->expected);
    g_free(f->params);
    g_free(f->ids);
    g_free(f->targets);
}

/* --- PyTorch --------------------------------------------------------------------------------- */

/* Differences to PyTorch's fp64 as shares of the root mean square: bf16 keeps 8 bits, that is
 * 2^-9 = 0.2% at most and 0.11% on the average an operation; some forty follow each other. */
#define LOGITS_TOLERANCE 0.01
#define GRADIENT_TOLERANCE 0.04
#define LOSS_TOLERANCE 0.002

/* fp16 keeps 11 bits. */
static double
tolerance(const struct fixture *f, double of_bf16)
{
    return f->drive.dtype == MW_DTYPE_FP16 ? of_bf16 / 8 : of_bf16;
}

static double
difference(const double *got, const float *expected, int64_t n)
{
    double off = 0, size = 0;

    for (int64_t i = 0; i < n; i++) {
        off += (got[i] - (double)expected[i]) * (got[i] - (double)expected[i]);
        size += (double)expected[i] * (double)expected[i];
    }
    return sqrt(off / size);
}

static void
check_tensor(const struct fixture *f, const char *name, const double *got, double tolerance)
{
    g_autofree float *expected = read_all(f->expected, name, sizeof *expected);
    double off = difference(got, expected, mw_safetensors_find(f->expected, name)->elements);

    g_test_message("%s: %.4f off", name, off);
    g_assert_cmpfloat(off, <, tolerance);
}

static void
check_driven(const struct fixture *f, const struct mw_driven *driven)
{
    g_autofree double *gradients = mw_whole_load(&f->decoder, f->expected, "grad.");
    g_autofree float *loss = read_all(f->expected, "loss", sizeof *loss);
    int64_t elements = f->drive.sequences * f->drive.seq * f->decoder.hidden;
    char worst[MW_WEIGHTS_NAME_MAX] = "none";

    for (int64_t layer = 0; layer < f->decoder.layers; layer++) {
        g_autofree char *name = g_strdup_printf("hidden.%d", (int)layer);
        check_tensor(f, name, driven->hidden + layer * elements, tolerance(f, LOGITS_TOLERANCE));
    }
    check_tensor(f, "logits", driven->logits, tolerance(f, LOGITS_TOLERANCE));
    g_assert_cmpfloat(fabs(driven->loss / (double)*loss - 1), <, tolerance(f, LOSS_TOLERANCE));
    double off = mw_whole_difference(&f->decoder, driven->gradients, gradients, worst);
    g_test_message("loss %.6f for %.6f; gradients %.4f off at most, in %s", driven->loss,
                   (double)*loss, off, worst);
    g_assert_cmpfloat(off, <, tolerance(f, GRADIENT_TOLERANCE));
}

static void
test_torch(struct fixture *f, gconstpointer name)
{
    (void)name;
    for (int variant = 0; variant < 8; variant += (int)mw_drive_stride(7)) {
        f->drive.tiles = variant & 1 ? 3 : 1;
        f->drive.chunks = variant & 2 ? 3 : 1;
        f->drive.recompute = variant & 4;
        struct mw_driven driven = mw_drive(&f->drive);
        check_driven(f, &driven);
        mw_driven_clear(&driven);
    }
}

static void
test_torch_fp16(struct fixture *f, gconstpointer name)
{
    f->drive.dtype = MW_DTYPE_FP16;
    test_torch(f, name);
}

/* --- with itself ----------------------------------------------------------------------------- */

static void
assert_same(const struct fixture *f, const struct mw_driven *a, const struct mw_driven *b)
{
    size_t logits = (size_t)(f->drive.sequences * f->drive.seq * f->decoder.vocab);
    size_t elements = (size_t)mw_weights_elements(&f->decoder);

    g_assert_cmpmem(a->logits, logits * sizeof(double), b->logits, logits * sizeof(double));
    g_assert_cmpmem(a->gradients, elements * sizeof(double), b->gradients,
                    elements * sizeof(double));
    g_assert_true(a->loss == b->loss);
}

/* Recomputed activations are the saved ones, so that gradients are the same bits too. */
static void
test_again(struct fixture *f, gconstpointer name)
{
    (void)name;
    f->drive.tiles = 2;
    struct mw_driven first = mw_drive(&f->drive), again = mw_drive(&f->drive);
    f->drive.recompute = true;
    struct mw_driven recomputed = mw_drive(&f->drive);
    assert_same(f, &first, &again);
    assert_same(f, &first, &recomputed);
    mw_driven_clear(&first);
    mw_driven_clear(&again);
    mw_driven_clear(&recomputed);
}

/* Each is off by its own rounding, and what parts add up is rounded to bf16 part by part: by
 * cublasLt twice, before it is added and after that. */
static double
order_tolerance(int64_t parts)
{
    return mw_drive_tests(&mw_drive_cpu) ? 0.02 + 0.004 * sqrt((double)parts)
                                         : 0.025 + 0.006 * sqrt((double)parts);
}

static void
assert_close(const struct fixture *f, const struct mw_driven *got, const struct mw_driven *expected)
{
    int64_t tiles = f->drive.tiles;
    char worst[MW_WEIGHTS_NAME_MAX] = "none";
    double off = mw_whole_difference(&f->decoder, got->gradients, expected->gradients, worst);

    g_test_message("%d tiles, %d chunks: gradients %.5f apart at most, in %s", (int)tiles,
                   (int)f->drive.chunks, off, worst);
    g_assert_cmpfloat(off, <, order_tolerance(tiles));
    g_assert_cmpfloat(fabs(got->loss / expected->loss - 1), <, LOSS_TOLERANCE);
}

static void
test_tiles(struct fixture *f, gconstpointer name)
{
    struct mw_driven whole = mw_drive(&f->drive);

    (void)name;
    for (f->drive.tiles = 2; f->drive.tiles <= 300; f->drive.tiles += 1 + f->drive.tiles / 2) {
        struct mw_driven tiled = mw_drive(&f->drive);
        assert_close(f, &tiled, &whole);
        mw_driven_clear(&tiled);
    }
    mw_driven_clear(&whole);
}

static void
test_chunks(struct fixture *f, gconstpointer name)
{
    struct mw_driven whole = mw_drive(&f->drive);

    (void)name;
    for (f->drive.chunks = 2; f->drive.chunks <= 32; f->drive.chunks *= 2) {
        struct mw_driven chunked = mw_drive(&f->drive);
        assert_close(f, &chunked, &whole);
        mw_driven_clear(&chunked);
    }
    mw_driven_clear(&whole);
}

/* The second micro-batch's gradient is added to the first one's: two roundings to bf16, of half a
 * unit in the last place each. */
static void
test_accumulation(struct fixture *f, gconstpointer name)
{
    int64_t elements = mw_weights_elements(&f->decoder);
    char worst[MW_WEIGHTS_NAME_MAX] = "none";

    (void)name;
    f->drive.tiles = 3;
    f->drive.chunks = 2;
    struct mw_driven once = mw_drive(&f->drive);
    f->drive.micro_batches = 2;
    struct mw_driven twice = mw_drive(&f->drive);
    for (int64_t i = 0; i < elements; i++)
        once.gradients[i] *= 2;
    g_assert_cmpfloat(mw_whole_difference(&f->decoder, twice.gradients, once.gradients, worst), <,
                      0x1p-8);
    /* Of four sums and of two, in fp64. */
    g_assert_cmpfloat(fabs(twice.loss - once.loss), <=, once.loss * 0x1p-50);
    mw_driven_clear(&once);
    mw_driven_clear(&twice);
}

#if defined(_OPENMP)
/* The library's products may cut their sums by the number of threads; all else does not. */
static void
test_threads(struct fixture *f, gconstpointer name)
{
    int threads = omp_get_max_threads();
    struct mw_cpu_matmul *matmul = mw_cpu_matmul_create(MW_DTYPE_BF16);
    bool by_library = mw_cpu_matmul_by_library(matmul);

    (void)name;
    mw_cpu_matmul_destroy(matmul);
    omp_set_num_threads(1);
    struct mw_driven one = mw_drive(&f->drive);
    omp_set_num_threads(3);
    struct mw_driven three = mw_drive(&f->drive);
    omp_set_num_threads(threads);
    assert_close(f, &three, &one);
    if (!by_library)
        assert_same(f, &three, &one);
    mw_driven_clear(&one);
    mw_driven_clear(&three);
}
#endif

/* --- what it refuses -------------------------------------------------------------------------- */

static void
assert_refused(GError *error, const char *why)
{
    g_assert_nonnull(error);
    mw_test_says(error->message, why);
    g_error_free(error);
}

static void
test_refused(void)
{
    struct mw_decoder decoder = mw_test_decoder(FIXTURES "llama-small");
    struct mw_compute compute = {.decoder = &decoder, .sequences = 3, .seq = 4};
    GError *error = NULL;

    struct mw_cpu_device *device = mw_cpu_device_create(64, MW_DTYPE_BF16, &error);
    struct mw_operators *operators =
        mw_operators_create(&mw_cpu_device_kernels, device, &decoder, 2, 4, &error);
    g_assert_no_error(error);
    compute.operator_ = MW_OPERATOR_ATTENTION;
    g_assert_false(mw_operators_run(operators, &compute, &error));
    assert_refused(g_steal_pointer(&error), "more tokens");
    compute.sequences = 2;
    compute.operator_ = MW_OPERATOR_NONE;
    g_assert_false(mw_operators_prepare(operators, &compute, &error));
    assert_refused(g_steal_pointer(&error), "not an operator of a decoder");
    mw_operators_destroy(operators);
    decoder.head_dim = 7;
    g_assert_null(mw_operators_create(&mw_cpu_device_kernels, device, &decoder, 2, 4, &error));
    assert_refused(g_steal_pointer(&error), "head_dim: value 7: must be even");
    mw_operators_destroy(NULL);
    mw_cpu_device_destroy(device);
}

#define ADD(name, model, test)                                                                     \
    g_test_add("/operators/" name "/" model, struct fixture, model "-small", set_up, test,         \
               tear_down)

static void
skip(gconstpointer why)
{
    g_test_skip(why);
}

/* Many steps each. */
static void
add_steps(void)
{
    ADD("tiles", "gpt2", test_tiles);
    ADD("tiles", "llama", test_tiles);
    ADD("chunks", "gpt2", test_chunks);
    ADD("chunks", "llama", test_chunks);
    ADD("accumulation", "gpt2", test_accumulation);
    ADD("accumulation", "llama", test_accumulation);
}

/* Of cores alone. */
static void
add_cpu(void)
{
#if defined(_OPENMP)
    ADD("threads", "gpt2", test_threads);
    ADD("threads", "llama", test_threads);
#endif
    g_test_add_func("/operators/refused", test_refused);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (mw_drive_skips("/operators", skip))
        return g_test_run();
    ADD("torch", "gpt2", test_torch);
    ADD("torch", "llama", test_torch);
    ADD("torch-fp16", "gpt2", test_torch_fp16);
    ADD("torch-fp16", "llama", test_torch_fp16);
    ADD("again", "gpt2", test_again);
    ADD("again", "llama", test_again);
    if (mw_drive_stride(2) == 1)
        add_steps();
    if (mw_drive_tests(&mw_drive_cpu))
        add_cpu();
    return g_test_run();
}
