/* Measures the share of the cores that works take beside matrix products. */
#include <math.h>
#include <string.h>

#include "calibrate/internal.h"

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
    int64_t size = p->c->beside, bytes = 2 * size * size;
    struct mw_product product = {.m = size, .n = size, .k = size, .b_transposed = true};
    const uint16_t *a = mw_calibrate_operand(p->c, &p->at, bytes);
    const uint16_t *b = mw_calibrate_operand(p->c, &p->at, bytes);
    void *to = mw_calibrate_result(p->c, &p->at, bytes);

    mw_calibrate_multiply(p->c, &product, to, a, b, NULL);
    return 1;
}

struct mw_calibrate_work
mw_calibrate_products_work(struct mw_calibrate_products *products)
{
    return (struct mw_calibrate_work){mw_calibrate_run_product, products, products->c,
                                      MW_CALIBRATE_COMPUTE, 1};
}

struct beside {
    struct mw_calibrator *c;
    int64_t params, copy_bytes;
    int64_t at; /* of the next piece's state */
};

/* Short compared with a window, even if two teams slow each other down. */
#define PIECE_PARAMS (INT64_C(1) << 20)

static double
run_update(void *data)
{
    struct beside *b = data;
    const struct mw_update_step step = mw_adamw_step(1e-4, 0.9, 0.999, 1e-8, 0.01, 10, 1);
    int64_t params = MIN(PIECE_PARAMS, b->params);
    const struct mw_calibrate_state s = mw_calibrate_state(&b->c->host, &b->at, params);

    b->c->passes->update(&step, s.w, s.m, s.v, s.param, s.gradient, false, params);
    return (double)params;
}

/* Runs beside products in the arena of a device that shares the host's memory, so both ends are the
 * host's. */
static double
run_copy(void *data)
{
    const struct beside *b = data;

    memcpy(b->c->host.base, b->c->host.base + b->c->host.bytes / 2, (size_t)b->copy_bytes);
    return 1;
}

/* Units per second of a work alone, and the fraction of the cores that it keeps busy. */
static double
alone_rate(struct mw_calibrator *c, const struct mw_calibrate_work *work, double *busy)
{
    double began_s = mw_calibrate_now_s(), used_s = mw_calibrate_used_s();
    double rate = mw_calibrate_quiet_rate(c, work, c->window_s / 2);

    *busy = (mw_calibrate_used_s() - used_s) / ((mw_calibrate_now_s() - began_s) * c->cores);
    return rate;
}

/* If the device is apart, products do not slow the other work, so only the products' loss
 * counts. */
double
mw_calibrate_felt(const struct mw_calibrator *c, double x, double y)
{
    return c->backend->apart && x >= 0.5 ? fmax(0, 1 - x) : mw_calibrate_share(x, y);
}

/* Shared by one work, or by two in turn. */
struct shared {
    struct mw_calibrator *c;
    struct mw_calibrate_products *products;
    const struct mw_calibrate_work *others;
    int count;
};

/* If the device is the host's cores, a work takes at least the share that it is seen to use. */
static bool
take_share(void *data, int number, double *share, GError **error)
{
    struct shared *s = data;
    struct mw_calibrator *c = s->c;
    const struct mw_calibrate_work works[2] = {mw_calibrate_products_work(s->products),
                                               s->others[number % s->count]};
    double alone[2], busy[2], both[2];

    for (int i = 0; i < 2; i++)
        alone[i] = alone_rate(c, &works[i], &busy[i]);
    mw_calibrate_rates(c, works, c->window_s, both);
    double felt = mw_calibrate_felt(c, both[0] / alone[0], both[1] / alone[1]);
    *share = c->backend->apart ? felt : fmax(felt, fmin(busy[1], 1));
    g_debug("products at %.2f beside what goes on at %.2f: takes %.2f, uses %.2f",
            both[0] / alone[0], both[1] / alone[1], felt, busy[1]);
    return true;
}

/* If there is no time for it: as much as the threads ask for, with the widest range. */
static bool
measure_share(struct mw_calibrator *c, enum mw_calibrate_part part, const char *what,
              const struct shared *of, double asks, struct mw_measure *share, GError **error)
{
    struct shared shared = *of;
    const struct mw_calibrate_samples samples = {.take = take_share,
                                                 .state = &shared,
                                                 .values = 1,
                                                 .wished = of->count * c->rounds,
                                                 .least = of->count};
    bool time;

    if (!mw_calibrate_has_time(c, part, of->count * c->budget.sample_s, &time, error))
        return false;
    if (!time) {
        *share = mw_calibrate_left_out(c, 0, asks, 1);
        return true;
    }
    if (!mw_calibrate_begin(c, part, what, 1, error))
        return false;
    if (!mw_calibrate_take_samples(c, &samples, share, error))
        return false;
    mw_measure_clamp(share, 0, 1);
    return true;
}

