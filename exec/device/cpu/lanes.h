/*
 * lanes.h - sixteen elements, which passes over memory take at a time, in as many registers as that
 * needs: so sums have sixteen lanes and one order everywhere.
 */
#ifndef MW_EXEC_DEVICE_CPU_LANES_H
#define MW_EXEC_DEVICE_CPU_LANES_H

#include <stdbool.h>

#include "exec/device/cpu/halves.h"

#define MW_LANES 16
#define MW_PARTS (MW_LANES / MW_WIDTH)

struct mw_lanes {
    mw_native part[MW_PARTS];
};

/* The parts of struct mw_lanes; the compilers unroll it. */
#define MW_EACH_PART(p) for (int p = 0; p < MW_PARTS; p++)

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
mw_lanes_load_half(const mw_element *x)
{
    struct mw_lanes v;
    MW_EACH_PART (p)
        v.part[p] = mw_native_load_half(x + p * MW_WIDTH);
    return v;
}

#if MW_WIDTH == 8

/* Whether any of sixteen lanes is a NaN.  One comparison covers two registers. */
MW_INLINE bool
mw_lanes_any_nan(struct mw_lanes v)
{
    __m256 odd = _mm256_cmp_ps((__m256)v.part[0], (__m256)v.part[1], _CMP_UNORD_Q);
    return _mm256_movemask_ps(odd) != 0;
}

#if !defined(MW_ELEMENT_FP32)

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

#endif

MW_INLINE void
mw_lanes_store_half(mw_element *x, struct mw_lanes v)
{
#if defined(MW_ELEMENT_FP32)
    mw_lanes_store(x, v);
#elif MW_WIDTH == 8
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

#if !defined(MW_ELEMENT_FP32)

/* Copies sixteen halves from one aligned place to another, past the caches where possible. */
MW_INLINE void
mw_halves_stream(mw_element *to, const mw_element *from)
{
#if defined(__SSE2__)
    const __m128i *part = (const __m128i *)(const void *)from;
    _mm_stream_si128((__m128i *)(void *)to, part[0]);
    _mm_stream_si128((__m128i *)(void *)to + 1, part[1]);
#else
    memcpy(to, from, MW_LANES * sizeof *to);
#endif
}

#endif

/* Past the caches where the instruction set allows it, so that lines need not be read first: x is
 * aligned to 32 bytes, and the next sixteen follow at once.  Call mw_lanes_stream_end before others
 * read it. */
MW_INLINE void
mw_lanes_stream_half(mw_element *x, struct mw_lanes v)
{
#if defined(MW_ELEMENT_FP32) /* may be aligned to less than its 64 bytes */
    mw_lanes_store(x, v);
#elif MW_WIDTH == 16
    _mm256_stream_si256((__m256i *)(void *)x, (__m256i)mw_native_narrow(v.part[0]));
#elif MW_WIDTH == 8
    _mm256_stream_si256((__m256i *)(void *)x, mw_lanes_narrow(v));
#else
    mw_element lane[MW_LANES] __attribute__((aligned(32)));
    mw_lanes_store_half(lane, v);
    mw_halves_stream(x, lane);
#endif
}

/* The same for fp32: x is aligned to 64 bytes. */
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
mw_lanes_load_half_some(const mw_element *x, int64_t n)
{
    mw_element lane[MW_LANES] = {0};
    memcpy(lane, x, (size_t)n * sizeof *x);
    return mw_lanes_load_half(lane);
}

MW_INLINE void
mw_lanes_store_half_some(mw_element *x, struct mw_lanes v, int64_t n)
{
    mw_element lane[MW_LANES];
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

MW_INLINE struct mw_lanes
mw_lanes_scale(struct mw_lanes v, float factor)
{
    MW_EACH_PART (p)
        v.part[p] *= mw_native_splat(factor);
    return v;
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

#endif
