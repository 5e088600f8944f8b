/*
 * What the fastest works say of those that were not measured.
 *
 * A work takes what it costs to start, and its FLOPs at the machine's peak (the roofline of
 * calibrate_curve.c): so a rate that waits for cores held down at small sizes says nothing of
 * larger ones, and is not theirs.
 */
#include <math.h>

#include "exec/calibrate_internal.h"

/* Attention may leave out the half of its products that a causal mask hides, counted or not. */
#define ATTENTION_PART 0.5
/* What a full cache costs at most (calibrate_curve.c). */
#define KEPT 0.5

static double
best_of(const struct mw_measure *rates, int points)
{
    double best = 0;

    for (int i = 0; i < points; i++)
        if (rates[i].samples)
            best = fmax(best, rates[i].typical);
    return best;
}

/* `times` the work of one of this rate: the start is there once. */
static double
grown(double rate, double times, double peak)
{
    double start_part = fmax(0, 1 - rate / peak); /* of the smaller one's time */

    return rate * times / (start_part + times * (1 - start_part));
}

/* Typical is at least `least`; a range that has been told to be too slow reaches to the peak. */
static void
raise_to(struct mw_measure *rate, double least, double peak)
{
    if (rate->typical >= least)
        return;
    rate->typical = least;
    rate->high = fmax(rate->high, peak);
}

static void
raise_points(const double *dims, struct mw_measure *rates, int points, double peak)
{
    int last = -1;

    for (int i = 0; i < points; i++)
        if (rates[i].samples)
            last = i;
        else if (last >= 0 && rates[last].typical > 0)
            raise_to(&rates[i], grown(rates[last].typical, pow(dims[i] / dims[last], 3), peak),
                     peak);
}

/* However wide the ranges are: half of a smaller one's rate is no property of the machine. */
static void
leave_out_slow(struct mw_calibration *m, struct mw_measure *rates, int points, bool *contradicts)
{
    double best = 0;

    for (int i = 0; i < points; i++) {
        if (!rates[i].samples)
            continue;
        if (rates[i].typical < KEPT * best) {
            raise_to(&rates[i], KEPT * best, best);
            rates[i].samples = 0;
            contradicts[i] = true;
            m->disturbances.sizes_out++;
        }
        best = fmax(best, rates[i].typical);
    }
}

/* A layer that had to be small starts as many kernels as a large one. */
static void
raise_layer(struct mw_calibration *m, double peak)
{
    double rows = (double)m->layer_rows, columns = (double)m->layer_columns;

    if (!(m->layer_flops.typical > 0) || !(rows * columns > 0))
        return;
    double times =
        (double)m->layer_rows_wished / rows * pow((double)m->layer_columns_wished / columns, 2);
    if (times > 1)
        raise_to(&m->layer_flops, fmin(grown(m->layer_flops.typical, times, peak), KEPT * peak),
                 peak);
}

void
mw_calibrate_bound(struct mw_calibration *m)
{
    leave_out_slow(m, m->matmul_flops, m->points, m->matmul_contradicts);
    leave_out_slow(m, m->attention_flops, m->attention_points, m->attention_contradicts);
    double attention = best_of(m->attention_flops, m->attention_points);
    double peak = fmax(fmax(best_of(m->matmul_flops, m->points), ATTENTION_PART * attention),
                       m->layer_flops.typical);

    if (!(peak > 0))
        return;
    raise_points(m->dim, m->matmul_flops, m->points, peak);
    if (attention > 0)
        raise_points(m->attention_dim, m->attention_flops, m->attention_points, attention);
    raise_layer(m, peak);
}
