/*
 * Gradients that are sums over tokens, in two stages: spans of rows, each column's in order; then
 * the spans in order.  The same sums as those of exec/device/cpu/row_sums.c, bit for bit.
 */
#include "exec/device/cuda/access.cuh"
#include "exec/device/cuda/in_order.cuh"
#include "exec/device/cuda/half.h"

#define SPAN 128 /* rows */
#define PAIR 2   /* columns of a thread: 4 bytes, whole cache lines of a warp */
#define SPAN_THREADS 64

namespace
{

struct rows {
    const uint16_t *dy, *x; /* x NULL: sums of dy alone */
    const float *mean, *rstd;
    int64_t count, columns, ld;
    bool wide;
};

/* The sums of columns c and c + 1 over a span's rows; `left` columns are there. */
template <bool normed, bool wide>
MW_DEVICE void
sum_span(float (&sum)[PAIR], const struct rows &s, int64_t first, int64_t c, int64_t left)
{
    int64_t count = s.count - first < SPAN ? s.count - first : SPAN, n = wide ? PAIR : left;

    mw_sum_in_order(sum, count, [&](float(&d)[PAIR], int64_t i) {
        int64_t r = first + i;
        float v[PAIR];
        mw_load(d, s.dy + r * s.ld + c, n, wide);
        if (!normed)
            return;
        mw_load(v, s.x + r * s.ld + c, n, wide);
        float mean = s.mean ? s.mean[r] : 0.0f, rstd = s.rstd[r];
        for (int k = 0; k < PAIR; k++)
            d[k] = __fmul_rn(d[k], __fmul_rn(__fsub_rn(v[k], mean), rstd));
    });
}

/* partial[span][column]: the sum of dy, times (x - mean) * rstd where normed. */
template <bool normed>
__global__ void
sum_spans(float *partial, struct rows s)
{
    int64_t c = mw_first_element<PAIR>(), left = s.columns - c;
    int64_t first = (int64_t)blockIdx.y * SPAN;
    float sum[PAIR] = {0.0f};

    if (s.wide && left >= PAIR)
        sum_span<normed, true>(sum, s, first, c, left);
    else
        sum_span<normed, false>(sum, s, first, c, left);
    mw_store(partial + blockIdx.y * s.columns + c, sum, left, s.columns % PAIR == 0);
}

__global__ void
combine_spans(struct mw_gradient to, const float *partial, int64_t spans, int64_t columns)
{
    int64_t c = mw_first_element<1>();
    float sum[1] = {0.0f};

    if (c >= columns)
        return;
    mw_sum_in_order<2 * MW_AHEAD>(
        sum, spans, [=](float(&v)[1], int64_t span) { v[0] = partial[span * columns + c]; });
    mw_gradient_put(to, c, sum, 1, true);
}

int64_t
spans_of(int64_t rows)
{
    return (rows + SPAN - 1) / SPAN;
}

unsigned
blocks_of(int64_t columns, int group)
{
    int64_t a_block = (int64_t)SPAN_THREADS * group;

    return (unsigned)((columns + a_block - 1) / a_block);
}

int
launch(void *stream, struct mw_gradient to, const struct rows *rows, float *partial)
{
    dim3 grid(blocks_of(rows->columns, PAIR), (unsigned)spans_of(rows->count));

    if (rows->count && rows->x)
        MW_LAUNCH(sum_spans<true>, grid, SPAN_THREADS, 0, stream, partial, *rows);
    else if (rows->count)
        MW_LAUNCH(sum_spans<false>, grid, SPAN_THREADS, 0, stream, partial, *rows);
    MW_LAUNCH(combine_spans, blocks_of(rows->columns, 1), SPAN_THREADS, 0, stream, to, partial,
              spans_of(rows->count), rows->columns);
    return cudaGetLastError();
}

} // namespace

int64_t
MW_CUDA(row_sums_scratch_bytes)(int64_t rows, int64_t columns)
{
    return spans_of(rows) * columns * (int64_t)sizeof(float);
}

int
MW_CUDA(norm_weight_gradient)(void *stream, struct mw_gradient dweight, const uint16_t *dy,
                              const uint16_t *x, const float *mean, const float *rstd, int64_t rows,
                              int64_t columns, void *scratch)
{
    bool wide = mw_aligned(4, dy, x) && columns % PAIR == 0;
    struct rows of = {dy, x, mean, rstd, rows, columns, columns, wide};

    return launch(stream, dweight, &of, (float *)scratch);
}

int
MW_CUDA(bias_gradient)(void *stream, struct mw_gradient dbias, const uint16_t *dy, int64_t ld_dy,
                       int64_t rows, int64_t columns, void *scratch)
{
    bool wide = mw_aligned(4, dy) && ld_dy % PAIR == 0;
    struct rows of = {dy, NULL, NULL, NULL, rows, columns, ld_dy, wide};

    return launch(stream, dbias, &of, (float *)scratch);
}
