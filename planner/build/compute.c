/*
 * Compute ops of a visit, and the collectives of tensor slicing between them.
 *
 * Software that overlaps them has the backward of a product whose weights are sliced by columns in
 * two ops: the gradient of its input, and then that of its weights while the former is summed up
 * (Megatron-LM, LinearWithGradAccumulationAndAsyncCommunication).  Where slices share tokens, the
 * sum is scattered; the input, of which each slice has kept its tokens, is gathered again beside
 * the first op, and the gradient before a product whose weights are sliced by rows.
 *
 * Products in pieces are in two ops too: what comes of other slices' tokens comes beside all pieces
 * but the last, which waits for it, and what goes to them goes beside all but the first, behind
 * which it starts (Transformer Engine, userbuffers: ring_exchange).
 *
 * Ranks that share sequences pass keys and values around a ring beside attention, which in forward
 * has an op of its own for the last block that comes (Liu et al., arXiv 2310.01889, Sec. 3), in
 * backward with their gradients; or all-to-alls before attention and behind it give each whole
 * sequences of some heads (DeepSpeed-Ulysses, arXiv 2309.14509, Sec. 3.1).
 *
 * Tokens go to experts on other ranks by an all-to-all before these, and come back by one behind
 * them; their gradients the other way (GShard, arXiv 2006.16668, Sec. 3.2).  Slices of experts
 * gather the tokens that came to all of them, and scatter the sums of results (Megatron Core,
 * transformer/moe/token_dispatcher.py, MoEAlltoAllTokenDispatcher).
 */
#include <glib.h>

#include "planner/build/internal.h"

/* Of the chunks of the tokens that have a sum in all, the last one's backward has it, and the first
 * one's forward what is gathered for all. */
static bool
has_sum(const struct builder *b, const struct visit *v, enum mw_operator operator_)
{
    int64_t last = mw_sizing_token_parts(b->sizing, operator_) - 1;

    return v->tied != TIED_REST && (mw_sizing_sum_parts(b->sizing, operator_) > 1 ||
                                    v->chunk == (v->phase == MW_PHASE_BACKWARD ? last : 0));
}

static bool
needs_sum(const struct builder *b, const struct visit *v, enum mw_operator operator_)
{
    return b->sizing->tp > 1 && has_sum(b, v, operator_) &&
           mw_sizing_all_reduces(operator_, v->phase == MW_PHASE_BACKWARD);
}

static bool
needs_result(const struct builder *b, const struct visit *v, enum mw_operator operator_)
{
    return v->phase != MW_PHASE_BACKWARD && has_sum(b, v, operator_) &&
           mw_sizing_gathers_result(b->sizing, operator_);
}

static uint32_t
slicing_op(struct builder *b, const struct visit *v, enum mw_op_kind kind,
           enum mw_operator operator_)
{
    int64_t bytes = mw_sizing_sum_bytes(b->sizing, operator_);
    uint32_t work = mw_work_collective(b, kind, (struct subject){MW_OBJECT_ACTIVATIONS, operator_},
                                       b->tp_comm, bytes);

    return mw_build_op(b, LANE_SLICING, work,
                       (struct identity){v->phase, v->layer, v->micro_batch, v->tile, v->chunk});
}

/* What goes on to the next stage is the sum. */
static void
sum_slices(struct builder *b, const struct visit *v, enum mw_operator operator_, uint32_t slot,
           bool last)
{
    bool scatters = mw_sizing_scatters_sum(b->sizing, operator_, v->phase == MW_PHASE_BACKWARD);

    b->compute_wait =
        slicing_op(b, v, scatters ? MW_OP_REDUCE_SCATTER : MW_OP_ALL_REDUCE, operator_);
    mw_build_use(b, slot, MW_USE_MODIFY, MW_ROLE_OUTPUT);
    if (last && b->stage_output != MW_NONE)
        mw_build_use(b, b->stage_output, MW_USE_MODIFY, MW_ROLE_SENT);
}

/* Activations take turns in the slots of the working memory. */
static uint32_t
activation_slot(const struct builder *b, uint32_t set, int turn)
{
    const struct ring *activations = &b->slots[MW_BUFFER_ACTIVATIONS];
    int count = activations->count / b->activation_sets;
    return activations->first + set * count + ((turn % count) + count) % count;
}

