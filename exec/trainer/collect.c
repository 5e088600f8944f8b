/*
 * Collectives: parts of parameters are gathered before their use, gradients are added up over
 * ranks, numbers are agreed upon.
 *
 * Gradients are made with the scale of the whole batch, so that their sum is its gradient.
 */
#include "base/error.h"
#include "base/spell.h"
#include "exec/data/weights.h"
#include "exec/trainer/internal.h"

static struct mw_ranks_part
whole_part(const struct mw_tensor *tensor, uint32_t tile)
{
    return (struct mw_ranks_part){mw_tensor_part_elements(tensor, tile), tensor->shard_elements, 0,
                                  0};
}

/* The same in units of the tensor's type, whose whole blocks alone can be told apart.  Shards are
 * whole blocks. */
static struct mw_ranks_part
in_blocks(struct mw_ranks_part part, const struct mw_tensor *tensor)
{
    int64_t block = mw_dtype_row(tensor->dtype)->block_elements;

    part.elements = (part.elements + block - 1) / block;
    part.shard_elements /= block;
    return part;
}

static char *
part_at(const struct mw_trainer *trainer, uint32_t slot, uint32_t tile)
{
    struct mw_place place = mw_trainer_place(trainer, slot, tile);
    return mw_storage_address(&trainer->storage, place.slot, place.at_bytes);
}

/* The begin of this rank's shard in a whole part. */
static char *
own_shard(const struct mw_trainer *trainer, char *whole, const struct mw_tensor *tensor,
          uint32_t tile, int64_t element_bytes)
{
    return whole + element_bytes * mw_tensor_shard(tensor, trainer->rank, tile).first;
}

/* --- parameters ------------------------------------------------------------------------------ */

static bool
all_gather_part(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    const struct mw_tensor *tensor = mw_trainer_tensor(trainer, op);
    struct mw_ranks_part part = in_blocks(whole_part(tensor, op->tile), tensor);
    uint32_t from = mw_trainer_slot(trainer, op, MW_ROLE_SOURCE);
    uint32_t to = mw_trainer_slot(trainer, op, MW_ROLE_DESTINATION);

    return trainer->collectives->all_gather(
        trainer->peers, mw_trainer_stream(trainer, op), part_at(trainer, to, op->tile),
        part_at(trainer, from, op->tile), &part, mw_dtype_row(tensor->dtype)->block_bytes, error);
}

/* Each owner in turn sends its shard of a part to all. */
static bool
broadcast_shards(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    const struct mw_tensor *tensor = mw_trainer_tensor(trainer, op);
    uint32_t from = mw_trainer_slot(trainer, op, MW_ROLE_SOURCE);
    uint32_t to = mw_trainer_slot(trainer, op, MW_ROLE_DESTINATION);
    const char *own = part_at(trainer, from, op->tile);
    char *whole = part_at(trainer, to, op->tile);

    for (uint32_t rank = 0; rank < trainer->ranks; rank++) {
        struct mw_range shard = mw_tensor_shard(tensor, rank, op->tile);
        char *at = whole + mw_dtype_bytes(tensor->dtype, shard.first);
        int64_t bytes = mw_dtype_bytes(tensor->dtype, shard.elements);
        if (rank == trainer->rank &&
            !trainer->storage.backend->copy(trainer->storage.device, at, own, bytes, error))
            return false;
        if (!trainer->collectives->broadcast(trainer->peers, mw_trainer_stream(trainer, op), at,
                                             bytes, (int)rank, error))
            return false;
    }
    return true;
}

static bool
all_gather_in_place(struct mw_trainer *trainer, const struct mw_tensor *tensor, uint32_t tile,
                    const struct mw_ranks_part *part, int stream, GError **error)
{
    char *whole = part_at(trainer, tensor->param_slot, tile);
    int64_t bytes = mw_dtype_element_bytes(tensor->dtype);

    return trainer->collectives->all_gather(trainer->peers, stream, whole,
                                            own_shard(trainer, whole, tensor, tile, bytes), part,
                                            bytes, error);
}

