/* Fills and copies bytes: elements of any type. */
#include "exec/device/cuda/access.cuh"
#include "exec/device/cuda/kernels.h"

#define FILL_BYTES 16

namespace
{

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
