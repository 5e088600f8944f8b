/* The table of one instruction set. */
#include "exec/cpu/isa.h"

#define MW_CPU_ROW(name) .name = MW_CPU(name),

const struct mw_cpu_kernels MW_CPU(table) = {MW_CPU_KERNELS(MW_CPU_ROW)};
