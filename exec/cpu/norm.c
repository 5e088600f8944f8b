/* LayerNorm (arXiv 1607.06450) and RMSNorm (arXiv 1910.07467) over rows, forward and backward. */
#include "exec/cpu/isa.h"
#include "exec/cpu/native.h"

#include <math.h>

/* Where the last elements of a row begin, that are no sixteen. */
MW_INLINE int64_t
whole_lanes(int64_t columns)
{
    return columns - columns % MW_LANES;
}

static float
row_mean(const uint16_t *x, int64_t columns)
{
    struct mw_lanes sum = mw_lanes_splat(0.0f);
    int64_t whole = whole_lanes(columns);
    for (int64_t i = 0; i < whole; i += MW_LANES)
        sum = mw_lanes_add(sum, mw_lanes_load_half(x + i));
    if (whole < columns)
        sum = mw_lanes_add(sum, mw_lanes_load_half_some(x + whole, columns - whole));
    return mw_lanes_sum(sum) / (float)columns;
}

MW_INLINE struct mw_lanes
squares(struct mw_lanes x, float mean)
{
    MW_EACH_PART (p) {
        mw_native d = x.part[p] - mean;
        x.part[p] = d * d;
    }
    return x;
}

/* Mean of (x - mean)^2. */
MW_INLINE float
row_variance(const uint16_t *x, float mean, int64_t columns)
{
    struct mw_lanes sum = mw_lanes_splat(0.0f);
    int64_t whole = whole_lanes(columns);
    for (int64_t i = 0; i < whole; i += MW_LANES)
        sum = mw_lanes_add(sum, squares(mw_lanes_load_half(x + i), mean));
    if (whole < columns) {
        int64_t n = columns - whole;
        struct mw_lanes last = squares(mw_lanes_load_half_some(x + whole, n), mean);
        sum = mw_lanes_add(sum, mw_lanes_first(last, n, 0.0f));
    }
    return mw_lanes_sum(sum) / (float)columns;
}

MW_INLINE struct mw_lanes
layernorm_lanes(struct mw_lanes x, struct mw_lanes weight, struct mw_lanes bias, float mean,
                float rstd)
{
    MW_EACH_PART (p)
        x.part[p] = (x.part[p] - mean) * rstd * weight.part[p] + bias.part[p];
    return x;
}

static void
layernorm_row(uint16_t *y, const uint16_t *x, const uint16_t *weight, const uint16_t *bias,
              float mean, float rstd, int64_t columns)
{
    int64_t i = 0, n = columns % MW_LANES;
    for (; i + MW_LANES <= columns; i += MW_LANES)
        mw_lanes_store_half(y + i, layernorm_lanes(mw_lanes_load_half(x + i),
                                                   mw_lanes_load_half(weight + i),
                                                   mw_lanes_load_half(bias + i), mean, rstd));
    if (n > 0)
        mw_lanes_store_half_some(y + i,
                                 layernorm_lanes(mw_lanes_load_half_some(x + i, n),
                                                 mw_lanes_load_half_some(weight + i, n),
                                                 mw_lanes_load_half_some(bias + i, n), mean, rstd),
                                 n);
}

void
MW_CPU(layernorm_forward)(uint16_t *y, float *mean, float *rstd, const uint16_t *x,
                          const uint16_t *weight, const uint16_t *bias, int64_t rows,
                          int64_t columns, float eps)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const uint16_t *row = x + r * columns;
        mean[r] = row_mean(row, columns);
        rstd[r] = 1.0f / sqrtf(row_variance(row, mean[r], columns) + eps);
        layernorm_row(y + r * columns, row, weight, bias, mean[r], rstd[r], columns);
    }
}

MW_INLINE struct mw_lanes
rmsnorm_lanes(struct mw_lanes x, struct mw_lanes weight, float rstd)
{
    MW_EACH_PART (p)
        x.part[p] = x.part[p] * rstd * weight.part[p];
    return x;
}

static void
rmsnorm_row(uint16_t *y, const uint16_t *x, const uint16_t *weight, float rstd, int64_t columns)
{
    int64_t i = 0, n = columns % MW_LANES;
    for (; i + MW_LANES <= columns; i += MW_LANES)
        mw_lanes_store_half(
            y + i, rmsnorm_lanes(mw_lanes_load_half(x + i), mw_lanes_load_half(weight + i), rstd));
    if (n > 0)
        mw_lanes_store_half_some(y + i,
                                 rmsnorm_lanes(mw_lanes_load_half_some(x + i, n),
                                               mw_lanes_load_half_some(weight + i, n), rstd),
                                 n);
}

