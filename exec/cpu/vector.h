/*
 * vector.h - sixteen fp32 lanes as one type, for products: the compiler splits them where registers
 * are narrower, and badly so: passes over memory use native.h.
 */
#ifndef MW_EXEC_CPU_VECTOR_H
#define MW_EXEC_CPU_VECTOR_H

#include "exec/cpu/native.h"

/* Vectors are no typedefs of structs, but the language has no other name for them. */
typedef float mw_f32x16 __attribute__((vector_size(64)));
typedef int32_t mw_i32x16 __attribute__((vector_size(64)));
typedef uint32_t mw_u32x16 __attribute__((vector_size(64)));
typedef uint16_t mw_u16x16 __attribute__((vector_size(32)));

MW_INLINE mw_f32x16
mw_splat(float x)
{
    return x - (mw_f32x16){0};
}

MW_INLINE mw_f32x16
mw_select(mw_i32x16 mask, mw_f32x16 yes, mw_f32x16 no)
{
    return (mw_f32x16)((mask & (mw_i32x16)yes) | (~mask & (mw_i32x16)no));
}

MW_INLINE mw_f32x16
mw_load(const float *x)
{
    mw_f32x16 v;
    memcpy(&v, x, sizeof v);
    return v;
}

MW_INLINE void
mw_store(float *x, mw_f32x16 v)
{
    memcpy(x, &v, sizeof v);
}

MW_INLINE mw_f32x16
mw_widen(mw_u16x16 half)
{
    uint16_t lane[MW_LANES];
    memcpy(lane, &half, sizeof half);
    struct mw_lanes wide = mw_lanes_load_half(lane);
    mw_f32x16 v;
    memcpy(&v, &wide, sizeof v);
    return v;
}

MW_INLINE mw_u16x16
mw_narrow(mw_f32x16 x)
{
    struct mw_lanes v;
    uint16_t lane[MW_LANES];
    mw_u16x16 half;
    memcpy(&v, &x, sizeof v);
    mw_lanes_store_half(lane, v);
    memcpy(&half, lane, sizeof half);
    return half;
}

MW_INLINE mw_f32x16
mw_load_half(const uint16_t *x)
{
    mw_u16x16 half;
    memcpy(&half, x, sizeof half);
    return mw_widen(half);
}

MW_INLINE void
mw_store_half(uint16_t *x, mw_f32x16 v)
{
    mw_u16x16 half = mw_narrow(v);
    memcpy(x, &half, sizeof half);
}

/* The first n < 16 lanes; others are zero, or stay unwritten. */
MW_INLINE mw_f32x16
mw_load_some(const float *x, int64_t n)
{
    mw_f32x16 v = {0};
    memcpy(&v, x, (size_t)n * sizeof *x);
    return v;
}

MW_INLINE void
mw_store_some(float *x, mw_f32x16 v, int64_t n)
{
    memcpy(x, &v, (size_t)n * sizeof *x);
}

MW_INLINE mw_f32x16
mw_load_half_some(const uint16_t *x, int64_t n)
{
    mw_u16x16 half = {0};
    memcpy(&half, x, (size_t)n * sizeof *x);
    return mw_widen(half);
}

MW_INLINE void
mw_store_half_some(uint16_t *x, mw_f32x16 v, int64_t n)
{
    mw_u16x16 half = mw_narrow(v);
    memcpy(x, &half, (size_t)n * sizeof *x);
}

/* Lanes i and i + 8, then i and i + 4, i + 2, i + 1: one order for all. */
MW_INLINE float
mw_sum(mw_f32x16 v)
{
    float lane[MW_LANES];
    memcpy(lane, &v, sizeof v);
    for (int half = MW_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

MW_INLINE mw_f32x16
mw_max(mw_f32x16 a, mw_f32x16 b)
{
    return mw_select(a > b, a, b);
}

MW_INLINE mw_f32x16
mw_min(mw_f32x16 a, mw_f32x16 b)
{
    return mw_select(a < b, a, b);
}

MW_INLINE float
mw_max_lane(mw_f32x16 v)
{
    float lane[MW_LANES];
    memcpy(lane, &v, sizeof v);
    for (int half = MW_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
    return lane[0];
}

#endif
