/*
 * blocks.h - weights in few bits: blocks of neighbours that share a scale (plan/dtype.h).
 *
 *   mxfp8  a byte e8m0, then 32 bytes e4m3: exec/data/mxfp8.h, as of activations.
 *   nf4    fp32, in the machine's order of bytes, then 32 bytes: byte j has element j in its lower
 *          four bits and element j + 32 in its upper ones, each a number of mw_nf4_values, to be
 *          multiplied by the fp32 (QLoRA, arXiv 2305.14314, Sec. 3 and Appendix E).
 *   nf4-double
 *          256 such blocks whose scales are 8 bits (Sec. 3, Double Quantization): a bf16 and then a
 *          bf16, 256 bytes e4m3, and 256 times 32 bytes as in nf4.  A block's scale is the first
 *          bf16, the mean of all, and its e4m3 times the second; never below 0.
 *
 * The last block of a vector may hold fewer elements than it has room for; what is behind them
 * means nothing.
 */
#ifndef MW_EXEC_DATA_BLOCKS_H
#define MW_EXEC_DATA_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/data/convert.h"
#include "exec/data/mxfp8.h"
#include "plan/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MW_NF4_ELEMENTS 64
#define MW_NF4_BYTES 36
#define MW_NF4_SCALE_BYTES 4
#define MW_NF4_PAIRS_BYTES 32
#define MW_NF4_DOUBLE_BLOCKS 256
#define MW_NF4_DOUBLE_ELEMENTS (MW_NF4_DOUBLE_BLOCKS * MW_NF4_ELEMENTS)
#define MW_NF4_DOUBLE_SCALE_BYTES (4 + MW_NF4_DOUBLE_BLOCKS)
#define MW_NF4_DOUBLE_BYTES (MW_NF4_DOUBLE_SCALE_BYTES + MW_NF4_DOUBLE_BLOCKS * MW_NF4_PAIRS_BYTES)

/* Appendix E of the paper: quantiles of the normal distribution, scaled to [-1, 1], with a zero. */
/* clang-format off */
#define MW_NF4_VALUES                                                                              \
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,                      \
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,                     \
    0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,        \
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f
/* clang-format on */

/* The scale of a block in one of nf4-double. */
static inline float
mw_nf4_double_scale(const uint8_t *block, int64_t number)
{
    float mean = mw_fp32_of_bf16((uint16_t)(block[0] | block[1] << 8));
    float step = mw_fp32_of_bf16((uint16_t)(block[2] | block[3] << 8));
    float more = step * mw_fp32_of_e4m3(block[4 + number]), scale = mean + more;

    return scale > 0 ? scale : 0;
}

/* Whether weights of the type are kept in such blocks; of others nothing here is to be called. */
bool mw_blocks_hold(enum mw_dtype dtype);

/* `n` finite values from the start of a block on.  The scale of a block is that of its largest
 * value, or of `largest` where that is above 0: it is no less than any of them.  `out` gets
 * mw_dtype_bytes(dtype, n), the unused rest of the last block zero.
 *   mxfp8  The scale is the least at which the largest is not beyond 448; elements are rounded to
 *          nearest, ties to even.
 *   nf4    The scale is the largest absolute value; elements become the nearest of the table.
 *   nf4-double
 *          So too, with what remains of such scales: they are rounded to their mean and, to the
 *          nearest e4m3, the distances from it, of which the farthest is 448. */
void mw_blocks_encode(enum mw_dtype dtype, const float *values, int64_t n, float largest,
                      void *out);

/* Elements [first, first + n) of what was encoded: the plain reference of the devices' kernels. */
void mw_blocks_decode(enum mw_dtype dtype, const void *blocks, int64_t first, int64_t n,
                      float *out);

#ifdef __cplusplus
}
#endif

#endif
