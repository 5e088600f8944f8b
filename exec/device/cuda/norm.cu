/* LayerNorm (arXiv 1607.06450) and RMSNorm (arXiv 1910.07467), forward and backward: one block per
 * row.  Later passes over the row find it in the multiprocessor's cache. */
#include "exec/device/cuda/access.cuh"
#include "exec/device/cuda/half.h"
#include "exec/device/cuda/reduce.cuh"

namespace
{

/* What rows have in common. */
struct shape {
    int64_t columns;
    float eps;
    bool wide;
};

MW_DEVICE float
row_mean(const uint16_t *x, struct shape s)
{
    float sum = 0.0f;

    for (int64_t i = MW_GROUP * threadIdx.x; i < s.columns; i += MW_GROUP * blockDim.x) {
        float v[MW_GROUP];
        mw_load(v, x + i, s.columns - i, s.wide);
        for (int k = 0; k < MW_GROUP; k++)
            sum += v[k];
    }
    return mw_block_sum(sum) / (float)s.columns;
}

MW_DEVICE float
row_variance(const uint16_t *x, float mean, struct shape s)
{
    float sum = 0.0f;

    for (int64_t i = MW_GROUP * threadIdx.x; i < s.columns; i += MW_GROUP * blockDim.x) {
        float v[MW_GROUP];
        mw_load(v, x + i, s.columns - i, s.wide);
        for (int k = 0; k < MW_GROUP && i + k < s.columns; k++)
            sum += (v[k] - mean) * (v[k] - mean);
    }
    return mw_block_sum(sum) / (float)s.columns;
}

/* bias NULL: RMSNorm, which subtracts no mean. */
__global__ void
__launch_bounds__(MW_ROW_THREADS_MAX)
    norm_forward(uint16_t *y, float *mean, float *rstd, const uint16_t *x, const uint16_t *weight,
                 const uint16_t *bias, struct shape s)
{
    const uint16_t *row = x + blockIdx.x * s.columns;
    float mu = bias ? row_mean(row, s) : 0.0f;
    float rs = 1.0f / sqrtf(row_variance(row, mu, s) + s.eps);

    if (threadIdx.x == 0) {
        rstd[blockIdx.x] = rs;
        if (mean)
            mean[blockIdx.x] = mu;
    }
    for (int64_t i = MW_GROUP * threadIdx.x; i < s.columns; i += MW_GROUP * blockDim.x) {
        float v[MW_GROUP], w[MW_GROUP], b[MW_GROUP] = {0.0f};
        mw_load(v, row + i, s.columns - i, s.wide);
        mw_load(w, weight + i, s.columns - i, s.wide);
        if (bias)
            mw_load(b, bias + i, s.columns - i, s.wide);
        for (int k = 0; k < MW_GROUP; k++)
            v[k] = (v[k] - mu) * rs * w[k] + b[k];
        mw_store(y + blockIdx.x * s.columns + i, v, s.columns - i, s.wide);
    }
}

/* For a group of a row: g = dy weight and n = (x - mean) rstd; g is 0 after the row's end. */
struct group {
    float g[MW_GROUP], normal[MW_GROUP];
};

MW_DEVICE void
load_group(struct group *group, const uint16_t *dy, const uint16_t *x, const uint16_t *weight,
           int64_t i, float mean, float rstd, struct shape s)
{
    float w[MW_GROUP];

    mw_load(group->g, dy + i, s.columns - i, s.wide);
    mw_load(group->normal, x + i, s.columns - i, s.wide);
    mw_load(w, weight + i, s.columns - i, s.wide);
    for (int k = 0; k < MW_GROUP; k++) {
        group->g[k] *= w[k];
        group->normal[k] = (group->normal[k] - mean) * rstd;
    }
}

/* dx = rstd (g - mean(g) - n mean(g n)); without the middle term where the mean was not taken off
 * (mean NULL).  A thread writes what it alone has read: dx may be dy or dx_add. */
__global__ void
__launch_bounds__(MW_ROW_THREADS_MAX)
    norm_backward(uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy, const uint16_t *x,
                  const uint16_t *weight, const float *mean, const float *rstd, struct shape s)
{
    int64_t row = blockIdx.x * s.columns;
    float mu = mean ? mean[blockIdx.x] : 0.0f, rs = rstd[blockIdx.x];
    float sum_g = 0.0f, sum_gn = 0.0f;
    struct group v;

    for (int64_t i = MW_GROUP * threadIdx.x; i < s.columns; i += MW_GROUP * blockDim.x) {
        load_group(&v, dy + row, x + row, weight, i, mu, rs, s);
        for (int k = 0; k < MW_GROUP; k++) {
            sum_g += v.g[k];
            sum_gn += v.g[k] * v.normal[k];
        }
    }
    float mean_g = mean ? mw_block_sum(sum_g) / (float)s.columns : 0.0f;
    float mean_gn = mw_block_sum(sum_gn) / (float)s.columns;
    for (int64_t i = MW_GROUP * threadIdx.x; i < s.columns; i += MW_GROUP * blockDim.x) {
        float d[MW_GROUP] = {0.0f};
        load_group(&v, dy + row, x + row, weight, i, mu, rs, s);
        if (dx_add)
            mw_load(d, dx_add + row + i, s.columns - i, s.wide);
        for (int k = 0; k < MW_GROUP; k++)
            d[k] += rs * ((v.g[k] - mean_g) - v.normal[k] * mean_gn);
        mw_store(dx + row + i, d, s.columns - i, s.wide);
    }
}

int
forward(void *stream, uint16_t *y, float *mean, float *rstd, const uint16_t *x,
        const uint16_t *weight, const uint16_t *bias, int64_t rows, int64_t columns, float eps)
{
    struct shape s = {columns, eps, mw_aligned(16, y, x, weight, bias) && columns % MW_GROUP == 0};

    if (!rows)
        return 0;
    MW_LAUNCH(norm_forward, (unsigned)rows, mw_row_threads(columns, MW_GROUP), 0, stream, y, mean,
              rstd, x, weight, bias, s);
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
    MW_LAUNCH(norm_backward, (unsigned)rows, mw_row_threads(columns, MW_GROUP), 0, stream, dx,
              dx_add, dy, x, weight, mean, rstd, s);
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