/* Every rank has updated the same range of its own shards, of which the first rank's are longest:
 * all gather the rest, or where each rank's gradient is an update, a rank gets the parameters that
 * its own has left. */
static bool
return_updated(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    struct mw_pieces walk = mw_chunk_pieces(plan, &plan->chunks[op->shard], 0);
    int stream = mw_trainer_stream(trainer, op);
    bool good = true;

    for (struct mw_piece piece; good && mw_pieces_next(&walk, &piece);) {
        const struct mw_tensor *tensor = &plan->tensors[piece.tensor];
        struct mw_ranks_part part = whole_part(tensor, piece.tile);
        part.range_first = piece.first;
        part.range_elements = piece.elements;
        good = plan->works[op->work].kind == MW_OP_ALL_TO_ALL
                   ? trainer->collectives->exchange_shards(
                         trainer->peers, stream, part_at(trainer, tensor->param_slot, piece.tile),
                         &part, mw_dtype_element_bytes(tensor->dtype), true, error)
                   : all_gather_in_place(trainer, tensor, piece.tile, &part, stream, error);
    }
    return good;
}

bool
mw_trainer_all_gather_parameters(struct mw_trainer *trainer, GError **error)
{
    const struct mw_plan *plan = trainer->plan;

    for (uint32_t t = 0; trainer->ranks > 1 && t < plan->tensor_count; t++) {
        const struct mw_tensor *tensor = &plan->tensors[t];
        /* What is frozen each rank has read whole. */
        bool gathers = tensor->trainable && tensor->params_whole && !tensor->state_whole;
        for (uint32_t tile = 0; gathers && tile < tensor->tiles; tile++) {
            struct mw_ranks_part part = whole_part(tensor, tile);
            int stream =
                tensor->spread > 1 ? MW_TRAINER_EXPERTS_STREAM : mw_trainer_data_stream(trainer, 0);
            if (!all_gather_in_place(trainer, tensor, tile, &part, stream, error))
                return false;
        }
    }
    return true;
}

/* --- gradients ------------------------------------------------------------------------------- */

/* Reduces the gradient of one micro-batch, as it was made, to the place where this rank keeps its
 * shard. */
static bool
scatter_part(struct mw_trainer *trainer, const struct mw_op *op, uint32_t from, GError **error)
{
    struct mw_ranks_part part = whole_part(mw_trainer_tensor(trainer, op), op->tile);
    uint32_t to = mw_trainer_slot(trainer, op, MW_ROLE_DESTINATION);

    return trainer->collectives->reduce_scatter(
        trainer->peers, mw_trainer_stream(trainer, op), part_at(trainer, to, op->tile),
        part_at(trainer, from, op->tile), &part, trainer->kernels->dtype, error);
}

/* Reduces a gradient at home, with the width that it has there: this rank's shard of it, or all of
 * it.  Or its shards go to their owners, and those of other ranks' gradients come. */
static bool
reduce_at_home(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    const struct mw_tensor *tensor = mw_trainer_tensor(trainer, op);
    struct mw_ranks_part part = whole_part(tensor, op->tile);
    enum mw_dtype dtype = (enum mw_dtype)tensor->gradient_dtype;
    char *whole = part_at(trainer, tensor->gradient_slot, op->tile);
    char *own = own_shard(trainer, whole, tensor, op->tile, mw_trainer_gradient_bytes(tensor));

    if (trainer->plan->works[op->work].kind == MW_OP_ALL_TO_ALL)
        return trainer->collectives->exchange_shards(
            trainer->peers, mw_trainer_stream(trainer, op), whole, &part,
            mw_trainer_gradient_bytes(tensor), false, error);
    if (trainer->plan->works[op->work].kind == MW_OP_ALL_REDUCE)
        return trainer->collectives->all_reduce(trainer->peers, mw_trainer_stream(trainer, op),
                                                whole, dtype, part.elements, error);
    return trainer->collectives->reduce_scatter(trainer->peers, mw_trainer_stream(trainer, op), own,
                                                whole, &part, dtype, error);
}

