/* Looks up once what an op's identity and slots stand for. */
#include <string.h>

#include "base/error.h"
#include "exec/data/weights.h"
#include "exec/trainer/internal.h"

static void
index_tensors(struct mw_trainer *trainer)
{
    const struct mw_plan *plan = trainer->plan;
    int64_t rows = trainer->plan->shape.decoder.layers + 1;

    trainer->tensor_of = g_new(uint32_t, rows * MW_OPERATOR_COUNT);
    memset(trainer->tensor_of, 0xff, rows * MW_OPERATOR_COUNT * sizeof(uint32_t)); /* MW_NONE */
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        const struct mw_tensor *tensor = &plan->tensors[t];
        for (int i = 0; i < MW_OPERATOR_COUNT; i++)
            if (tensor->operators >> i & 1)
                trainer->tensor_of[(tensor->layer + 1) * MW_OPERATOR_COUNT + i] = t;
    }
    if (trainer->plan->shape.decoder.tied_embedding)
        trainer->tensor_of[MW_OPERATOR_LOGITS] = trainer->tensor_of[MW_OPERATOR_EMBEDDING];
}

static void
index_homes(struct mw_trainer_variant *it)
{
    it->tensor_of_home = g_new(uint32_t, it->plan->slot_count + 1);
    memset(it->tensor_of_home, 0xff, (it->plan->slot_count + 1) * sizeof(uint32_t));
    for (uint32_t t = 0; t < it->plan->tensor_count; t++) {
        it->tensor_of_home[it->plan->tensors[t].param_slot] = t;
        if (it->plan->tensors[t].trainable)
            it->tensor_of_home[it->plan->tensors[t].gradient_slot] = t;
    }
}

static bool
map_parts(struct mw_trainer *trainer, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    const struct mw_decoder *decoder = &plan->shape.decoder;
    int64_t elements = 0;

    trainer->parts = g_new0(struct mw_part *, plan->tensor_count + 1);
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        trainer->parts[t] = g_new0(struct mw_part, plan->tensors[t].tiles);
        for (uint32_t tile = 0; tile < plan->tensors[t].tiles; tile++) {
            trainer->parts[t][tile] = mw_part_of(decoder, &plan->tensors[t], tile);
            elements += trainer->parts[t][tile].elements;
        }
    }
    if (elements == mw_weights_elements(decoder) || mw_trainer_is_stage(plan))
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "the plan has %" G_GINT64_FORMAT " parameters, the model %" G_GINT64_FORMAT,
                elements, mw_weights_elements(decoder));
    return false;
}

/* --- activations ----------------------------------------------------------------------------- */

/* The slots of the working memory are adjacent: one block, which the operators divide as they like.
 * A slot that is not adjacent is not counted. */
static int64_t
activation_bytes(const struct mw_trainer *trainer, char **base)
{
    const struct mw_plan *plan = trainer->plan;
    int64_t begin = -1, bytes = 0;

    for (uint32_t s = 0; s < plan->slot_count; s++) {
        const struct mw_slot *slot = &plan->slots[s];
        if (slot->purpose != MW_PURPOSE_ACTIVATIONS || slot->tier != MW_TIER_GPU)
            continue;
        if (begin < 0) {
            begin = slot->offset_bytes;
            *base = mw_storage_address(&trainer->storage, s, 0);
        }
        if (slot->offset_bytes == begin + bytes)
            bytes += slot->size_bytes;
    }
    return bytes;
}

/* Of the bytes from `base` on, how many no other slot lies over. */
static int64_t
own_bytes(const struct mw_trainer *trainer, const char *base, int64_t bytes)
{
    const struct mw_plan *plan = trainer->plan;
    int64_t own = bytes;

    for (uint32_t s = 0; s < plan->slot_count; s++) {
        const struct mw_slot *slot = &plan->slots[s];
        if (!slot->shares || slot->tier != MW_TIER_GPU || slot->purpose == MW_PURPOSE_ACTIVATIONS)
            continue;
        int64_t begin = (const char *)mw_storage_address(&trainer->storage, s, 0) - base;
        if (begin < own && begin + slot->size_bytes > 0)
            own = MAX(0, begin);
    }
    return own;
}

