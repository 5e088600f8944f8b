/* Positions: a learned table, and rotation (RoPE, arXiv 2104.09864).  A block takes a row:
 * position x of sequence y. */
#include "exec/device/cuda/access.cuh"
#include "exec/device/cuda/in_order.cuh"
#include "exec/device/cuda/half.h"

#define COLUMNS 4 /* of a thread, where sums are made */

namespace
{

MW_DEVICE int64_t
row_of_block(void)
{
    return (int64_t)blockIdx.y * gridDim.x + blockIdx.x;
}

__global__ void
__launch_bounds__(MW_ROW_THREADS_MAX)
    add_position(uint16_t *y, const uint16_t *weight, int64_t columns, bool wide)
{
    uint16_t *row = y + row_of_block() * columns;
    const uint16_t *position = weight + blockIdx.x * columns;
    float a[MW_GROUP], b[MW_GROUP];

    for (int64_t i = MW_GROUP * threadIdx.x; i < columns; i += MW_GROUP * blockDim.x) {
        mw_load(a, row + i, columns - i, wide);
        mw_load(b, position + i, columns - i, wide);
        for (int k = 0; k < MW_GROUP; k++)
            a[k] = __fadd_rn(a[k], b[k]);
        mw_store(row + i, a, columns - i, wide);
    }
}

/* A position's sum over the sequences, in order. */
template <bool wide>
__global__ void
__launch_bounds__(MW_ROW_THREADS_MAX) sum_position(struct mw_gradient to, const uint16_t *dy,
                                                   int64_t batch, int64_t seq, int64_t columns)
{
    int64_t p = blockIdx.x;

    for (int64_t c = COLUMNS * threadIdx.x; c < columns; c += COLUMNS * blockDim.x) {
        int64_t n = wide ? COLUMNS : columns - c;
        float sum[COLUMNS] = {0.0f};
        mw_sum_in_order(sum, batch, [&](float(&v)[COLUMNS], int64_t b) {
            mw_load(v, dy + (b * seq + p) * columns + c, n, wide);
        });
        mw_gradient_put(to, p * columns + c, sum, n, wide);
    }
}

struct heads {
    const float *table;
    int64_t ld;
    int half, groups; /* pairs of a head, groups of pairs of a row */
    float sign;
};

/* Pairs (a, b) turned by their angle, products rounded before they are added up. */
template <int N>
MW_DEVICE void
turn(uint16_t *head, const float *cosine, int half, float sign)
{
    float a[N], b[N], c[N], s[N];

    mw_load(a, head, N, true);
    mw_load(b, head + half, N, true);
    mw_load(c, cosine, N, true);
    mw_load(s, cosine + half, N, true);
    for (int k = 0; k < N; k++) {
        float was = a[k], sine = sign * s[k];
        a[k] = __fsub_rn(__fmul_rn(was, c[k]), __fmul_rn(b[k], sine));
        b[k] = __fadd_rn(__fmul_rn(b[k], c[k]), __fmul_rn(was, sine));
    }
    mw_store(head, a, N, true);
    mw_store(head + half, b, N, true);
}

template <int N>
__global__ void
__launch_bounds__(MW_ROW_THREADS_MAX) rotate(uint16_t *x, struct heads s)
{
    uint16_t *row = x + row_of_block() * s.ld;
    const float *angles = s.table + (int64_t)blockIdx.x * (2 * s.half);
    int of_head = s.half / N;

    for (int i = threadIdx.x; i < s.groups; i += blockDim.x) {
        int pair = i % of_head * N;
        turn<N>(row + (int64_t)(i / of_head) * 2 * s.half + pair, angles + pair, s.half, s.sign);
    }
}

} // namespace

int
MW_CUDA(position_forward)(void *stream, uint16_t *y, const uint16_t *weight, int64_t batch,
                          int64_t seq, int64_t columns)
{
    bool wide = mw_aligned(16, y, weight) && columns % MW_GROUP == 0;

    if (!batch || !seq)
        return 0;
    MW_LAUNCH(add_position, dim3((unsigned)seq, (unsigned)batch), mw_row_threads(columns, MW_GROUP),
              0, stream, y, weight, columns, wide);
    return cudaGetLastError();
}

int
MW_CUDA(position_backward)(void *stream, struct mw_gradient dweight, const uint16_t *dy,
                           int64_t batch, int64_t seq, int64_t columns, int64_t positions)
{
    int64_t element_bytes = dweight.fp32 ? 4 : 2;
    bool wide = mw_aligned(8, dy) && mw_gradient_aligned(dweight) && columns % COLUMNS == 0;
    char *behind = (char *)dweight.data + seq * columns * element_bytes;
    unsigned threads = mw_row_threads(columns, COLUMNS);

    if (seq && wide)
        MW_LAUNCH(sum_position<true>, (unsigned)seq, threads, 0, stream, dweight, dy, batch, seq,
                  columns);
    else if (seq)
        MW_LAUNCH(sum_position<false>, (unsigned)seq, threads, 0, stream, dweight, dy, batch, seq,
                  columns);
    if (dweight.accumulate)
        return cudaGetLastError();
    return mw_cuda_fill(stream, behind, 0, (positions - seq) * columns * element_bytes);
}

int
MW_CUDA(rope)(void *stream, uint16_t *x, const float *table, int64_t batch, int64_t seq,
              int64_t heads, int64_t head_dim, int64_t ld, bool inverse)
{
    int half = (int)(head_dim / 2), pairs = (int)(heads * half);
    bool wide = mw_aligned(16, x, table) && half % MW_GROUP == 0 && ld % MW_GROUP == 0;
    int group = wide ? MW_GROUP : 1;
    struct heads s = {table, ld, half, pairs / group, inverse ? -1.0f : 1.0f};
    dim3 rows((unsigned)seq, (unsigned)batch);
    unsigned threads = mw_row_threads(pairs, group);

    if (!batch || !seq || !pairs)
        return 0;
    if (wide)
        MW_LAUNCH(rotate<MW_GROUP>, rows, threads, 0, stream, x, s);
    else
        MW_LAUNCH(rotate<1>, rows, threads, 0, stream, x, s);
    return cudaGetLastError();
}