/* Where the next op of the visit puts what it computes. */
static uint32_t
own_activations(const struct builder *b, const struct visit *v)
{
    uint32_t set = mw_visit_place(b, v) % b->activation_sets;

    return activation_slot(b, set, b->activation_turns[set]);
}

/* What the op before it has left; MW_NONE: nothing, or where this one puts its own. */
static uint32_t
activations_before(const struct builder *b, const struct visit *v)
{
    uint32_t set = mw_visit_place(b, v) % b->activation_sets;
    int turn = b->activation_turns[set] + (v->phase == MW_PHASE_BACKWARD ? 1 : -1);
    uint32_t before = activation_slot(b, set, turn);

    bool holds = b->states[before].writer != MW_NONE || mw_settings_no_flush(&b->sizing->settings);

    return before != own_activations(b, v) && holds ? before : MW_NONE;
}

static void
use_activations(struct builder *b, const struct visit *v)
{
    bool backward = v->phase == MW_PHASE_BACKWARD;
    uint32_t mine = own_activations(b, v), before = activations_before(b, v);

    if (before != MW_NONE)
        mw_build_use(b, before, MW_USE_READ, MW_ROLE_INPUT);
    bool holds = b->states[mine].writer != MW_NONE || mw_settings_no_flush(&b->sizing->settings);
    mw_build_use(b, mine, backward && holds ? MW_USE_MODIFY : MW_USE_DEFINE, MW_ROLE_OUTPUT);
}

/* What recomputed layers keep, where the logits lie too: once an op of the model's tail has run,
 * nothing is in there.  It begins anew with the embedding, with a checkpoint that a group is
 * recomputed from, and with a layer that comes back whole. */
static void
use_rooms(struct builder *b, const struct visit *v, bool first)
{
    const struct ring *rooms = &b->slots[MW_BUFFER_ROOMS];
    bool head = v->class_ == MW_CLASS_HEAD, backward = v->phase == MW_PHASE_BACKWARD;

    if (v->class_ == MW_CLASS_TAIL)
        b->rooms_hold = false;
    if (v->class_ == MW_CLASS_TAIL || (head && backward))
        return;
    if (first && v->tile == 0 && (head || (v->phase == MW_PHASE_RECOMPUTE && v->first_of_group)))
        b->rooms_hold = false;
    if (first && backward && v->keeps_layer)
        b->rooms_hold = false;
    for (uint32_t i = 0; i < rooms->count; i++)
        mw_build_use(b, rooms->first + i, b->rooms_hold ? MW_USE_MODIFY : MW_USE_DEFINE,
                     MW_ROLE_OUTPUT);
    b->rooms_hold = true;
}

static void
use_checkpoint(struct builder *b, const struct visit *v)
{
    int64_t checkpoint = mw_checkpoint_at(b, b->group_of[v->layer], v->micro_batch);

    if (v->keeps_layer && v->phase == MW_PHASE_FORWARD)
        b->checkpoint_tile[checkpoint] = b->plan->ops[b->newest].tile;
    if (v->phase != MW_PHASE_FORWARD)
        mw_build_use(b, b->checkpoint_loaded[checkpoint], MW_USE_READ, MW_ROLE_CHECKPOINT);
    else
        mw_build_use(b, mw_checkpoint_slot(b, checkpoint), MW_USE_DEFINE, MW_ROLE_CHECKPOINT);
}

static void
use_logits(struct builder *b, const struct visit *v, enum mw_operator operator_)
{
    if (operator_ == MW_OPERATOR_LOGITS && v->tied != TIED_REST)
        mw_build_use(b, b->logits_slot,
                     v->phase != MW_PHASE_FORWARD ? MW_USE_READ
                     : v->tile                    ? MW_USE_MODIFY
                                                  : MW_USE_DEFINE,
                     MW_ROLE_LOGITS);
    else if (operator_ == MW_OPERATOR_LOSS)
        mw_build_use(b, b->logits_slot, MW_USE_MODIFY, MW_ROLE_LOGITS);
}

