/*
 * Measures a rate over size: chooses the sizes, and compares them with each other.
 *
 * Rates rise with the size of a work to one top, where the machine's bounds are reached (the
 * roofline of Williams, Waterman and Patterson, CACM 52(4), 2009).  They may fall after it, when
 * caches no longer help.  A size that is slower than both a smaller and a larger one is a dent,
 * which a closing over sizes would fill (Serra, Image Analysis and Mathematical Morphology, 1982).
 * Also, a work takes no longer than a larger one of its kind.  Other programs that disturb a team
 * of threads for as long as the samples last make dents that no number of samples would show.
 */
#include <math.h>

#include "calibrate/internal.h"

/* Dents smaller than this are not reported: ranges may miss each other by this factor. */
#define TOLERANCE 1.25
/* A library's poor choice for one size, or a full cache, costs no more than this factor.  So a size
 * that is slower than the others by more does not measure the machine. */
#define KEPT 0.5
#define RETAKES 3

/* --- the order ------------------------------------------------------------------------------- */

void
mw_calibrate_pace_add(struct mw_calibrate_pace *pace, double units, const struct mw_measure *rate)
{
    if (!rate->samples || !(rate->low > 0))
        return;
    if (!(pace->rate > 0))
        pace->start_s = units / rate->low;
    pace->rate = fmax(pace->rate, rate->low);
}

void
mw_calibrate_pace_of_cores(struct mw_calibrate_pace *pace, const struct mw_calibrator *c)
{
    if (pace->rate > 0)
        pace->rate = fmax(pace->rate, KEPT * c->peak_flops * c->cores_left);
}

double
mw_calibrate_pace_s(const struct mw_calibrate_pace *pace, double units)
{
    return pace->rate > 0 ? pace->start_s + units / pace->rate : 0;
}

bool
mw_calibrate_pace_fits(const struct mw_calibrate_pace *pace, double units, double seconds)
{
    double work_s = mw_calibrate_pace_s(pace, units) - pace->start_s;

    return work_s <= fmax(seconds - pace->start_s, seconds / 2);
}

/* Seconds of the smallest sample; 0 if unknown. */
static double
least_s(const struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
        const struct mw_measure *rates, int point)
{
    struct mw_calibrate_pace pace = {0};

    for (int i = 0; i < curve->points; i++)
        mw_calibrate_pace_add(&pace, curve->units(curve->state, i), &rates[i]);
    if (curve->flops)
        mw_calibrate_pace_of_cores(&pace, c);
    return mw_calibrate_pace_s(&pace, curve->units(curve->state, point));
}

static bool
take_point(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
           struct mw_measure *rates, int point, int left, GError **error)
{
    double left_s = c->budget.until_s - mw_calibrate_now_s();
    double others_s =
        c->peak_flops > 0 ? 0 : left_s / 2; /* the largest size says more than all smaller ones */
    double take = least_s(c, curve, rates, point) <= left_s - others_s || point == 0;

    c->budget.measures = left;
    if (!mw_calibrate_agree(c, &take, error))
        return false;
    return !(take > 0) || curve->measure(curve->state, point, &rates[point], error);
}

/* --- contradictions -------------------------------------------------------------------------- */

/* The fastest of every `step`th point from `from` on, taken at the slow end of its range; 0 if
 * there is none. */
static double
fastest(const struct mw_measure *rates, int points, int from, int step)
{
    double rate = 0;

    for (int i = from; i >= 0 && i < points; i += step)
        if (rates[i].samples)
            rate = fmax(rate, rates[i].low);
    return rate;
}

/* The least rate that follows from time: a work takes no longer than any larger one. */
static double
bound_by_time(const struct mw_calibrate_curve *curve, const struct mw_measure *rates, int point)
{
    double units = curve->units(curve->state, point), rate = 0;

    for (int i = point + 1; i < curve->points; i++)
        if (rates[i].samples)
            rate = fmax(rate, rates[i].low * fmin(units / curve->units(curve->state, i), 1));
    return rate;
}

/* The least rate that follows for sure: a lower one is no property of the machine. */
static double
sure_bound(const struct mw_calibrate_curve *curve, const struct mw_measure *rates, int point)
{
    double below = fastest(rates, curve->points, point - 1, -1);
    double above = fastest(rates, curve->points, point + 1, 1);

    return fmax(fmin(below, above), bound_by_time(curve, rates, point));
}

