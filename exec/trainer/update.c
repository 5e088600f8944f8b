/*
 * The optimizer step: the gradient's norm, then chunk by chunk state in, update, state and
 * parameters out.
 *
 * The norm is a sum of fp64 partials over blocks of every part's shard, in the order of tensors,
 * parts and blocks, whatever chunk or tier a block is in: the same bits for all placements.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "exec/trainer/internal.h"
#include "exec/trainer/kept.h"

static const struct mw_tensor *
tensor_of(const struct mw_trainer *trainer, const struct mw_piece *piece)
{
    return &trainer->plan->tensors[piece->tensor];
}

static int64_t
gradient_bytes(const struct mw_trainer *trainer, uint32_t chunk)
{
    uint32_t tensor = trainer->plan->chunks[chunk].first_tensor;
    return mw_trainer_gradient_bytes(&trainer->plan->tensors[tensor]);
}

/* Bytes from the start of a home to a piece. */
static int64_t
in_home(const struct mw_trainer *trainer, const struct mw_piece *piece, enum mw_home home)
{
    const struct mw_tensor *tensor = tensor_of(trainer, piece);
    int64_t bytes = home == MW_HOME_GRADIENTS ? mw_trainer_gradient_bytes(tensor)
                                              : mw_trainer_element_bytes(trainer);

    return bytes * mw_tensor_place(tensor, home, trainer->rank, piece->tile, piece->first);
}

/* The same in a home whose shards ranks have exchanged: of a piece of the own shard what belongs to
 * the update of a rank lies where that rank's shard does. */
static int64_t
in_exchanged(const struct mw_trainer *trainer, const struct mw_piece *piece, enum mw_home home,
             uint32_t rank)
{
    const struct mw_tensor *tensor = tensor_of(trainer, piece);
    int64_t bytes = home == MW_HOME_GRADIENTS ? mw_trainer_gradient_bytes(tensor)
                                              : mw_trainer_element_bytes(trainer);
    int64_t stride = home == MW_HOME_GRADIENTS ? tensor->gradient_stride : tensor->param_stride;
    int64_t in_shard = piece->first - mw_tensor_shard(tensor, trainer->rank, piece->tile).first;

    return bytes * (piece->tile * stride + rank * tensor->shard_elements + in_shard);
}

/* --- moves ----------------------------------------------------------------------------------- */

/* Adds moves between the homes of a chunk's gradients and a buffer in the chunk's order. */
static void
move_gradients(const struct mw_trainer *trainer, uint32_t chunk, uint32_t buffer, int64_t at_bytes,
               GArray *moves)
{
    const struct mw_trainer_chunk *it = &trainer->chunks[chunk];
    int64_t bytes = gradient_bytes(trainer, chunk);

    for (int64_t i = 0; i < it->piece_count; i++) {
        const struct mw_piece *piece = &it->pieces[i];
        struct mw_move move = {
            .from = {tensor_of(trainer, piece)->gradient_slot,
                     in_home(trainer, piece, MW_HOME_GRADIENTS)},
            .to = {buffer, at_bytes + bytes * piece->at},
            .bytes = bytes * piece->elements,
        };
        g_array_append_val(moves, move);
    }
}

static void
scatter_params(const struct mw_trainer *trainer, uint32_t chunk, uint32_t buffer, GArray *moves)
{
    const struct mw_trainer_chunk *it = &trainer->chunks[chunk];
    int64_t bytes = mw_trainer_element_bytes(trainer);

    for (int64_t i = 0; i < it->piece_count; i++) {
        const struct mw_piece *piece = &it->pieces[i];
        struct mw_move move = {
            .from = {buffer, bytes * piece->at},
            .to = {tensor_of(trainer, piece)->param_slot, in_home(trainer, piece, MW_HOME_PARAMS)},
            .bytes = bytes * piece->elements,
        };
        g_array_append_val(moves, move);
    }
}

