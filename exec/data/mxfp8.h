/*
 * mxfp8.h - a block of mxfp8: a byte e8m0, then 32 bytes e4m3; an element is 2^(byte - 127) times
 * its e4m3.  One source for weights and activations, and for all devices: the same bits everywhere.
 *
 * Format: OCP Microscaling Formats (MX) v1.0, Sec. 5.2 to 5.4; e4m3 has no infinity, its largest
 * number is 448, and 0x7f is no number.
 *
 * Scale: the smallest at which no element is beyond 448, as NVIDIA's recipe for training in MXFP8
 * rounds it (arXiv 2506.08027): the conversion of OCP's Sec. 6.3 rounds it down, and cuts off up to
 * an eighth of the largest element.  It is at least 2^-126, so that it and its inverse are normal
 * numbers of fp32; an element that rounds to 2^128 is infinite when widened, as in bf16.  An
 * element that is no finite number makes its whole block NaN, by the scale 0xff and codes of 0:
 * which NaN a product of NaN is differs between devices.
 *
 * Layout: a block has its scale with it, so that tiles, chunks and ranks' parts, which are whole
 * blocks, are cut and moved by offsets alone; scales behind all elements would be a second array
 * that every cut had to find.  The last block of a vector is filled up with zeros.
 */
#ifndef MW_EXEC_DATA_MXFP8_H
#define MW_EXEC_DATA_MXFP8_H

#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define MW_MXFP8_FUNCTION static __host__ __device__ __forceinline__
#else
#define MW_MXFP8_FUNCTION static inline __attribute__((always_inline, unused))
#endif

#define MW_MXFP8_ELEMENTS 32
#define MW_MXFP8_BYTES 33
#define MW_MXFP8_SCALE_NAN 0xff
#define MW_E4M3_LARGEST 448.0f

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

/* --- e4m3 and e8m0 --------------------------------------------------------------------------- */

/* Rounds to nearest even; |x| is at most 448.  Below 2^-6 a sum with 2^14 leaves multiples of 2^-9
 * in its last bits. */
MW_MXFP8_FUNCTION uint8_t
mw_e4m3_of_fp32(float x)
{
    uint32_t bits = mw_mxfp8_bits(x), size = bits & 0x7fffffff;
    uint32_t small = mw_mxfp8_bits(mw_mxfp8_float(size) + 0x1p14f) - 0x46800000;
    uint32_t normal = ((size + 0x7ffff + (size >> 20 & 1)) >> 20) - (120 << 3);

    return (uint8_t)((bits >> 24 & 0x80) | (size < 0x3c800000 ? small : normal));
}

/* Subnormals are the rest of normal numbers: fp32's own would be slow. */
MW_MXFP8_FUNCTION float
mw_fp32_of_e4m3(uint8_t code)
{
    uint32_t size = code & 0x7f, sign = (uint32_t)(code & 0x80) << 24;
    float normal = mw_mxfp8_float((size << 20) + (120u << 23));
    float small = mw_mxfp8_float((size << 20) + (121u << 23)) - 0x1p-6f;
    float value = size < 8 ? small : normal;

    return mw_mxfp8_float(sign | mw_mxfp8_bits(size == 0x7f ? mw_mxfp8_float(0x7fc00000) : value));
}

/* 2^(byte - 127); 255 is NaN (Sec. 5.4.1). */
MW_MXFP8_FUNCTION float
mw_fp32_of_e8m0(uint8_t byte)
{
    return mw_mxfp8_float(byte == 0      ? 0x00400000u
                          : byte == 0xff ? 0x7fc00000u
                                         : (uint32_t)byte << 23);
}

/* --- blocks ---------------------------------------------------------------------------------- */

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

/* Of an element times the inverse. */
MW_MXFP8_FUNCTION uint8_t
mw_mxfp8_code(float product, uint8_t scale)
{
    return scale == MW_MXFP8_SCALE_NAN ? 0 : mw_e4m3_of_fp32(product);
}

/* The bits of the largest absolute value; any NaN is above infinity. */
MW_MXFP8_FUNCTION uint32_t
mw_mxfp8_largest(const float x[MW_MXFP8_ELEMENTS])
{
    uint32_t largest = 0;

    for (int i = 0; i < MW_MXFP8_ELEMENTS; i++) {
        uint32_t size = mw_mxfp8_bits(x[i]) & 0x7fffffff;
        largest = size > largest ? size : largest;
    }
    return largest;
}

MW_MXFP8_FUNCTION void
mw_mxfp8_encode(uint8_t block[MW_MXFP8_BYTES], const float x[MW_MXFP8_ELEMENTS], uint8_t scale)
{
    float inverse = mw_mxfp8_inverse(scale);

    block[0] = scale;
    for (int i = 0; i < MW_MXFP8_ELEMENTS; i++)
        block[1 + i] = mw_mxfp8_code(x[i] * inverse, scale);
}

MW_MXFP8_FUNCTION void
mw_mxfp8_decode(float x[MW_MXFP8_ELEMENTS], const uint8_t block[MW_MXFP8_BYTES])
{
    float scale = mw_fp32_of_e8m0(block[0]);

    for (int i = 0; i < MW_MXFP8_ELEMENTS; i++)
        x[i] = mw_fp32_of_e4m3(block[1 + i]) * scale;
}

#endif
