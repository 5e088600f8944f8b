/*
 * isa.h - the kernels' sources are compiled once for each instruction set and each type of 16-bit
 * elements (MW_HALF_FP16: fp16, else bf16): MW_CPU_ISA is the suffix of the two, MW_CPU(name) the
 * name of a kernel in it.  MW_CPU_KERNELS lists them all, once.
 */
#ifndef MW_EXEC_DEVICE_CPU_ISA_H
#define MW_EXEC_DEVICE_CPU_ISA_H

#include "exec/device/cpu/kernels.h"

#define MW_CPU_KERNELS(X)                                                                          \
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
    X(norm_weight_gradient)                                                                        \
    X(bias_gradient)                                                                               \
    X(embedding_forward)                                                                           \
    X(embedding_backward)                                                                          \
    X(position_forward)                                                                            \
    X(position_backward)                                                                           \
    X(rope)                                                                                        \
    X(attention_scratch_bytes)                                                                     \
    X(attention_forward)                                                                           \
    X(attention_backward)                                                                          \
    X(cross_entropy)                                                                               \
    X(adamw)                                                                                       \
    X(square_sums)                                                                                 \
    X(gemm_scratch_bytes)                                                                          \
    X(gemm)

#define MW_CPU_PASTE(name, isa) mw_cpu_##name##_##isa
#define MW_CPU_PASTED(name, isa) MW_CPU_PASTE(name, isa)
#define MW_CPU(name) MW_CPU_PASTED(name, MW_CPU_ISA)

#ifdef MW_CPU_ISA
#define MW_CPU_DECLARE(name) __typeof__(*((struct mw_cpu_kernels *)NULL)->name) MW_CPU(name);
MW_CPU_KERNELS(MW_CPU_DECLARE)
#endif

extern const struct mw_cpu_kernels mw_cpu_table_generic, mw_cpu_table_generic_fp16;
extern const struct mw_cpu_kernels mw_cpu_table_avx2, mw_cpu_table_avx2_fp16;
extern const struct mw_cpu_kernels mw_cpu_table_avx512, mw_cpu_table_avx512_fp16;
extern const struct mw_cpu_kernels mw_cpu_table_avx512_bf16;

#endif
