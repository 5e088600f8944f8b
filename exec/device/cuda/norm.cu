/* LayerNorm (arXiv 1607.06450) and RMSNorm (arXiv 1910.07467), forward and backward: one block per
 * row, which reads it once and keeps it in registers.  A row wider than they hold is read again in
 * each pass, from the multiprocessor's cache. */
#include "exec/device/cuda/access.cuh"
#include "exec/device/cuda/half.h"
#include "exec/device/cuda/reduce.cuh"

/* Groups of a thread: many, so that few warps have to wait for each other to add up a row. */
#define KEPT 4

namespace
{

/* What rows have in common. */
struct shape {
    int64_t columns;
    float eps;
    bool wide;
};

/* A thread's groups of a row. */
typedef float groups[KEPT][MW_GROUP];

/* what(i, r): the group at element i, number r of those that are kept; where not `kept`, 0. */
template <bool kept, typename What>
MW_DEVICE void
each_group(struct shape s, What what)
{
    int64_t i = MW_GROUP * threadIdx.x, step = MW_GROUP * blockDim.x;

    if constexpr (kept) {
#pragma unroll
        for (int r = 0; r < KEPT; r++)
            if (i + r * step < s.columns)
                what(i + r * step, r);
    } else {
        for (; i < s.columns; i += step)
            what(i, 0);
    }
}

template <bool kept>
MW_DEVICE float
row_mean(groups &v, const uint16_t *x, struct shape s)
{
    float sum = 0.0f;

    each_group<kept>(s, [&](int64_t i, int r) {
        mw_load(v[r], x + i, s.columns - i, s.wide);
        for (int k = 0; k < MW_GROUP; k++)
            sum += v[r][k];
    });
    return mw_block_sum(sum) / (float)s.columns;
}

/* loaded: v holds the row. */
template <bool kept>
MW_DEVICE float
row_variance(groups &v, const uint16_t *x, bool loaded, float mean, struct shape s)
{
    float sum = 0.0f;

    each_group<kept>(s, [&](int64_t i, int r) {
        if (!kept || !loaded)
            mw_load(v[r], x + i, s.columns - i, s.wide);
        for (int k = 0; k < MW_GROUP; k++)
            sum += i + k < s.columns ? (v[r][k] - mean) * (v[r][k] - mean) : 0.0f;
    });
    return mw_block_sum(sum) / (float)s.columns;
}

/* bias NULL: RMSNorm, which subtracts no mean.  y NULL: mean and rstd alone. */
template <bool kept>
__global__ void
__launch_bounds__(MW_ROW_THREADS_MAX)
    norm_forward(uint16_t *y, float *mean, float *rstd, const uint16_t *x, const uint16_t *weight,
                 const uint16_t *bias, struct shape s)
{
    const uint16_t *row = x + blockIdx.x * s.columns;
    groups v;
    float mu = bias ? row_mean<kept>(v, row, s) : 0.0f;
    float rs = 1.0f / sqrtf(row_variance<kept>(v, row, bias != NULL, mu, s) + s.eps);

    if (threadIdx.x == 0) {
        rstd[blockIdx.x] = rs;
        if (mean)
            mean[blockIdx.x] = mu;
    }
    if (!y)
        return;
    each_group<kept>(s, [&](int64_t i, int r) {
        float w[MW_GROUP], b[MW_GROUP] = {0.0f};
        if (!kept)
            mw_load(v[r], row + i, s.columns - i, s.wide);
        mw_load(w, weight + i, s.columns - i, s.wide);
        if (bias)
            mw_load(b, bias + i, s.columns - i, s.wide);
        for (int k = 0; k < MW_GROUP; k++)
            b[k] += (v[r][k] - mu) * rs * w[k];
        mw_store(y + blockIdx.x * s.columns + i, b, s.columns - i, s.wide);
    });
}

/* A row's operands, and its thread's groups of g = dy weight and n = (x - mean) rstd; g is 0 after
 * the row's end. */
struct backward_row {
    const uint16_t *dy, *x, *weight;
    float mean, rstd;
    groups g, normal;
};

MW_DEVICE void
load_group(struct backward_row &row, int64_t i, int r, struct shape s)
{
    float w[MW_GROUP];

    mw_load(row.g[r], row.dy + i, s.columns - i, s.wide);
    mw_load(row.normal[r], row.x + i, s.columns - i, s.wide);
    mw_load(w, row.weight + i, s.columns - i, s.wide);
    for (int k = 0; k < MW_GROUP; k++) {
        row.g[r][k] *= w[k];
        row.normal[r][k] = (row.normal[r][k] - row.mean) * row.rstd;
    }
}

/* dx = rstd (g - mean(g) - n mean(g n)); without the middle term where the mean was not taken off
 * (mean NULL).  A thread writes what it alone has read: dx may be dy or dx_add. */
template <bool kept>
__global__ void
__launch_bounds__(MW_ROW_THREADS_MAX)
    norm_backward(uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy, const uint16_t *x,
                  const uint16_t *weight, const float *mean, const float *rstd, struct shape s)
{
    int64_t first = blockIdx.x * s.columns;
    struct backward_row row = {dy + first,       x + first, weight, mean ? mean[blockIdx.x] : 0.0f,
                               rstd[blockIdx.x], {},        {}};
    float sums[2] = {0.0f, 0.0f}; /* of g, and of g n */
    groups d = {{0.0f}};

    each_group<kept>(s, [&](int64_t i, int r) {
        load_group(row, i, r, s);
        if (kept && dx_add)
            mw_load(d[r], dx_add + first + i, s.columns - i, s.wide);
        for (int k = 0; k < MW_GROUP; k++) {
            sums[0] += row.g[r][k];
            sums[1] += row.g[r][k] * row.normal[r][k];
        }
    });
    mw_block_sums(sums);
    float mean_g = mean ? sums[0] / (float)s.columns : 0.0f;
    float mean_gn = sums[1] / (float)s.columns;
    each_group<kept>(s, [&](int64_t i, int r) {
        if (!kept) {
            load_group(row, i, r, s);
            for (int k = 0; k < MW_GROUP; k++)
                d[r][k] = 0.0f;
            if (dx_add)
                mw_load(d[r], dx_add + first + i, s.columns - i, s.wide);
        }
        for (int k = 0; k < MW_GROUP; k++)
            d[r][k] += row.rstd * ((row.g[r][k] - mean_g) - row.normal[r][k] * mean_gn);
        mw_store(dx + first + i, d[r], s.columns - i, s.wide);
    });
}

unsigned
threads_of(int64_t columns)
{
    return mw_row_threads(columns, KEPT * MW_GROUP);
}

bool
is_kept(int64_t columns)
{
    return columns <= (int64_t)KEPT * MW_GROUP * threads_of(columns);
}

int
forward(void *stream, uint16_t *y, float *mean, float *rstd, const uint16_t *x,
        const uint16_t *weight, const uint16_t *bias, int64_t rows, int64_t columns, float eps)
{
    struct shape s = {columns, eps, mw_aligned(16, y, x, weight, bias) && columns % MW_GROUP == 0};

    if (!rows)
        return 0;
    unsigned threads = threads_of(columns);
    if (is_kept(columns))
        MW_LAUNCH(norm_forward<true>, (unsigned)rows, threads, 0, stream, y, mean, rstd, x, weight,
                  bias, s);
    else
        MW_LAUNCH(norm_forward<false>, (unsigned)rows, threads, 0, stream, y, mean, rstd, x, weight,
                  bias, s);
    return cudaGetLastError();
}

int
backward(void *stream, uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy, const uint16_t *x,
         const uint16_t *weight, const float *mean, const float *rstd, int64_t rows,
         int64_t columns)
{
    struct shape s = {columns, 0.0f,
                      mw_aligned(16, dx, dx_add, dy, x, weight) && columns % MW_GROUP == 0};

    if (!rows)
        return 0;
    unsigned threads = threads_of(columns);
    if (is_kept(columns))
        MW_LAUNCH(norm_backward<true>, (unsigned)rows, threads, 0, stream, dx, dx_add, dy, x,
                  weight, mean, rstd, s);
    else
        MW_LAUNCH(norm_backward<false>, (unsigned)rows, threads, 0, stream, dx, dx_add, dy, x,
                  weight, mean, rstd, s);
    return cudaGetLastError();
}

} // namespace

int
MW_CUDA(layernorm_forward)(void *stream, uint16_t *y, float *mean, float *rstd, const uint16_t *x,
                           const uint16_t *weight, const uint16_t *bias, int64_t rows,
                           int64_t columns, float eps)
{
    return forward(stream, y, mean, rstd, x, weight, bias, rows, columns, eps);
}

int
MW_CUDA(layernorm_backward)(void *stream, uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy,
                            const uint16_t *x, const uint16_t *weight, const float *mean,
                            const float *rstd, int64_t rows, int64_t columns)
{
    return backward(stream, dx, dx_add, dy, x, weight, mean, rstd, rows, columns);
}

int
MW_CUDA(rmsnorm_forward)(void *stream, uint16_t *y, float *rstd, const uint16_t *x,
                         const uint16_t *weight, int64_t rows, int64_t columns, float eps)
{
    return forward(stream, y, NULL, rstd, x, weight, NULL, rows, columns, eps);
}

int
MW_CUDA(rmsnorm_backward)(void *stream, uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy,
                          const uint16_t *x, const uint16_t *weight, const float *rstd,
                          int64_t rows, int64_t columns)
{
    return backward(stream, dx, dx_add, dy, x, weight, NULL, rstd, rows, columns);
}
