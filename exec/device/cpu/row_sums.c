/* Gradients that are sums over tokens.  Rows are cut into groups, and groups into spans, by the
 * number of rows alone.  Rows are added up in order within a span, then spans within a group, then
 * groups: the order is the same for any number of threads, and rounding stays small.  A thread
 * takes groups, and so reads rows of memory one after the other. */
#include "exec/device/cpu/gradient.h"
#include "exec/device/cpu/isa.h"
#include "exec/device/cpu/pairs.h"
#include "exec/device/cpu/rows.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

#define GROUPS 16
#define SPAN 128
/* Rows that are added while a sum is in a register; divides SPAN. */
#define ROWS 4
/* Columns of the widest strip: its sums stay in the first-level cache. */
#define STRIP 1024
_Static_assert(STRIP % MW_LINE == 0, "strips of lines");

/* What is added up: dy, times (x - mean) * rstd where x is given, without a mean x * rstd. */
struct addends {
    const mw_element *dy, *x;
    const float *mean, *rstd;
    int64_t ld;
};

enum kind { OF_DY, OF_DY_X, OF_DY_CENTRED_X };

/* Of the rows that are added together. */
struct factors {
    mw_native mean[ROWS], rstd[ROWS];
};

MW_INLINE struct factors
factors_of(const struct addends *a, enum kind kind, int64_t first, int rows)
{
    struct factors f;
    for (int r = 0; r < rows; r++) {
        if (kind == OF_DY_CENTRED_X)
            f.mean[r] = mw_native_splat(a->mean[first + r]);
        if (kind != OF_DY)
            f.rstd[r] = mw_native_splat(a->rstd[first + r]);
    }
    return f;
}

/* Sixteen columns of the rows from `at` on, or the last n: lanes in the order that
 * mw_lanes_load_pairs has. */
MW_INLINE void
add_lanes(float *sum, const struct addends *a, enum kind kind, const struct factors *f, int64_t at,
          int rows, int64_t n)
{
    struct mw_lanes s = mw_lanes_load(sum);
    for (int r = 0; r < rows; r++) {
        struct mw_lanes d = mw_lanes_get_pairs(a->dy + at + r * a->ld, n), x = d;
        if (kind != OF_DY)
            x = mw_lanes_get_pairs(a->x + at + r * a->ld, n);
        MW_EACH_PART (p) {
            if (kind == OF_DY_CENTRED_X)
                x.part[p] -= f->mean[r];
            if (kind != OF_DY)
                d.part[p] *= x.part[p] * f->rstd[r];
        }
        s = mw_lanes_add(s, d);
    }
    mw_lanes_store(sum, s);
}

/* Adds `rows` rows to sums of n columns from `column` on. */
MW_INLINE void
add_rows(float *sum, const struct addends *a, enum kind kind, int64_t first, int rows,
         int64_t column, int64_t n)
{
    const struct factors f = factors_of(a, kind, first, rows);
    int64_t at = first * a->ld + column, c = 0, ahead = 2 * ROWS * a->ld;
    for (; c + MW_LINE <= n; c += MW_LINE) {
        mw_ask_for(a->dy + at + c + ahead, a->ld, rows);
        if (kind != OF_DY)
            mw_ask_for(a->x + at + c + ahead, a->ld, rows);
        add_lanes(sum + c, a, kind, &f, at + c, rows, MW_LANES);
        add_lanes(sum + c + MW_LANES, a, kind, &f, at + c + MW_LANES, rows, MW_LANES);
    }
    for (; c < n; c += MW_LANES)
        add_lanes(sum + c, a, kind, &f, at + c, rows, mw_smaller(MW_LANES, n - c));
}

MW_INLINE void
add_strip(float *sum, const float *x, int64_t n)
{
    for (int64_t c = 0; c < n; c += MW_LANES)
        mw_lanes_store(sum + c, mw_lanes_add(mw_lanes_load(sum + c), mw_lanes_load(x + c)));
}

