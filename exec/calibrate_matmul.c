/* Matrix products by shape: what a linear layer computes forward and backward. */
#include <math.h>

#include "exec/calibrate_internal.h"

#define QUIET 0.9 /* of the cores that the products could have */

/* Of tokens, outputs and inputs beside the size: a square, and oblongs of the same product. */
static const double shapes[][3] = {{1, 1, 1}, {1, 2, 0.5}, {2, 0.5, 1}, {1, 0.5, 2}};

struct linear {
    struct mw_calibrator *c;
    int64_t tokens, outputs, inputs;
    int64_t at; /* operands move through the arena: a step's are not in the caches either */
};

enum product { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, PRODUCTS };

static struct mw_product
product_of(const struct linear *l, enum product which)
{
    switch (which) {
    case FORWARD: /* y = x W^T */
        return (struct mw_product){
            .m = l->tokens, .n = l->outputs, .k = l->inputs, .b_transposed = true};
    case INPUT_GRADIENT: /* dx = dy W */
        return (struct mw_product){.m = l->tokens, .n = l->inputs, .k = l->outputs};
    default: /* dW = dy^T x */
        return (struct mw_product){
            .m = l->outputs, .n = l->inputs, .k = l->tokens, .a_transposed = true};
    }
}

static double
run_products(void *data)
{
    struct linear *l = data;
    double flops = 0;

    for (int which = 0; which < PRODUCTS; which++) {
        struct mw_product p = product_of(l, which);
        const struct mw_arena *arena = &l->c->device;
        const uint16_t *a = mw_calibrate_take(arena, &l->at, 2 * p.m * p.k);
        const uint16_t *b = mw_calibrate_take(arena, &l->at, 2 * p.k * p.n);
        void *to = mw_calibrate_take(arena, &l->at, 2 * p.m * p.n);

        mw_calibrate_multiply(l->c, &p, to, a, b, NULL);
        flops += 2.0 * (double)p.m * (double)p.n * (double)p.k;
    }
    return flops;
}

static int64_t
side(int64_t size, double factor)
{
    return MAX(1, (int64_t)llround((double)size * factor));
}

static bool
prepare(const struct linear *l, GError **error)
{
    for (int which = 0; which < PRODUCTS; which++) {
        struct mw_product p = product_of(l, which);
        if (!l->c->kernels->prepare(l->c->on, &p, error))
            return false;
    }
    return true;
}

static bool
measure_size(struct mw_calibrator *c, int64_t size, struct mw_measure *flops, GError **error)
{
    double samples[MW_CALIBRATE_ROUNDS_MAX * G_N_ELEMENTS(shapes)];
    int count = 0;

    for (size_t s = 0; s < G_N_ELEMENTS(shapes); s++) {
        struct linear l = {.c = c,
                           .tokens = side(size, shapes[s][0]),
                           .outputs = side(size, shapes[s][1]),
                           .inputs = side(size, shapes[s][2])};
        struct mw_calibrate_work work = {run_products, &l, c, MW_CALIBRATE_COMPUTE};
        if (!prepare(&l, error))
            return false;
        mw_calibrate_once(&work);
        for (int r = 0; r < c->rounds; r++)
            samples[count++] = mw_calibrate_quiet_rate(c, &work, c->scale->product_s);
    }
    *flops = mw_measure_of(samples, count);
    return true;
}

/* A team that waits for a core that others have is slow out of all proportion. */
static void
tell_load(const struct mw_calibrator *c, double had)
{
    if (had > QUIET || !c->options->notice || mw_calibrate_rank(c) > 0)
        return;
    g_autofree char *line =
        g_strdup_printf("other programs are busy on this machine: the products had %.0f%% of its "
                        "cores, and figures are too low; calibrate again when it is quiet",
                        100 * had);
    c->options->notice(c->options->data, line);
}

static bool
measure_sizes(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    out->points = c->scale->product_points;
    for (int i = 0; i < out->points; i++) {
        int64_t size = c->scale->sizes[i];
        g_autofree char *what = g_strdup_printf("matrix products of %d", (int)size);
        if (!mw_calibrate_step(c, what, error) ||
            !measure_size(c, size, &out->matmul_flops[i], error))
            return false;
        out->dim[i] = (double)size;
    }
    return true;
}

bool
mw_calibrate_matmul(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    double began_s = mw_calibrate_now_s(), used_s = mw_calibrate_used_s();

    if (!measure_sizes(c, out, error))
        return false;
    if (c->backend->apart)
        return true;
    out->cores_had =
        (mw_calibrate_used_s() - used_s) / (mw_calibrate_now_s() - began_s) / out->cores;
    tell_load(c, out->cores_had);
    return true;
}