bool
mw_trainer_is_of_replicas(const struct mw_plan *plan, const struct mw_work *work)
{
    return work->kind == MW_OP_ALL_REDUCE && work->object == MW_OBJECT_GRADIENTS &&
           work->comm < plan->comm_count && plan->comms[work->comm].spans[MW_AXIS_RP].count > 1;
}

/* Sums up this rank's shard, which its sharding group has reduced, in the type that it has there:
 * at home, where a sum passes, or as it was made. */
static bool
sum_replicas(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    const struct mw_tensor *tensor = mw_trainer_tensor(trainer, op);
    uint32_t slot = mw_trainer_slot(trainer, op, MW_ROLE_GRADIENT);
    bool home = slot == tensor->gradient_slot;
    enum mw_dtype dtype = home || mw_plan_sums_passing(trainer->plan, tensor)
                              ? (enum mw_dtype)tensor->gradient_dtype
                              : trainer->kernels->dtype;
    char *shard = part_at(trainer, slot, op->tile);

    if (home && tensor->gradients_whole)
        shard = own_shard(trainer, shard, tensor, op->tile, mw_trainer_gradient_bytes(tensor));
    return trainer->collectives->all_reduce(
        trainer->peers, mw_trainer_stream(trainer, op), shard, dtype,
        mw_tensor_shard(tensor, trainer->rank, op->tile).elements, error);
}

/* --- copies of a tied embedding -------------------------------------------------------------- */

#define COPIES_BLOCK_BYTES (1 << 20)

/* Elements of the word embedding, from `first` on, and where the gradient's parts have them. */
struct copies {
    struct mw_trainer *trainer;
    uint32_t tensor, tile;
    int64_t first, elements;
    char *block;
    bool back; /* from the block to the parts */
};

static bool
move_copy(const struct mw_weights_piece *piece, void *data)
{
    const struct copies *it = data;
    const struct mw_tensor *tensor = &it->trainer->plan->tensors[it->tensor];
    int64_t bytes = mw_trainer_gradient_bytes(tensor);
    int64_t begin = MAX(piece->first, it->first);
    int64_t end = MIN(piece->first + piece->count, it->first + it->elements);

    if ((piece->weight.role != MW_WEIGHT_TOKENS && piece->weight.role != MW_WEIGHT_LOGITS) ||
        begin >= end)
        return true;
    char *in_part = part_at(it->trainer, tensor->gradient_slot, it->tile) +
                    bytes * (piece->at + begin - piece->first);
    char *in_block = it->block + bytes * (begin - it->first);
    memcpy(it->back ? in_part : in_block, it->back ? in_block : in_part, bytes * (end - begin));
    return true;
}

static void
move_copies(struct copies *it, bool back)
{
    const struct mw_plan *plan = it->trainer->plan;
    const struct mw_tensor *tensor = &plan->tensors[it->tensor];

    it->back = back;
    for (it->tile = 0; it->tile < tensor->tiles; it->tile++) {
        struct mw_weights_part part = {tensor->layer, tensor->operators, tensor->tiles, it->tile};
        mw_weights_walk(&plan->shape.decoder, &part, 0, mw_tensor_part_elements(tensor, it->tile),
                        move_copy, it);
    }
}

/* The first and the last stage cut theirs into unlike parts: they meet in blocks of the whole. */
static bool
sum_copies(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    const struct mw_decoder *decoder = &trainer->plan->shape.decoder;
    const struct mw_tensor *tensor = mw_trainer_tensor(trainer, op);
    int64_t all = decoder->vocab * decoder->hidden;
    int64_t most = COPIES_BLOCK_BYTES / mw_trainer_gradient_bytes(tensor);
    g_autofree char *block = g_malloc(COPIES_BLOCK_BYTES);
    struct copies copies = {
        .trainer = trainer, .tensor = (uint32_t)(tensor - trainer->plan->tensors), .block = block};

    for (; copies.first < all; copies.first += most) {
        copies.elements = MIN(most, all - copies.first);
        move_copies(&copies, false);
        if (!mw_ranks_all_reduce(trainer->options.ranks, MW_TRAINER_COPIES_STREAM, block,
                                 (enum mw_dtype)tensor->gradient_dtype, copies.elements, 1, error))
            return false;
        move_copies(&copies, true);
    }
    return true;
}

