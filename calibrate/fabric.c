/* Measures the backend's collectives between devices with memory of their own: by size, by kind,
 * and beside products. */
#include <math.h>

#include "calibrate/internal.h"
#include "exec/host/thread.h"
#include "hardware/ring.h"

#define FEW 32 /* elements per rank, so few that the time is a latency */
#define ELEMENT_BYTES 2
#define STREAM 0
#define PIECES 4
#define PIECES_MAX 4096
/* Fraction of the time of collectives in which products beside them are timed. */
#define INSIDE 0.7

struct collective {
    struct mw_calibrator *c;
    enum mw_calibration_collective kind;
    int64_t bytes; /* bytes of all ranks' shards */
};

static struct mw_ranks_part
part_of(const struct collective *it)
{
    int64_t shard = MAX(FEW, it->bytes / ELEMENT_BYTES / mw_calibrate_ranks(it->c) / FEW * FEW);

    return (struct mw_ranks_part){.elements = shard * mw_calibrate_ranks(it->c),
                                  .shard_elements = shard};
}

/* Bytes that a rank passes on (docs/MODEL.md 7.5 to 7.7). */
static double
passed_on(const struct collective *it)
{
    double bytes = ELEMENT_BYTES * (double)part_of(it).elements;
    double once = mw_ring_bytes(bytes, mw_calibrate_ranks(it->c));

    return it->kind == MW_CALIBRATION_BROADCAST    ? bytes
           : it->kind == MW_CALIBRATION_ALL_REDUCE ? 2 * once
                                                   : once;
}

static bool
queue_kind(const struct collective *it, enum mw_calibration_collective kind, GError **error)
{
    const struct mw_collectives *table = it->c->backend->collectives;
    struct mw_ranks_part part = part_of(it);
    int64_t bytes = ELEMENT_BYTES * part.elements;
    char *whole = it->c->device.base, *behind = whole + bytes;
    char *own = whole + ELEMENT_BYTES * part.shard_elements * mw_calibrate_rank(it->c);

    switch (kind) {
    case MW_CALIBRATION_ALL_GATHER:
        return table->all_gather(it->c->peers, STREAM, whole, own, &part, ELEMENT_BYTES, error);
    case MW_CALIBRATION_REDUCE_SCATTER:
        return table->reduce_scatter(it->c->peers, STREAM, behind, whole, &part,
                                     it->c->options->dtype, error);
    case MW_CALIBRATION_ALL_REDUCE:
        return table->all_reduce(it->c->peers, STREAM, whole, it->c->options->dtype, part.elements,
                                 error);
    default:
        return table->broadcast(it->c->peers, STREAM, whole, bytes, 0, error);
    }
}

static double
run_kind(void *data)
{
    const struct collective *it = data;
    GError *error = NULL;

    if (!queue_kind(it, it->kind, &error))
        mw_calibrate_fail(it->c, error);
    return passed_on(it);
}

/* Runs both collectives that a step needs. */
static double
run_both(void *data)
{
    const struct collective *it = data;
    GError *error = NULL;

    if (!queue_kind(it, MW_CALIBRATION_ALL_GATHER, &error) ||
        !queue_kind(it, MW_CALIBRATION_REDUCE_SCATTER, &error))
        mw_calibrate_fail(it->c, error);
    return 1;
}

/* --- by size --------------------------------------------------------------------------------- */

static const char *const names[] = {
    [MW_CALIBRATION_ALL_GATHER] = "all-gather",
    [MW_CALIBRATION_REDUCE_SCATTER] = "reduce-scatter",
    [MW_CALIBRATION_ALL_REDUCE] = "all-reduce",
    [MW_CALIBRATION_BROADCAST] = "broadcast",
};

/* Seconds of one collective. */
static double
seconds_of(struct mw_calibrator *c, enum mw_calibration_collective kind, int64_t bytes)
{
    struct collective it = {c, kind, bytes};
    const struct mw_calibrate_work work = {run_kind, &it, c, MW_CALIBRATE_COLLECTIVE, 1};

    return mw_calibrate_counted_s(&work, PIECES) / PIECES;
}

