/* LayerNorm (arXiv 1607.06450) and RMSNorm (arXiv 1910.07467) over rows, forward and backward. */
#include "exec/cpu/isa.h"
#include "exec/cpu/vector.h"

#include <math.h>

/* Lanes [i, i + 16) of a row, zero beyond its end. */
MW_INLINE mw_f32x16
row_lanes(const uint16_t *row, int64_t i, int64_t columns)
{
    return i + MW_LANES <= columns ? mw_load_half(row + i)
                                   : mw_load_half_some(row + i, columns - i);
}

MW_INLINE void
put_lanes(uint16_t *row, int64_t i, int64_t columns, mw_f32x16 v)
{
    if (i + MW_LANES <= columns)
        mw_store_half(row + i, v);
    else
        mw_store_half_some(row + i, v, columns - i);
}

static float
row_mean(const uint16_t *x, int64_t columns)
{
    mw_f32x16 sum = {0};
    for (int64_t i = 0; i < columns; i += MW_LANES)
        sum += row_lanes(x, i, columns);
    return mw_sum(sum) / (float)columns;
}

/* Mean of (x - mean)^2. Lanes beyond the end hold mean^2, which is taken off before the sum. */
static float
row_variance(const uint16_t *x, float mean, int64_t columns)
{
    mw_f32x16 sum = {0};
    int64_t whole = columns - columns % MW_LANES;
    for (int64_t i = 0; i < whole; i += MW_LANES) {
        mw_f32x16 d = mw_load_half(x + i) - mean;
        sum += d * d;
    }
    for (int64_t i = whole; i < columns; i++) {
        mw_f32x16 d = mw_load_half_some(x + i, 1) - mean;
        sum[i - whole] += d[0] * d[0];
    }
    return mw_sum(sum) / (float)columns;
}

void
MW_CPU(layernorm_forward)(uint16_t *y, float *mean, float *rstd, const uint16_t *x,
                          const uint16_t *weight, const uint16_t *bias, int64_t rows,
                          int64_t columns, float eps)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const uint16_t *row = x + r * columns;
        float mu = row_mean(row, columns);
        float rs = 1.0f / sqrtf(row_variance(row, mu, columns) + eps);
        mean[r] = mu;
        rstd[r] = rs;
        for (int64_t i = 0; i < columns; i += MW_LANES) {
            mw_f32x16 normal = (row_lanes(row, i, columns) - mu) * rs;
            put_lanes(y + r * columns, i, columns,
                      normal * row_lanes(weight, i, columns) + row_lanes(bias, i, columns));
        }
    }
}

void
MW_CPU(rmsnorm_forward)(uint16_t *y, float *rstd, const uint16_t *x, const uint16_t *weight,
                        int64_t rows, int64_t columns, float eps)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const uint16_t *row = x + r * columns;
        float rs = 1.0f / sqrtf(row_variance(row, 0.0f, columns) + eps);
        rstd[r] = rs;
        for (int64_t i = 0; i < columns; i += MW_LANES)
            put_lanes(y + r * columns, i, columns,
                      row_lanes(row, i, columns) * rs * row_lanes(weight, i, columns));
    }
}

/* With n = (x - mean) rstd and g = dy weight: dx = rstd (g - mean(g) - n mean(g n)); without the
 * middle term where the mean was not taken off (centred false). */
MW_INLINE void
row_backward(uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy, const uint16_t *x,
             const uint16_t *weight, float mean, float rstd, int64_t columns, bool centred)
{
    mw_f32x16 sum_g = {0}, sum_gn = {0};
    for (int64_t i = 0; i < columns; i += MW_LANES) {
        mw_f32x16 g = row_lanes(dy, i, columns) * row_lanes(weight, i, columns);
        sum_g += g;
        sum_gn += g * ((row_lanes(x, i, columns) - mean) * rstd);
    }
    float mean_g = centred ? mw_sum(sum_g) / (float)columns : 0.0f;
    float mean_gn = mw_sum(sum_gn) / (float)columns;
    for (int64_t i = 0; i < columns; i += MW_LANES) {
        mw_f32x16 g = row_lanes(dy, i, columns) * row_lanes(weight, i, columns);
        mw_f32x16 normal = (row_lanes(x, i, columns) - mean) * rstd;
        mw_f32x16 d = rstd * ((g - mean_g) - normal * mean_gn);
        put_lanes(dx, i, columns, dx_add != NULL ? row_lanes(dx_add, i, columns) + d : d);
    }
}

void
MW_CPU(layernorm_backward)(uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy,
                           const uint16_t *x, const uint16_t *weight, const float *mean,
                           const float *rstd, int64_t rows, int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++)
        row_backward(dx + r * columns, dx_add != NULL ? dx_add + r * columns : NULL,
                     dy + r * columns, x + r * columns, weight, mean[r], rstd[r], columns, true);
}

void
MW_CPU(rmsnorm_backward)(uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy,
                         const uint16_t *x, const uint16_t *weight, const float *rstd, int64_t rows,
                         int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++)
        row_backward(dx + r * columns, dx_add != NULL ? dx_add + r * columns : NULL,
                     dy + r * columns, x + r * columns, weight, 0.0f, rstd[r], columns, false);
}
