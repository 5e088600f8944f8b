/* Compute ops: the operands of the decoder's operators. */
#include "exec/data/mix.h"
#include "exec/trainer/internal.h"
#include "exec/trainer/narrow.h"

static uint32_t
tensor_of(const struct mw_trainer *trainer, const struct mw_op *op)
{
    enum mw_operator operator_ = trainer->plan->works[op->work].operator_;
    return trainer->tensor_of[(op->layer + 1) * MW_OPERATOR_COUNT + operator_];
}

/* A home holds all parts of a tensor; a buffer holds the part in transit. */
static void *
part_at(const struct mw_trainer *trainer, uint32_t slot, uint8_t dtype, int64_t element)
{
    bool home =
        trainer->variant->tensor_of_home[slot] != MW_NONE || mw_trainer_is_version(trainer, slot);
    return mw_storage_address(&trainer->storage, slot, home ? mw_dtype_bytes(dtype, element) : 0);
}

/* A slot that holds a version of the parameters has all tensors.  Of two versions, the first step's
 * are the same before an update, and behind the last one of a run before it is the older one that
 * the next step goes back by: it is at home. */
static void *
params_at(const struct mw_trainer *trainer, const struct mw_tensor *tensor, uint32_t slot,
          int64_t element)
{
    uint32_t index = (uint32_t)(tensor - trainer->plan->tensors);

    if (trainer->passes == MW_PASSES_NEXT && !trainer->plan->shape.stashes)
        slot = tensor->param_slot;
    return (char *)part_at(trainer, slot, tensor->dtype, element) +
           mw_trainer_version_at(trainer, slot, index);
}

/* Whether the layer's activations are stored in fewer bits between forward and backward. */
static bool
is_coded(const struct mw_trainer *trainer, int32_t layer)
{
    return trainer->layers_coded && trainer->kept_turn[layer] >= 0;
}

/* With checkpoints, forward keeps no activations of layers that are recomputed, and those of a
 * group exist only from its recompute on. */
static int64_t
held_at(const struct mw_trainer *trainer, const struct mw_op *op, int32_t layer)
{
    bool checkpoints = trainer->plan->shape.checkpoint_interval > 0;

    if (trainer->kept_turn[layer] >= 0)
        return trainer->layers_rooms + trainer->kept_turn[layer];
    return checkpoints && op->phase == MW_PHASE_FORWARD ? 0 : layer % trainer->layers_rooms;
}

static struct mw_layer_activations *
layer_activations(const struct mw_trainer *trainer, const struct mw_op *op, int32_t layer)
{
    int64_t set = trainer->variant->operands_of ? op->micro_batch : mw_trainer_set(trainer, op);

    if (trainer->plan->shape.whole_checkpoints) /* the next layer's input is made beside this one */
        return &trainer->variant->layers[layer % trainer->layers_held];
    return &trainer->variant->layers[set * trainer->layers_held + held_at(trainer, op, layer)];
}

/* The first layer from this one on that the step computes, or the number of layers if there is
 * none. A stage of a pipeline ends before the model does, and a step may leave out layers.  The
 * input of such a layer is that of the next computed layer. */
static int32_t
computed_from(const struct mw_trainer *trainer, int32_t layer)
{
    int32_t layers = (int32_t)trainer->plan->shape.decoder.layers;

    while (layer < layers && !trainer->variant->computes[layer])
        layer++;
    return layer;
}

static int64_t
behind_group(const struct mw_trainer *trainer, int64_t layer)
{
    int64_t behind;

    mw_recomputed_group(&trainer->recomputed, layer, &behind);
    return behind;
}

static void *
output_of(const struct mw_trainer *trainer, const struct mw_op *op)
{
    int32_t next = computed_from(trainer, op->layer + 1);
    bool ends_group = op->phase == MW_PHASE_RECOMPUTE && next >= behind_group(trainer, op->layer);

    if (next >= mw_trainer_stretch_of(trainer, op->layer)->end || ends_group)
        return trainer->variant->shared[mw_trainer_set(trainer, op)].hidden;
    return layer_activations(trainer, op, next)->x;
}

