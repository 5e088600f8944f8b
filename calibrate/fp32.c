/* Measures the fraction of their rate in 16 bits that matrix products in fp32 reach.  The two take
 * turns, at the size of products beside other works.  The simulator assumes the same fraction for
 * all sizes (MODEL.md 7.1a). */
#include "calibrate/internal.h"

/* The range if there is no time: from matrix units with 16 times the rate in 16 bits (Intel AMX) to
 * cores that multiply in fp32 whatever the operands are. */
#define SHARE_LEAST (1.0 / 16)
#define SHARE_TYPICAL 0.5
#define SHARE_MOST 1.0

struct wide {
    struct mw_calibrator *c;
    void *handle, *on; /* a second opening of the backend, in fp32 */
    struct mw_calibrate_places at;
};

bool
mw_calibrate_has_fp32(const struct mw_calibrator *c)
{
    /* A device that queues ops would need queues of its own. */
    return !c->backend->apart && c->backend->dtypes & 1u << MW_DTYPE_FP32;
}

static struct mw_product
product_of(const struct mw_calibrator *c)
{
    return (struct mw_product){
        .m = c->beside, .n = c->beside, .k = c->beside, .b_transposed = true};
}

static double
run_wide(void *data)
{
    struct wide *w = data;
    const struct mw_product product = product_of(w->c);
    int64_t bytes = (int64_t)sizeof(float) * product.m * product.n;
    const float *a = mw_calibrate_operand(w->c, &w->at, bytes);
    const float *b = mw_calibrate_operand(w->c, &w->at, bytes);
    float *to = mw_calibrate_result(w->c, &w->at, bytes);
    GError *error = NULL;

    if (!w->c->kernels->multiply(w->on, &product, to, a, b, NULL, &error))
        mw_calibrate_fail(w->c, error);
    return 1;
}

struct turn {
    struct mw_calibrator *c;
    struct mw_calibrate_work half, wide;
};

static bool
take_share(void *data, int number, double *share, GError **error)
{
    struct turn *turn = data;
    double half = mw_calibrate_quiet_rate(turn->c, &turn->half, turn->c->scale->product_s);

    (void)number;
    *share = mw_calibrate_quiet_rate(turn->c, &turn->wide, turn->c->scale->product_s) / half;
    return mw_calibrate_good(turn->c, error);
}

static bool
measure(struct mw_calibrator *c, struct wide *wide, struct mw_measure *share, GError **error)
{
    struct mw_calibrate_products products = {.c = c};
    const struct mw_product product = product_of(c);
    struct turn turn = {.c = c,
                        .half = mw_calibrate_products_work(&products),
                        .wide = {run_wide, wide, c, MW_CALIBRATE_COMPUTE, 1}};
    const struct mw_calibrate_samples samples = {.take = take_share, .state = &turn, .values = 1};

    if (!c->kernels->prepare(wide->on, &product, error))
        return false;
    mw_calibrate_once(&turn.wide);
    return mw_calibrate_take_samples(c, &samples, share, error);
}

bool
mw_calibrate_fp32(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    const struct mw_backend_options options = {
        .dtype = MW_DTYPE_FP32, .threads = c->cores, .node_ranks = 1};
    struct wide wide = {.c = c};
    void *memory = NULL;
    bool time;

    if (!mw_calibrate_has_fp32(c))
        return true;
    out->fp32_share = mw_calibrate_left_out(c, SHARE_LEAST, SHARE_TYPICAL, SHARE_MOST);
    if (!mw_calibrate_has_time(c, MW_CALIBRATE_PRODUCTS_FP32, 2 * c->scale->product_s, &time,
                               error))
        return false;
    if (!time)
        return true;
    if (!mw_calibrate_begin(c, MW_CALIBRATE_PRODUCTS_FP32, "matrix products in fp32", 1, error))
        return false;
    wide.handle = c->backend->open(&options, 0, &memory, error);
    if (!wide.handle)
        return false;
    wide.on = c->backend->enter(wide.handle);
    bool good = measure(c, &wide, &out->fp32_share, error);
    c->backend->close(wide.handle);
    mw_calibrate_enter(c);
    return good;
}
