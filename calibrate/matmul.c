/* Measures matrix products by shape: those of a linear layer, forward and backward. */
#include <math.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "calibrate/internal.h"

#define WARM_PIECES 20   /* a share with a piece that warms up has room for this many */
#define WINDOW_PIECES 10 /* pieces of products beside other works */

/* Factors of tokens, outputs and inputs on the size: a square, and oblongs with the same product.
 * Half of them add forward's result to the residual, as the projection of attention and the second
 * matrix of the MLP do. */
static const struct {
    double tokens, outputs, inputs;
    bool adds;
} shapes[] = {{1, 1, 1, true}, {1, 2, 0.5, false}, {2, 0.5, 1, false}, {1, 0.5, 2, true}};

struct linear {
    struct mw_calibrator *c;
    int64_t tokens, outputs, inputs;
    bool adds;
    struct mw_calibrate_places at;
    bool ready;
};

#define PRODUCTS MW_CALIBRATION_DIRECTIONS
#define VALUES (1 + PRODUCTS) /* of a sample: of all three, and of each */
G_STATIC_ASSERT(VALUES <= MW_CALIBRATE_VALUES_MAX);

static struct mw_product
product_of(const struct linear *l, enum mw_product_of which)
{
    switch (which) {
    case MW_PRODUCT_OF_RESULT: /* y (+)= x W^T */
        return (struct mw_product){.m = l->tokens,
                                   .n = l->outputs,
                                   .k = l->inputs,
                                   .b_transposed = true,
                                   .accumulate = l->adds};
    case MW_PRODUCT_OF_INPUT: /* dx = dy W */
        return (struct mw_product){.m = l->tokens, .n = l->inputs, .k = l->outputs};
    default: /* dW = dy^T x */
        return (struct mw_product){
            .m = l->outputs, .n = l->inputs, .k = l->tokens, .a_transposed = true};
    }
}

struct directed {
    struct linear *linear;
    enum mw_product_of which;
};

static double
run_product(void *data)
{
    const struct directed *d = data;
    struct linear *l = d->linear;
    struct mw_product p = product_of(l, d->which);
    const uint16_t *a = mw_calibrate_operand(l->c, &l->at, 2 * p.m * p.k);
    const uint16_t *b = mw_calibrate_operand(l->c, &l->at, 2 * p.k * p.n);
    void *to = mw_calibrate_result(l->c, &l->at, 2 * p.m * p.n);

    mw_calibrate_multiply(l->c, &p, to, a, b, NULL);
    return 2.0 * (double)p.m * (double)p.n * (double)p.k;
}

static double
run_products(void *data)
{
    struct directed d = {.linear = data};
    double flops = 0;

    for (int which = 0; which < PRODUCTS; which++) {
        d.which = (enum mw_product_of)which;
        flops += run_product(&d);
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
        struct mw_product p = product_of(l, (enum mw_product_of)which);
        if (!l->c->kernels->prepare(l->c->on, &p, error))
            return false;
    }
    return true;
}

struct sized {
    struct mw_calibrator *c;
    double share_s, least_s; /* time of the share; time of a piece, by a smaller size's rate */
    struct linear shapes[G_N_ELEMENTS(shapes)];
};

/* The three products one after the other, each as long as the others.  What the calibrator is told
 * of all of them is the mean; of each its undisturbed rate is compared with the others'. */
static void
take_directions(struct linear *l, double *rates)
{
    struct mw_calibrator *c = l->c;
    double seconds = 0, undisturbed_s = 0, waited = 0, left = 0;

    for (int which = 0; which < PRODUCTS; which++) {
        struct directed d = {l, (enum mw_product_of)which};
        const struct mw_calibrate_work work = {run_product, &d, c, MW_CALIBRATE_COMPUTE, 1};
        double rate = mw_calibrate_quiet_rate(c, &work, c->scale->product_s / PRODUCTS);
        rates[1 + which] = mw_calibrate_queues(&work) ? rate : c->undisturbed;
        seconds += 1 / rate;
        undisturbed_s += 1 / c->undisturbed;
        waited += c->waited / PRODUCTS;
        left += c->left / PRODUCTS;
    }
    rates[0] = PRODUCTS / seconds;
    c->undisturbed = PRODUCTS / undisturbed_s;
    c->waited = waited;
    c->left = left;
}

