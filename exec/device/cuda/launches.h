/*
 * launches.h - a GPU as a device for the decoder's operators: exec/operators/kernels.h by the
 * kernels of exec/device/cuda and the products of cublasLt, queued on the stream of the thread that
 * calls (exec/device/cuda/queue.h).
 */
#ifndef MW_EXEC_DEVICE_CUDA_LAUNCHES_H
#define MW_EXEC_DEVICE_CUDA_LAUNCHES_H

#include "exec/device/cuda/gpu.h"
#include "exec/device/cuda/kernels.h"
#include "exec/device/cuda/matmul.h"
#include "exec/operators/kernels.h"

/* Belongs to the thread that computes. */
struct mw_cuda_device {
    struct mw_cuda_gpu gpu;
    const struct mw_cuda_launches *launches; /* of the type of its 16-bit elements */
    struct mw_cuda_matmul *matmul;           /* of the same type */
    int status;       /* cudaError_t of the first launch that failed; 0: none did */
    const char *call; /* which */
};

/* Their `device` is a struct mw_cuda_device; the thread's current device must be its GPU. */
extern const struct mw_kernels mw_cuda_kernels;

/* False with *error if a launch has failed since this was asked last. */
bool mw_cuda_launched(struct mw_cuda_device *device, GError **error);

#endif
