/*
 * What tensor slices share with each other: sums of what each has made, and where they share tokens
 * (Korthikanti et al., arXiv 2205.05198, Sec. 4.2.2) hidden states, scattered where a block ends
 * and gathered where the next one begins, and the gradients of norms' weights, which each slice
 * makes of its own tokens.
 */
#include "base/error.h"
#include "exec/trainer/internal.h"

/* --- works ----------------------------------------------------------------------------------- */

bool
mw_trainer_is_sum(const struct mw_work *work)
{
    return work->kind == MW_OP_ALL_REDUCE && work->object == MW_OBJECT_ACTIVATIONS;
}

bool
mw_trainer_is_gathered_checkpoint(const struct mw_work *work)
{
    return work->kind == MW_OP_ALL_GATHER && work->object == MW_OBJECT_CHECKPOINT;
}

bool
mw_trainer_is_of_rows(const struct mw_work *work)
{
    const struct mw_operator_row *row = mw_operator_row(work->operator_);

    return (work->kind == MW_OP_REDUCE_SCATTER || work->kind == MW_OP_ALL_GATHER) &&
           work->object == MW_OBJECT_ACTIVATIONS && row &&
           (row->sums_forward || row->sums_backward);
}

bool
mw_trainer_is_of_slices(const struct mw_plan *plan, const struct mw_work *work)
{
    return mw_trainer_is_sum(work) || mw_trainer_is_gathered_checkpoint(work) ||
           mw_trainer_is_of_rows(work) || mw_plan_sums_norm(plan, work);
}

/* --- sums ------------------------------------------------------------------------------------ */

/* A sum is of no part of the weights. */
static struct mw_compute
bind_all(struct mw_trainer *trainer, const struct mw_op *op)
{
    struct mw_op it = *op;

    it.tile = 0;
    return mw_trainer_bind(trainer, &it);
}

/* Every slice gives to all what it has seen of a chunk's tokens; all join that in one order. */
static bool
gather_loss(struct mw_trainer *trainer, int stream, const struct mw_compute *compute,
            GError **error)
{
    int64_t own = compute->tokens * MW_LOSS_SUMS, slices = compute->decoder->slice.count;
    struct mw_ranks_part part = {.elements = own * slices, .shard_elements = own};
    float *all = mw_compute_loss_sums(compute);

    return trainer->collectives->all_gather(trainer->peers, stream, all,
                                            all + own * compute->decoder->slice.index, &part,
                                            sizeof *all, error);
}

bool
mw_trainer_sum_slices(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    int stream = mw_trainer_stream(trainer, op);
    struct mw_compute compute = bind_all(trainer, op);
    int64_t elements;

    void *sums = mw_compute_partial_sums(&compute, &elements);

    if (!sums)
        return gather_loss(trainer, stream, &compute, error);
    return trainer->collectives->all_reduce(trainer->peers, stream, sums, trainer->kernels->dtype,
                                            elements, error) &&
           mw_trainer_give_sent(trainer, op, &compute, error);
}

/* --- tokens that slices share ---------------------------------------------------------------- */

static struct mw_ranks_part
part_of(const struct mw_slice_rows *rows)
{
    return (struct mw_ranks_part){.elements = rows->elements, .shard_elements = rows->own_elements};
}

static bool
scatter_rows(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    struct mw_compute compute = bind_all(trainer, op);
    struct mw_slice_rows rows = mw_compute_scattered(&compute);
    struct mw_ranks_part part = part_of(&rows);

    return trainer->collectives->reduce_scatter(trainer->peers, mw_trainer_stream(trainer, op),
                                                rows.own, rows.whole, &part,
                                                trainer->kernels->dtype, error) &&
           mw_trainer_give_sent(trainer, op, &compute, error);
}

/* What a stage has received it gathers, and the operator behind finds its own rows once more. */
static bool
gather_rows(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    struct mw_compute compute = bind_all(trainer, op);
    struct mw_slice_rows rows = mw_compute_gathered(&compute);
    struct mw_ranks_part part = part_of(&rows);

    return mw_trainer_take_received(trainer, op, &compute, error) &&
           trainer->collectives->all_gather(trainer->peers, mw_trainer_stream(trainer, op),
                                            rows.whole, rows.own, &part,
                                            mw_trainer_element_bytes(trainer), error);
}

bool
mw_trainer_move_rows(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    return trainer->plan->works[op->work].kind == MW_OP_ALL_GATHER
               ? gather_rows(trainer, op, error)
               : scatter_rows(trainer, op, error);
}

/* Elements from `at` of the part's gradient on, if it has any there. */
static bool
sum_vector(struct mw_trainer *trainer, const struct mw_op *op, const struct mw_compute *compute,
           int64_t at, GError **error)
{
    char *gradient = compute->gradient;

    return at < 0 || trainer->collectives->all_reduce(
                         trainer->peers, mw_trainer_stream(trainer, op),
                         gradient + at * mw_compute_element_bytes(compute->dtype),
                         trainer->kernels->dtype, compute->decoder->hidden, error);
}

bool
mw_trainer_sum_norm(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    struct mw_compute compute = mw_trainer_bind(trainer, op);

    return sum_vector(trainer, op, &compute, compute.part->norm_weight_at, error) &&
           sum_vector(trainer, op, &compute, compute.part->norm_bias_at, error);
}