static bool
take_kind(void *data, int number, double *rate, GError **error)
{
    const struct collective *it = data;

    *rate = passed_on(it) / seconds_of(it->c, it->kind, it->bytes);
    return true;
}

struct sizes {
    struct mw_calibrator *c;
    enum mw_calibration_collective kind;
    double dims[MW_CALIBRATION_MESSAGES_MAX]; /* bytes */
};

/* Units of a sample: begins with the meeting of the ranks. */
static double
units_of(const void *data, int point)
{
    const struct sizes *sizes = data;
    const struct collective it = {sizes->c, sizes->kind, sizes->c->scale->messages[point]};

    return (PIECES + 1) * passed_on(&it);
}

static bool
measure_size(void *data, int point, struct mw_measure *rate, GError **error)
{
    const struct sizes *sizes = data;
    struct mw_calibrator *c = sizes->c;
    struct collective it = {c, sizes->kind, c->scale->messages[point]};
    const struct mw_calibrate_samples samples = {
        .take = take_kind, .state = &it, .values = 1, .together = true};
    g_autofree char *what =
        g_strdup_printf("%s of %d KiB", names[sizes->kind], (int)(it.bytes / 1024));

    return mw_calibrate_step(c, what, error) && mw_calibrate_take_samples(c, &samples, rate, error);
}

static struct mw_calibrate_curve
curve_of(struct sizes *sizes, struct mw_calibration *out)
{
    for (int i = 0; i < out->messages; i++)
        sizes->dims[i] = (double)out->message_bytes[i];
    return (struct mw_calibrate_curve){.points = out->messages,
                                       .dims = sizes->dims,
                                       .units = units_of,
                                       .measure = measure_size,
                                       .state = sizes,
                                       .what = names[sizes->kind],
                                       .again = MW_CALIBRATE_COLLECTIVE_KINDS_AGAIN,
                                       .contradicts = out->collective_contradicts[sizes->kind]};
}

/* Takes all kinds first, since repeated measurements come after them. */
static bool
measure_kinds(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    struct sizes sizes[MW_CALIBRATION_COLLECTIVES];
    struct mw_calibrate_curve curves[MW_CALIBRATION_COLLECTIVES];
    int left = MW_CALIBRATION_COLLECTIVES * out->messages;

    for (int i = 0; i < out->messages; i++)
        out->message_bytes[i] = c->scale->messages[i];
    if (!mw_calibrate_begin(c, MW_CALIBRATE_COLLECTIVE_KINDS, "collectives by size", left, error))
        return false;
    for (int kind = 0; kind < MW_CALIBRATION_COLLECTIVES; kind++) {
        sizes[kind] = (struct sizes){.c = c, .kind = (enum mw_calibration_collective)kind};
        curves[kind] = curve_of(&sizes[kind], out);
        left -= out->messages;
        if (!mw_calibrate_take_points(c, &curves[kind], out->collective_bytes_per_s[kind], left,
                                      error))
            return false;
    }
    for (int kind = 0; kind < MW_CALIBRATION_COLLECTIVES; kind++)
        if (!mw_calibrate_measure_curve(c, &curves[kind], out->collective_bytes_per_s[kind], error))
            return false;
    c->budget.begun[MW_CALIBRATE_COLLECTIVE_KINDS_AGAIN] = true;
    return true;
}

/* docs/MODEL.md 7.5: the time is latencies plus bytes over the rate, so the rate is the slope. */
static double
slope_of(struct mw_calibrator *c)
{
    double bytes[MW_CALIBRATION_MESSAGES_MAX], seconds[MW_CALIBRATION_MESSAGES_MAX];
    double latency_s, s_per_byte;
    int count = c->scale->message_points;

    for (int i = 0; i < count; i++) {
        struct collective it = {c, MW_CALIBRATION_ALL_GATHER, c->scale->messages[i]};
        bytes[i] = passed_on(&it);
        seconds[i] = (seconds_of(c, MW_CALIBRATION_ALL_GATHER, it.bytes) +
                      seconds_of(c, MW_CALIBRATION_REDUCE_SCATTER, it.bytes)) /
                     2;
    }
    mw_calibrate_line(bytes, seconds, count, &latency_s, &s_per_byte);
    return s_per_byte > 0 ? 1 / s_per_byte : bytes[count - 1] / seconds[count - 1];
}

