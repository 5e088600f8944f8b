/*
 * Measures the first works again at the end, to see whether the machine is as fast as it was.
 *
 * A hypervisor that throttles, a processor that gets hot, or a neighbour that comes or goes changes
 * all rates alike, so that no rate contradicts another.  It is unknown which of the two speeds will
 * last, so ranges reach to both.  A change that begins before the first sample and ends after the
 * last one cannot be seen.
 */
#include <math.h>

#include "calibrate/internal.h"

/* Ratio of the two medians.  A smaller change is not reported; ranges that overlap say nothing. */
#define SPOKEN 1.1

#define AT(field) offsetof(struct mw_calibration, field)

/* Which of the two works stands for a figure; a device that is apart has clocks of its own. */
enum teller { PRODUCTS, MEMORY, MEMORY_UNLESS_APART, NOBODY_IF_APART };

static const struct {
    size_t offset;
    enum teller teller;
    bool seconds; /* seconds; else a rate */
} figures[] = {
    {AT(layer_flops), PRODUCTS, false},
    {AT(launch_s), PRODUCTS, true},
    {AT(device_bytes_per_s), MEMORY_UNLESS_APART, false},
    {AT(pass_bytes_per_s[MW_CALIBRATION_SUMS]), MEMORY_UNLESS_APART, false},
    {AT(pass_bytes_per_s[MW_CALIBRATION_LAYER_NORM]), MEMORY_UNLESS_APART, false},
    {AT(pass_bytes_per_s[MW_CALIBRATION_RMS_NORM]), MEMORY_UNLESS_APART, false},
    {AT(pass_bytes_per_s[MW_CALIBRATION_ACTIVATION]), MEMORY_UNLESS_APART, false},
    {AT(pass_bytes_per_s[MW_CALIBRATION_GATED]), MEMORY_UNLESS_APART, false},
    {AT(loss_bytes_per_s), MEMORY_UNLESS_APART, false},
    {AT(update_params_per_s), MEMORY, false},
    {AT(host_bytes_per_s), MEMORY, false},
    {AT(norm_bytes_per_s), MEMORY, false},
    {AT(exact_bytes_per_s), MEMORY, false},
    {AT(h2d_bytes_per_s), NOBODY_IF_APART, false},
    {AT(d2h_bytes_per_s), NOBODY_IF_APART, false},
    {AT(node_h2d_bytes_per_s), NOBODY_IF_APART, false},
    {AT(node_d2h_bytes_per_s), NOBODY_IF_APART, false},
};

/* --- ranges ---------------------------------------------------------------------------------- */

/* Widens the range to include this multiple of the measured speed. */
static void
widen(struct mw_measure *m, double speed)
{
    if (speed > 1)
        m->high *= speed;
    else if (speed > 0)
        m->low *= speed;
}

static double
speed_of(const struct mw_calibration *out, enum teller teller)
{
    const struct mw_calibration_drift *drift = &out->drift;

    switch (teller) {
    case PRODUCTS:
        return drift->products;
    case MEMORY_UNLESS_APART:
        return out->apart ? drift->products : drift->updates;
    case NOBODY_IF_APART:
        return out->apart ? 1 : drift->updates;
    default:
        return drift->updates;
    }
}

static void
widen_all(struct mw_calibration *out)
{
    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++) {
        double speed = speed_of(out, figures[i].teller);
        bool inverse = figures[i].seconds && speed > 0;
        widen((struct mw_measure *)(void *)((char *)out + figures[i].offset),
              inverse ? 1 / speed : speed);
    }
    for (int i = 0; i < out->points; i++)
        widen(&out->matmul_flops[i], out->drift.products);
    for (int i = 0; i < out->attention_points; i++)
        widen(&out->attention_flops[i], out->drift.products);
}

/* --- the works ------------------------------------------------------------------------------- */

/* Adds up over all ranks, which have the same speed. */
static bool
add_up(struct mw_calibrator *c, struct mw_measure *m, GError **error)
{
    double values[] = {m->low, m->typical, m->high};

    if (!mw_calibrate_sum(c, values, G_N_ELEMENTS(values), error))
        return false;
    m->low = values[0];
    m->typical = values[1];
    m->high = values[2];
    return true;
}

/* If more than this part of a sample was waiting, it shows who else had the cores, not a drift. */
#define MOSTLY 0.5

static bool
compare(struct mw_calibrator *c, struct mw_measure first, struct mw_measure again, double *speed,
        GError **error)
{
    double waited = fmax(first.waited, again.waited) > MOSTLY ? 1 : 0;

    if (!mw_calibrate_sum(c, &waited, 1, error))
        return false;
    if (waited > 0)
        return true; /* drift could not be seen */
    if (!add_up(c, &first, error) || !add_up(c, &again, error))
        return false;
    bool apart = again.low > first.high || again.high < first.low;
    *speed = again.typical / first.typical;
    if (!apart || fabs(log(*speed)) < log(SPOKEN))
        *speed = 1;
    return true;
}

/* Chooses the largest point that there is time for, up to the size of those that run beside others;
 * -1 if there is none. */
static bool
choose_point(struct mw_calibrator *c, const struct mw_calibration *out, int *point, GError **error)
{
    double value = -1, share_s = mw_calibrate_share_s(c);

    for (int i = 0; i < out->points && c->scale->sizes[i] <= c->scale->beside; i++) {
        double seconds = mw_calibrate_products_s(out, i);
        if (seconds > 0 && seconds <= share_s)
            value = i;
    }
    if (!mw_calibrate_agree(c, &value, error))
        return false;
    *point = (int)value;
    return true;
}

static bool
compare_products(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    struct mw_measure again;
    int point;

    if (!choose_point(c, out, &point, error))
        return false;
    if (point < 0)
        return true;
    const struct mw_measure first = out->matmul_flops[point];
    return mw_calibrate_products_again(c, out, point, &again, error) &&
           mw_calibrate_good(c, error) && compare(c, first, again, &out->drift.products, error);
}

static bool
compare_memory(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    double seconds = (double)c->scale->params / out->update_params_per_s.low;
    double take = seconds <= mw_calibrate_share_s(c);
    struct mw_measure again;

    if (!mw_calibrate_agree(c, &take, error))
        return false;
    return !(take > 0) || (mw_calibrate_update_again(c, &again, error) &&
                           compare(c, out->update_params_per_s, again, &out->drift.updates, error));
}

bool
mw_calibrate_has_drifted(double speed)
{
    return speed > 0 && (speed < 1 || speed > 1);
}

static void
tell(const struct mw_calibrator *c, const struct mw_calibration_drift *drift)
{
    const double speeds[] = {drift->products, drift->updates};
    static const char *const works[] = {"matrix products", "updates in memory"};

    for (size_t i = 0; i < G_N_ELEMENTS(speeds); i++) {
        if (!mw_calibrate_has_drifted(speeds[i]) || !c->options->notice || mw_calibrate_rank(c) > 0)
            continue;
        g_autofree char *line = g_strdup_printf(
            "the speed of this machine changed while it was measured: at the end %s ran at %.0f%% "
            "of their first rate; ranges reach to both; calibrate again when it is steady",
            works[i], 100 * speeds[i]);
        c->options->notice(c->options->data, line);
    }
}

bool
mw_calibrate_drift(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    if (!mw_calibrate_begin(c, MW_CALIBRATE_DRIFT, "the first products and updates again", 2,
                            error) ||
        !compare_products(c, out, error))
        return false;
    c->budget.measures = 1;
    if (!compare_memory(c, out, error))
        return false;
    widen_all(out);
    tell(c, &out->drift);
    return true;
}
