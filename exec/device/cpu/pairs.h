/*
 * pairs.h - sixteen halves as lanes, in the order that is quickest to load.
 *
 * A pass that reads and writes nothing but halves may keep lanes in another order than elements:
 * with bf16 in AVX2 the even ones are in part 0 and the odd ones in part 1, each one shift or mask
 * away.  Such lanes work with these functions only; elsewhere lanes are in the order of elements.
 *
 * What is stored came from halves or from arithmetic on them, so the lower 16 bits of a NaN are
 * zero, whether the processor made the NaN or passed it on: rounded like a number, it stays the NaN
 * that it is.
 */
#ifndef MW_EXEC_DEVICE_CPU_PAIRS_H
#define MW_EXEC_DEVICE_CPU_PAIRS_H

#include "exec/device/cpu/lanes.h"

#if MW_WIDTH == 8 && !defined(MW_HALF_FP16) && !defined(MW_ELEMENT_FP32)

MW_INLINE struct mw_lanes
mw_lanes_load_pairs(const mw_element *x)
{
    __m256i pairs = _mm256_loadu_si256((const __m256i_u *)(const void *)x);
    return (struct mw_lanes){
        {(mw_native)_mm256_slli_epi32(pairs, 16),
         (mw_native)_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000))}};
}

/* Rounds all sixteen to nearest even at once: the upper 16 bits go up where the lower ones are more
 * than 0x8000, or are 0x8000 beside odd upper ones.  After subtracting 1 beside even ones, the
 * highest of the lower bits says which. */
MW_INLINE __m256i
mw_lanes_narrow_pairs(struct mw_lanes v)
{
    __m256i even = (__m256i)v.part[0], odd = (__m256i)v.part[1];
    __m256i upper = _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa);
    __m256i lower = _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xaa);
    __m256i tie_goes_down = _mm256_andnot_si256(upper, _mm256_set1_epi16(1));
    lower = _mm256_subs_epu16(lower, tie_goes_down);
    return _mm256_add_epi16(upper, _mm256_srli_epi16(lower, 15));
}

MW_INLINE void
mw_lanes_store_pairs(mw_element *x, struct mw_lanes v)
{
    _mm256_storeu_si256((__m256i_u *)(void *)x, mw_lanes_narrow_pairs(v));
}

MW_INLINE void
mw_lanes_stream_pairs(mw_element *x, struct mw_lanes v)
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
mw_lanes_load_pairs(const mw_element *x)
{
    return mw_lanes_load_half(x);
}

#if defined(MW_HALF_FP16) || defined(MW_ELEMENT_FP32)

MW_INLINE void
mw_lanes_store_pairs(mw_element *x, struct mw_lanes v)
{
    mw_lanes_store_half(x, v);
}

MW_INLINE void
mw_lanes_stream_pairs(mw_element *x, struct mw_lanes v)
{
    mw_lanes_stream_half(x, v);
}

#else

MW_INLINE void
mw_lanes_store_pairs(mw_element *x, struct mw_lanes v)
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
mw_lanes_stream_pairs(mw_element *x, struct mw_lanes v)
{
#if MW_WIDTH == 16
    mw_native_u32 rounded = mw_native_round_number(v.part[0]) >> 16;
    _mm256_stream_si256((__m256i *)(void *)x,
                        (__m256i) __builtin_convertvector(rounded, mw_native_u16));
#else
    mw_element lane[MW_LANES] __attribute__((aligned(32)));
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
mw_lanes_load_pairs_some(const mw_element *x, int64_t n)
{
    mw_element lane[MW_LANES] = {0};
    memcpy(lane, x, (size_t)n * sizeof *x);
    return mw_lanes_load_pairs(lane);
}

MW_INLINE void
mw_lanes_store_pairs_some(mw_element *x, struct mw_lanes v, int64_t n)
{
    mw_element lane[MW_LANES];
    mw_lanes_store_pairs(lane, v);
    memcpy(x, lane, (size_t)n * sizeof *x);
}

/* Sixteen (n is then a constant), or the last n of a row. */
MW_INLINE struct mw_lanes
mw_lanes_get_pairs(const mw_element *x, int64_t n)
{
    return n == MW_LANES ? mw_lanes_load_pairs(x) : mw_lanes_load_pairs_some(x, n);
}

/* The same; sixteen go past the caches where `streams` is set, see mw_lanes_stream_half. */
MW_INLINE void
mw_lanes_put_pairs(mw_element *x, struct mw_lanes v, int64_t n, bool streams)
{
    if (n < MW_LANES)
        mw_lanes_store_pairs_some(x, v, n);
    else if (streams)
        mw_lanes_stream_pairs(x, v);
    else
        mw_lanes_store_pairs(x, v);
}

#endif
