/* The table of one instruction set and type of elements. */
#include "exec/device/cpu/isa.h"

#define MW_CPU_ROW(name) .name = MW_CPU(name),

const struct mw_cpu_kernels MW_CPU(table) = {
#if defined(MW_HALF_FP16)
    .dtype = MW_DTYPE_FP16,
#else
    .dtype = MW_DTYPE_BF16,
#endif
    /* clang-format off */
    MW_CPU_KERNELS(MW_CPU_ROW)
    /* clang-format on */
};
