/*
 * vector_math.h - exp, tanh and erf of a register, for results that end in bf16: relative
 * errors below 1e-6 of exp, absolute ones below 1e-6 of the other two.
 */
#ifndef MW_EXEC_DEVICE_CPU_VECTOR_MATH_H
#define MW_EXEC_DEVICE_CPU_VECTOR_MATH_H

#include "exec/device/cpu/native.h"

/* exp(x) = 2^n exp(r), r = x - n ln 2 in two parts (Cody and Waite), Taylor's terms up to r^6/6!:
 * |r| <= ln 2 / 2 leaves 1.2e-7. x is in [-87, 88]. */
MW_INLINE mw_native
mw_exp_within(mw_native x)
{
    mw_native shift = mw_native_splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    mw_native shifted = x * 1.44269504f + shift;
    mw_native n = shifted - shift;
    mw_native r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    mw_native p = r * (1.0f / 720) + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    mw_native_i32 exponent = ((mw_native_i32)shifted - (mw_native_i32)shift + 127) << 23;
    return p * (mw_native)exponent;
}

/* For x <= 88 or a NaN.  Below -87 it is 0. */
MW_INLINE mw_native
mw_exp(mw_native x)
{
    mw_native y = mw_exp_within(mw_native_max(x, mw_native_splat(-87.0f)));
    y = mw_native_unless(x < -87.0f, y);
    return mw_native_select(x != x, x, y);
}

/* Below -87 and for a NaN it is exp(-87), which is negligible beside 1; above 88 it is exp(88). */
MW_INLINE mw_native
mw_exp_beside_one(mw_native x)
{
    return mw_exp_within(
        mw_native_min(mw_native_max(x, mw_native_splat(-87.0f)), mw_native_splat(88.0f)));
}

/* 1 - 2 / (exp(2x) + 1); some number for a NaN. */
MW_INLINE mw_native
mw_tanh(mw_native x)
{
    return 1.0f - 2.0f / (mw_exp_beside_one(2.0f * x) + 1.0f);
}

/* Some number for a NaN. */
MW_INLINE mw_native
mw_sigmoid(mw_native x)
{
    return 1.0f / (mw_exp_beside_one(-x) + 1.0f);
}

/* Abramowitz and Stegun 7.1.26: |error| <= 1.5e-7.  exp(-80) is negligible beside 1, yet so large
 * that no product with it is subnormal, which is slow on some processors. */
MW_INLINE mw_native
mw_erf(mw_native x)
{
    mw_native_i32 sign = (mw_native_i32)x & INT32_MIN;
    mw_native magnitude = (mw_native)((mw_native_i32)x ^ sign);
    mw_native t = 1.0f / (magnitude * 0.3275911f + 1.0f);
    mw_native p = t * 1.061405429f - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    mw_native power = mw_native_max(-(magnitude * magnitude), mw_native_splat(-80.0f));
    mw_native y = 1.0f - p * t * mw_exp_within(power);
    return (mw_native)((mw_native_i32)y ^ sign);
}

#endif
