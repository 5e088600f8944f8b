/*
 * halves.h - a register of fp32 from stored elements, and back: fp16 where a file is compiled with
 * MW_HALF_FP16, fp32 with MW_ELEMENT_FP32, else bf16.
 */
#ifndef MW_EXEC_DEVICE_CPU_HALVES_H
#define MW_EXEC_DEVICE_CPU_HALVES_H

#include "exec/data/convert.h"
#include "exec/device/cpu/native.h"

#if defined(MW_ELEMENT_FP32)

MW_INLINE mw_native
mw_native_load_half(const mw_element *x)
{
    return mw_native_load(x);
}

#elif defined(MW_HALF_FP16)

MW_INLINE mw_native
mw_native_load_half(const mw_element *x)
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
mw_native_load_half(const mw_element *x)
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

/* Rounds to nearest even by integer arithmetic, into the upper 16 bits; the lower bits mean
 * nothing.  Subnormals are rounded too, which AVX512-BF16 flushes.  x is no NaN. */
MW_INLINE mw_native_u32
mw_native_round_number(mw_native x)
{
    mw_native_u32 bits = (mw_native_u32)x;
    return bits + (((bits >> 16) & 1) + 0x7fff);
}

/* The same for any x. */
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

/* sum + pair * x, pair being the product of two halves: with the bits of x as well, 24 in bf16,
 * which fp32 has, and 33 in fp16. */
MW_INLINE mw_native
mw_native_add_third(mw_native sum, mw_native pair, mw_native x)
{
#if defined(MW_HALF_FP16) || defined(MW_ELEMENT_FP32)
    return sum + pair * x;
#else
    return mw_native_add_exact(sum, pair, x);
#endif
}

#endif
