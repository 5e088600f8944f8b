/* Samples of a measure: how many, which are taken again, and curves of several sizes. */
#include <math.h>
#include <string.h>

#include "exec/calibrate_internal.h"
#include "exec/steal.h"

/* A tick of steal is 10 ms: less than this says nothing of it. */
#define BATCH_S 0.2
#define RETAKES 3

struct taking {
    struct mw_calibrator *c;
    const struct mw_calibrate_samples *of;
    int wished, least, count;
    double until_s, longest_s;
    double stolen; /* of its time, the worst batch that was kept */
    double values[MW_CALIBRATE_VALUES_MAX][MW_CALIBRATE_SAMPLES_MAX];
};

/* Of ranks that meet in each sample, rank 0 says. */
static bool
decide(const struct taking *t, bool *yes, GError **error)
{
    double value = *yes;

    if (t->of->together && !mw_calibrate_agree(t->c, &value, error))
        return false;
    *yes = value > 0;
    return true;
}

static bool
take_one(struct taking *t, GError **error)
{
    double began_s = mw_calibrate_now_s(), values[MW_CALIBRATE_VALUES_MAX];

    if (!t->of->take(t->of->state, t->count, values, error))
        return false;
    for (int v = 0; v < t->of->values; v++)
        t->values[v][t->count] = values[v];
    t->count++;
    t->longest_s = fmax(t->longest_s, mw_calibrate_now_s() - began_s);
    return true;
}

/* Up to `last`, or as many as make a batch: 0. */
static bool
fill_batch(struct taking *t, int last, GError **error)
{
    double began_s = mw_calibrate_now_s();
    bool more = true;

    while (more) {
        if (!take_one(t, error))
            return false;
        double now_s = mw_calibrate_now_s();
        bool batch = now_s - began_s >= (t->c->options->quick ? 0 : BATCH_S);
        more = last ? t->count < last
                    : t->count < t->least || (!batch && now_s + t->longest_s <= t->until_s);
        more = more && t->count < MW_CALIBRATE_SAMPLES_MAX;
        if (!decide(t, &more, error))
            return false;
    }
    return true;
}

/* Part of the time that was taken, at worst: all threads wait for the one whose core it was. */
struct batch {
    double time; /* of the clock's */
    bool disturbed;
};

static bool
take_batch_once(struct taking *t, int last, struct batch *batch, GError **error)
{
    struct mw_steal before, after;
    double began_s = mw_calibrate_now_s();

    mw_steal_read(&before);
    if (!fill_batch(t, last, error))
        return false;
    mw_steal_read(&after);
    double elapsed_s = mw_calibrate_now_s() - began_s, stolen_s = mw_steal_s(&before, &after);
    t->c->steal.told = after.told;
    batch->time = elapsed_s >= BATCH_S ? fmin(stolen_s / elapsed_s, 1) : 0;
    batch->disturbed = mw_steal_disturbs(batch->time * elapsed_s, elapsed_s, after.cores);
    return true;
}

static void
copy_batch(double to[][MW_CALIBRATE_SAMPLES_MAX], double from[][MW_CALIBRATE_SAMPLES_MAX],
           int first, int count)
{
    for (int v = 0; v < MW_CALIBRATE_VALUES_MAX; v++)
        memcpy(to[v] + first, from[v] + first, (size_t)count * sizeof(double));
}

/* Taken again while there is time, and the least stolen is kept. */
static bool
take_batch(struct taking *t, GError **error)
{
    double kept[MW_CALIBRATE_VALUES_MAX][MW_CALIBRATE_SAMPLES_MAX];
    struct batch least = {INFINITY, true}, batch;
    const int first = t->count;
    int last = 0;

    for (int attempt = 0; attempt <= RETAKES; attempt++) {
        double began_s = mw_calibrate_now_s();
        t->count = first;
        if (!take_batch_once(t, last, &batch, error))
            return false;
        last = t->count;
        if (batch.time < least.time) {
            least = batch;
            copy_batch(kept, t->values, first, last - first);
        }
        double now_s = mw_calibrate_now_s();
        bool again =
            batch.disturbed && attempt < RETAKES && 2 * now_s - began_s <= t->c->budget.until_s;
        if (!decide(t, &again, error))
            return false;
        if (!again)
            break;
        t->c->steal.again++;
    }
    copy_batch(t->values, kept, first, last - first);
    t->c->steal.samples++;
    if (least.disturbed) {
        t->c->steal.kept++;
        t->stolen = fmax(t->stolen, least.time);
    }
    return true;
}

/* What the hypervisor took made the sample slower, or another one faster beside it. */
#define STOLEN_MOST 0.5

static struct mw_measure
measure_of(struct taking *t, int value)
{
    struct mw_measure m = mw_measure_of(t->values[value], t->count);
    double rest = 1 - fmin(t->stolen, STOLEN_MOST);

    m.low *= rest;
    m.high /= rest;
    mw_measure_widen(&m, t->wished);
    return m;
}

bool
mw_calibrate_take_samples(struct mw_calibrator *c, const struct mw_calibrate_samples *samples,
                          struct mw_measure *measures, GError **error)
{
    struct taking t = {.c = c,
                       .of = samples,
                       .wished = samples->wished ? samples->wished : c->rounds,
                       .least = MAX(samples->least, 1),
                       .until_s = mw_calibrate_now_s() + mw_calibrate_share_s(c)};
    bool more = true;

    c->budget.measures = MAX(c->budget.measures - 1, 0);
    while (more) {
        if (!take_batch(&t, error))
            return false;
        more = t.count < t.wished && t.count < MW_CALIBRATE_SAMPLES_MAX &&
               mw_calibrate_now_s() + t.longest_s <= t.until_s && !mw_calibrate_failed(c);
        if (!decide(&t, &more, error))
            return false;
    }
    for (int v = 0; v < samples->values; v++)
        measures[v] = measure_of(&t, v);
    return true;
}

/* --- curves ---------------------------------------------------------------------------------- */

/* Seconds of the least sample, by the measured point below, or above; 0: there is none. */
static double
least_s(const struct mw_calibrate_curve *curve, const struct mw_measure *rates, int point)
{
    int known = point;

    while (known >= 0 && !rates[known].samples)
        known--;
    for (int i = point; known < 0 && i < curve->points; i++)
        if (rates[i].samples)
            known = i;
    return known < 0 ? 0 : curve->units(curve->state, point) / rates[known].typical;
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

bool
mw_calibrate_take_curve(struct mw_calibrator *c, const struct mw_calibrate_curve *curve,
                        struct mw_measure *rates, GError **error)
{
    int left = curve->points;

    for (int odd = 0; odd < 2; odd++)
        for (int i = odd; i < curve->points; i += 2)
            if (!take_point(c, curve, rates, i, left--, error))
                return false;
    mw_calibrate_fill(curve->dims, rates, curve->points);
    return true;
}
