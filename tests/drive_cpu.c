/* Cores, by all of their threads. */
#include <stdlib.h>
#include <string.h>

#include "exec/device/cpu/device.h"
#include "tests/drive_device.h"
#include "tests/forbid.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

#define ALIGNMENT 64

static const char *
missing(void)
{
    return NULL;
}

static void *
open_cpu(enum mw_dtype dtype)
{
    GError *error = NULL;
    int threads = 1;

#if defined(_OPENMP)
    threads = omp_get_max_threads();
#endif
    struct mw_cpu_device *device = mw_cpu_device_create(threads, dtype, &error);
    g_assert_no_error(error);
    return device;
}

static void
close_cpu(void *device)
{
    mw_cpu_device_destroy(device);
}

static void
synchronize(void *device)
{
    (void)device;
}

static int64_t
scratch_bytes(const void *device)
{
    return mw_cpu_device_scratch_bytes(device);
}

static void *
allocate(int64_t bytes)
{
    void *memory = NULL;

    g_assert_cmpint(posix_memalign(&memory, ALIGNMENT, (size_t)bytes), ==, 0);
    return memory;
}

static void
copy(void *to, const void *from, int64_t bytes)
{
    memcpy(to, from, (size_t)bytes);
}

static void
forbid(const void *memory, int64_t bytes)
{
    mw_forbid(memory, (size_t)bytes);
}

static void
allow(const void *memory, int64_t bytes)
{
    mw_allow(memory, (size_t)bytes);
}

const struct mw_drive_device mw_drive_cpu = {
    .kernels = &mw_cpu_device_kernels,
    .missing = missing,
    .open = open_cpu,
    .close = close_cpu,
    .synchronize = synchronize,
    .scratch_bytes = scratch_bytes,
    .allocate = allocate,
    .release = free,
    .write = copy,
    .read = copy,
    .forbid = forbid,
    .allow = allow,
};