/* Tied logits and embedding, and the chunks of the logits, add to the gradient, all but the first
 * of them. */
static bool
adds_gradient(const struct mw_trainer *trainer, const struct mw_op *op)
{
    switch ((enum mw_operator)trainer->plan->works[op->work].operator_) {
    case MW_OPERATOR_EMBEDDING:
        return trainer->plan->shape.decoder.tied_embedding;
    case MW_OPERATOR_LOGITS:
        return op->shard > 0;
    default:
        return false;
    }
}

static void
bind_part(const struct mw_trainer *trainer, const struct mw_op *op, struct mw_compute *compute)
{
    uint32_t index = tensor_of(trainer, op);

    if (index == MW_NONE)
        return;
    const struct mw_tensor *tensor = &trainer->plan->tensors[index];
    uint32_t param = mw_trainer_slot(trainer, op, MW_ROLE_PARAMETER);
    uint32_t gradient = mw_trainer_slot(trainer, op, MW_ROLE_GRADIENT);
    compute->part = &trainer->parts[index][op->tile];
    if (param != MW_NONE)
        compute->params = params_at(trainer, tensor, param, op->tile * tensor->param_stride);
    if (param != MW_NONE && mw_narrow_is(tensor)) {
        compute->narrow = compute->params;
        compute->narrow_dtype = (enum mw_dtype)tensor->dtype;
        compute->params = compute->widened =
            mw_storage_address(&trainer->storage, mw_trainer_slot(trainer, op, MW_ROLE_WIDENED), 0);
    }
    if (gradient != MW_NONE)
        compute->gradient =
            part_at(trainer, gradient, tensor->gradient_dtype, op->tile * tensor->gradient_stride);
    compute->gradient_adds = adds_gradient(trainer, op);
}

/* Binds the tokens of a chunk of the logits; for all other operators, all tokens. */
static void
bind_tokens(const struct mw_trainer *trainer, const struct mw_op *op, struct mw_compute *compute)
{
    bool chunked = mw_operator_row((int)compute->operator_)->in_token_chunks;
    int64_t chunks = chunked ? trainer->logits_chunks : 1, chunk = chunked ? op->shard : 0;

    compute->first_token = trainer->tokens * chunk / chunks;
    compute->tokens = trainer->tokens * (chunk + 1) / chunks - compute->first_token;
    compute->ids = trainer->ids + op->micro_batch * trainer->tokens;
    compute->targets = trainer->targets + op->micro_batch * trainer->tokens;
    int64_t summed = trainer->plan->shape.stashes ? 1 : trainer->micro_batches;
    int64_t ranks = trainer->plan->shape.asynchronous ? 1 : mw_trainer_data_ranks(trainer);
    compute->gradient_scale = trainer->now.loss_scale / (trainer->tokens * summed * ranks);
}

/* What this rank keeps of a layer's input. */
static struct mw_range
kept_elements(const struct mw_trainer *trainer)
{
    const struct mw_ranks_part *blocks = &trainer->variant->checkpoint;
    const struct mw_decoder *decoder = &trainer->plan->shape.decoder;
    int64_t each = mw_dtype_row(mw_trainer_checkpoint_dtype(trainer))->block_elements, first;
    bool parts = blocks->shard_elements < blocks->elements;
    int64_t count = mw_ranks_range(blocks, parts ? (int)decoder->slice.index : 0, &first);
    int64_t all = mw_decoder_own_tokens(decoder, trainer->tokens) * decoder->hidden;
    int64_t end = MIN((first + count) * each, all);

    return (struct mw_range){first * each, MAX(0, end - first * each)};
}

/* The first op of a group saves the layer's input, or a slice its part of it, and restores it.  Of
 * one that is stored in fewer bits, forward goes on with the input itself: the bits are lost to the
 * recomputation alone. */