/* The shapes take turns.  If there is time, a first piece prepares and warms up. */
static bool
take_shape(void *data, int number, double *rates, GError **error)
{
    struct sized *sized = data;
    struct linear *l = &sized->shapes[number % (int)G_N_ELEMENTS(shapes)];
    struct mw_calibrate_work work = {run_products, l, l->c, MW_CALIBRATE_COMPUTE, 1};

    if (!l->ready) {
        if (!prepare(l, error))
            return false;
        if (sized->least_s * WARM_PIECES <= sized->share_s)
            mw_calibrate_once(&work);
        l->ready = true;
    }
    take_directions(l, rates);
    return true;
}

/* --- sizes ----------------------------------------------------------------------------------- */

struct sizes {
    struct mw_calibrator *c;
    struct mw_calibration *out;
};

static double
flops_of(const struct mw_calibration *out, int point)
{
    return PRODUCTS * 2 * pow(out->dim[point], 3);
}

static double
units_of(const void *data, int point)
{
    const struct sizes *sizes = data;

    return flops_of(sizes->out, point);
}

/* A team that waits for cores is disproportionately slow, but a single thread is not: pieces of its
 * products are shorter than a scheduler's slice.  All cores are at most as fast as that many single
 * threads and, if pairs of threads share a core, at least half as fast.  No other product has this
 * size: the library compiles it for a number of threads. */
#define ONE_SIZE 320
#define ONE_PIECES 5 /* pieces in which it did not wait */
#define ONE_MOST_S 0.5

static double
fastest_piece(struct mw_calibrator *c, const struct mw_calibrate_work *work)
{
    const double end_s = mw_calibrate_now_s() + ONE_MOST_S;
    double best = 0, fastest;
    int undisturbed = 0;

    while (undisturbed < ONE_PIECES && mw_calibrate_now_s() < end_s) {
        double waits_s = mw_calibrate_waited_s();
        mw_calibrate_rate_of_pieces(work, 0, &fastest);
        undisturbed += mw_calibrate_waited_s() <= waits_s;
        best = fmax(best, fastest);
    }
    return best;
}

static bool
measure_one_thread(struct mw_calibrator *c, GError **error)
{
    struct linear l = {.c = c, .tokens = ONE_SIZE, .outputs = ONE_SIZE, .inputs = ONE_SIZE};
    const struct mw_calibrate_work work = {run_products, &l, c, MW_CALIBRATE_COMPUTE, 1};

#if defined(_OPENMP)
    omp_set_num_threads(1);
#endif
    bool good = prepare(&l, error);
    if (good) {
        mw_calibrate_once(&work);
        c->peak_flops = c->cores * fastest_piece(c, &work);
    }
    mw_calibrate_enter(c);
    g_debug("the cores do %.3g FLOP/s at most", c->peak_flops);
    return good;
}

static bool
measure_shapes(struct mw_calibrator *c, struct mw_calibration *out, int point,
               struct mw_measure measures[VALUES], GError **error)
{
    int64_t size = c->scale->sizes[point];
    const struct mw_calibrate_pace pace = mw_calibrate_products_pace(c, out);
    struct sized sized = {.c = c,
                          .share_s = mw_calibrate_share_s(c),
                          .least_s = mw_calibrate_pace_s(&pace, flops_of(out, point))};
    const struct mw_calibrate_samples samples = {.take = take_shape,
                                                 .state = &sized,
                                                 .values = VALUES,
                                                 .rates = true,
                                                 .wished = c->rounds * (int)G_N_ELEMENTS(shapes),
                                                 .kinds = (int)G_N_ELEMENTS(shapes)};

    for (size_t s = 0; s < G_N_ELEMENTS(shapes); s++)
        sized.shapes[s] = (struct linear){.c = c,
                                          .tokens = side(size, shapes[s].tokens),
                                          .outputs = side(size, shapes[s].outputs),
                                          .inputs = side(size, shapes[s].inputs),
                                          .adds = shapes[s].adds};
    return mw_calibrate_take_samples(c, &samples, measures, error);
}

