/* Measures rates of works, alone and side by side. */
#include <math.h>
#include <time.h>

#include "base/clock.h"
#include "calibrate/internal.h"
#include "exec/host/thread.h"

static double
system_now_s(void)
{
    return 1e-9 * (double)mw_clock_now_ns();
}

static double (*clock_now_s)(void) = system_now_s;

void
mw_calibrate_set_clock(double (*now_s)(void))
{
    clock_now_s = now_s ? now_s : system_now_s;
}

double
mw_calibrate_now_s(void)
{
    return clock_now_s();
}

double
mw_calibrate_rate_of_pieces(const struct mw_calibrate_work *work, double seconds, double *fastest)
{
    const double began_s = mw_calibrate_now_s();
    double units = 0, elapsed_s = 0;

    *fastest = 0;
    do {
        const double piece = work->run(work->state), before_s = elapsed_s;
        units += piece;
        elapsed_s = mw_calibrate_now_s() - began_s;
        if (elapsed_s > before_s)
            *fastest = fmax(*fastest, piece / (elapsed_s - before_s));
    } while (elapsed_s < seconds);
    return units / elapsed_s;
}

double
mw_calibrate_rate(const struct mw_calibrate_work *work, double seconds)
{
    double fastest;

    return mw_calibrate_queues(work) ? mw_calibrate_queued_rate(work, seconds)
                                     : mw_calibrate_rate_of_pieces(work, seconds, &fastest);
}

void
mw_calibrate_once(const struct mw_calibrate_work *work)
{
    if (mw_calibrate_queues(work))
        mw_calibrate_queued_once(work);
    else
        work->run(work->state);
}

double
mw_calibrate_used_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct measured {
    struct mw_calibrator *c;
    const struct mw_calibrate_work *work;
    double seconds;
    bool together;
    double first; /* a rate that is already known, used once; 0: none */
    double first_waited, first_left, first_undisturbed;
};

/* A rank that took a sample that waited again would do so while the others no longer work. */
static double
rate_once(struct mw_calibrator *c, const struct mw_calibrate_work *work, double seconds)
{
    const double patience_s = c->patience_s;

    c->patience_s = 0;
    double rate = mw_calibrate_quiet_rate(c, work, seconds);
    c->patience_s = patience_s;
    return rate;
}

static bool
meet(const struct measured *m, GError **error)
{
    return !m->together || mw_calibrate_meet(m->c, error);
}

static bool
take_rate(void *data, int number, double *rate, GError **error)
{
    struct measured *m = data;

    if (number > 0 || !(m->first > 0)) {
        if (!meet(m, error))
            return false;
        *rate = m->together ? rate_once(m->c, m->work, m->seconds)
                            : mw_calibrate_quiet_rate(m->c, m->work, m->seconds);
        return true;
    }
    *rate = m->first;
    m->first = 0; /* if it is taken again, it is measured */
    m->c->waited = m->first_waited;
    m->c->left = m->first_left;
    m->c->undisturbed = m->first_undisturbed;
    return true;
}

/* A first piece that warms up caches counts as well if it takes more than this part of the time. */
#define LONG 0.3

static bool
take_first(struct measured *m, struct mw_calibrate_first *first, bool *counts, GError **error)
{
    struct mw_calibrator *c = m->c;
    const double share_s = mw_calibrate_share_s(c);

    if (!meet(m, error))
        return false;
    first->began_s = mw_calibrate_now_s();
    mw_steal_read(&first->stolen);
    c->waited = 0;
    c->left = 1;
    m->first = rate_once(c, m->work, 0);
    m->first_waited = c->waited;
    m->first_left = c->left;
    m->first_undisturbed = c->undisturbed;
    first->took_s = mw_calibrate_now_s() - first->began_s;
    double value = first->took_s > LONG * share_s;
    if (m->together && !mw_calibrate_agree(c, &value, error))
        return false;
    *counts = value > 0;
    m->first = *counts ? m->first : 0;
    return true;
}

static bool
measure(struct measured *m, struct mw_measure *measure, GError **error)
{
    const struct mw_calibration_disturbances disturbances = m->c->disturbances;
    struct mw_calibrate_first first;
    struct mw_calibrate_samples samples = {
        .take = take_rate, .state = m, .values = 1, .rates = true, .together = m->together};
    bool counts;

    if (!take_first(m, &first, &counts, error))
        return false;
    if (counts)
        samples.first = &first;
    else
        m->c->disturbances = disturbances; /* this run is no sample */
    return mw_calibrate_take_samples(m->c, &samples, measure, error);
}

