/* fake_internal.h - what the files of the GPU made of threads share; private to them. */
#ifndef MW_TESTS_CUDA_FAKE_INTERNAL_H
#define MW_TESTS_CUDA_FAKE_INTERNAL_H

#include <cuda_runtime_api.h>
#include <glib.h>
#include <pthread.h> /* whose locks the thread sanitizer sees */

#include "tests/cuda/fake.h"

struct fake_range {
    char *at;
    size_t bytes;
};

struct fake_state {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    char *device, *reach;           /* its memory, as the host may not and as kernels do */
    GArray *allocated, *registered; /* struct fake_range; the first sorted by address */
    GPtrArray *streams;
    bool held;
};
extern struct fake_state fake;

void fake_lock(void);
void fake_unlock(void);
/* The same, of what somebody may wait for. */
void fake_tell(void);

/* Keeps what is no success for cudaGetLastError. */
cudaError_t fake_keep(cudaError_t status);
/* Whether this call fails. */
cudaError_t fake_failing(const char *call);

#define FAKE_MAY_FAIL()                                                                            \
    do {                                                                                           \
        cudaError_t failure_ = fake_keep(fake_failing(__func__));                                  \
        if (failure_)                                                                              \
            return failure_;                                                                       \
    } while (0)

/* --- fake_memory.c --- */

/* With the lock. */
const struct fake_range *fake_range_of(const GArray *ranges, const char *at);
/* NULL: the device does not reach it. */
char *fake_reached(const void *memory);

/* --- fake_memcpy.c --- */

/* Copies that were on their way are there. */
void fake_arrive(void);

#endif
