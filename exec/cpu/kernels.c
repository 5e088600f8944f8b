/* Which table. */
#include "exec/cpu/kernels.h"

#include "exec/cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const char *const isa_names[MW_CPU_ISAS] = {
    [MW_CPU_ISA_GENERIC] = "generic",
    [MW_CPU_ISA_AVX2] = "avx2",
    [MW_CPU_ISA_AVX512] = "avx512",
    [MW_CPU_ISA_AVX512_BF16] = "avx512-bf16",
};

const char *
mw_cpu_isa_name(enum mw_cpu_isa isa)
{
    return isa_names[isa];
}

#if defined(__x86_64__)
static bool
runs_avx2(void)
{
    unsigned a, b, c, d;

    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

static bool
runs_avx512(void)
{
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const struct mw_cpu_kernels *
mw_cpu_kernels_of(enum mw_cpu_isa isa, enum mw_dtype dtype)
{
    bool fp16 = dtype == MW_DTYPE_FP16;

    switch (isa) {
    case MW_CPU_ISA_AVX2:
        return !runs_avx2() ? NULL : fp16 ? &mw_cpu_table_avx2_fp16 : &mw_cpu_table_avx2;
    case MW_CPU_ISA_AVX512:
        return !runs_avx512() ? NULL : fp16 ? &mw_cpu_table_avx512_fp16 : &mw_cpu_table_avx512;
    case MW_CPU_ISA_AVX512_BF16:
        return runs_avx512() && __builtin_cpu_supports("avx512bf16") && !fp16
                   ? &mw_cpu_table_avx512_bf16
                   : NULL;
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
    for (int isa = MW_CPU_ISAS - 1; isa > MW_CPU_ISA_GENERIC; isa--) {
        const struct mw_cpu_kernels *kernels = mw_cpu_kernels_of((enum mw_cpu_isa)isa, dtype);
        if (kernels != NULL)
            return kernels;
    }
    return mw_cpu_kernels_of(MW_CPU_ISA_GENERIC, dtype);
}
