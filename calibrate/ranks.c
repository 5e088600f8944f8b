/* Several ranks of one machine: measures between them, and unites their figures. */
#include <math.h>
#include <string.h>

#include "calibrate/internal.h"
#include "exec/host/thread.h"

#define GATHERED_BYTES (INT64_C(16) << 20)
#define QUICK_GATHERED_BYTES (INT64_C(1) << 20)
#define FEW 32 /* elements per rank, so few that the time is a latency */
#define ELEMENT_BYTES 2
#define TIMES 8
#define MEETINGS 60
#define MEETINGS_LEAST 6
#define MEETINGS_PART 0.25 /* part of the share of time for the meetings of a sample */

int
mw_calibrate_ranks(const struct mw_calibrator *c)
{
    return c->options->ranks ? mw_ranks_count(c->options->ranks) : 1;
}

int
mw_calibrate_rank(const struct mw_calibrator *c)
{
    return c->options->ranks ? mw_ranks_index(c->options->ranks) : 0;
}

bool
mw_calibrate_sum(struct mw_calibrator *c, double *data, int count, GError **error)
{
    return mw_calibrate_ranks(c) == 1 ||
           mw_ranks_all_reduce_fp64(c->options->ranks, 0, data, count, error);
}

/* --- collectives ----------------------------------------------------------------------------- */

struct collectives {
    struct mw_calibrator *c;
    int64_t shard_elements;
    int done; /* atomic */
    double seconds;
    GError *error;
};

static struct mw_ranks_part
part_of(const struct collectives *it)
{
    return (struct mw_ranks_part){.elements = mw_calibrate_ranks(it->c) * it->shard_elements,
                                  .shard_elements = it->shard_elements};
}

static uint16_t *
own_shard(const struct collectives *it, uint16_t *whole)
{
    return whole + it->shard_elements * mw_calibrate_rank(it->c);
}

static bool
all_gather(struct collectives *it)
{
    struct mw_ranks_part part = part_of(it);
    uint16_t *whole = (uint16_t *)(void *)it->c->host.base;

    return mw_ranks_all_gather(it->c->options->ranks, 0, whole, own_shard(it, whole), &part,
                               ELEMENT_BYTES, &it->error);
}

static bool
reduce_scatter(struct collectives *it)
{
    struct mw_ranks_part part = part_of(it);
    struct mw_ranks_sum sum = {.whole = it->c->options->dtype,
                               .shard = it->c->options->dtype,
                               .scale = 1.0f / (float)mw_calibrate_ranks(it->c)};
    uint16_t *whole = (uint16_t *)(void *)it->c->host.base;

    return mw_ranks_reduce_scatter(it->c->options->ranks, 0, own_shard(it, whole), whole, &part,
                                   sum, &it->error);
}

/* Seconds of one pair of collectives. */
static bool
time_both(struct collectives *it)
{
    double began_s = mw_calibrate_now_s();

    for (int i = 0; i < TIMES; i++)
        if (!all_gather(it) || !reduce_scatter(it)) /* both collectives, as a step needs them */
            return false;
    it->seconds = (mw_calibrate_now_s() - began_s) / (2 * TIMES);
    return true;
}

/* Seconds from the end of a rank's product until all have met: the slowest of equals, including its
 * wake-up. */
static bool
time_meeting(struct collectives *it, double seconds, double *meeting_s)
{
    struct mw_calibrate_products products = {.c = it->c};
    struct mw_calibrate_work product = mw_calibrate_products_work(&products);

    if (!all_gather(it))
        return false;
    double product_s = 1 / mw_calibrate_rate(&product, seconds);
    double meetings = floor(MEETINGS_PART * mw_calibrate_share_s(it->c) / product_s);
    meetings = fmin(fmax(meetings, MEETINGS_LEAST), MEETINGS);
    if (!mw_calibrate_agree(it->c, &meetings, &it->error) || !all_gather(it))
        return false;
    double began_s = mw_calibrate_now_s();
    for (int i = 0; i < (int)meetings; i++) {
        mw_calibrate_run_product(&products);
        if (!all_gather(it))
            return false;
    }
    *meeting_s = fmax(0, (mw_calibrate_now_s() - began_s) / meetings - product_s);
    return true;
}

struct fabric {
    struct collectives small, *large;
};

enum { RATE, LATENCY, FABRIC_VALUES };
G_STATIC_ASSERT((int)FABRIC_VALUES <= (int)MW_CALIBRATE_VALUES_MAX);

