/*
 * half.h - the kernels that know the type of 16-bit elements are compiled once for each type
 * (MW_HALF_FP16: fp16, else bf16): MW_CUDA(name) is the name of a launch in it.
 */
#ifndef MW_EXEC_DEVICE_CUDA_HALF_H
#define MW_EXEC_DEVICE_CUDA_HALF_H

#include "exec/device/cuda/kernels.h"

#if defined(MW_HALF_FP16)
#define MW_CUDA(name) mw_cuda_##name##_fp16
#else
#define MW_CUDA(name) mw_cuda_##name##_bf16
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define MW_ELEMENT uint16_t
#define MW_KERNEL(name, parameters, arguments)                                                     \
    int mw_cuda_##name##_bf16(void *stream, MW_BARE parameters);                                   \
    int mw_cuda_##name##_fp16(void *stream, MW_BARE parameters);
#define MW_KERNEL_PASS MW_KERNEL
#define MW_KERNEL_SCRATCH(name, parameters, arguments)                                             \
    int64_t mw_cuda_##name##_bf16 parameters;                                                      \
    int64_t mw_cuda_##name##_fp16 parameters;
#include "exec/operators/kernel_list.h"

#ifdef __cplusplus
}
#endif

#endif
