/* Which table. */
#include "exec/device/cpu/kernels.h"

#include "exec/device/cpu/isa.h"

/* NULL: it adds nothing to the set before. */
static const struct mw_cpu_kernels *const tables[MW_CPU_ISAS][MW_DTYPE_COUNT] = {
    [MW_CPU_ISA_GENERIC] = {[MW_DTYPE_BF16] = &mw_cpu_table_generic,
                            [MW_DTYPE_FP16] = &mw_cpu_table_generic_fp16,
                            [MW_DTYPE_FP32] = &mw_cpu_table_generic_fp32},
#if MW_CPU_X86
    [MW_CPU_ISA_AVX2] = {[MW_DTYPE_BF16] = &mw_cpu_table_avx2,
                         [MW_DTYPE_FP16] = &mw_cpu_table_avx2_fp16,
                         [MW_DTYPE_FP32] = &mw_cpu_table_avx2_fp32},
    [MW_CPU_ISA_AVX512] = {[MW_DTYPE_BF16] = &mw_cpu_table_avx512,
                           [MW_DTYPE_FP16] = &mw_cpu_table_avx512_fp16,
                           [MW_DTYPE_FP32] = &mw_cpu_table_avx512_fp32},
    [MW_CPU_ISA_AVX512_BF16] = {[MW_DTYPE_BF16] = &mw_cpu_table_avx512_bf16},
#endif
};

const struct mw_cpu_kernels *
mw_cpu_kernels_of(enum mw_cpu_isa isa, enum mw_dtype dtype)
{
    return mw_cpu_isa_runs(isa) ? tables[isa][dtype == MW_DTYPE_NONE ? MW_DTYPE_BF16 : dtype]
                                : NULL;
}

const struct mw_cpu_kernels *
mw_cpu_kernels(enum mw_dtype dtype)
{
    for (int isa = (int)mw_cpu_isa_used(NULL); isa > MW_CPU_ISA_GENERIC; isa--) {
        const struct mw_cpu_kernels *kernels = mw_cpu_kernels_of((enum mw_cpu_isa)isa, dtype);
        if (kernels != NULL)
            return kernels;
    }
    return mw_cpu_kernels_of(MW_CPU_ISA_GENERIC, dtype);
}
