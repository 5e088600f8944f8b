#include "exec/device/cpu/device.h"

#include <stdlib.h>
#include <string.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "base/error.h"
#include "exec/device/cpu/kernels.h"
#include "exec/device/cpu/matmul.h"
#include "exec/operators/kernels_plain.h"

#define ALIGNMENT 64

struct mw_cpu_device {
    const struct mw_cpu_kernels *kernels;
    struct mw_cpu_matmul *matmul;
    int threads;
};

static const struct mw_cpu_kernels *
kernels_of(void *device)
{
    return ((struct mw_cpu_device *)device)->kernels;
}

/* --- life ------------------------------------------------------------------------------------ */

struct mw_cpu_device *
mw_cpu_device_create(int threads, enum mw_dtype dtype, GError **error)
{
    struct mw_cpu_device *device;

    if (mw_cpu_isa_refusal()) {
        g_set_error_literal(error, MW_ERROR, MW_ERROR_INVALID, mw_cpu_isa_refusal());
        return NULL;
    }
    device = g_new0(struct mw_cpu_device, 1);
    device->threads = threads;
    device->kernels = mw_cpu_kernels(dtype);
    device->matmul = mw_cpu_matmul_create(dtype);
    if (device->matmul)
        return device;
    mw_cpu_device_destroy(device);
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE, "cpu: no memory for matrix products");
    return NULL;
}

void
mw_cpu_device_destroy(struct mw_cpu_device *device)
{
    if (!device)
        return;
    mw_cpu_matmul_destroy(device->matmul);
    g_free(device);
}

int64_t
mw_cpu_device_scratch_bytes(const struct mw_cpu_device *device)
{
    return mw_cpu_matmul_scratch_bytes(device->matmul);
}

static bool
suits(void *device, const struct mw_decoder *decoder, GError **error)
{
    (void)device;
    if (decoder->head_dim % 2 == 0 && decoder->head_dim <= MW_CPU_HEAD_DIM_MAX)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "attention on the cpu: head_dim: value %lld: must be even and at most %d",
                (long long)decoder->head_dim, MW_CPU_HEAD_DIM_MAX);
    return false;
}

/* --- memory ---------------------------------------------------------------------------------- */

