/*
 * Each micro-batch runs the model's operators, each in all its parts, in order: forward, and back
 * by checkpoint groups, each computed again before its backward.
 *
 * The row of ops that one micro-batch takes is made once, and every micro-batch goes along it.  Of
 * a model that no executor runs, the layers are known by their tensors, and the operators at its
 * ends are the same for all micro-batches.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "plan/check_step.h"
#include "plan/clock.h"
#include "plan/internal.h"

struct expected {
    uint8_t phase, operator_;
    bool checkpoint, received, sent;
    bool of_weights; /* their gradients alone */
    uint16_t tile;
    int32_t layer;
    uint32_t token_chunk;
};

struct row {
    struct mw_step_check *check;
    struct mw_operator_dims dims; /* of a decoder */
    uint32_t *cut;                /* [tensor_count] operator that its tiles cut, or MW_NONE */
    struct expected *all;
    size_t count, capacity;
};

/* --- what is cut ----------------------------------------------------------------------------- */

static bool
is_chunked(int operator_)
{
    return mw_operator_row(operator_)->in_token_chunks;
}

/* Ranks share sequences, and keys and values pass around a ring of them. */
static bool
has_ring(const struct mw_step_shape *shape)
{
    return shape->context_ranks > 1 && shape->context == MW_CONTEXT_RING;
}

static bool
is_attention_in_ring(const struct mw_step_check *check, int32_t layer, int operator_)
{
    return layer >= 0 && has_ring(&check->plan->shape) && mw_operator_row(operator_)->attends;
}

bool
mw_step_in_pieces(const struct mw_step_check *check, int32_t layer, int operator_, bool back)
{
    uint32_t t =
        layer < 0 ? MW_NONE : check->tensor_of[(layer + 1) * MW_OPERATOR_COUNT + operator_];
    const struct mw_operator_row *it = mw_operator_row(operator_);

    return t != MW_NONE && check->plan->shape.tensor_pieces && check->tp > 1 &&
           check->plan->tensors[t].tiles == 1 && (it->sums_forward || (!back && it->sums_backward));
}

static int64_t
count_parameters(const struct mw_operator_dims *dims, int operator_)
{
    const struct mw_operator_parameter *it = mw_operator_row(operator_)->parameters;
    int64_t count = 0;

    for (; it && it->kind != MW_PARAMETER_END; it++)
        if (mw_dims_have(dims, it->when))
            count += dims->width[it->rows] * (it->columns ? dims->width[it->columns] : 1);
    return count;
}

/* Of a decoder: the operator with the most parameters. */
static uint32_t
find_largest(const struct row *row, const struct mw_tensor *tensor)
{
    uint32_t largest = MW_NONE;
    int64_t most = 0;

    for (uint32_t o = 0; o < MW_OPERATOR_COUNT; o++)
        if (tensor->operators >> o & 1 && count_parameters(&row->dims, (int)o) > most) {
            most = count_parameters(&row->dims, (int)o);
            largest = o;
        }
    return largest;
}

/* Else: the first that the first micro-batch computes in all parts but one. */
static void
find_cuts(struct row *row)
{
    const struct mw_step_check *check = row->check;
    const struct mw_plan *plan = check->plan;

    row->cut = mw_plan_allocate(plan->tensor_count, sizeof *row->cut);
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        row->cut[t] = plan->shape.has_decoder ? find_largest(row, &plan->tensors[t]) : MW_NONE;
    for (uint32_t i = 0; i < check->op_count && !plan->shape.has_decoder; i++) {
        const struct mw_op *op = &plan->ops[check->ops[i]];
        uint32_t t = mw_step_tensor(check, check->ops[i]);
        uint32_t operator_ = plan->works[op->work].operator_;
        if (plan->works[op->work].kind != MW_OP_COMPUTE || t == MW_NONE || op->micro_batch ||
            op->phase != MW_PHASE_FORWARD || plan->tensors[t].tiles < 2)
            continue;
        /* Those before it have tile 0, and those after it the last one. */
        if (op->tile == 0)
            row->cut[t] = operator_;
    }
}

/* --- the row --------------------------------------------------------------------------------- */

static void
put(struct row *row, struct expected next)
{
    if (row->count == row->capacity) {
        size_t capacity = row->capacity ? 2 * row->capacity : 1024;
        struct expected *all = mw_plan_allocate(capacity, sizeof *all);
        for (size_t i = 0; i < row->count; i++)
            all[i] = row->all[i];
        free(row->all);
        row->all = all;
        row->capacity = capacity;
    }
    row->all[row->count++] = next;
}

