#include "exec/device/cuda/gpu.h"

#include <cuda_runtime_api.h>

#include "base/error.h"

/* The first compute capability with tensor cores for bf16. */
#define OLDEST_MAJOR 8

bool
mw_cuda_check(const struct mw_cuda_gpu *gpu, int status, const char *call, GError **error)
{
    if (status == cudaSuccess)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE, "GPU %d (%s): %s: %s", gpu->ordinal, gpu->name,
                call, cudaGetErrorString((cudaError_t)status));
    cudaGetLastError(); /* the next one to ask means another call */
    return false;
}

bool
mw_cuda_stream_create(const struct mw_cuda_gpu *gpu, bool urgent, void **stream, GError **error)
{
    int least = 0, greatest = 0; /* the smaller number goes first */

    return mw_cuda_check(gpu, cudaDeviceGetStreamPriorityRange(&least, &greatest),
                         "cudaDeviceGetStreamPriorityRange", error) &&
           mw_cuda_check(gpu,
                         cudaStreamCreateWithPriority((cudaStream_t *)stream, cudaStreamNonBlocking,
                                                      urgent ? greatest : least),
                         "cudaStreamCreateWithPriority", error);
}

/* The oldest driver for all toolkits of a major: NVIDIA, CUDA Toolkit release notes, "CUDA Toolkit
 * and Minimum Required Driver Version for CUDA Minor Version Compatibility"
 * (docs.nvidia.com/cuda/cuda-toolkit-release-notes), and CUDA Compatibility,
 * table 1 (docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html). */
static const struct {
    int major;
    const char *driver;
} OLDEST_DRIVERS[] = {{12, "525"}, {13, "580"}};

static void
refuse_old_driver(int driver, int runtime, GError **error)
{
    const char *oldest = NULL;
    g_autofree char *here = NULL;

    for (size_t i = 0; i < G_N_ELEMENTS(OLDEST_DRIVERS); i++)
        if (OLDEST_DRIVERS[i].major == runtime / 1000)
            oldest = OLDEST_DRIVERS[i].driver;
    if (g_file_get_contents("/sys/module/nvidia/version", &here, NULL, NULL))
        g_strstrip(here);
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "GPUs: the NVIDIA driver%s%s is for CUDA %d.%d, this build needs one for CUDA "
                "%d.%d%s%s%s",
                here ? " " : "", here ? here : "", driver / 1000, driver % 1000 / 10,
                runtime / 1000, runtime % 1000 / 10, oldest ? ": version " : "",
                oldest ? oldest : "", oldest ? " or later" : "");
}

/* Versions are 1000 * major + 10 * minor; 0: there is none. */
static int
refuse_driver(cudaError_t status, GError **error)
{
    int driver = 0, runtime = 0;

    cudaGetLastError();
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (!driver)
        g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                    "GPUs: no NVIDIA driver is loaded (cudaGetDeviceCount: %s)",
                    cudaGetErrorString(status));
    else if (status == cudaErrorInsufficientDriver)
        refuse_old_driver(driver, runtime, error);
    else
        g_set_error(error, MW_ERROR, MW_ERROR_DEVICE, "GPUs: cudaGetDeviceCount: %s",
                    cudaGetErrorString(status));
    return -1;
}

void
mw_cuda_gpu_environment(void)
{
    static gsize said;

    if (!g_once_init_enter(&said))
        return;
    /* Streams beyond the driver's number of connections (8 by default) share one: work that waits
     * in one stream delays the others, and ranks that wait for each other in several streams may
     * deadlock. */
    g_setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", FALSE);
    /* A kernel that is loaded at its first launch waits until the device is idle.  A collective
     * that waits for another rank may keep it from ever being idle. */
    g_setenv("CUDA_MODULE_LOADING", "EAGER", FALSE);
    g_once_init_leave(&said, 1);
}

int
mw_cuda_gpu_count(GError **error)
{
    int count = 0;

    mw_cuda_gpu_environment();
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess)
        return count;
    if (status != cudaErrorNoDevice)
        return refuse_driver(status, error);
    cudaGetLastError();
    return 0;
}

bool
mw_cuda_gpu_has_driver(void)
{
    int driver = 0;

    return cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
}

bool
mw_cuda_gpu_find(int ordinal, struct mw_cuda_gpu *gpu, GError **error)
{
    struct cudaDeviceProp properties;

    *gpu = (struct mw_cuda_gpu){.ordinal = ordinal, .name = "unknown"};
    if (!mw_cuda_check(gpu, cudaGetDeviceProperties(&properties, ordinal),
                       "cudaGetDeviceProperties", error) ||
        !mw_cuda_check(gpu, cudaDeviceGetPCIBusId(gpu->bus, sizeof gpu->bus, ordinal),
                       "cudaDeviceGetPCIBusId", error))
        return false;
    g_strlcpy(gpu->name, properties.name, sizeof gpu->name);
    gpu->major = properties.major;
    gpu->minor = properties.minor;
    gpu->multiprocessors = properties.multiProcessorCount;
    gpu->memory_bytes = (int64_t)properties.totalGlobalMem;
    return true;
}

static bool
suits(const struct mw_cuda_gpu *gpu, GError **error)
{
    if (gpu->major >= OLDEST_MAJOR)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "GPU %d (%s): its compute capability is %d.%d, the oldest that will do %d.0",
                gpu->ordinal, gpu->name, gpu->major, gpu->minor, OLDEST_MAJOR);
    return false;
}

bool
mw_cuda_gpu_pick(int index, int ranks, struct mw_cuda_gpu *gpu, GError **error)
{
    int count = mw_cuda_gpu_count(error);
    bool bound = count == 1 && g_getenv("CUDA_VISIBLE_DEVICES");

    if (count < 0)
        return false;
    if (count < ranks && !bound) {
        g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                    "GPUs: %d rank%s of this machine, %d GPU%s: one rank has one GPU", ranks,
                    ranks == 1 ? "" : "s", count, count == 1 ? "" : "s");
        return false;
    }
    return mw_cuda_gpu_find(bound ? 0 : index, gpu, error) && suits(gpu, error);
}
