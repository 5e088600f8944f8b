/*
 * native.h - vectors of fp32 as wide as the registers of the instruction set: MW_WIDTH lanes.
 * Passes over memory take sixteen elements at a time, in as many of them as that needs (struct
 * mw_lanes), so that sums have sixteen lanes and one order everywhere.
 *
 * A half is an element of 16 bits: fp16 where a file is compiled with MW_HALF_FP16, else bf16.
 * Intrinsics stand where the compilers' way from vector types is longer; each does what the plain
 * form beside it does, bit for bit.
 */
#ifndef MW_EXEC_CPU_NATIVE_H
#define MW_EXEC_CPU_NATIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "exec/convert.h"

#if defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define MW_LANES 16
#if defined(__AVX512F__)
#define MW_WIDTH 16
#elif defined(__AVX2__)
#define MW_WIDTH 8
#else
#define MW_WIDTH 4
#endif
#define MW_PARTS (MW_LANES / MW_WIDTH)

/* Vectors are no typedefs of structs, but the language has no other name for them. */
typedef float mw_native __attribute__((vector_size(4 * MW_WIDTH)));
typedef int32_t mw_native_i32 __attribute__((vector_size(4 * MW_WIDTH)));
typedef uint32_t mw_native_u32 __attribute__((vector_size(4 * MW_WIDTH)));
typedef uint16_t mw_native_u16 __attribute__((vector_size(2 * MW_WIDTH)));

typedef float mw_native_half __attribute__((vector_size(2 * MW_WIDTH))); /* of the lanes */
typedef double mw_native_f64 __attribute__((vector_size(4 * MW_WIDTH)));

struct mw_lanes {
    mw_native part[MW_PARTS];
};

#define MW_INLINE static inline __attribute__((always_inline, unused))

/* The parts of struct mw_lanes; the compilers unroll it. */
#define MW_EACH_PART(p) for (int p = 0; p < MW_PARTS; p++)

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

MW_INLINE void
mw_native_store(float *x, mw_native v)
{
    memcpy(x, &v, sizeof v);
}

#if defined(MW_HALF_FP16)

MW_INLINE mw_native
mw_native_load_half(const uint16_t *x)
{
#if MW_WIDTH == 16
    return (mw_native)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)(const void *)x));
#elif MW_WIDTH == 8 && defined(__F16C__)
    return (mw_native)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(const void *)x));
#else
    mw_native v;
    for (int i = 0; i < MW_WIDTH; i++)
        v[i] = mw_fp32_of_fp16(x[i]);
    return v;
#endif
}

MW_INLINE mw_native_u16
mw_native_narrow(mw_native x)
{
#if MW_WIDTH == 16
    return (mw_native_u16)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
#elif MW_WIDTH == 8 && defined(__F16C__)
    return (mw_native_u16)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
#else
    mw_native_u16 half;
    for (int i = 0; i < MW_WIDTH; i++)
        half[i] = mw_fp16_of_fp32(x[i]);
    return half;
#endif
}

#else

MW_INLINE mw_native
mw_native_load_half(const uint16_t *x)
{
#if MW_WIDTH == 8
    __m128i half = _mm_loadu_si128((const __m128i_u *)(const void *)x);
    return (mw_native)_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
#elif MW_WIDTH == 4 && defined(__SSE2__)
    __m128i half = _mm_loadl_epi64((const __m128i_u *)(const void *)x);
    return (mw_native)_mm_unpacklo_epi16(_mm_setzero_si128(), half);
#else
    mw_native_u16 half;
    memcpy(&half, x, sizeof half);
    return (mw_native)(__builtin_convertvector(half, mw_native_u32) << 16);
#endif
}

/* In the upper 16 bits, what is below them being nothing: round to nearest even by integer
 * arithmetic: subnormals too, which AVX512-BF16 flushes.  x is no NaN. */
MW_INLINE mw_native_u32
mw_native_round_number(mw_native x)
{
    mw_native_u32 bits = (mw_native_u32)x;
    return bits + (((bits >> 16) & 1) + 0x7fff);
}

/* The same of any x. */
MW_INLINE mw_native_u32
mw_native_round(mw_native x)
{
    mw_native quiet = (mw_native)((mw_native_u32)x | 0x400000);
    return (mw_native_u32)mw_native_select(x != x, quiet, (mw_native)mw_native_round_number(x));
}

MW_INLINE mw_native_u16
mw_native_narrow(mw_native x)
{
    return __builtin_convertvector(mw_native_round(x) >> 16, mw_native_u16);
}

#endif

MW_INLINE struct mw_lanes
mw_lanes_load(const float *x)
{
    struct mw_lanes v;
    MW_EACH_PART (p)
        v.part[p] = mw_native_load(x + p * MW_WIDTH);
    return v;
}

