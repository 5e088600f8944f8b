#include "exec/device/cuda/launches.h"

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "exec/device/cuda/kernels.h"
#include "exec/device/cuda/queue.h"

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

static bool
suits(void *device, const struct mw_decoder *decoder, GError **error)
{
    const struct mw_cuda_device *cuda = device;

    if (decoder->experts) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "GPU %d: a mixture of experts: must be a dense model to run on a GPU (on the "
                    "cpu a mixture runs)",
                    cuda->gpu.ordinal);
        return false;
    }
    if (mw_decoder_rings(decoder)) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "GPU %d: keys and values that pass around a ring of ranks: must be whole "
                    "sequences to run on a GPU (on the cpu a ring runs)",
                    cuda->gpu.ordinal);
        return false;
    }
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
           mw_cuda_wait(gpu, error);
}

static void
clear(void *device, void *to, int64_t bytes)
{
    keep(device, cudaMemsetAsync(to, 0, (size_t)bytes, mw_cuda_stream()), "cudaMemsetAsync");
}

static void
copy_rows(void *device, void *to, const void *from, int64_t rows, int64_t columns, int64_t ld)
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
multiply(void *device, const struct mw_product *product, void *c, const void *a, const void *b,
         const void *bias, GError **error)
{
    struct mw_cuda_device *cuda = device;

    return mw_cuda_matmul_run(cuda->matmul, mw_cuda_stream(), product, c, a, b, bias, error);
}

/* --- kernels --------------------------------------------------------------------------------- */

#define MW_KERNEL(name, parameters, arguments)                                                     \
    static void name(void *device, MW_BARE parameters)                                             \
    {                                                                                              \
        keep(device, launches_of(device)->name(mw_cuda_stream(), MW_BARE arguments),               \
             "kernel " #name);                                                                     \
    }
#define MW_KERNEL_SCRATCH(name, parameters, arguments)                                             \
    static int64_t name(void *device, MW_BARE parameters)                                          \
    {                                                                                              \
        return launches_of(device)->name arguments;                                                \
    }
#include "exec/operators/kernel_list.h"

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
#define MW_KERNEL(name, parameters, arguments) .name = name,
#define MW_KERNEL_SCRATCH MW_KERNEL
#include "exec/operators/kernel_list.h"
};
