/*
 * drive_device.h - what compute_driver.h runs operators on: a device, its kernels, its memory.  A
 * program tests the one that MW_TEST_DEVICE names; if it names none, cores.
 */
#ifndef MW_TESTS_DRIVE_DEVICE_H
#define MW_TESTS_DRIVE_DEVICE_H

#include "exec/operators/kernels.h"
#include "plan/plan.h"

/* What fails ends the test. */
struct mw_drive_device {
    const struct mw_kernels *kernels;
    /* Why it is not here; NULL: it is.  The functions below are for a device that is. */
    const char *(*missing)(void);

    /* One at a time, used by the thread that opens it.  dtype: of 16-bit elements. */
    void *(*open)(enum mw_dtype dtype);
    void (*close)(void *device);
    /* Waits until all is done that was called. */
    void (*synchronize)(void *device);
    /* What products have taken beside the operators' own; NULL: it does not say. */
    int64_t (*scratch_bytes)(const void *device);

    /* At a multiple of 64 bytes. */
    void *(*allocate)(int64_t bytes);
    void (*release)(void *memory);
    void (*write)(void *to, const void *from, int64_t bytes);
    void (*read)(void *to, const void *from, int64_t bytes);
    /* Nobody may touch these bytes, or may again; seen where the address sanitizer sees it. */
    void (*forbid)(const void *memory, int64_t bytes);
    void (*allow)(const void *memory, int64_t bytes);
};

extern const struct mw_drive_device mw_drive_cpu;
extern const struct mw_drive_device mw_drive_cuda; /* cuda/drive_cuda.c */

#if !defined(MW_TEST_DEVICE)
#define MW_TEST_DEVICE mw_drive_cpu
#endif

static inline bool
mw_drive_tests(const struct mw_drive_device *device)
{
    return device == &MW_TEST_DEVICE;
}

/* Of so many cases one is enough where each takes long: where kernels are emulated, and under the
 * sanitizers; else 1. */
static inline int64_t
mw_drive_stride(int64_t cases)
{
#if defined(MW_TEST_EMULATED) || defined(__SANITIZE_ADDRESS__)
    return cases;
#else
    return cases > 0;
#endif
}

/* True where MW_TEST_DEVICE is not here: then `skip` is the one test, at `path`, and has the reason
 * for its data. */
static inline bool
mw_drive_skips(const char *path, GTestDataFunc skip)
{
    const char *why = MW_TEST_DEVICE.missing();

    if (why)
        g_test_add_data_func(path, why, skip);
    return why != NULL;
}

#endif
