/* LayerNorm (arXiv 1607.06450) and RMSNorm (arXiv 1910.07467) over rows, forward and backward.
 * Two rows go together: a sum takes its additions one after the other, and weights are read for
 * both. Lanes are in the order that mw_lanes_load_pairs has. */
#include "exec/cpu/isa.h"
#include "exec/cpu/native.h"

#include <math.h>

#define TOGETHER 2

/* While rows are computed on from the caches the memory would have nothing to do: the next rows are
 * asked for then. Beyond the last one that does nothing. */
MW_INLINE void
ask_for(const uint16_t *next)
{
    __builtin_prefetch(next, 0, 2);
}

/* --- forward; RMSNorm has neither mean nor bias, and is not centred --- */

struct forward {
    uint16_t *y;
    float *mean, *rstd;
    const uint16_t *x, *weight, *bias;
    int64_t columns;
    float eps;
};

MW_INLINE void
add_lanes(struct mw_lanes *sum, const struct forward *f, int64_t row, int rows, int64_t i,
          int64_t n)
{
    for (int r = 0; r < rows; r++)
        sum[r] = mw_lanes_add(sum[r], mw_lanes_get_pairs(f->x + (row + r) * f->columns + i, n));
}

MW_INLINE void
row_means(float *mean, const struct forward *f, int64_t row, int rows)
{
    struct mw_lanes sum[TOGETHER];
    int64_t i = 0;
    for (int r = 0; r < rows; r++)
        sum[r] = mw_lanes_splat(0.0f);
    for (; i + MW_LANES <= f->columns; i += MW_LANES)
        add_lanes(sum, f, row, rows, i, MW_LANES);
    if (i < f->columns)
        add_lanes(sum, f, row, rows, i, f->columns - i);
    for (int r = 0; r < rows; r++)
        mean[r] = mw_lanes_sum_pairs(sum[r]) / (float)f->columns;
}

/* Of (x - mean)^2; beyond the row's end there is nothing to add. */
MW_INLINE void
add_squares(struct mw_lanes *sum, const float *mean, const struct forward *f, int64_t row, int rows,
            int64_t i, int64_t n)
{
    for (int r = 0; r < rows; r++) {
        struct mw_lanes x = mw_lanes_get_pairs(f->x + (row + r) * f->columns + i, n);
        MW_EACH_PART (p) {
            mw_native d = x.part[p] - mean[r];
            x.part[p] = d * d;
        }
        if (n < MW_LANES)
            x = mw_lanes_to_pairs(mw_lanes_first(mw_lanes_of_pairs(x), n, 0.0f));
        sum[r] = mw_lanes_add(sum[r], x);
    }
}

MW_INLINE void
row_rstds(float *rstd, const float *mean, const struct forward *f, int64_t row, int rows)
{
    struct mw_lanes sum[TOGETHER];
    int64_t i = 0;
    for (int r = 0; r < rows; r++)
        sum[r] = mw_lanes_splat(0.0f);
    for (; i + MW_LANES <= f->columns; i += MW_LANES)
        add_squares(sum, mean, f, row, rows, i, MW_LANES);
    if (i < f->columns)
        add_squares(sum, mean, f, row, rows, i, f->columns - i);
    for (int r = 0; r < rows; r++)
        rstd[r] = 1.0f / sqrtf(mw_lanes_sum_pairs(sum[r]) / (float)f->columns + f->eps);
}

MW_INLINE void
put_lanes(const float *mean, const float *rstd, const struct forward *f, bool centred, int64_t row,
          int rows, int64_t i, int64_t n)
{
    struct mw_lanes weight = mw_lanes_get_pairs(f->weight + i, n), bias = weight;
    if (centred)
        bias = mw_lanes_get_pairs(f->bias + i, n);
    for (int r = 0; r < rows; r++) {
        int64_t at = (row + r) * f->columns + i;
        struct mw_lanes x = mw_lanes_get_pairs(f->x + at, n);
        ask_for(f->x + at + rows * f->columns);
        MW_EACH_PART (p) {
            x.part[p] = (x.part[p] - mean[r]) * rstd[r] * weight.part[p];
            if (centred)
                x.part[p] += bias.part[p];
        }
        mw_lanes_put_pairs(f->y + at, x, n);
    }
}

MW_INLINE void
forward_rows(const struct forward *f, bool centred, int64_t row, int rows)
{
    float mean[TOGETHER] = {0}, rstd[TOGETHER];
    int64_t i = 0;
    if (centred)
        row_means(mean, f, row, rows);
    row_rstds(rstd, mean, f, row, rows);
    for (; i + MW_LANES <= f->columns; i += MW_LANES)
        put_lanes(mean, rstd, f, centred, row, rows, i, MW_LANES);
    if (i < f->columns)
        put_lanes(mean, rstd, f, centred, row, rows, i, f->columns - i);
    for (int r = 0; r < rows; r++) {
        f->rstd[row + r] = rstd[r];
        if (centred)
            f->mean[row + r] = mean[r];
    }
}

void
MW_CPU(layernorm_forward)(uint16_t *y, float *mean, float *rstd, const uint16_t *x,
                          const uint16_t *weight, const uint16_t *bias, int64_t rows,
                          int64_t columns, float eps)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r += TOGETHER) {
        const struct forward f = {y, mean, rstd, x, weight, bias, columns, eps};
        if (rows - r >= TOGETHER)
            forward_rows(&f, true, r, TOGETHER);
        else
            forward_rows(&f, true, r, 1);
    }
}

