/*
 * convert.h - 16-bit floating point and fp32, one value at a time; round to nearest, ties to even.
 * A NaN stays a NaN (quiet), infinities and zeros keep their sign, fp32 beyond bf16 or fp16 rounds
 * to infinity.
 */
#ifndef MW_EXEC_DATA_CONVERT_H
#define MW_EXEC_DATA_CONVERT_H

#include <stdint.h>
#include <string.h>

#include "plan/dtype.h"

static inline uint32_t
mw_fp32_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float
mw_fp32_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float
mw_fp32_of_bf16(uint16_t value)
{
    return mw_fp32_of_bits((uint32_t)value << 16);
}

static inline uint16_t
mw_bf16_of_fp32(float value)
{
    uint32_t bits = mw_fp32_bits(value);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float
mw_fp32_of_fp16(uint16_t value)
{
    uint32_t sign = (uint32_t)(value & 0x8000) << 16, rest = value & 0x7fff;

    if (rest >= 0x7c00) /* infinity, NaN */
        return mw_fp32_of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13 |
                               (rest > 0x7c00 ? 0x400000 : 0));
    if (rest < 0x400) { /* zero and subnormals: units of 2^-24, exact in fp32 */
        float magnitude = (float)rest * 0x1p-24f;
        return mw_fp32_of_bits(sign | mw_fp32_bits(magnitude));
    }
    return mw_fp32_of_bits(sign | ((rest << 13) + (112u << 23)));
}

static inline uint16_t
mw_fp16_of_fp32(float value)
{
    uint32_t bits = mw_fp32_bits(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;

    if (rest > 0x7f800000) /* NaN */
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x47800000) /* 2^16 and above */
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) { /* subnormals: 1/2 has units of 2^-24, as they have */
        float shifted = mw_fp32_of_bits(rest) + 0.5f;
        return (uint16_t)(sign | (mw_fp32_bits(shifted) - mw_fp32_bits(0.5f)));
    }
    return (uint16_t)(sign | ((rest - (112u << 23) + 0xfff + (rest >> 13 & 1)) >> 13));
}

/* Of MW_DTYPE_BF16 or MW_DTYPE_FP16. */
static inline float
mw_fp32_of_half(uint16_t value, enum mw_dtype dtype)
{
    return dtype == MW_DTYPE_FP16 ? mw_fp32_of_fp16(value) : mw_fp32_of_bf16(value);
}

static inline uint16_t
mw_half_of_fp32(float value, enum mw_dtype dtype)
{
    return dtype == MW_DTYPE_FP16 ? mw_fp16_of_fp32(value) : mw_bf16_of_fp32(value);
}

/* Element i of a vector of a type that computes (plan/dtype.h). */
static inline float
mw_fp32_of_element(const void *vector, int64_t i, enum mw_dtype dtype)
{
    return dtype == MW_DTYPE_FP32 ? ((const float *)vector)[i]
                                  : mw_fp32_of_half(((const uint16_t *)vector)[i], dtype);
}

static inline void
mw_element_of_fp32(void *vector, int64_t i, float value, enum mw_dtype dtype)
{
    if (dtype == MW_DTYPE_FP32)
        ((float *)vector)[i] = value;
    else
        ((uint16_t *)vector)[i] = mw_half_of_fp32(value, dtype);
}

#endif
