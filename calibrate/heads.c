/*
 * Measures attention by the size of its heads, forward and backward apart.
 *
 * All sizes at one length, with equally many heads, so that a team of threads has the same pieces
 * of work.  The curve of attention over its length (calibrate/layer.c) has heads of 64 and both
 * directions together; what is measured here says what others make of it.
 */
#include <math.h>

#include "calibrate/internal.h"

enum ways { FORWARD, BACKWARD, WAYS };
#define VALUES (WAYS * MW_ATTENTION_HEADS)
G_STATIC_ASSERT(VALUES <= MW_CALIBRATE_VALUES_MAX);

#define KERNELS 4 /* of a piece, at most */

struct heads {
    struct mw_calibrator *c;
    struct mw_attention shape;
    int64_t columns;
    uint16_t *qkv, *d_o; /* operands */
    uint16_t *o, *d_qkv; /* results; the first is an operand of backward */
    float *lse;          /* likewise */
    void *scratch;
};

static int64_t
tokens_of(const struct mw_calibrate_scale *scale)
{
    return MAX(scale->attention_tokens, scale->seqs[scale->seq_points / 2]);
}

static struct mw_attention
shape_of(const struct mw_calibrate_scale *scale, int64_t head_dim)
{
    int64_t seq = scale->seqs[scale->seq_points / 2];
    int64_t heads = scale->attention_columns / MW_CALIBRATION_HEAD_DIM, columns = heads * head_dim;

    return (struct mw_attention){.batch = tokens_of(scale) / seq,
                                 .seq = seq,
                                 .heads = heads,
                                 .kv_heads = heads,
                                 .head_dim = head_dim,
                                 .ld_q = 3 * columns,
                                 .ld_k = 3 * columns,
                                 .ld_v = 3 * columns,
                                 .ld_o = columns,
                                 .scale = 1 / sqrtf((float)head_dim)};
}

/* Operands and results lie in halves of the memory of their own (calibrate/operands.c). */
static struct heads
heads_at(struct mw_calibrator *c, int64_t head_dim)
{
    struct heads h = {.c = c, .shape = shape_of(c->scale, head_dim)};
    struct mw_calibrate_places at = {0, 0};
    int64_t tokens = tokens_of(c->scale);

    h.columns = h.shape.ld_o;
    h.qkv = mw_calibrate_operand(c, &at, 6 * tokens * h.columns);
    h.d_o = mw_calibrate_operand(c, &at, 2 * tokens * h.columns);
    h.d_qkv = mw_calibrate_result(c, &at, 6 * tokens * h.columns);
    h.o = mw_calibrate_result(c, &at, 2 * tokens * h.columns);
    h.lse = mw_calibrate_result(c, &at, 4 * tokens * h.shape.heads);
    h.scratch = mw_calibrate_result(c, &at, c->kernels->attention_scratch_bytes(c->on, &h.shape));
    return h;
}

/* Whether half of the memory has room for the largest heads. */
static bool
has_room(struct mw_calibrator *c)
{
    const struct mw_attention shape =
        shape_of(c->scale, mw_calibration_head_dims[MW_ATTENTION_HEADS - 1]);
    int64_t bytes = tokens_of(c->scale) * (8 * shape.ld_o + 4 * shape.heads) +
                    c->kernels->attention_scratch_bytes(c->on, &shape) + 5 * 64;

    return bytes <= c->device.bytes / 2;
}

static double
units_of(const struct heads *h, double flops)
{
    return flops * (double)tokens_of(h->c->scale) * (double)h->shape.seq * (double)h->columns;
}

static double
run_forward(void *data)
{
    struct heads *h = data;

    h->c->kernels->attention_forward(h->c->on, &h->shape, h->o, h->lse, h->qkv, h->qkv + h->columns,
                                     h->qkv + 2 * h->columns, h->scratch);
    return units_of(h, MW_CALIBRATION_FORWARD_FLOPS);
}

static double
run_backward(void *data)
{
    struct heads *h = data;

    h->c->kernels->attention_backward(h->c->on, &h->shape, h->d_qkv, h->d_qkv + h->columns,
                                      h->d_qkv + 2 * h->columns, h->d_o, h->o, h->lse, h->qkv,
                                      h->qkv + h->columns, h->qkv + 2 * h->columns, h->scratch);
    return units_of(h, MW_CALIBRATION_BACKWARD_FLOPS);
}

