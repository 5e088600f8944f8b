/*
 * native.h - vectors of fp32 as wide as the registers of the instruction set: MW_WIDTH lanes.
 *
 * Intrinsics stand where the compilers' way from vector types is longer; each does what the plain
 * form beside it does, bit for bit.  So in halves.h, lanes.h and pairs.h.
 */
#ifndef MW_EXEC_DEVICE_CPU_NATIVE_H
#define MW_EXEC_DEVICE_CPU_NATIVE_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define MW_WIDTH 16
#elif defined(__AVX2__)
#define MW_WIDTH 8
#else
#define MW_WIDTH 4
#endif

/* What is stored: halves, or fp32 where a file is compiled with MW_ELEMENT_FP32. */
#if defined(MW_ELEMENT_FP32)
typedef float mw_element;
#else
typedef uint16_t mw_element;
#endif

/* Vectors are no typedefs of structs, but the language has no other name for them. */
typedef float mw_native __attribute__((vector_size(4 * MW_WIDTH)));
typedef int32_t mw_native_i32 __attribute__((vector_size(4 * MW_WIDTH)));
typedef uint32_t mw_native_u32 __attribute__((vector_size(4 * MW_WIDTH)));
#if MW_WIDTH == 4
typedef uint8_t mw_native_u8 __attribute__((vector_size(MW_WIDTH)));
#endif
typedef uint16_t mw_native_u16 __attribute__((vector_size(2 * MW_WIDTH)));

typedef float mw_native_half __attribute__((vector_size(2 * MW_WIDTH))); /* of the lanes */
typedef double mw_native_f64 __attribute__((vector_size(4 * MW_WIDTH)));
#ifndef MW_INLINE
#define MW_INLINE static inline __attribute__((always_inline, unused))
#endif
MW_INLINE mw_native
mw_native_splat(float x)
{
    return x - (mw_native){0};
}

/* mask ? yes : no, of masks that comparisons give */
MW_INLINE mw_native
mw_native_select(mw_native_i32 mask, mw_native yes, mw_native no)
{
#if MW_WIDTH == 8
    return (mw_native)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)mask);
#else
    return (mw_native)((mask & (mw_native_i32)yes) | (~mask & (mw_native_i32)no));
#endif
}

/* x where the mask is not set, else 0 */
MW_INLINE mw_native
mw_native_unless(mw_native_i32 mask, mw_native x)
{
    return (mw_native)(~mask & (mw_native_i32)x);
}

/* a > b ? a : b */
MW_INLINE mw_native
mw_native_max(mw_native a, mw_native b)
{
#if MW_WIDTH == 16
    return (mw_native)_mm512_max_ps((__m512)a, (__m512)b);
#elif MW_WIDTH == 8
    return (mw_native)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (mw_native)_mm_max_ps((__m128)a, (__m128)b);
#else
    return mw_native_select(a > b, a, b);
#endif
}

/* a < b ? a : b */
MW_INLINE mw_native
mw_native_min(mw_native a, mw_native b)
{
#if MW_WIDTH == 16
    return (mw_native)_mm512_min_ps((__m512)a, (__m512)b);
#elif MW_WIDTH == 8
    return (mw_native)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (mw_native)_mm_min_ps((__m128)a, (__m128)b);
#else
    return mw_native_select(a < b, a, b);
#endif
}

MW_INLINE mw_native
mw_native_sqrt(mw_native x)
{
#if MW_WIDTH == 16
    return (mw_native)_mm512_sqrt_ps((__m512)x);
#elif MW_WIDTH == 8
    return (mw_native)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
    return (mw_native)_mm_sqrt_ps((__m128)x);
#else
    for (int i = 0; i < MW_WIDTH; i++)
        x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}

/* The lower and the upper half of the lanes. */
MW_INLINE void
mw_native_widen(mw_native_f64 out[2], mw_native x)
{
#if MW_WIDTH == 16
    out[0] = (mw_native_f64)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x));
    out[1] = (mw_native_f64)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1));
#elif MW_WIDTH == 8
    out[0] = (mw_native_f64)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x));
    out[1] = (mw_native_f64)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1));