MW_INLINE void
mw_lanes_store(float *x, struct mw_lanes v)
{
    MW_EACH_PART (p)
        mw_native_store(x + p * MW_WIDTH, v.part[p]);
}

MW_INLINE struct mw_lanes
mw_lanes_load_half(const uint16_t *x)
{
    struct mw_lanes v;
    MW_EACH_PART (p)
        v.part[p] = mw_native_load_half(x + p * MW_WIDTH);
    return v;
}

#if MW_WIDTH == 8

/* Is any of sixteen lanes a NaN? One comparison says it of two registers. */
MW_INLINE bool
mw_lanes_any_nan(struct mw_lanes v)
{
    __m256 odd = _mm256_cmp_ps((__m256)v.part[0], (__m256)v.part[1], _CMP_UNORD_Q);
    return _mm256_movemask_ps(odd) != 0;
}

/* Sixteen halves in a register. */
MW_INLINE __m256i
mw_lanes_narrow(struct mw_lanes v)
{
#if defined(MW_HALF_FP16)
    return _mm256_set_m128i((__m128i)mw_native_narrow(v.part[1]),
                            (__m128i)mw_native_narrow(v.part[0]));
#else
    __m256i low, high;
    if (__builtin_expect(mw_lanes_any_nan(v), 0)) {
        low = (__m256i)mw_native_round(v.part[0]);
        high = (__m256i)mw_native_round(v.part[1]);
    } else {
        low = (__m256i)mw_native_round_number(v.part[0]);
        high = (__m256i)mw_native_round_number(v.part[1]);
    }
    low = _mm256_srai_epi32(low, 16);
    high = _mm256_srai_epi32(high, 16);
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
#endif
}

#endif

MW_INLINE void
mw_lanes_store_half(uint16_t *x, struct mw_lanes v)
{
#if MW_WIDTH == 8
    _mm256_storeu_si256((__m256i_u *)(void *)x, mw_lanes_narrow(v));
#elif MW_WIDTH == 4 && defined(__SSE2__) && !defined(MW_HALF_FP16)
    for (int p = 0; p < MW_PARTS; p += 2) {
        __m128i low = _mm_srai_epi32((__m128i)mw_native_round(v.part[p]), 16);
        __m128i high = _mm_srai_epi32((__m128i)mw_native_round(v.part[p + 1]), 16);
        _mm_storeu_si128((__m128i_u *)(void *)(x + p * MW_WIDTH), _mm_packs_epi32(low, high));
    }
#else
    MW_EACH_PART (p) {
        mw_native_u16 half = mw_native_narrow(v.part[p]);
        memcpy(x + p * MW_WIDTH, &half, sizeof half);
    }
#endif
}

/* Sixteen halves from one aligned place to another, past the caches where that can be. */
MW_INLINE void
mw_halves_stream(uint16_t *to, const uint16_t *from)
{
#if defined(__SSE2__)
    const __m128i *part = (const __m128i *)(const void *)from;
    _mm_stream_si128((__m128i *)(void *)to, part[0]);
    _mm_stream_si128((__m128i *)(void *)to + 1, part[1]);
#else
    memcpy(to, from, MW_LANES * sizeof *to);
#endif
}

/* Past the caches where the instruction set can, so that lines need not be read first: x is aligned
 * to 32 bytes and its neighbour follows at once.  Before others read it: mw_lanes_stream_end. */
MW_INLINE void
mw_lanes_stream_half(uint16_t *x, struct mw_lanes v)
{
#if MW_WIDTH == 16
    _mm256_stream_si256((__m256i *)(void *)x, (__m256i)mw_native_narrow(v.part[0]));
#elif MW_WIDTH == 8
    _mm256_stream_si256((__m256i *)(void *)x, mw_lanes_narrow(v));
#else
    uint16_t lane[MW_LANES] __attribute__((aligned(32)));
    mw_lanes_store_half(lane, v);
    mw_halves_stream(x, lane);
#endif
}

/* The same of fp32: x is aligned to 64 bytes. */
MW_INLINE void
mw_lanes_stream(float *x, struct mw_lanes v)
{
    MW_EACH_PART (p) {
#if MW_WIDTH == 16
        _mm512_stream_ps(x + p * MW_WIDTH, (__m512)v.part[p]);
#elif MW_WIDTH == 8
        _mm256_stream_ps(x + p * MW_WIDTH, (__m256)v.part[p]);
#elif defined(__SSE2__)
        _mm_stream_ps(x + p * MW_WIDTH, (__m128)v.part[p]);
#else
        mw_native_store(x + p * MW_WIDTH, v.part[p]);
#endif
    }
}

