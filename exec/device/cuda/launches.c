#include "exec/device/cuda/launches.h"

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "exec/device/cuda/kernels.h"
#include "exec/device/cuda/queue.h"
#include "exec/operators/kernels_plain.h"

/* Keeps the first status that is bad. */
static void
keep(struct mw_cuda_device *device, int status, const char *call)
{
    if (status == cudaSuccess || device->status)
        return;
    device->status = status;
    device->call = call;
}

bool
mw_cuda_launched(struct mw_cuda_device *device, GError **error)
{
    int status = device->status;

    device->status = 0;
    return mw_cuda_check(&device->gpu, status, device->call, error);
}

static const struct mw_cuda_launches *
launches_of(void *device)
{
    return ((struct mw_cuda_device *)device)->launches;
}

#define LAUNCH(device, name, ...)                                                                  \
    keep(device, launches_of(device)->name(mw_cuda_stream(), __VA_ARGS__), "kernel " #name)

static bool
suits(void *device, const struct mw_decoder *decoder, GError **error)
{
    const struct mw_cuda_device *cuda = device;

    if (decoder->head_dim % 2 == 0 && decoder->head_dim <= MW_CUDA_HEAD_DIM_MAX)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "attention on GPU %d: head_dim: value %lld: must be even and at most %d",
                cuda->gpu.ordinal, (long long)decoder->head_dim, MW_CUDA_HEAD_DIM_MAX);
    return false;
}

/* --- memory ---------------------------------------------------------------------------------- */

static void *
allocate(void *device, int64_t bytes)
{
    void *memory = NULL;

    return mw_cuda_check(&((struct mw_cuda_device *)device)->gpu,
                         cudaMalloc(&memory, (size_t)bytes), "cudaMalloc", NULL)
               ? memory
               : NULL;
}

static void
release(void *device, void *memory)
{
    (void)device;
    cudaFree(memory);
}

/* cudaMemcpy may return before the bytes are there, and no other stream would wait for them. */
static bool
upload(void *device, void *to, const void *from, int64_t bytes, GError **error)
{
    const struct mw_cuda_gpu *gpu = &((const struct mw_cuda_device *)device)->gpu;

    return mw_cuda_check(
               gpu,
               cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyHostToDevice, mw_cuda_stream()),
               "cudaMemcpyAsync", error) &&
           mw_cuda_settle(gpu, error);
}

static void
clear(void *device, void *to, int64_t bytes)
{
    keep(device, cudaMemsetAsync(to, 0, (size_t)bytes, mw_cuda_stream()), "cudaMemsetAsync");
}

static void
copy_rows(void *device, uint16_t *to, const uint16_t *from, int64_t rows, int64_t columns,
          int64_t ld)
{
    keep(device, mw_cuda_copy_rows(mw_cuda_stream(), to, from, rows, columns, ld),
         "kernel copy_rows");
}

/* --- matrix products ------------------------------------------------------------------------- */

static bool
prepare(void *device, const struct mw_product *product, GError **error)
{
    return mw_cuda_matmul_prepare(((struct mw_cuda_device *)device)->matmul, product, error);
}

static bool
multiply(void *device, const struct mw_product *product, void *c, const uint16_t *a,
         const uint16_t *b, const uint16_t *bias, GError **error)
{
    struct mw_cuda_device *cuda = device;

    return mw_cuda_matmul_run(cuda->matmul, mw_cuda_stream(), product, c, a, b, bias, error);
}

/* --- as they are called ---------------------------------------------------------------------- */

#define HAND_ON(name, parameters, ...)                                                             \
    static void name parameters                                                                    \
    {                                                                                              \
        LAUNCH(device, name, __VA_ARGS__);                                                         \
    }

MW_PLAIN_KERNELS(HAND_ON)

/* --- sums over rows -------------------------------------------------------------------------- */

static int64_t
row_sums_scratch_bytes(void *device, int64_t rows, int64_t columns)
{
    return launches_of(device)->row_sums_scratch_bytes(rows, columns);
}

static void
norm_weight_gradient(void *device, struct mw_gradient dweight, const uint16_t *dy,
                     const uint16_t *x, const float *mean, const float *rstd, int64_t rows,
                     int64_t columns, void *scratch)
{
    LAUNCH(device, norm_weight_gradient, dweight, dy, x, mean, rstd, rows, columns, scratch);
}

static void
bias_gradient(void *device, struct mw_gradient dbias, const uint16_t *dy, int64_t ld_dy,
              int64_t rows, int64_t columns, void *scratch)
{
    LAUNCH(device, bias_gradient, dbias, dy, ld_dy, rows, columns, scratch);
}

/* --- embeddings ------------------------------------------------------------------------------ */

static int64_t
embedding_scratch_bytes(void *device, int64_t rows, int64_t vocab)
{
    (void)vocab;
    return launches_of(device)->embedding_scratch_bytes(rows);
}

/* --- attention ------------------------------------------------------------------------------- */

static int64_t
attention_scratch_bytes(void *device, const struct mw_attention *shape)
{
    return launches_of(device)->attention_scratch_bytes(shape);
}

static void
attention_forward(void *device, const struct mw_attention *shape, uint16_t *o, float *lse,
                  const uint16_t *q, const uint16_t *k, const uint16_t *v, void *scratch)
{
    LAUNCH(device, attention_forward, shape, o, lse, q, k, v, scratch);
}

static void
attention_backward(void *device, const struct mw_attention *shape, uint16_t *dq, uint16_t *dk,
                   uint16_t *dv, const uint16_t *d_o, const uint16_t *o, const float *lse,
                   const uint16_t *q, const uint16_t *k, const uint16_t *v, void *scratch)
{
    LAUNCH(device, attention_backward, shape, dq, dk, dv, d_o, o, lse, q, k, v, scratch);
}

/* --- loss ------------------------------------------------------------------------------------ */

static void
cross_entropy(void *device, double *loss, double *row_loss, uint16_t *logits, int64_t ld,
              const int32_t *targets, int64_t rows, int64_t vocab, float scale)
{
    LAUNCH(device, cross_entropy, loss, row_loss, logits, ld, logits, false, ld, targets, rows,
           vocab, scale);
}

const struct mw_kernels mw_cuda_kernels = {
    .device_name = "GPU",
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