static void
add_move(GArray *moves, uint32_t from, uint32_t to, int64_t bytes)
{
    struct mw_move move = {{from, 0}, {to, 0}, bytes};
    g_array_append_val(moves, move);
}

/* Adds the moves of updated parameters: to the next buffer, or home. */
static void
list_params(const struct mw_trainer *trainer, const struct mw_op *op, GArray *moves)
{
    uint32_t from = mw_trainer_slot(trainer, op, MW_ROLE_SOURCE);
    uint32_t to = mw_trainer_slot(trainer, op, MW_ROLE_DESTINATION);

    if (to != MW_NONE)
        add_move(moves, from, to,
                 mw_trainer_element_bytes(trainer) * trainer->plan->chunks[op->shard].elements);
    else
        scatter_params(trainer, op->shard, from, moves);
}

bool
mw_trainer_streams_state(const struct mw_trainer *trainer, uint32_t chunk)
{
    const struct mw_plan *plan = trainer->plan;

    return plan->shape.updates_on_gpu && plan->slots[plan->chunks[chunk].slot].tier != MW_TIER_GPU;
}

static bool
is_between_memories(const struct mw_trainer *trainer, const struct mw_op *op)
{
    return mw_op_traits(trainer->plan->works[op->work].kind)->agent == MW_AGENT_LINK;
}

/* Adds the moves of state between the host and the GPU.  Gradients that were read from drives come
 * behind it: in the same buffer if the state was read too, else from their own. */
static void
stream_buffers(const struct mw_trainer *trainer, const struct mw_op *op, GArray *moves)
{
    const struct mw_chunk_content *chunk = &trainer->plan->chunks[op->shard];
    const struct mw_tensor *first = &trainer->plan->tensors[chunk->first_tensor];
    int64_t state_bytes = mw_trainer_state_bytes(trainer->plan, op->shard);
    int64_t gradients_bytes = gradient_bytes(trainer, op->shard) * chunk->elements;
    uint32_t state = mw_trainer_slot(trainer, op, MW_ROLE_STATE);
    uint32_t from = mw_trainer_slot(trainer, op, MW_ROLE_SOURCE);
    uint32_t to = mw_trainer_slot(trainer, op, MW_ROLE_DESTINATION);
    bool up = trainer->plan->works[op->work].kind == MW_OP_H2D;
    bool read = trainer->plan->slots[first->gradient_slot].tier == MW_TIER_NVME;

    int64_t behind = mw_in_pages(state_bytes);

    if (state == MW_NONE) {
        add_move(moves, from, to, up && read ? behind + gradients_bytes : state_bytes);
        return;
    }
    add_move(moves, state, to, state_bytes);
    struct mw_move move = {{from, 0}, {to, behind}, gradients_bytes};
    g_array_append_val(moves, move);
}

/* Adds the moves of state, followed by gradients if those come from drives too; or of gradients
 * alone. */
static void
list_state(const struct mw_trainer *trainer, const struct mw_op *op, GArray *moves)
{
    int64_t elements = trainer->plan->chunks[op->shard].elements;
    int64_t state_bytes = mw_trainer_state_bytes(trainer->plan, op->shard);
    uint32_t state = mw_trainer_slot(trainer, op, MW_ROLE_STATE);
    uint32_t from = mw_trainer_slot(trainer, op, MW_ROLE_SOURCE);
    uint32_t to = mw_trainer_slot(trainer, op, MW_ROLE_DESTINATION);

    bool passes = is_between_memories(trainer, op) && mw_trainer_streams_state(trainer, op->shard);

    if (passes && from != MW_NONE && to != MW_NONE)
        stream_buffers(trainer, op, moves);
    else if (from != MW_NONE && to != MW_NONE)
        add_move(moves, from, to, gradient_bytes(trainer, op->shard) * elements);
    else if (state != MW_NONE)
        add_move(moves, from != MW_NONE ? from : state, to != MW_NONE ? to : state, state_bytes);
    if (mw_trainer_slot(trainer, op, MW_ROLE_GRADIENT) != MW_NONE)
        move_gradients(trainer, op->shard, to,
                       passes || state != MW_NONE ? mw_in_pages(state_bytes) : 0, moves);
}