enum { RATE, LATENCY, FABRIC_VALUES };

static bool
take_fabric(void *data, int number, double *values, GError **error)
{
    struct mw_calibrator *c = data;

    values[RATE] = slope_of(c);
    values[LATENCY] = seconds_of(c, MW_CALIBRATION_ALL_GATHER, 0) / (mw_calibrate_ranks(c) - 1);
    return true;
}

static bool
measure_fabric(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    const struct mw_calibrate_samples samples = {
        .take = take_fabric, .state = c, .values = FABRIC_VALUES, .together = true};
    struct mw_measure measures[FABRIC_VALUES];

    if (!mw_calibrate_begin(c, MW_CALIBRATE_COLLECTIVES, "collectives", 1, error) ||
        !mw_calibrate_take_samples(c, &samples, measures, error))
        return false;
    out->fabric_bytes_per_s = measures[RATE];
    out->fabric_latency_s = measures[LATENCY];
    return true;
}

/* --- beside products ------------------------------------------------------------------------- */

struct beside {
    struct mw_calibrate_work work;
    int pieces;
    double seconds;
};

static void *
run_beside(void *data)
{
    struct beside *beside = data;

    mw_calibrate_enter(beside->work.of);
    beside->seconds = mw_calibrate_counted_s(&beside->work, beside->pieces);
    return NULL;
}

/* All ranks run the same number; `one_s` is their mean. */
static bool
take_share(void *data, int number, double *share, GError **error)
{
    const struct mw_calibrate_work *collectives = data;
    struct mw_calibrator *c = collectives->of;
    struct mw_calibrate_products products = {.c = c};
    const struct mw_calibrate_work work = mw_calibrate_products_work(&products);
    double alone = mw_calibrate_rate(&work, c->window_s / 2);
    double one_s = mw_calibrate_counted_s(collectives, PIECES) / PIECES;

    if (!mw_calibrate_good(c, error) || !mw_calibrate_sum(c, &one_s, 1, error))
        return false;
    one_s /= mw_calibrate_ranks(c);
    struct beside beside = {*collectives,
                            one_s > 0 ? (int)CLAMP(c->window_s / one_s, 1, PIECES_MAX) : 1, 0};
    GThread *thread = mw_thread_start("calibrate", run_beside, &beside, error);
    if (!thread)
        return false;
    double rate = mw_calibrate_rate(&work, INSIDE * one_s * beside.pieces);
    g_thread_join(thread);
    *share = mw_calibrate_felt(c, rate / alone, one_s * beside.pieces / beside.seconds);
    return true;
}

static bool
measure_share(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    struct collective it = {.c = c, .bytes = c->scale->messages[c->scale->message_points / 2]};
    struct mw_calibrate_work work = {run_both, &it, c, MW_CALIBRATE_COLLECTIVE, 1};

    return mw_calibrate_collective_share(c, take_share, &work, out, error);
}

bool
mw_calibrate_fabric(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    if (!mw_calibrate_step(c, "collectives: joining", error))
        return false;
    c->peers = c->backend->join(c->handle, c->options->ranks, 1u << STREAM, error);
    if (c->peers && c->backend->hurry)
        c->backend->hurry(c->handle, MW_CALIBRATE_COLLECTIVE);
    if (!c->peers || !measure_fabric(c, out, error) || !measure_share(c, out, error))
        return false;
    out->messages = c->scale->message_points;
    if (c->backend->collectives->describe)
        c->backend->collectives->describe(c->peers, out->collectives_by,
                                          sizeof out->collectives_by);
    return measure_kinds(c, out, error);
}
