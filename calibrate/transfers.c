/* Measures how fast the drives do a run's transfers: requests one after the other in each
 * direction. */
#include <math.h>

#include "base/error.h"
#include "calibrate/internal.h"

#define MIB (INT64_C(1) << 20)
#define SUSTAINED_LIMIT_BYTES (INT64_C(64) << 30)
#define SUSTAINED_WINDOW_S 1.0
#define SUSTAINED_SPAN 10

static int64_t
half(const struct mw_calibrator *c)
{
    return c->region_bytes / 2 / mw_nvme_stripe_bytes(c->nvme) * mw_nvme_stripe_bytes(c->nvme);
}

double
mw_calibrate_move(void *data)
{
    struct mw_calibrate_mover *m = data;
    bool write = m->direction == MW_NVME_WRITE;
    int64_t bytes = MIN(m->bytes, MIN(half(m->c), m->c->host.bytes / 2));
    char *buffer = m->c->host.base + (write ? m->c->host.bytes / 2 : 0);

    if (m->error)
        return (double)bytes;
    if (m->at + bytes > half(m->c))
        m->at = 0;
    mw_nvme_transfer(m->c->nvme, m->direction, m->at + (write ? half(m->c) : 0), bytes, buffer,
                     &m->error);
    m->at += bytes;
    return (double)bytes;
}

#define WINDOW_MOVES 4
#define MOVE_BYTES (32 * MIB)

void
mw_calibrate_choose_move(struct mw_calibrator *c, double bytes_per_s)
{
    int64_t bytes = MOVE_BYTES;

    while (bytes > MIB && (double)bytes / bytes_per_s > c->window_wish_s / WINDOW_MOVES)
        bytes /= 2;
    c->move_bytes = bytes;
}

/* --- a direction: latency and rate ----------------------------------------------------------- */

/* Seconds of a single request of each size. */
static bool
time_sizes(struct mw_calibrate_mover *m, const double *sizes, int count, double *seconds,
           GError **error)
{
    for (int i = 0; i < count; i++) {
        struct mw_calibrate_work work = {.run = mw_calibrate_move, .state = m};
        m->bytes = (int64_t)sizes[i];
        if (!mw_calibrate_meet(m->c, error))
            return false;
        seconds[i] = sizes[i] / mw_calibrate_rate(&work, m->c->options->quick ? 0 : 0.03);
    }
    if (!m->error)
        return true;
    g_propagate_error(error, g_steal_pointer(&m->error));
    return false;
}

static const double sizes[] = {0.5 * MIB, 2.0 * MIB, 8.0 * MIB, 32.0 * MIB, 128.0 * MIB};
#define QUICK_SIZES 3
#define SIZES_LEAST 2
#define FIRST_SIZE 1  /* used if there is time for the larger sizes */
#define SAMPLES 3     /* samples that there must be time for */
#define SIZES_SUM 1.4 /* time of all sizes, in units of that of the largest */

struct sized {
    struct mw_calibrator *c;
    struct mw_calibrate_mover mover;
    int first, count; /* sizes [first, count) */
};

static int
wished_sizes(const struct mw_calibrator *c)
{
    return c->options->quick ? QUICK_SIZES : (int)G_N_ELEMENTS(sizes);
}

/* Chooses the longest size that the region holds and that there is time for, and those below it. */
static bool
choose_sizes(struct sized *sized, GError **error)
{
    struct mw_calibrator *c = sized->c;
    double most = (double)MIN(half(c), c->host.bytes / 2), share_s = mw_calibrate_share_s(c);
    double count = wished_sizes(c);
    double began_s = mw_calibrate_now_s();

    sized->mover.bytes = c->move_bytes;
    double rate = mw_calibrate_move(&sized->mover) / (mw_calibrate_now_s() - began_s);
    if (sized->mover.error) {
        g_propagate_error(error, g_steal_pointer(&sized->mover.error));
        return false;
    }
    while (count > SIZES_LEAST && (sizes[(int)count - 1] > most ||
                                   SIZES_SUM * sizes[(int)count - 1] / rate > share_s / SAMPLES))
        count--;
    if (!mw_calibrate_agree(c, &count, error))
        return false;
    sized->count = (int)count;
    sized->first = sized->count > FIRST_SIZE + 1 ? FIRST_SIZE : 0;
    return true;
}

/* docs/MODEL.md 7.4: a request takes a latency, and its bytes over the rate. */
static bool
take_slope(void *data, int number, double *rate, GError **error)
{
    struct sized *sized = data;
    int count = sized->count - sized->first;
    const double *x = sizes + sized->first;
    double seconds[G_N_ELEMENTS(sizes)], latency_s, s_per_byte;

    if (!time_sizes(&sized->mover, x, count, seconds, error))
        return false;
    mw_calibrate_line(x, seconds, count, &latency_s, &s_per_byte);
    *rate = s_per_byte > 0 ? 1 / s_per_byte : x[count - 1] / seconds[count - 1];
    return true;
}

