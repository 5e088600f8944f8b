/* How fast the drives move what a run moves: requests one after the other in each direction. */
#include <math.h>

#include "exec/calibrate_internal.h"
#include "planner/error.h"

#define MIB (INT64_C(1) << 20)
#define SUSTAINED_LIMIT_BYTES (INT64_C(64) << 30)
#define SUSTAINED_WINDOW_S 1.0
#define SUSTAINED_SPAN 10

static int64_t
half(const struct mw_calibrator *c)
{
    return mw_nvme_capacity_bytes(c->nvme) / 2 / mw_nvme_stripe_bytes(c->nvme) *
           mw_nvme_stripe_bytes(c->nvme);
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

/* --- a direction: latency and rate ----------------------------------------------------------- */

/* Seconds of a request of each size, by itself. */
static bool
time_sizes(struct mw_calibrate_mover *m, const double *sizes, int count, double *seconds,
           GError **error)
{
    for (int i = 0; i < count; i++) {
        struct mw_calibrate_work work = {.run = mw_calibrate_move, .state = m};
        m->bytes = (int64_t)sizes[i];
        seconds[i] = sizes[i] / mw_calibrate_rate(&work, m->c->options->quick ? 0 : 0.03);
    }
    if (!m->error)
        return true;
    g_propagate_error(error, g_steal_pointer(&m->error));
    return false;
}

/* docs/MODEL.md 7.4: a request takes a latency, and its bytes over the rate. */
static bool
measure_direction(struct mw_calibrator *c, enum mw_nvme_direction direction,
                  struct mw_measure *bytes_per_s, GError **error)
{
    double sizes[] = {2.0 * MIB, 8.0 * MIB, 32.0 * MIB, 128.0 * MIB};
    int count = c->options->quick ? 2 : G_N_ELEMENTS(sizes);
    double seconds[G_N_ELEMENTS(sizes)], rates[MW_CALIBRATE_ROUNDS_MAX], latency_s;

    for (int r = 0; r < c->rounds; r++) {
        struct mw_calibrate_mover m = {.c = c, .direction = direction};
        double s_per_byte;
        if (!time_sizes(&m, sizes, count, seconds, error))
            return false;
        mw_calibrate_line(sizes, seconds, count, &latency_s, &s_per_byte);
        rates[r] = s_per_byte > 0 ? 1 / s_per_byte : sizes[count - 1] / seconds[count - 1];
    }
    *bytes_per_s = mw_measure_of(rates, c->rounds);
    return true;
}

/* --- both at once ---------------------------------------------------------------------------- */

static bool
measure_duplex(struct mw_calibrator *c, struct mw_calibration_drives *drives, GError **error)
{
    struct mw_calibrate_mover movers[] = {
        {.c = c, .direction = MW_NVME_READ, .bytes = 32 * MIB},
        {.c = c, .direction = MW_NVME_WRITE, .bytes = 32 * MIB},
    };
    struct mw_calibrate_work works[] = {{.run = mw_calibrate_move, .state = &movers[0]},
                                        {.run = mw_calibrate_move, .state = &movers[1]}};
    double samples[MW_CALIBRATE_ROUNDS_MAX];

    for (int r = 0; r < c->rounds; r++) {
        double alone[2], both[2];
        for (int i = 0; i < 2; i++)
            alone[i] = mw_calibrate_rate(&works[i], c->window_s);
        mw_calibrate_rates(c, works, c->window_s, both);
        g_debug("reads keep %.2f, writes %.2f of %.3g and %.3g GB/s", both[0] / alone[0],
                both[1] / alone[1], alone[0] / 1e9, alone[1] / 1e9);
        samples[r] = fmin(fmax(both[0] / alone[0] + both[1] / alone[1], 1), 2);
    }
    drives->duplex = mw_measure_of(samples, c->rounds);
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

    if (!mw_calibrate_step(c, "drives: read", error) ||
        !measure_direction(c, MW_NVME_READ, &d->read_bytes_per_s, error) ||
        !mw_calibrate_step(c, "drives: write", error) ||
        !measure_direction(c, MW_NVME_WRITE, &d->write_bytes_per_s, error))
        return false;
    return mw_calibrate_step(c, "drives: read and write at once", error) &&
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
    double written = 0, rate = 0;
    int from = -1;

    while (from < 0 && written < limit_bytes && !m.error) {
        g_autofree char *what = g_strdup_printf("drives: writing until the rate settles: %.1f GB, "
                                                "%.2f GB/s", written / 1e9, rate / 1e9);
        if (!mw_calibrate_step(c, what, error))
            return false;
        rate = mw_calibrate_rate(&work, window_s);
        if (!mw_calibrate_sum(c, &rate, 1, error))
            return false;
        written += rate * window_s;
        g_array_append_val(rates, rate);
        from = mw_calibrate_settled((double *)(void *)rates->data, (int)rates->len, SUSTAINED_SPAN);
    }
    if (m.error) {
        g_propagate_error(error, g_steal_pointer(&m.error));
        return false;
    }
    int first = from >= 0 ? from : MAX(0, (int)rates->len - SUSTAINED_SPAN);
    for (int i = 0; i < first; i++)
        d->cache_bytes += (int64_t)(g_array_index(rates, double, i) * window_s);
    for (guint i = 0; i < rates->len; i++) /* a rank's part: they are added up in the end */
        g_array_index(rates, double, i) /= mw_calibrate_ranks(c);
    d->burst_bytes_per_s = d->write_bytes_per_s;
    d->write_bytes_per_s = mw_measure_of((double *)(void *)rates->data + first,
                                         (int)rates->len - first);
    d->sustained = true;
    d->settled = from >= 0;
    d->written_bytes = (int64_t)written;
    return true;
}