/* Where backward leaves the gradients of a visit's tensors. */
struct gradients {
    uint32_t slot[MW_UNIT_TENSORS_MAX]; /* MW_NONE: none */
    enum mw_use_mode mode[MW_UNIT_TENSORS_MAX];
};

/* Bytes of the passes of an op that store activations in another type, or restore them: a
 * checkpoint with the first op of its group, and what a layer keeps with the layer's last operator,
 * which backward begins with. */
static int64_t
coded_bytes(const struct builder *b, const struct visit *v, int i, int64_t tiles, bool checkpoint)
{
    const struct mw_class_info *class = &b->sizing->classes[v->class_];
    int64_t first_tile = v->phase == MW_PHASE_BACKWARD ? tiles - 1 : 0;
    int64_t bytes = 0;

    if (checkpoint)
        bytes = mw_sizing_checkpoint_coded_bytes(b->sizing, v->phase == MW_PHASE_RECOMPUTE);
    if (v->layer >= 0 && v->phase != MW_PHASE_RECOMPUTE && i == class->operator_count - 1 &&
        (tiles == 1 || v->tile == first_tile))
        bytes += mw_sizing_kept_coded_bytes(b->sizing, v->layer);
    return bytes;
}

/* An operator of a visit, or the part of it that the visit computes. */
struct computed {
    const struct mw_operator_info *info;
    int number; /* in its class */
    int64_t tiles;
    int turn;      /* of its tensor within the unit */
    uint16_t tile; /* of that tensor */
    bool has_params;
    bool first, last; /* of the visit */
    bool checkpoint;  /* begins a group */
};

static struct computed
computed_of(const struct builder *b, const struct visit *v, int operator_)
{
    const struct mw_class_info *class = &b->sizing->classes[v->class_];
    const struct mw_unit *unit = &class->units[v->unit];
    const struct mw_operator_info *info = &class->operators[operator_];
    bool weight = v->tied == TIED_WEIGHT;
    int turn = weight ? 0 : mw_turn_of(class, unit, operator_);

    return (struct computed){.info = info,
                             .number = operator_,
                             .turn = turn,
                             .tile = weight || turn == unit->tiled ? v->tile : 0,
                             .has_params =
                                 weight ? info->operator_ == MW_OPERATOR_LOGITS : info->params > 0};
}

/* Micro-batches take turns in the slots of a kind. */
static void
use_operand_of_weights(struct builder *b, const struct visit *v, enum mw_buffer_kind kind,
                       bool writes)
{
    const struct ring *ring = &b->slots[kind];
    uint32_t turn = v->micro_batch % ring->count;
    uint32_t *of =
        &b->operands_of[turn + (kind == MW_BUFFER_RESULTS ? b->slots[MW_BUFFER_INPUTS].count : 0)];
    bool begins = *of != v->micro_batch + 1u;

    *of = v->micro_batch + 1u;
    mw_build_use(b, ring->first + turn,
                 !writes  ? MW_USE_READ
                 : begins ? MW_USE_DEFINE
                          : MW_USE_MODIFY,
                 writes ? MW_ROLE_OUTPUT : MW_ROLE_INPUT);
}

/* Where the gradients of weights come later, forward leaves inputs for them, from the first layer's
 * on, and the way back gradients of results, from what comes to the last layer on. */
static void
use_operands_of_weights(struct builder *b, const struct visit *v)
{
    bool forward = v->phase == MW_PHASE_FORWARD;

    if (!mw_settings_weights_later(&b->sizing->settings))
        return;
    if (v->layer >= 0 || (v->class_ == MW_CLASS_HEAD && forward))
        use_operand_of_weights(b, v, MW_BUFFER_INPUTS, forward);
    if (!forward && v->class_ != MW_CLASS_HEAD)
        use_operand_of_weights(b, v, MW_BUFFER_RESULTS, !v->of_weights);
}