void
mw_trainer_list_chunk(const struct mw_trainer *trainer, const struct mw_op *op, GArray *moves)
{
    if (trainer->plan->works[op->work].object == MW_OBJECT_UPDATED)
        list_params(trainer, op, moves);
    else
        list_state(trainer, op, moves);
}

/* --- norm ------------------------------------------------------------------------------------ */

struct squares {
    uint32_t tensor;
    int64_t tile, first_block, elements;
    const void *gradient;
    bool device;
    uint32_t update; /* in whose norm it counts: 0, or the rank's whose gradient it is */
};

/* What all slices have, the first one counts; and the first stage its tied embedding. */
static bool
counts_elsewhere(const struct mw_decoder *decoder, const struct mw_weight *weight)
{
    if (decoder->copies_embedding && weight->role == MW_WEIGHT_LOGITS)
        return true;
    return !mw_decoder_is_first_slice(decoder) && mw_weight_is_of_all_slices(decoder, weight);
}

struct counted {
    const struct mw_trainer *trainer;
    const struct squares *sums;
    double *partial; /* by block, from that of the sums' first element on */
};

static bool
count_no_more(const struct mw_weights_piece *piece, void *data)
{
    const struct counted *it = data;
    const struct mw_trainer *trainer = it->trainer;
    const struct mw_tensor *tensor = &trainer->plan->tensors[it->sums->tensor];
    int64_t bytes = mw_trainer_gradient_bytes(tensor), end = piece->at + piece->count;

    if (!counts_elsewhere(&trainer->plan->shape.decoder, &piece->weight))
        return true;
    for (int64_t at = piece->at, next; at < end; at = next) {
        double squares;
        next = MIN(end, (at / MW_NORM_BLOCK + 1) * MW_NORM_BLOCK);
        trainer->kernels->square_sums(&squares, (const char *)it->sums->gradient + at * bytes,
                                      tensor->gradient_dtype == MW_DTYPE_FP32, next - at);
        it->partial[at / MW_NORM_BLOCK] -= squares;
    }
    return true;
}

static void
leave_to_others(const struct mw_trainer *trainer, const struct squares *sums, double *partial)
{
    const struct mw_tensor *tensor = &trainer->plan->tensors[sums->tensor];
    struct mw_weights_part part = {tensor->layer, tensor->operators, tensor->tiles, sums->tile};
    struct counted counted = {trainer, sums, partial};

    int64_t first = mw_trainer_state_of(trainer, sums->tensor, (uint32_t)sums->tile).first;
    mw_weights_walk(&trainer->plan->shape.decoder, &part, first + sums->first_block * MW_NORM_BLOCK,
                    sums->elements, count_no_more, &counted);
}

static bool
square_sums(struct mw_trainer *trainer, const struct squares *sums, GError **error)
{
    const struct mw_storage *storage = &trainer->storage;
    bool fp32 = trainer->plan->tensors[sums->tensor].gradient_dtype == MW_DTYPE_FP32;
    double *partial = trainer->partials + sums->update * trainer->partial_count +
                      trainer->partial_first[sums->tensor] +
                      sums->tile * trainer->partial_blocks[sums->tensor] + sums->first_block;

    if (!sums->device)
        trainer->kernels->square_sums(partial, sums->gradient, fp32, sums->elements);
    else if (!storage->backend->square_sums(storage->device, partial, sums->gradient, fp32,
                                            sums->elements, error))
        return false;
    const struct mw_decoder *decoder = &trainer->plan->shape.decoder;
    if (decoder->copies_embedding || !mw_decoder_is_first_slice(decoder))
        leave_to_others(trainer, sums, partial);
    mw_trainer_add_sides(trainer, sums->tensor, sums->tile,
                         mw_trainer_state_of(trainer, sums->tensor, (uint32_t)sums->tile).first +
                             sums->first_block * MW_NORM_BLOCK,
                         sums->elements, sums->gradient);
    return true;
}

