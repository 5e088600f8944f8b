/*
 * isa.h - the kernels' sources are compiled once for each instruction set and each type of elements
 * (MW_HALF_FP16: fp16, MW_ELEMENT_FP32: fp32, else bf16): MW_CPU_ISA is the suffix of the two,
 * MW_CPU(name) the name of a kernel in it.
 */
#ifndef MW_EXEC_DEVICE_CPU_ISA_H
#define MW_EXEC_DEVICE_CPU_ISA_H

#include "exec/device/cpu/kernels.h"
#include "exec/device/cpu/native.h"

#define MW_CPU_PASTE(name, isa) mw_cpu_##name##_##isa
#define MW_CPU_PASTED(name, isa) MW_CPU_PASTE(name, isa)
#define MW_CPU(name) MW_CPU_PASTED(name, MW_CPU_ISA)

#ifdef MW_CPU_ISA
#define MW_ELEMENT mw_element
#define MW_KERNEL(name, parameters, arguments) void MW_CPU(name) parameters;
#define MW_KERNEL_PASS MW_KERNEL
#define MW_KERNEL_SCRATCH(name, parameters, arguments)                                             \
    int64_t MW_CPU(name)(MW_BARE parameters, int threads);
#define MW_KERNEL_EXPERTS MW_KERNEL
#define MW_KERNEL_EXPERTS_SCRATCH MW_KERNEL_SCRATCH
#define MW_KERNEL_RING MW_KERNEL
#include "exec/operators/kernel_list.h"

int64_t MW_CPU(gemm_scratch_bytes)(const struct mw_product *product, int threads);
void MW_CPU(gemm)(const struct mw_product *product, void *c, const mw_element *a,
                  const mw_element *b, const mw_element *bias, void *scratch);
void MW_CPU(update_by_vectors)(const struct mw_update_step *step,
                               const struct mw_update_vectors *vectors, float *w, float *m,
                               mw_element *param, const void *grad, bool grad_fp32, int64_t n);
void MW_CPU(side_sums)(const struct mw_exact_sides *sides, const void *grad, bool grad_fp32,
                       int64_t n);
void MW_CPU(update_squares)(const struct mw_update_step *step,
                            const struct mw_update_vectors *vectors, const void *grad,
                            bool grad_fp32, int64_t n, struct mw_exact_sum *sum);
#endif

extern const struct mw_cpu_kernels mw_cpu_table_generic, mw_cpu_table_generic_fp16;
extern const struct mw_cpu_kernels mw_cpu_table_avx2, mw_cpu_table_avx2_fp16;
extern const struct mw_cpu_kernels mw_cpu_table_avx512, mw_cpu_table_avx512_fp16;
extern const struct mw_cpu_kernels mw_cpu_table_avx512_bf16;
extern const struct mw_cpu_kernels mw_cpu_table_generic_fp32, mw_cpu_table_avx2_fp32;
extern const struct mw_cpu_kernels mw_cpu_table_avx512_fp32;

#endif
