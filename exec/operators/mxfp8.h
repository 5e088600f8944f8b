/*
 * mxfp8.h - a block of mxfp8: 32 elements of 8 bits (e4m3) and the power of two (e8m0) by which
 * they are multiplied.  One source for all devices: the same bits everywhere.
 *
 * Source of the format: OCP Microscaling Formats (MX) v1.0, Sec. 5.2 to 5.4; e4m3 has no infinity,
 * its largest number is 448, and 0x7f is no number.  The scale is the smallest at which no element
 * is beyond 448, as NVIDIA's recipe for training in MXFP8 rounds it (arXiv 2506.08027): the
 * conversion of OCP's Sec. 6.3 rounds it down, and cuts off up to an eighth of the largest element.
 * An element that is no finite number makes its whole block NaN, by the scale 0xff.  A scale is at
 * least 2^-126, so that it and its inverse are normal numbers of fp32.
 *
 * Of n elements there are whole blocks, the last filled up with zeros: first the elements of all
 * blocks, then their scales.
 */
#ifndef MW_EXEC_OPERATORS_MXFP8_H
#define MW_EXEC_OPERATORS_MXFP8_H

#include <stdint.h>
#include <string.h>

/* Compilers for GPUs have words of their own for it. */
#ifndef MW_MXFP8_FUNCTION
#define MW_MXFP8_FUNCTION static inline __attribute__((always_inline, unused))
#endif

#define MW_MXFP8_BLOCK 32
#define MW_MXFP8_SCALE_NAN 0xff

MW_MXFP8_FUNCTION int64_t
mw_mxfp8_blocks(int64_t n)
{
    return (n + MW_MXFP8_BLOCK - 1) / MW_MXFP8_BLOCK;
}

MW_MXFP8_FUNCTION uint32_t
mw_mxfp8_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

MW_MXFP8_FUNCTION float
mw_mxfp8_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The scale of a block whose largest absolute value has these bits. */
MW_MXFP8_FUNCTION uint8_t
mw_mxfp8_scale(uint32_t largest)
{
    const uint32_t of_448 = 0x600000; /* the mantissa of 1.75 */
    int32_t exponent = (int32_t)(largest >> 23) - 8 + ((largest & 0x7fffff) > of_448);

    if (largest >= 0x7f800000)
        return MW_MXFP8_SCALE_NAN;
    return (uint8_t)(exponent < 1 ? 1 : exponent);
}

/* 2^(127 - scale), by which elements are multiplied before they are rounded. */
MW_MXFP8_FUNCTION float
mw_mxfp8_inverse(uint8_t scale)
{
    return scale == MW_MXFP8_SCALE_NAN ? 0 : mw_mxfp8_float((254u - scale) << 23);
}

MW_MXFP8_FUNCTION float
mw_mxfp8_scale_value(uint8_t scale)
{
    if (scale == MW_MXFP8_SCALE_NAN)
        return mw_mxfp8_float(0x7fc00000);
    return scale ? mw_mxfp8_float((uint32_t)scale << 23) : 0x1p-127f;
}

/* Rounds to nearest even; |x| is at most 448.  Below 2^-6 a sum with 2^14 leaves multiples of 2^-9
 * in its last bits. */
MW_MXFP8_FUNCTION uint8_t
mw_mxfp8_narrow(float x)
{
    uint32_t bits = mw_mxfp8_bits(x), size = bits & 0x7fffffff;
    uint32_t small = mw_mxfp8_bits(mw_mxfp8_float(size) + 0x1p14f) - 0x46800000;
    uint32_t normal = ((size + 0x7ffff + (size >> 20 & 1)) >> 20) - (120 << 3);

    return (uint8_t)((bits >> 24 & 0x80) | (size < 0x3c800000 ? small : normal));
}

MW_MXFP8_FUNCTION float
mw_mxfp8_widen(uint8_t code)
{
    uint32_t size = code & 0x7f, sign = (uint32_t)(code & 0x80) << 24;
    float normal = mw_mxfp8_float((size << 20) + (120u << 23));
    float small = mw_mxfp8_float((size << 20) + (121u << 23)) - 0x1p-6f;
    float value = size < 8 ? small : normal;

    return mw_mxfp8_float(sign | mw_mxfp8_bits(size == 0x7f ? mw_mxfp8_float(0x7fc00000) : value));
}

/* Stores a block; returns its scale. */
MW_MXFP8_FUNCTION uint8_t
mw_mxfp8_encode_block(uint8_t code[MW_MXFP8_BLOCK], const float x[MW_MXFP8_BLOCK])
{
    uint32_t largest = 0;

    for (int i = 0; i < MW_MXFP8_BLOCK; i++) {
        uint32_t size = mw_mxfp8_bits(x[i]) & 0x7fffffff;
        largest = size > largest ? size : largest;
    }
    uint8_t scale = mw_mxfp8_scale(largest);
    float inverse = mw_mxfp8_inverse(scale);
    for (int i = 0; i < MW_MXFP8_BLOCK; i++)
        code[i] = mw_mxfp8_narrow(x[i] * inverse);
    return scale;
}

MW_MXFP8_FUNCTION void
mw_mxfp8_decode_block(float x[MW_MXFP8_BLOCK], const uint8_t code[MW_MXFP8_BLOCK], uint8_t scale)
{
    float by = mw_mxfp8_scale_value(scale);

    for (int i = 0; i < MW_MXFP8_BLOCK; i++)
        x[i] = mw_mxfp8_widen(code[i]) * by;
}

#endif
