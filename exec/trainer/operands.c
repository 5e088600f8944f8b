/*
 * Whether every op of a plan finds operands that it can work on: a plan may come from a file, and
 * what its check proves says nothing of what an op reads and writes within a slot.
 *
 * Nothing of a plan is looked up before the first two functions below have seen it.
 */
#include "base/error.h"
#include "exec/data/weights.h"
#include "exec/memory/pages.h"
#include "exec/trainer/internal.h"
#include "exec/trainer/narrow.h"
#include "plan/optimizers.h"
#include "plan/state.h"

/* --- tensors --------------------------------------------------------------------------------- */

static bool
is_of_decoder(const struct mw_decoder *decoder, const struct mw_tensor *tensor)
{
    struct mw_weights_part part = {tensor->layer, tensor->operators, tensor->tiles, 0};

    if (tensor->layer >= decoder->layers || tensor->operators >> MW_OPERATOR_COUNT ||
        tensor->tiles > UINT16_MAX)
        return false;
    for (; part.tile < part.tiles; part.tile++)
        if (mw_weights_part_elements(decoder, &part) !=
            mw_tensor_part_elements(tensor, (uint32_t)part.tile))
            return false;
    return true;
}

/* Drives read and write whole pages, and vector units prefer operands that begin at one. */
static bool
check_slots(const struct mw_plan *plan, GError **error)
{
    for (uint32_t s = 0; s < plan->slot_count; s++)
        if (plan->slots[s].offset_bytes % MW_SLOT_ALIGNMENT_BYTES ||
            plan->slots[s].size_bytes % MW_SLOT_ALIGNMENT_BYTES) {
            g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                        "slot %u of the plan does not begin and end at whole pages of %d bytes", s,
                        MW_SLOT_ALIGNMENT_BYTES);
            return false;
        }
    return true;
}

/* Part 0 has the norms of q and k, but all parts have their heads. */
static bool
cuts_heads(const struct mw_decoder *decoder, const struct mw_tensor *tensor)
{
    return decoder->qk_norm && tensor->tiles > 1 && tensor->operators >> MW_OPERATOR_QKV & 1;
}

/* What of a mixture no operator does; the command says before in which settings. */
static bool
check_mixture(const struct mw_plan *plan, GError **error)
{
    const struct mw_step_shape *shape = &plan->shape;
    const struct mw_decoder *d = &shape->decoder;
    const uint32_t of_experts = 1u << MW_OPERATOR_MLP_UP | 1u << MW_OPERATOR_MLP_DOWN |
                                1u << MW_OPERATOR_EXPERTS_UP | 1u << MW_OPERATOR_EXPERTS_DOWN;
    int64_t element = mw_compute_element_bytes(shape->dtype);
    bool good = !d->lora_rank && !shape->kept_encodings && !shape->weights_later &&
                !mw_optimizer_has_vectors(shape->optimizer);

    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (plan->tensors[t].operators & of_experts)
            good &= plan->tensors[t].tiles == 1 && plan->tensors[t].trainable;
    if (!d->experts)
        return true;
    if (!good)
        return mw_refuse(error, "the plan's mixture of experts is not run as the plan has it");
    return 4 * d->experts_per_token < element * MAX(d->hidden, mw_decoder_q(d)) ||
           mw_refuse(error,
                     "a token visits %" G_GINT64_FORMAT " experts, and a hidden state of "
                     "%" G_GINT64_FORMAT " elements has no room for as many gradients",
                     d->experts_per_token, d->hidden);
}

bool
mw_trainer_check_tensors(const struct mw_plan *plan, GError **error)
{
    if (!check_slots(plan, error) || !check_mixture(plan, error))
        return false;
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (!is_of_decoder(&plan->shape.decoder, &plan->tensors[t])) {
            g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                        "the plan's tensor %u is none of its model's", t);
            return false;
        } else if (cuts_heads(&plan->shape.decoder, &plan->tensors[t])) {
            g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                        "the plan cuts q and k into %u tiles, and the model has norms of them: "
                        "must be 1 to run",
                        plan->tensors[t].tiles);
            return false;
        } else if (!mw_narrow_check(&plan->shape.decoder, &plan->tensors[t], error)) {
            return false;
        }
    return true;
}

/* --- operands of an op ----------------------------------------------------------------------- */

struct look {
    const struct mw_trainer *trainer;
    const struct mw_op *op;
    const struct mw_work *work;
    const struct mw_tensor *tensor; /* the tensor whose part it is, or NULL */
    int64_t part_elements;          /* elements of that part */
    uint32_t number;                /* of the op in the plan */
};

