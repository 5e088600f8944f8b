/* Elements in few bits, by blocks (exec/data/blocks.h): widened, a thread takes a group of a block;
 * and narrowed to mxfp8. */
#include "exec/data/blocks.h"
#include "exec/device/cuda/access.cuh"
#include "exec/device/cuda/half.h"

namespace
{

/* Chosen bit by bit, not looked up: threads of a warp would wait for each other at a table, which
 * compilers make of an array. */
MW_DEVICE float
value_of(unsigned n, float a, float b, float c, float d, float e, float f, float g, float h,
         float i, float j, float k, float l, float m, float o, float p, float q)
{
    float ab = n & 1 ? b : a, cd = n & 1 ? d : c, ef = n & 1 ? f : e, gh = n & 1 ? h : g;
    float ij = n & 1 ? j : i, kl = n & 1 ? l : k, mo = n & 1 ? o : m, pq = n & 1 ? q : p;
    float ad = n & 2 ? cd : ab, eh = n & 2 ? gh : ef, il = n & 2 ? kl : ij, mq = n & 2 ? pq : mo;
    float ah = n & 4 ? eh : ad, iq = n & 4 ? mq : il;

    return n & 8 ? iq : ah;
}

MW_DEVICE float
value_of_nf4(unsigned number)
{
    return value_of(number, MW_NF4_VALUES);
}

/* Blocks begin at any byte. */
__global__ void
widen_mxfp8(uint16_t *out, const uint8_t *blocks, int64_t n, bool wide)
{
    int64_t i = mw_first_element<MW_GROUP>();

    if (i >= n)
        return;
    const uint8_t *block = blocks + i / MW_MXFP8_ELEMENTS * MW_MXFP8_BYTES;
    const uint8_t *bytes = block + 1 + i % MW_MXFP8_ELEMENTS;
    float scale = mw_fp32_of_e8m0(block[0]), v[MW_GROUP];
    for (int k = 0; k < MW_GROUP; k++)
        v[k] = __fmul_rn(scale, mw_fp32_of_e4m3(bytes[k]));
    mw_store(out + i, v, n - i, wide);
}

MW_DEVICE uint32_t
largest_of_warp(uint32_t size)
{
    for (int distance = MW_MXFP8_ELEMENTS / 2; distance > 0; distance /= 2) {
        uint32_t other = __shfl_xor_sync(0xffffffffu, size, distance);
        size = other > size ? other : size;
    }
    return size;
}

/* A warp takes a block, each of its lanes an element. */
__global__ void
narrow_mxfp8(uint8_t *blocks, const uint16_t *x, int64_t n)
{
    int64_t i = mw_first_element<1>(), lane = i % MW_MXFP8_ELEMENTS, first = i - lane;
    float value = i < n ? mw_value(x[i]) : 0.0f;
    uint8_t scale = mw_mxfp8_scale(largest_of_warp(mw_mxfp8_bits(value) & 0x7fffffff));

    if (first >= n)
        return;
    uint8_t *block = blocks + first / MW_MXFP8_ELEMENTS * MW_MXFP8_BYTES;
    block[1 + lane] = mw_mxfp8_code(__fmul_rn(value, mw_mxfp8_inverse(scale)), scale);
    if (lane == 0)
        block[0] = scale;
}

MW_DEVICE float
value_of_bf16(unsigned low, unsigned high)
{
    return __uint_as_float(low << 16 | high << 24);
}

MW_DEVICE void
widen_pairs(uint16_t *out, const uint8_t *pairs, float scale, int64_t i, int64_t n, bool wide)
{
    unsigned element = i % MW_NF4_ELEMENTS, shift = element < MW_NF4_PAIRS_BYTES ? 0 : 4;
    float v[MW_GROUP];

    for (int k = 0; k < MW_GROUP; k++)
        v[k] =
            __fmul_rn(scale, value_of_nf4(pairs[element % MW_NF4_PAIRS_BYTES + k] >> shift & 15));
    mw_store(out + i, v, n - i, wide);
}

__global__ void
widen_nf4(uint16_t *out, const uint8_t *blocks, int64_t n, bool wide)
{
    int64_t i = mw_first_element<MW_GROUP>();

    if (i >= n)
        return;
    const uint8_t *block = blocks + i / MW_NF4_ELEMENTS * MW_NF4_BYTES;
    unsigned bits = block[0] | block[1] << 8 | block[2] << 16 | (unsigned)block[3] << 24;
    widen_pairs(out, block + MW_NF4_SCALE_BYTES, __uint_as_float(bits), i, n, wide);
}

/* The scale as mw_nf4_double_scale. */
__global__ void
widen_nf4_double(uint16_t *out, const uint8_t *blocks, int64_t n, bool wide)
{
    int64_t i = mw_first_element<MW_GROUP>();

    if (i >= n)
        return;
    const uint8_t *block = blocks + i / MW_NF4_DOUBLE_ELEMENTS * MW_NF4_DOUBLE_BYTES;
    unsigned number = i / MW_NF4_ELEMENTS % MW_NF4_DOUBLE_BLOCKS;
    float mean = value_of_bf16(block[0], block[1]), step = value_of_bf16(block[2], block[3]);
    float scale = __fadd_rn(mean, __fmul_rn(step, mw_fp32_of_e4m3(block[4 + number])));
    widen_pairs(out, block + MW_NF4_DOUBLE_SCALE_BYTES + number * MW_NF4_PAIRS_BYTES,
                scale > 0 ? scale : 0, i, n, wide);
}

} // namespace

int
MW_CUDA(widen_blocks)(void *stream, uint16_t *out, const void *blocks, int dtype, int64_t n)
{
    const uint8_t *bytes = (const uint8_t *)blocks;
    bool wide = mw_aligned(16, out);

    if (dtype == MW_DTYPE_MXFP8)
        MW_LAUNCH(widen_mxfp8, mw_blocks(n, MW_GROUP), MW_THREADS, 0, stream, out, bytes, n, wide);
    else if (dtype == MW_DTYPE_NF4)
        MW_LAUNCH(widen_nf4, mw_blocks(n, MW_GROUP), MW_THREADS, 0, stream, out, bytes, n, wide);
    else
        MW_LAUNCH(widen_nf4_double, mw_blocks(n, MW_GROUP), MW_THREADS, 0, stream, out, bytes, n,
                  wide);
    return cudaGetLastError();
}

int
MW_CUDA(narrow_mxfp8)(void *stream, void *blocks, const uint16_t *x, int64_t n)
{
    MW_LAUNCH(narrow_mxfp8, mw_blocks(n, 1), MW_THREADS, 0, stream, (uint8_t *)blocks, x, n);
    return cudaGetLastError();
}
