/* Measures what memory bounds: operators of the device, passes of the host. */
#include <math.h>

#include "calibrate/internal.h"

#define UPDATE_BYTES 28.0     /* docs/MODEL.md 6.5 */
#define LOSS_BYTES 28.0       /* docs/MODEL.md 4.13: per logit, forward and backward */
#define ACCUMULATE_BYTES 10.0 /* docs/MODEL.md 6.2: read 2 and 4, write 4 */
#define VOCAB 50257           /* that of GPT-2 */

struct passes {
    struct mw_calibrator *c;
    int64_t params;
    enum mw_calibration_passes kind;
    int64_t at;      /* of the host's operands, which move through its arena: those of a step are
                      * not in the caches either */
    double *partial; /* sums of squares */
    struct mw_exact_sum *sums; /* of rows and columns, and factors of an update by them */
    float *factors;
};

/* Exact sums are made of rows of so many elements, as long as those of a large model's. */
#define COLUMNS 4096

static double
run_operators(void *data)
{
    const struct passes *p = data;

    return mw_calibrate_passes(p->c, p->kind);
}

static double
run_loss(void *data)
{
    const struct passes *p = data;
    struct mw_calibrator *c = p->c;
    int64_t at = 0, rows = c->scale->loss_rows, stride = c->scale->loss_stride;
    uint16_t *logits = mw_calibrate_take(&c->device, &at, 2 * rows * stride);
    double *losses = mw_calibrate_take(&c->device, &at, 8 * rows);

    c->kernels->cross_entropy(c->on, c->loss, losses, logits, stride, logits, false, stride,
                              c->targets, rows, VOCAB, 1e-3f);
    return LOSS_BYTES * (double)rows * VOCAB;
}

static double
run_launch(void *data)
{
    const struct passes *p = data;
    uint16_t *x = (uint16_t *)(void *)p->c->device.base;

    p->c->kernels->add(p->c->on, x, x, x + 4096, 64);
    return 1;
}

static double
run_update(void *data)
{
    struct passes *p = data;
    const struct mw_update_step step = mw_adamw_step(1e-4, 0.9, 0.999, 1e-8, 0.01, 10, 1);
    const struct mw_calibrate_state s = mw_calibrate_state(&p->c->host, &p->at, p->params);

    p->c->passes->update(&step, s.w, s.m, s.v, s.param, s.gradient, false, p->params);
    return (double)p->params;
}

static double
run_accumulate(void *data)
{
    struct passes *p = data;
    const struct mw_calibrate_state s = mw_calibrate_state(&p->c->host, &p->at, p->params);

    p->c->passes->accumulate(s.w, s.gradient, p->params);
    return ACCUMULATE_BYTES * (double)p->params;
}

/* It writes next to nothing, and reads the whole arena as gradients: those of the state alone might
 * stay in a cache. */
static double
run_norm(void *data)
{
    struct passes *p = data;
    const uint16_t *gradient = mw_calibrate_take(&p->c->host, &p->at, 2 * p->params);

    p->c->passes->square_sums(p->partial, gradient, false, p->params);
    return 2 * (double)p->params;
}

static int64_t
rows_of(int64_t params)
{
    return (params + COLUMNS - 1) / COLUMNS;
}

/* Both passes of Adafactor, each over half of the gradients, which have rows of nothing but theirs:
 * sums of rows and columns, and of what an update takes. */
static double
run_exact(void *data)
{
    struct passes *p = data;
    int64_t half = p->params / 2;
    const uint16_t *gradient = mw_calibrate_take(&p->c->host, &p->at, 2 * p->params);
    const float *factors = p->factors;
    const struct mw_exact_sides sides = {p->sums + COLUMNS, p->sums, COLUMNS, 0};
    const struct mw_update_vectors vectors = {
        .row = factors + COLUMNS, .column = factors, .columns = COLUMNS};
    const struct mw_update_step step =
        mw_update_step_of(MW_UPDATE_ADAFACTOR, 1e-4, 0.9, 0.999, 1e-8, 0.01, 10, 1);

    p->c->passes->side_sums(&sides, gradient, false, half);
    p->c->passes->update_squares(&step, &vectors, gradient + half, false, p->params - half,
                                 p->sums);
    return 2 * (double)p->params;
}

/* The optimizer, if it stays on a device with memory of its own. */
static double
run_device_update(void *data)
{
    const struct passes *p = data;
    struct mw_calibrator *c = p->c;
    int64_t params = c->scale->device_params, at = 0;
    const struct mw_calibrate_state s = mw_calibrate_state(&c->device, &at, params);
    const struct mw_update_step step = mw_adamw_step(1e-4, 0.9, 0.999, 1e-8, 0.01, 10, 1);
    GError *error = NULL;

    if (!c->backend->update(c->handle, &step, s.w, s.m, s.v, s.param, s.gradient, false, params,
                            &error))
        mw_calibrate_fail(c, error);
    return (double)params;
}

/* --- all ------------------------------------------------------------------------------------- */

/* Ranks pass over memory together, as they do in a step: one that does so alone has the rate of
 * both. */
static bool
measure(struct passes *p, double (*run)(void *state), struct mw_measure *rate, GError **error)
{
    struct mw_calibrate_work work = {.run = run, .state = p};

    return mw_calibrate_measure_together(p->c, &work, rate, error);
}

static struct mw_measure
measure_device(struct passes *p, double (*run)(void *state), double seconds)
{
    struct mw_calibrate_work work = {run, p, p->c, MW_CALIBRATE_COMPUTE, 1};

    return mw_calibrate_measure(p->c, &work, seconds);
}

