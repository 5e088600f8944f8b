/* Computes figures from samples. */
#include <math.h>
#include <stdlib.h>

#include "calibrate/calibrate.h"

#define SETTLED 0.05

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* A percentile of sorted samples, linear between neighbours. */
static double
percentile(const double *samples, int count, double part)
{
    double place = part * (count - 1);
    int below = (int)place;

    if (below >= count - 1)
        return samples[count - 1];
    return samples[below] + (place - below) * (samples[below + 1] - samples[below]);
}

struct mw_measure
mw_measure_of(double *samples, int count)
{
    if (count < 1)
        return (struct mw_measure){0};
    qsort(samples, (size_t)count, sizeof *samples, by_value);
    return (struct mw_measure){percentile(samples, count, 0.1),
                               percentile(samples, count, 0.5),
                               percentile(samples, count, 0.9),
                               count,
                               0,
                               0};
}

/* Student's t for a few samples divided by that for many, one-sided at ten percent. */
static const double students[] = {0, 0, 2.40, 1.47, 1.28, 1.20, 1.15, 1.12, 1.10, 1.09};

/* Range of a single sample if other samples show that samples vary; this value is a choice. */
#define UNSURE 0.25

void
mw_measure_widen(struct mw_measure *measure, int wished)
{
    int n = measure->samples;

    measure->wished = wished;
    if (n < 1 || n >= wished)
        return;
    double factor = n < (int)G_N_ELEMENTS(students) ? students[n] : 1.09;
    double least = UNSURE / n * fabs(measure->typical);
    double below = fmax(factor * (measure->typical - measure->low), least);
    double above = fmax(factor * (measure->high - measure->typical), least);
    measure->low = fmax(measure->typical - below, fmin(measure->low, measure->typical / 4));
    measure->high = measure->typical + above;
}

/* --- outliers -------------------------------------------------------------------------------- */

#define MODIFIED_Z 3.5
#define DEVIATION 0.6745 /* the median of distances of a normal distribution, in deviations */
#define OUTLIER_LEAST 0.05
#define OF_A_KIND 3 /* fewer samples cannot judge one another */

static double
median_of(const double *values, int count)
{
    g_autofree double *copy = g_memdup2(values, (gsize)count * sizeof *values);

    return mw_measure_of(copy, count).typical;
}

double
mw_calibrate_kind_median(const double *samples, int count, int kinds, int kind)
{
    g_autofree double *of_kind = g_new(double, count);
    int n = 0;

    for (int i = kind; i < count; i += kinds)
        of_kind[n++] = samples[i];
    return mw_measure_of(of_kind, n).typical;
}

int
mw_calibrate_outlier(const double *samples, int count, int kinds, const bool *judged)
{
    g_autofree double *distances = g_new(double, MAX(count, 1));
    int worst = -1;

    if (count / kinds < OF_A_KIND)
        return -1;
    for (int i = 0; i < count; i++) {
        double median = mw_calibrate_kind_median(samples, count, kinds, i % kinds);
        distances[i] = median > 0 ? fabs(samples[i] / median - 1) : 0;
    }
    double most = fmax(MODIFIED_Z / DEVIATION * median_of(distances, count), OUTLIER_LEAST);
    for (int i = 0; i < count; i++)
        if (!judged[i] && distances[i] > most && (worst < 0 || distances[i] > distances[worst]))
            worst = i;
    return worst;
}

void
mw_measure_clamp(struct mw_measure *measure, double least, double most)
{
    measure->low = fmin(fmax(measure->low, least), most);
    measure->typical = fmin(fmax(measure->typical, least), most);
    measure->high = fmin(fmax(measure->high, least), most);
}

/* --- curves ---------------------------------------------------------------------------------- */

/* Interpolates between the two over the logarithm of the size; the range covers both. */
static struct mw_measure
between(const double *dims, const struct mw_measure *rates, int below, int above, int point)
{
    const struct mw_measure *a = &rates[below], *b = &rates[above];
    double part = log(dims[point] / dims[below]) / log(dims[above] / dims[below]);

    return (struct mw_measure){.low = fmin(a->low, b->low),
                               .typical = a->typical + part * (b->typical - a->typical),
                               .high = fmax(a->high, b->high)};
}

/* Extrapolates with the value of the last one, plus or minus its distance from its neighbour. */
static struct mw_measure
beyond(const struct mw_measure *rates, int last, int next)
{
    const struct mw_measure *a = &rates[last];
    double change = next < 0 ? 1 : fabs(log(a->typical / rates[next].typical));

    return (struct mw_measure){
        .low = a->low / exp(change), .typical = a->typical, .high = a->high * exp(change)};
}

static int
measured_from(const struct mw_measure *rates, int points, int from, int step)
{
    while (from >= 0 && from < points && !rates[from].samples)
        from += step;
    return from < points ? from : -1;
}

void
mw_calibrate_interpolate(const double *dims, struct mw_measure *rates, int points)
{
    for (int i = 0; i < points; i++) {
        if (rates[i].samples)
            continue;
        int below = measured_from(rates, points, i, -1), above = measured_from(rates, points, i, 1);
        if (below >= 0 && above >= 0)
            rates[i] = between(dims, rates, below, above, i);
        else if (below >= 0)
            rates[i] = beyond(rates, below, measured_from(rates, points, below - 1, -1));
        else if (above >= 0)
            rates[i] = beyond(rates, above, measured_from(rates, points, above + 1, 1));
    }
}

double
mw_measure_spread(const struct mw_measure *measure)
{
    return measure->typical > 0 ? (measure->high - measure->low) / 2 / measure->typical : 0;
}

void
mw_calibrate_line(const double *x, const double *y, int count, double *intercept, double *slope)
{
    double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;

    for (int i = 0; i < count; i++) {
        double weight = 1 / (y[i] * y[i]);
        w += weight;
        wx += weight * x[i];
        wy += weight * y[i];
        wxx += weight * x[i] * x[i];
        wxy += weight * x[i] * y[i];
    }
    double spread = w * wxx - wx * wx;
    *slope = spread > 0 ? fmax((w * wxy - wx * wy) / spread, 0) : 0;
    *intercept = (wy - *slope * wx) / w;
    if (*intercept >= 0)
        return;
    *intercept = 0; /* then the line goes through the origin */
    *slope = wxy / wxx;
}

double
mw_calibrate_share(double x, double y)
{
    double both = fmin(fmax(x + y, 1), 2);

    return both >= 1.5 ? 2 - both : 1 / (2 * both - 1);
}

int
mw_calibrate_steady_from(const double *rates, int count, int span)
{
    for (int i = span; i + span <= count; i++) {
        double before = median_of(rates + i - span, span), after = median_of(rates + i, span);
        if (fabs(after - before) <= SETTLED * before)
            return i - span;
    }
    return -1;
}
