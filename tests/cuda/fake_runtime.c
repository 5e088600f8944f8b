/* CUDA's runtime over threads: see fake.h. Its state, its failures, and the machine that it
 * reports. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda/fake_internal.h"

#define RUNTIME_VERSION 13000

struct fake_machine fake_machine = {
    .gpus = 1,
    .driver_version = RUNTIME_VERSION,
    .major = 9,
    .memory_bytes = (size_t)256 << 20,
    .threads = 1,
    .holds = 1024,
    .bad_algorithms = 1,
};

struct fake_state fake = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void
fake_lock(void)
{
    pthread_mutex_lock(&fake.mutex);
}

void
fake_unlock(void)
{
    pthread_mutex_unlock(&fake.mutex);
}

void
fake_tell(void)
{
    pthread_cond_broadcast(&fake.changed);
    fake_unlock();
}

/* --- failures -------------------------------------------------------------------------------- */

static struct {
    const char *failing;
    int failing_count;
    cudaError_t failure, lost;
} failures; /* with the lock */

void
fake_fail(const char *call, int count, int error)
{
    fake_lock();
    failures.failing = call;
    failures.failing_count = count;
    failures.failure = (cudaError_t)error;
    failures.lost = cudaSuccess;
    fake_unlock();
}

cudaError_t
fake_failing(const char *call)
{
    fake_lock();
    if (failures.failing && !strcmp(failures.failing, call) && --failures.failing_count == 0) {
        failures.failing = NULL;
        failures.lost = failures.failure;
    }
    cudaError_t status = failures.lost;
    fake_unlock();
    return status;
}

/* Of this thread: what CUDA has of it until it is asked for. */
static _Thread_local cudaError_t last;

cudaError_t
fake_keep(cudaError_t status)
{
    if (status)
        last = status;
    return status;
}

cudaError_t
cudaGetLastError(void)
{
    cudaError_t status = last;

    last = cudaSuccess;
    return status;
}

const char *
cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorIllegalAddress:
        return "an illegal memory access was encountered";
    default:
        return "some other error";
    }
}

/* --- the machine ----------------------------------------------------------------------------- */

cudaError_t
cudaDriverGetVersion(int *version)
{
    *version = fake_machine.driver_version;
    return cudaSuccess;
}

cudaError_t
cudaRuntimeGetVersion(int *version)
{
    *version = RUNTIME_VERSION;
    return cudaSuccess;
}

cudaError_t
cudaGetDeviceCount(int *count)
{
    *count = fake_machine.gpus;
    if (fake_machine.driver_version < RUNTIME_VERSION)
        return fake_keep(cudaErrorInsufficientDriver);
    return fake_keep(fake_machine.gpus ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t
cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    if (device >= fake_machine.gpus)
        return fake_keep(cudaErrorInvalidDevice);
    *properties = (struct cudaDeviceProp){.name = "made of threads",
                                          .major = fake_machine.major,
                                          .multiProcessorCount = 2,
                                          .totalGlobalMem = fake_machine.memory_bytes};
    return cudaSuccess;
}

cudaError_t
cudaDeviceGetPCIBusId(char *bus, int length, int device)
{
    const char *first = g_getenv("CUDA_VISIBLE_DEVICES");

    g_snprintf(bus, (gulong)length, "0000:%02x:00.0", device + (first ? atoi(first) : 0));
    return cudaSuccess;
}

cudaError_t
cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    *value = attribute == cudaDevAttrCanUseHostPointerForRegisteredMem;
    return fake_keep(device < fake_machine.gpus ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t
cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
    (void)device_flags;
    (void)flags;
    if (!g_getenv("CUDA_DEVICE_MAX_CONNECTIONS"))
        g_error("streams of one connection wait for each other");
    if (g_strcmp0(g_getenv("CUDA_MODULE_LOADING"), "EAGER"))
        g_error("kernels are loaded while the device is busy");
    return cudaSetDevice(device);
}

static char *
map(int file, int protection)
{
    void *at = mmap(NULL, fake_machine.memory_bytes, protection, MAP_SHARED, file, 0);

    g_assert_true(at != MAP_FAILED);
    return at;
}

static void
make_device(void)
{
    int file = memfd_create("device", 0);

    g_assert_cmpint(ftruncate(file, (off_t)fake_machine.memory_bytes), ==, 0);
    fake.reach = map(file, PROT_READ | PROT_WRITE);
    fake.device = fake_machine.reachable ? fake.reach : map(file, PROT_NONE);
    close(file);
    fake.allocated = g_array_new(FALSE, FALSE, sizeof(struct fake_range));
    fake.registered = g_array_new(FALSE, FALSE, sizeof(struct fake_range));
    fake.streams = g_ptr_array_new();
}

cudaError_t
cudaSetDevice(int device)
{
    if (device >= fake_machine.gpus)
        return fake_keep(cudaErrorInvalidDevice);
    fake_lock();
    if (!fake.device)
        make_device();
    fake_unlock();
    return cudaSuccess;
}
