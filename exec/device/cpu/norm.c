/* LayerNorm (arXiv 1607.06450) and RMSNorm (arXiv 1910.07467) over rows, forward and backward.  A
 * row is read twice: for its sums, and for the results made from them.  Two rows go together,
 * because a sum makes its additions one after the other, and weights are then read once for both.
 * Lines of the next two rows are prefetched in both passes, so that memory is busy in either: those
 * of the first row in the pass for sums.  Lanes are in the order of mw_lanes_load_pairs. */
#include "exec/device/cpu/cache.h"
#include "exec/device/cpu/isa.h"
#include "exec/device/cpu/pairs.h"
#include "exec/device/cpu/rows.h"

#include <math.h>

#define TOGETHER 2

/* A row whose mean is further than this many deviations from 0 loses too many digits where its
 * variance is taken as mean(x^2) - mean^2: squared here. */
#define FAR_SQUARED 4.0f

/* Rows of whole lines that are larger than the caches go past them. */
static bool
rows_stream(const mw_element *result, int64_t rows, int64_t columns)
{
    return columns % MW_LINE == 0 &&
           mw_cpu_streams(result, rows * columns * (int64_t)sizeof *result);
}

/* --- forward; RMSNorm has neither mean nor bias, and is not centred --- */

struct forward {
    mw_element *y;
    float *mean, *rstd;
    const mw_element *x, *weight, *bias;
    int64_t columns;
    float eps;
};

struct moments {
    struct mw_lanes sum, squares;
};

MW_INLINE void
add_moments(struct moments *m, const struct forward *f, bool centred, int64_t row, int rows,
            int64_t i, int64_t n)
{
    for (int r = 0; r < rows; r++) {
        struct mw_lanes x = mw_lanes_get_pairs(f->x + (row + r) * f->columns + i, n);
        MW_EACH_PART (p) {
            if (centred)
                m[r].sum.part[p] += x.part[p];
            m[r].squares.part[p] = mw_native_add_exact(m[r].squares.part[p], x.part[p], x.part[p]);
        }
    }
}

/* The mean of (x - mean)^2, of a row far from 0. */
static __attribute__((noinline)) float
far_variance(const mw_element *x, int64_t columns, float mean)
{
    struct mw_lanes sum = mw_lanes_splat(0.0f);
    for (int64_t i = 0; i < columns; i += MW_LANES) {
        int64_t n = mw_smaller(MW_LANES, columns - i);
        struct mw_lanes d = mw_lanes_get_pairs(x + i, n);
        MW_EACH_PART (p)
            d.part[p] = (d.part[p] - mean) * (d.part[p] - mean);
        if (n < MW_LANES)
            d = mw_lanes_to_pairs(mw_lanes_first(mw_lanes_of_pairs(d), n, 0.0f));
        sum = mw_lanes_add(sum, d);
    }
    return mw_lanes_sum_pairs(sum) / (float)columns;
}

MW_INLINE void
row_moments(float *mean, float *rstd, const struct forward *f, bool centred, int64_t row, int rows)
{
    struct moments m[TOGETHER];
    for (int r = 0; r < rows; r++)
        m[r].sum = m[r].squares = mw_lanes_splat(0.0f);
    int64_t i = 0;
    for (; i + MW_LANES <= f->columns; i += MW_LANES) {
        mw_ask_for(f->x + (row + rows) * f->columns + i, f->columns, 1);
        add_moments(m, f, centred, row, rows, i, MW_LANES);
    }
    if (i < f->columns)
        add_moments(m, f, centred, row, rows, i, f->columns - i);
    for (int r = 0; r < rows; r++) {
        mean[r] = centred ? mw_lanes_sum_pairs(m[r].sum) / (float)f->columns : 0.0f;
        float variance = mw_lanes_sum_pairs(m[r].squares) / (float)f->columns - mean[r] * mean[r];
        if (centred && !(mean[r] * mean[r] <= FAR_SQUARED * variance))
            variance = far_variance(f->x + (row + r) * f->columns, f->columns, mean[r]);
        rstd[r] = 1.0f / sqrtf(variance + f->eps);
    }
}

