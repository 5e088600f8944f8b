/* Elements in 8 bits, by blocks (exec/operators/mxfp8.h), and back.  A warp takes a block, each of
 * its lanes an element. */
#include "exec/device/cuda/access.cuh"
#include "exec/device/cuda/half.h"

#define MW_MXFP8_FUNCTION MW_DEVICE
#include "exec/operators/mxfp8.h"

namespace
{

MW_DEVICE int64_t
element_of_thread(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

MW_DEVICE uint32_t
largest_of_block(uint32_t size)
{
    for (int distance = MW_MXFP8_BLOCK / 2; distance > 0; distance /= 2) {
        uint32_t other = __shfl_xor_sync(0xffffffffu, size, distance);
        size = other > size ? other : size;
    }
    return size;
}

__global__ void
encode(uint8_t *coded, const uint16_t *x, int64_t n, int64_t blocks)
{
    int64_t i = element_of_thread(), block = i / MW_MXFP8_BLOCK;
    float value = i < n ? mw_value(x[i]) : 0.0f;
    uint8_t scale = mw_mxfp8_scale(largest_of_block(mw_mxfp8_bits(value) & 0x7fffffff));

    if (block >= blocks)
        return;
    coded[i] = mw_mxfp8_narrow(__fmul_rn(value, mw_mxfp8_inverse(scale)));
    if (i % MW_MXFP8_BLOCK == 0)
        coded[blocks * MW_MXFP8_BLOCK + block] = scale;
}

__global__ void
decode(uint16_t *x, const uint8_t *coded, int64_t n, int64_t blocks)
{
    int64_t i = element_of_thread();

    if (i >= n)
        return;
    float by = mw_mxfp8_scale_value(coded[blocks * MW_MXFP8_BLOCK + i / MW_MXFP8_BLOCK]);
    mw_put(&x[i], __fmul_rn(mw_mxfp8_widen(coded[i]), by));
}

} // namespace

int
MW_CUDA(mxfp8_encode)(void *stream, uint8_t *coded, const uint16_t *x, int64_t n)
{
    int64_t blocks = (n + MW_MXFP8_BLOCK - 1) / MW_MXFP8_BLOCK;

    MW_LAUNCH(encode, mw_blocks(n, 1), MW_THREADS, 0, stream, coded, x, n, blocks);
    return cudaGetLastError();
}

int
MW_CUDA(mxfp8_decode)(void *stream, uint16_t *x, const uint8_t *coded, int64_t n)
{
    int64_t blocks = (n + MW_MXFP8_BLOCK - 1) / MW_MXFP8_BLOCK;

    MW_LAUNCH(decode, mw_blocks(n, 1), MW_THREADS, 0, stream, x, coded, n, blocks);
    return cudaGetLastError();
}
