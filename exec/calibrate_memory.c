/* What memory bounds: operators of the device, passes of the host, copies between the two. */
#include <math.h>
#include <string.h>

#include "exec/calibrate_internal.h"

#define UPDATE_BYTES 28.0     /* docs/MODEL.md 6.5 */
#define LOSS_BYTES 28.0       /* docs/MODEL.md 4.13: a logit, forward and backward */
#define ACCUMULATE_BYTES 10.0 /* docs/MODEL.md 6.2: read 2 and 4, write 4 */
#define VOCAB 50257           /* GPT-2's */

struct passes {
    struct mw_calibrator *c;
    int64_t rows, columns, params, copy_bytes;
    bool to_host;
};

static double
run_layer_passes(void *data)
{
    const struct passes *p = data;

    return mw_calibrate_layer_passes(p->c, p->rows, p->columns);
}

static double
run_loss(void *data)
{
    const struct passes *p = data;
    int64_t at = 0, rows = MAX(1, p->rows / 8);
    uint16_t *logits = mw_calibrate_take(&p->c->device, &at, 2 * rows * VOCAB);
    double *losses = mw_calibrate_take(&p->c->device, &at, 8 * rows);
    int32_t *targets = mw_calibrate_take(&p->c->device, &at, 4 * rows);

    for (int64_t i = 0; i < rows; i++)
        targets[i] = (int32_t)i;
    p->c->kernels->cross_entropy(logits, VOCAB, losses, logits, false, VOCAB, targets, rows, VOCAB,
                                 1e-3f);
    return LOSS_BYTES * (double)rows * VOCAB;
}

static double
run_launch(void *data)
{
    const struct passes *p = data;
    uint16_t *x = (uint16_t *)(void *)p->c->device.base;

    p->c->kernels->add(x, x, x + 4096, 64);
    return 1;
}

struct state {
    float *w, *m, *v;
    uint16_t *param, *gradient;
};

static struct state
state_of(const struct passes *p)
{
    int64_t at = 0;
    struct state s;

    s.w = mw_calibrate_take(&p->c->host, &at, 4 * p->params);
    s.m = mw_calibrate_take(&p->c->host, &at, 4 * p->params);
    s.v = mw_calibrate_take(&p->c->host, &at, 4 * p->params);
    s.param = mw_calibrate_take(&p->c->host, &at, 2 * p->params);
    s.gradient = mw_calibrate_take(&p->c->host, &at, 2 * p->params);
    return s;
}

static double
run_update(void *data)
{
    const struct passes *p = data;
    const struct state s = state_of(p);
    const struct mw_adamw step = mw_adamw_step(1e-4, 0.9, 0.999, 1e-8, 0.01, 10, 1);

    p->c->kernels->adamw(&step, s.w, s.m, s.v, s.param, s.gradient, false, p->params);
    return (double)p->params;
}

static double
run_accumulate(void *data)
{
    const struct passes *p = data;
    const struct state s = state_of(p);

    p->c->kernels->accumulate(s.m, s.gradient, p->params);
    return ACCUMULATE_BYTES * (double)p->params;
}

static double
run_norm(void *data)
{
    const struct passes *p = data;
    const struct state s = state_of(p);
    double *partial = (double *)(void *)s.v;

    p->c->kernels->square_sums(partial, s.gradient, false, p->params);
    return 2 * (double)p->params;
}

static double
run_copy(void *data)
{
    const struct passes *p = data;
    void *device = p->c->device.base, *host = p->c->host.base;

    memcpy(p->to_host ? host : device, p->to_host ? device : host, (size_t)p->copy_bytes);
    return (double)p->copy_bytes;
}

/* --- another thread's turn: what an op waits for after the one that it depends on --------------- */

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
handoff_s(int turns)
{
    struct turns t = {.left = turns};

    g_mutex_init(&t.mutex);
    g_cond_init(&t.changed);
    GThread *other = g_thread_new("calibrate", other_turns, &t);
    double began_s = mw_calibrate_now_s();
    take_turns(&t, 0);
    double elapsed_s = mw_calibrate_now_s() - began_s;
    g_thread_join(other);
    g_cond_clear(&t.changed);
    g_mutex_clear(&t.mutex);
    return elapsed_s / turns;
}

/* --- all ------------------------------------------------------------------------------------------ */

