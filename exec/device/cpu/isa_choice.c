/* Which instruction set: the best, or the one that is forced. */
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/device/cpu/kernels.h"

#if MW_CPU_X86
#include <cpuid.h>
#endif

static const char *const isa_names[MW_CPU_ISAS] = {
    [MW_CPU_ISA_GENERIC] = "generic",
    [MW_CPU_ISA_AVX2] = "avx2",
    [MW_CPU_ISA_AVX512] = "avx512",
    [MW_CPU_ISA_AVX512_BF16] = "avx512-bf16",
};

static struct {
    pthread_once_t once;
    enum mw_cpu_isa used;
    bool forced;
    char refusal[200];
} choice = {.once = PTHREAD_ONCE_INIT};

const char *
mw_cpu_isa_name(enum mw_cpu_isa isa)
{
    return isa_names[isa];
}

#if MW_CPU_X86
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

bool
mw_cpu_isa_runs(enum mw_cpu_isa isa)
{
    switch (isa) {
    case MW_CPU_ISA_AVX2:
        return runs_avx2();
    case MW_CPU_ISA_AVX512:
        return runs_avx512();
    case MW_CPU_ISA_AVX512_BF16:
        return runs_avx512() && __builtin_cpu_supports("avx512bf16");
    default:
        return isa == MW_CPU_ISA_GENERIC;
    }
}

/* The library is limited to the same set: it then refuses what it would refuse on such a
 * machine. */
static void
hold_library(enum mw_cpu_isa isa)
{
    static const dnnl_cpu_isa_t most[MW_CPU_ISAS] = {
        [MW_CPU_ISA_GENERIC] = dnnl_cpu_isa_sse41,
        [MW_CPU_ISA_AVX2] = dnnl_cpu_isa_avx2,
        [MW_CPU_ISA_AVX512] = dnnl_cpu_isa_avx512_core,
        [MW_CPU_ISA_AVX512_BF16] = dnnl_cpu_isa_avx512_core_bf16,
    };

    if (dnnl_set_max_cpu_isa(most[isa]) != dnnl_success)
        snprintf(choice.refusal, sizeof choice.refusal,
                 "%s: value %s: oneDNN cannot be held to it, since it was used before",
                 MW_CPU_ISA_VARIABLE, isa_names[isa]);
}
#else
bool
mw_cpu_isa_runs(enum mw_cpu_isa isa)
{
    return isa == MW_CPU_ISA_GENERIC;
}

static void
hold_library(enum mw_cpu_isa isa)
{
    (void)isa;
}
#endif

static void
refuse(const char *name)
{
    int length = snprintf(choice.refusal, sizeof choice.refusal, "%s: value %.40s: must be one of ",
                          MW_CPU_ISA_VARIABLE, name);

    for (int isa = 0; isa < MW_CPU_ISAS; isa++)
        if (mw_cpu_isa_runs((enum mw_cpu_isa)isa))
            length += snprintf(choice.refusal + length, sizeof choice.refusal - (size_t)length,
                               "%s%s", isa > 0 ? ", " : "", isa_names[isa]);
    snprintf(choice.refusal + length, sizeof choice.refusal - (size_t)length,
             ", which are all that this processor runs");
}

static void
choose(void)
{
    const char *name = getenv(MW_CPU_ISA_VARIABLE);

    for (int isa = 0; isa < MW_CPU_ISAS; isa++)
        if (mw_cpu_isa_runs((enum mw_cpu_isa)isa))
            choice.used = (enum mw_cpu_isa)isa;
    if (name == NULL || *name == 0)
        return;
    for (int isa = 0; isa < MW_CPU_ISAS && !choice.forced; isa++)
        if (strcmp(name, isa_names[isa]) == 0 && mw_cpu_isa_runs((enum mw_cpu_isa)isa)) {
            choice.used = (enum mw_cpu_isa)isa;
            choice.forced = true;
        }
    if (choice.forced)
        hold_library(choice.used);
    else
        refuse(name);
}

enum mw_cpu_isa
mw_cpu_isa_used(bool *forced)
{
    pthread_once(&choice.once, choose);
    if (forced != NULL)
        *forced = choice.forced;
    return choice.used;
}

const char *
mw_cpu_isa_refusal(void)
{
    pthread_once(&choice.once, choose);
    return choice.refusal[0] != 0 ? choice.refusal : NULL;
}
