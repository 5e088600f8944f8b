/* Weights in few bits: rounding to them, and back. */
#include "exec/data/blocks.h"

#include <glib.h>
#include <math.h>
#include <string.h>

static const float nf4_values[16] = {MW_NF4_VALUES};

/* What they share, if anything, else the largest. */
static float
largest_of(const float *values, int64_t n, float shared)
{
    float largest = shared;

    for (int64_t i = 0; shared <= 0 && i < n; i++)
        largest = MAX(largest, fabsf(values[i]));
    return largest;
}

/* --- mxfp8 ----------------------------------------------------------------------------------- */

static void
encode_mxfp8(const float *values, int64_t n, float shared, uint8_t *out)
{
    float all[MW_MXFP8_ELEMENTS] = {0};

    memcpy(all, values, (size_t)n * sizeof *all);
    mw_mxfp8_encode(out, all,
                    mw_mxfp8_scale(shared > 0 ? mw_mxfp8_bits(shared) : mw_mxfp8_largest(all)));
}

static void
decode_mxfp8(const uint8_t *block, int64_t first, int64_t n, float *out)
{
    float all[MW_MXFP8_ELEMENTS];

    mw_mxfp8_decode(all, block);
    memcpy(out, all + first, (size_t)n * sizeof *all);
}

/* --- nf4 ------------------------------------------------------------------------------------- */

/* How many middles between neighbours lie below. */
static uint8_t
nearest_nf4(float value)
{
    uint8_t number = 0;

    for (int i = 0; i < 15; i++)
        number += value > (nf4_values[i] + nf4_values[i + 1]) / 2;
    return number;
}

static void
encode_pairs(const float *values, int64_t n, float scale, uint8_t *pairs)
{
    for (int64_t i = 0; i < n; i++) {
        uint8_t number = nearest_nf4(scale > 0 ? values[i] / scale : 0);
        pairs[i % MW_NF4_PAIRS_BYTES] |= (uint8_t)(i < MW_NF4_PAIRS_BYTES ? number : number << 4);
    }
}

static float
decode_pair(const uint8_t *pairs, int64_t element, float scale)
{
    uint8_t pair = pairs[element % MW_NF4_PAIRS_BYTES];

    return scale * nf4_values[element < MW_NF4_PAIRS_BYTES ? pair & 15 : pair >> 4];
}

static void
encode_nf4(const float *values, int64_t n, float shared, uint8_t *out)
{
    float largest = largest_of(values, n, shared);

    memcpy(out, &largest, sizeof largest);
    encode_pairs(values, n, largest, out + MW_NF4_SCALE_BYTES);
}

static void
decode_nf4(const uint8_t *block, int64_t first, int64_t n, float *out)
{
    float scale;

    memcpy(&scale, block, sizeof scale);
    for (int64_t i = 0; i < n; i++)
        out[i] = decode_pair(block + MW_NF4_SCALE_BYTES, first + i, scale);
}

/* --- nf4-double ------------------------------------------------------------------------------ */

static void
put_bf16(uint8_t *out, float value)
{
    uint16_t bits = mw_bf16_of_fp32(value);

    out[0] = (uint8_t)bits;
    out[1] = (uint8_t)(bits >> 8);
}

/* Rounds the scales of `count` blocks, which lie in `scales`. */
static void
encode_scales(const float *scales, int64_t count, uint8_t *out)
{
    double sum = 0, farthest = 0;

    for (int64_t b = 0; b < count; b++)
        sum += (double)scales[b];
    put_bf16(out, (float)(sum / (double)count));
    double mean = (double)mw_fp32_of_bf16((uint16_t)(out[0] | out[1] << 8));
    for (int64_t b = 0; b < count; b++)
        farthest = MAX(farthest, fabs((double)scales[b] - mean));
    put_bf16(out + 2, (float)(farthest / (double)MW_E4M3_LARGEST));
    double step = (double)mw_fp32_of_bf16((uint16_t)(out[2] | out[3] << 8));
    for (int64_t b = 0; b < count; b++) {
        float steps = step > 0 ? (float)(((double)scales[b] - mean) / step) : 0;
        out[4 + b] = mw_e4m3_of_fp32(CLAMP(steps, -MW_E4M3_LARGEST, MW_E4M3_LARGEST));
    }
}

static void
encode_nf4_double(const float *values, int64_t n, float shared, uint8_t *out)
{
    float scales[MW_NF4_DOUBLE_BLOCKS];
    int64_t count = (n + MW_NF4_ELEMENTS - 1) / MW_NF4_ELEMENTS;

    for (int64_t b = 0; b < count; b++)
        scales[b] = largest_of(values + b * MW_NF4_ELEMENTS,
                               MIN(MW_NF4_ELEMENTS, n - b * MW_NF4_ELEMENTS), shared);
    encode_scales(scales, count, out);
    for (int64_t b = 0; b < count; b++)
        encode_pairs(values + b * MW_NF4_ELEMENTS, MIN(MW_NF4_ELEMENTS, n - b * MW_NF4_ELEMENTS),
                     mw_nf4_double_scale(out, b),
                     out + MW_NF4_DOUBLE_SCALE_BYTES + b * MW_NF4_PAIRS_BYTES);
}

static void
decode_nf4_double(const uint8_t *block, int64_t first, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t b = (first + i) / MW_NF4_ELEMENTS;
        out[i] = decode_pair(block + MW_NF4_DOUBLE_SCALE_BYTES + b * MW_NF4_PAIRS_BYTES,
                             (first + i) % MW_NF4_ELEMENTS, mw_nf4_double_scale(block, b));
    }
}

/* --- all ------------------------------------------------------------------------------------- */

/* Of one block, `n` elements at most. */
static const struct {
    void (*encode)(const float *values, int64_t n, float shared, uint8_t *out);
    void (*decode)(const uint8_t *block, int64_t first, int64_t n, float *out);
} codes[MW_DTYPE_COUNT] = {
    [MW_DTYPE_MXFP8] = {encode_mxfp8, decode_mxfp8},
    [MW_DTYPE_NF4] = {encode_nf4, decode_nf4},
    [MW_DTYPE_NF4_DOUBLE] = {encode_nf4_double, decode_nf4_double},
};

bool
mw_blocks_hold(enum mw_dtype dtype)
{
    return codes[dtype].encode != NULL;
}

void
mw_blocks_encode(enum mw_dtype dtype, const float *values, int64_t n, float largest, void *out)
{
    int64_t elements = mw_dtype_row(dtype)->block_elements;
    int64_t bytes = mw_dtype_row(dtype)->block_bytes;

#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < n; at += elements) {
        uint8_t *block = (uint8_t *)out + at / elements * bytes;
        int64_t count = MIN(elements, n - at);
        memset(block, 0, (size_t)bytes);
        codes[dtype].encode(values + at, count, largest, block);
    }
}

void
mw_blocks_decode(enum mw_dtype dtype, const void *blocks, int64_t first, int64_t n, float *out)
{
    int64_t elements = mw_dtype_row(dtype)->block_elements;
    int64_t bytes = mw_dtype_row(dtype)->block_bytes;

    for (int64_t i = 0; i < n;) {
        int64_t at = (first + i) % elements, count = MIN(elements - at, n - i);
        codes[dtype].decode((const uint8_t *)blocks + (first + i) / elements * bytes, at, count,
                            out + i);
        i += count;
    }
}