static bool
checkpoint(struct mw_trainer *trainer, const struct mw_op *op, void *x, GError **error)
{
    const struct mw_storage *storage = &trainer->storage;
    uint32_t slot = mw_trainer_slot(trainer, op, MW_ROLE_CHECKPOINT);
    int64_t element_bytes = mw_trainer_element_bytes(trainer);

    if (slot == MW_NONE)
        return true;
    void *kept = mw_storage_address(storage, slot, 0);
    bool brings = op->phase == MW_PHASE_RECOMPUTE;
    const struct mw_decoder *decoder = &trainer->plan->shape.decoder;
    int64_t all = mw_decoder_own_tokens(decoder, trainer->tokens) * decoder->hidden;
    struct mw_range own = brings ? (struct mw_range){0, all} : kept_elements(trainer);
    void *at = (char *)x + element_bytes * own.first;
    if (trainer->plan->shape.checkpoint_dtype != MW_DTYPE_NONE)
        return brings ? storage->backend->decode(storage->device, at, kept, own.elements, error)
                      : storage->backend->encode(storage->device, kept, at, own.elements, error);
    return storage->backend->copy(storage->device, brings ? at : kept, brings ? kept : at,
                                  element_bytes * own.elements, error);
}

/* A layer whose activations are stored in fewer bits makes and uses them in a room in which the
 * layers have their turns.  They are stored before its last operator, which writes the next layer's
 * input there and is the last to read any, and restored before its backward begins, with the same
 * operator. */
static bool
code_kept(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    const struct mw_storage *storage = &trainer->storage;
    int64_t set = mw_trainer_set(trainer, op), n = trainer->coded_elements;
    bool backward = op->phase == MW_PHASE_BACKWARD;

    if (!is_coded(trainer, op->layer) ||
        trainer->plan->works[op->work].operator_ != MW_OPERATOR_MLP_DOWN ||
        op->tile != (backward ? mw_trainer_tensor(trainer, op)->tiles - 1 : 0))
        return true;
    void *coded =
        trainer->variant->coded[set * trainer->layers_held + held_at(trainer, op, op->layer)];
    void *x = layer_activations(trainer, op, op->layer)->x;
    return backward ? storage->backend->decode(storage->device, x, coded, n, error)
                    : storage->backend->encode(storage->device, coded, x, n, error);
}

/* The last op of a layer saves all its activations, or the first op of its backward restores them:
 * the sums of attention, and what begins with the layer's input. */
static bool
whole_checkpoint(struct mw_trainer *trainer, const struct mw_op *op,
                 const struct mw_layer_activations *layer, GError **error)
{
    const struct mw_storage *storage = &trainer->storage;
    uint32_t slot = mw_trainer_slot(trainer, op, MW_ROLE_CHECKPOINT);
    int64_t sums = mw_decoder_fp32_bytes(&trainer->plan->shape.decoder, trainer->tokens);
    int64_t rest = trainer->layer_bytes - sums;
    bool brings = op->phase == MW_PHASE_BACKWARD;

    if (slot == MW_NONE)
        return true;
    char *kept = mw_storage_address(storage, slot, 0);
    void *to[] = {brings ? (void *)layer->lse : kept, brings ? layer->x : kept + sums};
    const void *from[] = {brings ? (void *)kept : layer->lse, brings ? kept + sums : layer->x};
    return storage->backend->copy(storage->device, to[0], from[0], sums, error) &&
           storage->backend->copy(storage->device, to[1], from[1], rest, error);
}

/* The same whatever is computed again or resumed, and however micro-batches are divided over
 * ranks. */
static uint64_t
draw_of(const struct mw_trainer *trainer, const struct mw_op *op)
{
    int64_t rank = (int64_t)trainer->replica * trainer->ranks + trainer->rank;
    const uint64_t of[] = {
        (uint64_t)trainer->now.step,
        (uint64_t)(op->micro_batch * mw_trainer_data_ranks(trainer) + rank),
        (uint64_t)op->layer,
    };
    uint64_t draw = mw_mix(trainer->options.seed);

    for (size_t i = 0; i < G_N_ELEMENTS(of); i++)
        draw = mw_mix(draw ^ of[i]);
    return draw;
}