struct mw_measure
mw_calibrate_measure(struct mw_calibrator *c, const struct mw_calibrate_work *work, double seconds)
{
    struct measured m = {.c = c, .work = work, .seconds = seconds};
    struct mw_measure figure;

    measure(&m, &figure, NULL); /* NULL: a work alone cannot fail */
    return figure;
}

bool
mw_calibrate_measure_together(struct mw_calibrator *c, const struct mw_calibrate_work *work,
                              struct mw_measure *figure, GError **error)
{
    struct measured m = {.c = c, .work = work, .together = mw_calibrate_ranks(c) > 1};

    return measure(&m, figure, error);
}

/* Two works begin at once.  Each continues until both have had their time, so that neither is alone
 * during its own. */
struct pair {
    GMutex mutex;
    GCond changed;
    int ready, over;
    double seconds;
};

struct side {
    const struct mw_calibrator *c;
    struct pair *pair;
    struct mw_calibrate_work work;
    double rate;
};

static void
begin_together(struct pair *pair)
{
    g_mutex_lock(&pair->mutex);
    pair->ready++;
    g_cond_broadcast(&pair->changed);
    while (pair->ready < 2)
        g_cond_wait(&pair->changed, &pair->mutex);
    g_mutex_unlock(&pair->mutex);
}

static void *
run_side(void *data)
{
    struct side *side = data;

    mw_calibrate_enter(side->c);
    mw_calibrate_once(&side->work); /* after this the thread's team exists and the caches are
                                     * warm */
    begin_together(side->pair);
    side->rate = mw_calibrate_rate(&side->work, side->pair->seconds);
    g_atomic_int_inc(&side->pair->over);
    while (g_atomic_int_get(&side->pair->over) < 2)
        mw_calibrate_once(&side->work);
    return NULL;
}

GThread *
mw_calibrate_thread(struct mw_calibrator *c, GThreadFunc run, void *data)
{
    GError *error = NULL;
    GThread *thread = mw_thread_start("calibrate", run, data, &error);

    if (!thread)
        mw_calibrate_fail(c, error);
    return thread;
}

void
mw_calibrate_rates(struct mw_calibrator *c, const struct mw_calibrate_work works[2], double seconds,
                   double rates[2])
{
    struct pair pair = {.seconds = seconds};
    struct side sides[2] = {{c, &pair, works[0], 0}, {c, &pair, works[1], 0}};

    g_mutex_init(&pair.mutex);
    g_cond_init(&pair.changed);
    GThread *other = mw_calibrate_thread(c, run_side, &sides[1]);
    if (other) {
        run_side(&sides[0]);
        g_thread_join(other);
    }
    for (int i = 0; i < 2; i++)
        rates[i] = sides[i].rate;
    g_cond_clear(&pair.changed);
    g_mutex_clear(&pair.mutex);
}

/* --- both ways at once ----------------------------------------------------------------------- */

static bool
take_both(void *data, int number, double *values, GError **error)
{
    struct mw_calibrate_pair *pair = data;
    double seconds = pair->c->window_s, alone[2], both[2], kept[2];

    for (int i = 0; i < 2; i++) {
        if (!mw_calibrate_meet(pair->c, error))
            return false;
        alone[i] = mw_calibrate_rate(&pair->works[i], seconds / 2);
    }
    if (!mw_calibrate_meet(pair->c, error))
        return false;
    mw_calibrate_rates(pair->c, pair->works, seconds, both);
    for (int i = 0; i < 2; i++)
        kept[i] = both[i] / alone[i];
    g_debug("the first keeps %.2f, the second %.2f of %.3g and %.3g a second", kept[0], kept[1],
            alone[0], alone[1]);
    values[0] = fmin(fmax(kept[0] + kept[1], 1), 2);
    for (int i = 0; pair->each && i < 2; i++)
        values[1 + i] = fmin(kept[i], 1);
    return true;
}

bool
mw_calibrate_duplex(struct mw_calibrate_pair *pair, struct mw_measure *duplex, GError **error)
{
    struct mw_measure measures[3];
    const struct mw_calibrate_samples samples = {
        .take = take_both, .state = pair, .values = pair->each ? 3 : 1, .together = true};

    if (!mw_calibrate_take_samples(pair->c, &samples, measures, error))
        return false;
    *duplex = measures[0];
    mw_measure_clamp(duplex, 1, 2);
    for (int i = 0; pair->each && i < 2; i++) {
        pair->each[i] = measures[1 + i];
        mw_measure_clamp(&pair->each[i], 0, 1);
    }
    return true;
}