static bool
is_of_copies(const struct mw_trainer *trainer, const struct mw_work *work)
{
    return work->kind == MW_OP_ALL_REDUCE && work->object == MW_OBJECT_GRADIENTS &&
           trainer->plan->comms[work->comm].spans[MW_AXIS_PP].count > 1;
}

/* --- checkpoints ----------------------------------------------------------------------------- */

static bool
all_gather_checkpoint(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    uint32_t from = mw_trainer_slot(trainer, op, MW_ROLE_SOURCE);
    uint32_t to = mw_trainer_slot(trainer, op, MW_ROLE_DESTINATION);
    int64_t block_bytes = mw_dtype_row(mw_trainer_checkpoint_dtype(trainer))->block_bytes;

    return trainer->collectives->all_gather(trainer->peers, mw_trainer_stream(trainer, op),
                                            mw_storage_address(&trainer->storage, to, 0),
                                            mw_storage_address(&trainer->storage, from, 0),
                                            &trainer->variant->checkpoint, block_bytes, error);
}

/* --- ops ------------------------------------------------------------------------------------- */

bool
mw_trainer_collects_on_device(const struct mw_plan *plan, const struct mw_op *op)
{
    return plan->works[op->work].kind != MW_OP_AGREE &&
           mw_trainer_uses_tiers(plan, op, MW_TIER_GPU, MW_TIER_GPU);
}

static bool
collect(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    const struct mw_work *work = &trainer->plan->works[op->work];
    uint32_t from = mw_trainer_slot(trainer, op, MW_ROLE_SOURCE);

    if (mw_trainer_is_sum(work))
        return mw_trainer_sum_slices(trainer, op, error);
    if (mw_trainer_is_of_rows(work))
        return mw_trainer_move_rows(trainer, op, error);
    if (mw_plan_sums_norm(trainer->plan, work))
        return mw_trainer_sum_norm(trainer, op, error);
    if (mw_trainer_is_dispatch(work))
        return mw_trainer_dispatch(trainer, op, error);
    if (mw_trainer_is_gathered_checkpoint(work))
        return all_gather_checkpoint(trainer, op, error);
    if (is_of_copies(trainer, work))
        return sum_copies(trainer, op, error);
    if (mw_trainer_is_of_replicas(trainer->plan, work))
        return sum_replicas(trainer, op, error);
    if (work->object == MW_OBJECT_UPDATED)
        return return_updated(trainer, op, error);
    if (work->kind == MW_OP_BROADCAST)
        return broadcast_shards(trainer, op, error);
    if (work->kind == MW_OP_ALL_GATHER)
        return all_gather_part(trainer, op, error);
    return from != MW_NONE ? scatter_part(trainer, op, from, error)
                           : reduce_at_home(trainer, op, error);
}

/* Moves everything that an op moves in one collective. */
bool
mw_trainer_collect(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    const struct mw_collectives *table = trainer->collectives;
    int stream = mw_trainer_stream(trainer, op);

    return (!table->group_begin || table->group_begin(trainer->peers, stream, error)) &&
           collect(trainer, op, error) &&
           (!table->group_end || table->group_end(trainer->peers, stream, error));
}

bool
mw_trainer_sum(struct mw_trainer *trainer, int stream, double *value, GError **error)
{
    struct mw_ranks *ranks = trainer->options.ranks;
    return !ranks || mw_ranks_all_reduce_fp64(ranks, stream, value, 1, error);
}