/* The rank's layers, and which of them are recomputed.  It borrows from the plan. */
static struct mw_recomputed
recomputed_of(const struct mw_plan *plan)
{
    int64_t begin = plan->shape.decoder.layers, end = 0;

    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        int64_t layer = plan->tensors[t].layer;
        if (layer < 0 || !(plan->tensors[t].operators >> MW_OPERATOR_QKV & 1))
            continue;
        begin = MIN(begin, layer);
        end = MAX(end, layer + 1);
    }
    return mw_step_shape_recomputed(&plan->shape, begin, end);
}

static bool
find_layers(struct mw_trainer *trainer, GError **error)
{
    trainer->recomputed = recomputed_of(trainer->plan);
    if (trainer->recomputed.end > trainer->recomputed.begin)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "the plan has no layer of its model");
    return false;
}

/* Gives each layer that keeps its activations a place among those of its stretch. */
static void
place_kept(struct mw_trainer *trainer)
{
    int64_t layers = trainer->plan->shape.decoder.layers, turn = 0;

    g_free(trainer->kept_turn);
    trainer->kept_turn = g_new(int64_t, layers);
    for (int64_t l = 0; l < layers; l++) {
        bool keeps = mw_trainer_is_own(trainer, l) && !mw_recomputed_has(&trainer->recomputed, l);
        bool begins = l == trainer->recomputed.begin ||
                      (keeps && l == mw_trainer_stretch_of(trainer, l)->begin);
        turn = begins ? 0 : turn;
        trainer->kept_turn[l] = keeps ? turn++ : -1;
    }
}

/* Operators that are trained in no layer. */
static uint32_t
frozen_operators(const struct mw_plan *plan)
{
    uint32_t all = 0, trained = 0;

    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        const struct mw_tensor *tensor = &plan->tensors[t];
        all |= tensor->operators;
        trained |= tensor->trainable ? tensor->operators : 0;
    }
    return all & ~trained;
}

/* Its layers are those of the block from `first` on. */
static void
lay_out_set(struct mw_trainer *trainer, int64_t set, const struct mw_activation_layout *layout,
            char *base, int64_t first)
{
    const struct mw_step_shape *shape = &trainer->plan->shape;

    for (int64_t l = 0; l < trainer->layers_held; l++) {
        trainer->variant->layers[set * trainer->layers_held + l] = mw_activations_of_layer(
            &shape->decoder, shape->sequences, mw_step_shape_seq(shape), layout, base, first + l);
        trainer->variant->coded[set * trainer->layers_held + l] = mw_activations_coded(
            &shape->decoder, shape->sequences, mw_step_shape_seq(shape), layout, base, first + l);
    }
    trainer->variant->shared[set] = mw_activations_shared(&shape->decoder, shape->sequences,
                                                          mw_step_shape_seq(shape), layout, base);
}

/* The slots of what the gradients of weights that come later take, by micro-batch: each has one of
 * either kind, or the ops are refused (exec/trainer/operands.c). */
static void
find_operands(struct mw_trainer *trainer)
{
    const struct mw_plan *plan = trainer->plan;
    struct mw_trainer_operands *of = g_new(struct mw_trainer_operands, plan->shape.micro_batches);

    memset(of, 0xff, sizeof *of * plan->shape.micro_batches); /* all MW_NONE */
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++) {
            uint32_t slot = plan->uses[u].slot;
            if (plan->slots[slot].purpose == MW_PURPOSE_PRODUCT_INPUTS)
                of[op->micro_batch].inputs = slot;
            if (plan->slots[slot].purpose == MW_PURPOSE_RESULT_GRADIENTS)
                of[op->micro_batch].results = slot;
        }
    }
    trainer->variant->operands_of = of;
}