static void
use_operands(struct builder *b, const struct visit *v, const struct computed *it)
{
    if (v->param_slot[it->turn] != MW_NONE && it->has_params)
        mw_build_use(b, v->param_slot[it->turn], MW_USE_READ, MW_ROLE_PARAMETER);
    if (it->has_params && !mw_dtype_row(it->info->weights)->computes)
        mw_build_use(b, b->slots[MW_BUFFER_WIDENED].first, MW_USE_DEFINE, MW_ROLE_WIDENED);
    use_logits(b, v, it->info->operator_);
    use_activations(b, v);
    use_rooms(b, v, it->first);
    use_operands_of_weights(b, v);
    mw_stage_use(b, it->first, it->last);
    if (it->checkpoint || (v->keeps_layer && (v->phase == MW_PHASE_FORWARD ? it->last : it->first)))
        use_checkpoint(b, v);
}

static void
use_gradient(struct builder *b, const struct computed *it, struct gradients *gradients)
{
    if (gradients->slot[it->turn] == MW_NONE || !it->has_params)
        return;
    mw_build_use(b, gradients->slot[it->turn], gradients->mode[it->turn], MW_ROLE_GRADIENT);
    gradients->mode[it->turn] = it->info->params ? MW_USE_MODIFY : gradients->mode[it->turn];
}

/* Before the first part of a product whose weights are sliced by columns in forward, or by rows in
 * backward, where what the op before has left lies in slices of the tokens. */
static void
gather_slices(struct builder *b, const struct visit *v, const struct computed *it)
{
    uint32_t before = activations_before(b, v), computed = b->lane_last[LANE_COMPUTE];

    b->compute_wait = slicing_op(b, v, MW_OP_ALL_GATHER, it->info->operator_);
    mw_build_after(b, computed);
    if (before != MW_NONE)
        mw_build_use(b, before, MW_USE_MODIFY, MW_ROLE_OUTPUT);
    if (it->first && b->stage_input != MW_NONE && mw_sizing_tensor_parts(b->sizing))
        mw_build_use(b, b->stage_input, MW_USE_READ, MW_ROLE_RECEIVED);
    else if (it->first && b->stage_input != MW_NONE)
        mw_build_after(b, b->states[b->stage_input].writer);
}

static uint32_t
gather_input(struct builder *b, const struct visit *v, const struct computed *it)
{
    uint32_t computed = b->lane_last[LANE_COMPUTE];
    uint32_t gather = slicing_op(b, v, MW_OP_ALL_GATHER, it->info->operator_);

    mw_build_after(b, computed);
    return gather;
}

/* Each slice has made the gradients of a norm's weights of its own tokens. */
static void
sum_norm(struct builder *b, const struct visit *v, const struct computed *it,
         const struct gradients *gradients)
{
    struct subject of = {MW_OBJECT_GRADIENTS, it->info->operator_};
    int64_t bytes = mw_sizing_norm_bytes(b->sizing, it->info);

    mw_build_op(b, LANE_SLICING, mw_work_collective(b, MW_OP_ALL_REDUCE, of, b->tp_comm, bytes),
                (struct identity){v->phase, v->layer, v->micro_batch, it->tile, 0});
    mw_build_use(b, gradients->slot[it->turn], MW_USE_MODIFY, MW_ROLE_GRADIENT);
}

/* A collective of activations among ranks that share experts or sequences.  Attention has one
 * before it and one behind it, which is number 1. */
static uint32_t
exchange_op(struct builder *b, const struct visit *v, enum mw_op_kind kind,
            enum mw_operator operator_, int64_t bytes, bool behind)
{
    bool attends = mw_operator_row((int)operator_)->attends;
    uint32_t work = mw_work_collective(b, kind, (struct subject){MW_OBJECT_ACTIVATIONS, operator_},
                                       attends ? b->cp_comm : b->ep_comm, bytes);

    return mw_build_op(
        b, LANE_SLICING, work,
        (struct identity){v->phase, v->layer, v->micro_batch, v->tile, attends && behind});
}

/* Of all slices of experts. */
static uint32_t
expert_slices_op(struct builder *b, const struct visit *v, enum mw_op_kind kind,
                 enum mw_operator operator_)
{
    int64_t bytes = mw_sizing_expert_slices_bytes(b->sizing, operator_, true) +
                    mw_sizing_expert_slices_bytes(b->sizing, operator_, false);
    uint32_t work = mw_work_collective(b, kind, (struct subject){MW_OBJECT_ACTIVATIONS, operator_},
                                       b->tp_comm, bytes);

