/* Divides the time among the parts of a calibration. */
#include <math.h>

#include "calibrate/internal.h"

/* The machines that have the part, and its weight: roughly its seconds out of sixty. */
static const struct {
    double weight;
    enum { ALWAYS, APART, NOT_APART, IN_FP32, RANKS, RANKS_APART } where;
} parts[MW_CALIBRATE_PARTS] = {
    [MW_CALIBRATE_WARM] = {2, APART},
    [MW_CALIBRATE_PRODUCTS] = {12, ALWAYS},
    [MW_CALIBRATE_PRODUCTS_AGAIN] = {4, ALWAYS},
    [MW_CALIBRATE_PRODUCTS_FP32] = {2, IN_FP32},
    [MW_CALIBRATE_OPERATORS] = {7, ALWAYS},
    [MW_CALIBRATE_UPDATE] = {5, ALWAYS},
    [MW_CALIBRATE_LAYER] = {4, ALWAYS},
    [MW_CALIBRATE_ATTENTION] = {6, ALWAYS},
    [MW_CALIBRATE_ATTENTION_AGAIN] = {2, ALWAYS},
    [MW_CALIBRATE_HEADS] = {2, ALWAYS},
    [MW_CALIBRATE_COPIES_IN] = {1, ALWAYS},
    [MW_CALIBRATE_COPIES_BACK] = {1, ALWAYS},
    [MW_CALIBRATE_COPIES_BOTH] = {4, APART},
    [MW_CALIBRATE_FILE] = {3, ALWAYS},
    [MW_CALIBRATE_BLOCKS] = {5, ALWAYS},
    [MW_CALIBRATE_READS] = {3, ALWAYS},
    [MW_CALIBRATE_WRITES] = {3, ALWAYS},
    [MW_CALIBRATE_READS_AND_WRITES] = {4, ALWAYS},
    [MW_CALIBRATE_BESIDE_UPDATES] = {4, NOT_APART},
    [MW_CALIBRATE_BESIDE_COPIES] = {4, ALWAYS},
    [MW_CALIBRATE_BESIDE_TRANSFERS] = {6, ALWAYS},
    [MW_CALIBRATE_SMALL_REQUESTS] = {4, ALWAYS},
    [MW_CALIBRATE_COLLECTIVES] = {6, RANKS},
    [MW_CALIBRATE_BESIDE_COLLECTIVES] = {6, RANKS},
    [MW_CALIBRATE_COLLECTIVE_KINDS] = {6, RANKS_APART},
    [MW_CALIBRATE_COLLECTIVE_KINDS_AGAIN] = {2, RANKS_APART},
    [MW_CALIBRATE_DRIFT] = {2, ALWAYS},
};

static bool
has(const struct mw_calibrator *c, int part)
{
    bool ranks = mw_calibrate_ranks(c) > 1, apart = c->backend->apart;

    switch (parts[part].where) {
    case APART:
        return apart;
    case NOT_APART:
        return !apart;
    case IN_FP32:
        return mw_calibrate_has_fp32(c);
    case RANKS:
        return ranks;
    case RANKS_APART:
        return ranks && apart;
    default:
        return true;
    }
}

void
mw_calibrate_budget_open(struct mw_calibrator *c, double seconds)
{
    c->budget.end_s = c->budget.until_s = mw_calibrate_now_s() + seconds;
}

/* Later parts get the time that earlier parts did not need. */
static double
part_s(const struct mw_calibrator *c, enum mw_calibrate_part part)
{
    double weights = 0;

    for (int i = 0; i < MW_CALIBRATE_PARTS; i++)
        if (!c->budget.begun[i] && has(c, i))
            weights += parts[i].weight;
    double left_s = fmax(0, c->budget.end_s - mw_calibrate_now_s());
    return left_s * parts[part].weight / fmax(weights, parts[part].weight);
}

bool
mw_calibrate_agree(struct mw_calibrator *c, double *value, GError **error)
{
    if (mw_calibrate_rank(c) > 0)
        *value = 0;
    return mw_calibrate_sum(c, value, 1, error);
}

bool
mw_calibrate_meet(struct mw_calibrator *c, GError **error)
{
    return mw_calibrate_ranks(c) == 1 || mw_ranks_barrier(c->options->ranks, 0, error);
}

bool
mw_calibrate_least(struct mw_calibrator *c, double *value, GError **error)
{
    const int ranks = mw_calibrate_ranks(c);
    g_autofree double *all = g_new0(double, ranks);

    all[mw_calibrate_rank(c)] = *value;
    if (!mw_calibrate_sum(c, all, ranks, error))
        return false;
    for (int i = 0; i < ranks; i++)
        *value = fmin(*value, all[i]);
    return true;
}

/* The least windows per measure: two works alone and both at once, twice. */
#define WINDOWS 6
#define WINDOW_SHORT_S 0.03

bool
mw_calibrate_begin(struct mw_calibrator *c, enum mw_calibrate_part part, const char *what,
                   int measures, GError **error)
{
    if (!mw_calibrate_step(c, what, error))
        return false;
    double seconds = part_s(c, part);
    if (!mw_calibrate_agree(c, &seconds, error))
        return false;
    c->budget.begun[part] = true;
    c->budget.until_s = mw_calibrate_now_s() + seconds;
    c->budget.measures = measures;
    c->window_s =
        fmin(fmax(seconds / MAX(measures, 1) / WINDOWS, WINDOW_SHORT_S), c->window_wish_s);
    g_debug("%s: %.2f s", what, seconds);
    return true;
}

bool
mw_calibrate_has_time(struct mw_calibrator *c, enum mw_calibrate_part part, double needs_s,
                      bool *yes, GError **error)
{
    double value = mw_calibrate_now_s() + needs_s <= c->budget.end_s;

    if (!mw_calibrate_agree(c, &value, error))
        return false;
    *yes = value > 0;
    c->budget.begun[part] = c->budget.begun[part] || !*yes;
    return true;
}

struct mw_measure
mw_calibrate_left_out(const struct mw_calibrator *c, double low, double typical, double high)
{
    return (struct mw_measure){.low = low, .typical = typical, .high = high, .wished = c->rounds};
}

double
mw_calibrate_share_s(const struct mw_calibrator *c)
{
    return fmax(0, c->budget.until_s - mw_calibrate_now_s()) / MAX(c->budget.measures, 1);
}
