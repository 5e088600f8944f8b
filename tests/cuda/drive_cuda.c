/* A GPU; with MW_TEST_EMULATED one that is made of threads, its kernels emulated. */
#include <cuda_runtime_api.h>

#include "exec/device/cuda/launches.h"
#include "exec/device/cuda/queue.h"
#include "tests/cuda/device_memory.h"
#include "tests/drive_device.h"

#if defined(MW_TEST_EMULATED)
#include "tests/cuda/fake.h"
#endif

static const char *
missing(void)
{
#if defined(MW_TEST_EMULATED)
    fake_machine.reachable = true;
#endif
    return mw_test_device_missing();
}

static void *
open_cuda(enum mw_dtype dtype)
{
    struct mw_cuda_device *device = g_new0(struct mw_cuda_device, 1);
    GError *error = NULL;

    mw_cuda_gpu_pick(0, 1, &device->gpu, &error);
    g_assert_no_error(error);
    g_assert_cmpint(cudaSetDevice(device->gpu.ordinal), ==, cudaSuccess);
    device->launches = dtype == MW_DTYPE_FP16 ? &mw_cuda_launches_fp16 : &mw_cuda_launches_bf16;
    device->matmul = mw_cuda_matmul_create(&device->gpu, dtype, &error);
    g_assert_no_error(error);
    return device;
}

static void
close_cuda(void *data)
{
    struct mw_cuda_device *device = data;

    mw_cuda_matmul_destroy(device->matmul);
    g_free(device);
}

static void
synchronize(void *data)
{
    struct mw_cuda_device *device = data;
    GError *error = NULL;

    mw_cuda_launched(device, &error);
    g_assert_no_error(error);
    mw_cuda_wait(&device->gpu, &error);
    g_assert_no_error(error);
}

const struct mw_drive_device mw_drive_cuda = {
    .kernels = &mw_cuda_kernels,
    .missing = missing,
    .open = open_cuda,
    .close = close_cuda,
    .synchronize = synchronize,
    .allocate = mw_test_device_alloc,
    .release = mw_test_device_free,
    .write = mw_test_device_write,
    .read = mw_test_device_read,
    .forbid = mw_test_device_forbid,
    .allow = mw_test_device_allow,
};
