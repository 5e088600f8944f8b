/* The table of one instruction set and type of elements. */
#include "exec/device/cpu/isa.h"

const struct mw_cpu_kernels MW_CPU(table) = {
#if defined(MW_HALF_FP16)
    .dtype = MW_DTYPE_FP16,
#else
    .dtype = MW_DTYPE_BF16,
#endif
#define MW_KERNEL(name, parameters, arguments) .name = MW_CPU(name),
#define MW_KERNEL_PASS MW_KERNEL
#define MW_KERNEL_SCRATCH MW_KERNEL
#include "exec/operators/kernel_list.h"
    .gemm_scratch_bytes = MW_CPU(gemm_scratch_bytes),
    .gemm = MW_CPU(gemm),
};