static void
put_operator(struct row *row, struct expected it)
{
    const struct mw_step_check *check = row->check;
    uint32_t t = check->tensor_of[(it.layer + 1) * MW_OPERATOR_COUNT + it.operator_];
    uint32_t tiles = t == MW_NONE ? 1 : check->plan->tensors[t].tiles;
    uint32_t cut = t == MW_NONE ? it.operator_ : row->cut[t];
    bool back = it.phase == MW_PHASE_BACKWARD, all = it.operator_ == cut;

    /* The embedding is the weight of tied logits, which it does not compute itself. */
    if (is_chunked(it.operator_) && cut == MW_OPERATOR_EMBEDDING)
        all = it.operator_ == MW_OPERATOR_LOGITS;
    /* The last block of keys has an op of its own, which waits for it; and a product in pieces the
     * first of them or the last. */
    if ((!back && is_attention_in_ring(check, it.layer, it.operator_)) ||
        mw_step_in_pieces(check, it.layer, it.operator_, back)) {
        it.tile = (uint16_t)(it.operator_ > cut ? tiles - 1 : 0);
        put(row, it);
        it.checkpoint = it.received = false;
        it.token_chunk = 1;
        put(row, it);
        return;
    }
    for (uint32_t i = 0; i < (all ? tiles : 1); i++) {
        it.tile = (uint16_t)(all ? (back ? tiles - 1 - i : i)
                             : (is_chunked(it.operator_) && cut == MW_OPERATOR_EMBEDDING) ||
                                     it.operator_ > cut
                                 ? tiles - 1
                                 : 0);
        put(row, it);
        it.checkpoint = it.received = false;
    }
    it.of_weights = true;
    if (back && mw_step_splits(check, it.layer, it.operator_) && !check->plan->shape.weights_later)
        put(row, it);
}

/* The gradients of weights that the way back has left, a row of ops that only follow it. */
static void
put_weights(struct row *row)
{
    const struct mw_step_check *check = row->check;
    struct expected it = {.phase = MW_PHASE_BACKWARD, .of_weights = true};

    for (int64_t l = check->layer_behind - 1; l >= check->layer_first; l--)
        for (int o = MW_OPERATOR_COUNT - 1; o > 0; o--) {
            it.layer = (int32_t)l;
            it.operator_ = (uint8_t)o;
            if (mw_step_splits(check, it.layer, o))
                put_operator(row, it);
        }
}

static void
put_layer(struct row *row, enum mw_phase phase, int32_t layer, bool checkpoint)
{
    struct expected it = {.phase = (uint8_t)phase,
                          .layer = layer,
                          .checkpoint = checkpoint && phase != MW_PHASE_BACKWARD};
    const uint32_t *of_layer = &row->check->tensor_of[(layer + 1) * MW_OPERATOR_COUNT];

    for (int i = 1; i < MW_OPERATOR_COUNT; i++) {
        int operator_ = phase == MW_PHASE_BACKWARD ? MW_OPERATOR_COUNT - i : i;
        if (of_layer[operator_] == MW_NONE)
            continue;
        it.operator_ = (uint8_t)operator_;
        put_operator(row, it);
        it.checkpoint = false;
    }
}

static void
put_end(struct row *row, enum mw_phase phase, enum mw_operator operator_, uint32_t token_chunk)
{
    put_operator(row, (struct expected){.phase = (uint8_t)phase,
                                        .operator_ = (uint8_t)operator_,
                                        .layer = -1,
                                        .token_chunk = token_chunk});
}

static void
put_tail(struct row *row)
{
    put_end(row, MW_PHASE_FORWARD, MW_OPERATOR_FINAL_NORM, 0);
    for (uint32_t c = 0; c < row->check->plan->shape.token_chunks; c++) {
        put_end(row, MW_PHASE_FORWARD, MW_OPERATOR_LOGITS, c);
        put_end(row, MW_PHASE_FORWARD, MW_OPERATOR_LOSS, c);
        put_end(row, MW_PHASE_BACKWARD, MW_OPERATOR_LOSS, c);
        put_end(row, MW_PHASE_BACKWARD, MW_OPERATOR_LOGITS, c);
    }
    put_end(row, MW_PHASE_BACKWARD, MW_OPERATOR_FINAL_NORM, 0);
}

/* Of the stretch that has the layer. */
static struct mw_recomputed
recomputed_of(const struct mw_step_check *check, int64_t layer)
{
    return mw_step_shape_recomputed(&check->plan->shape, check->first_of_stretch[layer],
                                    check->behind_stretch[layer]);
}

/* Of the checkpoint group that has the layer: the first layer that is computed, or none. */
static int64_t
first_of_group(const struct mw_step_check *check, int64_t layer)
{
    const struct mw_recomputed recomputed = recomputed_of(check, layer);
    int64_t behind, first = mw_recomputed_group(&recomputed, layer, &behind);

    while (first < layer && check->dropped[first])
        first++;
    return first;
}

/* A layer that nothing has to be computed again for; `loads`: it comes back whole. */
static void
put_kept(struct row *row, int64_t layer, bool loads)
{
    size_t first = row->count;

    if (!row->check->dropped[layer])
        put_layer(row, MW_PHASE_BACKWARD, (int32_t)layer, false);
    if (loads && first < row->count)
        row->all[first].checkpoint = true;
}

static void
put_group(struct row *row, int64_t first, int64_t behind)
{
    const struct mw_step_check *check = row->check;

    for (int64_t l = first; l < behind; l++)
        if (!check->dropped[l])
            put_layer(row, MW_PHASE_RECOMPUTE, (int32_t)l, l == first_of_group(check, l));
    for (int64_t l = behind - 1; l >= first; l--)
        if (!check->dropped[l])
            put_layer(row, MW_PHASE_BACKWARD, (int32_t)l, false);
}