/* The norm of a part's gradient, before it goes to the drives. */
static bool
norm_of_part(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    uint32_t index =
        trainer->tensor_of[(op->layer + 1) * MW_OPERATOR_COUNT + plan->works[op->work].operator_];
    uint32_t buffer = mw_trainer_slot(trainer, op, MW_ROLE_GRADIENT);
    struct squares sums = {
        .tensor = index,
        .tile = op->tile,
        .elements = mw_trainer_state_of(trainer, index, op->tile).elements,
        .gradient = mw_storage_address(&trainer->storage, buffer, 0),
    };

    return square_sums(trainer, &sums, error);
}

/* Takes whole blocks, those that begin in the piece; their rest is at home as well. */
static bool
norm_of_piece(struct mw_trainer *trainer, const struct mw_piece *piece, bool device, GError **error)
{
    struct mw_range state = mw_trainer_state_of(trainer, piece->tensor, piece->tile);
    int64_t in_state = piece->first - state.first;
    int64_t block = mw_norm_blocks(in_state);
    int64_t end = mw_norm_blocks(in_state + piece->elements);
    int64_t begins = block * MW_NORM_BLOCK;
    struct mw_piece first = {piece->tensor, piece->tile, state.first + begins, 0, 0};
    struct squares sums = {
        .tensor = piece->tensor,
        .tile = piece->tile,
        .first_block = block,
        .elements = MIN(state.elements, end * MW_NORM_BLOCK) - begins,
        .device = device,
    };

    uint32_t slot = tensor_of(trainer, piece)->gradient_slot;
    bool each = trainer->plan->shape.asynchronous;
    uint32_t updates = mw_plan_updates(trainer->plan);
    for (; block < end && sums.update < updates; sums.update++) {
        int64_t at = each ? in_exchanged(trainer, &first, MW_HOME_GRADIENTS, sums.update)
                          : in_home(trainer, &first, MW_HOME_GRADIENTS);
        sums.gradient = mw_storage_address(&trainer->storage, slot, at);
        if (!square_sums(trainer, &sums, error))
            return false;
    }
    return true;
}

bool
mw_trainer_norm(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    const struct mw_trainer_chunk *chunk = &trainer->chunks[op->shard];
    const struct mw_work *work = &trainer->plan->works[op->work];

    if (work->object == MW_OBJECT_GRADIENTS)
        return norm_of_part(trainer, op, error);
    for (int64_t i = 0; i < chunk->piece_count; i++)
        if (!norm_of_piece(trainer, &chunk->pieces[i], !work->host, error))
            return false;
    return true;
}

/* Only the first rank counts what all ranks hold, and only the first sharding group what all groups
 * do. */
static double
own_squares(struct mw_trainer *trainer)
{
    const struct mw_plan *plan = trainer->plan;

    for (uint32_t t = 0; trainer->rank && t < plan->tensor_count; t++)
        if (plan->tensors[t].state_whole && mw_tensor_holder(&plan->tensors[t], trainer->rank))
            memset(trainer->partials + trainer->partial_first[t], 0,
                   plan->tensors[t].tiles * trainer->partial_blocks[t] * sizeof(double));
    return trainer->replica ? 0 : mw_norm_combine(trainer->partials, trainer->partial_count);
}

/* The gradient is clipped to a norm (Pascanu et al., arXiv 1211.5063, Sec. 3.2). */
static bool
clips(const struct mw_trainer *trainer, double norm)
{
    double most = trainer->options.optimizer.clip_norm;
    return most > 0 && norm > most;
}

