#include "tests/cuda/device_memory.h"

#include <cuda_runtime_api.h>
#include <glib.h>

const char *
mw_test_device_name(void)
{
    return "cuda";
}

const char *
mw_test_device_missing(void)
{
    int driver = 0, devices = 0;

    if (cudaDriverGetVersion(&driver) || !driver)
        return "no NVIDIA driver";
    cudaError_t error = cudaGetDeviceCount(&devices);
    if (error)
        return cudaGetErrorString(error);
    return devices ? NULL : "no CUDA device";
}

static void
expect(cudaError_t error, const char *call)
{
    if (error)
        g_error("%s: %s", call, cudaGetErrorString(error));
}

void *
mw_test_device_alloc(int64_t bytes)
{
    void *memory;

    expect(cudaMalloc(&memory, (size_t)bytes), "cudaMalloc");
    return memory;
}

void
mw_test_device_free(void *memory)
{
    expect(cudaFree(memory), "cudaFree");
}

void *
mw_test_device_reserve(int64_t bytes)
{
    void *memory = NULL;

    if (cudaMalloc(&memory, (size_t)bytes))
        cudaGetLastError(); /* whoever asks next asks for another call */
    return memory;
}

void
mw_test_device_release(void *memory, int64_t bytes)
{
    (void)bytes;
    mw_test_device_free(memory);
}

void
mw_test_device_write(void *to, const void *from, int64_t bytes)
{
    expect(cudaMemcpy(to, from, (size_t)bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    /* Other streams do not wait for it. */
    expect(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void
mw_test_device_read(void *to, const void *from, int64_t bytes)
{
    expect(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    expect(cudaMemcpy(to, from, (size_t)bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

/* compute-sanitizer knows whole allocations alone. */
void
mw_test_device_forbid(const void *memory, int64_t bytes)
{
    (void)memory;
    (void)bytes;
}

void
mw_test_device_allow(const void *memory, int64_t bytes)
{
    (void)memory;
    (void)bytes;
}