/* Of the stretch that begins with layer `first`. */
static void
put_back(struct row *row, int64_t first)
{
    const struct mw_step_check *check = row->check;
    const struct mw_recomputed recomputed = recomputed_of(check, first);
    bool whole = check->plan->shape.whole_checkpoints;

    for (int64_t layer = recomputed.end - 1, behind; layer >= first; layer--) {
        if (!mw_recomputed_has(&recomputed, layer)) {
            put_kept(row, layer, whole);
            continue;
        }
        layer = mw_recomputed_group(&recomputed, layer, &behind);
        put_group(row, layer, behind);
    }
}

/* Layer by layer a micro-batch waits behind each group, forward and back: whoever computes next
 * takes what was left there. */
static void
mark_stops(struct row *row)
{
    const struct mw_step_check *check = row->check;
    int64_t interval = check->plan->shape.checkpoint_interval;

    for (size_t i = 1; i < row->count; i++) {
        struct expected *before = &row->all[i - 1], *it = &row->all[i];
        while (i + 1 < row->count && it->phase == MW_PHASE_RECOMPUTE)
            it = &row->all[++i];
        int64_t group = it->layer < 0 ? -1 : it->layer / interval;
        int64_t last = before->layer < 0 ? -1 : before->layer / interval;
        if (group != last)
            before->sent = it->received = true;
    }
}

/* Micro-batches that go forward before this one's logits are computed would overwrite its last
 * layer's output, where all that layers share is one room: it waits elsewhere. */
static bool
waits_for_logits(const struct mw_step_check *check)
{
    const struct mw_step_shape *shape = &check->plan->shape;
    const struct mw_recomputed recomputed = recomputed_of(check, check->layer_first);
    bool all = shape->checkpoint_interval && !shape->layer_order && check->stretches == 1;

    for (int64_t l = check->layer_first; l < check->layer_behind; l++)
        all = all && (shape->whole_checkpoints || mw_recomputed_has(&recomputed, l));
    return all && check->plan->programs[check->program].in_flight > 1;
}

/* Forward through the stretch that begins with layer `first`. */
static void
put_forward(struct row *row, int64_t first)
{
    const struct mw_step_check *check = row->check;
    const struct mw_plan *plan = check->plan;
    const struct mw_recomputed recomputed = recomputed_of(check, first);
    bool ends = plan->shape.has_decoder;
    size_t begin = row->count;

    if (ends && first == 0)
        put_end(row, MW_PHASE_FORWARD, MW_OPERATOR_EMBEDDING, 0);
    for (int64_t l = first; l < recomputed.end; l++) {
        size_t before = row->count;
        bool again = mw_recomputed_has(&recomputed, l);
        if (!check->dropped[l])
            put_layer(row, MW_PHASE_FORWARD, (int32_t)l, again && l == first_of_group(check, l));
        if (plan->shape.whole_checkpoints && !again && row->count > before)
            row->all[row->count - 1].checkpoint = true;
    }
    if (row->count > begin && ends) {
        row->all[begin].received = first > 0;
        row->all[row->count - 1].sent = recomputed.end < check->layers;
    }
}

/* Back through it: from the logits, or from where its gradients come in. */
static void
put_return(struct row *row, int64_t first)
{
    const struct mw_step_check *check = row->check;
    const struct mw_plan *plan = check->plan;
    bool ends = plan->shape.has_decoder;
    bool last = ends && check->behind_stretch[first] == check->layers;
    size_t turn = row->count;

    if (last)
        put_tail(row);
    if (last && turn && waits_for_logits(check))
        row->all[turn - 1].sent = row->all[turn].received = true;
    put_back(row, first);
    uint32_t embedding = check->tensor_of[MW_OPERATOR_EMBEDDING];
    if (ends && first == 0 && embedding != MW_NONE && plan->tensors[embedding].trainable)
        put_end(row, MW_PHASE_BACKWARD, MW_OPERATOR_EMBEDDING, 0);
    while (turn < row->count && row->all[turn].phase != MW_PHASE_BACKWARD)
        turn++;
    if (turn < row->count && ends) {
        row->all[turn].received = !last;
        row->all[row->count - 1].sent = first > 0;
    }
}

static void
make_row(struct row *row)
{
    const struct mw_step_check *check = row->check;
    const struct mw_step_shape *shape = &check->plan->shape;
    int64_t last = check->first_of_stretch[check->layer_behind - 1];

    for (int64_t first = check->layer_first; first < check->layer_behind;
         first = mw_step_next_stretch(check, first))
        put_forward(row, first);
    for (int64_t first = last; first >= 0; first = mw_step_stretch_before(check, first))
        put_return(row, first);
    if (shape->layer_order && shape->checkpoint_interval && shape->has_decoder)
        mark_stops(row);
    if (shape->weights_later)
        put_weights(row);
}

/* --- ops along it ---------------------------------------------------------------------------- */

static bool
is_expected(const struct row *row, const struct mw_op *op, const struct mw_work *work,
            const struct expected *it)
{
    bool in_parts =
        is_chunked(work->operator_) ||
        is_attention_in_ring(row->check, op->layer, work->operator_) ||
        mw_step_in_pieces(row->check, op->layer, work->operator_, op->phase == MW_PHASE_BACKWARD);

    return op->phase == it->phase && op->layer == it->layer && work->operator_ == it->operator_ &&
           (work->object == MW_OBJECT_GRADIENTS) == it->of_weights && op->tile == it->tile &&
           (!in_parts || op->shard == it->token_chunk);
}

