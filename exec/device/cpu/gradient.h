/* gradient.h - writing to a struct mw_gradient: up to sixteen fp32 sums at a time. */
#ifndef MW_EXEC_DEVICE_CPU_GRADIENT_H
#define MW_EXEC_DEVICE_CPU_GRADIENT_H

#include "exec/device/cpu/kernels.h"
#include "exec/device/cpu/lanes.h"

MW_INLINE struct mw_lanes
mw_gradient_load(struct mw_gradient g, int64_t at, int64_t n)
{
    const float *full = (const float *)g.data + at;
    const mw_element *half = (const mw_element *)g.data + at;
    if (n == MW_LANES)
        return g.fp32 ? mw_lanes_load(full) : mw_lanes_load_half(half);
    return g.fp32 ? mw_lanes_load_some(full, n) : mw_lanes_load_half_some(half, n);
}

/* Elements [at, at + n) (+)= sum, n <= 16. */
MW_INLINE void
mw_gradient_put(struct mw_gradient g, int64_t at, struct mw_lanes sum, int64_t n)
{
    float *full = (float *)g.data + at;
    mw_element *half = (mw_element *)g.data + at;
    struct mw_lanes v = g.accumulate ? mw_lanes_add(mw_gradient_load(g, at, n), sum) : sum;
    if (g.fp32 && n == MW_LANES)
        mw_lanes_store(full, v);
    else if (g.fp32)
        mw_lanes_store_some(full, v, n);
    else if (n == MW_LANES)
        mw_lanes_store_half(half, v);
    else
        mw_lanes_store_half_some(half, v, n);
}

#endif
