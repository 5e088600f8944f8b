/* gradient.h - writing to a struct mw_gradient: up to sixteen fp32 sums at a time. */
#ifndef MW_EXEC_CPU_GRADIENT_H
#define MW_EXEC_CPU_GRADIENT_H

#include "exec/cpu/kernels.h"
#include "exec/cpu/vector.h"

MW_INLINE mw_f32x16
mw_gradient_load(struct mw_gradient g, int64_t at, int64_t n)
{
    return g.fp32 ? mw_load_some((const float *)g.data + at, n)
                  : mw_load_half_some((const uint16_t *)g.data + at, n);
}

/* Elements [at, at + n) (+)= sum, n <= 16. */
MW_INLINE void
mw_gradient_put(struct mw_gradient g, int64_t at, mw_f32x16 sum, int64_t n)
{
    mw_f32x16 v = g.accumulate ? mw_gradient_load(g, at, n) + sum : sum;
    if (g.fp32)
        mw_store_some((float *)g.data + at, v, n);
    else
        mw_store_half_some((uint16_t *)g.data + at, v, n);
}

#endif