static bool
is_chunks(const struct mw_work *work)
{
    return work->object == MW_OBJECT_STATE || work->object == MW_OBJECT_UPDATED;
}

/* Its own, or those of another as tied logits have; the sum of spread experts' results has none. */
static bool
has_weights(const struct mw_trainer *trainer, int operator_)
{
    const struct mw_operator_dims dims = mw_decoder_dims(&trainer->plan->shape.decoder);
    const struct mw_operator_parameter *p = mw_operator_row(operator_)->parameters;
    bool has = false;

    for (; p && p->kind != MW_PARAMETER_END; p++)
        has |= mw_dims_have(&dims, p->when) && dims.width[p->rows] &&
               (!p->columns || dims.width[p->columns]);
    return has;
}

static uint32_t
slot_of(const struct look *look, enum mw_role role)
{
    return mw_trainer_slot(look->trainer, look->op, role);
}

static bool
uses(const struct look *look, enum mw_role role)
{
    return slot_of(look, role) != MW_NONE;
}

/* Whether a slot has this much memory from a place on. */
static bool
slot_holds(const struct look *look, uint32_t slot, int64_t at_bytes, int64_t bytes)
{
    int64_t size_bytes = look->trainer->plan->slots[slot].size_bytes;

    return bytes >= 0 && at_bytes >= 0 && at_bytes <= size_bytes && bytes <= size_bytes - at_bytes;
}

static enum mw_tier
tier_of(const struct look *look, uint32_t slot)
{
    return (enum mw_tier)look->trainer->plan->slots[slot].tier;
}

/* A move between drives and memory needs whole pages. */
static bool
move_fits(const struct look *look, const struct mw_move *move)
{
    bool drives = tier_of(look, move->from.slot) == MW_TIER_NVME ||
                  tier_of(look, move->to.slot) == MW_TIER_NVME;
    int64_t bytes = drives && move->bytes > 0 ? mw_in_pages(move->bytes) : move->bytes;

    return slot_holds(look, move->from.slot, move->from.at_bytes, bytes) &&
           slot_holds(look, move->to.slot, move->to.at_bytes, bytes) &&
           (!drives || (mw_in_pages(move->from.at_bytes) == move->from.at_bytes &&
                        mw_in_pages(move->to.at_bytes) == move->to.at_bytes));
}

/* The cores or the device that compute the op reach only one tier. */
static bool
reaches_all(const struct look *look)
{
    enum mw_tier tier = look->work->host ? MW_TIER_CPU : MW_TIER_GPU;

    return mw_trainer_uses_tiers(look->trainer->plan, look->op, tier, tier);
}

/* Whether the slot holds a part of the op's tensor: it is the tensor's own home, or a buffer with
 * room. */
static bool
holds_part(const struct look *look, uint32_t slot, int64_t elements, bool gradient)
{
    uint32_t of_home = look->trainer->variant->tensor_of_home[slot];

    if (mw_trainer_is_version(look->trainer, slot))
        return !gradient; /* it has all tensors (exec/trainer/no_flush.c) */
    if (of_home == MW_NONE)
        return slot_holds(look, slot, 0, mw_dtype_bytes(look->tensor->dtype, elements));
    if (!gradient)
        return slot == look->tensor->param_slot;
    return slot == look->tensor->gradient_slot && !look->tensor->summed;
}

/* Whether the op has the room that its parameters need to be widened in, if they need any. */
static bool
has_room_to_widen(const struct look *look)
{
    uint32_t slot = slot_of(look, MW_ROLE_WIDENED);
    int64_t bytes = mw_trainer_element_bytes(look->trainer) * look->part_elements;

    if (!look->tensor || !mw_narrow_is(look->tensor))
        return slot == MW_NONE;
    return slot != MW_NONE && look->trainer->variant->tensor_of_home[slot] == MW_NONE &&
           slot_holds(look, slot, 0, bytes);
}

/* The kind of a transfer tells which tiers it goes from and to. */
static bool
goes_its_way(const struct look *look)
{
    static const enum mw_tier ways[MW_OP_KIND_COUNT][2] = {
        [MW_OP_NVME_READ] = {MW_TIER_NVME, MW_TIER_CPU},
        [MW_OP_NVME_WRITE] = {MW_TIER_CPU, MW_TIER_NVME},
        [MW_OP_H2D] = {MW_TIER_CPU, MW_TIER_GPU},
        [MW_OP_D2H] = {MW_TIER_GPU, MW_TIER_CPU},
    };
    const enum mw_tier *way = ways[look->work->kind];

    return mw_trainer_uses_tiers(look->trainer->plan, look->op, way[0], way[1]);
}