static void
prepare_update(struct mw_trainer *trainer, double norm, double scale)
{
    const struct mw_optimizer *o = &trainer->options.optimizer;
    struct mw_step_numbers *now = &trainer->now;
    double factor = (clips(trainer, norm) ? o->clip_norm / norm : 1) / scale;

    enum mw_update_rule rule = mw_optimizer_row(trainer->plan->shape.optimizer)->rule;

    now->update = mw_update_step_of(rule, now->learning_rate, o->beta1, o->beta2, o->epsilon, 0,
                                    now->updates + 1, factor);
    now->update_decaying = mw_update_step_of(rule, now->learning_rate, o->beta1, o->beta2,
                                             o->epsilon, o->weight_decay, now->updates + 1, factor);
}

/* Where each micro-batch is an update, the last one of a step is counted when the step ends. */
static void
count_update(struct mw_step_numbers *now, bool each)
{
    now->updates += each && now->updated && !now->updates_nothing;
    now->skipped &= now->updated;
    now->updated = true;
}

/* Whether a gradient is finite, and its norm is a number that the update takes. */
static bool
fits(const struct mw_trainer *trainer, double squares, double norm)
{
    double most = clips(trainer, norm) ? trainer->options.optimizer.clip_norm : norm;

    return isfinite(squares) && mw_trainer_fits(most);
}

/* Each rank's gradient is an update, in the order of ranks, with a norm of its own; those that are
 * finite are counted as they come, the last one when the step ends.  The step's norm is the mean of
 * its updates'. */
static bool
agree_on_each(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    struct mw_step_numbers *now = &trainer->now;
    struct mw_ranks *ranks = trainer->options.ranks;
    int stream = mw_trainer_stream(trainer, op);
    g_autofree double *squares = g_new(double, trainer->ranks);

    for (uint32_t r = 0; r < trainer->ranks; r++)
        squares[r] =
            mw_norm_combine(trainer->partials + r * trainer->partial_count, trainer->partial_count);
    if (!isfinite(*trainer->loss))
        squares[trainer->rank] = NAN;
    if (!mw_ranks_all_reduce_fp64(ranks, stream, squares, trainer->ranks, error))
        return false;
    now->gradient_norm = 0;
    now->skipped = false;
    now->scale_was_least = trainer->scale.scale <= trainer->options.loss_scaling.min;
    for (uint32_t r = 0; r < trainer->ranks; r++) {
        double norm = sqrt(squares[r]) / now->loss_scale;
        now->updates += r && !now->updates_nothing;
        now->updates_nothing = !fits(trainer, squares[r], norm);
        now->skipped |= now->updates_nothing;
        now->gradient_norm += norm / trainer->ranks;
        prepare_update(trainer, norm, now->loss_scale);
        now->each[r] =
            (struct mw_trainer_update){now->updates_nothing, now->update, now->update_decaying};
    }
    mw_loss_scale_step(&trainer->options.loss_scaling, &trainer->scale, now->skipped);
    return true;
}

/* A gradient that is not finite updates nothing.  Neither does a delayed update that has no
 * gradient yet. */
bool
mw_trainer_agree(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    struct mw_step_numbers *now = &trainer->now;
    bool delayed = mw_plan_is_delayed(trainer->plan);
    double scale = delayed ? trainer->pending_scale : now->loss_scale;

    if (now->each)
        return agree_on_each(trainer, op, error);
    double squares = own_squares(trainer);
    count_update(now, trainer->plan->shape.stashes);
    /* The gradient may be finite even if the loss is not; the sum tells all ranks. */
    if (!isfinite(delayed ? trainer->last_loss : *trainer->loss))
        squares = NAN;
    if (!mw_trainer_sum(trainer, mw_trainer_stream(trainer, op), &squares, error))
        return false;
    bool skipped_before = now->skipped; /* in this step, that of a micro-batch */
    now->skipped = false;
    now->gradient_norm = 0;
    now->updates_nothing = delayed && !trainer->pending;
    if (now->updates_nothing)
        return mw_trainer_take_sides(trainer, trainer->plan->lanes[op->lane].index, error);
    now->gradient_norm = sqrt(squares) / scale;
    now->scale_was_least = trainer->scale.scale <= trainer->options.loss_scaling.min;
    now->skipped = now->updates_nothing =
        mw_loss_scale_step(&trainer->options.loss_scaling, &trainer->scale,
                           !fits(trainer, squares, now->gradient_norm));
    now->skipped |= skipped_before;
    prepare_update(trainer, now->gradient_norm, scale);
    return mw_trainer_take_sides(trainer, trainer->plan->lanes[op->lane].index, error);
}

