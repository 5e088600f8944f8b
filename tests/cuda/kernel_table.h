/*
 * kernel_table.h - the kernels of exec/cuda as a table like those of the cpu backend, for its
 * tests: operands are host memory, which mirrors on the device stand for.  NULL: attention and
 * gemm.
 */
#ifndef MW_TESTS_CUDA_KERNEL_TABLE_H
#define MW_TESTS_CUDA_KERNEL_TABLE_H

#include "exec/cpu/kernels.h"

extern const struct mw_cpu_kernels mw_test_cuda_kernels;

#endif