/* The largest size can be compared only with the one below it. */
static double
bound_by_neighbour(const struct mw_calibrate_curve *curve, const struct mw_measure *rates,
                   int point)
{
    int below = point - 1;

    if (fastest(rates, curve->points, point + 1, 1) > 0)
        return 0;
    while (below >= 0 && !rates[below].samples)
        below--;
    return below >= 0 ? rates[below].low : 0;
}

double
mw_calibrate_least_rate(const struct mw_calibrate_curve *curve, const struct mw_measure *rates,
                        int point)
{
    double below = fmax(KEPT * fastest(rates, curve->points, point - 1, -1),
                        bound_by_neighbour(curve, rates, point));

    return fmax(sure_bound(curve, rates, point), below);
}

/* The factor by which the rate is slower than possible; 0 if it agrees with the others, or was not
 * measured. */
static double
contradiction(double told, const struct mw_measure *rate)
{
    return rate->samples && told > TOLERANCE * rate->high ? told / rate->high : 0;
}

/* Finds the point that the figures of all ranks contradict most, among those that may be measured
 * again; -1 if there is none.  All ranks continue with the same point. */
static bool
find_worst(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
           const struct mw_measure *rates, const int *tries, int *count, int *worst, GError **error)
{
    double wrong[MW_MATMUL_POINTS_MAX] = {0};

    for (int i = 0; i < curve->points; i++)
        if (tries[i] < RETAKES)
            wrong[i] = contradiction(mw_calibrate_least_rate(curve, rates, i), &rates[i]);
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

/* Disturbances only slow down, so the faster of the two is closer to the truth. */
static bool
measure_again(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
              struct mw_measure *rates, int point, GError **error)
{
    struct mw_measure before = rates[point], again = {0};

    rates[point].samples = 0; /* excluded from the comparison until it is measured again */
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
        double take = least_s(c, curve, rates, worst) <= left_s / 2;
        c->budget.measures = count;
        if (!mw_calibrate_agree(c, &take, error))
            return false;
        tries[worst] = take > 0 ? tries[worst] + 1 : RETAKES;
        if (take > 0 && !measure_again(c, curve, rates, worst, error))
            return false;
    }
    return true;
}

/* If one rank leaves a point out, all do, since a figure of the machine comes from all ranks. */
static bool
discard_or_widen_point(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
                       struct mw_measure *rates, int point, GError **error)
{
    double told = mw_calibrate_least_rate(curve, rates, point);
    double out = contradiction(KEPT * sure_bound(curve, rates, point), &rates[point]) > 0 ? 1 : 0;

    if (!mw_calibrate_sum(c, &out, 1, error))
        return false;
    if (out > 0) {
        rates[point].samples = 0;
        curve->contradicts[point] = true;
        c->disturbances.sizes_out++;
    } else {
        rates[point].high = fmax(rates[point].high, told);
    }
    return true;
}

/* Treats the worst first, since a point that is left out contradicts no other. */
static bool
end_contradictions(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
                   struct mw_measure *rates, GError **error)
{
    const int tries[MW_MATMUL_POINTS_MAX] = {0};
    int count, worst;

    do {
        if (!find_worst(c, curve, rates, tries, &count, &worst, error) ||
            (worst >= 0 && !discard_or_widen_point(c, curve, rates, worst, error)))
            return false;
    } while (worst >= 0);
    return true;
}

bool
mw_calibrate_take_points(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
                         struct mw_measure *rates, int behind, GError **error)
{
    int left = curve->points + behind;

    if (!take_point(c, curve, rates, 0, left--, error))
        return false;
    for (int i = curve->points - 1; i > 0 && c->peak_flops > 0; i--)
        if (!take_point(c, curve, rates, i, left--, error))
            return false;
    for (int odd = 0; odd < 2; odd++)
        for (int i = odd ? 1 : 2; i < curve->points && left > behind; i += 2)
            if (!take_point(c, curve, rates, i, left--, error))
                return false;
    return true;
}

bool
mw_calibrate_measure_curve(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
                           struct mw_measure *rates, GError **error)
{
    if (!take_contradicting_again(c, curve, rates, error) ||
        !end_contradictions(c, curve, rates, error))
        return false;
    mw_calibrate_interpolate(curve->dims, rates, curve->points);
    return true;
}

bool
mw_calibrate_take_curve(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
                        struct mw_measure *rates, GError **error)
{
    if (!mw_calibrate_take_points(c, curve, rates, 0, error) ||
        !mw_calibrate_measure_curve(c, curve, rates, error))
        return false;
    c->budget.begun[curve->again] = true; /* its time goes to the other parts */
    return true;
}