static bool
take_fabric(void *data, int number, double *values, GError **error)
{
    struct fabric *fabric = data;
    struct collectives *small = &fabric->small, *large = fabric->large;
    double n = mw_calibrate_ranks(small->c);
    double passed_on = (double)large->shard_elements * ELEMENT_BYTES * (n - 1);

    if (!time_both(small) || !time_both(large) ||
        !time_meeting(small, small->c->window_s, &values[LATENCY])) {
        g_propagate_error(error, small->error ? small->error : large->error);
        return false;
    }
    values[LATENCY] = fmax(values[LATENCY], small->seconds) / (n - 1);
    values[RATE] = passed_on / (large->seconds > small->seconds ? large->seconds - small->seconds
                                                                : large->seconds);
    return true;
}

static bool
measure_fabric(struct mw_calibrator *c, struct collectives *large, struct mw_calibration *out,
               GError **error)
{
    struct fabric fabric = {{.c = c, .shard_elements = FEW}, large};
    const struct mw_calibrate_samples samples = {
        .take = take_fabric, .state = &fabric, .values = FABRIC_VALUES, .together = true};
    struct mw_measure measures[FABRIC_VALUES];

    if (!mw_calibrate_begin(c, MW_CALIBRATE_COLLECTIVES, "collectives", 1, error) ||
        !mw_calibrate_take_samples(c, &samples, measures, error))
        return false;
    out->fabric_latency_s = measures[LATENCY];
    out->fabric_bytes_per_s = measures[RATE];
    return true;
}

static void *
run_beside(void *data)
{
    struct collectives *it = data;

    time_both(it);
    g_atomic_int_set(&it->done, 1);
    return NULL;
}

/* All ranks run the same number of collectives; products go on until these are done. */
static bool
share_beside(struct collectives *large, double *share)
{
    struct mw_calibrator *c = large->c;
    struct mw_calibrate_products products = {.c = c};
    struct mw_calibrate_work work = mw_calibrate_products_work(&products);
    double alone = mw_calibrate_rate(&work, c->window_s / 2), units = 0;

    if (!time_both(large))
        return false;
    double alone_s = large->seconds, began_s = mw_calibrate_now_s();
    g_atomic_int_set(&large->done, 0);
    GThread *thread = mw_thread_start("calibrate", run_beside, large, &large->error);
    if (!thread)
        return false;
    while (!g_atomic_int_get(&large->done))
        units += mw_calibrate_run_product(&products);
    double beside = units / (mw_calibrate_now_s() - began_s);
    g_thread_join(thread);
    *share = mw_calibrate_share(beside / alone, alone_s / large->seconds);
    return !large->error;
}

static bool
take_share(void *data, int number, double *share, GError **error)
{
    struct collectives *large = data;

    if (share_beside(large, share))
        return true;
    g_propagate_error(error, g_steal_pointer(&large->error));
    return false;
}

bool
mw_calibrate_collective_share(struct mw_calibrator *c,
                              bool (*take)(void *state, int number, double *share, GError **error),
                              void *state, struct mw_calibration *out, GError **error)
{
    const struct mw_calibrate_samples samples = {
        .take = take, .state = state, .values = 1, .together = true};

    if (!mw_calibrate_begin(c, MW_CALIBRATE_BESIDE_COLLECTIVES, "products beside collectives", 1,
                            error) ||
        !mw_calibrate_take_samples(c, &samples, &out->collective_share, error))
        return false;
    mw_measure_clamp(&out->collective_share, 0, 1);
    return true;
}

bool
mw_calibrate_collectives(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    int64_t bytes = c->options->quick ? QUICK_GATHERED_BYTES : GATHERED_BYTES;
    struct collectives large = {.c = c,
                                .shard_elements = bytes / ELEMENT_BYTES / mw_calibrate_ranks(c)};

    if (mw_calibrate_ranks(c) == 1)
        return true;
    if (c->backend->collectives)
        return mw_calibrate_fabric(c, out, error);
    return measure_fabric(c, &large, out, error) &&
           mw_calibrate_collective_share(c, take_share, &large, out, error);
}

/* --- figures of one machine ------------------------------------------------------------------ */

#define AT(field) offsetof(struct mw_calibration, field)

