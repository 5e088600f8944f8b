/*
 * drive_device.h - what compute_driver.h runs operators on: a device, its kernels, its memory.  A
 * program tests the one that MW_TEST_DEVICE names; if it names none, cores.
 */
#ifndef MW_TESTS_DRIVE_DEVICE_H
#define MW_TESTS_DRIVE_DEVICE_H

#include "exec/kernels.h"

/* What fails ends the test. */
struct mw_drive_device {
    const struct mw_kernels *kernels;
    /* Why it is not here; NULL: it is.  The functions below are for a device that is. */
    const char *(*missing)(void);

    /* One at a time, used by the thread that opens it. */
    void *(*open)(void);
    void (*close)(void *device);
    /* Waits until all is done that was called. */
    void (*settle)(void *device);
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

#if !defined(MW_TEST_DEVICE)
#define MW_TEST_DEVICE mw_drive_cpu
#endif

#endif