/* --- ops of parts ---------------------------------------------------------------------------- */

static int64_t
chunk_tokens(const struct look *look)
{
    const struct mw_step_shape *shape = &look->trainer->plan->shape;

    return (look->trainer->tokens + shape->token_chunks - 1) / shape->token_chunks;
}

/* Bytes that one pipeline stage sends to the next: the hidden state of all tokens that the rank
 * has. */
static int64_t
hop_bytes(const struct look *look)
{
    const struct mw_decoder *decoder = &look->trainer->plan->shape.decoder;

    return mw_trainer_element_bytes(look->trainer) *
           mw_decoder_own_tokens(decoder, look->trainer->tokens) * decoder->hidden;
}

/* The ends of a model take from other ops, and leave to them, where micro-batches wait layer by
 * layer, or for their logits. */
static bool
hop_fits(const struct look *look, enum mw_role role)
{
    bool for_logits = role == MW_ROLE_RECEIVED && look->op->phase == MW_PHASE_FORWARD &&
                      look->work->operator_ == MW_OPERATOR_FINAL_NORM;
    bool hops = look->op->layer >= 0 || look->trainer->plan->shape.layer_order || for_logits;

    return !uses(look, role) || (hops && slot_holds(look, slot_of(look, role), 0, hop_bytes(look)));
}

/* Of a layer's input, or of a rank's part of it. */
static int64_t
checkpoint_bytes(const struct look *look, bool part)
{
    const struct mw_ranks_part *blocks = &look->trainer->variant->checkpoint;
    enum mw_dtype dtype = mw_trainer_checkpoint_dtype(look->trainer);

    return (part ? blocks->shard_elements : blocks->elements) * mw_dtype_row(dtype)->block_bytes;
}

/* Of a checkpoint that an op keeps or takes: a layer's input, or all its activations. */
static int64_t
kept_bytes(const struct look *look)
{
    return mw_trainer_leaves_whole(look->trainer, look->op->layer)
               ? mw_trainer_layer_bytes(look->trainer)
               : checkpoint_bytes(look, look->op->phase == MW_PHASE_FORWARD);
}

/* Where the gradients of weights come later: whether the op has its micro-batch's slots of what
 * they take, and no other. */
static bool
has_operands(const struct look *look)
{
    const struct mw_trainer *trainer = look->trainer;
    const struct mw_plan *plan = trainer->plan;
    const struct mw_op *op = look->op;

    for (uint32_t u = op->use_begin;
         trainer->variant->operands_of && u < op->use_begin + op->use_count; u++) {
        const struct mw_trainer_operands *of = &trainer->variant->operands_of[op->micro_batch];
        uint32_t slot = plan->uses[u].slot;
        uint8_t purpose = plan->slots[slot].purpose;
        if ((purpose == MW_PURPOSE_PRODUCT_INPUTS && slot != of->inputs) ||
            (purpose == MW_PURPOSE_RESULT_GRADIENTS && slot != of->results))
            return false;
    }
    return true;
}