MW_INLINE void
put_lanes(const float *mean, const float *rstd, const struct forward *f, bool centred, bool streams,
          int64_t row, int rows, int64_t i, int64_t n)
{
    struct mw_lanes weight = mw_lanes_get_pairs(f->weight + i, n), bias = weight;
    if (centred)
        bias = mw_lanes_get_pairs(f->bias + i, n);
    for (int r = 0; r < rows; r++) {
        int64_t at = (row + r) * f->columns + i;
        struct mw_lanes x = mw_lanes_get_pairs(f->x + at, n);
        MW_EACH_PART (p) {
            if (centred)
                x.part[p] -= mean[r];
            x.part[p] = x.part[p] * rstd[r] * weight.part[p];
            if (centred)
                x.part[p] += bias.part[p];
        }
        mw_lanes_put_pairs(f->y + at, x, n, streams);
    }
}

/* Of a row's end, from element i on, which fills no line. */
static __attribute__((noinline)) void
put_end(struct forward f, float mean, float rstd, int64_t row, int64_t i)
{
    for (; i < f.columns; i += MW_LANES) {
        int64_t n = mw_smaller(MW_LANES, f.columns - i);
        if (f.bias != NULL)
            put_lanes(&mean, &rstd, &f, true, false, row, 1, i, n);
        else
            put_lanes(&mean, &rstd, &f, false, false, row, 1, i, n);
    }
}

MW_INLINE void
put_rows(const float *mean, const float *rstd, const struct forward *f, bool centred, bool streams,
         int64_t row, int rows)
{
    int64_t i = 0;
    for (; i + MW_LINE <= f->columns; i += MW_LINE) {
        mw_ask_for(f->x + (row + rows + 1) * f->columns + i, f->columns, rows - 1);
        put_lanes(mean, rstd, f, centred, streams, row, rows, i, MW_LANES);
        put_lanes(mean, rstd, f, centred, streams, row, rows, i + MW_LANES, MW_LANES);
    }
    for (int r = 0; r < rows && i < f->columns; r++)
        put_end(*f, mean[r], rstd[r], row + r, i);
}

MW_INLINE void
forward_rows(struct forward f, bool centred, bool streams, int64_t row, int rows)
{
    float mean[TOGETHER], rstd[TOGETHER];
    row_moments(mean, rstd, &f, centred, row, rows);
    if (f.y != NULL && streams)
        put_rows(mean, rstd, &f, centred, true, row, rows);
    else if (f.y != NULL)
        put_rows(mean, rstd, &f, centred, false, row, rows);
    for (int r = 0; r < rows; r++) {
        f.rstd[row + r] = rstd[r];
        if (centred)
            f.mean[row + r] = mean[r];
    }
}

/* Two from `row` on, or the last one. */
MW_INLINE void
forward_some(const struct forward *f, bool centred, bool streams, int64_t row, int64_t rows)
{
    if (rows - row >= TOGETHER)
        forward_rows(*f, centred, streams, row, TOGETHER);
    else
        forward_rows(*f, centred, false, row, 1);
}

/* All rows, by the team. */
static void
forward(const struct forward *f, bool centred, int64_t rows)
{
    bool streams = f->y != NULL && rows_stream(f->y, rows, f->columns);
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (int64_t r = 0; r < rows; r += TOGETHER)
            if (centred)
                forward_some(f, true, streams, r, rows);
            else
                forward_some(f, false, streams, r, rows);
        mw_lanes_stream_end();
    }
}

void
MW_CPU(layernorm_forward)(mw_element *y, float *mean, float *rstd, const mw_element *x,
                          const mw_element *weight, const mw_element *bias, int64_t rows,
                          int64_t columns, float eps)
{
    const struct forward f = {y, mean, rstd, x, weight, bias, columns, eps};
    forward(&f, true, rows);
}

