/* Removes the other terms of docs/MODEL.md 7.2 from the rates of a device with memory of its own:
 * an op takes launches, bytes and FLOPs one after the other, and a measured time contains them all.
 * Cores start a kernel in no time, so their rates stay as they are. */
#include <math.h>

#include "calibrate/internal.h"

/* The least part of a time that counts as the work itself, so that no rate grows out of bounds. */
#define LEAST 0.1

/* By the planner's count (docs/MODEL.md 4.15): two forwards and one backward. */
#define ATTENTION_LAUNCHES (2 * 1 + 2)
/* In elements [tokens, columns] of attention, by the same count: q, k, v and o; backward moves all
 * of them twice.  Each pass also has fp32 sums of every row and head. */
#define ATTENTION_BYTES (2 * 8 + 16)
#define ATTENTION_SUM_BYTES (3 * 4)
#define ATTENTION_FLOPS 18.0 /* per pair of tokens and column */
#define HEAD_DIM 64

static double
net_of(double rate, double units, double other_s)
{
    double seconds = units / rate;

    return rate > 0 ? units / fmax(seconds - other_s, LEAST * seconds) : 0;
}

static struct mw_measure
net(struct mw_measure m, double units, double other_s)
{
    return (struct mw_measure){net_of(m.low, units, other_s),
                               net_of(m.typical, units, other_s),
                               net_of(m.high, units, other_s),
                               m.samples,
                               m.wished,
                               m.waited};
}

static void
net_products(struct mw_calibration *out, double launch_s)
{
    for (int i = 0; i < out->points; i++)
        out->matmul_flops[i] = net(out->matmul_flops[i], 2 * pow(out->dim[i], 3), launch_s);
}

static void
net_attention(const struct mw_calibrator *c, struct mw_calibration *out, double launch_s)
{
    double columns = (double)c->scale->attention_columns;
    double token_bytes = ATTENTION_BYTES * columns + ATTENTION_SUM_BYTES * columns / HEAD_DIM;

    for (int i = 0; i < out->attention_points; i++) {
        double seq = (double)c->scale->seqs[i];
        double tokens = fmax((double)c->scale->attention_tokens, seq);
        double other_s =
            ATTENTION_LAUNCHES * launch_s + tokens * token_bytes / out->device_bytes_per_s.typical;
        out->attention_flops[i] =
            net(out->attention_flops[i], ATTENTION_FLOPS * tokens * seq * columns, other_s);
    }
}

void
mw_calibrate_net(const struct mw_calibrator *c, struct mw_calibration *out)
{
    double launch_s = out->launch_s.typical;

    if (!c->backend->apart)
        return;
    net_products(out, launch_s);
    net_attention(c, out, launch_s);
    for (int kind = 0; kind < MW_CALIBRATION_PASSES; kind++)
        out->pass_bytes_per_s[kind] =
            net(out->pass_bytes_per_s[kind], mw_calibrate_passes_bytes(c, kind),
                mw_calibrate_passes_launches(kind) * launch_s);
}