static bool
check_marks(const struct row *row, uint32_t index, const struct expected *it)
{
    struct mw_step_check *check = row->check;
    const struct {
        enum mw_role role;
        bool uses;
    } marks[] = {{MW_ROLE_CHECKPOINT, it->checkpoint},
                 {MW_ROLE_RECEIVED, it->received},
                 {MW_ROLE_SENT, it->sent}};

    size_t count = check->plan->shape.has_decoder ? sizeof marks / sizeof *marks : 1;
    for (size_t i = 0; i < count; i++)
        if ((mw_step_slot(check, index, marks[i].role) != MW_NONE) != marks[i].uses)
            return mw_plan_refuse(&check->base, "%s: uses %s%s slot, and the step's shape says %s",
                                  mw_step_label(check, index).text, marks[i].uses ? "no " : "a ",
                                  mw_role_name(marks[i].role), marks[i].uses ? "one" : "none");
    return true;
}

/* Of one of as many products, which a mixture's experts share out evenly. */
static int64_t
tokens_of_product(const struct mw_decoder *decoder, const struct mw_work *work, int64_t tokens)
{
    bool within = !mw_decoder_is_spread(decoder) && (work->operator_ == MW_OPERATOR_MLP_UP ||
                                                     work->operator_ == MW_OPERATOR_MLP_DOWN);
    bool of_experts =
        decoder->experts && (within || mw_operator_row(work->operator_)->part_of != 0);
    int64_t here = mw_decoder_experts_here(decoder);

    return of_experts ? (mw_decoder_result_rows(decoder, tokens) + here - 1) / here : tokens;
}

/* The works' products and attention are of the tokens that the step's shape says. */
static bool
check_tokens(struct mw_step_check *check, uint32_t index, bool comes_in_pieces)
{
    const struct mw_step_shape *shape = &check->plan->shape;
    const struct mw_op *op = &check->plan->ops[index];
    const struct mw_work *work = mw_step_work(check, index);
    bool attends = mw_operator_row(work->operator_)->attends;
    int64_t tokens = mw_step_shape_tokens(shape);
    int64_t seq = has_ring(shape) ? shape->seq / shape->context_ranks : shape->seq;

    tokens = is_chunked(work->operator_) ? tokens / shape->token_chunks : tokens;
    tokens = tokens < 1 ? 1 : tokens;
    if (!shape->has_decoder)
        return true;
    tokens = tokens_of_product(&shape->decoder, work, tokens);
    if (attends && work->attention.heads &&
        (work->attention.queries != seq || work->attention.keys != seq))
        return mw_plan_refuse(&check->base,
                              "work %u: its sequences have %" PRId64 " tokens, and those of the "
                              "step's shape %" PRId64,
                              op->work, work->attention.queries, seq);
    if (comes_in_pieces)
        tokens /= check->tp;
    if (!attends && op->phase != MW_PHASE_BACKWARD && work->product_count &&
        work->products[0].m != tokens)
        return mw_plan_refuse(
            &check->base, "work %u: is of %" PRId64 " tokens, and the step's shape has %" PRId64,
            op->work, work->products[0].m, tokens);
    return true;
}

struct walk {
    uint32_t *next; /* [micro_batches] in the row */
    uint32_t lane, before;
    uint32_t partial;               /* the op whose results tensor slices sum up; MW_NONE: none */
    uint32_t last_sum, last_gather; /* collectives of tensor slices */
    uint32_t exchanging;            /* the op whose tokens go to other ranks; MW_NONE: none */
    uint32_t last_exchange;
    uint32_t ringing,
        last_pass;       /* attention beside which keys and values pass, or MW_NONE; these */
    uint32_t ring_after; /* what is computed before it */
    uint32_t piece, piece_after; /* the first op of a product in pieces, and what is before that */
};

static bool
refuse_place(struct row *row, uint32_t index, const struct expected *it)
{
    struct mw_step_check *check = row->check;

    if (!it)
        return mw_plan_refuse(&check->base, "%s: its micro-batch has nothing more to compute",
                              mw_step_label(check, index).text);
    return mw_plan_refuse(&check->base,
                          "%s: comes where a step of its model has %s layer %d %s%s tile %u shard "
                          "%u",
                          mw_step_label(check, index).text, mw_phase_name(it->phase), it->layer,
                          mw_operator_name(it->operator_), it->of_weights ? " gradients" : "",
                          it->tile, it->token_chunk);
}

/* Of a sum of slices: with tokens that they share its parts stay there, in backward, where it does
 * not end before the next op anyway, or always. */
static enum mw_op_kind
sum_kind(const struct mw_step_check *check, uint32_t partial)
{
    const struct mw_step_shape *shape = &check->plan->shape;
    bool overlaps = shape->tensor_overlap && shape->sequence_parallel &&
                    check->plan->ops[partial].phase == MW_PHASE_BACKWARD;
    bool hidden = mw_step_work(check, partial)->operator_ != MW_OPERATOR_LOSS;

    return overlaps || ((shape->tensor_parts || shape->tensor_pieces) && hidden)
               ? MW_OP_REDUCE_SCATTER
               : MW_OP_ALL_REDUCE;
}