static bool
lay_out_operands(struct mw_trainer *trainer, const struct mw_activation_layout *layout,
                 GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    struct mw_trainer_variant *variant = trainer->variant;
    const struct mw_trainer_operands *of = variant->operands_of;
    int64_t layers = trainer->layers_held;

    for (int64_t m = 0; m < plan->shape.micro_batches; m++) {
        if (of[m].inputs == MW_NONE || of[m].results == MW_NONE ||
            plan->slots[of[m].inputs].size_bytes < layers * layout->inputs_bytes ||
            plan->slots[of[m].results].size_bytes < layers * layout->results_bytes) {
            g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                        "the plan has no room for what the gradients of weights of micro-batch "
                        "%" G_GINT64_FORMAT " take: %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT
                        " bytes",
                        m, layers * layout->inputs_bytes, layers * layout->results_bytes);
            return false;
        }
        void *inputs = mw_storage_address(&trainer->storage, of[m].inputs, 0);
        void *results = mw_storage_address(&trainer->storage, of[m].results, 0);
        for (int64_t l = 0; l < layers; l++)
            mw_activations_place_operands(&plan->shape.decoder, plan->shape.sequences,
                                          mw_step_shape_seq(&plan->shape), layout, l, inputs,
                                          results, variant->shared[m % trainer->sets].gradient,
                                          &variant->layers[m * layers + l]);
    }
    return true;
}

static struct mw_activation_layout
layout_of(const struct mw_trainer *trainer, int64_t layers)
{
    const struct mw_plan *plan = trainer->plan;

    return mw_activation_layout(&plan->shape.decoder, plan->shape.dtype, plan->shape.sequences,
                                mw_step_shape_seq(&plan->shape), layers, frozen_operators(plan));
}

int64_t
mw_trainer_layer_bytes(const struct mw_trainer *trainer)
{
    return layout_of(trainer, 1).layer_bytes;
}

bool
mw_trainer_leaves_whole(const struct mw_trainer *trainer, int64_t layer)
{
    return layer >= 0 && trainer->plan->shape.whole_checkpoints &&
           !mw_recomputed_has(&trainer->recomputed, layer);
}

enum mw_dtype
mw_trainer_checkpoint_dtype(const struct mw_trainer *trainer)
{
    const struct mw_step_shape *shape = &trainer->plan->shape;

    return shape->checkpoint_dtype == MW_DTYPE_NONE ? (enum mw_dtype)shape->dtype
                                                    : (enum mw_dtype)shape->checkpoint_dtype;
}

static struct mw_ranks_part
part_checkpoint(const struct mw_trainer *trainer)
{
    const struct mw_decoder *decoder = &trainer->plan->shape.decoder;
    int64_t block = mw_dtype_row(mw_trainer_checkpoint_dtype(trainer))->block_elements;
    int64_t own = mw_decoder_own_tokens(decoder, trainer->tokens);
    int64_t blocks = (own * decoder->hidden + block - 1) / block;
    int64_t slices = mw_plan_gathers_checkpoints(trainer->plan) ? MAX(1, decoder->slice.count) : 1;

    return (struct mw_ranks_part){.elements = blocks,
                                  .shard_elements = (blocks + slices - 1) / slices};
}

/* Counts the layers that a set of activations has, and the sets.  Returns how many of these layers
 * keep theirs there. */
static int64_t
count_layers(struct mw_trainer *trainer)
{
    const struct mw_plan *plan = trainer->plan;
    int64_t layers = trainer->recomputed.end - trainer->recomputed.begin;
    bool whole = plan->shape.whole_checkpoints;
    int64_t kept = whole                                ? 0
                   : !mw_trainer_has_stretches(trainer) ? mw_recomputed_kept(&trainer->recomputed)
                   : plan->shape.checkpoint_interval    ? 0
                                                        : mw_trainer_stretch_layers(trainer);
    int64_t rooms = mw_recomputed_largest(&trainer->recomputed);

    trainer->layers_coded = plan->shape.kept_encodings ? kept : 0;
    trainer->layers_rooms = trainer->layers_coded ? MAX(1, rooms) : rooms;
    rooms = trainer->layers_rooms + (trainer->layers_coded ? 0 : kept);
    if (whole)
        rooms = MIN(2, layers);
    trainer->layers_held = rooms + trainer->layers_coded;
    trainer->sets = kept ? plan->programs[0].in_flight : 1;
    return kept;
}

