/*
 * gpu.h - the GPUs of this machine, and what is said when a call to one fails.
 */
#ifndef MW_EXEC_DEVICE_CUDA_GPU_H
#define MW_EXEC_DEVICE_CUDA_GPU_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct mw_cuda_gpu {
    int ordinal; /* among those that this process sees (CUDA_VISIBLE_DEVICES) */
    char name[128];
    char bus[16];     /* its PCI address: 0000:3b:00.0 */
    int major, minor; /* its compute capability */
    int multiprocessors;
    int64_t memory_bytes;
};

/* What the driver reads of the environment when it is first called, unless it is set already.  MPI
 * may be who calls it first: so a program says this before it joins ranks, and starts threads. */
void mw_cuda_gpu_environment(void);

/* -1 with *error (MW_ERROR_DEVICE): no driver, one that is too old for this build, or one that
 * fails.  0: a driver and no GPU. */
int mw_cuda_gpu_count(GError **error);

/* Whether a driver is loaded, of whatever version. */
bool mw_cuda_gpu_has_driver(void);

bool mw_cuda_gpu_find(int ordinal, struct mw_cuda_gpu *gpu, GError **error);

/* The GPU of the `index`th of `ranks` ranks on this machine, one that this build's kernels run on.
 * Where each rank sees one GPU alone, because the launcher said so, it is that one. */
bool mw_cuda_gpu_pick(int index, int ranks, struct mw_cuda_gpu *gpu, GError **error);

/* A cudaStream_t that waits for no other; one that is urgent goes first: blocks of its kernels
 * start before those of kernels that others queued earlier. */
bool mw_cuda_stream_create(const struct mw_cuda_gpu *gpu, bool urgent, void **stream,
                           GError **error);

/* status is a cudaError_t; other than 0: false, and *error names device and call, in one line. What
 * CUDA keeps of it for this thread (cudaGetLastError, by which kernels say that they were started)
 * is taken away, unless it is for good. */
bool mw_cuda_check(const struct mw_cuda_gpu *gpu, int status, const char *call, GError **error);

#endif