static const char *
wrong_compute(const struct look *look)
{
    const struct mw_decoder *decoder = &look->trainer->plan->shape.decoder;
    enum mw_operator operator_ = (enum mw_operator)look->work->operator_;
    int64_t element = mw_trainer_element_bytes(look->trainer);
    bool logits = mw_operator_row((int)operator_)->in_token_chunks;
    bool backward = look->op->phase == MW_PHASE_BACKWARD;
    bool of_weights = look->work->object == MW_OBJECT_GRADIENTS;
    bool later = look->trainer->plan->shape.weights_later && look->op->layer >= 0 && !of_weights;
    /* Its backward reads no parameters. */
    bool scatters = operator_ == MW_OPERATOR_EMBEDDING || of_weights;
    uint32_t param = slot_of(look, MW_ROLE_PARAMETER), gradient = slot_of(look, MW_ROLE_GRADIENT);
    uint32_t kept = slot_of(look, MW_ROLE_CHECKPOINT), scores = slot_of(look, MW_ROLE_LOGITS);

    if (operator_ == MW_OPERATOR_NONE || look->work->host)
        return "is no operator of a device";
    if (param != MW_NONE ? !look->tensor || !holds_part(look, param, look->part_elements, false)
                         : has_weights(look->trainer, operator_) && !(scatters && backward))
        return "has no room for its parameters";
    if (!has_room_to_widen(look))
        return "has no room to widen its parameters in, or needs none";
    if (gradient != MW_NONE && look->tensor && !look->tensor->trainable)
        return "makes a gradient of what is not trained";
    if (of_weights && !look->trainer->plan->shape.weights_later)
        return "computes gradients of weights apart from those of its input";
    if (!has_operands(look))
        return "has not its micro-batch's operands of the gradients of weights";
    if (has_weights(look->trainer, operator_) && backward && look->tensor->trainable && !later &&
        (gradient == MW_NONE || !holds_part(look, gradient, look->part_elements, true)))
        return "has no room for its gradient";
    if (kept != MW_NONE && !slot_holds(look, kept, 0, kept_bytes(look)))
        return "has no room for its checkpoint";
    if (logits && (scores == MW_NONE ||
                   !slot_holds(look, scores, 0,
                               element * chunk_tokens(look) *
                                   mw_logits_stride(decoder, look->trainer->plan->shape.dtype))))
        return "has no room for its logits";
    if (!hop_fits(look, MW_ROLE_RECEIVED) || !hop_fits(look, MW_ROLE_SENT))
        return "has no room for what stages send";
    return reaches_all(look) ? NULL : "uses memory that is not the device's";
}

static const char *
wrong_hop(const struct look *look)
{
    const struct mw_trainer *trainer = look->trainer;
    enum mw_role role = look->work->kind == MW_OP_SEND ? MW_ROLE_SOURCE : MW_ROLE_DESTINATION;
    uint32_t peer = mw_work_peer(trainer->plan, look->work, trainer->world_rank);

    if (peer >= trainer->world_ranks || peer == trainer->world_rank)
        return "is of no neighbouring stage";
    if (!uses(look, role) || !hop_fits(look, role) || look->work->bytes != hop_bytes(look))
        return "has no room for what stages send";
    return reaches_all(look) ? NULL : "uses memory that is not the device's";
}

static const char *
wrong_accumulate(const struct look *look)
{
    uint32_t buffer = slot_of(look, MW_ROLE_GRADIENT), sum = slot_of(look, MW_ROLE_SUM);
    int64_t n = look->work->elements;
    int64_t at = mw_trainer_gradient_offset_bytes(look->trainer, look->tensor);

    if (buffer == MW_NONE || n < 0 || n > look->tensor->gradient_stride ||
        !slot_holds(look, buffer, at, mw_dtype_bytes(look->tensor->dtype, n)) ||
        (sum == MW_NONE ? !slot_holds(look, buffer, 0, 4 * n) || 4 * n > at
         : mw_plan_sums_passing(look->trainer->plan, look->tensor)
             ? !slot_holds(look, sum, 0, 4 * n)
             : sum != look->tensor->gradient_slot) ||
        !look->tensor->summed || look->tensor->gradient_dtype != MW_DTYPE_FP32)
        return "has no room for its sum";
    return reaches_all(look) ? NULL : "uses memory that it does not reach";
}

static const char *
wrong_part_norm(const struct look *look)
{
    const struct mw_trainer *trainer = look->trainer;
    uint32_t buffer = slot_of(look, MW_ROLE_GRADIENT);
    uint32_t index = (uint32_t)(look->tensor - trainer->plan->tensors);
    int64_t elements = mw_trainer_state_of(trainer, index, look->op->tile).elements;

    return buffer != MW_NONE && look->work->host && reaches_all(look) &&
                   slot_holds(look, buffer, 0, elements * mw_trainer_gradient_bytes(look->tensor))
               ? NULL
               : "has no gradient to look at";
}

static const char *
wrong_part_move(const struct look *look)
{
    bool both = uses(look, MW_ROLE_SOURCE) && uses(look, MW_ROLE_DESTINATION);

    if (!both)
        return "has no source, or no destination";
    if (!goes_its_way(look))
        return "moves between other tiers than its kind";
    struct mw_move move = mw_trainer_part_move(look->trainer, look->op);
    if (mw_trainer_turn_stream(look->trainer, look->op) >= 0)
        /* an owner moves its own shard */
        move.bytes = mw_trainer_shard_bytes(look->trainer, look->work, look->tensor);
    return move_fits(look, &move) ? NULL : "moves more than a slot holds";
}