/* Whether both are parts of one operator's pass. */
static bool
is_part_of(const struct row *row, uint32_t before, uint32_t index)
{
    const struct mw_op *a = &row->check->plan->ops[before], *b = &row->check->plan->ops[index];

    return a->phase == b->phase && a->layer == b->layer && a->micro_batch == b->micro_batch &&
           mw_step_work(row->check, before)->operator_ ==
               mw_step_work(row->check, index)->operator_;
}

/* Whether the collective is of the op's operator, after one op and before the other; number `shard`
 * of those that it has. */
static bool
is_number_between(const struct row *row, uint32_t collective, uint32_t shard, uint32_t of,
                  uint32_t after, uint32_t before)
{
    const struct mw_step_check *check = row->check;
    const struct mw_plan_clock *clock = check->base.clock;

    if (collective == MW_NONE)
        return false;
    const struct mw_op *it = &check->plan->ops[collective], *op = &check->plan->ops[of];
    return it->phase == op->phase && it->layer == op->layer && it->micro_batch == op->micro_batch &&
           it->shard == shard &&
           mw_step_work(check, collective)->operator_ == mw_step_work(check, of)->operator_ &&
           (after == MW_NONE || mw_plan_clock_done_before(clock, after, collective)) &&
           (before == MW_NONE || mw_plan_clock_done_before(clock, collective, before));
}

static bool
is_between(const struct row *row, uint32_t collective, uint32_t of, uint32_t after, uint32_t before)
{
    const struct mw_op *op = &row->check->plan->ops[of];

    return is_number_between(row, collective, op->layer < 0 ? op->shard : 0, of, after, before);
}

static bool
is_of_slices(const struct mw_step_check *check, uint32_t collective)
{
    const struct mw_comm *comm = &check->plan->comms[mw_step_work(check, collective)->comm];

    for (int axis = 0; axis < MW_AXIS_COUNT; axis++)
        if (comm->spans[axis].count != (axis == MW_AXIS_TP ? check->tp : 1))
            return false;
    return true;
}

/* Partial results of tensor slices are summed up before anything is computed with them. */
static bool
check_sum(struct row *row, const struct walk *walk, uint32_t index)
{
    struct mw_step_check *check = row->check;

    if (walk->partial == MW_NONE)
        return true;
    enum mw_op_kind kind = sum_kind(check, walk->partial);
    uint32_t sent = mw_step_slot(check, walk->partial, MW_ROLE_SENT);
    if (walk->last_sum != MW_NONE && !is_of_slices(check, walk->last_sum))
        return mw_plan_refuse(&check->base, "%s: is not of all slices of a model and no more",
                              mw_step_label(check, walk->last_sum).text);
    if (is_between(row, walk->last_sum, walk->partial, walk->partial, index) &&
        mw_step_work(check, walk->last_sum)->kind == kind)
        return mw_step_slot(check, walk->last_sum, MW_ROLE_SENT) == sent ||
               mw_plan_refuse(&check->base, "%s: what it sums up is not what is sent",
                              mw_step_label(check, walk->last_sum).text);
    return mw_plan_refuse(&check->base, "%s: no %s sums up its slices before the next op",
                          mw_step_label(check, walk->partial).text, mw_op_kind_name((int)kind));
}

/* Whether experts are spread over ranks, and the op's tokens come from these, or go back to them:
 * their gradients go the other way.  Or ranks that share sequences make whole ones of some heads
 * for attention. */
static bool
exchanges(const struct row *row, const struct expected *it, bool before)
{
    const struct mw_step_check *check = row->check;
    const struct mw_operator_row *operator_ = mw_operator_row(it->operator_);
    const struct mw_step_shape *shape = &check->plan->shape;
    if (operator_->attends)
        return it->layer >= 0 && shape->context_ranks > 1 &&
               shape->context == MW_CONTEXT_ALL_TO_ALL;
    uint32_t t = check->tensor_of[(it->layer + 1) * MW_OPERATOR_COUNT + it->operator_];

    return it->layer >= 0 && t != MW_NONE &&
           (check->plan->tensors[t].spread > 1 || shape->whole_experts) &&
           ((it->phase == MW_PHASE_BACKWARD) == before ? operator_->returns_tokens
                                                       : operator_->takes_tokens);
}

/* Over as many ranks along the axis, and of so many slices, and no others. */
static bool
is_along_of(const struct mw_step_check *check, uint32_t collective, enum mw_axis along,
            uint32_t ranks, uint32_t slices)
{
    const struct mw_axis_span *spans =
        check->plan->comms[mw_step_work(check, collective)->comm].spans;

    for (int axis = 0; axis < MW_AXIS_COUNT; axis++)
        if (spans[axis].count != (axis == (int)along ? ranks : axis == MW_AXIS_TP ? slices : 1))
            return false;
    return true;
}

static bool
is_along(const struct mw_step_check *check, uint32_t collective, enum mw_axis along, uint32_t ranks)
{
    return is_along_of(check, collective, along, ranks, 1);
}