bool
mw_trainer_least(struct mw_trainer *trainer, int64_t *value, GError **error)
{
    struct mw_ranks *ranks = trainer->options.ranks;
    g_autofree double *values = g_new0(double, trainer->world_ranks);

    values[trainer->world_rank] = (double)*value;
    if (ranks && !mw_ranks_all_reduce_fp64(ranks, 0, values, trainer->world_ranks, error))
        return false;
    for (uint32_t r = 0; r < trainer->world_ranks; r++)
        *value = MIN(*value, (int64_t)values[r]);
    return true;
}

/* --- members --------------------------------------------------------------------------------- */

static bool
refuse(GError **error, const char *what)
{
    g_autofree char *spelled = mw_spelled(what);

    return mw_refuse(error, "the executor does not run several ranks with %s", spelled);
}

/* A lane has a thread: only one may meet the ranks of a stream. */
static bool
check_streams(const struct mw_trainer *trainer, const struct mw_plan *plan, GError **error)
{
    uint32_t lane_of[MW_TRAINER_COLLECTIVE_LANES];

    memset(lane_of, 0xff, sizeof lane_of); /* all MW_NONE */
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        if (plan->lanes[op->lane].kind != MW_LANE_COLLECTIVE)
            continue;
        int stream = mw_trainer_stream_in(trainer, plan, op);
        if (lane_of[stream] != MW_NONE && lane_of[stream] != op->lane)
            return refuse(error, "messages between the same ranks in several lanes");
        lane_of[stream] = op->lane;
    }
    return true;
}

static bool
check_ops(const struct mw_plan *plan, const struct mw_backend *backend, GError **error)
{
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        const struct mw_lane *lane = &plan->lanes[op->lane];
        if (lane->kind != MW_LANE_COLLECTIVE)
            continue;
        bool hops = mw_op_traits(plan->works[op->work].kind)->joins == MW_JOINS_PAIR;
        if (backend->apart && plan->works[op->work].kind != MW_OP_AGREE &&
            !mw_trainer_collects_on_device(plan, op))
            return refuse(error, "collectives of host memory; {backend=cpu} runs");
        if (mw_trainer_is_of_replicas(plan, &plan->works[op->work]))
            continue; /* in a stream of its own */
        if (!hops && lane->index >= MW_TRAINER_TURN_STREAM)
            return refuse(error, "more lanes of collectives than three");
        bool of_slices = mw_trainer_is_of_slices(plan, &plan->works[op->work]);
        bool of_experts = mw_decoder_is_spread(&plan->shape.decoder) &&
                          mw_trainer_is_dispatch(&plan->works[op->work]);
        if (!hops && of_slices && lane->index != MW_TRAINER_SLICING_STREAM)
            return refuse(error, "collectives of tensor slices in a lane of others");
        if (!hops && lane->index == MW_TRAINER_SLICING_STREAM && !of_experts &&
            !mw_trainer_is_exchange(&plan->works[op->work]) &&
            !mw_trainer_is_pass(&plan->works[op->work]) &&
            (!mw_decoder_is_slice(&plan->shape.decoder) || !of_slices))
            return refuse(error, "tensor slices that share more than sums and checkpoints; "
                                 "{tp=1} runs");
    }
    return true;
}

G_STATIC_ASSERT(MW_TRAINER_COLLECTIVE_LANES <= MW_COLLECTIVE_STREAMS_MAX);

/* The streams of all variants' collectives, as bits 1 << stream. */
static uint32_t
streams_of(const struct mw_trainer *trainer)
{
    const struct mw_variants *variants = trainer->options.variants;
    uint32_t streams = 0;

    for (uint32_t v = 0; v < variants->plan_count; v++) {
        const struct mw_plan *plan = variants->plans[v];
        for (uint32_t i = 0; i < plan->op_count; i++) {
            const struct mw_lane *lane = &plan->lanes[plan->ops[i].lane];
            if (lane->kind == MW_LANE_COLLECTIVE &&
                mw_trainer_collects_on_device(plan, &plan->ops[i]))
                streams |= 1u << mw_trainer_stream_in(trainer, plan, &plan->ops[i]);
        }
    }
    return streams;
}

