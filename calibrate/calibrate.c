/* Runs the measurements in order, with everything that they need. */
#include "calibrate/calibrate.h"

#include <math.h>
#include <string.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "base/error.h"
#include "calibrate/internal.h"
#include "exec/host/thread.h"

#define ROUNDS 9
#define ROUNDS_MOST 27
#define QUICK_ROUNDS 3
#define PATIENCE_S 3.0
#define DRIVE_THREADS 2 /* one reads, one writes */
#define WINDOW_S 0.3
#define WINDOW_LEAST_S 0.1
#define QUICK_WINDOW_S 0.01

/* As in a run, ranks of one machine share its cores. */
static int
team(const struct mw_ranks *ranks)
{
#if defined(_OPENMP)
    int threads = omp_get_max_threads();
    return ranks ? MIN(threads, mw_ranks_cores(ranks)) : threads;
#else
    return 1;
#endif
}

void
mw_calibrate_enter(const struct mw_calibrator *c)
{
#if defined(_OPENMP)
    omp_set_num_threads(c->cores);
#endif
    if (c->handle)
        c->backend->enter(c->handle);
}

void
mw_calibrate_fail(struct mw_calibrator *c, GError *error)
{
    g_mutex_lock(&c->mutex);
    if (c->error)
        g_error_free(error);
    else
        c->error = error;
    g_mutex_unlock(&c->mutex);
}

bool
mw_calibrate_failed(struct mw_calibrator *c)
{
    g_mutex_lock(&c->mutex);
    bool failed = c->error != NULL;
    g_mutex_unlock(&c->mutex);
    return failed;
}

bool
mw_calibrate_good(struct mw_calibrator *c, GError **error)
{
    if (!c->error)
        return true;
    g_propagate_error(error, g_steal_pointer(&c->error));
    return false;
}

bool
mw_calibrate_step(struct mw_calibrator *c, const char *what, GError **error)
{
    const struct mw_calibration_options *o = c->options;

    if (!mw_calibrate_good(c, error))
        return false;
    c->patience_s = o->quick ? 0 : PATIENCE_S;
    if (o->ranks && !mw_ranks_barrier(o->ranks, 0, error))
        return false;
    if (!o->progress || o->progress(o->data, what, fmax(0, c->budget.end_s - mw_calibrate_now_s())))
        return true;
    g_set_error_literal(error, MW_ERROR, MW_ERROR_DEVICE, "calibrate: stopped before its end");
    return false;
}

void *
mw_calibrate_take(const struct mw_arena *arena, int64_t *at, int64_t bytes)
{
    int64_t place = (*at + 63) / 64 * 64;

    if (place + bytes > arena->bytes)
        place = 0;
    *at = place + bytes;
    return arena->base + place;
}

/* Whether the system provides this thread's team, and that of a thread beside it. */
static bool
has_threads(const struct mw_calibrator *c, GError **error)
{
    return mw_thread_can_start(2 * c->cores - 1 + DRIVE_THREADS, error);
}

static bool
make(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    bool good = mw_calibrate_open_drives(c, out, error) && mw_calibrate_open_device(c, out, error);

    out->opened_s = out->budget_s - (c->budget.end_s - mw_calibrate_now_s());
    return good;
}

static bool
measure(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    return make(c, out, error) && mw_calibrate_matmul(c, out, error) &&
           mw_calibrate_fp32(c, out, error) && mw_calibrate_memory(c, out, error) &&
           mw_calibrate_layer(c, out, error) && mw_calibrate_attention(c, out, error) &&
           mw_calibrate_heads(c, out, error) && mw_calibrate_copies(c, out, error) &&
           mw_calibrate_drives(c, out, error) && mw_calibrate_shares(c, out, error) &&
           mw_calibrate_collectives(c, out, error) && mw_calibrate_drift(c, out, error) &&
           mw_calibrate_good(c, error) && mw_calibrate_memory_beside(c, out, error);
}

/* More time gives more samples; less time gives shorter windows. */
static void
plan_time(struct mw_calibrator *c, struct mw_calibration *out)
{
    const struct mw_calibration_options *o = c->options;
    double seconds = o->budget_s > 0 ? o->budget_s : MW_CALIBRATION_BUDGET_S;
    double part = seconds / MW_CALIBRATION_BUDGET_S;

    out->budget_s = seconds;
    c->rounds = o->quick ? QUICK_ROUNDS : (int)CLAMP(ROUNDS * part, ROUNDS, ROUNDS_MOST);
    c->window_s = c->window_wish_s =
        o->quick ? QUICK_WINDOW_S : CLAMP(WINDOW_S * part, WINDOW_LEAST_S, WINDOW_S);
    mw_calibrate_budget_open(c, seconds);
}

bool
mw_calibrate(const struct mw_calibration_options *options, struct mw_calibration *out,
             GError **error)
{
    struct mw_calibrator c = {.options = options,
                              .backend = options->backend,
                              .passes = mw_cpu_kernels(options->dtype),
                              .scale = mw_calibrate_scale(options->backend->apart, options->quick)};
    struct mw_memory_available available;

    memset(out, 0, sizeof *out);
    plan_time(&c, out);
    c.beside = c.scale->beside;
    mw_memory_available(&available);
    out->memory_bytes = available.bytes;
    out->cores = c.cores = team(options->ranks);
    g_mutex_init(&c.mutex);
    mw_calibrate_enter(&c);
    out->ranks = mw_calibrate_ranks(&c);
    bool good = has_threads(&c, error) && measure(&c, out, error);
    if (good) {
        out->took_s = out->budget_s - (c.budget.end_s - mw_calibrate_now_s());
        out->steal = c.steal;
        out->disturbances = c.disturbances;
        out->peak_flops = c.peak_flops;
        mw_calibrate_net(&c, out);
        good = mw_calibrate_unite(&c, out, error);
        if (good)
            mw_calibrate_bound(out);
    }
    mw_calibrate_close_drives(&c);
    mw_calibrate_close_device(&c);
    g_free(c.team);
    g_clear_error(&c.error);
    g_mutex_clear(&c.mutex);
    return good;
}