void
MW_CPU(rmsnorm_forward)(mw_element *y, float *rstd, const mw_element *x, const mw_element *weight,
                        int64_t rows, int64_t columns, float eps)
{
    const struct forward f = {y, NULL, rstd, x, weight, NULL, columns, eps};
    forward(&f, false, rows);
}

/* --- backward --- */

/* With n = (x - mean) rstd and g = dy weight: dx = rstd (g - mean(g) - n mean(g n)); without the
 * middle term where the mean was not taken off. As a line in x, with the row's
 *     slope = rstd mean(g n), mean(g n) = rstd (mean(g x) - mean mean(g)),
 *     offset = mean(g) - mean slope:
 * dx = rstd (g - (slope x + offset)). What cancels there for a mean far from 0 is less than what
 * the rounding of x to 16 bits took. */
struct backward {
    mw_element *dx;
    const mw_element *dx_add, *dy, *x, *weight;
    const float *mean, *rstd;
    int64_t columns;
};

struct products {
    struct mw_lanes g, gx;
};

/* Of a row. */
struct line {
    float rstd, slope, offset;
};

MW_INLINE void
add_products(struct products *sum, const struct backward *b, bool centred, int64_t row, int rows,
             int64_t i, int64_t n)
{
    struct mw_lanes weight = mw_lanes_get_pairs(b->weight + i, n);
    for (int r = 0; r < rows; r++) {
        int64_t at = (row + r) * b->columns + i;
        struct mw_lanes dy = mw_lanes_get_pairs(b->dy + at, n);
        struct mw_lanes x = mw_lanes_get_pairs(b->x + at, n);
        MW_EACH_PART (p) {
            mw_native g = dy.part[p] * weight.part[p];
            if (centred)
                sum[r].g.part[p] += g;
            sum[r].gx.part[p] = mw_native_add_third(sum[r].gx.part[p], g, x.part[p]);
        }
    }
}

/* The lines of rows whose mean and rstd are known. */
MW_INLINE void
row_lines(struct line *line, const struct backward *b, bool centred, int64_t row, int rows)
{
    struct products sum[TOGETHER];
    for (int r = 0; r < rows; r++)
        sum[r].g = sum[r].gx = mw_lanes_splat(0.0f);
    int64_t i = 0;
    for (; i + MW_LANES <= b->columns; i += MW_LANES) {
        int64_t next = (row + rows) * b->columns + i;
        mw_ask_for(b->dy + next, b->columns, 1);
        mw_ask_for(b->x + next, b->columns, 1);
        add_products(sum, b, centred, row, rows, i, MW_LANES);
    }
    if (i < b->columns)
        add_products(sum, b, centred, row, rows, i, b->columns - i);
    for (int r = 0; r < rows; r++) {
        float rstd = b->rstd[row + r], mean = centred ? b->mean[row + r] : 0.0f;
        float mean_g = centred ? mw_lanes_sum_pairs(sum[r].g) / (float)b->columns : 0.0f;
        float mean_gx = mw_lanes_sum_pairs(sum[r].gx) / (float)b->columns;
        float slope = rstd * (rstd * (mean_gx - mean * mean_g));
        line[r] = (struct line){rstd, slope, mean_g - mean * slope};
    }
}

MW_INLINE void
put_slopes(const struct line *line, const struct backward *b, bool centred, bool adds, bool streams,
           int64_t row, int rows, int64_t i, int64_t n)
{
    struct mw_lanes weight = mw_lanes_get_pairs(b->weight + i, n);
    for (int r = 0; r < rows; r++) {
        int64_t at = (row + r) * b->columns + i;
        struct mw_lanes d = mw_lanes_get_pairs(b->dy + at, n);
        struct mw_lanes x = mw_lanes_get_pairs(b->x + at, n);
        MW_EACH_PART (p) {
            mw_native fall = x.part[p] * line[r].slope;
            if (centred)
                fall += line[r].offset;
            d.part[p] = (d.part[p] * weight.part[p] - fall) * line[r].rstd;
        }
        if (adds)
            d = mw_lanes_add(mw_lanes_get_pairs(b->dx_add + at, n), d);
        mw_lanes_put_pairs(b->dx + at, d, n, streams);
    }
}