/* Sums of rows from first to end, of n columns from `column` on; sum has room for whole vectors. */
MW_INLINE void
sum_group_of(float *sum, struct addends a, enum kind kind, int64_t first, int64_t end,
             int64_t column, int64_t n)
{
    size_t bytes = (size_t)((n + MW_LANES - 1) / MW_LANES * MW_LANES) * sizeof *sum;
    memset(sum, 0, bytes);
    for (; first < end; first += SPAN) {
        int64_t r = first, last = mw_smaller(first + SPAN, end);
        float span[STRIP] __attribute__((aligned(64)));
        memset(span, 0, bytes);
        for (; r + ROWS <= last; r += ROWS)
            add_rows(span, &a, kind, r, ROWS, column, n);
        for (; r < last; r++)
            add_rows(span, &a, kind, r, 1, column, n);
        add_strip(sum, span, n);
    }
}

static void
sum_group(float *sum, const struct addends *a, int64_t first, int64_t end, int64_t column,
          int64_t n)
{
    if (a->x == NULL)
        sum_group_of(sum, *a, OF_DY, first, end, column, n);
    else if (a->mean == NULL)
        sum_group_of(sum, *a, OF_DY_X, first, end, column, n);
    else
        sum_group_of(sum, *a, OF_DY_CENTRED_X, first, end, column, n);
}

/* Groups in order. */
static void
put_strip(struct mw_gradient g, float sum[][STRIP], int64_t groups, int64_t column, int64_t n)
{
    for (int64_t c = 0; c < n; c += MW_LANES) {
        struct mw_lanes total = mw_lanes_splat(0.0f);
        for (int64_t group = 0; group < groups; group++)
            total = mw_lanes_add(total, mw_lanes_load(sum[group] + c));
        mw_gradient_put(g, column + c, mw_lanes_of_pairs(total), mw_smaller(MW_LANES, n - c));
    }
}

/* Into how many parts columns are cut, beside groups, so that at least 7 of 8 threads always have
 * work.  Sums do not depend on it. */
static int64_t
parts_for_team(int64_t groups)
{
    int64_t threads = 1, parts = 1;
#if defined(_OPENMP)
    threads = omp_get_max_threads();
#endif
    for (; parts < threads; parts++) {
        int64_t tasks = groups * parts, rounds = (tasks + threads - 1) / threads;
        if (8 * tasks >= 7 * rounds * threads)
            break;
    }
    return parts;
}

static void
sum_rows(struct mw_gradient g, const struct addends *a, int64_t rows, int64_t columns)
{
    float sum[GROUPS][STRIP] __attribute__((aligned(64)));
    int64_t spans = (rows + SPAN - 1) / SPAN, group_rows = (spans + GROUPS - 1) / GROUPS * SPAN;
    int64_t groups = rows > 0 ? (rows + group_rows - 1) / group_rows : 0;
    int64_t parts = parts_for_team(groups);
    for (int64_t column = 0; column < columns; column += STRIP) {
        int64_t n = mw_smaller(STRIP, columns - column);
        int64_t width = (n + MW_LINE * parts - 1) / (MW_LINE * parts) * MW_LINE;
#pragma omp parallel for collapse(2) schedule(static)
        for (int64_t group = 0; group < groups; group++)
            for (int64_t c = 0; c < n; c += width)
                sum_group(sum[group] + c, a, group * group_rows,
                          mw_smaller((group + 1) * group_rows, rows), column + c,
                          mw_smaller(width, n - c));
        put_strip(g, sum, groups, column, n);
    }
}

/* Sums are on the stack. */
int64_t
MW_CPU(row_sums_scratch_bytes)(int64_t rows, int64_t columns, int threads)
{
    (void)rows, (void)columns, (void)threads;
    return 0;
}

void
MW_CPU(norm_weight_gradient)(struct mw_gradient dweight, const mw_element *dy, const mw_element *x,
                             const float *mean, const float *rstd, int64_t rows, int64_t columns,
                             void *scratch)
{
    const struct addends addends = {dy, x, mean, rstd, columns};
    (void)scratch;
    sum_rows(dweight, &addends, rows, columns);
}

void
MW_CPU(bias_gradient)(struct mw_gradient dbias, const mw_element *dy, int64_t ld_dy, int64_t rows,
                      int64_t columns, void *scratch)
{
    const struct addends addends = {.dy = dy, .ld = ld_dy};
    (void)scratch;
    sum_rows(dbias, &addends, rows, columns);
}