/* --- update ---------------------------------------------------------------------------------- */

/* The operands of an update of a chunk. */
struct operands {
    uint32_t chunk;
    char *state;
    uint32_t gradients; /* buffer; MW_NONE: gradients are at home */
    int64_t gradients_at_bytes;
    uint32_t params;  /* buffer; MW_NONE: parameters are at home */
    uint32_t version; /* slot of a version of all parameters, in which they are then; or MW_NONE */
    bool device;
    uint32_t rank; /* whose gradient it is, where each rank's is an update */
    struct mw_trainer_update update;
};

static struct operands
find_operands(const struct mw_trainer *trainer, const struct mw_op *op)
{
    uint32_t state = mw_trainer_slot(trainer, op, MW_ROLE_STATE);
    uint32_t incoming = mw_trainer_slot(trainer, op, MW_ROLE_SOURCE);
    bool at_home = mw_trainer_slot(trainer, op, MW_ROLE_GRADIENT) != MW_NONE;
    struct operands operands = {
        .chunk = op->shard,
        .state = mw_storage_address(&trainer->storage, state, 0),
        .gradients = incoming,
        .params = mw_trainer_slot(trainer, op, MW_ROLE_DESTINATION),
        .version = mw_trainer_version_written(trainer, op),
        .device = !trainer->plan->works[op->work].host,
        .update = {trainer->now.updates_nothing, trainer->now.update, trainer->now.update_decaying},
    };

    if (incoming == MW_NONE && !at_home) {
        operands.gradients = state; /* they came with it */
        operands.gradients_at_bytes = mw_in_pages(mw_trainer_state_bytes(trainer->plan, op->shard));
    }
    return operands;
}

static char *
kept_at(const struct mw_trainer *trainer, const struct operands *it, enum mw_kept kept)
{
    return it->state + mw_optimizer_kept_at_bytes(trainer->plan->shape.optimizer, kept,
                                                  trainer->plan->chunks[it->chunk].elements);
}

/* In a home of gradients or parameters what the update of a piece has of it. */
static int64_t
at_home(const struct mw_trainer *trainer, const struct operands *it, const struct mw_piece *piece,
        enum mw_home home)
{
    return trainer->plan->shape.asynchronous ? in_exchanged(trainer, piece, home, it->rank)
                                             : in_home(trainer, piece, home);
}

/* Where the parameters of a piece are that the update writes. */
static void *
params_at(const struct mw_trainer *trainer, const struct operands *it, const struct mw_piece *piece)
{
    uint32_t slot = it->version == MW_NONE ? tensor_of(trainer, piece)->param_slot : it->version;

    if (it->params != MW_NONE)
        return mw_storage_address(&trainer->storage, it->params,
                                  mw_trainer_element_bytes(trainer) * piece->at);
    return mw_storage_address(&trainer->storage, slot,
                              mw_trainer_version_at(trainer, slot, piece->tensor) +
                                  at_home(trainer, it, piece, MW_HOME_PARAMS));
}

/* What a piece's update reads and writes beside its moments. */
struct arrays {
    float *w;
    const void *gradient;
    bool fp32; /* of the gradient */
    void *param;
};