/* An all-to-all over as many ranks as the op's experts are spread over, or as share sequences. */
static bool
is_exchange(const struct row *row, uint32_t collective, uint32_t of, uint32_t after,
            uint32_t before)
{
    const struct mw_step_check *check = row->check;
    bool attends = mw_operator_row(mw_step_work(check, of)->operator_)->attends;
    uint32_t shard = attends ? of == after : check->plan->ops[of].shard;

    if (!is_number_between(row, collective, shard, of, after, before))
        return false;
    if (attends)
        return is_along(check, collective, MW_AXIS_CP, check->plan->shape.context_ranks);
    uint32_t spread = check->plan->tensors[mw_step_tensor(check, of)].spread;
    return is_along_of(check, collective, MW_AXIS_EP, spread > 1 ? spread : 1,
                       check->plan->shape.whole_experts ? (uint32_t)check->tp : 1);
}

/* Where experts are sliced too, slices gather the tokens that came to all of them, and scatter
 * sums. */
static bool
slices_experts(const struct mw_step_check *check, uint32_t index)
{
    return check->tp > 1 && !check->plan->shape.whole_experts &&
           !mw_operator_row(mw_step_work(check, index)->operator_)->attends;
}

/* Each op whose tokens other ranks have has its own all-to-all before it or behind it. */
static bool
check_exchange(struct row *row, struct walk *walk, uint32_t before, uint32_t index,
               const struct expected *it, bool another)
{
    struct mw_step_check *check = row->check;
    bool first = before == MW_NONE || !is_part_of(row, before, index);

    if (exchanges(row, it, true) && first &&
        !is_exchange(row, walk->last_exchange, index, before, index))
        return mw_plan_refuse(&check->base, "%s: no all-to-all brings its tokens",
                              mw_step_label(check, index).text);
    if (exchanges(row, it, true) && first && slices_experts(check, index) &&
        !(is_between(row, walk->last_gather, index, walk->last_exchange, index) &&
          is_along(check, walk->last_gather, MW_AXIS_TP, (uint32_t)check->tp)))
        return mw_plan_refuse(&check->base, "%s: nothing gathers the tokens of its slices",
                              mw_step_label(check, index).text);
    walk->exchanging = exchanges(row, it, false) && !another ? index : MW_NONE;
    return true;
}

static bool
check_exchanged(struct row *row, const struct walk *walk, uint32_t index)
{
    struct mw_step_check *check = row->check;

    if (walk->exchanging != MW_NONE && slices_experts(check, walk->exchanging) &&
        !(is_between(row, walk->last_sum, walk->exchanging, walk->exchanging,
                     walk->last_exchange) &&
          is_along(check, walk->last_sum, MW_AXIS_TP, (uint32_t)check->tp)))
        return mw_plan_refuse(&check->base, "%s: nothing sums up the results of its slices",
                              mw_step_label(check, walk->exchanging).text);
    return walk->exchanging == MW_NONE ||
           is_exchange(row, walk->last_exchange, walk->exchanging, walk->exchanging, index) ||
           mw_plan_refuse(&check->base, "%s: no all-to-all returns its tokens before the next op",
                          mw_step_label(check, walk->exchanging).text);
}

/* Keys and values pass around the ring beside attention: once what is before it is done, before
 * anything is computed with what it gives.  In forward an op of its own takes the last block. */
static bool
check_passed(struct row *row, struct walk *walk, uint32_t index)
{
    struct mw_step_check *check = row->check;

    if (walk->ringing == MW_NONE)
        return true;
    bool good = is_between(row, walk->last_pass, walk->ringing, walk->ring_after, index) &&
                is_along(check, walk->last_pass, MW_AXIS_CP, check->plan->shape.context_ranks);
    return good || mw_plan_refuse(&check->base, "%s: no ring passes its keys and values on",
                                  mw_step_label(check, walk->ringing).text);
}

static void
note_ring(const struct row *row, struct walk *walk, uint32_t before, uint32_t index,
          const struct expected *it)
{
    bool last = it->token_chunk == 1;

    walk->ringing = MW_NONE;
    if (!is_attention_in_ring(row->check, it->layer, it->operator_) || last)
        return;
    walk->ringing = index;
    walk->ring_after = before;
}

/* Where slices share tokens and scatter and gather by ops of their own: in backward of a product of
 * a layer whose weights are sliced by columns, and trained, its input comes again; and forward, of
 * such a product or of the first chunk of the logits. */
static bool
takes_parts(const struct row *row, const struct expected *it)
{
    const struct mw_step_check *check = row->check;
    uint32_t t = check->tensor_of[(it->layer + 1) * MW_OPERATOR_COUNT + it->operator_];
    bool trained = it->layer >= 0 && t != MW_NONE && check->plan->tensors[t].trainable;

    bool forward = it->phase != MW_PHASE_BACKWARD;

    return (check->plan->shape.tensor_parts || (forward && check->plan->shape.tensor_pieces)) &&
           mw_operator_row(it->operator_)->sums_backward && (forward ? !it->token_chunk : trained);
}

/* What a stage receives, or finds where it waited, is gathered, not what was there before. */
static bool
gathers_received(const struct row *row, const struct walk *walk, uint32_t index,
                 const struct expected *it)
{
    return !row->check->plan->shape.tensor_parts || !it->received ||
           mw_step_slot(row->check, walk->last_gather, MW_ROLE_RECEIVED) ==
               mw_step_slot(row->check, index, MW_ROLE_RECEIVED);
}

