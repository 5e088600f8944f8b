/* Rates of works, alone and side by side. */
#include <time.h>

#include "exec/calibrate_internal.h"

double
mw_calibrate_now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double
mw_calibrate_rate(const struct mw_calibrate_work *work, double seconds)
{
    const double began_s = mw_calibrate_now_s();
    double units = 0, elapsed_s;

    do {
        units += work->run(work->state);
        elapsed_s = mw_calibrate_now_s() - began_s;
    } while (elapsed_s < seconds);
    return units / elapsed_s;
}

/* Two begin at once.  Each goes on until both have had their time, so that neither is ever alone
 * in its own. */
struct pair {
    GMutex mutex;
    GCond changed;
    int ready, over;
    double seconds;
};

struct side {
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

    side->work.run(side->work.state); /* the thread's team and the caches are there */
    begin_together(side->pair);
    side->rate = mw_calibrate_rate(&side->work, side->pair->seconds);
    g_atomic_int_inc(&side->pair->over);
    while (g_atomic_int_get(&side->pair->over) < 2)
        side->work.run(side->work.state);
    return NULL;
}

void
mw_calibrate_rates(const struct mw_calibrate_work works[2], double seconds, double rates[2])
{
    struct pair pair = {.seconds = seconds};
    struct side sides[2] = {{&pair, works[0], 0}, {&pair, works[1], 0}};

    g_mutex_init(&pair.mutex);
    g_cond_init(&pair.changed);
    GThread *other = g_thread_new("calibrate", run_side, &sides[1]);
    run_side(&sides[0]);
    g_thread_join(other);
    for (int i = 0; i < 2; i++)
        rates[i] = sides[i].rate;
    g_cond_clear(&pair.changed);
    g_mutex_clear(&pair.mutex);
}