static bool
measure_direction(struct mw_calibrator *c, enum mw_nvme_direction direction,
                  struct mw_measure *bytes_per_s, int64_t *request_bytes, GError **error)
{
    struct sized sized = {.c = c, .mover = {.c = c, .direction = direction}};
    const struct mw_calibrate_samples samples = {
        .take = take_slope, .state = &sized, .values = 1, .together = true};

    if (!choose_sizes(&sized, error) || !mw_calibrate_take_samples(c, &samples, bytes_per_s, error))
        return false;
    *request_bytes = (int64_t)sizes[sized.count - 1];
    return true;
}

/* --- both at once ---------------------------------------------------------------------------- */

static bool
measure_duplex(struct mw_calibrator *c, struct mw_calibration_drives *drives, GError **error)
{
    struct mw_calibrate_mover movers[] = {
        {.c = c, .direction = MW_NVME_READ, .bytes = c->move_bytes},
        {.c = c, .direction = MW_NVME_WRITE, .bytes = c->move_bytes},
    };
    struct mw_calibrate_pair pair = {c,
                                     {{.run = mw_calibrate_move, .state = &movers[0]},
                                      {.run = mw_calibrate_move, .state = &movers[1]}},
                                     drives->mixed_kept};

    if (!mw_calibrate_duplex(&pair, &drives->duplex, error))
        return false;
    for (int i = 0; i < 2; i++)
        if (movers[i].error) {
            if (error && !*error)
                g_propagate_error(error, g_steal_pointer(&movers[i].error));
            g_clear_error(&movers[i].error);
            return false;
        }
    return true;
}

bool
mw_calibrate_transfers(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    struct mw_calibration_drives *d = &out->drives;

    int64_t read_bytes, write_bytes;

    if (!mw_calibrate_begin(c, MW_CALIBRATE_READS, "drives: read", 1, error) ||
        !measure_direction(c, MW_NVME_READ, &d->read_bytes_per_s, &read_bytes, error) ||
        !mw_calibrate_begin(c, MW_CALIBRATE_WRITES, "drives: write", 1, error) ||
        !measure_direction(c, MW_NVME_WRITE, &d->write_bytes_per_s, &write_bytes, error))
        return false;
    d->request_bytes = MIN(read_bytes, write_bytes);
    d->request_bytes_wished = (int64_t)sizes[wished_sizes(c) - 1];
    bool time;
    if (!mw_calibrate_has_time(c, MW_CALIBRATE_READS_AND_WRITES, c->budget.sample_s, &time, error))
        return false;
    if (!time) { /* they share the drives' time, or do not */
        d->duplex = mw_calibrate_left_out(c, 1, 1, 2);
        return true;
    }
    return mw_calibrate_begin(c, MW_CALIBRATE_READS_AND_WRITES, "drives: read and write at once", 1,
                              error) &&
           measure_duplex(c, d, error);
}

/* --- until the rate settles ------------------------------------------------------------------ */

bool
mw_calibrate_sustained(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    struct mw_calibration_drives *d = &out->drives;
    const int64_t asked_bytes = c->options->sustained_limit_bytes;
    const double limit_bytes = (double)(asked_bytes > 0 ? asked_bytes : SUSTAINED_LIMIT_BYTES);
    const double window_s = c->options->quick ? 0.01 : SUSTAINED_WINDOW_S;
    struct mw_calibrate_mover m = {.c = c, .direction = MW_NVME_WRITE, .bytes = 32 * MIB};
    struct mw_calibrate_work work = {.run = mw_calibrate_move, .state = &m};
    g_autoptr(GArray) rates = g_array_new(FALSE, FALSE, sizeof(double));
    double written = 0, rate = 0, began_s = mw_calibrate_now_s();
    int from = -1;

    while (from < 0 && written < limit_bytes && !m.error) {
        g_autofree char *what = g_strdup_printf("drives: writing until the rate settles: %.1f GB, "
                                                "%.2f GB/s",
                                                written / 1e9, rate / 1e9);
        if (!mw_calibrate_step(c, what, error))
            return false;
        rate = mw_calibrate_rate(&work, window_s);
        if (!mw_calibrate_sum(c, &rate, 1, error))
            return false;
        written += rate * window_s;
        g_array_append_val(rates, rate);
        from = mw_calibrate_steady_from((double *)(void *)rates->data, (int)rates->len,
                                        SUSTAINED_SPAN);
    }
    if (m.error) {
        g_propagate_error(error, g_steal_pointer(&m.error));
        return false;
    }
    c->budget.end_s += mw_calibrate_now_s() - began_s; /* not counted in the budget */
    int first = from >= 0 ? from : MAX(0, (int)rates->len - SUSTAINED_SPAN);
    for (int i = 0; i < first; i++)
        d->cache_bytes += (int64_t)(g_array_index(rates, double, i) * window_s);
    for (guint i = 0; i < rates->len; i++) /* of one rank; the parts are added up at the end */
        g_array_index(rates, double, i) /= mw_calibrate_ranks(c);
    d->burst_bytes_per_s = d->write_bytes_per_s;
    d->write_bytes_per_s =
        mw_measure_of((double *)(void *)rates->data + first, (int)rates->len - first);
    d->sustained = true;
    d->steady = from >= 0;
    d->written_bytes = (int64_t)written;
    return true;
}
