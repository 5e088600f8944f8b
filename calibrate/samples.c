/* Takes the samples of a measure, and takes some of them again. */
#include <math.h>
#include <string.h>

#include "calibrate/internal.h"

/* A tick of steal is 10 ms, so a shorter batch does not show it. */
#define BATCH_S 0.2
#define RETAKES 3
/* The part of a measure's time that may be spent on repeating single samples that waited for cores.
 * If others have the cores all the time, no patience helps. */
#define PATIENCE_PART 0.25

struct samples {
    double values[MW_CALIBRATE_VALUES_MAX][MW_CALIBRATE_SAMPLES_MAX];
    double waited[MW_CALIBRATE_SAMPLES_MAX]; /* fraction of their time, for cores */
    double left[MW_CALIBRATE_SAMPLES_MAX];   /* fraction of the cores */
    double undisturbed[MW_CALIBRATE_SAMPLES_MAX];
};

struct taking {
    struct mw_calibrator *c;
    const struct mw_calibrate_samples *of;
    int wished, least, count;
    double until_s, longest_s;
    double stolen;                          /* fraction of its time, in the worst batch that was
                                             * kept */
    const struct mw_calibrate_first *first; /* until it is taken; then NULL */
    struct samples it;
};

/* If ranks meet in each sample, rank 0 decides. */
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
take_number(struct taking *t, int number, double *values, GError **error)
{
    double began_s = mw_calibrate_now_s();

    t->c->waited = t->c->undisturbed = 0;
    t->c->left = 1;
    if (!t->of->take(t->of->state, number, values, error))
        return false;
    /* This rank no longer does what the others wait for, so it says so at once. */
    if (t->of->together && !mw_calibrate_good(t->c, error))
        return false;
    t->longest_s = fmax(t->longest_s, mw_calibrate_now_s() - began_s);
    return true;
}

static void
put(struct taking *t, int number, const double *values)
{
    for (int v = 0; v < t->of->values; v++)
        t->it.values[v][number] = values[v];
    t->it.waited[number] = t->c->waited;
    t->it.left[number] = t->c->left;
    t->it.undisturbed[number] = t->c->undisturbed;
}

static bool
take_one(struct taking *t, GError **error)
{
    double values[MW_CALIBRATE_VALUES_MAX];

    if (!take_number(t, t->count, values, error))
        return false;
    put(t, t->count++, values);
    return true;
}