struct small {
    struct mw_calibrator *c;
    struct mw_calibrate_products *products;
    double rates[MW_NVME_DIRECTIONS];
};

/* The cost of a small request beside products beyond its bytes, as a step has them. */
static bool
take_latency(void *data, int number, double *seconds, GError **error)
{
    struct small *small = data;
    int direction = number % MW_NVME_DIRECTIONS;
    struct mw_calibrate_mover m = {.c = small->c, .direction = direction, .bytes = SMALL_BYTES};
    const struct mw_calibrate_work works[] = {mw_calibrate_products_work(small->products),
                                              {.run = mw_calibrate_move, .state = &m}};
    double both[2];

    mw_calibrate_rates(small->c, works, small->c->window_s, both);
    if (m.error) {
        g_propagate_error(error, m.error);
        return false;
    }
    *seconds = fmax(0, SMALL_BYTES / both[1] - SMALL_BYTES / small->rates[direction]);
    return true;
}

static bool
measure_latency(struct mw_calibrator *c, struct mw_calibrate_products *products,
                struct mw_calibration *out, GError **error)
{
    struct small small = {c,
                          products,
                          {[MW_NVME_READ] = out->drives.read_bytes_per_s.typical,
                           [MW_NVME_WRITE] = out->drives.write_bytes_per_s.typical}};
    const struct mw_calibrate_samples samples = {.take = take_latency,
                                                 .state = &small,
                                                 .values = 1,
                                                 .wished = MW_NVME_DIRECTIONS * c->rounds,
                                                 .least = MW_NVME_DIRECTIONS};

    return mw_calibrate_begin(c, MW_CALIBRATE_SMALL_REQUESTS, "small requests beside products", 1,
                              error) &&
           mw_calibrate_take_samples(c, &samples, &out->drives.latency_s, error);
}

static bool
measure_transfers(struct mw_calibrator *c, struct mw_calibrate_products *products,
                  struct mw_calibration *out, GError **error)
{
    struct mw_calibrate_mover movers[MW_NVME_DIRECTIONS];
    struct mw_calibrate_work works[MW_NVME_DIRECTIONS];

    for (int direction = 0; direction < MW_NVME_DIRECTIONS; direction++) {
        movers[direction] =
            (struct mw_calibrate_mover){.c = c, .direction = direction, .bytes = c->move_bytes};
        works[direction] =
            (struct mw_calibrate_work){.run = mw_calibrate_move, .state = &movers[direction]};
    }
    const struct shared shared = {c, products, works, MW_NVME_DIRECTIONS};
    bool good =
        measure_share(c, MW_CALIBRATE_BESIDE_TRANSFERS, "products beside reads and writes", &shared,
                      c->backend->apart ? 0 : 1.0 / c->cores, &out->nvme_share, error);
    for (int direction = 0; direction < MW_NVME_DIRECTIONS; direction++) {
        if (good && movers[direction].error)
            g_propagate_error(error, g_steal_pointer(&movers[direction].error));
        good = good && (!error || !*error);
        g_clear_error(&movers[direction].error);
    }
    return good;
}

/* For cores that are both device and host. */
static bool
measure_host(struct mw_calibrator *c, struct mw_calibrate_products *products,
             struct mw_calibration *out, GError **error)
{
    struct beside beside = {.c = c, .params = c->scale->params, .copy_bytes = c->scale->copy_bytes};

    const struct mw_calibrate_work update = {.run = run_update, .state = &beside};
    const struct mw_calibrate_work copy = {.run = run_copy, .state = &beside};
    const struct shared updates = {c, products, &update, 1}, copies = {c, products, &copy, 1};

    mw_calibrate_fill_host(c); /* drives have left other bytes */
    return measure_share(c, MW_CALIBRATE_BESIDE_UPDATES, "products beside updates", &updates, 1,
                         &out->host_share, error) &&
           measure_share(c, MW_CALIBRATE_BESIDE_COPIES, "products beside copies", &copies,
                         1.0 / c->cores, &out->copy_share, error);
}

/* For a device whose copies have lanes of their own, in both directions. */
static bool
measure_copies(struct mw_calibrator *c, struct mw_calibrate_products *products,
               struct mw_calibration *out, GError **error)
{
    struct mw_calibrate_copies copies[2] = {{.c = c}, {.c = c, .to_host = true}};
    const struct mw_calibrate_work works[2] = {mw_calibrate_copies_work(&copies[0]),
                                               mw_calibrate_copies_work(&copies[1])};
    const struct shared shared = {c, products, works, 2};

    return measure_share(c, MW_CALIBRATE_BESIDE_COPIES, "products beside copies", &shared, 0,
                         &out->copy_share, error);
}

bool
mw_calibrate_shares(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    struct mw_calibrate_products products = {.c = c};

    return (c->backend->apart ? measure_copies(c, &products, out, error)
                              : measure_host(c, &products, out, error)) &&
           measure_transfers(c, &products, out, error) && measure_latency(c, &products, out, error);
}
