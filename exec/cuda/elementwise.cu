/* Conversions, sums, copies: each output element from its own inputs. */
#include "exec/cuda/access.cuh"
#include "exec/cuda/kernels.h"

/* Elements of bf16 and fp32 side by side: 16 bytes of the latter. */
#define MIXED 4
#define FILL_BYTES 16

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

/* Bytes of [from, to) in the 16 at an aligned place. */
__global__ void
fill(uintptr_t from, uintptr_t to, uint8_t value)
{
    uintptr_t at = from / FILL_BYTES * FILL_BYTES + (uintptr_t)mw_first_element<FILL_BYTES>();
    mw_group<uint8_t, FILL_BYTES> group;

    for (int k = 0; k < FILL_BYTES; k++)
        group.element[k] = value;
    if (at >= from && at + FILL_BYTES <= to)
        mw_group_at<uint8_t, FILL_BYTES>((uint8_t *)at) = group;
    else
        for (uintptr_t byte = at > from ? at : from; byte < at + FILL_BYTES && byte < to; byte++)
            *(uint8_t *)byte = value;
}

__global__ void
__launch_bounds__(MW_ROW_THREADS_MAX)
    copy_rows(uint16_t *to, const uint16_t *from, int64_t columns, int64_t ld, bool wide)
{
    mw_copy_row(to + blockIdx.x * ld, from + blockIdx.x * ld, columns, wide);
}

} // namespace

int
mw_cuda_widen(void *stream, float *out, const uint16_t *x, int64_t n)
{
    bool wide = mw_aligned(16, out) && mw_aligned(8, x);

    MW_LAUNCH((convert<float, uint16_t>), mw_blocks(n, MIXED), MW_THREADS, 0, stream, out, x, n,
              wide);
    return cudaGetLastError();
}

int
mw_cuda_narrow(void *stream, uint16_t *out, const float *x, int64_t n)
{
    bool wide = mw_aligned(16, x) && mw_aligned(8, out);

    MW_LAUNCH((convert<uint16_t, float>), mw_blocks(n, MIXED), MW_THREADS, 0, stream, out, x, n,
              wide);
    return cudaGetLastError();
}

int
mw_cuda_accumulate(void *stream, float *sum, const uint16_t *x, int64_t n)
{
    bool wide = mw_aligned(16, sum) && mw_aligned(8, x);

    MW_LAUNCH(accumulate, mw_blocks(n, MIXED), MW_THREADS, 0, stream, sum, x, n, wide);
    return cudaGetLastError();
}

int
mw_cuda_add(void *stream, uint16_t *out, const uint16_t *a, const uint16_t *b, int64_t n)
{
    MW_LAUNCH(add, mw_blocks(n, MW_GROUP), MW_THREADS, 0, stream, out, a, b, n,
              mw_aligned(16, out, a, b));
    return cudaGetLastError();
}

int
mw_cuda_fill(void *stream, void *to, uint8_t value, int64_t bytes)
{
    uintptr_t from = (uintptr_t)to;

    /* One group more: the first one may begin before `from`. */
    MW_LAUNCH(fill, mw_blocks(bytes + FILL_BYTES, FILL_BYTES), MW_THREADS, 0, stream, from,
              from + (uintptr_t)bytes, value);
    return cudaGetLastError();
}

int
mw_cuda_copy_rows(void *stream, uint16_t *to, const uint16_t *from, int64_t rows, int64_t columns,
                  int64_t ld)
{
    bool wide = mw_aligned(16, to, from) && columns % MW_GROUP == 0 && ld % MW_GROUP == 0;

    if (!rows)
        return 0;
    MW_LAUNCH(copy_rows, (unsigned)rows, mw_row_threads(columns, MW_GROUP), 0, stream, to, from,
              columns, ld, wide);
    return cudaGetLastError();
}
