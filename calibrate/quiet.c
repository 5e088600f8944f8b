/*
 * Estimates the rate of a work alone on the machine while other programs use its cores.
 *
 * A thread that waits for a core makes its whole team wait, so a sample may be far too slow and is
 * never too fast.  Samples that waited are taken again while patience lasts.  If that does not help
 * there are two estimates: the fastest piece of a sample, because pieces of small works are shorter
 * than a scheduler's slice; and, for longer pieces, a sample's time without the average wait of its
 * threads.
 */
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "calibrate/internal.h"

/* Seconds that all runnable threads together have waited for a core: the second figure of schedstat
 * (Linux, Documentation/scheduler/sched-stats.rst).  0 if the system does not report it. */
static double
system_waited_s(void)
{
    g_autoptr(GDir) tasks = g_dir_open("/proc/self/task", 0, NULL);
    const char *task;
    double waited_ns = 0;

    while (tasks && (task = g_dir_read_name(tasks))) {
        g_autofree char *path = g_strdup_printf("/proc/self/task/%s/schedstat", task);
        g_autofree char *text = NULL;
        guint64 ran, waited;
        if (g_file_get_contents(path, &text, NULL, NULL) &&
            sscanf(text, "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, &ran, &waited) == 2)
            waited_ns += (double)waited;
    }
    return waited_ns * 1e-9;
}

static double (*waited_s)(void) = system_waited_s;

void
mw_calibrate_set_waited(double (*seconds)(void))
{
    waited_s = seconds ? seconds : system_waited_s;
}

double
mw_calibrate_waited_s(void)
{
    return waited_s();
}

/* How much of its time a team may have lost, given how much its threads waited together.  If they
 * waited little, all waited for one of them; if they waited much, each did. */
#define BY_ONE_MOST 0.5
#define LOST_MOST 0.95

static double
lost_by(double waiting, int cores)
{
    return fmin(fmax(fmin(waiting, BY_ONE_MOST), waiting / cores), LOST_MOST);
}

/* --- a core for each thread ------------------------------------------------------------------ */

/* A team that spins waits for itself if two of its threads share a core, and a scheduler leaves
 * them there while all cores have equally many threads.  So after a sample that waited each thread
 * gets a core of its own, unless there are fewer or more cores than threads. */
static void
find_team(struct mw_calibrator *c)
{
    cpu_set_t all;

    if (c->team || mw_calibrate_ranks(c) > 1 || sched_getaffinity(0, sizeof all, &all) ||
        CPU_COUNT(&all) != c->cores || c->cores < 2)
        return;
#if defined(_OPENMP)
    c->team = g_new0(pid_t, c->cores);
#pragma omp parallel num_threads(c->cores)
    c->team[omp_get_thread_num()] = gettid();
#endif
}

/* Best effort: if it fails, the sample stays as it would have been. */
static void
keep_apart(const struct mw_calibrator *c, const cpu_set_t *all)
{
    cpu_set_t one;
    int core = 0;

    for (int i = 0; i < c->cores; i++, core++) {
        while (core < CPU_SETSIZE - 1 && !CPU_ISSET(core, all))
            core++;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        sched_setaffinity(c->team[i], sizeof one, &one);
    }
}

static void
let_go(const struct mw_calibrator *c, const cpu_set_t *all)
{
    for (int i = 0; i < c->cores; i++)
        sched_setaffinity(c->team[i], sizeof *all, all);
}

/* --- samples --------------------------------------------------------------------------------- */

struct sample {
    double rate, fastest; /* rate of the whole sample; of its fastest piece */
    double waiting;       /* fraction of its time, of all threads together */
    double took_s;
};

static struct sample
take_sample(const struct mw_calibrator *c, const struct mw_calibrate_work *work, double seconds)
{
    cpu_set_t all;
    struct sample s = {0};
    const bool apart = c->team && !sched_getaffinity(0, sizeof all, &all);

    if (apart)
        keep_apart(c, &all);
    const double waits_s = waited_s(), began_s = mw_calibrate_now_s();
    if (mw_calibrate_queues(work))
        s.rate = mw_calibrate_rate(work, seconds);
    else
        s.rate = mw_calibrate_rate_of_pieces(work, seconds, &s.fastest);
    s.took_s = mw_calibrate_now_s() - began_s;
    s.waiting = (waited_s() - waits_s) / s.took_s;
    if (apart)
        let_go(c, &all);
    return s;
}

/* The fraction of the cores that the threads had on average. */
static double
cores_left(const struct mw_calibrator *c, const struct sample *s)
{
    return 1 - fmin(s->waiting / MAX(c->cores, 1), LOST_MOST);
}

double
mw_calibrate_quiet_rate(struct mw_calibrator *c, const struct mw_calibrate_work *work,
                        double seconds)
{
    struct sample least = {.waiting = INFINITY}, s;
    double fastest = 0;
    bool more = true;

    while (more) {
        s = take_sample(c, work, seconds);
        fastest = fmax(fastest, s.fastest);
        if (s.waiting < least.waiting)
            least = s;
        bool time = mw_calibrate_now_s() + s.took_s <= c->budget.until_s;
        more = s.waiting > MW_CALIBRATE_WAITED && c->patience_s > 0 && time;
        c->patience_s -= more ? s.took_s : 0;
        if (cores_left(c, &s) <= MW_CALIBRATE_LEFT && !mw_calibrate_queues(work))
            find_team(c);
    }
    c->fastest = fmax(c->fastest, least.rate);
    if (mw_calibrate_queues(work)) /* the device measures its own time */
        return least.rate;
    c->waited = lost_by(least.waiting, MAX(c->cores, 1));
    c->left = c->cores_left = cores_left(c, &least);
    c->undisturbed = c->left > MW_CALIBRATE_LEFT ? least.rate : fmax(fastest, least.rate);
    c->fastest = fmax(c->fastest, fmax(c->undisturbed, least.rate / c->left));
    c->disturbances.samples++;
    c->disturbances.waited += least.waiting > MW_CALIBRATE_WAITED;
    g_debug("waited %.2f: %.3g a second, undisturbed %.3g", least.waiting, least.rate,
            c->undisturbed);
    return least.rate;
}