static struct arrays
arrays_of(const struct mw_trainer *trainer, const struct operands *it, const struct mw_piece *piece)
{
    const struct mw_storage *storage = &trainer->storage;
    const struct mw_tensor *tensor = tensor_of(trainer, piece);
    int64_t bytes = mw_trainer_gradient_bytes(tensor), at = piece->at;

    return (struct arrays){
        .w = (float *)(void *)it->state + at,
        .gradient =
            it->gradients != MW_NONE
                ? mw_storage_address(storage, it->gradients, it->gradients_at_bytes + bytes * at)
                : mw_storage_address(storage, tensor->gradient_slot,
                                     at_home(trainer, it, piece, MW_HOME_GRADIENTS)),
        .fp32 = tensor->gradient_dtype == MW_DTYPE_FP32,
        .param = params_at(trainer, it, piece),
    };
}

/* Parameters become those of the state, which stays as it is. */
static bool
keep_piece(struct mw_trainer *trainer, const struct operands *it, const struct mw_piece *piece,
           GError **error)
{
    const struct mw_storage *storage = &trainer->storage;
    struct arrays a = arrays_of(trainer, it, piece);

    if (it->device)
        return storage->backend->narrow(storage->device, a.param, a.w, piece->elements, error);
    trainer->kernels->narrow(a.param, a.w, piece->elements);
    return true;
}

/* NULL: the optimizer keeps none. */
static float *
moment_at(const struct mw_trainer *trainer, const struct operands *it, enum mw_kept kept,
          int64_t at)
{
    return mw_optimizer_keeps(trainer->plan->shape.optimizer, kept)
               ? (float *)(void *)kept_at(trainer, it, kept) + at
               : NULL;
}

static bool
update_range(struct mw_trainer *trainer, const struct operands *it,
             const struct mw_update_range *range, GError **error)
{
    const struct mw_storage *storage = &trainer->storage;
    const struct mw_piece *piece = &range->piece;
    struct arrays a = arrays_of(trainer, it, piece);
    float *m = moment_at(trainer, it, MW_KEPT_MOMENTUM, piece->at);
    float *v = moment_at(trainer, it, MW_KEPT_VARIANCE, piece->at);
    const struct mw_update_step *step = range->decays ? &it->update.decaying : &it->update.step;

    if (trainer->vectors.places)
        return mw_trainer_update_by_vectors(trainer, step, piece, it->device, a.w, m, a.param,
                                            a.gradient, error);
    if (it->device)
        return storage->backend->update(storage->device, step, a.w, m, v, a.param, a.gradient,
                                        a.fp32, piece->elements, error);
    trainer->kernels->update(step, a.w, m, v, a.param, a.gradient, a.fp32, piece->elements);
    return true;
}

/* --- moments of fewer bits ------------------------------------------------------------------- */

_Static_assert(MW_UPDATE_ENDS_MAX >= MW_WEIGHTS_PIECES_MAX, "a piece has no more spans");

static bool
is_of_piece(const struct mw_update_range *range, const struct mw_piece *piece)
{
    return range->piece.at >= piece->at && range->piece.at < piece->at + piece->elements;
}

/* Which elements of a piece decay. */
static struct mw_update_spans
spans_of(const struct mw_trainer_chunk *chunk, const struct mw_piece *piece)
{
    struct mw_update_spans spans = {.count = 0};

    for (int64_t r = 0; r < chunk->range_count; r++) {
        const struct mw_update_range *range = &chunk->ranges[r];
        if (is_of_piece(range, piece) && range->decays != spans.count % 2)
            spans.ends[spans.count++] = range->piece.at - piece->at;
    }
    return spans;
}

static struct mw_narrow_moments
moments_of(const struct mw_trainer *trainer, const struct operands *it, int64_t at)
{
    const enum mw_dtype *dtypes = mw_optimizer_row(trainer->plan->shape.optimizer)->dtypes;
    enum mw_dtype m = dtypes[MW_KEPT_MOMENTUM], v = dtypes[MW_KEPT_VARIANCE];

    return (struct mw_narrow_moments){
        .m = kept_at(trainer, it, MW_KEPT_MOMENTUM) + mw_dtype_bytes(m, at),
        .v = kept_at(trainer, it, MW_KEPT_VARIANCE) + mw_dtype_bytes(v, at),
        .m_codes = mw_kept_codes(m),
        .v_codes = mw_kept_codes(v),
    };
}