/* Fills up to `last`, or with as many as make a batch if that is 0. */
static bool
fill_batch(struct taking *t, double began_s, int last, GError **error)
{
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

struct batch {
    double took_s;
    double time; /* the largest part that was taken: all threads wait for the one that lost its
                  * core */
    bool disturbed;
};

/* If the first sample was measured before, the batch began with it. */
static double
begin_batch(struct taking *t, struct mw_steal *before)
{
    const struct mw_calibrate_first *first = t->first;

    t->first = NULL;
    if (first)
        *before = first->stolen;
    else
        mw_steal_read(before);
    return first ? first->began_s : mw_calibrate_now_s();
}

static bool
take_batch_once(struct taking *t, int last, struct batch *batch, GError **error)
{
    struct mw_steal before, after;
    double began_s = begin_batch(t, &before);

    if (!fill_batch(t, began_s, last, error))
        return false;
    mw_steal_read(&after);
    double elapsed_s = mw_calibrate_now_s() - began_s, stolen_s = mw_steal_s(&before, &after);
    t->c->steal.told = after.told;
    batch->took_s = elapsed_s;
    batch->time = elapsed_s >= BATCH_S ? fmin(stolen_s / elapsed_s, 1) : 0;
    batch->disturbed = mw_steal_disturbs(batch->time * elapsed_s, elapsed_s, after.cores);
    return true;
}

static void
copy_batch(struct samples *to, const struct samples *from, int first, int count)
{
    const size_t bytes = (size_t)count * sizeof(double);

    for (int v = 0; v < MW_CALIBRATE_VALUES_MAX; v++)
        memcpy(to->values[v] + first, from->values[v] + first, bytes);
    memcpy(to->waited + first, from->waited + first, bytes);
    memcpy(to->left + first, from->left + first, bytes);
    memcpy(to->undisturbed + first, from->undisturbed + first, bytes);
}

/* Takes a batch again while there is time, and keeps the one with the least steal. */
static bool
take_batch(struct taking *t, GError **error)
{
    struct batch least = {.time = INFINITY, .disturbed = true}, batch;
    struct samples kept;
    const int first = t->count;
    int last = 0;

    for (int attempt = 0; attempt <= RETAKES; attempt++) {
        t->count = first;
        if (!take_batch_once(t, last, &batch, error))
            return false;
        last = t->count;
        if (batch.time < least.time) {
            least = batch;
            copy_batch(&kept, &t->it, first, last - first);
        }
        bool again = batch.disturbed && attempt < RETAKES &&
                     mw_calibrate_now_s() + batch.took_s <= t->c->budget.until_s;
        if (!decide(t, &again, error))
            return false;
        if (!again)
            break;
        t->c->steal.again++;
    }
    copy_batch(&t->it, &kept, first, last - first);
    t->c->steal.samples++;
    if (least.disturbed) {
        t->c->steal.kept++;
        t->stolen = fmax(t->stolen, least.time);
    }
    return true;
}

/* --- samples that the others contradict ------------------------------------------------------ */

/* At most one sample in this many, and one more, is taken again. */
#define AGAIN_PART 4

static int
find_outlier(const struct taking *t, const bool *judged)
{
    int found = -1;

    for (int v = 0; v < t->of->values && found < 0; v++)
        found = mw_calibrate_outlier(t->it.values[v], t->count, MAX(t->of->kinds, 1), judged);
    return found;
}

/* Distance from the middle of its kind, over all values of a sample. */
static double
distance(const struct taking *t, int number, const double *values)
{
    const int kinds = MAX(t->of->kinds, 1);
    double sum = 0;

    for (int v = 0; v < t->of->values; v++) {
        double median = mw_calibrate_kind_median(t->it.values[v], t->count, kinds, number % kinds);
        sum += median > 0 ? fabs(values[v] / median - 1) : 0;
    }
    return sum;
}

/* Ranks that meet in a sample repeat the same one, which rank 0 chooses. */
static bool
agree_on(const struct taking *t, int *number, GError **error)
{
    double value = *number;

    if (t->of->together && !mw_calibrate_agree(t->c, &value, error))
        return false;
    *number = (int)value;
    return true;
}

/* Keeps the one of the two that is closer to the median of all. */
static bool
take_again(struct taking *t, int number, GError **error)
{
    double values[MW_CALIBRATE_VALUES_MAX], before[MW_CALIBRATE_VALUES_MAX];

    for (int v = 0; v < t->of->values; v++)
        before[v] = t->it.values[v][number];
    if (!take_number(t, number, values, error))
        return false;
    const double told = fmax(t->it.undisturbed[number], t->c->undisturbed);
    if (distance(t, number, values) < distance(t, number, before))
        put(t, number, values);
    t->it.undisturbed[number] = told; /* the higher of both bounds: among samples that waited it is
                                       * the odd one */
    t->c->disturbances.samples_again++;
    return true;
}

static bool
retake_outliers(struct taking *t, GError **error)
{
    bool judged[MW_CALIBRATE_SAMPLES_MAX] = {false};

    for (int n = 0; n <= t->count / AGAIN_PART; n++) {
        int number = find_outlier(t, judged);
        if (mw_calibrate_now_s() + t->longest_s > t->until_s)
            number = -1;
        if (!agree_on(t, &number, error))
            return false;
        if (number < 0)
            break;
        judged[number] = true;
        if (!take_again(t, number, error))
            return false;
    }
    return true;
}

/* --- the figure ------------------------------------------------------------------------------ */

/* Time taken by the hypervisor makes the sample slower, or another one beside it faster.  Waiting
 * threads only make it slower. */
#define STOLEN_MOST 0.5

/* Samples that waited show what the machine did at the time.  If that is slower by this factor, the
 * speed of the undisturbed machine is that of the least disturbed pieces, because waits only slow
 * down; on all cores also that of the median sample, because the wait of each single core is less
 * well known. */
#define TOLERANCE 1.25

static struct mw_measure
alone_of(const struct taking *t)
{
    double whole[MW_CALIBRATE_SAMPLES_MAX], pieces[MW_CALIBRATE_SAMPLES_MAX];

    for (int i = 0; i < t->count; i++) {
        whole[i] = t->it.values[0][i] / t->it.left[i];
        pieces[i] = t->it.undisturbed[i];
    }
    struct mw_measure alone = mw_measure_of(t->of->together ? whole : pieces, t->count);
    /* What ranks share is fastest for one while another waits for a core: the middle counts. */
    if (!t->of->together)
        alone.typical = alone.high = fmax(alone.high, mw_measure_of(whole, t->count).typical);
    mw_measure_widen(&alone, t->wished);
    return alone;
}

static struct mw_measure
measure_of(struct taking *t, int value)
{
    const struct mw_measure alone = alone_of(t);
    struct mw_measure m = mw_measure_of(t->it.values[value], t->count);
    double rest = 1 - fmin(t->stolen, STOLEN_MOST);

    m.waited = mw_measure_of(t->it.waited, t->count).typical;
    mw_measure_widen(&m, t->wished);
    m.low *= rest;
    m.high /= fmin(rest, 1 - m.waited);
    if (!t->of->rates || value > 0 ||
        mw_measure_of(t->it.left, t->count).typical > MW_CALIBRATE_LEFT)
        return m;
    if (alone.typical > TOLERANCE * m.typical)
        m.typical = alone.typical;
    m.high = fmax(m.high, alone.high);
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
                       .first = samples->first,
                       .longest_s = samples->first ? samples->first->took_s : 0,
                       .until_s = mw_calibrate_now_s() + mw_calibrate_share_s(c)};
    bool more = true;

    c->patience_s = fmin(c->patience_s, PATIENCE_PART * mw_calibrate_share_s(c));
    c->budget.measures = MAX(c->budget.measures - 1, 0);
    while (more) {
        if (!take_batch(&t, error))
            return false;
        more = t.count < t.wished && t.count < MW_CALIBRATE_SAMPLES_MAX &&
               mw_calibrate_now_s() + t.longest_s <= t.until_s && !mw_calibrate_failed(c);
        if (!decide(&t, &more, error))
            return false;
    }
    if (!retake_outliers(&t, error))
        return false;
    c->budget.sample_s = t.longest_s;
    for (int v = 0; v < samples->values; v++)
        measures[v] = measure_of(&t, v);
    return true;
}
