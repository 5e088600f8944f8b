/* Measures copies between host and device: in one direction, in both, of all ranks at once, and
 * from one lane to another. */
#include <math.h>
#include <string.h>

#include "calibrate/internal.h"

static double
run_copy(void *data)
{
    const struct mw_calibrate_copies *copies = data;
    struct mw_calibrator *c = copies->c;
    char *device = c->ends[copies->to_host].device, *host = c->ends[copies->to_host].host;
    GError *error = NULL;

    if (!c->backend->copy(c->handle, copies->to_host ? host : device,
                          copies->to_host ? device : host, c->scale->copy_bytes, &error))
        mw_calibrate_fail(c, error);
    return (double)c->scale->copy_bytes;
}

struct mw_calibrate_work
mw_calibrate_copies_work(struct mw_calibrate_copies *copies)
{
    return (struct mw_calibrate_work){run_copy, copies, copies->c,
                                      copies->to_host ? MW_CALIBRATE_D2H : MW_CALIBRATE_H2D, 1};
}

/* --- hand-over: the wait of an op after the one that it depends on --------------------------- */

struct turns {
    GMutex mutex;
    GCond changed;
    int turn, taken, wished;
    double until_s; /* fewer turns if cores are busy */
};

#define TURNS_LEAST 10

static bool
goes_on(const struct turns *t)
{
    return t->taken < t->wished && (t->taken < TURNS_LEAST || mw_calibrate_now_s() < t->until_s);
}

static void *
take_turns(struct turns *t, int own)
{
    g_mutex_lock(&t->mutex);
    while (t->taken < t->wished) {
        if (t->turn == own) {
            t->turn = 1 - own;
            t->taken++;
            if (!goes_on(t))
                t->wished = t->taken;
            g_cond_broadcast(&t->changed);
        } else {
            g_cond_wait(&t->changed, &t->mutex);
        }
    }
    g_cond_broadcast(&t->changed);
    g_mutex_unlock(&t->mutex);
    return NULL;
}

static void *
other_turns(void *data)
{
    return take_turns(data, 1);
}

static double
handoff_s(struct mw_calibrator *c, int turns)
{
    struct turns t = {.wished = turns, .until_s = mw_calibrate_now_s() + c->window_s};

    g_mutex_init(&t.mutex);
    g_cond_init(&t.changed);
    GThread *other = mw_calibrate_thread(c, other_turns, &t);
    double began_s = mw_calibrate_now_s();
    if (other)
        take_turns(&t, 0);
    double elapsed_s = mw_calibrate_now_s() - began_s;
    if (other)
        g_thread_join(other);
    g_cond_clear(&t.changed);
    g_mutex_clear(&t.mutex);
    return elapsed_s / MAX(t.taken, 1);
}

static bool
take_latency(void *data, int number, double *seconds, GError **error)
{
    struct mw_calibrator *c = data;
    int count = c->scale->handoffs;

    *seconds = c->backend->begin ? mw_calibrate_chain_s(c, count) : handoff_s(c, count);
    return true;
}

static bool
measure_latency(struct mw_calibrator *c, struct mw_measure *latency_s, GError **error)
{
    const struct mw_calibrate_samples samples = {.take = take_latency, .state = c, .values = 1};

    return mw_calibrate_take_samples(c, &samples, latency_s, error);
}

/* --- rates ----------------------------------------------------------------------------------- */

/* Measures one direction alone: first the ranks in turn, then all of them at once. */
static bool
measure_way(struct mw_calibrate_copies *copies, struct mw_measure *alone,
            struct mw_measure *at_once, GError **error)
{
    struct mw_calibrator *c = copies->c;
    const struct mw_calibrate_work work = mw_calibrate_copies_work(copies);
    const char *what = copies->to_host ? "copies to the host" : "copies to the device";
    int ranks = mw_calibrate_ranks(c), measures = (ranks > 1 ? ranks + 1 : 1) + copies->to_host;

    if (!mw_calibrate_begin(c, copies->to_host ? MW_CALIBRATE_COPIES_BACK : MW_CALIBRATE_COPIES_IN,
                            what, measures, error))
        return false;
    for (int rank = 0; rank < mw_calibrate_ranks(c); rank++) {
        if (!mw_calibrate_step(c, what, error))
            return false;
        c->budget.measures = measures - rank;
        if (rank == mw_calibrate_rank(c))
            *alone = mw_calibrate_measure(c, &work, 0);
    }
    *at_once = *alone;
    if (mw_calibrate_ranks(c) == 1)
        return true;
    if (!mw_calibrate_step(c, "copies of all ranks", error))
        return false;
    c->budget.measures = 1 + copies->to_host;
    *at_once = mw_calibrate_measure(c, &work, 0);
    return true;
}

/* For a device whose copies have lanes of their own: the fractions of their rates alone that both
 * directions keep. */
static bool
measure_duplex(struct mw_calibrator *c, struct mw_measure *duplex, GError **error)
{
    struct mw_calibrate_copies copies[2] = {{.c = c}, {.c = c, .to_host = true}};
    struct mw_calibrate_pair pair = {
        .c = c,
        .works = {mw_calibrate_copies_work(&copies[0]), mw_calibrate_copies_work(&copies[1])}};

    return mw_calibrate_begin(c, MW_CALIBRATE_COPIES_BOTH, "copies both ways at once", 1, error) &&
           mw_calibrate_duplex(&pair, duplex, error);
}

bool
mw_calibrate_copies(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    struct mw_calibrate_copies in = {.c = c}, back = {.c = c, .to_host = true};

    if (!measure_way(&in, &out->h2d_bytes_per_s, &out->node_h2d_bytes_per_s, error) ||
        !measure_way(&back, &out->d2h_bytes_per_s, &out->node_d2h_bytes_per_s, error))
        return false;
    if (!measure_latency(c, &out->copy_latency_s, error))
        return false;
    return !c->backend->apart || measure_duplex(c, &out->copy_duplex, error);
}
