/* Gradients that are sums over tokens: each thread takes a strip of columns and goes down the rows,
 * so that sums are in order of rows.  Sums of SPAN rows are added up, to keep rounding small. */
#include "exec/cpu/isa.h"
#include "exec/cpu/gradient.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

#define SPAN 128
/* Rows that are added while a sum is in a register; divides SPAN. */
#define ROWS 4
/* Columns of the widest strip: its sums stay in the first-level cache. */
#define STRIP 1024

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

/* Sixteen of a row, or the last n: lanes in the order that mw_lanes_load_pairs has. */
MW_INLINE struct mw_lanes
addend_lanes(const struct addends *a, bool has_x, int64_t row, int64_t column, int64_t n)
{
    int64_t at = row * a->ld + column;
    struct mw_lanes d = mw_lanes_get_pairs(a->dy + at, n);
    __builtin_prefetch(a->dy + at + 2 * ROWS * a->ld, 0, 2);
    if (!has_x)
        return d;
    __builtin_prefetch(a->x + at + 2 * ROWS * a->ld, 0, 2);
    struct mw_lanes x = mw_lanes_get_pairs(a->x + at, n);
    float mean = a->mean != NULL ? a->mean[row] : 0.0f;
    MW_EACH_PART (p)
        d.part[p] *= (x.part[p] - mean) * a->rstd[row];
    return d;
}

/* Adds `rows` rows to sums of n columns from `column` on. */
MW_INLINE void
add_rows(float *sum, const struct addends *a, bool has_x, int64_t first, int rows, int64_t column,
         int64_t n)
{
    for (int64_t c = 0; c < n; c += MW_LANES) {
        struct mw_lanes s = mw_lanes_load(sum + c);
        for (int r = 0; r < rows; r++)
            s = mw_lanes_add(s, n - c >= MW_LANES
                                    ? addend_lanes(a, has_x, first + r, column + c, MW_LANES)
                                    : addend_lanes(a, has_x, first + r, column + c, n - c));
        mw_lanes_store(sum + c, s);
    }
}

/* n <= STRIP columns from `column` on. */
MW_INLINE void
sum_strip(struct mw_gradient g, const struct addends *a, bool has_x, int64_t rows, int64_t column,
          int64_t n)
{
    float sum[STRIP] = {0};
    for (int64_t first = 0; first < rows; first += SPAN) {
        int64_t r = first, end = smaller(first + SPAN, rows);
        float span[STRIP];
        memset(span, 0, (size_t)smaller(n + MW_LANES, STRIP) * sizeof *span);
        for (; r + ROWS <= end; r += ROWS)
            add_rows(span, a, has_x, r, ROWS, column, n);
        for (; r < end; r++)
            add_rows(span, a, has_x, r, 1, column, n);
        for (int64_t c = 0; c < n; c += MW_LANES)
            mw_lanes_store(sum + c, mw_lanes_add(mw_lanes_load(sum + c), mw_lanes_load(span + c)));
    }
    for (int64_t c = 0; c < n; c += MW_LANES)
        mw_gradient_put(g, column + c, mw_lanes_of_pairs(mw_lanes_load(sum + c)),
                        smaller(MW_LANES, n - c));
}

/* Columns that each thread of the team takes at a time: alike, and whole cache lines of halves. */
static int64_t
strip_columns(int64_t columns)
{
    int64_t threads = 1;
#if defined(_OPENMP)
    threads = omp_get_max_threads();
#endif
    int64_t lines = (columns + 32 * threads - 1) / (32 * threads);
    return smaller(32 * lines, STRIP);
}

void
MW_CPU(norm_weight_gradient)(struct mw_gradient dweight, const uint16_t *dy, const uint16_t *x,
                             const float *mean, const float *rstd, int64_t rows, int64_t columns)
{
    const struct addends addends = {dy, x, mean, rstd, columns};
    int64_t strip = strip_columns(columns);
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < columns; c += strip)
        sum_strip(dweight, &addends, true, rows, c, smaller(strip, columns - c));
}

void
MW_CPU(bias_gradient)(struct mw_gradient dbias, const uint16_t *dy, int64_t ld_dy, int64_t rows,
                      int64_t columns)
{
    const struct addends addends = {.dy = dy, .ld = ld_dy};
    int64_t strip = strip_columns(columns);
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < columns; c += strip)
        sum_strip(dbias, &addends, false, rows, c, smaller(strip, columns - c));
}