void
MW_CPU(rmsnorm_forward)(uint16_t *y, float *rstd, const uint16_t *x, const uint16_t *weight,
                        int64_t rows, int64_t columns, float eps)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const uint16_t *row = x + r * columns;
        rstd[r] = 1.0f / sqrtf(row_variance(row, 0.0f, columns) + eps);
        rmsnorm_row(y + r * columns, row, weight, rstd[r], columns);
    }
}

/* With n = (x - mean) rstd and g = dy weight: dx = rstd (g - mean(g) - n mean(g n)); without the
 * middle term where the mean was not taken off. */
struct row_norm {
    const uint16_t *dy, *x, *weight;
    float mean, rstd;
    float mean_g, mean_gn;
};

MW_INLINE void
add_products(struct mw_lanes *sum_g, struct mw_lanes *sum_gn, const struct row_norm *row,
             struct mw_lanes dy, struct mw_lanes x, struct mw_lanes weight)
{
    MW_EACH_PART (p) {
        mw_native g = dy.part[p] * weight.part[p];
        sum_g->part[p] += g;
        sum_gn->part[p] += g * ((x.part[p] - row->mean) * row->rstd);
    }
}

MW_INLINE void
row_means(struct row_norm *row, int64_t columns, bool centred)
{
    struct mw_lanes sum_g = mw_lanes_splat(0.0f), sum_gn = sum_g;
    int64_t i = 0, n = columns % MW_LANES;
    for (; i + MW_LANES <= columns; i += MW_LANES)
        add_products(&sum_g, &sum_gn, row, mw_lanes_load_half(row->dy + i),
                     mw_lanes_load_half(row->x + i), mw_lanes_load_half(row->weight + i));
    if (n > 0)
        add_products(&sum_g, &sum_gn, row, mw_lanes_load_half_some(row->dy + i, n),
                     mw_lanes_load_half_some(row->x + i, n),
                     mw_lanes_load_half_some(row->weight + i, n));
    row->mean_g = centred ? mw_lanes_sum(sum_g) / (float)columns : 0.0f;
    row->mean_gn = mw_lanes_sum(sum_gn) / (float)columns;
}

MW_INLINE struct mw_lanes
slopes(const struct row_norm *row, struct mw_lanes dy, struct mw_lanes x, struct mw_lanes weight)
{
    MW_EACH_PART (p) {
        mw_native g = dy.part[p] * weight.part[p];
        mw_native normal = (x.part[p] - row->mean) * row->rstd;
        x.part[p] = row->rstd * ((g - row->mean_g) - normal * row->mean_gn);
    }
    return x;
}

MW_INLINE void
row_backward(uint16_t *dx, const uint16_t *dx_add, struct row_norm row, int64_t columns,
             bool centred)
{
    int64_t i = 0, n = columns % MW_LANES;
    row_means(&row, columns, centred);
    for (; i + MW_LANES <= columns; i += MW_LANES) {
        struct mw_lanes d =
            slopes(&row, mw_lanes_load_half(row.dy + i), mw_lanes_load_half(row.x + i),
                   mw_lanes_load_half(row.weight + i));
        mw_lanes_store_half(dx + i,
                            dx_add != NULL ? mw_lanes_add(mw_lanes_load_half(dx_add + i), d) : d);
    }
    if (n == 0)
        return;
    struct mw_lanes d =
        slopes(&row, mw_lanes_load_half_some(row.dy + i, n), mw_lanes_load_half_some(row.x + i, n),
               mw_lanes_load_half_some(row.weight + i, n));
    mw_lanes_store_half_some(
        dx + i, dx_add != NULL ? mw_lanes_add(mw_lanes_load_half_some(dx_add + i, n), d) : d, n);
}

void
MW_CPU(layernorm_backward)(uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy,
                           const uint16_t *x, const uint16_t *weight, const float *mean,
                           const float *rstd, int64_t rows, int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = r * columns;
        row_backward(dx + at, dx_add != NULL ? dx_add + at : NULL,
                     (struct row_norm){dy + at, x + at, weight, mean[r], rstd[r], 0.0f, 0.0f},
                     columns, true);
    }
}

void
MW_CPU(rmsnorm_backward)(uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy,
                         const uint16_t *x, const uint16_t *weight, const float *rstd, int64_t rows,
                         int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = r * columns;
        row_backward(dx + at, dx_add != NULL ? dx_add + at : NULL,
                     (struct row_norm){dy + at, x + at, weight, 0.0f, rstd[r], 0.0f, 0.0f}, columns,
                     false);
    }
}
