/*
 * A rate over size: which sizes are measured, and what they say of one another.
 *
 * Rates rise with the size of a work to one top, where the machine's bounds are reached (the
 * roofline of Williams, Waterman and Patterson, CACM 52(4), 2009), and may fall behind it, when
 * caches no longer help: a size that is slower than a smaller one and a larger one is a dent, that
 * part of a closing over sizes which the closing fills (Serra, Image Analysis and Mathematical
 * Morphology, 1982).  And a work takes no longer than a larger one of its kind.  What other
 * programs do to a team of threads makes dents that no number of samples shows, when they last as
 * long as the samples do.
 */
#include <math.h>

#include "exec/calibrate_internal.h"

/* Dents of which no one would speak: ranges may miss each other by so much. */
#define TOLERANCE 1.25
/* A library's poor choice for one size, or a cache that is full, costs no more than this; and so a
 * size that is slower than so much of what the others tell does not measure the machine. */
#define KEPT 0.5
#define RETAKES 3

/* --- the order ------------------------------------------------------------------------------- */

/* Seconds of the least sample, by the nearest measured point below, if that keeps up with those
 * before, or the nearest above; 0: there is none. */
static double
least_s(const struct mw_calibrate_curve *curve, const struct mw_measure *rates, int point)
{
    double rate = 0;

    for (int i = 0; i < curve->points && (i <= point || !(rate > 0)); i++)
        if (rates[i].samples)
            rate = fmax(rates[i].typical, KEPT * rate);
    return rate > 0 ? curve->units(curve->state, point) / rate : 0;
}

static bool
take_point(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
           struct mw_measure *rates, int point, int left, GError **error)
{
    double left_s = c->budget.until_s - mw_calibrate_now_s();
    double take = least_s(curve, rates, point) <= left_s / 2 || point == 0;

    c->budget.measures = left;
    if (!mw_calibrate_agree(c, &take, error))
        return false;
    return !(take > 0) || curve->measure(curve->state, point, &rates[point], error);
}

/* --- contradictions -------------------------------------------------------------------------- */

/* The fastest of points from `from` on by `step`, at the slow end of its range; 0: none. */
static double
fastest(const struct mw_measure *rates, int points, int from, int step)
{
    double rate = 0;

    for (int i = from; i >= 0 && i < points; i += step)
        if (rates[i].samples)
            rate = fmax(rate, rates[i].low);
    return rate;
}

/* It takes no longer than any larger one. */
static double
told_by_time(const struct mw_calibrate_curve *curve, const struct mw_measure *rates, int point)
{
    double units = curve->units(curve->state, point), rate = 0;

    for (int i = point + 1; i < curve->points; i++)
        if (rates[i].samples)
            rate = fmax(rate, rates[i].low * fmin(units / curve->units(curve->state, i), 1));
    return rate;
}

/* What can be no property of the machine. */
static double
told_for_sure(const struct mw_calibrate_curve *curve, const struct mw_measure *rates, int point)
{
    double below = fastest(rates, curve->points, point - 1, -1);
    double above = fastest(rates, curve->points, point + 1, 1);

    return fmax(fmin(below, above), told_by_time(curve, rates, point));
}

double
mw_calibrate_told(const struct mw_calibrate_curve *curve, const struct mw_measure *rates, int point)
{
    double below = fastest(rates, curve->points, point - 1, -1);

    return fmax(told_for_sure(curve, rates, point), KEPT * below);
}

/* How many times slower than it can be; 0: it agrees with the others, or was not measured. */
static double
contradiction(double told, const struct mw_measure *rate)
{
    return rate->samples && told > TOLERANCE * rate->high ? told / rate->high : 0;
}

/* Those that may be measured again, by all ranks' figures, and the worst of them; -1: none. */
static bool
find_worst(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
           const struct mw_measure *rates, const int *tries, int *count, int *worst, GError **error)
{
    double wrong[MW_MATMUL_POINTS_MAX] = {0};

    for (int i = 0; i < curve->points; i++)
        if (tries[i] < RETAKES)
            wrong[i] = contradiction(mw_calibrate_told(curve, rates, i), &rates[i]);
    if (!mw_calibrate_sum(c, wrong, curve->points, error))
        return false;
    *worst = -1;
    *count = 0;
    for (int i = 0; i < curve->points; i++) {
        *count += wrong[i] > 0;
        if (wrong[i] > 0 && (*worst < 0 || wrong[i] > wrong[*worst]))
            *worst = i;
    }
    return true;
}

/* What disturbs makes slower: the faster one is nearer to the truth. */
static bool
measure_again(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
              struct mw_measure *rates, int point, GError **error)
{
    struct mw_measure before = rates[point], again = {0};

    rates[point].samples = 0; /* nothing is to be told by it meanwhile */
    if (!curve->measure(curve->state, point, &again, error))
        return false;
    rates[point] = again.typical > before.typical ? again : before;
    c->disturbances.sizes_again++;
    return true;
}

static bool
open_part(struct mw_calibrator *c, const struct mw_calibrate_curve *curve, GError **error)
{
    g_autofree char *what =
        g_strdup_printf("%s again, of sizes that contradict others", curve->what);

    return c->budget.begun[curve->again] || mw_calibrate_begin(c, curve->again, what, 1, error);
}

static bool
take_contradicting_again(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
                         struct mw_measure *rates, GError **error)
{
    int tries[MW_MATMUL_POINTS_MAX] = {0}, count, worst;

    for (;;) {
        if (!find_worst(c, curve, rates, tries, &count, &worst, error))
            return false;
        if (worst < 0)
            break;
        if (!open_part(c, curve, error))
            return false;
        double left_s = c->budget.until_s - mw_calibrate_now_s();
        double take = least_s(curve, rates, worst) <= left_s / 2;
        c->budget.measures = count;
        if (!mw_calibrate_agree(c, &take, error))
            return false;
        tries[worst] = take > 0 ? tries[worst] + 1 : RETAKES;
        if (take > 0 && !measure_again(c, curve, rates, worst, error))
            return false;
    }
    c->budget.begun[curve->again] = true; /* its time is the others' */
    return true;
}

/* The worst first: what is left out contradicts nobody. */
static void
settle(struct mw_calibrator *c, const struct mw_calibrate_curve *curve, struct mw_measure *rates)
{
    for (;;) {
        double most = 0;
        int worst = -1;
        for (int i = 0; i < curve->points; i++) {
            double wrong = contradiction(mw_calibrate_told(curve, rates, i), &rates[i]);
            if (wrong > most) {
                most = wrong;
                worst = i;
            }
        }
        if (worst < 0)
            return;
        if (contradiction(KEPT * told_for_sure(curve, rates, worst), &rates[worst]) > 0) {
            rates[worst].samples = 0;
            curve->contradicts[worst] = true;
            c->disturbances.sizes_out++;
        } else {
            rates[worst].high = mw_calibrate_told(curve, rates, worst);
        }
    }
}

bool
mw_calibrate_take_curve(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
                        struct mw_measure *rates, GError **error)
{
    int left = curve->points;

    for (int odd = 0; odd < 2; odd++)
        for (int i = odd; i < curve->points; i += 2)
            if (!take_point(c, curve, rates, i, left--, error))
                return false;
    if (!take_contradicting_again(c, curve, rates, error))
        return false;
    settle(c, curve, rates);
    mw_calibrate_fill(curve->dims, rates, curve->points);
    return true;
}
