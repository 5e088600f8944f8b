/*
 * device_memory.h - memory of what the tested kernels run on: a GPU, or this process where they are
 * emulated.  Each of the two is a source file; a test is linked with one.
 */
#ifndef MW_TESTS_CUDA_DEVICE_MEMORY_H
#define MW_TESTS_CUDA_DEVICE_MEMORY_H

#include <stdint.h>

/* "cuda" or "cuda-emulated"; and why kernels do not run here, NULL where they do. */
const char *mw_test_device_name(void);
const char *mw_test_device_missing(void);

/* At a multiple of 256 bytes.  What fails ends the test. */
void *mw_test_device_alloc(int64_t bytes);
void mw_test_device_free(void *memory);
/* So much of which a test touches little; NULL where a device has not so much. */
void *mw_test_device_reserve(int64_t bytes);
void mw_test_device_release(void *memory, int64_t bytes);
void mw_test_device_write(void *to, const void *from, int64_t bytes);
/* Waits for all kernels before; what went wrong in one ends the test. */
void mw_test_device_read(void *to, const void *from, int64_t bytes);

/* Kernels may not touch these bytes, or may again: seen by the address sanitizer where kernels are
 * emulated. */
void mw_test_device_forbid(const void *memory, int64_t bytes);
void mw_test_device_allow(const void *memory, int64_t bytes);

#endif