/* The operator's slices, of which part does not matter, in a place of its own. */
static const char *
wrong_sum(const struct look *look)
{
    const struct mw_trainer *trainer = look->trainer;
    const struct mw_step_shape *shape = &trainer->plan->shape;
    const struct mw_operator_row *row = mw_operator_row(look->work->operator_);
    bool chunked = row->in_token_chunks, loss = look->work->operator_ == MW_OPERATOR_LOSS;
    int64_t tokens = chunked ? chunk_tokens(look) : trainer->tokens;
    int64_t of_token = mw_trainer_element_bytes(trainer) * shape->decoder.hidden;

    if (!(look->op->phase == MW_PHASE_BACKWARD ? row->sums_backward : row->sums_forward) ||
        (row->place == MW_PLACE_BLOCK) != (look->op->layer >= 0) ||
        look->op->shard >= (chunked ? shape->token_chunks : 1))
        return "is of no sum";
    if (loss && of_token < MW_LOSS_SUM_BYTES * shape->decoder.slice.count)
        return "has no room for what slices see of a token: their model is too narrow";
    if (shape->decoder.slice.shares_tokens && !loss)
        return "sums up what slices that share tokens scatter";
    if (look->work->bytes != tokens * (loss ? MW_LOSS_SUM_BYTES : of_token))
        return "sums up more or less than there is";
    if (!hop_fits(look, MW_ROLE_SENT))
        return "has no room for what stages send";
    return reaches_all(look) ? NULL : "uses memory that is not the device's";
}

/* Gathers what an operator takes, or scatters what it has made, of all tokens. */
static const char *
wrong_rows(const struct look *look)
{
    const struct mw_trainer *trainer = look->trainer;
    const struct mw_decoder *decoder = &trainer->plan->shape.decoder;
    const struct mw_operator_row *row = mw_operator_row(look->work->operator_);
    bool backward = look->op->phase == MW_PHASE_BACKWARD, block = look->op->layer >= 0;
    bool scatters = look->work->kind == MW_OP_REDUCE_SCATTER;
    bool has = backward == scatters ? row->sums_backward : row->sums_forward;
    bool again = backward && !scatters && block && row->sums_backward;

    if (!decoder->slice.shares_tokens || look->work->operator_ == MW_OPERATOR_LOSS ||
        !(has || again) || (row->place == MW_PLACE_BLOCK) != block)
        return "is of no tokens that slices share";
    if (trainer->tokens % decoder->slice.count ||
        look->work->bytes != trainer->tokens * mw_trainer_element_bytes(trainer) * decoder->hidden)
        return "moves more or fewer tokens than there are";
    if (!hop_fits(look, MW_ROLE_SENT) || !hop_fits(look, MW_ROLE_RECEIVED))
        return "has no room for what stages send";
    return reaches_all(look) ? NULL : "uses memory that is not the device's";
}

/* Of the norm's weights, where backward has left their gradients. */
static const char *
wrong_norm_sum(const struct look *look)
{
    const struct mw_trainer *trainer = look->trainer;
    const struct mw_decoder *decoder = &trainer->plan->shape.decoder;
    const struct mw_operator_row *row = mw_operator_row(look->work->operator_);
    uint32_t gradient = slot_of(look, MW_ROLE_GRADIENT);
    const struct mw_part *part =
        &trainer->parts[look->tensor - trainer->plan->tensors][look->op->tile];
    int64_t vectors = (part->norm_weight_at >= 0) + (part->norm_bias_at >= 0);

    if (!decoder->slice.shares_tokens || !row->norms || look->op->phase != MW_PHASE_BACKWARD)
        return "is of no norm of tokens that slices share";
    if (gradient == MW_NONE || !holds_part(look, gradient, look->part_elements, true) ||
        look->work->bytes != vectors * decoder->hidden * mw_trainer_element_bytes(trainer))
        return "has no gradients of a norm to sum up";
    return reaches_all(look) ? NULL : "uses memory that is not the device's";
}

/* Each rank of a group sends what visits its experts, of whatever tokens. */
static const char *
wrong_dispatch(const struct look *look)
{
    const struct mw_operator_row *row = mw_operator_row(look->work->operator_);

    if (!mw_decoder_is_spread(&look->trainer->plan->shape.decoder) || look->op->layer < 0 ||
        !(row->takes_tokens || row->returns_tokens))
        return "is of no experts that are spread";
    return reaches_all(look) ? NULL : "uses memory that is not the device's";
}