MW_INLINE void
mw_lanes_stream_end(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

/* The first n < 16 elements, outside of hot loops: others are zero, or stay unwritten. */
MW_INLINE struct mw_lanes
mw_lanes_load_some(const float *x, int64_t n)
{
    float lane[MW_LANES] = {0};
    memcpy(lane, x, (size_t)n * sizeof *x);
    return mw_lanes_load(lane);
}

MW_INLINE void
mw_lanes_store_some(float *x, struct mw_lanes v, int64_t n)
{
    float lane[MW_LANES];
    mw_lanes_store(lane, v);
    memcpy(x, lane, (size_t)n * sizeof *x);
}

MW_INLINE struct mw_lanes
mw_lanes_load_half_some(const uint16_t *x, int64_t n)
{
    uint16_t lane[MW_LANES] = {0};
    memcpy(lane, x, (size_t)n * sizeof *x);
    return mw_lanes_load_half(lane);
}

MW_INLINE void
mw_lanes_store_half_some(uint16_t *x, struct mw_lanes v, int64_t n)
{
    uint16_t lane[MW_LANES];
    mw_lanes_store_half(lane, v);
    memcpy(x, lane, (size_t)n * sizeof *x);
}

MW_INLINE struct mw_lanes
mw_lanes_splat(float x)
{
    struct mw_lanes v;
    MW_EACH_PART (p)
        v.part[p] = mw_native_splat(x);
    return v;
}

/* The first n lanes, `rest` in the others. */
MW_INLINE struct mw_lanes
mw_lanes_first(struct mw_lanes v, int64_t n, float rest)
{
    float lane[MW_LANES];
    mw_lanes_store(lane, v);
    for (int64_t i = n; i < MW_LANES; i++)
        lane[i] = rest;
    return mw_lanes_load(lane);
}

MW_INLINE struct mw_lanes
mw_lanes_add(struct mw_lanes a, struct mw_lanes b)
{
    MW_EACH_PART (p)
        a.part[p] += b.part[p];
    return a;
}

/* Parts p and p + half of them, until one is left. */
MW_INLINE mw_native
mw_lanes_fold(struct mw_lanes v, mw_native f(mw_native, mw_native))
{
    for (int half = MW_PARTS / 2; half > 0; half /= 2)
        for (int p = 0; p < half; p++)
            v.part[p] = f(v.part[p], v.part[p + half]);
    return v.part[0];
}

MW_INLINE mw_native
mw_native_add(mw_native a, mw_native b)
{
    return a + b;
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

/* Lanes i and i + 8, then i and i + 4, i + 2, i + 1: one order for all. */
MW_INLINE float
mw_lanes_sum(struct mw_lanes v)
{
    return mw_native_sum(mw_lanes_fold(v, mw_native_add));
}

/* In the same order. */
MW_INLINE float
mw_lanes_max(struct mw_lanes v)
{
    return mw_native_max_lane(mw_lanes_fold(v, mw_native_max));
}

/*
 * Where all that a pass reads and writes are halves, lanes may be in another order than elements:
 * with bf16 in AVX2 the even ones are in part 0 and the odd ones in part 1, each a shift or a mask
 * away.  Such lanes go with these functions only; elsewhere they are in the order of elements.
 *
 * What is stored are halves or came of arithmetic on them, so a NaN has nothing in its lower 16
 * bits, be it the processor's own or one handed on: rounded as a number it stays the NaN that it
 * is.
 */
#if MW_WIDTH == 8 && !defined(MW_HALF_FP16)

MW_INLINE struct mw_lanes
mw_lanes_load_pairs(const uint16_t *x)
{
    __m256i pairs = _mm256_loadu_si256((const __m256i_u *)(const void *)x);
    return (struct mw_lanes){
        {(mw_native)_mm256_slli_epi32(pairs, 16),
         (mw_native)_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000))}};
}

MW_INLINE __m256i
mw_lanes_narrow_pairs(struct mw_lanes v)
{
    __m256i even = (__m256i)mw_native_round_number(v.part[0]);
    __m256i odd = (__m256i)mw_native_round_number(v.part[1]);
    return _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa);
}

MW_INLINE void
mw_lanes_store_pairs(uint16_t *x, struct mw_lanes v)
{
    _mm256_storeu_si256((__m256i_u *)(void *)x, mw_lanes_narrow_pairs(v));
}

MW_INLINE void
mw_lanes_stream_pairs(uint16_t *x, struct mw_lanes v)
{
    _mm256_stream_si256((__m256i *)(void *)x, mw_lanes_narrow_pairs(v));
}

MW_INLINE float
mw_lanes_sum_pairs(struct mw_lanes v)
{
    return mw_native_sum(v.part[0]) + mw_native_sum(v.part[1]);
}

