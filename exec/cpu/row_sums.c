/* Gradients that are sums over tokens: each thread takes a strip of columns and goes down the rows,
 * so that sums are in order of rows.  Sums of SPAN rows are added up, to keep rounding small. */
#include "exec/cpu/isa.h"
#include "exec/cpu/gradient.h"

#define SPAN 128
/* Of a strip: two cache lines of halves from each row. */
#define STRIP 4

MW_INLINE int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What is added up: dy, times (x - mean) * rstd where x is given. */
struct addends {
    const uint16_t *dy, *x;
    const float *mean, *rstd;
    int64_t ld;
};

/* n <= 16 of one row. */
MW_INLINE struct mw_lanes
addend_lanes(const struct addends *a, int64_t row, int64_t column, int64_t n)
{
    int64_t at = row * a->ld + column;
    struct mw_lanes d =
        n == MW_LANES ? mw_lanes_load_half(a->dy + at) : mw_lanes_load_half_some(a->dy + at, n);
    if (a->x == NULL)
        return d;
    struct mw_lanes x =
        n == MW_LANES ? mw_lanes_load_half(a->x + at) : mw_lanes_load_half_some(a->x + at, n);
    float mean = a->mean != NULL ? a->mean[row] : 0.0f;
    MW_EACH_PART (p)
        d.part[p] *= (x.part[p] - mean) * a->rstd[row];
    return d;
}

/* `vectors` times sixteen columns, or n < 16. */
MW_INLINE void
sum_columns(struct mw_gradient g, const struct addends *a, int64_t rows, int64_t column,
            int vectors, int64_t n)
{
    struct mw_lanes sum[STRIP];
    for (int v = 0; v < vectors; v++)
        sum[v] = mw_lanes_splat(0.0f);
    for (int64_t first = 0; first < rows; first += SPAN) {
        struct mw_lanes span[STRIP];
        for (int v = 0; v < vectors; v++)
            span[v] = mw_lanes_splat(0.0f);
        for (int64_t r = first; r < smaller(first + SPAN, rows); r++)
            for (int v = 0; v < vectors; v++)
                span[v] = mw_lanes_add(span[v], addend_lanes(a, r, column + v * MW_LANES, n));
        for (int v = 0; v < vectors; v++)
            sum[v] = mw_lanes_add(sum[v], span[v]);
    }
    for (int v = 0; v < vectors; v++)
        mw_gradient_put(g, column + v * MW_LANES, sum[v], n);
}

MW_INLINE void
sum_strip(struct mw_gradient g, const struct addends *a, int64_t rows, int64_t column, int64_t n)
{
    if (n == STRIP * MW_LANES) {
        sum_columns(g, a, rows, column, STRIP, MW_LANES);
        return;
    }
    for (; n >= MW_LANES; n -= MW_LANES, column += MW_LANES)
        sum_columns(g, a, rows, column, 1, MW_LANES);
    if (n > 0)
        sum_columns(g, a, rows, column, 1, n);
}

void
MW_CPU(norm_weight_gradient)(struct mw_gradient dweight, const uint16_t *dy, const uint16_t *x,
                             const float *mean, const float *rstd, int64_t rows, int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < columns; c += STRIP * MW_LANES)
        sum_strip(dweight, &(struct addends){dy, x, mean, rstd, columns}, rows, c,
                  smaller(STRIP * MW_LANES, columns - c));
}

void
MW_CPU(bias_gradient)(struct mw_gradient dbias, const uint16_t *dy, int64_t ld_dy, int64_t rows,
                      int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < columns; c += STRIP * MW_LANES)
        sum_strip(dbias, &(struct addends){dy, NULL, NULL, NULL, ld_dy}, rows, c,
                  smaller(STRIP * MW_LANES, columns - c));
}