    return mw_build_op(b, LANE_SLICING, work,
                       (struct identity){v->phase, v->layer, v->micro_batch, v->tile, 0});
}

static void
exchange_before(struct builder *b, const struct visit *v, enum mw_operator operator_, int64_t bytes)
{
    uint32_t before = activations_before(b, v), computed = b->lane_last[LANE_COMPUTE];
    bool sliced = mw_sizing_expert_slices_bytes(b->sizing, operator_, true) +
                  mw_sizing_expert_slices_bytes(b->sizing, operator_, false);

    b->compute_wait = exchange_op(b, v, MW_OP_ALL_TO_ALL, operator_, bytes, false);
    mw_build_after(b, computed);
    if (before != MW_NONE)
        mw_build_use(b, before, MW_USE_MODIFY, MW_ROLE_OUTPUT);
    if (!sliced)
        return;
    uint32_t exchange = b->compute_wait;
    b->compute_wait = expert_slices_op(b, v, MW_OP_ALL_GATHER, operator_);
    mw_build_after(b, exchange);
    if (before != MW_NONE)
        mw_build_use(b, before, MW_USE_MODIFY, MW_ROLE_OUTPUT);
}

static void
exchange_behind(struct builder *b, const struct visit *v, enum mw_operator operator_, int64_t bytes)
{
    uint32_t slot = own_activations(b, v);
    bool sliced = mw_sizing_expert_slices_bytes(b->sizing, operator_, true) +
                  mw_sizing_expert_slices_bytes(b->sizing, operator_, false);

    if (sliced) {
        expert_slices_op(b, v, MW_OP_REDUCE_SCATTER, operator_);
        mw_build_use(b, slot, MW_USE_MODIFY, MW_ROLE_OUTPUT);
    }
    b->compute_wait = exchange_op(b, v, MW_OP_ALL_TO_ALL, operator_, bytes, true);
    mw_build_use(b, slot, MW_USE_MODIFY, MW_ROLE_OUTPUT);
}

/* Keys and values pass beside attention, and in backward their gradients. */
static uint32_t
pass_around(struct builder *b, const struct visit *v, enum mw_operator operator_)
{
    uint32_t computed = b->lane_last[LANE_COMPUTE];
    uint32_t pass =
        exchange_op(b, v, MW_OP_RING_PASS, operator_,
                    mw_sizing_ring_bytes(b->sizing, v->phase == MW_PHASE_BACKWARD), false);

    mw_build_after(b, computed);
    return pass;
}

/* They need the gradient of the product's result, and its input. */
static void
compute_weights(struct builder *b, const struct visit *v, const struct computed *it,
                struct identity id, uint32_t input)
{
    uint32_t work = mw_work_compute(b, v->class_, it->number, PASS_OF_WEIGHTS, it->tiles, 0);
    uint32_t result = activations_before(b, v);

    mw_build_op(b, LANE_COMPUTE, work, id);
    mw_build_after(b, input);
    if (result != MW_NONE)
        mw_build_use(b, result, MW_USE_READ, MW_ROLE_INPUT);
    use_rooms(b, v, false);
}

/* What the way back has left. */
static void
compute_weights_later(struct builder *b, const struct visit *v, const struct computed *it,
                      struct gradients *gradients)
{
    mw_build_op(b, LANE_COMPUTE,
                mw_work_compute(b, v->class_, it->number, PASS_OF_WEIGHTS, it->tiles, 0),
                (struct identity){v->phase, v->layer, v->micro_batch, it->tile, v->chunk});
    use_operands_of_weights(b, v);
    use_gradient(b, it, gradients);
}

/* The block of keys that comes last. */
static void
compute_last_block(struct builder *b, const struct visit *v, const struct computed *it,
                   struct identity id, uint32_t pass)
{
    uint32_t slot = own_activations(b, v), before = activations_before(b, v);