/* Where slices have parts of all tokens, chunks of these have one sum. */
static bool
is_summed(const struct row *row, uint32_t index, bool another_part)
{
    const struct mw_step_shape *shape = &row->check->plan->shape;
    const struct mw_op *op = &row->check->plan->ops[index];
    const struct mw_operator_row *it = mw_operator_row(mw_step_work(row->check, index)->operator_);
    bool backward = op->phase == MW_PHASE_BACKWARD;
    bool another_chunk = backward && (shape->tensor_parts || shape->tensor_pieces) &&
                         it->in_token_chunks && op->shard + 1 < shape->token_chunks;

    return shape->has_decoder && row->check->tp > 1 && !another_part && !another_chunk &&
           (backward ? it->sums_backward : it->sums_forward);
}

/* Where slices share tokens and sums are scattered: the gradient of the result of a product whose
 * weights are sliced by rows, and the input of one whose weights' gradients are computed. */
static bool
check_gathered(struct row *row, const struct walk *walk, uint32_t before, uint32_t index,
               const struct expected *it)
{
    struct mw_step_check *check = row->check;
    const struct mw_step_shape *shape = &check->plan->shape;
    bool slices = shape->has_decoder && check->tp > 1;
    bool scattered = slices && shape->sequence_parallel &&
                     (shape->tensor_overlap || shape->tensor_parts) &&
                     it->phase == MW_PHASE_BACKWARD && it->operator_ != MW_OPERATOR_LOSS;
    bool whole = (scattered && mw_operator_row(it->operator_)->sums_forward) ||
                 (slices && takes_parts(row, it));

    if (walk->piece == index)
        return true; /* what comes of the others is the next op's */
    if (slices && walk->piece != MW_NONE && it->token_chunk == 1 &&
        !is_summed(row, walk->piece, false))
        return is_between(row, walk->last_gather, walk->piece, walk->piece_after, index) ||
               mw_plan_refuse(&check->base, "%s: nothing gathers its slices beside its pieces",
                              mw_step_label(check, index).text);
    if (!(scattered && it->of_weights) && !whole)
        return true;
    if (whole && before != MW_NONE && is_part_of(row, before, index))
        return true;
    return (is_between(row, walk->last_gather, index, it->of_weights ? MW_NONE : before, index) &&
            (!shape->tensor_parts || is_of_slices(check, walk->last_gather)) &&
            gathers_received(row, walk, index, it)) ||
           mw_plan_refuse(&check->base, "%s: nothing gathers its slices before it",
                          mw_step_label(check, index).text);
}

/* The first of the two ops of a product in pieces, until the next operator comes. */
static void
note_piece(const struct row *row, struct walk *walk, uint32_t before, uint32_t index,
           const struct expected *it)
{
    bool pieces =
        mw_step_in_pieces(row->check, it->layer, it->operator_, it->phase == MW_PHASE_BACKWARD) &&
        !it->of_weights;

    if (pieces && it->token_chunk == 1)
        return;
    walk->piece = pieces ? index : MW_NONE;
    walk->piece_after = before;
}

static bool
comes_in_pieces(const struct row *row, const struct walk *walk, const struct expected *it)
{
    return walk->piece != MW_NONE && !it->of_weights &&
           mw_step_in_pieces(row->check, it->layer, it->operator_, it->phase == MW_PHASE_BACKWARD);
}

static bool
walk_op(struct row *row, struct walk *walk, uint32_t index)
{
    struct mw_step_check *check = row->check;
    const struct mw_op *op = &check->plan->ops[index];
    const struct mw_work *work = mw_step_work(check, index);
    bool of_weights = work->object == MW_OBJECT_GRADIENTS;

    if (walk->before != MW_NONE &&
        (op->lane != walk->lane ||
         !mw_plan_clock_done_before(check->base.clock, walk->before, index)))
        return mw_plan_refuse(&check->base, "%s: need not wait for what is computed before it",
                              mw_step_label(check, index).text);
    if (!of_weights && (!check_sum(row, walk, index) || !check_exchanged(row, walk, index) ||
                        !check_passed(row, walk, index)))
        return false;
    uint32_t before = walk->before;
    walk->lane = op->lane;
    walk->before = index;
    walk->partial = of_weights ? walk->partial : MW_NONE;
    walk->exchanging = of_weights ? walk->exchanging : MW_NONE;
    walk->ringing = of_weights ? walk->ringing : MW_NONE;
    if (op->layer < 0 && !check->plan->shape.has_decoder)
        return true;
    uint32_t *next = &walk->next[op->micro_batch];
    const struct expected *it = *next < row->count ? &row->all[*next] : NULL;
    if (!it || !is_expected(row, op, work, it))
        return refuse_place(row, index, it);
    ++*next;
    bool another = *next < row->count && row->all[*next].operator_ == it->operator_ &&
                   row->all[*next].layer == it->layer && row->all[*next].phase == it->phase &&
                   !row->all[*next].of_weights;
    note_piece(row, walk, before, index, it);
    if (!of_weights && is_summed(row, index, another))
        walk->partial = walk->piece != MW_NONE && !it->sent ? walk->piece : index;
    if (!of_weights && !check_exchange(row, walk, before, index, it, another))
        return false;
    if (!of_weights)
        note_ring(row, walk, before, index, it);
    return check_gathered(row, walk, before, index, it) && check_marks(row, index, it) &&
           check_tokens(check, index, comes_in_pieces(row, walk, it));
}