static const struct {
    size_t offset;
    bool sum; /* summed if ranks share it and used it at the same time; else the mean */
} figures[] = {
    {AT(layer_flops), false},
    {AT(fp32_share), false},
    {AT(device_bytes_per_s), false},
    {AT(loss_bytes_per_s), false},
    {AT(pass_bytes_per_s[MW_CALIBRATION_SUMS]), false},
    {AT(pass_bytes_per_s[MW_CALIBRATION_LAYER_NORM]), false},
    {AT(pass_bytes_per_s[MW_CALIBRATION_RMS_NORM]), false},
    {AT(pass_bytes_per_s[MW_CALIBRATION_ACTIVATION]), false},
    {AT(pass_bytes_per_s[MW_CALIBRATION_GATED]), false},
    {AT(launch_s), false},
    {AT(h2d_bytes_per_s), false},
    {AT(d2h_bytes_per_s), false},
    {AT(copy_latency_s), false},
    {AT(node_h2d_bytes_per_s), true},
    {AT(node_d2h_bytes_per_s), true},
    {AT(update_params_per_s), true},
    {AT(host_bytes_per_s), true},
    {AT(norm_bytes_per_s), true},
    {AT(exact_bytes_per_s), true},
    {AT(copy_duplex), false},
    {AT(host_share), false},
    {AT(copy_share), false},
    {AT(nvme_share), false},
    {AT(fabric_bytes_per_s), false},
    {AT(fabric_latency_s), false},
    {AT(collective_share), false},
    {AT(drives.read_bytes_per_s), true},
    {AT(drives.write_bytes_per_s), true},
    {AT(drives.burst_bytes_per_s), true},
    {AT(drives.latency_s), false},
    {AT(drives.duplex), false},
    {AT(drives.mixed_kept[0]), false},
    {AT(drives.mixed_kept[1]), false},
};

static bool
unite(struct mw_calibrator *c, struct mw_measure *m, bool sum, GError **error)
{
    double values[] = {m->low, m->typical, m->high};
    double parts = sum ? 1 : mw_calibrate_ranks(c);

    if (!mw_calibrate_sum(c, values, 3, error))
        return false;
    m->low = values[0] / parts;
    m->typical = values[1] / parts;
    m->high = values[2] / parts;
    return true;
}

/* Adds up disturbances of any rank; those of joint work have been counted alike by each. */
static bool
unite_course(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    int *const counts[] = {
        &out->disturbances.samples, &out->disturbances.waited, &out->disturbances.samples_again,
        &out->steal.samples,        &out->steal.again,         &out->steal.kept};
    double values[G_N_ELEMENTS(counts) + 1];

    for (size_t i = 0; i < G_N_ELEMENTS(counts); i++)
        values[i] = *counts[i];
    values[G_N_ELEMENTS(counts)] = out->cores_had / mw_calibrate_ranks(c);
    if (!mw_calibrate_sum(c, values, G_N_ELEMENTS(values), error))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(counts); i++)
        *counts[i] = (int)values[i];
    out->cores_had = values[G_N_ELEMENTS(counts)];
    return true;
}

/* At each end of the range, the part of the rate alone: the slope of requests of all sizes, and
 * where it was found, the rate of writes that lasts. */
static struct mw_measure
kept_of(const struct mw_measure *rate, const struct mw_measure *kept)
{
    struct mw_measure m = *kept;

    m.low *= rate->low;
    m.typical *= rate->typical;
    m.high *= rate->high;
    return m;
}

static void
set_mixed(struct mw_calibration_drives *d)
{
    d->mixed_read_bytes_per_s = kept_of(&d->read_bytes_per_s, &d->mixed_kept[0]);
    d->mixed_write_bytes_per_s = kept_of(&d->write_bytes_per_s, &d->mixed_kept[1]);
}

bool
mw_calibrate_unite(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    double bytes[] = {(double)out->memory_bytes, (double)out->device_bytes,
                      (double)out->device_taken_bytes};

    if (!unite_course(c, out, error))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++)
        if (!unite(c, (struct mw_measure *)(void *)((char *)out + figures[i].offset),
                   figures[i].sum, error))
            return false;
    for (int i = 0; i < out->points; i++)
        if (!unite(c, &out->matmul_flops[i], false, error))
            return false;
    for (int i = 0; i < out->attention_points; i++)
        if (!unite(c, &out->attention_flops[i], false, error))
            return false;
    for (int of = 0; of < MW_CALIBRATION_DIRECTIONS; of++)
        for (int i = 0; i < out->points; i++)
            if (!unite(c, &out->direction_flops[of][i], false, error))
                return false;
    for (int i = 0; i < MW_ATTENTION_HEADS; i++)
        if (!unite(c, &out->heads_forward_flops[i], false, error) ||
            !unite(c, &out->heads_backward_flops[i], false, error))
            return false;
    for (int kind = 0; kind < MW_CALIBRATION_COLLECTIVES; kind++)
        for (int i = 0; i < out->messages; i++)
            if (!unite(c, &out->collective_bytes_per_s[kind][i], false, error))
                return false;
    set_mixed(&out->drives);
    if (!mw_calibrate_sum(c, bytes, G_N_ELEMENTS(bytes), error))
        return false;
    out->memory_bytes = (int64_t)(bytes[0] / mw_calibrate_ranks(c));
    out->device_bytes = (int64_t)(bytes[1] / mw_calibrate_ranks(c));
    out->device_taken_bytes = (int64_t)(bytes[2] / mw_calibrate_ranks(c));
    return true;
}