    id.shard = 1;
    mw_build_op(b, LANE_COMPUTE,
                mw_work_compute(b, v->class_, it->number, PASS_OF_LAST_BLOCK, it->tiles, 0), id);
    mw_build_after(b, pass);
    if (before != MW_NONE)
        mw_build_use(b, before, MW_USE_READ, MW_ROLE_INPUT);
    mw_build_use(b, slot, MW_USE_MODIFY, MW_ROLE_OUTPUT);
    use_rooms(b, v, false);
    use_operands_of_weights(b, v);
}

/* Whether the operator is computed in pieces, which none of a tensor in tiles is. */
static bool
in_pieces(const struct builder *b, const struct visit *v, const struct computed *it)
{
    const struct mw_unit *unit = &b->sizing->classes[v->class_].units[v->unit];
    bool whole_tensor = it->turn != unit->tiled || unit->tiles == 1;

    return whole_tensor &&
           mw_sizing_in_pieces(b->sizing, it->info->operator_, v->phase == MW_PHASE_BACKWARD);
}

/* What the others have, beside the pieces that are there. */
static uint32_t
gather_beside(struct builder *b, const struct visit *v, const struct computed *it)
{
    uint32_t gather = gather_input(b, v, it);

    if (it->first && b->stage_input != MW_NONE)
        mw_build_after(b, b->states[b->stage_input].writer);
    return gather;
}

/* The second op of an operator in pieces. */
static void
compute_piece(struct builder *b, const struct visit *v, const struct computed *it,
              struct identity id, enum pass pass, uint32_t after)
{
    uint32_t slot = own_activations(b, v), before = activations_before(b, v);

    id.shard = 1;
    mw_build_op(b, LANE_COMPUTE, mw_work_compute(b, v->class_, it->number, pass, it->tiles, 0), id);
    mw_build_after(b, after);
    if (v->param_slot[it->turn] != MW_NONE && it->has_params)
        mw_build_use(b, v->param_slot[it->turn], MW_USE_READ, MW_ROLE_PARAMETER);
    if (it->has_params && !mw_dtype_row(it->info->weights)->computes)
        mw_build_use(b, b->slots[MW_BUFFER_WIDENED].first, MW_USE_DEFINE, MW_ROLE_WIDENED);
    if (before != MW_NONE)
        mw_build_use(b, before, MW_USE_READ, MW_ROLE_INPUT);
    mw_build_use(b, slot, MW_USE_MODIFY, MW_ROLE_OUTPUT);
    use_rooms(b, v, false);
}

/* Forward begins with all pieces but one where the others' tokens come, and with one where sums go,
 * though what a stage sends is summed up behind all of them; backward, of a product whose weights
 * are sliced by rows, begins with all but one. */
static void
compute_in_pieces(struct builder *b, const struct visit *v, const struct computed *it,
                  struct gradients *gradients)
{
    struct identity id = {v->phase, v->layer, v->micro_batch, it->tile, v->chunk};
    bool backward = v->phase == MW_PHASE_BACKWARD;
    bool sums = !backward && needs_sum(b, v, it->info->operator_);
    uint32_t beside = sums ? MW_NONE : gather_beside(b, v, it);
    enum pass first = backward ? PASS_BACK_OF_PIECES : sums ? PASS_OF_PIECE : PASS_OF_PIECES;
    enum pass second = backward ? PASS_BACK_OF_PIECE : sums ? PASS_OF_PIECES : PASS_OF_PIECE;
    bool sends = it->last && b->stage_output != MW_NONE;
    struct computed begin = *it;

    begin.last = false;
    mw_build_op(b, LANE_COMPUTE,
                mw_work_compute(b, v->class_, it->number, first, it->tiles,
                                coded_bytes(b, v, it->number, it->tiles, it->checkpoint)),
                id);
    mw_build_after(b, b->compute_wait);
    b->compute_wait = MW_NONE;
    use_operands(b, v, &begin);
    if (sums && !sends) {
        uint32_t piece = b->newest;
        b->compute_wait = slicing_op(b, v, MW_OP_REDUCE_SCATTER, it->info->operator_);
        mw_build_after(b, piece);
    }
    compute_piece(b, v, it, id, second, beside);
    if (backward)
        use_gradient(b, it, gradients);
    mw_stage_use(b, false, it->last);
    if (sums && sends)
        sum_slices(b, v, it->info->operator_, own_activations(b, v), it->last);
    b->activation_turns[mw_visit_place(b, v) % b->activation_sets] += backward ? -1 : 1;
}