/* In the order of elements. */
MW_INLINE struct mw_lanes
mw_lanes_of_pairs(struct mw_lanes v)
{
    __m256 low = _mm256_unpacklo_ps((__m256)v.part[0], (__m256)v.part[1]);
    __m256 high = _mm256_unpackhi_ps((__m256)v.part[0], (__m256)v.part[1]);
    return (struct mw_lanes){{(mw_native)_mm256_permute2f128_ps(low, high, 0x20),
                              (mw_native)_mm256_permute2f128_ps(low, high, 0x31)}};
}

MW_INLINE struct mw_lanes
mw_lanes_to_pairs(struct mw_lanes v)
{
    __m256 low = _mm256_permute2f128_ps((__m256)v.part[0], (__m256)v.part[1], 0x20);
    __m256 high = _mm256_permute2f128_ps((__m256)v.part[0], (__m256)v.part[1], 0x31);
    return (struct mw_lanes){{(mw_native)_mm256_shuffle_ps(low, high, 0x88),
                              (mw_native)_mm256_shuffle_ps(low, high, 0xdd)}};
}

#else

MW_INLINE struct mw_lanes
mw_lanes_load_pairs(const uint16_t *x)
{
    return mw_lanes_load_half(x);
}

#if defined(MW_HALF_FP16)

MW_INLINE void
mw_lanes_store_pairs(uint16_t *x, struct mw_lanes v)
{
    mw_lanes_store_half(x, v);
}

MW_INLINE void
mw_lanes_stream_pairs(uint16_t *x, struct mw_lanes v)
{
    mw_lanes_stream_half(x, v);
}

#else

MW_INLINE void
mw_lanes_store_pairs(uint16_t *x, struct mw_lanes v)
{
#if MW_WIDTH == 4 && defined(__SSE2__)
    for (int p = 0; p < MW_PARTS; p += 2) {
        __m128i low = _mm_srai_epi32((__m128i)mw_native_round_number(v.part[p]), 16);
        __m128i high = _mm_srai_epi32((__m128i)mw_native_round_number(v.part[p + 1]), 16);
        _mm_storeu_si128((__m128i_u *)(void *)(x + p * MW_WIDTH), _mm_packs_epi32(low, high));
    }
#else
    MW_EACH_PART (p) {
        mw_native_u32 rounded = mw_native_round_number(v.part[p]) >> 16;
        mw_native_u16 half = __builtin_convertvector(rounded, mw_native_u16);
        memcpy(x + p * MW_WIDTH, &half, sizeof half);
    }
#endif
}

MW_INLINE void
mw_lanes_stream_pairs(uint16_t *x, struct mw_lanes v)
{
#if MW_WIDTH == 16
    mw_native_u32 rounded = mw_native_round_number(v.part[0]) >> 16;
    _mm256_stream_si256((__m256i *)(void *)x,
                        (__m256i) __builtin_convertvector(rounded, mw_native_u16));
#else
    uint16_t lane[MW_LANES] __attribute__((aligned(32)));
    mw_lanes_store_pairs(lane, v);
    mw_halves_stream(x, lane);
#endif
}

#endif

MW_INLINE float
mw_lanes_sum_pairs(struct mw_lanes v)
{
    return mw_lanes_sum(v);
}

MW_INLINE struct mw_lanes
mw_lanes_of_pairs(struct mw_lanes v)
{
    return v;
}

MW_INLINE struct mw_lanes
mw_lanes_to_pairs(struct mw_lanes v)
{
    return v;
}

#endif

/* The first n < 16 elements, as mw_lanes_load_half_some has them. */
MW_INLINE struct mw_lanes
mw_lanes_load_pairs_some(const uint16_t *x, int64_t n)
{
    uint16_t lane[MW_LANES] = {0};
    memcpy(lane, x, (size_t)n * sizeof *x);
    return mw_lanes_load_pairs(lane);
}

MW_INLINE void
mw_lanes_store_pairs_some(uint16_t *x, struct mw_lanes v, int64_t n)
{
    uint16_t lane[MW_LANES];
    mw_lanes_store_pairs(lane, v);
    memcpy(x, lane, (size_t)n * sizeof *x);
}

/* Sixteen (n is a constant then), or the last n of a row. */
MW_INLINE struct mw_lanes
mw_lanes_get_pairs(const uint16_t *x, int64_t n)
{
    return n == MW_LANES ? mw_lanes_load_pairs(x) : mw_lanes_load_pairs_some(x, n);
}

/* The same; sixteen go past the caches where `streams` is set, see mw_lanes_stream_half. */
MW_INLINE void
mw_lanes_put_pairs(uint16_t *x, struct mw_lanes v, int64_t n, bool streams)
{
    if (n < MW_LANES)
        mw_lanes_store_pairs_some(x, v, n);
    else if (streams)
        mw_lanes_stream_pairs(x, v);
    else
        mw_lanes_store_pairs(x, v);
}

#endif