/* Of two moments: no optimizer has one alone in fewer bits.  A piece begins with a block of
 * them. */
static bool
update_narrow(struct mw_trainer *trainer, const struct operands *it, const struct mw_piece *piece,
              GError **error)
{
    const struct mw_storage *storage = &trainer->storage;
    const struct mw_update_step *step = &it->update.decaying;
    const struct mw_update_spans decaying = spans_of(&trainer->chunks[it->chunk], piece);
    struct mw_narrow_moments moments = moments_of(trainer, it, piece->at);
    struct arrays a = arrays_of(trainer, it, piece);

    if (it->device)
        return storage->backend->update_narrow(storage->device, step, &decaying, a.w, &moments,
                                               a.param, a.gradient, a.fp32, piece->elements, error);
    trainer->kernels->update_narrow(step, &decaying, a.w, &moments, a.param, a.gradient, a.fp32,
                                    piece->elements);
    return true;
}

static bool
has_narrow_moments(const struct mw_trainer *trainer)
{
    enum mw_dtype dtype =
        mw_optimizer_row(trainer->plan->shape.optimizer)->dtypes[MW_KEPT_MOMENTUM];

    return dtype != MW_DTYPE_NONE && dtype != MW_DTYPE_FP32;
}

static bool
update_by_pieces(struct mw_trainer *trainer, const struct operands *it, GError **error)
{
    const struct mw_trainer_chunk *chunk = &trainer->chunks[it->chunk];

    for (int64_t p = 0; p < chunk->piece_count; p++) {
        const struct mw_piece *piece = &chunk->pieces[p];
        if (!(it->update.nothing ? keep_piece(trainer, it, piece, error)
                                 : update_narrow(trainer, it, piece, error)))
            return false;
    }
    return true;
}

static bool
update_by_ranges(struct mw_trainer *trainer, const struct operands *it, GError **error)
{
    const struct mw_trainer_chunk *chunk = &trainer->chunks[it->chunk];

    for (int64_t r = 0; r < chunk->range_count; r++)
        if (!update_range(trainer, it, &chunk->ranges[r], error))
            return false;
    return true;
}

/* Of two versions, the newer one goes to where the older one was, and the update makes a new one in
 * its place. */
static bool
change_places(struct mw_trainer *trainer, const struct operands *it, GError **error)
{
    const struct mw_trainer_chunk *chunk = &trainer->chunks[it->chunk];
    const struct mw_storage *storage = &trainer->storage;

    if (it->version == MW_NONE || trainer->plan->shape.stashes)
        return true;
    for (int64_t i = 0; i < chunk->piece_count; i++) {
        const struct mw_piece *piece = &chunk->pieces[i];
        void *home = mw_storage_address(storage, tensor_of(trainer, piece)->param_slot,
                                        in_home(trainer, piece, MW_HOME_PARAMS));
        if (!storage->backend->copy(storage->device, home, params_at(trainer, it, piece),
                                    mw_trainer_element_bytes(trainer) * piece->elements, error))
            return false;
    }
    return true;
}

static bool
update_once(struct mw_trainer *trainer, const struct operands *it, GError **error)
{
    return it->update.nothing || has_narrow_moments(trainer) ? update_by_pieces(trainer, it, error)
                                                             : update_by_ranges(trainer, it, error);
}

bool
mw_trainer_update(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    struct operands it = find_operands(trainer, op);

    if (!trainer->now.each)
        return change_places(trainer, &it, error) && update_once(trainer, &it, error);
    for (it.rank = 0; it.rank < trainer->ranks; it.rank++) {
        it.update = trainer->now.each[it.rank];
        if (!update_once(trainer, &it, error))
            return false;
    }
    return true;
}