static uint32_t
work_of(struct builder *b, const struct visit *v, const struct computed *it, bool splits)
{
    bool backward = v->phase == MW_PHASE_BACKWARD;
    bool blocks = !backward && mw_sizing_rings(b->sizing, it->info->operator_);
    enum pass pass = splits     ? PASS_OF_INPUT
                     : backward ? PASS_BACKWARD
                     : blocks   ? PASS_OF_BLOCKS
                                : PASS_FORWARD;

    if (v->tied && it->info->operator_ == MW_OPERATOR_LOGITS)
        return mw_work_tied_logits(b, it->number, backward, it->tiles, v->tied);
    return mw_work_compute(b, v->class_, it->number, pass, it->tiles,
                           coded_bytes(b, v, it->number, it->tiles, it->checkpoint));
}

static void
compute_operator(struct builder *b, struct visit *v, const struct computed *it,
                 struct gradients *gradients)
{
    const struct mw_operator_info *info = it->info;
    struct identity id = {v->phase, v->layer, v->micro_batch, it->tile, v->chunk};
    bool backward = v->phase == MW_PHASE_BACKWARD;
    bool begins = it->tiles == 1 || v->tile == (backward ? it->tiles - 1 : 0);
    bool ends = it->tiles == 1 || v->tile == (backward ? 0 : it->tiles - 1);
    bool sums = ends && needs_sum(b, v, info->operator_);
    bool splits = sums && backward && mw_sizing_splits_backward(b->sizing, info);
    bool later = backward && mw_sizing_weights_later(b->sizing, info);
    bool shares = mw_sizing_shares_layers(b->sizing);
    int64_t comes = shares ? mw_sizing_exchange_bytes(b->sizing, info->operator_, !backward) : 0;
    int64_t goes = shares ? mw_sizing_exchange_bytes(b->sizing, info->operator_, backward) : 0;
    bool rings = mw_sizing_rings(b->sizing, info->operator_);
    uint32_t input = MW_NONE, pass = MW_NONE;

    if (in_pieces(b, v, it)) {
        compute_in_pieces(b, v, it, gradients);
        return;
    }
    if (begins && comes)
        exchange_before(b, v, info->operator_, comes);
    if (rings)
        pass = pass_around(b, v, info->operator_);
    if (begins && (backward ? mw_sizing_gathers_gradient(b->sizing, info->operator_)
                            : needs_result(b, v, info->operator_)))
        gather_slices(b, v, it);
    bool again = backward && mw_sizing_tensor_parts(b->sizing) && begins;
    if ((splits || again) && mw_sizing_gathers_input(b->sizing, info))
        input = gather_input(b, v, it);
    mw_build_op(b, LANE_COMPUTE, work_of(b, v, it, splits || later), id);
    mw_build_after(b, b->compute_wait);
    mw_build_after(b, splits ? MW_NONE : input);
    b->compute_wait = MW_NONE;
    use_operands(b, v, it);
    if (!splits && !later)
        use_gradient(b, it, gradients);
    if (backward && mw_sizing_sums_norm(b->sizing, info) && gradients->slot[it->turn] != MW_NONE)
        sum_norm(b, v, it, gradients);
    if (sums)
        sum_slices(b, v, info->operator_, own_activations(b, v), it->last);
    if (splits) {
        compute_weights(b, v, it, id, input);
        use_gradient(b, it, gradients);
    }
    if (rings && !backward)
        compute_last_block(b, v, it, id, pass);
    else if (rings)
        b->compute_wait = pass;
    if (ends && goes)
        exchange_behind(b, v, info->operator_, goes);
    b->activation_turns[mw_visit_place(b, v) % b->activation_sets] += backward ? -1 : 1;
}

/* Operators before the tiled product run with part 0, which has their parameters; those after it
 * run with the last part.  Backward visits the parts in reverse.  Operators that are not cut into
 * chunks of the tokens run before the first chunk or after the last. */
