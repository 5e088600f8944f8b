/* Moves parts of fetch units: parameters to the device, gradients from it, checkpoints. */
#include "exec/trainer/internal.h"

const struct mw_tensor *
mw_trainer_tensor(const struct mw_trainer *trainer, const struct mw_op *op)
{
    enum mw_operator operator_ = trainer->plan->works[op->work].operator_;
    return &trainer->plan
                ->tensors[trainer->tensor_of[(op->layer + 1) * MW_OPERATOR_COUNT + operator_]];
}

struct mw_place
mw_trainer_place(const struct mw_trainer *trainer, uint32_t slot, int64_t tile)
{
    uint32_t index = trainer->variant->tensor_of_home[slot];

    if (index == MW_NONE)
        return (struct mw_place){slot, 0};
    const struct mw_tensor *tensor = &trainer->plan->tensors[index];
    bool gradients = trainer->plan->slots[slot].purpose == MW_PURPOSE_GRADIENTS;
    int64_t bytes = gradients ? mw_trainer_gradient_bytes(tensor) * tensor->gradient_stride
                              : mw_dtype_bytes(tensor->dtype, tensor->param_stride);
    return (struct mw_place){slot, tile * bytes};
}

/* Whether a gradient goes from the device to a buffer, and so has the type in which it was made. */
static bool
is_narrow(const struct mw_trainer *trainer, const struct mw_op *op, uint32_t to)
{
    const struct mw_work *work = &trainer->plan->works[op->work];

    return work->kind == MW_OP_D2H && work->object == MW_OBJECT_GRADIENTS &&
           trainer->variant->tensor_of_home[to] == MW_NONE;
}

/* --- owners ---------------------------------------------------------------------------------- */

/* Of the lanes of owners' transfers. */
static int
stream_of(enum mw_op_kind kind)
{
    return MW_TRAINER_TURN_STREAM + (kind == MW_OP_NVME_READ ? 0 : kind == MW_OP_H2D ? 1 : 2);
}

int64_t
mw_trainer_shard_bytes(const struct mw_trainer *trainer, const struct mw_work *work,
                       const struct mw_tensor *tensor)
{
    bool sum = work->object == MW_OBJECT_GRADIENTS && mw_plan_sums_passing(trainer->plan, tensor);

    return sum ? mw_trainer_gradient_bytes(tensor) * tensor->shard_elements
               : mw_dtype_bytes(tensor->dtype, tensor->shard_elements);
}

/* An owner's op has the bytes of the whole part. */
int
mw_trainer_turn_stream(const struct mw_trainer *trainer, const struct mw_op *op)
{
    const struct mw_work *work = &trainer->plan->works[op->work];
    bool fetched = work->object == MW_OBJECT_PARAMETERS &&
                   (work->kind == MW_OP_NVME_READ || work->kind == MW_OP_H2D);
    bool left = work->object == MW_OBJECT_GRADIENTS && work->kind == MW_OP_D2H;

    if (trainer->ranks == 1 || (!fetched && !left))
        return -1;
    const struct mw_tensor *tensor = mw_trainer_tensor(trainer, op);
    bool whole = work->bytes > mw_trainer_shard_bytes(trainer, work, tensor);
    return whole ? stream_of(work->kind) : -1;
}

/* Every rank owns its shard of a part.  The ranks move their shards one after the other while the
 * links of the others rest; then the whole part has been moved. */
static bool
move_in_turn(struct mw_trainer *trainer, int stream, const struct mw_move *move, GError **error)
{
    struct mw_ranks *ranks = trainer->options.ranks;
    int64_t before_ns = mw_ranks_waited_ns(ranks, stream);

    if (!mw_ranks_barrier(ranks, stream, error))
        return false;
    trainer->turns_waited_ns[stream] += mw_ranks_waited_ns(ranks, stream) - before_ns;
    for (uint32_t rank = 0; rank < trainer->ranks; rank++)
        if ((rank == trainer->rank && !mw_storage_move(&trainer->storage, move, 1, error)) ||
            !mw_ranks_barrier(ranks, stream, error))
            return false;
    return true;
}

struct mw_move
mw_trainer_part_move(const struct mw_trainer *trainer, const struct mw_op *op)
{
    uint32_t from = mw_trainer_slot(trainer, op, MW_ROLE_SOURCE);
    uint32_t to = mw_trainer_slot(trainer, op, MW_ROLE_DESTINATION);
    struct mw_move move = {.from = mw_trainer_place(trainer, from, op->tile),
                           .to = mw_trainer_place(trainer, to, op->tile),
                           .bytes = trainer->plan->works[op->work].bytes};

    if (is_narrow(trainer, op, to))
        move.to.at_bytes =
            mw_trainer_gradient_offset_bytes(trainer, mw_trainer_tensor(trainer, op));
    return move;
}

bool
mw_trainer_move_in_turn(struct mw_trainer *trainer, const struct mw_op *op, int stream,
                        GError **error)
{
    const struct mw_tensor *tensor = mw_trainer_tensor(trainer, op);
    struct mw_move move = mw_trainer_part_move(trainer, op);

    move.bytes = mw_trainer_shard_bytes(trainer, &trainer->plan->works[op->work], tensor);
    return move_in_turn(trainer, stream, &move, error);
}

/* The sum grows at home, or in a buffer of the GPU that it leaves from.  If home is on drives, it
 * grows in the buffer, before the gradient that is added to it. */
bool
mw_trainer_accumulate(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    const struct mw_storage *storage = &trainer->storage;
    uint32_t buffer = mw_trainer_slot(trainer, op, MW_ROLE_GRADIENT);
    uint32_t of_sum = mw_trainer_slot(trainer, op, MW_ROLE_SUM);
    const struct mw_tensor *tensor = mw_trainer_tensor(trainer, op);
    int64_t n = plan->works[op->work].elements;
    const void *x =
        mw_storage_address(storage, buffer, mw_trainer_gradient_offset_bytes(trainer, tensor));
    struct mw_place at = of_sum == MW_NONE ? (struct mw_place){buffer, 0}
                                           : mw_trainer_place(trainer, of_sum, op->tile);
    float *sum = mw_storage_address(storage, at.slot, at.at_bytes);

    if (!plan->works[op->work].host)
        return storage->backend->accumulate(storage->device, sum, x, n, op->micro_batch == 0,
                                            error);
    if (op->micro_batch == 0)
        trainer->kernels->widen(sum, x, n);
    else
        trainer->kernels->accumulate(sum, x, n);
    return true;
}
