/* Elements in 8 bits, by blocks (exec/operators/mxfp8.h), and back. */
#include "exec/device/cpu/isa.h"
#include "exec/device/cpu/lanes.h"
#include "exec/operators/mxfp8.h"

/* Blocks that one thread takes at a time. */
#define CHUNK 128

MW_INLINE int64_t
least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* `count` elements, and zeros behind them. */
MW_INLINE void
load(float x[MW_MXFP8_BLOCK], const mw_element *from, int64_t count)
{
    for (int64_t i = 0; i < MW_MXFP8_BLOCK; i += MW_LANES)
        mw_lanes_store(x + i, i + MW_LANES <= count ? mw_lanes_load_half(from + i)
                              : i < count           ? mw_lanes_load_half_some(from + i, count - i)
                                                    : mw_lanes_splat(0));
}

MW_INLINE void
store(mw_element *to, const float x[MW_MXFP8_BLOCK], int64_t count)
{
    for (int64_t i = 0; i < count; i += MW_LANES) {
        if (i + MW_LANES <= count)
            mw_lanes_store_half(to + i, mw_lanes_load(x + i));
        else
            mw_lanes_store_half_some(to + i, mw_lanes_load(x + i), count - i);
    }
}

void
MW_CPU(mxfp8_encode)(uint8_t *coded, const mw_element *x, int64_t n)
{
    int64_t blocks = mw_mxfp8_blocks(n);
    uint8_t *scales = coded + blocks * MW_MXFP8_BLOCK;

#pragma omp parallel for schedule(static)
    for (int64_t chunk = 0; chunk < blocks; chunk += CHUNK)
        for (int64_t b = chunk; b < least(chunk + CHUNK, blocks); b++) {
            float block[MW_MXFP8_BLOCK];
            load(block, x + b * MW_MXFP8_BLOCK, least(MW_MXFP8_BLOCK, n - b * MW_MXFP8_BLOCK));
            scales[b] = mw_mxfp8_encode_block(coded + b * MW_MXFP8_BLOCK, block);
        }
}

void
MW_CPU(mxfp8_decode)(mw_element *x, const uint8_t *coded, int64_t n)
{
    int64_t blocks = mw_mxfp8_blocks(n);
    const uint8_t *scales = coded + blocks * MW_MXFP8_BLOCK;

#pragma omp parallel for schedule(static)
    for (int64_t chunk = 0; chunk < blocks; chunk += CHUNK)
        for (int64_t b = chunk; b < least(chunk + CHUNK, blocks); b++) {
            float block[MW_MXFP8_BLOCK];
            mw_mxfp8_decode_block(block, coded + b * MW_MXFP8_BLOCK, scales[b]);
            store(x + b * MW_MXFP8_BLOCK, block, least(MW_MXFP8_BLOCK, n - b * MW_MXFP8_BLOCK));
        }
}
