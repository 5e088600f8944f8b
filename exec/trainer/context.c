/* Ranks that share sequences: each has as many tokens of every one, and for attention whole
 * sequences of some heads (DeepSpeed-Ulysses, arXiv 2309.14509, Sec. 3.1). */
#include "base/error.h"
#include "exec/trainer/internal.h"

bool
mw_trainer_check_context(const struct mw_plan *plan, GError **error)
{
    const struct mw_step_shape *shape = &plan->shape;
    const struct mw_decoder *decoder = &shape->decoder;
    int64_t ranks = mw_decoder_sharers(decoder);

    if (shape->context_ranks <= 1)
        return true;
    if (ranks != shape->context_ranks || decoder->context.kind != shape->context)
        return mw_fail(error, MW_ERROR_INVALID,
                       "the plan's decoder has another share of sequences than the plan");
    if (mw_decoder_rings(decoder) && shape->seq % (2 * ranks))
        return mw_fail(error, MW_ERROR_INVALID,
                       "in the plan %" G_GINT64_FORMAT " ranks share sequences of %" G_GINT64_FORMAT
                       " tokens in a ring: twice as many must divide these",
                       ranks, shape->seq);
    if (!mw_decoder_rings(decoder) &&
        (shape->seq % ranks || decoder->heads % ranks || decoder->kv_heads % ranks))
        return mw_fail(error, MW_ERROR_INVALID,
                       "in the plan %" G_GINT64_FORMAT " ranks share sequences of %" G_GINT64_FORMAT
                       " tokens, %" G_GINT64_FORMAT " heads and %" G_GINT64_FORMAT
                       " of keys and values, and they must divide each of these",
                       ranks, shape->seq, decoder->heads, decoder->kv_heads);
    return !shape->weights_later ||
           mw_fail(
               error, MW_ERROR_INVALID,
               "{schedule=zb-h1} does not run where ranks share sequences; give {cp=1}, or plan "
               "with {schedule=1f1b}");
}

bool
mw_trainer_is_exchange(const struct mw_work *work)
{
    return work->kind == MW_OP_ALL_TO_ALL && work->object == MW_OBJECT_ACTIVATIONS &&
           mw_operator_row(work->operator_)->attends;
}

/* Attention has one before it and one behind it, which is number 1. */
static bool
is_behind(const struct mw_op *op)
{
    return op->shard == 1;
}

int64_t
mw_trainer_exchange_bytes(const struct mw_trainer *trainer, const struct mw_op *op)
{
    const struct mw_decoder *decoder = &trainer->plan->shape.decoder;
    bool of_qkv = is_behind(op) == (op->phase == MW_PHASE_BACKWARD);
    int64_t width = mw_decoder_q(decoder) + (of_qkv ? 2 * mw_decoder_kv(decoder) : 0);

    return mw_trainer_element_bytes(trainer) * trainer->tokens * width;
}

static bool
exchange_blocks(struct mw_trainer *trainer, const struct mw_op *op,
                const struct mw_compute *compute, const struct mw_exchange *exchange,
                GError **error)
{
    int64_t ranks = mw_decoder_sharers(compute->decoder);
    int64_t block = mw_trainer_element_bytes(trainer) * compute->seq * exchange->width / ranks;
    char *to = exchange->gathers ? exchange->whole : exchange->room;
    const char *from = exchange->gathers ? exchange->room : exchange->whole;

    for (int64_t s = 0; s < compute->sequences; s++)
        if (!trainer->collectives->all_to_all(trainer->peers, mw_trainer_stream(trainer, op),
                                              to + s * ranks * block, from + s * ranks * block,
                                              block, error))
            return false;
    return true;
}

bool
mw_trainer_exchange_heads(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    struct mw_compute compute = mw_trainer_bind(trainer, op);
    struct mw_exchange exchange = mw_compute_exchange(&compute, is_behind(op));

    if (exchange.gathers)
        mw_exchange_pack(&compute, &exchange);
    if (!exchange_blocks(trainer, op, &compute, &exchange, error))
        return false;
    if (!exchange.gathers)
        mw_exchange_unpack(&compute, &exchange);
    return true;
}
