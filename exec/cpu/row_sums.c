/* Gradients that are sums over tokens: each thread takes columns and goes down the rows, so that
 * sums are in order of rows.  Sums of SPAN rows are added up, to keep rounding small. */
#include "exec/cpu/isa.h"
#include "exec/cpu/gradient.h"

#define SPAN 128

MW_INLINE int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Sum of dy, times (x - mean) * rstd where x is given, of rows [first, end) and n <= 16 columns. */
MW_INLINE mw_f32x16
span_sum(const uint16_t *dy, int64_t ld, const uint16_t *x, const float *mean, const float *rstd,
         int64_t first, int64_t end, int64_t n)
{
    mw_f32x16 sum = {0};
    for (int64_t r = first; r < end; r++) {
        const uint16_t *row = dy + r * ld;
        mw_f32x16 d = n == MW_LANES ? mw_load_half(row) : mw_load_half_some(row, n);
        if (x != NULL) {
            const uint16_t *in = x + r * ld;
            mw_f32x16 v = n == MW_LANES ? mw_load_half(in) : mw_load_half_some(in, n);
            d *= (v - (mean != NULL ? mean[r] : 0.0f)) * rstd[r];
        }
        sum += d;
    }
    return sum;
}

MW_INLINE void
sum_columns(struct mw_gradient g, const uint16_t *dy, int64_t ld, const uint16_t *x,
            const float *mean, const float *rstd, int64_t rows, int64_t column, int64_t n)
{
    mw_f32x16 sum = {0};
    for (int64_t r = 0; r < rows; r += SPAN)
        sum += span_sum(dy + column, ld, x != NULL ? x + column : NULL, mean, rstd, r,
                        smaller(r + SPAN, rows), n);
    mw_gradient_put(g, column, sum, n);
}

void
MW_CPU(norm_weight_gradient)(struct mw_gradient dweight, const uint16_t *dy, const uint16_t *x,
                             const float *mean, const float *rstd, int64_t rows, int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < columns; c += MW_LANES)
        sum_columns(dweight, dy, columns, x, mean, rstd, rows, c, smaller(MW_LANES, columns - c));
}

void
MW_CPU(bias_gradient)(struct mw_gradient dbias, const uint16_t *dy, int64_t ld_dy, int64_t rows,
                      int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < columns; c += MW_LANES)
        sum_columns(dbias, dy, ld_dy, NULL, NULL, NULL, rows, c, smaller(MW_LANES, columns - c));
}
