/* Which table. */
#include "exec/cpu/kernels.h"

#include "exec/cpu/isa.h"

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
runs_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

const struct mw_cpu_kernels *
mw_cpu_kernels_of(enum mw_cpu_isa isa)
{
    switch (isa) {
    case MW_CPU_ISA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &mw_cpu_table_avx2
                                                                               : NULL;
    case MW_CPU_ISA_AVX512:
        return runs_avx512() ? &mw_cpu_table_avx512 : NULL;
    case MW_CPU_ISA_AVX512_BF16:
        return runs_avx512() && __builtin_cpu_supports("avx512bf16") ? &mw_cpu_table_avx512_bf16
                                                                     : NULL;
    default:
        return &mw_cpu_table_generic;
    }
}
#else
const struct mw_cpu_kernels *
mw_cpu_kernels_of(enum mw_cpu_isa isa)
{
    return isa == MW_CPU_ISA_GENERIC ? &mw_cpu_table_generic : NULL;
}
#endif

const struct mw_cpu_kernels *
mw_cpu_kernels(void)
{
    for (int isa = MW_CPU_ISAS - 1; isa > MW_CPU_ISA_GENERIC; isa--) {
        const struct mw_cpu_kernels *kernels = mw_cpu_kernels_of((enum mw_cpu_isa)isa);
        if (kernels != NULL)
            return kernels;
    }
    return &mw_cpu_table_generic;
}
