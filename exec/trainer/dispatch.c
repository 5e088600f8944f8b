/*
 * Spread experts: rows of tokens go to the ranks that have their experts, results come back, and
 * gradients go the other ways.
 *
 * A rank knows where its own tokens go.  Before rows go to experts, all ranks of the group tell how
 * many go where, and from then on each knows what comes, until the same operators route again.
 */
#include <math.h>

#include "exec/trainer/internal.h"

bool
mw_trainer_is_dispatch(const struct mw_work *work)
{
    const struct mw_operator_row *row = mw_operator_row(work->operator_);

    return work->kind == MW_OP_ALL_TO_ALL && work->object == MW_OBJECT_ACTIVATIONS &&
           (row->takes_tokens || row->returns_tokens);
}

/* Where the rows of each expert here begin, and all end. */
static void
find_begins(const struct mw_decoder *decoder, const struct mw_visits *visits)
{
    int64_t here = mw_decoder_experts_here(decoder), ranks = decoder->spread.count;
    const int32_t *own = visits->counts + decoder->spread.index * here;

    visits->begin[0] = 0;
    for (int64_t e = 0; e < here; e++) {
        visits->begin[e + 1] = visits->begin[e];
        for (int64_t r = 0; r < ranks; r++)
            visits->begin[e + 1] += own[r * decoder->experts + e];
    }
}

/* All ranks wait for the one that got the most, in each layer anew. */
static double
imbalance(const struct mw_decoder *decoder, const struct mw_visits *visits)
{
    int64_t here = mw_decoder_experts_here(decoder), ranks = decoder->spread.count;
    double all = 0, most = 0;

    for (int64_t to = 0; to < ranks; to++) {
        double got = 0;
        for (int64_t from = 0; from < ranks; from++)
            for (int64_t e = to * here; e < (to + 1) * here; e++)
                got += visits->counts[from * decoder->experts + e];
        all += got;
        most = fmax(most, got);
    }
    return all > 0 ? most * (double)ranks / all : 0;
}

/* Recomputation and backward route as forward did. */
static void
note_imbalance(struct mw_trainer *trainer, const struct mw_op *op)
{
    const struct mw_decoder *decoder = &trainer->plan->shape.decoder;

    if (op->phase == MW_PHASE_FORWARD)
        trainer->expert_loads[op->micro_batch * decoder->layers + op->layer] =
            imbalance(decoder, &trainer->visits);
}

static bool
tell_visits(struct mw_trainer *trainer, const struct mw_op *op, int stream, GError **error)
{
    const struct mw_decoder *decoder = &trainer->plan->shape.decoder;
    const struct mw_visits *visits = &trainer->visits;
    struct mw_ranks_part part = {.elements = decoder->spread.count * decoder->experts,
                                 .shard_elements = decoder->experts};
    int32_t *own = visits->counts + decoder->spread.index * decoder->experts;

    if (!trainer->collectives->all_gather(trainer->peers, stream, visits->counts, own, &part,
                                          sizeof *own, error))
        return false;
    find_begins(decoder, visits);
    note_imbalance(trainer, op);
    return true;
}

bool
mw_trainer_dispatch(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    struct mw_op it = *op;
    int stream = mw_trainer_stream(trainer, op);

    it.tile = 0; /* tokens are of no part of the weights */
    struct mw_compute compute = mw_trainer_bind(trainer, &it);
    struct mw_dispatched what = mw_compute_dispatched(&compute);
    struct mw_ranks_rows rows = {
        .row_bytes = mw_trainer_element_bytes(trainer) * compute.decoder->hidden,
        .experts = (int)mw_decoder_experts_here(compute.decoder),
        .counts = trainer->visits.counts,
        .back = what.back,
    };

    return (what.back || tell_visits(trainer, op, stream, error)) &&
           trainer->collectives->exchange_rows(trainer->peers, stream, what.to, what.from, &rows,
                                               error);
}
