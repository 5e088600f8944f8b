/* Pipeline stages: activations go to the next stage, their gradients to the previous one. */
#include "exec/trainer/internal.h"

static const struct mw_work *
work_of(const struct mw_trainer *trainer, const struct mw_op *op)
{
    return &trainer->plan->works[op->work];
}

static bool
is_hop(const struct mw_work *work)
{
    return mw_op_traits(work->kind)->joins == MW_JOINS_PAIR;
}

bool
mw_trainer_is_stage(const struct mw_plan *plan)
{
    for (uint32_t w = 0; w < plan->work_count; w++)
        if (is_hop(&plan->works[w]))
            return true;
    return false;
}

/* Of ranks that have the same experts. */
static bool
is_of_experts(const struct mw_trainer *trainer, const struct mw_plan *plan,
              const struct mw_work *work)
{
    return mw_decoder_is_spread(&plan->shape.decoder) && work->comm < plan->comm_count &&
           plan->comms[work->comm].spans[MW_AXIS_DP].count < trainer->ranks;
}

static int
stream_of_hop(const struct mw_trainer *trainer, const struct mw_plan *plan,
              const struct mw_work *work)
{
    uint32_t peer = mw_work_peer(plan, work, trainer->world_rank);
    uint32_t before = MIN(trainer->world_rank, peer);
    bool goes_up = (work->kind == MW_OP_SEND) == (before == trainer->world_rank);

    if (goes_up != (work->hop > 0))
        return work->hop > 0 ? MW_TRAINER_FORWARD_AROUND_STREAM : MW_TRAINER_BACKWARD_AROUND_STREAM;
    uint32_t boundary = before / (MAX(trainer->world_rank, peer) - before);
    return (work->hop > 0 ? MW_TRAINER_FORWARD_STREAM : MW_TRAINER_BACKWARD_STREAM) + boundary % 2;
}

int
mw_trainer_stream_in(const struct mw_trainer *trainer, const struct mw_plan *plan,
                     const struct mw_op *op)
{
    const struct mw_work *work = &plan->works[op->work];
    int stream = plan->lanes[op->lane].index;

    if (is_hop(work))
        return stream_of_hop(trainer, plan, work);
    if (mw_trainer_is_exchange(work) || mw_trainer_is_pass(work))
        return MW_TRAINER_CONTEXT_STREAM;
    if (mw_trainer_is_dispatch(work))
        return MW_TRAINER_SLICING_STREAM; /* of the ranks that share experts */
    if (mw_trainer_is_of_replicas(plan, work))
        return MW_TRAINER_REPLICAS_STREAM;
    /* Stages whose steps go on over their ends do not wait for each other: each has a norm. */
    bool of_all =
        (work->kind == MW_OP_AGREE && !plan->shape.no_flush) || mw_trainer_is_of_slices(plan, work);
    if (!of_all && is_of_experts(trainer, plan, work))
        return MW_TRAINER_EXPERTS_STREAM + stream / 2;
    return of_all ? stream : mw_trainer_data_stream(trainer, stream);
}

int
mw_trainer_stream(const struct mw_trainer *trainer, const struct mw_op *op)
{
    return mw_trainer_stream_in(trainer, trainer->plan, op);
}

bool
mw_trainer_hop(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    const struct mw_work *work = work_of(trainer, op);
    int stream = mw_trainer_stream(trainer, op);
    int peer = (int)mw_work_peer(trainer->plan, work, trainer->world_rank);
    bool sends = work->kind == MW_OP_SEND;
    uint32_t slot = mw_trainer_slot(trainer, op, sends ? MW_ROLE_SOURCE : MW_ROLE_DESTINATION);
    void *data = mw_storage_address(&trainer->storage, slot, 0);

    return sends
               ? trainer->collectives->send(trainer->peers, stream, data, work->bytes, peer, error)
               : trainer->collectives->receive(trainer->peers, stream, data, work->bytes, peer,
                                               error);
}

static bool
copy(struct mw_trainer *trainer, void *to, const void *from, GError **error)
{
    const struct mw_storage *storage = &trainer->storage;
    const struct mw_decoder *decoder = &trainer->plan->shape.decoder;
    int64_t bytes = mw_trainer_element_bytes(trainer) *
                    mw_decoder_own_tokens(decoder, trainer->tokens) * decoder->hidden;

    return storage->backend->copy(storage->device, to, from, bytes, error);
}

bool
mw_trainer_take_received(struct mw_trainer *trainer, const struct mw_op *op,
                         const struct mw_compute *compute, GError **error)
{
    uint32_t slot = mw_trainer_slot(trainer, op, MW_ROLE_RECEIVED);

    if (slot == MW_NONE)
        return true;
    void *to = compute->backward
                   ? op->layer < 0 ? compute->shared->gradient : compute->layer->gradient.out
               : op->layer < 0 ? compute->shared->hidden
                               : compute->layer->x;

    return copy(trainer, compute->backward ? mw_compute_own_rows(compute, to) : to,
                mw_storage_address(&trainer->storage, slot, 0), error);
}

bool
mw_trainer_give_sent(struct mw_trainer *trainer, const struct mw_op *op,
                     const struct mw_compute *compute, GError **error)
{
    uint32_t slot = mw_trainer_slot(trainer, op, MW_ROLE_SENT);

    if (slot == MW_NONE)
        return true;
    void *from = compute->backward
                     ? op->layer < 0 ? compute->shared->gradient : compute->layer->gradient.x
                 : op->layer < 0 ? compute->input
                                 : compute->output;

    return copy(trainer, mw_storage_address(&trainer->storage, slot, 0),
                compute->backward ? mw_compute_own_rows(compute, from) : from, error);
}