/* Of a block: a set, or all sets where a rank has several stretches, of which it computes one at a
 * time: what passes between operators is theirs together then. */
static struct mw_activation_layout
lay_out_block(struct mw_trainer *trainer)
{
    const struct mw_step_shape *shape = &trainer->plan->shape;
    int64_t sets = mw_trainer_has_stretches(trainer) ? trainer->sets : 1;
    int64_t rooms = trainer->layers_held - trainer->layers_coded;
    struct mw_activation_layout layout = layout_of(trainer, sets * rooms);

    mw_activation_layout_add_coded(&layout, &shape->decoder, shape->sequences,
                                   mw_step_shape_seq(shape), sets * trainer->layers_coded);
    if (shape->weights_later)
        mw_activation_layout_part_operands(&layout, &shape->decoder, shape->sequences,
                                           mw_step_shape_seq(shape));
    trainer->coded_elements = layout.layer_elements;
    trainer->layer_bytes = layout.layer_bytes;
    return layout;
}

static bool
check_block(const struct mw_trainer *trainer, const struct mw_activation_layout *layout,
            int64_t kept, const char *base, int64_t bytes, GError **error)
{
    const struct mw_step_shape *shape = &trainer->plan->shape;
    int64_t own = own_bytes(trainer, base, bytes);
    int64_t lasting = mw_activations_lasting(&shape->decoder, shape->sequences,
                                             mw_step_shape_seq(shape), layout, kept);

    if (layout->bytes > bytes && mw_decoder_is_spread(&shape->decoder))
        return mw_refuse(error,
                         "the plan has %" G_GINT64_FORMAT
                         " bytes in one piece for activations, the operators need "
                         "%" G_GINT64_FORMAT ", should the tokens of all ranks visit the experts "
                         "of one; a plan by {software=memwall} has them",
                         bytes, layout->bytes);
    if (layout->bytes > bytes) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "the plan has %" G_GINT64_FORMAT
                    " bytes in one piece for activations, the operators need "
                    "%" G_GINT64_FORMAT,
                    bytes, layout->bytes);
        return false;
    }
    if (lasting > own) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "the plan has %" G_GINT64_FORMAT
                    " bytes for activations that no other slot lies over, the operators need "
                    "%" G_GINT64_FORMAT,
                    own, lasting);
        return false;
    }
    return true;
}

static void
lay_out_sets(struct mw_trainer *trainer, const struct mw_activation_layout *layout, char *base,
             int64_t bytes)
{
    struct mw_trainer_variant *variant = trainer->variant;
    const struct mw_step_shape *shape = &trainer->plan->shape;
    int64_t places = shape->weights_later ? shape->micro_batches : trainer->sets;
    bool together = mw_trainer_has_stretches(trainer);

    variant->layers = g_new(struct mw_layer_activations, places * trainer->layers_held);
    variant->coded = g_new(void *, places * trainer->layers_held);
    variant->shared = g_new(struct mw_shared_activations, places);
    for (int64_t place = 0; place < places; place++)
        lay_out_set(trainer, place, layout, base + (together ? 0 : place % trainer->sets * bytes),
                    together ? place * trainer->layers_held : 0);
}

static bool
lay_out_activations(struct mw_trainer *trainer, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    char *base = NULL;
    int64_t bytes = activation_bytes(trainer, &base);

    if (!mw_trainer_find_stretches(trainer, error))
        return false;
    place_kept(trainer);
    int64_t kept = count_layers(trainer);
    bytes /= mw_trainer_has_stretches(trainer) ? 1 : trainer->sets;
    struct mw_activation_layout layout = lay_out_block(trainer);
    if (!check_block(trainer, &layout, kept, base, bytes, error))
        return false;
    lay_out_sets(trainer, &layout, base, bytes);
    if (!mw_trainer_place_passes(trainer, kept > 0, error))
        return false;
    if (!plan->shape.weights_later)
        return true;
    if (plan->section_count) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "the plan has sections, and gradients of weights that come later");
        return false;
    }
    find_operands(trainer);
    return lay_out_operands(trainer, &layout, error);
}

/* --- chunks ---------------------------------------------------------------------------------- */