/* One of them gathers the state. */
uint32_t
mw_trainer_streams(const struct mw_trainer *trainer)
{
    const struct mw_trainer_options *o = &trainer->options;

    return trainer->world_ranks > 1 && o->backend->join
               ? 1u << mw_trainer_data_stream(trainer, 0) | streams_of(trainer)
               : 0;
}

bool
mw_trainer_open_collectives(struct mw_trainer *trainer, GError **error)
{
    const struct mw_trainer_options *o = &trainer->options;
    uint32_t streams = mw_trainer_streams(trainer);

    trainer->collectives = &mw_ranks_collectives;
    trainer->peers = o->ranks;
    if (!streams)
        return true;
    trainer->collectives = o->backend->collectives;
    trainer->peers = o->backend->join(trainer->storage.device, o->ranks, streams, error);
    return trainer->peers != NULL;
}

static uint32_t
count_slices(const struct mw_plan *plan)
{
    return (uint32_t)MAX(1, plan->shape.decoder.slice.count);
}

static uint32_t
count_replicas(const struct mw_plan *plan)
{
    return mw_plan_degree(plan, MW_AXIS_RP);
}

/* Ranks count slices first and stages last: those that have the same slice of the same stage, and
 * train on other sequences, are `slices` apart.  A sharding group has neighbours of them. */
static void
find_data_rank(struct mw_trainer *trainer)
{
    const struct mw_plan *plan = trainer->plan;
    uint32_t slices = count_slices(plan);

    trainer->replicas = count_replicas(plan);
    trainer->ranks =
        trainer->world_ranks / (slices * trainer->replicas) / mw_plan_degree(plan, MW_AXIS_PP);
    trainer->rank = trainer->world_rank / slices % trainer->ranks;
    trainer->replica = trainer->world_rank / (slices * trainer->ranks) % trainer->replicas;
}

int64_t
mw_trainer_data_ranks(const struct mw_trainer *trainer)
{
    return (int64_t)trainer->ranks * trainer->replicas;
}

/* Ranks that share experts, which are neighbours without slices, and those that have the same. */
static void
group_experts(struct mw_trainer *trainer)
{
    int spread = (int)mw_plan_spread(trainer->plan), place = (int)trainer->rank % MAX(1, spread);
    int world_rank = (int)trainer->world_rank, first = world_rank - (int)trainer->rank;
    struct mw_ranks *ranks = trainer->options.ranks;

    if (spread == 1)
        return;
    mw_ranks_group(ranks, MW_TRAINER_SLICING_STREAM, world_rank - place, 1, spread);
    for (int i = 0; i < 2; i++)
        mw_ranks_group(ranks, MW_TRAINER_EXPERTS_STREAM + i, first + place, spread,
                       (int)trainer->ranks / spread);
}

/* Lanes of collectives of fewer than all ranks. */
static void
group_ranks(struct mw_trainer *trainer)
{
    int slices = (int)count_slices(trainer->plan), world_rank = (int)trainer->world_rank;
    int first = world_rank - (int)trainer->rank * slices, count = (int)trainer->ranks;
    int of_group = slices * count, replicas = (int)trainer->replicas;
    int first_group = world_rank - (int)trainer->replica * of_group;
    int sharers = (int)mw_decoder_sharers(&trainer->plan->shape.decoder);
    struct mw_ranks *ranks = trainer->options.ranks;

    mw_ranks_group(ranks, MW_TRAINER_CONTEXT_STREAM,
                   world_rank - world_rank / slices % sharers * slices, slices, sharers);
    if (replicas > 1)
        mw_ranks_group(ranks, MW_TRAINER_REPLICAS_STREAM, first_group, of_group, replicas);
    if (count == (int)trainer->world_ranks) {
        group_experts(trainer);
        return;
    }
    if (slices > 1)
        mw_ranks_group(ranks, MW_TRAINER_SLICING_STREAM, world_rank - world_rank % slices, 1,
                       slices);
    for (int i = 0; i < MW_TRAINER_TURN_STREAMS; i++)
        mw_ranks_group(ranks, MW_TRAINER_TURN_STREAM + i, first, slices, count);
    for (int i = 0; i < 2; i++)
        mw_ranks_group(ranks, MW_TRAINER_DATA_STREAM + i, first, slices, count);
    group_experts(trainer);
    int of_stage = of_group * replicas, stages = (int)trainer->world_ranks / of_stage;
    int stage = world_rank / of_stage;
    if (stages > 1 && (stage == 0 || stage == stages - 1))
        mw_ranks_group(ranks, MW_TRAINER_COPIES_STREAM, world_rank % of_stage,
                       (stages - 1) * of_stage, 2);
}