static bool
measure_size(void *data, int point, struct mw_measure *flops, GError **error)
{
    struct sizes *sizes = data;
    struct mw_calibrator *c = sizes->c;
    int64_t size = c->scale->sizes[point];
    g_autofree char *what = g_strdup_printf("matrix products of %d", (int)size);

    struct mw_measure measures[VALUES];

    if (!mw_calibrate_step(c, what, error) ||
        !measure_shapes(c, sizes->out, point, measures, error))
        return false;
    *flops = measures[0];
    for (int which = 0; which < PRODUCTS; which++) {
        struct mw_measure *own = &sizes->out->direction_flops[which][point];
        *own = measures[0].waited <= MW_CALIBRATE_COMPARED ? measures[1 + which]
                                                           : (struct mw_measure){0};
    }
    return !c->team || c->peak_flops > 0 || measure_one_thread(c, error);
}

bool
mw_calibrate_products_again(struct mw_calibrator *c, struct mw_calibration *out, int point,
                            struct mw_measure *flops, GError **error)
{
    struct mw_measure measures[VALUES];

    if (!measure_shapes(c, out, point, measures, error))
        return false;
    *flops = measures[0];
    return true;
}

double
mw_calibrate_products_s(const struct mw_calibration *out, int point)
{
    const struct mw_measure *flops = &out->matmul_flops[point];

    return flops->samples ? (double)G_N_ELEMENTS(shapes) * flops_of(out, point) / flops->low : 0;
}

/* A team that waits for a busy core is slow out of all proportion. */
static void
tell_load(const struct mw_calibrator *c, double had)
{
    if (had > MW_CALIBRATION_QUIET || !c->options->notice || mw_calibrate_rank(c) > 0)
        return;
    g_autofree char *line =
        g_strdup_printf("other programs are busy on this machine: the products had %.0f%% of its "
                        "cores, and figures are too low; calibrate again when it is quiet",
                        100 * had);
    c->options->notice(c->options->data, line);
}

struct mw_calibrate_pace
mw_calibrate_products_pace(const struct mw_calibrator *c, const struct mw_calibration *out)
{
    struct mw_calibrate_pace pace = {0};

    for (int i = 0; i < out->points; i++)
        mw_calibrate_pace_add(&pace, flops_of(out, i), &out->matmul_flops[i]);
    mw_calibrate_pace_of_cores(&pace, c);
    return pace;
}

/* For products beside other works: the largest size of which a window has several. */
bool
mw_calibrate_choose_beside(struct mw_calibrator *c, const struct mw_calibration *out,
                           GError **error)
{
    const struct mw_calibrate_pace pace = mw_calibrate_products_pace(c, out);
    double size = (double)c->scale->beside;

    while (size > (double)c->scale->sizes[0] &&
           !mw_calibrate_pace_fits(&pace, 2 * pow(size, 3), c->window_wish_s / WINDOW_PIECES))
        size = floor(size / 2);
    if (!mw_calibrate_agree(c, &size, error))
        return false;
    c->beside = (int64_t)size;
    return true;
}

static bool
measure_sizes(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    struct sizes sizes = {c, out};
    const struct mw_calibrate_curve curve = {.points = c->scale->product_points,
                                             .dims = out->dim,
                                             .units = units_of,
                                             .measure = measure_size,
                                             .state = &sizes,
                                             .flops = true,
                                             .what = "matrix products",
                                             .again = MW_CALIBRATE_PRODUCTS_AGAIN,
                                             .contradicts = out->matmul_contradicts};

    out->points = curve.points;
    for (int i = 0; i < out->points; i++)
        out->dim[i] = (double)c->scale->sizes[i];
    if (!mw_calibrate_begin(c, MW_CALIBRATE_PRODUCTS, curve.what, out->points, error) ||
        !mw_calibrate_take_curve(c, &curve, out->matmul_flops, error))
        return false;
    for (int which = 0; which < PRODUCTS; which++)
        mw_calibrate_interpolate(out->dim, out->direction_flops[which], out->points);
    return mw_calibrate_choose_beside(c, out, error);
}

double
mw_calibration_direction_share(const struct mw_calibration *m, enum mw_product_of of, int point)
{
    double seconds = 0;

    for (int which = 0; which < PRODUCTS; which++) {
        if (!(m->direction_flops[which][point].typical > 0))
            return 0;
        seconds += 1 / m->direction_flops[which][point].typical;
    }
    return m->direction_flops[of][point].typical * seconds / PRODUCTS;
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