static bool
decays(const struct mw_weights_piece *piece)
{
    return piece->weight.rank > 1;
}

/* Adds the next range of a chunk.  It joins the range before if both decay, or neither does. */
static void
add_range(GArray *ranges, const struct mw_update_range *range)
{
    struct mw_update_range *last =
        ranges->len ? &g_array_index(ranges, struct mw_update_range, ranges->len - 1) : NULL;

    if (last && last->decays == range->decays && last->piece.tensor == range->piece.tensor &&
        last->piece.tile == range->piece.tile)
        last->piece.elements += range->piece.elements;
    else
        g_array_append_vals(ranges, range, 1);
}

/* Cuts a piece at the borders between matrices and other parameters. */
static void
cut_piece(struct mw_trainer *trainer, const struct mw_piece *piece, GArray *ranges)
{
    const struct mw_tensor *tensor = &trainer->plan->tensors[piece->tensor];
    struct mw_weights_part part = {tensor->layer, tensor->operators, tensor->tiles, piece->tile};
    struct mw_weights_piece weights[MW_WEIGHTS_PIECES_MAX];
    int count = mw_weights_pieces(&trainer->plan->shape.decoder, &part, weights);

    for (int i = 0; i < count; i++) {
        int64_t begin = MAX(piece->first, weights[i].at);
        int64_t end = MIN(piece->first + piece->elements, weights[i].at + weights[i].count);
        if (begin >= end)
            continue;
        struct mw_update_range range = {*piece, decays(&weights[i])};
        range.piece.at += begin - piece->first;
        range.piece.first = begin;
        range.piece.elements = end - begin;
        add_range(ranges, &range);
    }
}

static void
map_chunk(struct mw_trainer *trainer, uint32_t c)
{
    const struct mw_plan *plan = trainer->plan;
    struct mw_trainer_chunk *chunk = &trainer->chunks[c];
    struct mw_pieces walk = mw_chunk_pieces(plan, &plan->chunks[c], trainer->rank);
    GArray *pieces = g_array_new(FALSE, FALSE, sizeof(struct mw_piece));
    GArray *ranges = g_array_new(FALSE, FALSE, sizeof(struct mw_update_range));

    for (struct mw_piece piece; mw_pieces_next(&walk, &piece);) {
        g_array_append_val(pieces, piece);
        cut_piece(trainer, &piece, ranges);
    }
    chunk->piece_count = pieces->len;
    chunk->range_count = ranges->len;
    chunk->pieces = (struct mw_piece *)g_array_free(pieces, FALSE);
    chunk->ranges = (struct mw_update_range *)(void *)g_array_free(ranges, FALSE);
}

static void
map_chunks(struct mw_trainer *trainer)
{
    const struct mw_plan *plan = trainer->plan;

    trainer->chunks = g_new0(struct mw_trainer_chunk, plan->chunk_count + 1);
    for (uint32_t c = 0; c < plan->chunk_count; c++)
        map_chunk(trainer, c);
}

/* A buffer with room for the state of a chunk on drives, if no update of the variant says which.  A
 * run may start or resume with any variant. */
static uint32_t
find_set(const struct mw_plan *plan, uint32_t chunk)
{
    for (uint32_t s = 0; s < plan->slot_count; s++)
        if (plan->slots[s].purpose == MW_PURPOSE_OPTIMIZER_BUFFERS &&
            plan->slots[s].tier == MW_TIER_CPU &&
            plan->slots[s].size_bytes >= mw_trainer_state_bytes(plan, chunk))
            return s;
    return MW_NONE;
}