int
mw_trainer_data_stream(const struct mw_trainer *trainer, int stream)
{
    return trainer->ranks < trainer->world_ranks ? MW_TRAINER_DATA_STREAM + stream / 2 : stream;
}

bool
mw_trainer_join(struct mw_trainer *trainer, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    const struct mw_ranks *ranks = trainer->options.ranks;

    trainer->world_ranks = ranks ? mw_ranks_count(ranks) : 1;
    trainer->world_rank = ranks ? mw_ranks_index(ranks) : 0;
    if (plan->world_ranks != trainer->world_ranks) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "the plan is for %u GPU%s, and %u rank%s started; mpirun -n %u starts as many",
                    plan->world_ranks, plan->world_ranks == 1 ? "" : "s", trainer->world_ranks,
                    trainer->world_ranks == 1 ? " was" : "s were", plan->world_ranks);
        return false;
    }
    if (plan->world_ranks % (count_slices(plan) * mw_plan_degree(plan, MW_AXIS_PP)))
        return refuse(error, "slices and stages that do not divide them");
    if (plan->world_ranks / (count_slices(plan) * mw_plan_degree(plan, MW_AXIS_PP)) %
        MAX(1, plan->shape.context_ranks))
        return refuse(error, "groups that share sequences and do not divide them");
    if (plan->world_ranks / (count_slices(plan) * mw_plan_degree(plan, MW_AXIS_PP)) %
        count_replicas(plan))
        return refuse(error, "sharding groups that do not divide them");
    find_data_rank(trainer);
    if (trainer->world_ranks == 1)
        return true;
    if (trainer->replicas > 1 && trainer->ranks == 1)
        return refuse(error, "sharding groups of one rank each; {strategy=ddp} runs");
    if (trainer->replicas > 1 && mw_plan_spread(plan) > 1)
        return refuse(error, "spread experts in sharding groups; {shard-group=all} runs");
    if (trainer->options.backend->apart && mw_trainer_is_stage(plan))
        return refuse(error, "pipeline stages on this backend; {backend=cpu} runs");
    if (trainer->options.backend->apart && mw_decoder_is_slice(&plan->shape.decoder))
        return refuse(error, "tensor slices on this backend; {backend=cpu} runs");
    if (trainer->options.backend->apart && mw_plan_spread(plan) > 1)
        return refuse(error, "spread experts on this backend; {backend=cpu} runs");
    if (trainer->options.backend->apart && plan->shape.asynchronous)
        return refuse(error, "asynchronous updates on this backend; {backend=cpu} runs");
    if (trainer->options.backend->apart && plan->shape.context_ranks > 1)
        return refuse(error, "shared sequences on this backend; {backend=cpu} runs");
    if (trainer->options.backend->apart && !trainer->options.backend->join)
        return refuse(error, "this backend; {backend=cpu} runs");
    for (uint32_t v = 0; v < trainer->options.variants->plan_count; v++)
        if (!check_ops(trainer->options.variants->plans[v], trainer->options.backend, error) ||
            !check_streams(trainer, trainer->options.variants->plans[v], error))
            return false;
    group_ranks(trainer);
    return true;
}
