/*
 * attention.h - what both passes of attention share.  Scores are kept in base 2: exp(x) is
 * 2^(x log2 e), and the factor log2 e goes into the scale.
 */
#ifndef MW_EXEC_CPU_ATTENTION_H
#define MW_EXEC_CPU_ATTENTION_H

#include "exec/cpu/isa.h"
#include "exec/cpu/pack.h"
#include "exec/cpu/panel.h"

#define MW_LOG2_E 1.44269504f
#define MW_LN_2 0.69314718f
/* Far below any score, yet a number: differences of it are no NaN. */
#define MW_MASKED -1e30f

/* 2^x: x = n + r with |r| <= 1/2, and Taylor's terms up to (r ln 2)^5/5!: relative error below
 * 3e-6. Below -126 it is 0; x is at most a little above 0 here. */
MW_INLINE mw_f32x16
mw_exp2(mw_f32x16 x)
{
    mw_f32x16 shift = mw_splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    mw_f32x16 clamped = mw_max(x, mw_splat(-126.0f));
    mw_f32x16 shifted = clamped + shift;
    mw_f32x16 r = clamped - (shifted - shift);
    mw_f32x16 p = mw_fma(r, mw_splat(1.33335581e-3f), mw_splat(9.61812911e-3f));
    p = mw_fma(p, r, mw_splat(5.55041087e-2f));
    p = mw_fma(p, r, mw_splat(2.40226507e-1f));
    p = mw_fma(p, r, mw_splat(6.93147181e-1f));
    p = mw_fma(p, r, mw_splat(1.0f));
    /* The low bits of shifted are n, up to a constant that leaves on the left. */
    mw_f32x16 y = (mw_f32x16)((mw_u32x16)p + ((mw_u32x16)shifted << 23));
    return mw_select(x > mw_splat(-126.0f), y, mw_select(x != x, x, mw_splat(0.0f)));
}

/* By the quickest way: subnormal numbers may become zero. */
MW_INLINE mw_u16x16
mw_narrow_quick(mw_f32x16 x)
{
#if defined(__AVX512BF16__) && !defined(MW_HALF_FP16)
    return (mw_u16x16)_mm512_cvtneps_pbh((__m512)x);
#else
    return mw_narrow(x);
#endif
}

/* The forward pass's share of attention_scratch_bytes. */
int64_t MW_CPU(attention_forward_bytes)(const struct mw_attention *shape, int threads);

MW_INLINE int64_t
mw_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