static const char *
wrong_checkpoint_gather(const struct look *look)
{
    uint32_t from = slot_of(look, MW_ROLE_SOURCE), to = slot_of(look, MW_ROLE_DESTINATION);
    int64_t whole = checkpoint_bytes(look, false);

    if (look->work->bytes != whole)
        return "gathers more or less than a checkpoint";
    if (from == MW_NONE || to == MW_NONE ||
        !slot_holds(look, from, 0, checkpoint_bytes(look, true)) || !slot_holds(look, to, 0, whole))
        return "has no room for a checkpoint, or for a part of it";
    return reaches_all(look) ? NULL : "uses memory that is not the device's";
}

/* Of the rank's tokens of all heads, or all tokens of its heads. */
static const char *
wrong_exchange(const struct look *look)
{
    const struct mw_trainer *trainer = look->trainer;

    if (!mw_decoder_exchanges_heads(&trainer->plan->shape.decoder) || look->op->layer < 0 ||
        look->op->shard > 1)
        return "is of no attention that ranks share";
    if (look->work->bytes != mw_trainer_exchange_bytes(trainer, look->op))
        return "moves more or less than there is";
    return reaches_all(look) ? NULL : "uses memory that is not the device's";
}

/* Of keys and values, beside attention. */
static const char *
wrong_pass(const struct look *look)
{
    if (!mw_decoder_rings(&look->trainer->plan->shape.decoder) || look->op->layer < 0)
        return "is of no attention in a ring";
    return look->work->bytes == mw_trainer_pass_bytes(look->trainer, look->op)
               ? NULL
               : "moves more or less than there is";
}

/* Of this rank's shard, at home or where it is on its way there. */
static const char *
wrong_replicas(const struct look *look)
{
    const struct mw_tensor *tensor = look->tensor;
    uint32_t slot = slot_of(look, MW_ROLE_GRADIENT);
    bool passing = mw_plan_sums_passing(look->trainer->plan, tensor);
    uint8_t dtype = passing ? tensor->gradient_dtype : tensor->dtype;
    int64_t bytes = mw_dtype_bytes((enum mw_dtype)dtype, tensor->shard_elements);

    if (slot == MW_NONE || (slot != tensor->gradient_slot &&
                            (look->trainer->variant->tensor_of_home[slot] != MW_NONE ||
                             !slot_holds(look, slot, 0, bytes))))
        return "has no shard of a gradient to sum up";
    return reaches_all(look) ? NULL : "uses memory that is not the device's";
}

/* Checks collectives: whole parts and shards of them, in transit and at home. */
static const char *
wrong_collective(const struct look *look)
{
    uint32_t from = slot_of(look, MW_ROLE_SOURCE), to = slot_of(look, MW_ROLE_DESTINATION);
    bool gathers = look->work->kind == MW_OP_ALL_GATHER || look->work->kind == MW_OP_BROADCAST;
    bool gradient = look->work->object == MW_OBJECT_GRADIENTS;
    int64_t shard = look->tensor->shard_elements;

    if (look->trainer->ranks == 1)
        return NULL;
    if (!gathers && from == MW_NONE)
        return slot_of(look, MW_ROLE_GRADIENT) == look->tensor->gradient_slot &&
                       look->tensor->gradients_whole
                   ? NULL
                   : "has no gradient to sum up";
    if (from == MW_NONE || to == MW_NONE ||
        !holds_part(look, from, gathers ? shard : look->part_elements, gradient) ||
        !holds_part(look, to, gathers ? look->part_elements : shard, gradient))
        return "has no room for a part";
    return NULL;
}

/* --- ops of chunks --------------------------------------------------------------------------- */

/* Whether the homes of a chunk are in the tier that the op's cores or device reach. */
static bool
reaches_homes(const struct look *look, const struct mw_chunk_content *chunk, bool gradients)
{
    const struct mw_plan *plan = look->trainer->plan;
    enum mw_tier tier = look->work->host ? MW_TIER_CPU : MW_TIER_GPU;

    for (uint32_t i = 0; i < chunk->tensor_count; i++) {
        const struct mw_tensor *tensor = &plan->tensors[chunk->first_tensor + i];
        uint32_t home = gradients ? tensor->gradient_slot : tensor->param_slot;
        if (tensor->elements && tensor->trainable && tier_of(look, home) != tier)
            return false;
    }
    return true;
}

