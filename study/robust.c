#include "study/robust.h"

#include <glib.h>
#include <math.h>

#define QUANTILE 1.959963984540054 /* of the normal distribution at 0.975 */
/* All of n blocks hold a median with 1 - 2 / 2^n, a ratio of n to n with 1 - 2 / C(2n, n): of fewer
 * no confidence is stated. */
#define LEVEL_BLOCKS_MIN 6
#define RATIO_BLOCKS_MIN 5
#define BLOCKS_MAX 200      /* bounds the differences that are sorted */
#define LAGS_SHARE 5        /* correlation is looked at over a fifth of the steps */
#define SERIES_MAX 10000    /* bounds what is looked at for correlation */
#define MAD_TO_SIGMA 1.4826 /* of normal noise */
#define CLIPPED_SIGMAS 3.0  /* an outlier must not hide what goes on around it */
#define UNCORRELATED 0.05
#define BLOCK_OF_MEMORY 2.0 /* a block's steps to those that know of each other */

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts the values. */
static double
median_of(double *values, size_t count)
{
    if (!count)
        return NAN;
    qsort(values, count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double
mw_robust_median(const double *values, size_t count)
{
    g_autofree double *known = g_new(double, count + 1);
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i]))
            known[n++] = values[i];
    return median_of(known, n);
}

/* --- blocks ---------------------------------------------------------------------------------- */

/* Differences from the median, the largest of them clipped. */
static double *
centred(const double *values, size_t count)
{
    double *out = g_memdup2(values, count * sizeof *values);
    g_autofree double *apart = g_new(double, count);
    double middle = mw_robust_median(values, count);

    for (size_t i = 0; i < count; i++)
        apart[i] = fabs(values[i] - middle);
    double most = CLIPPED_SIGMAS * MAD_TO_SIGMA * median_of(apart, count);
    for (size_t i = 0; i < count; i++)
        out[i] = most > 0 ? CLAMP(out[i] - middle, -most, most) : 0;
    return out;
}

static double
correlation(const double *values, size_t count, size_t lag)
{
    double product = 0, square = 0;

    for (size_t i = 0; i < count; i++)
        square += values[i] * values[i];
    for (size_t i = lag; i < count; i++)
        product += values[i] * values[i - lag];
    return square > 0 ? product / square : 0;
}

/* Over how many steps what slows one of them goes on: the integrated autocorrelation time. */
static double
memory_of(const double *values, size_t count)
{
    g_autofree double *apart = centred(values, count);
    double steps = 1;

    for (size_t lag = 1; lag <= count / LAGS_SHARE; lag++) {
        double r = correlation(apart, count, lag);
        if (r < UNCORRELATED)
            break;
        steps += 2 * r;
    }
    return steps;
}

/* The medians of so many parts of alike length.  g_free. */
static double *
medians_of(const double *values, size_t count, size_t parts)
{
    double *medians = g_new(double, parts + 1);

    for (size_t i = 0; i < parts; i++) {
        size_t from = i * count / parts, to = (i + 1) * count / parts;
        medians[i] = mw_robust_median(values + from, to - from);
    }
    return medians;
}

/* The medians of *blocks blocks, which are at least so many where there are as many values.
 * g_free. */
static double *
block_medians(const double *values, size_t count, size_t least, size_t *blocks)
{
    if (count > SERIES_MAX) {
        g_autofree double *fewer = medians_of(values, count, SERIES_MAX);
        return block_medians(fewer, SERIES_MAX, least, blocks);
    }
    double memory = memory_of(values, count);
    size_t length = memory > 1 ? (size_t)ceil(BLOCK_OF_MEMORY * memory) : 1;
    *blocks = MIN(MAX(count / length, MIN(count, least)), BLOCKS_MAX);
    return medians_of(values, count, *blocks);
}

/* --- intervals ------------------------------------------------------------------------------- */

/* Which of `all` sorted values is the lower end, from its mean rank and deviation. */
static size_t
lower_end(double mean, double deviation)
{
    double rank = floor(mean - QUANTILE * deviation);

    return rank > 1 ? (size_t)rank - 1 : 0;
}

static double
confidence_of(size_t blocks, size_t least)
{
    return blocks < least ? NAN : MW_ROBUST_CONFIDENCE;
}

static double *
logarithms(const double *values, size_t count)
{
    double *out = g_new(double, count + 1);

    for (size_t i = 0; i < count; i++)
        out[i] = log(values[i]);
    return out;
}

/* Hodges and Lehmann's shift, with the interval that inverts Mann and Whitney's test. */
struct mw_robust_interval
mw_robust_ratio(const double *a, size_t a_count, const double *b, size_t b_count)
{
    g_autofree double *log_a = logarithms(a, a_count), *log_b = logarithms(b, b_count);
    size_t n, m;
    g_autofree double *x = block_medians(log_a, a_count, RATIO_BLOCKS_MIN, &n);
    g_autofree double *y = block_medians(log_b, b_count, RATIO_BLOCKS_MIN, &m);
    size_t pairs = n * m;
    g_autofree double *shifts = g_new(double, pairs);

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m; j++)
            shifts[i * m + j] = y[j] - x[i];
    double shift = median_of(shifts, pairs);
    double deviation = sqrt((double)pairs * (double)(n + m + 1) / 12);
    size_t low = lower_end((double)pairs / 2, deviation);
    return (struct mw_robust_interval){exp(shift), exp(shifts[low]), exp(shifts[pairs - 1 - low]),
                                       confidence_of(MIN(n, m), RATIO_BLOCKS_MIN), MIN(n, m)};
}

/* Order statistics: the interval that inverts the sign test. */
struct mw_robust_interval
mw_robust_level(const double *values, size_t count)
{
    size_t n;
    g_autofree double *x = block_medians(values, count, LEVEL_BLOCKS_MIN, &n);
    double middle = median_of(x, n);
    size_t low = lower_end((double)n / 2, sqrt((double)n) / 2);

    return (struct mw_robust_interval){middle, x[low], x[n - 1 - low],
                                       confidence_of(n, LEVEL_BLOCKS_MIN), n};
}
