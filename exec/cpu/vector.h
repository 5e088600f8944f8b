/*
 * vector.h - sixteen fp32 lanes, whatever the instruction set: the compiler splits them where
 * registers are narrower, so that every set takes the same IEEE operations in the same order.
 *
 * A half is an element of 16 bits: fp16 where a file is compiled with MW_HALF_FP16, else bf16.
 */
#ifndef MW_EXEC_CPU_VECTOR_H
#define MW_EXEC_CPU_VECTOR_H

#include <stdint.h>
#include <string.h>

#include "exec/convert.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define MW_LANES 16

/* Vectors are no typedefs of structs, but the language has no other name for them. */
typedef float mw_f32x16 __attribute__((vector_size(64)));
typedef int32_t mw_i32x16 __attribute__((vector_size(64)));
typedef uint32_t mw_u32x16 __attribute__((vector_size(64)));
typedef uint16_t mw_u16x16 __attribute__((vector_size(32)));

#define MW_INLINE static inline __attribute__((always_inline, unused))

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

#if defined(MW_HALF_FP16)

#if defined(__F16C__)

MW_INLINE mw_f32x16
mw_widen(mw_u16x16 half)
{
#if defined(__AVX512F__)
    return (mw_f32x16)_mm512_cvtph_ps((__m256i)half);
#else
    mw_f32x16 wide;
    __m128i part[2];
    memcpy(part, &half, sizeof half);
    __m256 lanes[2] = {_mm256_cvtph_ps(part[0]), _mm256_cvtph_ps(part[1])};
    memcpy(&wide, lanes, sizeof wide);
    return wide;
#endif
}

MW_INLINE mw_u16x16
mw_narrow(mw_f32x16 x)
{
#if defined(__AVX512F__)
    return (mw_u16x16)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
#else
    mw_u16x16 half;
    __m256 lanes[2];
    memcpy(lanes, &x, sizeof x);
    __m128i part[2] = {_mm256_cvtps_ph(lanes[0], _MM_FROUND_TO_NEAREST_INT),
                       _mm256_cvtps_ph(lanes[1], _MM_FROUND_TO_NEAREST_INT)};
    memcpy(&half, part, sizeof half);
    return half;
#endif
}

#else

/* exec/convert.h, lane by lane. */
MW_INLINE mw_f32x16
mw_widen(mw_u16x16 half)
{
    mw_f32x16 wide;
    for (int i = 0; i < MW_LANES; i++)
        wide[i] = mw_fp32_of_fp16(half[i]);
    return wide;
}

MW_INLINE mw_u16x16
mw_narrow(mw_f32x16 x)
{
    mw_u16x16 half;
    for (int i = 0; i < MW_LANES; i++)
        half[i] = mw_fp16_of_fp32(x[i]);
    return half;
}

#endif

#else

MW_INLINE mw_f32x16
mw_widen(mw_u16x16 half)
{
    return (mw_f32x16)(__builtin_convertvector(half, mw_u32x16) << 16);
}

/* Round to nearest even by integer arithmetic: subnormals too, which AVX512-BF16 flushes. */
MW_INLINE mw_u16x16
mw_narrow(mw_f32x16 x)
{
    mw_u32x16 bits = (mw_u32x16)x;
    mw_u32x16 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    mw_u32x16 quiet = (bits >> 16) | 0x40;
    mw_u32x16 nan = (mw_u32x16)(x != x);
    return __builtin_convertvector((nan & quiet) | (~nan & rounded), mw_u16x16);
}

#endif

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