/* Records what a step of the variant computes and updates. */
static bool
map_step(struct mw_trainer *trainer, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    struct mw_trainer_variant *it = trainer->variant;

    it->updates = g_new0(bool, plan->chunk_count + 1);
    it->computes = g_new0(bool, plan->shape.decoder.layers + 1);
    it->set_slots = g_new(uint32_t, plan->chunk_count + 1);
    for (uint32_t c = 0; c < plan->chunk_count; c++)
        it->set_slots[c] = mw_trainer_on_drives(plan, c) ? find_set(plan, c) : MW_NONE;
    for (uint32_t i = 0; i < mw_plan_unfolded_ops(plan); i++) {
        const struct mw_op op = mw_plan_numbered_op(plan, i);
        if (plan->works[op.work].kind == MW_OP_COMPUTE && op.layer >= 0)
            it->computes[op.layer] = true;
        if (plan->works[op.work].kind == MW_OP_UPDATE)
            it->updates[op.shard] = true;
        if (plan->works[op.work].kind == MW_OP_NVME_WRITE &&
            plan->works[op.work].object == MW_OBJECT_STATE)
            it->set_slots[op.shard] = mw_trainer_slot(trainer, &op, MW_ROLE_SOURCE);
    }
    for (uint32_t c = 0; c < plan->chunk_count; c++)
        if (mw_trainer_on_drives(plan, c) && it->set_slots[c] == MW_NONE)
            return mw_fail(error, MW_ERROR_INVALID,
                           "chunk %u: the plan has no buffer in host memory for its state", c);
    return true;
}

static void
count_partials(struct mw_trainer *trainer)
{
    const struct mw_plan *plan = trainer->plan;

    trainer->partial_count = 0;
    trainer->partial_first = g_new(int64_t, plan->tensor_count + 1);
    trainer->partial_blocks = g_new(int64_t, plan->tensor_count + 1);
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        trainer->partial_first[t] = trainer->partial_count;
        trainer->partial_blocks[t] = mw_norm_blocks(plan->tensors[t].state_stride);
        trainer->partial_count += plan->tensors[t].tiles * trainer->partial_blocks[t];
    }
}

/* Reserves the memory that device and host exchange numbers in; the plan counts all of it. */
static bool
share(struct mw_trainer *trainer, GError **error)
{
    const struct mw_storage *storage = &trainer->storage;
    int64_t tokens = trainer->micro_batches * trainer->tokens;
    int64_t doubles = 1 + mw_plan_updates(trainer->plan) * trainer->partial_count;
    const struct mw_decoder *decoder = &trainer->plan->shape.decoder;
    bool spread = mw_decoder_is_spread(decoder);
    int64_t counts = spread ? decoder->spread.count * decoder->experts : 0;
    int64_t begins = spread ? mw_decoder_experts_here(decoder) + 1 : 0;

    if (!mw_arena_reserve(&trainer->exchange, "numbers of a step",
                          doubles * (int64_t)sizeof(double) +
                              (2 * tokens + counts + begins) * (int64_t)sizeof(int32_t),
                          error))
        return false;
    trainer->loss = (double *)(void *)trainer->exchange.base;
    trainer->partials = trainer->loss + 1;
    trainer->ids = (int32_t *)(trainer->loss + doubles);
    trainer->targets = trainer->ids + tokens;
    if (spread)
        trainer->visits = (struct mw_visits){.counts = trainer->targets + tokens,
                                             .begin = trainer->targets + tokens + counts};
    return mw_storage_pin(storage, &trainer->exchange, error);
}

/* --- all of it ------------------------------------------------------------------------------- */

/* Sets up what all variants have in common. */
static bool
set_up_shared(struct mw_trainer *trainer, GError **error)
{
    const struct mw_step_shape *shape = &trainer->plan->shape;

    if (!mw_trainer_check_tensors(trainer->plan, error))
        return false;
    index_tensors(trainer);
    trainer->tokens = mw_step_shape_tokens(shape);
    trainer->micro_batches = shape->micro_batches;
    trainer->logits_chunks = shape->token_chunks;
    map_chunks(trainer);
    count_partials(trainer);
    if (mw_decoder_has_router_losses(&shape->decoder))
        trainer->router_losses = g_new0(double, 2 * trainer->micro_batches * shape->decoder.layers);
    if (mw_decoder_is_spread(&shape->decoder)) {
        trainer->expert_loads = g_new0(double, trainer->micro_batches * shape->decoder.layers);
        trainer->layer_loads = g_new0(double, 2 * shape->decoder.layers);
    }
    if (shape->asynchronous)
        trainer->now.each = g_new0(struct mw_trainer_update, trainer->ranks);
    return mw_trainer_reserve_vectors(trainer, error);
}

