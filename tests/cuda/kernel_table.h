/*
 * kernel_table.h - the kernels of exec/device/cuda as tables like those of the cpu backend, for its
 * tests: operands are host memory, which mirrors on the device stand for.  Scratch is the tables'
 * own.  Of attention, q, k and v lie in one tensor, and so do their gradients.  gemm is NULL.
 */
#ifndef MW_TESTS_CUDA_KERNEL_TABLE_H
#define MW_TESTS_CUDA_KERNEL_TABLE_H

#include "exec/device/cpu/kernels.h"
#include "exec/device/cuda/kernels.h"

/* While their tests run mw_test_dtype is their type, as mw_add_kernel_table_test sets it. */
extern const struct mw_cpu_kernels mw_test_cuda_bf16, mw_test_cuda_fp16;

/* Those of mw_test_dtype. */
const struct mw_cuda_launches *mw_test_cuda_launches(void);
const struct mw_cpu_kernels *mw_test_cuda_kernels(void);

/* Whether all mirrors lie at multiples of 256 bytes (tests/cuda/mirrors.h). */
extern bool mw_test_aligned;

#endif