#elif defined(__SSE2__)
    out[0] = (mw_native_f64)_mm_cvtps_pd((__m128)x);
    out[1] = (mw_native_f64)_mm_cvtps_pd(_mm_movehl_ps((__m128)x, (__m128)x));
#else
    mw_native_half half[2];
    memcpy(half, &x, sizeof x);
    out[0] = __builtin_convertvector(half[0], mw_native_f64);
    out[1] = __builtin_convertvector(half[1], mw_native_f64);
#endif
}

MW_INLINE mw_native
mw_native_load(const float *x)
{
    mw_native v;
    memcpy(&v, x, sizeof v);
    return v;
}

/* As numbers.  The conversion of vectors takes GCC to each byte alone. */
MW_INLINE mw_native_u32
mw_native_load_bytes(const uint8_t *bytes)
{
#if MW_WIDTH == 16
    return (mw_native_u32)_mm512_cvtepu8_epi32(
        _mm_loadu_si128((const __m128i_u *)(const void *)bytes));
#elif MW_WIDTH == 8
    return (mw_native_u32)_mm256_cvtepu8_epi32(
        _mm_loadl_epi64((const __m128i_u *)(const void *)bytes));
#else
    mw_native_u8 some;
    memcpy(&some, bytes, sizeof some);
    return __builtin_convertvector(some, mw_native_u32);
#endif
}

/* The elements of a table. */
MW_INLINE mw_native
mw_native_gather(const float *table, mw_native_i32 at)
{
#if MW_WIDTH == 16
    return (mw_native)_mm512_i32gather_ps((__m512i)at, table, 4);
#elif MW_WIDTH == 8
    return (mw_native)_mm256_i32gather_ps(table, (__m256i)at, 4);
#else
    mw_native v;
    for (int i = 0; i < MW_WIDTH; i++)
        v[i] = table[at[i]];
    return v;
#endif
}

MW_INLINE mw_native_i32
mw_native_gather_i32(const int32_t *table, mw_native_i32 at)
{
#if MW_WIDTH == 16
    return (mw_native_i32)_mm512_i32gather_epi32((__m512i)at, table, 4);
#elif MW_WIDTH == 8
    return (mw_native_i32)_mm256_i32gather_epi32(table, (__m256i)at, 4);
#else
    mw_native_i32 v;
    for (int i = 0; i < MW_WIDTH; i++)
        v[i] = table[at[i]];
    return v;
#endif
}

MW_INLINE void
mw_native_store(float *x, mw_native v)
{
    memcpy(x, &v, sizeof v);
}

MW_INLINE mw_native
mw_native_add(mw_native a, mw_native b)
{
    return a + b;
}

/* sum + a * b where fp32 holds a * b exactly, as it does the product of two halves: one rounding
 * then, fused or not, and the same bits. Products too small or too large for fp32 are apart.  Of
 * two elements of fp32 it does not: there nothing is fused. */
MW_INLINE mw_native
mw_native_add_exact(mw_native sum, mw_native a, mw_native b)
{
#if defined(MW_ELEMENT_FP32)
    return sum + a * b;
#elif MW_WIDTH == 16
    return (mw_native)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum);
#elif MW_WIDTH == 8 && defined(__FMA__)
    return (mw_native)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
#else
    return sum + a * b;
#endif
}

/* Lanes i and i + half of them, until one is left. */
MW_INLINE float
mw_native_sum(mw_native v)
{
#if defined(__SSE2__)
#if MW_WIDTH == 16
    __m256 half =
        _mm256_add_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
#elif MW_WIDTH == 8
    __m256 half = (__m256)v;
#endif
#if MW_WIDTH >= 8
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#else
    __m128 x = (__m128)v;
#endif
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
#else
    float lane[MW_WIDTH];
    mw_native_store(lane, v);
    for (int half = MW_WIDTH / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
#endif
}

/* In the same order. */
MW_INLINE float
mw_native_max_lane(mw_native v)
{
    float lane[MW_WIDTH];
    mw_native_store(lane, v);
    for (int half = MW_WIDTH / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
    return lane[0];
}

#endif