void
MW_CPU(rmsnorm_forward)(uint16_t *y, float *rstd, const uint16_t *x, const uint16_t *weight,
                        int64_t rows, int64_t columns, float eps)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r += TOGETHER) {
        const struct forward f = {y, NULL, rstd, x, weight, NULL, columns, eps};
        if (rows - r >= TOGETHER)
            forward_rows(&f, false, r, TOGETHER);
        else
            forward_rows(&f, false, r, 1);
    }
}

/* --- backward --- */

/* With n = (x - mean) rstd and g = dy weight: dx = rstd (g - mean(g) - n mean(g n)); without the
 * middle term where the mean was not taken off. */
struct backward {
    uint16_t *dx;
    const uint16_t *dx_add, *dy, *x, *weight;
    const float *mean, *rstd;
    int64_t columns;
};

struct products {
    struct mw_lanes g, gn;
};

/* Of a row. */
struct slope {
    float mean, rstd, mean_g, mean_gn;
};

MW_INLINE void
add_products(struct products *sum, const struct slope *s, const struct backward *b, int64_t row,
             int rows, int64_t i, int64_t n)
{
    struct mw_lanes weight = mw_lanes_get_pairs(b->weight + i, n);
    for (int r = 0; r < rows; r++) {
        int64_t at = (row + r) * b->columns + i;
        struct mw_lanes dy = mw_lanes_get_pairs(b->dy + at, n);
        struct mw_lanes x = mw_lanes_get_pairs(b->x + at, n);
        MW_EACH_PART (p) {
            mw_native g = dy.part[p] * weight.part[p];
            sum[r].g.part[p] += g;
            sum[r].gn.part[p] += g * ((x.part[p] - s[r].mean) * s[r].rstd);
        }
    }
}

/* The means of products of rows whose mean and rstd are known. */
MW_INLINE void
row_products(struct slope *slope, const struct backward *b, bool centred, int64_t row, int rows)
{
    struct products sum[TOGETHER];
    int64_t i = 0;
    for (int r = 0; r < rows; r++)
        sum[r].g = sum[r].gn = mw_lanes_splat(0.0f);
    for (; i + MW_LANES <= b->columns; i += MW_LANES)
        add_products(sum, slope, b, row, rows, i, MW_LANES);
    if (i < b->columns)
        add_products(sum, slope, b, row, rows, i, b->columns - i);
    for (int r = 0; r < rows; r++) {
        if (centred)
            slope[r].mean_g = mw_lanes_sum_pairs(sum[r].g) / (float)b->columns;
        slope[r].mean_gn = mw_lanes_sum_pairs(sum[r].gn) / (float)b->columns;
    }
}

MW_INLINE void
put_slopes(const struct slope *s, const struct backward *b, bool adds, int64_t row, int rows,
           int64_t i, int64_t n)
{
    struct mw_lanes weight = mw_lanes_get_pairs(b->weight + i, n);
    for (int r = 0; r < rows; r++) {
        int64_t at = (row + r) * b->columns + i;
        struct mw_lanes d = mw_lanes_get_pairs(b->dy + at, n);
        struct mw_lanes x = mw_lanes_get_pairs(b->x + at, n);
        ask_for(b->dy + at + rows * b->columns);
        ask_for(b->x + at + rows * b->columns);
        MW_EACH_PART (p) {
            mw_native g = d.part[p] * weight.part[p];
            mw_native normal = (x.part[p] - s[r].mean) * s[r].rstd;
            d.part[p] = s[r].rstd * ((g - s[r].mean_g) - normal * s[r].mean_gn);
        }
        if (adds)
            d = mw_lanes_add(mw_lanes_get_pairs(b->dx_add + at, n), d);
        mw_lanes_put_pairs(b->dx + at, d, n);
    }
}

MW_INLINE void
put_rows(const struct slope *s, const struct backward *b, bool adds, int64_t row, int rows)
{
    int64_t i = 0;
    for (; i + MW_LANES <= b->columns; i += MW_LANES)
        put_slopes(s, b, adds, row, rows, i, MW_LANES);
    if (i < b->columns)
        put_slopes(s, b, adds, row, rows, i, b->columns - i);
}

MW_INLINE void
backward_rows(const struct backward *b, bool centred, int64_t row, int rows)
{
    struct slope slope[TOGETHER];
    for (int r = 0; r < rows; r++)
        slope[r] =
            (struct slope){.mean = centred ? b->mean[row + r] : 0.0f, .rstd = b->rstd[row + r]};
    row_products(slope, b, centred, row, rows);
    if (b->dx_add != NULL)
        put_rows(slope, b, true, row, rows);
    else
        put_rows(slope, b, false, row, rows);
}

void
MW_CPU(layernorm_backward)(uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy,
                           const uint16_t *x, const uint16_t *weight, const float *mean,
                           const float *rstd, int64_t rows, int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r += TOGETHER) {
        const struct backward b = {dx, dx_add, dy, x, weight, mean, rstd, columns};
        if (rows - r >= TOGETHER)
            backward_rows(&b, true, r, TOGETHER);
        else
            backward_rows(&b, true, r, 1);
    }
}

void
MW_CPU(rmsnorm_backward)(uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy,
                         const uint16_t *x, const uint16_t *weight, const float *rstd, int64_t rows,
                         int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r += TOGETHER) {
        const struct backward b = {dx, dx_add, dy, x, weight, NULL, rstd, columns};
        if (rows - r >= TOGETHER)
            backward_rows(&b, false, r, TOGETHER);
        else
            backward_rows(&b, false, r, 1);
    }
}
