/*
 * half.h - the kernels that know the type of 16-bit elements are compiled once for each: MW_CUDA
 * (name) is the name of a launch in it (MW_HALF_FP16: fp16, else bf16).  MW_CUDA_LAUNCHES lists
 * them all, once.
 */
#ifndef MW_EXEC_DEVICE_CUDA_HALF_H
#define MW_EXEC_DEVICE_CUDA_HALF_H

#include <stddef.h>

#include "exec/device/cuda/kernels.h"

#define MW_CUDA_LAUNCHES(X)                                                                        \
    X(widen)                                                                                       \
    X(narrow)                                                                                      \
    X(accumulate)                                                                                  \
    X(add)                                                                                         \
    X(gelu_forward)                                                                                \
    X(gelu_backward)                                                                               \
    X(gelu_erf_forward)                                                                            \
    X(gelu_erf_backward)                                                                           \
    X(relu_forward)                                                                                \
    X(relu_backward)                                                                               \
    X(swiglu_forward)                                                                              \
    X(swiglu_backward)                                                                             \
    X(layernorm_forward)                                                                           \
    X(layernorm_backward)                                                                          \
    X(rmsnorm_forward)                                                                             \
    X(rmsnorm_backward)                                                                            \
    X(row_sums_scratch_bytes)                                                                      \
    X(norm_weight_gradient)                                                                        \
    X(bias_gradient)                                                                               \
    X(embedding_forward)                                                                           \
    X(embedding_scratch_bytes)                                                                     \
    X(embedding_backward)                                                                          \
    X(position_forward)                                                                            \
    X(position_backward)                                                                           \
    X(rope)                                                                                        \
    X(attention_scratch_bytes)                                                                     \
    X(attention_forward)                                                                           \
    X(attention_backward)                                                                          \
    X(cross_entropy)                                                                               \
    X(adamw)                                                                                       \
    X(square_sums)

#if defined(MW_HALF_FP16)
#define MW_CUDA(name) mw_cuda_##name##_fp16
#else
#define MW_CUDA(name) mw_cuda_##name##_bf16
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define MW_CUDA_DECLARE(name)                                                                      \
    __typeof__(*((struct mw_cuda_launches *)NULL)->name) mw_cuda_##name##_bf16,                    \
        mw_cuda_##name##_fp16;
MW_CUDA_LAUNCHES(MW_CUDA_DECLARE)

#ifdef __cplusplus
}
#endif

#endif
