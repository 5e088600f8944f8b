/* The table of one instruction set and type of elements, for callers who know of no type. */
#include "exec/device/cpu/isa.h"

#define MW_KERNEL(name, parameters, arguments)                                                     \
    static void call_##name parameters                                                             \
    {                                                                                              \
        MW_CPU(name) arguments;                                                                    \
    }
#define MW_KERNEL_PASS MW_KERNEL
#define MW_KERNEL_SCRATCH(name, parameters, arguments)                                             \
    static int64_t call_##name(MW_BARE parameters, int threads)                                    \
    {                                                                                              \
        return MW_CPU(name)(MW_BARE arguments, threads);                                           \
    }
#define MW_KERNEL_EXPERTS MW_KERNEL
#define MW_KERNEL_EXPERTS_SCRATCH MW_KERNEL_SCRATCH
#define MW_KERNEL_RING MW_KERNEL
#include "exec/operators/kernel_list.h"

static void
call_gemm(const struct mw_product *product, void *c, const void *a, const void *b, const void *bias,
          void *scratch)
{
    MW_CPU(gemm)(product, c, a, b, bias, scratch);
}

static void
call_update_by_vectors(const struct mw_update_step *step, const struct mw_update_vectors *vectors,
                       float *w, float *m, void *param, const void *grad, bool grad_fp32, int64_t n)
{
    MW_CPU(update_by_vectors)(step, vectors, w, m, param, grad, grad_fp32, n);
}

const struct mw_cpu_kernels MW_CPU(table) = {
#if defined(MW_ELEMENT_FP32)
    .dtype = MW_DTYPE_FP32,
#elif defined(MW_HALF_FP16)
    .dtype = MW_DTYPE_FP16,
#else
    .dtype = MW_DTYPE_BF16,
#endif
#define MW_KERNEL(name, parameters, arguments) .name = call_##name,
#define MW_KERNEL_PASS MW_KERNEL
#define MW_KERNEL_SCRATCH MW_KERNEL
#define MW_KERNEL_EXPERTS MW_KERNEL
#define MW_KERNEL_EXPERTS_SCRATCH MW_KERNEL_SCRATCH
#define MW_KERNEL_RING MW_KERNEL
#include "exec/operators/kernel_list.h"
    .gemm_scratch_bytes = MW_CPU(gemm_scratch_bytes),
    .gemm = call_gemm,
    .update_by_vectors = call_update_by_vectors,
    .side_sums = MW_CPU(side_sums),
    .update_squares = MW_CPU(update_squares),
};