static bool
walk_program(struct row *row, struct walk *walk)
{
    struct mw_step_check *check = row->check;

    for (uint32_t i = 0; i < check->op_count; i++) {
        const struct mw_work *work = mw_step_work(check, check->ops[i]);
        if (work->object == MW_OBJECT_ACTIVATIONS && work->kind == MW_OP_ALL_GATHER)
            walk->last_gather = check->ops[i];
        if (work->object == MW_OBJECT_ACTIVATIONS &&
            (work->kind == MW_OP_ALL_REDUCE || work->kind == MW_OP_REDUCE_SCATTER))
            walk->last_sum = check->ops[i];
        if (work->object == MW_OBJECT_ACTIVATIONS && work->kind == MW_OP_ALL_TO_ALL)
            walk->last_exchange = check->ops[i];
        if (work->kind == MW_OP_RING_PASS)
            walk->last_pass = check->ops[i];
        if (work->kind == MW_OP_COMPUTE && !walk_op(row, walk, check->ops[i]))
            return false;
    }
    if (!check_sum(row, walk, MW_NONE) || !check_exchanged(row, walk, MW_NONE) ||
        !check_passed(row, walk, MW_NONE))
        return false;
    for (uint32_t m = 0; m < check->plan->shape.micro_batches; m++) {
        const struct expected *it = &row->all[walk->next[m]];
        if (walk->next[m] < row->count)
            return mw_plan_refuse(
                &check->base,
                "step: micro-batch %u lacks %s layer %d %s tile %u shard %u, which "
                "is next in a step of its model",
                m, mw_phase_name(it->phase), it->layer, mw_operator_name(it->operator_), it->tile,
                it->token_chunk);
    }
    return true;
}

/* --- ends of a model that no executor runs --------------------------------------------------- */

static bool
is_end(const struct mw_step_check *check, uint32_t index)
{
    return mw_step_work(check, index)->kind == MW_OP_COMPUTE && check->plan->ops[index].layer < 0;
}

/* Every micro-batch has the ops of the first one. */
static bool
check_ends(struct mw_step_check *check, uint32_t *next)
{
    const struct mw_plan *plan = check->plan;
    uint32_t *first = mw_plan_allocate(check->op_count, sizeof *first), count = 0;
    bool good = true;

    for (uint32_t i = 0; i < check->op_count; i++)
        if (is_end(check, check->ops[i]) && !plan->ops[check->ops[i]].micro_batch)
            first[count++] = check->ops[i];
    for (uint32_t m = 0; m < plan->shape.micro_batches; m++)
        next[m] = 0;
    for (uint32_t i = 0; i < check->op_count && good; i++) {
        const struct mw_op *op = &plan->ops[check->ops[i]];
        if (!is_end(check, check->ops[i]))
            continue;
        uint32_t n = next[op->micro_batch]++;
        const struct mw_op *like = n < count ? &plan->ops[first[n]] : NULL;
        good = like && op->phase == like->phase && op->tile == like->tile &&
               op->shard == like->shard &&
               plan->works[op->work].operator_ == plan->works[like->work].operator_;
        if (!good)
            mw_plan_refuse(&check->base, "%s: micro-batch 0 has no such op there",
                           mw_step_label(check, check->ops[i]).text);
    }
    for (uint32_t m = 0; m < plan->shape.micro_batches && good; m++)
        if (next[m] != count)
            good = mw_plan_refuse(&check->base,
                                  "step: micro-batch %u lacks %s, which micro-batch 0 has", m,
                                  mw_step_label(check, first[next[m]]).text);
    free(first);
    return good;
}

bool
mw_step_check_compute(struct mw_step_check *check)
{
    const struct mw_step_shape *shape = &check->plan->shape;
    struct row row = {.check = check};
    struct walk walk = {.before = MW_NONE,
                        .partial = MW_NONE,
                        .last_sum = MW_NONE,
                        .last_gather = MW_NONE,
                        .exchanging = MW_NONE,
                        .last_exchange = MW_NONE,
                        .ringing = MW_NONE,
                        .last_pass = MW_NONE,
                        .piece = MW_NONE};

    if (shape->has_decoder)
        row.dims = mw_decoder_dims(&shape->decoder);
    uint32_t logits = check->tensor_of[MW_OPERATOR_LOGITS];
    if (logits != MW_NONE &&
        shape->token_chunks > check->op_count / check->plan->tensors[logits].tiles)
        return mw_plan_refuse(&check->base,
                              "step: %" PRId64 " token chunks, and a rank has %u ops in all",
                              shape->token_chunks, check->op_count);
    find_cuts(&row);
    make_row(&row);
    walk.next = mw_plan_allocate((size_t)shape->micro_batches, sizeof *walk.next);
    bool good = walk_program(&row, &walk) && (shape->has_decoder || check_ends(check, walk.next));
    free(walk.next);
    free(row.cut);
    free(row.all);
    return good;
}