static struct mw_measure
measure(struct passes *p, double (*run)(void *state), double seconds)
{
    struct mw_calibrate_work work = {run, p};
    double samples[MW_CALIBRATE_ROUNDS_MAX];

    run(p);
    for (int r = 0; r < p->c->rounds; r++)
        samples[r] = mw_calibrate_quiet_rate(p->c, &work, seconds);
    return mw_measure_of(samples, p->c->rounds);
}

static struct mw_measure
inverse(struct mw_measure rate)
{
    return (struct mw_measure){1 / rate.high, 1 / rate.typical, 1 / rate.low, rate.samples};
}

/* Of a step of GPT-2 124M on 1024 tokens, 70% of the bytes of update and loss are the update's.  The
 * range is from the slower to the faster of the two. */
#define UPDATE_PART 0.7

static struct mw_measure
mix(struct mw_measure update, struct mw_measure loss)
{
    double s_per_byte = UPDATE_PART / update.typical + (1 - UPDATE_PART) / loss.typical;

    return (struct mw_measure){fmin(update.low, loss.low), 1 / s_per_byte,
                               fmax(update.high, loss.high), update.samples + loss.samples};
}

static struct mw_measure
scaled(struct mw_measure a, double factor)
{
    return (struct mw_measure){a.low * factor, a.typical * factor, a.high * factor, a.samples};
}

static struct mw_measure
faster(struct mw_measure a, struct mw_measure b)
{
    return a.typical >= b.typical ? a : b;
}

static void
measure_host(struct passes *p, struct mw_calibration *out)
{
    out->update_params_per_s = measure(p, run_update, 0);
    struct mw_measure accumulate = measure(p, run_accumulate, 0);
    struct mw_measure norm = measure(p, run_norm, 0);
    g_debug("accumulate %.3g, norm %.3g, update %.3g GB/s", accumulate.typical / 1e9,
            norm.typical / 1e9, UPDATE_BYTES * out->update_params_per_s.typical / 1e9);
    out->host_bytes_per_s = faster(faster(accumulate, norm),
                                   scaled(out->update_params_per_s, UPDATE_BYTES));
}

/* One way alone, the ranks in turn, and all of them at once. */
static bool
measure_way(struct passes *p, struct mw_measure *alone, struct mw_measure *at_once, GError **error)
{
    for (int rank = 0; rank < mw_calibrate_ranks(p->c); rank++) {
        if (!mw_calibrate_step(p->c, p->to_host ? "copies to the host" : "copies to the device",
                               error))
            return false;
        if (rank == mw_calibrate_rank(p->c))
            *alone = measure(p, run_copy, 0);
    }
    *at_once = *alone;
    if (mw_calibrate_ranks(p->c) == 1)
        return true;
    if (!mw_calibrate_step(p->c, "copies of all ranks", error))
        return false;
    *at_once = measure(p, run_copy, 0);
    return true;
}

static bool
measure_copies(struct passes *p, struct mw_calibration *out, GError **error)
{
    double samples[MW_CALIBRATE_ROUNDS_MAX];

    if (!measure_way(p, &out->h2d_bytes_per_s, &out->node_h2d_bytes_per_s, error))
        return false;
    p->to_host = true;
    if (!measure_way(p, &out->d2h_bytes_per_s, &out->node_d2h_bytes_per_s, error))
        return false;
    for (int r = 0; r < p->c->rounds; r++)
        samples[r] = handoff_s(p->c->options->quick ? 20 : 1000);
    out->copy_latency_s = mw_measure_of(samples, p->c->rounds);
    return true;
}

bool
mw_calibrate_memory(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    bool quick = c->options->quick;
    struct passes p = {.c = c,
                       .rows = quick ? 64 : 1024,
                       .columns = quick ? 128 : 768,
                       .params = quick ? 1 << 16 : 16 << 20,
                       .copy_bytes = quick ? 1 << 20 : 32 << 20};

    if (!mw_calibrate_step(c, "memory-bound operators", error))
        return false;
    out->operator_bytes_per_s = measure(&p, run_layer_passes, 0);
    struct mw_measure loss = measure(&p, run_loss, 0);
    out->launch_s = inverse(measure(&p, run_launch, quick ? 1e-4 : 1e-2));
    if (!mw_calibrate_step(c, "update, accumulation and norm", error))
        return false;
    measure_host(&p, out);
    out->device_bytes_per_s = mix(scaled(out->update_params_per_s, UPDATE_BYTES), loss);
    return measure_copies(&p, out, error);
}