static void *
allocate(void *device, int64_t bytes)
{
    (void)device;
    return aligned_alloc(ALIGNMENT, ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

static void
release(void *device, void *memory)
{
    (void)device;
    free(memory);
}

static bool
upload(void *device, void *to, const void *from, int64_t bytes, GError **error)
{
    (void)device;
    (void)error;
    memcpy(to, from, (size_t)bytes);
    return true;
}

static void
clear(void *device, void *to, int64_t bytes)
{
    (void)device;
    memset(to, 0, (size_t)bytes);
}

static void
copy_rows(void *device, uint16_t *to, const uint16_t *from, int64_t rows, int64_t columns,
          int64_t ld)
{
    (void)device;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * ld, from + r * ld, (size_t)columns * sizeof *to);
}

/* --- matrix products ------------------------------------------------------------------------- */

static bool
told(const struct mw_cpu_device *device, bool good, GError **error)
{
    if (!good)
        g_set_error_literal(error, MW_ERROR, MW_ERROR_DEVICE, mw_cpu_matmul_error(device->matmul));
    return good;
}

static bool
prepare(void *device, const struct mw_product *product, GError **error)
{
    struct mw_cpu_device *cpu = device;

    return told(cpu, mw_cpu_matmul_prepare(cpu->matmul, product), error);
}

static bool
multiply(void *device, const struct mw_product *product, void *c, const uint16_t *a,
         const uint16_t *b, const uint16_t *bias, GError **error)
{
    struct mw_cpu_device *cpu = device;

    return told(cpu, mw_cpu_matmul_run(cpu->matmul, product, c, a, b, bias), error);
}

/* --- as they are called ---------------------------------------------------------------------- */

#define HAND_ON(name, parameters, ...)                                                             \
    static void name parameters                                                                    \
    {                                                                                              \
        kernels_of(device)->name(__VA_ARGS__);                                                     \
    }

MW_PLAIN_KERNELS(HAND_ON)

/* --- sums over rows -------------------------------------------------------------------------- */

static int64_t
row_sums_scratch_bytes(void *device, int64_t rows, int64_t columns)
{
    (void)device;
    (void)rows;
    (void)columns;
    return 0;
}

static void
norm_weight_gradient(void *device, struct mw_gradient dweight, const uint16_t *dy,
                     const uint16_t *x, const float *mean, const float *rstd, int64_t rows,
                     int64_t columns, void *scratch)
{
    (void)scratch;
    kernels_of(device)->norm_weight_gradient(dweight, dy, x, mean, rstd, rows, columns);
}

static void
bias_gradient(void *device, struct mw_gradient dbias, const uint16_t *dy, int64_t ld_dy,
              int64_t rows, int64_t columns, void *scratch)
{
    (void)scratch;
    kernels_of(device)->bias_gradient(dbias, dy, ld_dy, rows, columns);
}

/* --- embeddings ------------------------------------------------------------------------------ */

/* The order of the tokens. */
static int64_t
embedding_scratch_bytes(void *device, int64_t rows, int64_t vocab)
{
    (void)device;
    (void)vocab;
    return rows * (int64_t)sizeof(uint64_t);
}

/* --- attention ------------------------------------------------------------------------------- */

static int64_t
attention_scratch_bytes(void *device, const struct mw_attention *shape)
{
    struct mw_cpu_device *cpu = device;

    return cpu->kernels->attention_scratch_bytes(shape, cpu->threads);
}

/* Scratch is for so many threads. */
static void
check_team(const struct mw_cpu_device *device)
{
#if defined(_OPENMP)
    g_assert(omp_get_max_threads() <= device->threads);
#else
    (void)device;
#endif
}

static void
attention_forward(void *device, const struct mw_attention *shape, uint16_t *o, float *lse,
                  const uint16_t *q, const uint16_t *k, const uint16_t *v, void *scratch)
{
    check_team(device);
    kernels_of(device)->attention_forward(shape, o, lse, q, k, v, scratch);
}

static void
attention_backward(void *device, const struct mw_attention *shape, uint16_t *dq, uint16_t *dk,
                   uint16_t *dv, const uint16_t *d_o, const uint16_t *o, const float *lse,
                   const uint16_t *q, const uint16_t *k, const uint16_t *v, void *scratch)
{
    check_team(device);
    kernels_of(device)->attention_backward(shape, dq, dk, dv, d_o, o, lse, q, k, v, scratch);
}

/* --- loss ------------------------------------------------------------------------------------ */

static void
cross_entropy(void *device, double *loss, double *row_loss, uint16_t *logits, int64_t ld,
              const int32_t *targets, int64_t rows, int64_t vocab, float scale)
{
    *loss += kernels_of(device)->cross_entropy(logits, ld, row_loss, logits, false, ld, targets,
                                               rows, vocab, scale);
}

const struct mw_kernels mw_cpu_device_kernels = {
    .device_name = "cpu",
    .suits = suits,
    .allocate = allocate,
    .release = release,
    .upload = upload,
    .clear = clear,
    .copy_rows = copy_rows,
    .prepare = prepare,
    .multiply = multiply,
    .row_sums_scratch_bytes = row_sums_scratch_bytes,
    .norm_weight_gradient = norm_weight_gradient,
    .bias_gradient = bias_gradient,
    .embedding_scratch_bytes = embedding_scratch_bytes,
    .attention_scratch_bytes = attention_scratch_bytes,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .cross_entropy = cross_entropy,
    /* clang-format off */
    MW_PLAIN_KERNELS(MW_PLAIN_ENTRY)
    /* clang-format on */
};