/* What is computed again gives the same. */
static double *
router_losses_at(const struct mw_trainer *trainer, const struct mw_op *op)
{
    int64_t layers = trainer->plan->shape.decoder.layers;

    return trainer->router_losses && op->layer >= 0 && op->phase != MW_PHASE_BACKWARD
               ? trainer->router_losses + 2 * (op->micro_batch * layers + op->layer)
               : NULL;
}

struct mw_compute
mw_trainer_bind(struct mw_trainer *trainer, const struct mw_op *op)
{
    uint32_t logits = mw_trainer_slot(trainer, op, MW_ROLE_LOGITS);
    struct mw_compute compute = {
        .decoder = &trainer->plan->shape.decoder,
        .operator_ = trainer->plan->works[op->work].operator_,
        .backward = op->phase == MW_PHASE_BACKWARD,
        .of_weights = trainer->plan->works[op->work].object == MW_OBJECT_GRADIENTS,
        .dtype = trainer->plan->shape.dtype,
        .sequences = trainer->plan->shape.sequences,
        .seq = mw_step_shape_seq(&trainer->plan->shape),
        .loss = trainer->loss,
        .draw = draw_of(trainer, op),
        .router_losses = router_losses_at(trainer, op),
        .shared = &trainer->variant->shared[mw_trainer_set(trainer, op)],
        .input = layer_activations(trainer, op, computed_from(trainer, 0))->x,
        .visits = trainer->visits.counts ? &trainer->visits : NULL,
        .logits = logits == MW_NONE ? NULL : mw_storage_address(&trainer->storage, logits, 0),
    };

    bind_tokens(trainer, op, &compute);
    bind_part(trainer, op, &compute);
    if (trainer->variant->operands_of)
        compute.into_last =
            layer_activations(trainer, op, (int32_t)trainer->recomputed.end - 1)->gradient.out;
    if (op->layer >= 0) {
        compute.layer = layer_activations(trainer, op, op->layer);
        compute.output = output_of(trainer, op);
    }
    return compute;
}

bool
mw_trainer_prepare(struct mw_trainer *trainer, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    const struct mw_storage *storage = &trainer->storage;

    for (uint32_t i = 0; storage->backend->prepare && i < mw_plan_unfolded_ops(plan); i++) {
        const struct mw_op op = mw_plan_numbered_op(plan, i);
        if (plan->works[op.work].kind != MW_OP_COMPUTE)
            continue;
        struct mw_compute compute = mw_trainer_bind(trainer, &op);
        if (!storage->backend->prepare(storage->device, &compute, error))
            return false;
    }
    return true;
}

static bool
attend_or_compute(struct mw_trainer *trainer, const struct mw_op *op, struct mw_compute *compute,
                  GError **error)
{
    if (mw_decoder_rings(compute->decoder) && mw_operator_row((int)compute->operator_)->attends)
        return mw_trainer_attend_ring(trainer, op, compute, error);
    return trainer->storage.backend->compute(trainer->storage.device, compute, error);
}

bool
mw_trainer_compute(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    struct mw_compute compute = mw_trainer_bind(trainer, op);
    bool whole = mw_trainer_leaves_whole(trainer, op->layer);
    bool forward = op->phase == MW_PHASE_FORWARD;

    if (!mw_trainer_take_received(trainer, op, &compute, error) ||
        (op->layer >= 0 && !whole &&
         (!checkpoint(trainer, op, compute.layer->x, error) || !code_kept(trainer, op, error))) ||
        (whole && !forward && !whole_checkpoint(trainer, op, compute.layer, error)))
        return false;
    return attend_or_compute(trainer, op, &compute, error) &&
           (!whole || !forward || whole_checkpoint(trainer, op, compute.layer, error)) &&
           mw_trainer_give_sent(trainer, op, &compute, error);
}
