/*
 * Bounds the rates of works that were not measured by the fastest works that were.
 *
 * A work takes the time of its start, and its FLOPs at the machine's peak (the roofline of
 * calibrate/curve.c).  So a small size that was slow because it waited for cores does not bound
 * larger ones.
 */
#include <math.h>

#include "calibrate/internal.h"

/* Attention may skip the half of its products that a causal mask hides, whether or not they
 * count. */
#define ATTENTION_PART 0.5
/* The largest loss by a full cache (calibrate/curve.c). */
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

/* The rate of `times` as much work; its start counts only once. */
static double
grown(double rate, double times, double peak)
{
    double start_part = fmax(0, 1 - rate / peak); /* part of the smaller one's time */

    return rate * times / (start_part + times * (1 - start_part));
}

/* Raises the typical rate to at least `least`.  A range that was found too slow reaches up to
 * `reach`. */
static void
raise_to(struct mw_measure *rate, double least, double reach)
{
    if (rate->typical >= least)
        return;
    rate->typical = least;
    rate->high = fmax(fmax(rate->high, reach), least); /* `least` may be rounded up */
}

/* The fastest works: a typical rate that others may approach, and the highest rate. */
struct peak {
    double typical, most;
};

/* If more than this part of a sample was waiting, it only bounds the rate from below. */
#define MOSTLY 0.5

/* Raises points to the rate that the nearest smaller measured size implies.  A point that was
 * measured but mostly waited is raised to at most half of the peak, since full caches leave that
 * much of it. */
static void
raise_points(const double *work, struct mw_measure *rates, int points, struct peak peak)
{
    int last = -1;

    for (int i = 0; i < points; i++) {
        const bool measured = rates[i].samples > 0;
        if (last >= 0 && rates[last].typical > 0 && (!measured || rates[i].waited > MOSTLY)) {
            double least = grown(rates[last].typical, work[i] / work[last], peak.typical);
            raise_to(&rates[i], measured ? fmin(least, KEPT * peak.typical) : least, peak.most);
        }
        if (measured && rates[i].waited > MOSTLY)
            rates[i].high = fmax(rates[i].high, peak.most);
        if (measured)
            last = i;
    }
}

static void
raise_products(struct mw_calibration *m, struct peak peak)
{
    double work[MW_MATMUL_POINTS_MAX];

    for (int i = 0; i < m->points; i++)
        work[i] = pow(m->dim[i], 3);
    raise_points(work, m->matmul_flops, m->points, peak);
}

/* A piece has several sequences if they are shorter than its tokens.  Then its work grows with
 * their length, and only longer ones grow with the square. */
static void
raise_attention(struct mw_calibration *m, struct peak products)
{
    const double own = best_of(m->attention_flops, m->attention_points);
    struct peak peak = {own, own};
    double work[MW_MATMUL_POINTS_MAX], waited = 0;

    for (int i = 0; i < m->attention_points; i++) {
        double seq = sqrt(pow(m->attention_dim[i], 3) / MW_CALIBRATION_HEAD_DIM);
        work[i] = seq * fmax(seq, (double)m->attention_tokens);
        waited = fmax(waited, m->attention_flops[i].waited);
    }
    if (waited > MOSTLY) { /* then its own best is no peak */
        peak.typical = fmax(own, ATTENTION_PART * products.typical);
        peak.most = fmax(own, products.most / ATTENTION_PART);
    }
    if (own > 0)
        raise_points(work, m->attention_flops, m->attention_points, peak);
}

/* Whatever the ranges are, less than half of a smaller size's rate is no property of the
 * machine. */
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

/* A small layer starts as many kernels as a large one. */
static void
raise_layer(struct mw_calibration *m, struct peak peak)
{
    double rows = (double)m->layer_rows, columns = (double)m->layer_columns;

    if (!m->layer_flops.samples) { /* there was no time to measure it */
        m->layer_flops.low = KEPT * KEPT * peak.typical;
        m->layer_flops.typical = KEPT * peak.typical;
        m->layer_flops.high = peak.most;
    }
    if (!(m->layer_flops.typical > 0) || !(rows * columns > 0))
        return;
    double times =
        (double)m->layer_rows_wished / rows * pow((double)m->layer_columns_wished / columns, 2);
    if (times > 1 || m->layer_flops.waited > MOSTLY)
        raise_to(&m->layer_flops,
                 fmin(grown(m->layer_flops.typical, times, peak.typical), KEPT * peak.typical),
                 peak.most);
}

/* The largest part of its time that a mean of waiting samples may have lost. */
#define LOST 0.95

/* A product starts a kernel and also computes, and a team begins when each of its threads has woken
 * another, at most one after the other along a tree.  Such a start takes a hand-over, for which the
 * system gives a core at once. */
static void
bound_launch(struct mw_calibration *m)
{
    struct mw_measure *launch = &m->launch_s;
    const double product_s =
        m->matmul_flops[0].samples ? 2 * pow(m->dim[0], 3) / m->matmul_flops[0].typical : INFINITY;
    const double wakes_s = m->copy_latency_s.typical * (1 + log2(MAX(m->cores, 1)));

    if (m->apart || launch->waited <= MOSTLY)
        return;
    launch->typical = fmin(launch->typical, product_s);
    if (wakes_s > 0)
        launch->typical = fmin(launch->typical, wakes_s);
    launch->low = fmin(launch->low, (1 - LOST) * launch->typical);
}

/* If most of the time of passes over memory was the team's waiting, the memory's rate stands for
 * them. */
static void
bound_operators(const struct mw_measure *memory, struct mw_measure *operators)
{
    if (operators->waited > MOSTLY || (!operators->samples && operators->wished))
        raise_to(operators, KEPT * memory->typical, memory->high);
    if (!operators->samples)
        operators->low = KEPT * operators->typical;
}

/* If a team waited for cores, one thread stands for all: with its full rate, or with half of it if
 * two threads share a core. */
static struct peak
peak_of(const struct mw_calibration *m)
{
    double attention = best_of(m->attention_flops, m->attention_points);
    double seen = fmax(fmax(best_of(m->matmul_flops, m->points), ATTENTION_PART * attention),
                       m->layer_flops.typical);

    return (struct peak){fmax(seen, KEPT * m->peak_flops), fmax(seen, m->peak_flops)};
}

void
mw_calibrate_bound(struct mw_calibration *m)
{
    leave_out_slow(m, m->matmul_flops, m->points, m->matmul_contradicts);
    leave_out_slow(m, m->attention_flops, m->attention_points, m->attention_contradicts);
    bound_launch(m);
    for (int kind = 0; kind < MW_CALIBRATION_PASSES; kind++)
        bound_operators(&m->device_bytes_per_s, &m->pass_bytes_per_s[kind]);
    const struct peak peak = peak_of(m);

    if (!(peak.typical > 0))
        return;
    raise_products(m, peak);
    raise_attention(m, peak);
    raise_layer(m, peak);
}
