#include "exec/trainer/kept.h"

#include <glib.h>
#include <math.h>
#include <string.h>

#include "exec/data/convert.h"
#include "exec/device/cpu/kernels.h"

#define CODES 256
#define BLOCK MW_KEPT_BLOCK
#define BLOCK_BYTES (BLOCK + 4)

struct mw_kept_span
mw_kept_span(enum mw_dtype dtype, int64_t first, int64_t count)
{
    int64_t block = mw_dtype_row(dtype)->block_elements, skipped = first % block;
    int64_t at = mw_dtype_bytes(dtype, first - skipped);

    return (struct mw_kept_span){at, mw_dtype_bytes(dtype, skipped + count), skipped};
}

/* --- the values of 8 bits -------------------------------------------------------------------- */

/* Codes count from the value 0 upwards, and downwards from 255: memory of zeros holds zeros.
 *
 * A value's bits above SHIFT find its bucket, which at most one middle of two neighbours lies in.
 * What is smaller than the first bucket is nearest to 0. */
#define SHIFT 15
#define BUCKETS_FIRST ((127 - 24) << (23 - SHIFT)) /* 2^-24 */
#define BUCKETS ((24 << (23 - SHIFT)) + 1)         /* to 1 */

struct codes {
    float values[CODES];    /* by code */
    float middles[CODES];   /* a magnitude's code below it, and the next one's above */
    int least;              /* code of what is not 0: of a square never that of 0, as an
                                   * update divides by its root */
    uint8_t below[BUCKETS]; /* code of the least magnitude in a bucket */
    int largest;            /* the code of 1 */
};

static struct codes with_signs, of_squares;

/* Of each power of ten from 10^-6 to 1 as many values as the bits have room for, evenly spaced in
 * its upper nine tenths: twice as many as of the power before. */
static int
list_magnitudes(float *values, bool squares)
{
    int count = 0;

    values[count++] = 0;
    for (int power = 0; power < 7; power++) {
        int steps = (squares ? 2 : 1) << power;
        for (int i = 0; i < steps; i++)
            values[count++] =
                (float)((0.1 + 0.9 * (2 * i + 1) / (2.0 * steps)) * pow(10, power - 6));
    }
    values[count++] = 1;
    return count;
}

static void
fill(struct codes *codes, bool squares)
{
    int count = list_magnitudes(codes->values, squares), code = 0;

    codes->largest = count - 1;
    codes->least = squares;
    for (int i = 0; i + 1 < count; i++)
        codes->middles[i] = (codes->values[i] + codes->values[i + 1]) / 2;
    codes->middles[count - 1] = INFINITY;
    for (int i = 1; !squares && i < count - 1; i++)
        codes->values[CODES - i] = -codes->values[i];
    for (int i = 0; i < BUCKETS; i++) {
        float least = mw_fp32_of_bits((uint32_t)(BUCKETS_FIRST + i) << SHIFT);
        while (least > codes->middles[code])
            code++;
        codes->below[i] = (uint8_t)code;
    }
}

static const struct codes *
codes_of(enum mw_dtype dtype)
{
    static gsize filled;

    if (g_once_init_enter(&filled)) {
        fill(&with_signs, false);
        fill(&of_squares, true);
        g_once_init_leave(&filled, 1);
    }
    return dtype == MW_DTYPE_DYNAMIC8_SQUARES ? &of_squares : &with_signs;
}

/* The nearest value's code, the smaller of two; its magnitude is at most 1. */
static inline uint8_t
code_of(const struct codes *codes, float value)
{
    uint32_t bits = mw_fp32_bits(value), magnitude = bits & 0x7fffffff;
    int bucket = (int)(magnitude >> SHIFT) - BUCKETS_FIRST;
    int code = codes->below[CLAMP(bucket, 0, BUCKETS - 1)];

    code = bucket < 0 ? 0 : code + (mw_fp32_of_bits(magnitude) > codes->middles[code]);
    code = magnitude ? MAX(code, codes->least) : 0;
    /* -1 has no code. */
    return (uint8_t)(bits >> 31 ? -MIN(code, codes->largest - 1) : code);
}

/* The element of largest magnitude, the first of several; NaN if there is one. */
static float
scale_of(const float *values, int64_t count)
{
    uint32_t most = 0;
    int64_t i = 0;

    for (int64_t at = 0; at < count; at++)
        most = MAX(most, mw_fp32_bits(values[at]) & 0x7fffffff);
    while (i < count && (mw_fp32_bits(values[i]) & 0x7fffffff) != most)
        i++;
    return i < count ? values[i] : 0;
}

