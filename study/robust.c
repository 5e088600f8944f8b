#include "study/robust.h"

#include <glib.h>
#include <math.h>
#include <stdbool.h>

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
/* Noise that lasts longer than such a part of a series shows in the parts' means, which differ more
 * than their steps and memory explain: by more than chi squared of 9 at 99% over 9. */
#define PARTS 10
#define PARTS_STEPS_MIN 20
#define SLOW_VARIANCE (21.666 / (PARTS - 1))

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

/* Over how many steps what slows one of them goes on, of what is centred: the integrated
 * autocorrelation time.  *ends: it does so within `lags` steps, as far as so many values tell. */
static double
memory_of(const double *apart, size_t count, size_t lags, bool *ends)
{
    double steps = 1, r = 0;

    for (size_t lag = 1; lag <= lags; lag++) {
        r = correlation(apart, count, lag);
        if (r < UNCORRELATED)
            break;
        steps += 2 * r;
    }
    *ends = r < fmax(UNCORRELATED, 2 / sqrt((double)count));
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

static double
variance(const double *values, size_t count)
{
    double sum = 0, square = 0;

    for (size_t i = 0; i < count; i++)
        sum += values[i] / (double)count;
    for (size_t i = 0; i < count; i++)
        square += (values[i] - sum) * (values[i] - sum) / (double)(count - 1);
    return square;
}

/* Whether noise goes on for longer than half a part of the series: then steps know of each other
 * beyond that, or the parts' means differ by more than steps of so short a memory explain. */
static bool
is_slow(const double *apart, size_t count)
{
    double means[PARTS] = {0};
    bool ends;

    if (count < PARTS_STEPS_MIN)
        return false;
    double memory = memory_of(apart, count, count / PARTS / 2, &ends);
    for (size_t p = 0; p < PARTS; p++) {
        size_t from = p * count / PARTS, to = (p + 1) * count / PARTS;
        for (size_t i = from; i < to; i++)
            means[p] += apart[i] / (double)(to - from);
    }
    double expected = variance(apart, count) * memory * PARTS / (double)count;
    return !ends || variance(means, PARTS) > SLOW_VARIANCE * expected;
}

/* A series as its blocks. */
struct blocks {
    double *medians; /* sorted where the caller does */
    size_t count;
    bool slow;        /* noise lasts too long for them: */
    double low, high; /* ends of the medians of long parts; else both are the series' level */
};

static void
take_blocks(struct blocks *out, const double *values, size_t count, size_t least)
{
    if (count > SERIES_MAX) {
        g_autofree double *fewer = medians_of(values, count, SERIES_MAX);
        take_blocks(out, fewer, SERIES_MAX, least);
        return;
    }
    g_autofree double *apart = centred(values, count);
    bool ends;
    double memory = memory_of(apart, count, count / LAGS_SHARE, &ends);
    size_t length = memory > 1 ? (size_t)ceil(BLOCK_OF_MEMORY * memory) : 1;
    size_t wanted = MIN(count, least), parts = MIN(count, PARTS);
    g_autofree double *levels = medians_of(values, count, parts);
    out->slow = is_slow(apart, count);
    out->count = MIN(MAX(count / length, wanted), BLOCKS_MAX);
    out->medians = medians_of(values, count, out->count);
    double middle = median_of(levels, parts);
    out->low = out->slow ? levels[0] : middle;
    out->high = out->slow ? levels[parts - 1] : middle;
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
confidence_of(size_t blocks, size_t least, bool slow)
{
    return blocks < least || slow ? NAN : MW_ROBUST_CONFIDENCE;
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
    struct blocks x, y;

    take_blocks(&x, log_a, a_count, RATIO_BLOCKS_MIN);
    take_blocks(&y, log_b, b_count, RATIO_BLOCKS_MIN);
    size_t pairs = x.count * y.count, blocks = MIN(x.count, y.count);
    bool slow = x.slow || y.slow;
    g_autofree double *shifts = g_new(double, pairs);
    for (size_t i = 0; i < x.count; i++)
        for (size_t j = 0; j < y.count; j++)
            shifts[i * y.count + j] = y.medians[j] - x.medians[i];
    double shift = median_of(shifts, pairs);
    double deviation = sqrt((double)pairs * (double)(x.count + y.count + 1) / 12);
    size_t end = lower_end((double)pairs / 2, deviation);
    double low = shifts[end], high = shifts[pairs - 1 - end];
    g_free(x.medians);
    g_free(y.medians);
    return (struct mw_robust_interval){exp(shift),
                                       exp(slow ? MIN(low, y.low - x.high) : low),
                                       exp(slow ? MAX(high, y.high - x.low) : high),
                                       confidence_of(blocks, RATIO_BLOCKS_MIN, slow),
                                       blocks,
                                       slow};
}

/* Order statistics: the interval that inverts the sign test. */
struct mw_robust_interval
mw_robust_level(const double *values, size_t count)
{
    struct blocks x;

    take_blocks(&x, values, count, LEVEL_BLOCKS_MIN);
    double middle = median_of(x.medians, x.count);
    size_t end = lower_end((double)x.count / 2, sqrt((double)x.count) / 2);
    double low = x.medians[end], high = x.medians[x.count - 1 - end];
    g_free(x.medians);
    return (struct mw_robust_interval){middle,
                                       x.slow ? MIN(low, x.low) : low,
                                       x.slow ? MAX(high, x.high) : high,
                                       confidence_of(x.count, LEVEL_BLOCKS_MIN, x.slow),
                                       x.count,
                                       x.slow};
}
