/* What goes on beside matrix products, and how much of the cores it takes. */
#include <math.h>
#include <string.h>

#include "exec/calibrate_internal.h"

#define MIB (INT64_C(1) << 20)
#define SMALL_BYTES (256.0 * 1024)

void
mw_calibrate_multiply(struct mw_calibrator *c, const struct mw_product *product, void *to,
                      const uint16_t *a, const uint16_t *b, const uint16_t *bias)
{
    GError *error = NULL;

    if (!c->kernels->multiply(c->on, product, to, a, b, bias, &error))
        mw_calibrate_fail(c, error);
}

double
mw_calibrate_run_product(void *data)
{
    struct mw_calibrate_products *p = data;
    int64_t size = p->c->scale->beside, bytes = 2 * size * size;
    struct mw_product product = {.m = size, .n = size, .k = size, .b_transposed = true};
    const uint16_t *a = mw_calibrate_take(&p->c->device, &p->at, bytes);
    const uint16_t *b = mw_calibrate_take(&p->c->device, &p->at, bytes);
    void *to = mw_calibrate_take(&p->c->device, &p->at, bytes);

    mw_calibrate_multiply(p->c, &product, to, a, b, NULL);
    return 1;
}

struct mw_calibrate_work
mw_calibrate_products_work(struct mw_calibrate_products *products)
{
    return (struct mw_calibrate_work){mw_calibrate_run_product, products, products->c,
                                      MW_CALIBRATE_COMPUTE};
}

struct beside {
    struct mw_calibrator *c;
    int64_t params, copy_bytes;
};

static double
run_update(void *data)
{
    const struct beside *b = data;
    const struct mw_adamw step = mw_adamw_step(1e-4, 0.9, 0.999, 1e-8, 0.01, 10, 1);
    int64_t at = 0;
    float *w = mw_calibrate_take(&b->c->host, &at, 4 * b->params);
    float *m = mw_calibrate_take(&b->c->host, &at, 4 * b->params);
    float *v = mw_calibrate_take(&b->c->host, &at, 4 * b->params);
    uint16_t *param = mw_calibrate_take(&b->c->host, &at, 2 * b->params);
    uint16_t *gradient = mw_calibrate_take(&b->c->host, &at, 2 * b->params);

    b->c->passes->adamw(&step, w, m, v, param, gradient, false, b->params);
    return 1;
}

/* Beside products in the arena of a device that is not apart: both ends are the host's. */
static double
run_copy(void *data)
{
    const struct beside *b = data;

    memcpy(b->c->host.base, b->c->host.base + b->c->host.bytes / 2, (size_t)b->copy_bytes);
    return 1;
}

/* Units a second of what runs alone, and the part of the cores that it keeps busy. */
static double
alone_rate(struct mw_calibrator *c, const struct mw_calibrate_work *work, double *busy)
{
    double began_s = mw_calibrate_now_s(), used_s = mw_calibrate_used_s();
    double rate = mw_calibrate_quiet_rate(c, work, c->window_s / 2);

    *busy = (mw_calibrate_used_s() - used_s) / ((mw_calibrate_now_s() - began_s) * c->cores);
    return rate;
}

/* What the other loses where the device is apart is not the products' doing: only what they lose
 * counts. */
double
mw_calibrate_felt(const struct mw_calibrator *c, double x, double y)
{
    return c->backend->apart && x >= 0.5 ? fmax(0, 1 - x) : mw_calibrate_share(x, y);
}

/* A sample a round.  Where the device is the host's cores nothing takes less of them than it is
 * seen to use. */
static void
sample_shares(struct mw_calibrator *c, struct mw_calibrate_products *products,
              struct mw_calibrate_work other, double *samples)
{
    const struct mw_calibrate_work works[2] = {mw_calibrate_products_work(products), other};

    for (int r = 0; r < c->rounds; r++) {
        double alone[2], busy[2], both[2];
        for (int i = 0; i < 2; i++)
            alone[i] = alone_rate(c, &works[i], &busy[i]);
        mw_calibrate_rates(c, works, c->window_s, both);
        double felt = mw_calibrate_felt(c, both[0] / alone[0], both[1] / alone[1]);
        samples[r] = c->backend->apart ? felt : fmax(felt, fmin(busy[1], 1));
        g_debug("products at %.2f beside what goes on at %.2f: takes %.2f, uses %.2f",
                both[0] / alone[0], both[1] / alone[1], felt, busy[1]);
    }
}