/* Of a row's end, from element i on, which fills no line. */
static __attribute__((noinline)) void
put_end_slopes(struct backward b, struct line line, bool centred, int64_t row, int64_t i)
{
    for (; i < b.columns; i += MW_LANES) {
        int64_t n = mw_smaller(MW_LANES, b.columns - i);
        if (b.dx_add != NULL)
            put_slopes(&line, &b, centred, true, false, row, 1, i, n);
        else
            put_slopes(&line, &b, centred, false, false, row, 1, i, n);
    }
}

MW_INLINE void
put_row_slopes(const struct line *line, const struct backward *b, bool centred, bool adds,
               bool streams, int64_t row, int rows)
{
    int64_t i = 0;
    for (; i + MW_LINE <= b->columns; i += MW_LINE) {
        int64_t next = (row + rows) * b->columns + i;
        mw_ask_for(b->dy + next + b->columns, b->columns, rows - 1);
        mw_ask_for(b->x + next + b->columns, b->columns, rows - 1);
        if (adds)
            mw_ask_for(b->dx_add + next, b->columns, rows);
        put_slopes(line, b, centred, adds, streams, row, rows, i, MW_LANES);
        put_slopes(line, b, centred, adds, streams, row, rows, i + MW_LANES, MW_LANES);
    }
    for (int r = 0; r < rows && i < b->columns; r++)
        put_end_slopes(*b, line[r], centred, row + r, i);
}

MW_INLINE void
backward_rows(struct backward b, bool centred, bool streams, int64_t row, int rows)
{
    struct line line[TOGETHER];
    bool adds = b.dx_add != NULL;
    row_lines(line, &b, centred, row, rows);
    if (adds && streams)
        put_row_slopes(line, &b, centred, true, true, row, rows);
    else if (adds)
        put_row_slopes(line, &b, centred, true, false, row, rows);
    else if (streams)
        put_row_slopes(line, &b, centred, false, true, row, rows);
    else
        put_row_slopes(line, &b, centred, false, false, row, rows);
}

/* Two from `row` on, or the last one. */
MW_INLINE void
backward_some(const struct backward *b, bool centred, bool streams, int64_t row, int64_t rows)
{
    if (rows - row >= TOGETHER)
        backward_rows(*b, centred, streams, row, TOGETHER);
    else
        backward_rows(*b, centred, false, row, 1);
}

/* All rows, by the team. What was read to be added to is in the caches already. */
static void
backward(const struct backward *b, bool centred, int64_t rows)
{
    bool in_place = b->dx == b->dy || b->dx == b->dx_add;
    bool streams = !in_place && rows_stream(b->dx, rows, b->columns);
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (int64_t r = 0; r < rows; r += TOGETHER)
            if (centred)
                backward_some(b, true, streams, r, rows);
            else
                backward_some(b, false, streams, r, rows);
        mw_lanes_stream_end();
    }
}

void
MW_CPU(layernorm_backward)(mw_element *dx, const mw_element *dx_add, const mw_element *dy,
                           const mw_element *x, const mw_element *weight, const float *mean,
                           const float *rstd, int64_t rows, int64_t columns)
{
    const struct backward b = {dx, dx_add, dy, x, weight, mean, rstd, columns};
    backward(&b, true, rows);
}

void
MW_CPU(rmsnorm_backward)(mw_element *dx, const mw_element *dx_add, const mw_element *dy,
                         const mw_element *x, const mw_element *weight, const float *rstd,
                         int64_t rows, int64_t columns)
{
    const struct backward b = {dx, dx_add, dy, x, weight, NULL, rstd, columns};
    backward(&b, false, rows);
}
