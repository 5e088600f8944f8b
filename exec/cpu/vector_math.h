/*
 * vector_math.h - exp, tanh and erf of sixteen lanes, for results that end in bf16: relative
 * errors below 1e-6 of exp, absolute ones below 1e-6 of the other two.
 */
#ifndef MW_EXEC_CPU_VECTOR_MATH_H
#define MW_EXEC_CPU_VECTOR_MATH_H

#include "exec/cpu/vector.h"

/* exp(x) = 2^n exp(r), r = x - n ln 2 in two parts (Cody and Waite), Taylor's terms up to r^6/6!:
 * |r| <= ln 2 / 2 leaves 1.2e-7. Below -87 it is 0, above 88 it is exp(88); a NaN stays one. */
MW_INLINE mw_f32x16
mw_exp(mw_f32x16 x)
{
    mw_f32x16 clamped = mw_min(mw_max(x, mw_splat(-87.0f)), mw_splat(88.0f));
    mw_f32x16 shift = mw_splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    mw_f32x16 shifted = clamped * 1.44269504f + shift;
    mw_f32x16 n = shifted - shift;
    mw_f32x16 r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
    mw_f32x16 p = r * (1.0f / 720) + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    mw_i32x16 exponent = ((mw_i32x16)shifted - (mw_i32x16)shift + 127) << 23;
    mw_f32x16 y = p * (mw_f32x16)exponent;
    y = mw_select(x < mw_splat(-87.0f), mw_splat(0.0f), y);
    return mw_select(x != x, x, y);
}

/* 1 - 2 / (exp(2x) + 1) */
MW_INLINE mw_f32x16
mw_tanh(mw_f32x16 x)
{
    return 1.0f - 2.0f / (mw_exp(2.0f * x) + 1.0f);
}

MW_INLINE mw_f32x16
mw_sigmoid(mw_f32x16 x)
{
    return 1.0f / (mw_exp(-x) + 1.0f);
}

/* Abramowitz and Stegun 7.1.26: |error| <= 1.5e-7. */
MW_INLINE mw_f32x16
mw_erf(mw_f32x16 x)
{
    mw_f32x16 magnitude = mw_select(x < mw_splat(0.0f), -x, x);
    mw_f32x16 t = 1.0f / (magnitude * 0.3275911f + 1.0f);
    mw_f32x16 p = t * 1.061405429f - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    mw_f32x16 y = 1.0f - p * t * mw_exp(-(magnitude * magnitude));
    return mw_select(x < mw_splat(0.0f), -y, y);
}

#endif
