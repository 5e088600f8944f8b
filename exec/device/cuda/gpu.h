/*
 * gpu.h - the GPUs of this machine, and the error of a call that fails.
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

/* Sets environment variables that the driver reads when it is first called, unless they are set
 * already.  MPI may be the first to call it: so call this before ranks are joined and threads are
 * started. */
void mw_cuda_gpu_environment(void);

/* -1 with *error (MW_ERROR_DEVICE): no driver, one that is too old for this build, or one that
 * fails.  0: a driver and no GPU. */
int mw_cuda_gpu_count(GError **error);

/* Whether a driver is loaded, of whatever version. */
bool mw_cuda_gpu_has_driver(void);

bool mw_cuda_gpu_find(int ordinal, struct mw_cuda_gpu *gpu, GError **error);

/* The GPU for rank `index` of the `ranks` ranks on this machine; this build's kernels must run on
 * it. Where the launcher lets each rank see one GPU only, it is that one. */
bool mw_cuda_gpu_pick(int index, int ranks, struct mw_cuda_gpu *gpu, GError **error);

/* A cudaStream_t that waits for no other.  An urgent one goes first: blocks of its kernels start
 * before those of kernels that were queued earlier on others. */
bool mw_cuda_stream_create(const struct mw_cuda_gpu *gpu, bool urgent, void **stream,
                           GError **error);

/* status is a cudaError_t.  Other than 0: false, and *error names device and call, in one line. The
 * error that CUDA keeps for this thread (cudaGetLastError, by which kernels report that they were
 * launched) is cleared, unless it is sticky. */
bool mw_cuda_check(const struct mw_cuda_gpu *gpu, int status, const char *call, GError **error);

#endif