static bool
set_up_variant(struct mw_trainer *trainer, const struct mw_exec_backend *run, GError **error)
{
    struct mw_trainer_variant *it = trainer->variant;

    index_homes(it);
    it->checkpoint = part_checkpoint(trainer);
    if (!mw_trainer_check_names(trainer, error) || !map_step(trainer, error) ||
        !mw_trainer_set_up_no_flush(trainer, error) || !find_layers(trainer, error) ||
        !mw_trainer_check_operands(trainer, error))
        return false;
    mw_trainer_map_queues(trainer);
    it->lanes = mw_lanes_new(it->plan, *run, error);
    return it->lanes && lay_out_activations(trainer, error) && mw_trainer_prepare(trainer, error);
}

static void
turn_to(struct mw_trainer *trainer, uint32_t variant)
{
    trainer->variant = &trainer->variants[variant];
    trainer->plan = trainer->storage.plan = trainer->variant->plan;
}

/* The norm of this variant's step leaves out squares of gradients that only the previous variant
 * has made, but includes those that wait for a delayed update. */
void
mw_trainer_turn_to(struct mw_trainer *trainer, int64_t step)
{
    const struct mw_plan *before = trainer->plan;

    turn_to(trainer, mw_variant_of(trainer->options.variants, step));
    if (trainer->plan != before && !mw_plan_is_delayed(trainer->plan))
        memset(trainer->partials, 0,
               (size_t)(mw_plan_updates(trainer->plan) * trainer->partial_count) *
                   sizeof *trainer->partials);
}

bool
mw_trainer_set_up(struct mw_trainer *trainer, const struct mw_exec_backend *run, GError **error)
{
    const struct mw_variants *variants = trainer->options.variants;

    trainer->variants = g_new0(struct mw_trainer_variant, variants->plan_count);
    for (uint32_t v = 0; v < variants->plan_count; v++)
        trainer->variants[v].plan = variants->plans[v];
    turn_to(trainer, 0);
    if (!set_up_shared(trainer, error) || !share(trainer, error) || !map_parts(trainer, error))
        return false;
    for (uint32_t v = variants->plan_count; v-- > 0;) {
        turn_to(trainer, v);
        if (!set_up_variant(trainer, run, error))
            return false;
    }
    mw_trainer_turn_to(trainer, 0);
    return true;
}

static void
take_down_variant(struct mw_trainer_variant *it)
{
    mw_lanes_free(it->lanes);
    g_free(it->tensor_of_home);
    g_free(it->set_slots);
    g_free(it->updates);
    g_free(it->computes);
    g_free(it->layers);
    g_free(it->coded);
    g_free(it->set_of);
    g_free(it->operands_of);
    g_free(it->shared);
    g_free(it->queued);
    g_free(it->tickets);
    mw_trainer_free_no_flush(it->no_flush);
}

void
mw_trainer_take_down(struct mw_trainer *trainer)
{
    for (uint32_t v = 0; trainer->variants && v < trainer->options.variants->plan_count; v++)
        take_down_variant(&trainer->variants[v]);
    for (uint32_t t = 0; trainer->parts && t < trainer->plan->tensor_count; t++)
        g_free(trainer->parts[t]);
    for (uint32_t c = 0; trainer->chunks && c < trainer->plan->chunk_count; c++) {
        g_free(trainer->chunks[c].pieces);
        g_free(trainer->chunks[c].ranges);
    }
    g_free(trainer->variants);
    g_free(trainer->parts);
    g_free(trainer->chunks);
    g_free(trainer->kept_turn);
    g_clear_pointer(&trainer->stretches, g_array_unref);
    g_free(trainer->tensor_of);
    g_free(trainer->partial_first);
    g_free(trainer->partial_blocks);
    g_free(trainer->now.each);
    g_free(trainer->router_losses);
    g_free(trainer->expert_loads);
    g_free(trainer->layer_loads);
    mw_storage_unpin(&trainer->storage, &trainer->exchange);
    mw_arena_release(&trainer->exchange);
}