static double
undisturbed(struct mw_calibrator *c, const struct mw_calibrate_work *work, double *waited)
{
    double rate = mw_calibrate_quiet_rate(c, work, 0);

    if (mw_calibrate_queues(work))
        return rate;
    *waited = fmax(*waited, c->waited);
    return c->undisturbed;
}

/* Each size, forward and then backward, which takes what forward left. */
static bool
take_rates(void *data, int number, double *rates, GError **error)
{
    struct mw_calibrator *c = data;
    double waited = 0;

    (void)number;
    for (int i = 0; i < MW_ATTENTION_HEADS; i++) {
        struct heads h = heads_at(c, mw_calibration_head_dims[i]);
        const struct mw_calibrate_work forward = {run_forward, &h, c, MW_CALIBRATE_COMPUTE, 1},
                                       backward = {run_backward, &h, c, MW_CALIBRATE_COMPUTE,
                                                   KERNELS};
        rates[FORWARD * MW_ATTENTION_HEADS + i] = undisturbed(c, &forward, &waited);
        rates[BACKWARD * MW_ATTENTION_HEADS + i] = undisturbed(c, &backward, &waited);
    }
    c->waited = waited;
    return mw_calibrate_good(c, error);
}

/* By the fastest pace of attention with heads of 64 that was measured. */
static double
needed_s(struct mw_calibrator *c, const struct mw_calibration *out)
{
    double flops = 0, rate = 0;

    for (int i = 0; i < MW_ATTENTION_HEADS; i++) {
        struct heads h = {.c = c, .shape = shape_of(c->scale, mw_calibration_head_dims[i])};
        h.columns = h.shape.ld_o;
        flops += units_of(&h, MW_CALIBRATION_FORWARD_FLOPS + MW_CALIBRATION_BACKWARD_FLOPS);
    }
    for (int i = 0; i < out->attention_points; i++)
        rate = fmax(rate, out->attention_flops[i].low);
    return rate > 0 ? flops / rate : INFINITY;
}

bool
mw_calibrate_heads(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    const struct mw_calibrate_samples samples = {.take = take_rates, .state = c, .values = VALUES};
    struct mw_measure measures[VALUES];
    double room = has_room(c);
    bool time = false;

    if (!mw_calibrate_least(c, &room, error) ||
        !mw_calibrate_has_time(c, MW_CALIBRATE_HEADS, room > 0 ? needed_s(c, out) : INFINITY, &time,
                               error))
        return false;
    if (!time)
        return true;
    if (!mw_calibrate_begin(c, MW_CALIBRATE_HEADS, "attention with heads of 64, 128 and 256", 1,
                            error) ||
        !mw_calibrate_take_samples(c, &samples, measures, error))
        return false;
    if (measures[0].waited > MW_CALIBRATE_COMPARED)
        return true;
    for (int i = 0; i < MW_ATTENTION_HEADS; i++) {
        out->heads_forward_flops[i] = measures[FORWARD * MW_ATTENTION_HEADS + i];
        out->heads_backward_flops[i] = measures[BACKWARD * MW_ATTENTION_HEADS + i];
    }
    out->heads_tokens = tokens_of(c->scale);
    out->heads_seq = c->scale->seqs[c->scale->seq_points / 2];
    out->heads_count = c->scale->attention_columns / MW_CALIBRATION_HEAD_DIM;
    return true;
}

/* --- shares ---------------------------------------------------------------------------------- */

const int64_t mw_calibration_head_dims[MW_ATTENTION_HEADS] = {MW_CALIBRATION_HEAD_DIM, 128, 256};

/* Twice forward and backward, as the curve has them. */
double
mw_calibration_heads_share(const struct mw_calibration *m, bool backward, int head)
{
    const double forward = 2 * MW_CALIBRATION_FORWARD_FLOPS, back = MW_CALIBRATION_BACKWARD_FLOPS;
    double forward_rate = m->heads_forward_flops[0].typical;
    double back_rate = m->heads_backward_flops[0].typical;
    double rate = (backward ? m->heads_backward_flops : m->heads_forward_flops)[head].typical;

    if (!(forward_rate > 0 && back_rate > 0 && rate > 0))
        return 0;
    return rate * (forward / forward_rate + back / back_rate) / (forward + back);
}