static struct mw_measure
inverse(struct mw_measure rate)
{
    return (struct mw_measure){1 / rate.high, 1 / rate.typical, 1 / rate.low,
                               rate.samples,  rate.wished,      rate.waited};
}

/* Other activity on the machine makes a start later and never sooner.  So the least disturbed
 * samples give the figure and the others its range, but never less than the shortest. */
static struct mw_measure
soonest(struct mw_measure seconds, double least_s)
{
    const double tenth_s = seconds.low / (1 - seconds.waited); /* the range includes the waiting */

    seconds.typical = fmax(fmin(seconds.typical, tenth_s), least_s);
    seconds.high = fmax(seconds.high, seconds.typical);
    return seconds;
}

struct mw_measure
mw_calibrate_launch(struct mw_calibrator *c)
{
    struct passes p = {.c = c};

    c->fastest = 0;
    struct mw_measure rate = measure_device(&p, run_launch, c->scale->launch_s);
    return soonest(inverse(rate), 1 / c->fastest);
}

static struct mw_measure
scaled(struct mw_measure a, double factor)
{
    return (struct mw_measure){a.low * factor, a.typical * factor, a.high * factor,
                               a.samples,      a.wished,           a.waited};
}

static struct mw_measure
faster(struct mw_measure a, struct mw_measure b)
{
    return a.typical >= b.typical ? a : b;
}

/* The passes over gradients first, while all are 16-bit numbers. */
static bool
measure_gradients(struct passes *p, struct mw_calibration *out, GError **error)
{
    int64_t sides = COLUMNS + rows_of(p->params);
    g_autofree double *partial = g_new(double, mw_norm_blocks(p->params));
    g_autofree struct mw_exact_sum *sums = g_new0(struct mw_exact_sum, sides);
    g_autofree float *factors = g_new(float, sides);

    p->partial = partial;
    p->sums = sums;
    p->factors = factors;
    for (int64_t i = 0; i < sides; i++)
        factors[i] = 1;
    bool good = measure(p, run_norm, &out->norm_bytes_per_s, error) &&
                measure(p, run_exact, &out->exact_bytes_per_s, error);
    p->at = 0;
    return good;
}

static bool
measure_host(struct passes *p, struct mw_calibration *out, GError **error)
{
    struct mw_measure accumulate;

    if (!measure_gradients(p, out, error) ||
        !measure(p, run_update, &out->update_params_per_s, error) ||
        !measure(p, run_accumulate, &accumulate, error))
        return false;
    g_debug("accumulate %.3g, norm %.3g, update %.3g GB/s", accumulate.typical / 1e9,
            out->norm_bytes_per_s.typical / 1e9,
            UPDATE_BYTES * out->update_params_per_s.typical / 1e9);
    out->host_bytes_per_s = faster(faster(accumulate, out->norm_bytes_per_s),
                                   scaled(out->update_params_per_s, UPDATE_BYTES));
    return true;
}

bool
mw_calibrate_update_again(struct mw_calibrator *c, struct mw_measure *again, GError **error)
{
    struct passes p = {.c = c, .params = c->scale->params};

    mw_calibrate_fill_host(c); /* copies and drives have left other bytes */
    return measure(&p, run_update, again, error);
}

/* A layer's passes are some twenty kernels.  If their starts take most of the time that is left for
 * everything, the memory's rate stands for them. */
#define STARTS 7        /* with three products each */
#define PASS_KERNELS 16 /* that one kind of operators starts at most, both ways */

static bool
measure_operators(struct passes *p, struct mw_calibration *out, GError **error)
{
    const struct mw_calibrate_pace pace = mw_calibrate_products_pace(p->c, out);
    bool time;

    if (!mw_calibrate_has_time(p->c, MW_CALIBRATE_OPERATORS, 2 * STARTS * pace.start_s, &time,
                               error))
        return false;
    for (int kind = 0; kind < MW_CALIBRATION_PASSES; kind++) {
        const struct mw_calibrate_work work = {run_operators, p, p->c, MW_CALIBRATE_COMPUTE,
                                               PASS_KERNELS};
        p->kind = kind;
        out->pass_bytes_per_s[kind] =
            time ? mw_calibrate_measure(p->c, &work, 0) : mw_calibrate_left_out(p->c, 0, 0, 0);
    }
    return true;
}

/* By the optimizer's update, where it can be on the device. */
static bool
measure_device_memory(struct passes *p, struct mw_calibration *out, GError **error)
{
    struct mw_measure update = out->update_params_per_s;
    bool good = true;

    if (p->c->scale->device_params) {
        good = mw_calibrate_fill_state(p->c, error);
        update = good ? measure_device(p, run_device_update, 0) : update;
        good = good && mw_calibrate_fill(p->c, error);
    }
    out->device_bytes_per_s = scaled(update, UPDATE_BYTES);
    return good;
}

bool
mw_calibrate_memory(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    struct passes p = {.c = c, .params = c->scale->params};

    if (!mw_calibrate_begin(c, MW_CALIBRATE_OPERATORS, "memory-bound operators",
                            MW_CALIBRATION_PASSES + 2, error))
        return false;
    out->launch_s = mw_calibrate_launch(c);
    if (!measure_operators(&p, out, error))
        return false;
    out->loss_bytes_per_s = measure_device(&p, run_loss, 0);
    if (!mw_calibrate_begin(c, MW_CALIBRATE_UPDATE, "update, accumulation and norm",
                            c->scale->device_params ? 5 : 4, error))
        return false;
    return measure_host(&p, out, error) && measure_device_memory(&p, out, error);
}
