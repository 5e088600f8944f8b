/* Conversions, sums: each output element from its own inputs. */
#include "exec/device/cuda/access.cuh"
#include "exec/device/cuda/half.h"

/* Halves and fp32 side by side: 16 bytes of the latter. */
#define MIXED 4

namespace
{

template <typename To, typename From>
__global__ void
convert(To *out, const From *x, int64_t n, bool wide)
{
    int64_t i = mw_first_element<MIXED>();
    float v[MIXED];

    mw_load(v, x + i, n - i, wide);
    mw_store(out + i, v, n - i, wide);
}

__global__ void
accumulate(float *sum, const uint16_t *x, int64_t n, bool wide)
{
    int64_t i = mw_first_element<MIXED>();
    float before[MIXED], v[MIXED];

    mw_load(before, sum + i, n - i, wide);
    mw_load(v, x + i, n - i, wide);
    for (int k = 0; k < MIXED; k++)
        v[k] = __fadd_rn(before[k], v[k]);
    mw_store(sum + i, v, n - i, wide);
}

__global__ void
add(uint16_t *out, const uint16_t *a, const uint16_t *b, int64_t n, bool wide)
{
    int64_t i = mw_first_element<MW_GROUP>();
    float va[MW_GROUP], vb[MW_GROUP];

    mw_load(va, a + i, n - i, wide);
    mw_load(vb, b + i, n - i, wide);
    for (int k = 0; k < MW_GROUP; k++)
        va[k] = __fadd_rn(va[k], vb[k]);
    mw_store(out + i, va, n - i, wide);
}

__global__ void
scale(uint16_t *x, float factor, int64_t n, bool wide)
{
    int64_t i = mw_first_element<MW_GROUP>();
    float v[MW_GROUP];

    mw_load(v, x + i, n - i, wide);
    for (int k = 0; k < MW_GROUP; k++)
        v[k] = __fmul_rn(v[k], factor);
    mw_store(x + i, v, n - i, wide);
}

} // namespace

int
MW_CUDA(widen)(void *stream, float *out, const uint16_t *x, int64_t n)
{
    bool wide = mw_aligned(16, out) && mw_aligned(8, x);

    MW_LAUNCH((convert<float, uint16_t>), mw_blocks(n, MIXED), MW_THREADS, 0, stream, out, x, n,
              wide);
    return cudaGetLastError();
}

int
MW_CUDA(narrow)(void *stream, uint16_t *out, const float *x, int64_t n)
{
    bool wide = mw_aligned(16, x) && mw_aligned(8, out);

    MW_LAUNCH((convert<uint16_t, float>), mw_blocks(n, MIXED), MW_THREADS, 0, stream, out, x, n,
              wide);
    return cudaGetLastError();
}

int
MW_CUDA(accumulate)(void *stream, float *sum, const uint16_t *x, int64_t n)
{
    bool wide = mw_aligned(16, sum) && mw_aligned(8, x);

    MW_LAUNCH(accumulate, mw_blocks(n, MIXED), MW_THREADS, 0, stream, sum, x, n, wide);
    return cudaGetLastError();
}

int
MW_CUDA(add)(void *stream, uint16_t *out, const uint16_t *a, const uint16_t *b, int64_t n)
{
    MW_LAUNCH(add, mw_blocks(n, MW_GROUP), MW_THREADS, 0, stream, out, a, b, n,
              mw_aligned(16, out, a, b));
    return cudaGetLastError();
}

int
MW_CUDA(scale)(void *stream, uint16_t *x, float factor, int64_t n)
{
    MW_LAUNCH(scale, mw_blocks(n, MW_GROUP), MW_THREADS, 0, stream, x, factor, n,
              mw_aligned(16, x));
    return cudaGetLastError();
}
