/* Which table; and what needs no table. */
#include "exec/cpu/kernels.h"

#include <math.h>

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

void
mw_cpu_rope_table(float *table, int64_t seq, int64_t head_dim, double theta)
{
    int64_t half = head_dim / 2;
    for (int64_t p = 0; p < seq; p++) {
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)p * pow(theta, -2.0 * (double)i / (double)head_dim);
            table[p * head_dim + i] = (float)cos(angle);
            table[p * head_dim + half + i] = (float)sin(angle);
        }
    }
}

struct mw_cpu_adamw
mw_cpu_adamw_step(double lr, double beta1, double beta2, double eps, double weight_decay,
                  int64_t step, double grad_scale)
{
    struct mw_cpu_adamw adamw = {
        .grad_scale = (float)grad_scale,
        .beta1 = (float)beta1,
        .one_minus_beta1 = (float)(1.0 - beta1),
        .beta2 = (float)beta2,
        .one_minus_beta2 = (float)(1.0 - beta2),
        .eps = (float)eps,
        .decay = (float)(1.0 - lr * weight_decay),
        .corrected_lr = (float)(lr / (1.0 - pow(beta1, (double)step))),
        .v_scale = (float)(1.0 / sqrt(1.0 - pow(beta2, (double)step))),
    };
    return adamw;
}

int64_t
mw_cpu_norm_blocks(int64_t n)
{
    return (n + MW_CPU_NORM_BLOCK - 1) / MW_CPU_NORM_BLOCK;
}

double
mw_cpu_norm_combine(const double *partial, int64_t blocks)
{
    double sum = 0.0;
    for (int64_t i = 0; i < blocks; i++)
        sum += partial[i];
    return sum;
}
