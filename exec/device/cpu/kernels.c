/* Which table. */
#include "exec/device/cpu/kernels.h"

#include "exec/device/cpu/isa.h"

#if defined(__x86_64__)
const struct mw_cpu_kernels *
mw_cpu_kernels_of(enum mw_cpu_isa isa, enum mw_dtype dtype)
{
    bool fp16 = dtype == MW_DTYPE_FP16;

    if (!mw_cpu_isa_runs(isa))
        return NULL;
    switch (isa) {
    case MW_CPU_ISA_AVX2:
        return fp16 ? &mw_cpu_table_avx2_fp16 : &mw_cpu_table_avx2;
    case MW_CPU_ISA_AVX512:
        return fp16 ? &mw_cpu_table_avx512_fp16 : &mw_cpu_table_avx512;
    case MW_CPU_ISA_AVX512_BF16:
        return fp16 ? NULL : &mw_cpu_table_avx512_bf16;
    default:
        return fp16 ? &mw_cpu_table_generic_fp16 : &mw_cpu_table_generic;
    }
}
#else
const struct mw_cpu_kernels *
mw_cpu_kernels_of(enum mw_cpu_isa isa, enum mw_dtype dtype)
{
    if (isa != MW_CPU_ISA_GENERIC)
        return NULL;
    return dtype == MW_DTYPE_FP16 ? &mw_cpu_table_generic_fp16 : &mw_cpu_table_generic;
}
#endif

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
