/*
 * fake.h - a GPU made of threads, behind CUDA's own calls: exec/device/cuda runs on it unchanged,
 * but for its kernels, which are those of the cpu backend, and cublasLt, which is its products: so
 * that what is trained on it must have the same bits.
 *
 * A stream is a thread that does what is queued in it in order, sleeping a little now and then.
 * Memory of the device is out of the host's reach (a host that touches it gets SIGSEGV); kernels
 * and copies reach it by another address.  What a stream is given of the host's memory must be
 * registered, or the call fails (a copy), or the program aborts (a kernel).
 */
#ifndef MW_TESTS_CUDA_FAKE_H
#define MW_TESTS_CUDA_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An installed CUDA must not hide that a target lacks fake/: other machines have none. */
#if defined(CUDART_VERSION)
#error "cuda_runtime_api.h is of an installed CUDA: tests/cuda/fake must come first"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* As the machine is; to be set before the first call. */
struct fake_machine {
    int gpus;
    int driver_version;  /* as cudaDriverGetVersion says; 0: none */
    int major;           /* of the compute capability */
    size_t memory_bytes; /* of a GPU */
    bool reachable;      /* its memory is within the host's reach after all: for emulated kernels */
    int threads;         /* of a kernel; at most as many as the machine has cores */
    int queue_limit;     /* of a stream: who queues more waits; 0: for all */
    int holds;           /* a stream of a driver at most: who queues more keeps everybody waiting */
    bool lacks_cublaslt; /* the library */
    const char *border;  /* where one kind of page ends and another begins: memory on both sides is
                          * not registered as one */
    int bad_algorithms;  /* of a product, that cublasLt names before one that runs */
};
extern struct fake_machine
    fake_machine; /* one GPU of 256 MiB, of compute capability 9.0, of one thread */

/* Of cudaError_t, what tests let calls fail with. */
enum { FAKE_OUT_OF_MEMORY = 2, FAKE_ILLEGAL_ADDRESS = 700 };

/* The next `count`th call of this name fails with the error (a cudaError_t), as do all later ones
 * of any name that wait or queue: a device that is lost.  NULL: none. */
void fake_fail(const char *call, int count, int error);

/* NCCL between ranks of this machine, which are processes: each has a GPU of its own that is made
 * of threads.  Sums are those of the cpu backend.  To be set before ranks join. */
struct fake_nccl {
    bool missing; /* the library */
    int version;  /* as ncclGetVersion says */
    bool hangs;   /* ncclCommAbort does not return */
    size_t bytes; /* of the GPU, that a communicator takes */
    int blocks;   /* that all communicators together may have on a GPU; counted */
    int splits;   /* communicators that were split off others; counted */
};
extern struct fake_nccl fake_nccl;

/* What becomes of the next `count`th call of this name.  NULL: of none. */
enum fake_nccl_fate {
    FAKE_NCCL_FAILS,  /* at once, with the result (a ncclResult_t) */
    FAKE_NCCL_BREAKS, /* it never ends, and the communicator has the result */
    FAKE_NCCL_KILLS,  /* the process has ended */
};
void fake_nccl_fail(const char *call, int count, enum fake_nccl_fate fate, int result);

/* Whether a stream goes before others: one that does not waits behind long kernels. */
bool fake_is_urgent(void *stream);

/* Queues a function; of a stream of the thread itself (cudaStreamPerThread) it is called at once.
 */
void fake_push(void *stream, void (*run)(void *data), void *data);

/* The address by which `memory` is reached in what a stream runs; aborts where it is neither the
 * device's nor registered.  NULL stays NULL. */
void *fake_at(const void *memory);

/* Nothing that is queued runs between the two. */
void fake_hold(void);
void fake_release(void);

#ifdef __cplusplus
}
#endif

#endif