static const char *
wrong_update(const struct look *look, const struct mw_chunk_content *chunk)
{
    const struct mw_tensor *first = &look->trainer->plan->tensors[chunk->first_tensor];
    int64_t n = chunk->elements, bytes = mw_trainer_gradient_bytes(first);
    uint32_t state = slot_of(look, MW_ROLE_STATE), in = slot_of(look, MW_ROLE_SOURCE);
    uint32_t out = slot_of(look, MW_ROLE_DESTINATION);
    bool at_home = uses(look, MW_ROLE_GRADIENT);
    int64_t state_bytes = mw_trainer_state_bytes(look->trainer->plan, look->op->shard);

    if (look->trainer->plan->shape.asynchronous && (in != MW_NONE || out != MW_NONE || !at_home))
        return "has gradients or parameters of one rank, and the step is asynchronous";
    if (in == MW_NONE && !at_home) /* gradients come with the state */
        state_bytes = mw_in_pages(state_bytes) + bytes * n;
    if (state == MW_NONE || !slot_holds(look, state, 0, state_bytes))
        return "has no state to update";
    if (in != MW_NONE ? !slot_holds(look, in, 0, bytes * n)
                      : at_home && !reaches_homes(look, chunk, true))
        return "has no gradients to update with";
    if (out != MW_NONE ? !slot_holds(look, out, 0, mw_trainer_element_bytes(look->trainer) * n)
                       : !reaches_homes(look, chunk, false))
        return "has no room for updated parameters";
    return reaches_all(look) ? NULL : "uses memory that it does not reach";
}

static bool
is_home(const struct mw_chunk_content *chunk, uint32_t slot)
{
    return slot == chunk->slot || slot == chunk->other_slot;
}

/* Follows the moves that exec/trainer/update.c lists. */
static const char *
wrong_chunk_move(const struct look *look, const struct mw_chunk_content *chunk)
{
    uint32_t state = slot_of(look, MW_ROLE_STATE);
    bool from = uses(look, MW_ROLE_SOURCE), to = uses(look, MW_ROLE_DESTINATION);
    bool gradients = uses(look, MW_ROLE_GRADIENT);
    bool streams = mw_trainer_streams_state(look->trainer, look->op->shard);
    g_autoptr(GArray) moves = g_array_new(FALSE, FALSE, sizeof(struct mw_move));

    if (look->work->object == MW_OBJECT_UPDATED ? !from : gradients && !to)
        return "has no buffer to move from or to";
    if (look->work->object == MW_OBJECT_STATE &&
        (state != MW_NONE ? !is_home(chunk, state) || (from == to && !(from && streams))
                          : !gradients && !(from && to)))
        return "has no state or gradients to move";
    if (!goes_its_way(look))
        return "moves between other tiers than its kind";
    mw_trainer_list_chunk(look->trainer, look->op, moves);
    for (guint i = 0; i < moves->len; i++) {
        const struct mw_move *move = &g_array_index(moves, struct mw_move, i);
        if (!move_fits(look, move))
            return "moves more than a slot holds";
        if (tier_of(look, move->from.slot) == tier_of(look, move->to.slot))
            return "moves within a tier";
    }
    return NULL;
}

static const char *
wrong_chunk_op(const struct look *look)
{
    const struct mw_chunk_content *chunk = &look->trainer->plan->chunks[look->op->shard];

    switch (mw_op_traits(look->work->kind)->agent) {
    case MW_AGENT_CORES:
        if (look->work->kind == MW_OP_NORM)
            return reaches_homes(look, chunk, true) ? NULL : "has no gradients to look at";
        return look->work->kind == MW_OP_UPDATE ? wrong_update(look, chunk) : "is of no chunk";
    case MW_AGENT_LINK:
    case MW_AGENT_DRIVES:
        return wrong_chunk_move(look, chunk);
    default:
        return look->trainer->ranks == 1 || reaches_homes(look, chunk, false)
                   ? NULL
                   : "has no parameters to gather";
    }
}

/* --- all ops --------------------------------------------------------------------------------- */