static struct mw_measure
share_of(struct mw_calibrator *c, struct mw_calibrate_products *products,
         struct mw_calibrate_work other)
{
    double samples[MW_CALIBRATE_ROUNDS_MAX];

    sample_shares(c, products, other, samples);
    return mw_measure_of(samples, c->rounds);
}

/* Of a small request beside products, as a step has them: what it costs beyond its bytes. */
static bool
measure_latency(struct mw_calibrator *c, struct mw_calibrate_products *products,
                struct mw_calibration *out, GError **error)
{
    const double rates[] = {[MW_NVME_READ] = out->drives.read_bytes_per_s.typical,
                            [MW_NVME_WRITE] = out->drives.write_bytes_per_s.typical};
    double samples[MW_NVME_DIRECTIONS * MW_CALIBRATE_ROUNDS_MAX];
    int count = 0;

    if (!mw_calibrate_step(c, "small requests beside products", error))
        return false;
    for (int r = 0; r < c->rounds; r++)
        for (int direction = 0; direction < MW_NVME_DIRECTIONS; direction++) {
            struct mw_calibrate_mover m = {.c = c, .direction = direction, .bytes = SMALL_BYTES};
            const struct mw_calibrate_work works[] = {mw_calibrate_products_work(products),
                                                      {.run = mw_calibrate_move, .state = &m}};
            double both[2];
            mw_calibrate_rates(c, works, c->window_s, both);
            if (m.error) {
                g_propagate_error(error, m.error);
                return false;
            }
            samples[count++] = fmax(0, SMALL_BYTES / both[1] - SMALL_BYTES / rates[direction]);
        }
    out->drives.latency_s = mw_measure_of(samples, count);
    return true;
}

static bool
measure_transfers(struct mw_calibrator *c, struct mw_calibrate_products *products,
                  struct mw_calibration *out, GError **error)
{
    double samples[MW_NVME_DIRECTIONS * MW_CALIBRATE_ROUNDS_MAX];

    for (int direction = 0; direction < MW_NVME_DIRECTIONS; direction++) {
        struct mw_calibrate_mover m = {.c = c, .direction = direction, .bytes = 32 * MIB};
        if (!mw_calibrate_step(
                c, direction == MW_NVME_READ ? "products beside reads" : "products beside writes",
                error))
            return false;
        sample_shares(c, products,
                      (struct mw_calibrate_work){.run = mw_calibrate_move, .state = &m},
                      samples + direction * c->rounds);
        if (m.error) {
            g_propagate_error(error, m.error);
            return false;
        }
    }
    out->nvme_share = mw_measure_of(samples, MW_NVME_DIRECTIONS * c->rounds);
    return true;
}

/* Of cores that are the device's and the host's. */
static bool
measure_host(struct mw_calibrator *c, struct mw_calibrate_products *products,
             struct mw_calibration *out, GError **error)
{
    struct beside beside = {
        .c = c, .params = c->scale->params_beside, .copy_bytes = c->scale->copy_bytes};

    if (!mw_calibrate_step(c, "products beside updates", error))
        return false;
    out->host_share =
        share_of(c, products, (struct mw_calibrate_work){.run = run_update, .state = &beside});
    if (!mw_calibrate_step(c, "products beside copies", error))
        return false;
    out->copy_share =
        share_of(c, products, (struct mw_calibrate_work){.run = run_copy, .state = &beside});
    return true;
}

/* Of a device whose copies are lanes of their own, in both directions. */
static bool
measure_copies(struct mw_calibrator *c, struct mw_calibrate_products *products,
               struct mw_calibration *out, GError **error)
{
    double samples[2 * MW_CALIBRATE_ROUNDS_MAX];

    if (!mw_calibrate_step(c, "products beside copies", error))
        return false;
    for (int to_host = 0; to_host < 2; to_host++) {
        struct mw_calibrate_copies copies = {.c = c, .to_host = to_host};
        sample_shares(c, products, mw_calibrate_copies_work(&copies),
                      samples + to_host * c->rounds);
    }
    out->copy_share = mw_measure_of(samples, 2 * c->rounds);
    return true;
}

bool
mw_calibrate_shares(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    struct mw_calibrate_products products = {.c = c};

    return (c->backend->apart ? measure_copies(c, &products, out, error)
                              : measure_host(c, &products, out, error)) &&
           measure_transfers(c, &products, out, error) && measure_latency(c, &products, out, error);
}
