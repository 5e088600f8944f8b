/* The operators of the cpu backend, a whole step of them: against what PyTorch computes, between
 * tile counts, chunks, layouts, and again. */
#include <math.h>
#include <string.h>

#include "tests/compute_driver.h"
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
        check_tensor(f, name, driven->hidden + layer * elements, LOGITS_TOLERANCE);
    }
    check_tensor(f, "logits", driven->logits, LOGITS_TOLERANCE);
    g_assert_cmpfloat(fabs(driven->loss / (double)*loss - 1), <, LOSS_TOLERANCE);
    double off = mw_whole_difference(&f->decoder, driven->gradients, gradients, worst);
    g_test_message("loss %.6f for %.6f; gradients %.4f off at most, in %s", driven->loss,
                   (double)*loss, off, worst);
    g_assert_cmpfloat(off, <, GRADIENT_TOLERANCE);
}

static void
test_torch(struct fixture *f, gconstpointer name)
{
    (void)name;
    for (int variant = 0; variant < 8; variant++) {
        f->drive.tiles = variant & 1 ? 3 : 1;
        f->drive.chunks = variant & 2 ? 3 : 1;
        f->drive.recompute = variant & 4;
        f->drive.gradient_fp32 = variant & 4;
        struct mw_driven driven = mw_drive(&f->drive);
        check_driven(f, &driven);
        mw_driven_clear(&driven);
    }
}

#define ADD(name, model, test)                                                                     \
    g_test_add("/operators/" name "/" model, struct fixture, model "-small", set_up, test,         \
               tear_down)

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("torch", "gpt2", test_torch);
    ADD("torch", "llama", test_torch);
    return g_test_run();
}