static const char *
wrong_part_op(const struct look *look)
{
    switch ((enum mw_op_kind)look->work->kind) {
    case MW_OP_COMPUTE:
        return wrong_compute(look);
    case MW_OP_ACCUMULATE:
        return wrong_accumulate(look);
    case MW_OP_NORM:
        return wrong_part_norm(look);
    case MW_OP_UPDATE:
        return "is of no chunk";
    case MW_OP_SEND:
    case MW_OP_RECV:
        return wrong_hop(look);
    case MW_OP_NVME_READ:
    case MW_OP_NVME_WRITE:
    case MW_OP_H2D:
    case MW_OP_D2H:
        return wrong_part_move(look);
    case MW_OP_ALL_TO_ALL:
        return mw_trainer_is_dispatch(look->work)          ? wrong_dispatch(look)
               : mw_trainer_is_exchange(look->work)        ? wrong_exchange(look)
               : look->work->object == MW_OBJECT_GRADIENTS ? wrong_collective(look)
                                                           : "is of no heads and no experts";
    case MW_OP_RING_PASS:
        return mw_trainer_is_pass(look->work) ? wrong_pass(look) : "is of no keys and values";
    default:
        return mw_trainer_is_sum(look->work)                        ? wrong_sum(look)
               : mw_trainer_is_gathered_checkpoint(look->work)      ? wrong_checkpoint_gather(look)
               : mw_trainer_is_of_rows(look->work)                  ? wrong_rows(look)
               : mw_plan_sums_norm(look->trainer->plan, look->work) ? wrong_norm_sum(look)
               : mw_trainer_is_of_replicas(look->trainer->plan, look->work)
                   ? wrong_replicas(look)
                   : wrong_collective(look);
    }
}

/* Whether the op has neither a part nor a chunk. */
static bool
is_a_mark(const struct mw_work *work)
{
    return work->kind == MW_OP_BEGIN || work->kind == MW_OP_COMMIT || work->kind == MW_OP_AGREE;
}

static bool
needs_tensor(const struct mw_trainer *trainer, const struct mw_work *work)
{
    if (work->kind == MW_OP_COMPUTE)
        return has_weights(trainer, work->operator_);
    return work->object != MW_OBJECT_CHECKPOINT && !mw_trainer_is_sum(work) &&
           !mw_trainer_is_of_rows(work) && !mw_trainer_is_exchange(work) &&
           !mw_trainer_is_dispatch(work) && !mw_trainer_is_pass(work) &&
           mw_op_traits(work->kind)->joins != MW_JOINS_PAIR;
}

/* Returns NULL if all operands of the op exist. */
static const char *
wrong_names(struct look *look)
{
    const struct mw_trainer *trainer = look->trainer;
    const struct mw_plan *plan = trainer->plan;
    uint32_t index =
        trainer->tensor_of[(look->op->layer + 1) * MW_OPERATOR_COUNT + look->work->operator_];

    if (is_chunks(look->work))
        return look->op->shard < plan->chunk_count && plan->chunks[look->op->shard].tensor_count
                   ? NULL
                   : "is of no chunk";
    if (look->work->kind == MW_OP_COMPUTE && look->op->layer < 0 &&
        mw_operator_row(look->work->operator_)->place == MW_PLACE_BLOCK)
        return "is of no layer";
    if (!needs_tensor(trainer, look->work))
        return NULL;
    if (index == MW_NONE || look->op->tile >= plan->tensors[index].tiles)
        return "is of no tensor";
    look->tensor = &plan->tensors[index];
    if (look->work->object == MW_OBJECT_GRADIENTS && !look->tensor->trainable)
        return "is of the gradient of what is not trained";
    look->part_elements = mw_tensor_part_elements(look->tensor, look->op->tile);
    return NULL;
}

static bool
refuse(const struct look *look, const char *why, GError **error)
{
    if (!why)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "op %u of the plan (%s of %s, layer %d) %s",
                look->number, mw_op_kind_name(look->work->kind), mw_work_name(look->work),
                look->op->layer, why);
    return false;
}

/* Looks at each op of the unfolded plan. */
static bool
check_ops(const struct mw_trainer *trainer, const char *(*find_fault)(struct look *),
          GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    struct mw_op_place place;

    for (int64_t i = 0; mw_plan_find_number(plan, i, &place); i++) {
        const struct mw_op op = mw_plan_op_at(plan, place);
        struct look look = {trainer, &op, &plan->works[op.work], NULL, 0, place.op};
        if (!is_a_mark(look.work) && !refuse(&look, find_fault(&look), error))
            return false;
    }
    return true;
}

bool
mw_trainer_check_names(const struct mw_trainer *trainer, GError **error)
{
    return check_ops(trainer, wrong_names, error);
}

static const char *
wrong_operands(struct look *look)
{
    wrong_names(look);
    return is_chunks(look->work) ? wrong_chunk_op(look) : wrong_part_op(look);
}

bool
mw_trainer_check_operands(const struct mw_trainer *trainer, GError **error)
{
    return check_ops(trainer, wrong_operands, error);
}
