/* Removes the other terms of docs/MODEL.md 7.2 from the rates of a device with memory of its own:
 * an op takes launches, bytes and FLOPs one after the other, and a measured time contains them all.
 * Cores start a kernel in no time, so their rates stay as they are. */
#include <math.h>

#include "calibrate/internal.h"

/* The least part of a time that counts as the work itself, so that no rate grows out of bounds. */
#define LEAST 0.1

/* By the planner's count (docs/MODEL.md 4.15, 4.5), of forward and of backward.  In elements
 * [tokens, columns] of attention: q, k, v and o; backward moves all of them twice.  Each pass also
 * has fp32 sums of every row and head. */
static const struct way {
    double launches, bytes, sum_bytes, flops;
} forward = {1, 8, 4, MW_CALIBRATION_FORWARD_FLOPS},
  backward = {2, 16, 4, MW_CALIBRATION_BACKWARD_FLOPS};

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
    for (int i = 0; i < out->points; i++) {
        double flops = 2 * pow(out->dim[i], 3);
        out->matmul_flops[i] = net(out->matmul_flops[i], flops, launch_s);
        for (int of = 0; of < MW_CALIBRATION_DIRECTIONS; of++)
            out->direction_flops[of][i] = net(out->direction_flops[of][i], flops, launch_s);
    }
}

/* A device's attention of so many tokens: without what starts it and moves its bytes. */
struct pieces {
    double tokens, seq, columns, heads, launch_s, bytes_per_s;
};

static double
other_s(const struct pieces *p, const struct way *way)
{
    return way->launches * p->launch_s +
           p->tokens * (way->bytes * p->columns + way->sum_bytes * p->heads) / p->bytes_per_s;
}

static double
flops_of(const struct pieces *p, const struct way *way)
{
    return way->flops * p->tokens * p->seq * p->columns;
}

static void
net_attention(const struct mw_calibrator *c, struct mw_calibration *out, double launch_s)
{
    struct pieces p = {.columns = (double)c->scale->attention_columns,
                       .heads = (double)c->scale->attention_columns / MW_CALIBRATION_HEAD_DIM,
                       .launch_s = launch_s,
                       .bytes_per_s = out->device_bytes_per_s.typical};

    for (int i = 0; i < out->attention_points; i++) {
        p.seq = (double)c->scale->seqs[i];
        p.tokens = fmax((double)c->scale->attention_tokens, p.seq);
        out->attention_flops[i] =
            net(out->attention_flops[i], 2 * flops_of(&p, &forward) + flops_of(&p, &backward),
                2 * other_s(&p, &forward) + other_s(&p, &backward));
    }
}

static void
net_heads(struct mw_calibration *out, double launch_s)
{
    struct pieces p = {.tokens = (double)out->heads_tokens,
                       .seq = (double)out->heads_seq,
                       .heads = (double)out->heads_count,
                       .launch_s = launch_s,
                       .bytes_per_s = out->device_bytes_per_s.typical};

    for (int i = 0; i < MW_ATTENTION_HEADS; i++) {
        p.columns = p.heads * (double)mw_calibration_head_dims[i];
        out->heads_forward_flops[i] =
            net(out->heads_forward_flops[i], flops_of(&p, &forward), other_s(&p, &forward));
        out->heads_backward_flops[i] =
            net(out->heads_backward_flops[i], flops_of(&p, &backward), other_s(&p, &backward));
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
    net_heads(out, launch_s);
    for (int kind = 0; kind < MW_CALIBRATION_PASSES; kind++)
        out->pass_bytes_per_s[kind] =
            net(out->pass_bytes_per_s[kind], mw_calibrate_passes_bytes(c, kind),
                mw_calibrate_passes_launches(kind) * launch_s);
}
