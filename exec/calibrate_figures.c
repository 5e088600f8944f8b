/* Figures from samples. */
#include <math.h>
#include <stdlib.h>

#include "exec/calibrate.h"

#define SETTLED 0.05

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of sorted samples; linear between neighbours. */
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
    return (struct mw_measure){percentile(samples, count, 0.1), percentile(samples, count, 0.5),
                               percentile(samples, count, 0.9), count};
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
    *intercept = 0; /* through the origin, then */
    *slope = wxy / wxx;
}

double
mw_calibrate_share(double x, double y)
{
    double both = fmin(fmax(x + y, 1), 2);

    return both >= 1.5 ? 2 - both : 1 / (2 * both - 1);
}

static double
median_of(const double *rates, int count)
{
    g_autofree double *copy = g_memdup2(rates, (gsize)count * sizeof *rates);

    return mw_measure_of(copy, count).typical;
}

int
mw_calibrate_settled(const double *rates, int count, int span)
{
    for (int i = span; i + span <= count; i++) {
        double before = median_of(rates + i - span, span), after = median_of(rates + i, span);
        if (fabs(after - before) <= SETTLED * before)
            return i - span;
    }
    return -1;
}