static void
narrow_block(const struct codes *codes, const float *values, int64_t count, uint8_t *block)
{
    float scale = scale_of(values, count), inverse = 1 / scale;

    if (isfinite(scale) && !isfinite(inverse)) /* too small to divide by */
        scale = 0;
    memset(block, 0, BLOCK);
    for (int64_t i = 0; isnormal(scale) && i < count; i++)
        block[i] = code_of(codes, values[i] * inverse);
    memcpy(block + BLOCK, &scale, sizeof scale);
}

static void
widen_block(const struct codes *codes, const uint8_t *block, int64_t first, int64_t count,
            float *out)
{
    float scale;

    memcpy(&scale, block + BLOCK, sizeof scale);
    for (int64_t i = 0; i < count; i++)
        out[i] = codes->values[block[first + i]] * scale;
}

/* --- arrays ---------------------------------------------------------------------------------- */

void
mw_kept_widen(enum mw_dtype dtype, const void *blocks, int64_t skipped, int64_t count, float *out)
{
    if (dtype == MW_DTYPE_FP32) {
        memcpy(out, (const float *)blocks + skipped, (size_t)count * sizeof *out);
        return;
    }
    if (dtype == MW_DTYPE_BF16) {
        mw_cpu_kernels(dtype)->widen(out, (const uint16_t *)blocks + skipped, count);
        return;
    }
    const struct codes *codes = codes_of(dtype);
#pragma omp parallel for schedule(static) if (count > 8 * BLOCK)
    for (int64_t b = 0; b < (skipped + count + BLOCK - 1) / BLOCK; b++) {
        int64_t begin = MAX(b * BLOCK, skipped), end = MIN((b + 1) * BLOCK, skipped + count);
        widen_block(codes, (const uint8_t *)blocks + b * BLOCK_BYTES, begin - b * BLOCK,
                    end - begin, out + begin - skipped);
    }
}

void
mw_kept_narrow(enum mw_dtype dtype, const float *values, int64_t count, void *blocks)
{
    if (dtype == MW_DTYPE_FP32) {
        memcpy(blocks, values, (size_t)count * sizeof *values);
        return;
    }
    if (dtype == MW_DTYPE_BF16) {
        mw_cpu_kernels(dtype)->narrow(blocks, values, count);
        return;
    }
    const struct codes *codes = codes_of(dtype);
#pragma omp parallel for schedule(static) if (count > 8 * BLOCK)
    for (int64_t b = 0; b < (count + BLOCK - 1) / BLOCK; b++)
        narrow_block(codes, values + b * BLOCK, MIN(BLOCK, count - b * BLOCK),
                     (uint8_t *)blocks + b * BLOCK_BYTES);
}

/* --- what is valid --------------------------------------------------------------------------- */

static bool
is_valid(bool squares, float value)
{
    return isfinite(value) && !(squares && value < 0);
}

/* Blocks with a scale begin anywhere in the bytes; a scale lies in them whole, since both ends are
 * multiples of its 4 bytes. */
static int64_t
first_invalid_scale(bool squares, const uint8_t *bytes, int64_t at, int64_t count_bytes,
                    float *value)
{
    for (int64_t b = at / BLOCK_BYTES; b * BLOCK_BYTES + BLOCK < at + count_bytes; b++) {
        int64_t scale_at = b * BLOCK_BYTES + BLOCK - at;
        if (scale_at < 0)
            continue;
        memcpy(value, bytes + scale_at, sizeof *value);
        if (!is_valid(squares, *value))
            return b * BLOCK;
    }
    return -1;
}

int64_t
mw_kept_first_invalid(enum mw_dtype dtype, bool squares, const void *bytes, int64_t at,
                      int64_t count_bytes, float *value)
{
    int64_t each = mw_dtype_element_bytes(dtype);

    if (!each)
        return first_invalid_scale(squares, bytes, at, count_bytes, value);
    for (int64_t i = 0; i < count_bytes / each; i++) {
        *value =
            each == 4 ? ((const float *)bytes)[i] : mw_fp32_of_bf16(((const uint16_t *)bytes)[i]);
        if (!is_valid(squares, *value))
            return at / each + i;
    }
    return -1;
}