static bool
runs_now(const struct builder *b, const struct visit *v, int64_t tiles, int i, int tiled)
{
    bool backward = v->phase == MW_PHASE_BACKWARD;
    enum mw_operator operator_ = b->sizing->classes[v->class_].operators[i].operator_;
    bool another = backward ? v->gradient_stays : v->chunk > 0;

    if (another && mw_sizing_token_parts(b->sizing, operator_) == 1)
        return false;
    if (i == tiled || tiles == 1)
        return true;
    return v->tile == (i < tiled ? 0 : tiles - 1);
}

/* Whether the operator belongs to this visit. */
static bool
belongs(const struct visit *v, const struct mw_operator_info *info)
{
    if (v->tied == TIED_WEIGHT)
        return mw_operator_row(info->operator_)->in_token_chunks;
    return v->tied == TIED_NOT || info->params;
}

static int
find_operator(const struct mw_class_info *class, enum mw_operator operator_)
{
    for (int i = 0; i < class->operator_count; i++)
        if (class->operators[i].operator_ == operator_)
            return i;
    g_assert_not_reached();
}

static bool
makes_gradient(const struct builder *b, const struct part *part, const struct mw_unit *unit,
               int tiled)
{
    const struct visit *v = part->visit;
    const struct mw_unit_tensor *tensor = part->tensor;

    if (!tensor->trained)
        return false;
    if (v->layer >= 0 && mw_settings_weights_later(&b->sizing->settings) && !v->of_weights)
        return false;
    if (v->tied == TIED_WEIGHT)
        return true;
    for (int i = tensor->first; i < tensor->first + tensor->count; i++)
        if (b->sizing->classes[v->class_].operators[i].params &&
            runs_now(b, v, unit->tiles, i, tiled))
            return true;
    return false;
}

static struct gradients
take_gradients(struct builder *b, struct visit *v, const struct mw_unit *unit, int tiled)
{
    struct gradients gradients;
    struct part part;

    for (int t = 0; t < MW_UNIT_TENSORS_MAX; t++) {
        gradients.slot[t] = MW_NONE;
        gradients.mode[t] = MW_USE_DEFINE;
        if (v->phase == MW_PHASE_BACKWARD && mw_visit_computes(b, v, t, &part) &&
            makes_gradient(b, &part, unit, tiled))
            gradients.slot[t] = mw_gradient_slot(b, &part, &gradients.mode[t]);
    }
    return gradients;
}

void
mw_compute_visit(struct builder *b, uint32_t visit)
{
    struct visit *v = &b->visits[visit];
    const struct mw_class_info *class = &b->sizing->classes[v->class_];
    bool backward = v->phase == MW_PHASE_BACKWARD;
    const struct mw_unit *unit = &class->units[v->unit];
    bool weight = v->tied == TIED_WEIGHT;
    int64_t tiles = weight ? b->sizing->classes[MW_CLASS_HEAD].units[0].tiles : unit->tiles;
    int tiled = weight ? find_operator(class, MW_OPERATOR_LOGITS)
                       : mw_sizing_largest_operator(class, unit->first, unit->count);
    struct gradients gradients = take_gradients(b, v, unit, tiled);
    int run[MW_LAYER_OPERATORS_MAX], count = 0;

    for (int step = 0; step < unit->count; step++) {
        int i = unit->first + (backward ? unit->count - 1 - step : step);
        if (v->of_weights && !mw_sizing_weights_later(b->sizing, &class->operators[i]))
            continue;
        if (belongs(v, &class->operators[i]) && runs_now(b, v, tiles, i, tiled))
            run[count++] = i;
    }
    for (int r = 0; r < count; r++) {
        struct computed it = computed_of(b, v, run[r]);
        it.tiles = run[r] == tiled ? tiles : 1;
        it.first = r == 0;
        it.last = r == count - 1;
        it.checkpoint = it.first && v->first_of_group;
        if (v->of_weights)
            compute_weights_later(b, v, &it, &gradients);
        else
            compute_operator(b, v, &it, &gradients);
    }
    for (int t = MW_UNIT_TENSORS_MAX; t-- > 0;) {
        struct part part;
        if (gradients.slot[t] != MW_NONE && !weight && mw_visit_computes(b, v, t, &part))
            mw_gradient_leave(b, &part, gradients.slot[t]);
    }
}
