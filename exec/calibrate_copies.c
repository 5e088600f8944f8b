/* Copies between host and device: one way, both, of all ranks at once; from one lane to another. */
#include <math.h>
#include <string.h>

#include "exec/calibrate_internal.h"

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
                                      copies->to_host ? MW_CALIBRATE_D2H : MW_CALIBRATE_H2D};
}

/* --- another thread's turn: what an op waits for after the one that it depends on ---------------
 */

struct turns {
    GMutex mutex;
    GCond changed;
    int turn, left;
};

static void *
take_turns(struct turns *t, int own)
{
    g_mutex_lock(&t->mutex);
    while (t->left > 0) {
        if (t->turn == own) {
            t->turn = 1 - own;
            t->left--;
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
    struct turns t = {.left = turns};

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
    return elapsed_s / turns;
}

static struct mw_measure
measure_latency(struct mw_calibrator *c)
{
    double samples[MW_CALIBRATE_ROUNDS_MAX];
    int count = c->scale->handoffs;

    for (int r = 0; r < c->rounds; r++)
        samples[r] = c->backend->begin ? mw_calibrate_chain_s(c, count) : handoff_s(c, count);
    return mw_measure_of(samples, c->rounds);
}

/* --- rates ----------------------------------------------------------------------------------- */

/* One way alone, the ranks in turn, and all of them at once. */
static bool
measure_way(struct mw_calibrate_copies *copies, struct mw_measure *alone,
            struct mw_measure *at_once, GError **error)
{
    struct mw_calibrator *c = copies->c;
    const struct mw_calibrate_work work = mw_calibrate_copies_work(copies);

    for (int rank = 0; rank < mw_calibrate_ranks(c); rank++) {
        if (!mw_calibrate_step(c, copies->to_host ? "copies to the host" : "copies to the device",
                               error))
            return false;
        if (rank == mw_calibrate_rank(c))
            *alone = mw_calibrate_measure(c, &work, 0);
    }
    *at_once = *alone;
    if (mw_calibrate_ranks(c) == 1)
        return true;
    if (!mw_calibrate_step(c, "copies of all ranks", error))
        return false;
    *at_once = mw_calibrate_measure(c, &work, 0);
    return true;
}

/* Of a device whose copies are lanes of their own: parts of their rates alone that both ways keep.
 */
static bool
measure_duplex(struct mw_calibrator *c, struct mw_measure *duplex, GError **error)
{
    struct mw_calibrate_copies copies[2] = {{.c = c}, {.c = c, .to_host = true}};
    const struct mw_calibrate_work works[2] = {mw_calibrate_copies_work(&copies[0]),
                                               mw_calibrate_copies_work(&copies[1])};
    double samples[MW_CALIBRATE_ROUNDS_MAX];

    if (!mw_calibrate_step(c, "copies both ways at once", error))
        return false;
    for (int r = 0; r < c->rounds; r++) {
        double alone[2], both[2];
        for (int i = 0; i < 2; i++)
            alone[i] = mw_calibrate_rate(&works[i], c->window_s / 2);
        mw_calibrate_rates(c, works, c->window_s, both);
        samples[r] = fmin(fmax(both[0] / alone[0] + both[1] / alone[1], 1), 2);
    }
    *duplex = mw_measure_of(samples, c->rounds);
    return true;
}

bool
mw_calibrate_copies(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    struct mw_calibrate_copies in = {.c = c}, back = {.c = c, .to_host = true};

    if (!measure_way(&in, &out->h2d_bytes_per_s, &out->node_h2d_bytes_per_s, error) ||
        !measure_way(&back, &out->d2h_bytes_per_s, &out->node_d2h_bytes_per_s, error))
        return false;
    out->copy_latency_s = measure_latency(c);
    return !c->backend->apart || measure_duplex(c, &out->copy_duplex, error);
}
