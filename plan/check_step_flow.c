/*
 * What ops read is what others made of the same part: parameters on their way from home, gradients
 * on their way there, checkpoints, and what pipeline stages hand on.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "plan/check_step.h"
#include "plan/internal.h"

static bool
refuse(struct mw_step_check *check, uint32_t op, const char *what)
{
    return mw_plan_refuse(&check->base, "%s: %s", mw_step_label(check, op).text, what);
}

/* --- slots ----------------------------------------------------------------------------------- */

/* Buffers hold one part of one layer and micro-batch, or a chunk. */
static bool
holds_one_part(uint8_t purpose)
{
    return purpose == MW_PURPOSE_PARAMETER_BUFFERS || purpose == MW_PURPOSE_GRADIENT_BUFFERS ||
           purpose == MW_PURPOSE_SHARD_BUFFERS || purpose == MW_PURPOSE_CHECKPOINT_BUFFERS ||
           purpose == MW_PURPOSE_ACTIVATION_CHECKPOINTS || purpose == MW_PURPOSE_OPTIMIZER_BUFFERS;
}

/* Chunks of tokens share the weight and sum up its gradient. */
static uint32_t
shard_of(const struct mw_step_check *check, uint32_t op)
{
    return mw_step_work(check, op)->kind == MW_OP_COMPUTE ? 0 : check->plan->ops[op].shard;
}

static bool
is_of_one_part(const struct mw_step_check *check, uint32_t by, uint32_t index)
{
    const struct mw_op *a = &check->plan->ops[by], *b = &check->plan->ops[index];

    /* Layer by layer parameters stay for all micro-batches, and sums of gradients do. */
    const struct mw_work *work = mw_step_work(check, by);
    bool stays = check->plan->shape.layer_order &&
                 (work->object == MW_OBJECT_PARAMETERS || work->kind == MW_OP_ACCUMULATE);
    return a->layer == b->layer && (stays || a->micro_batch == b->micro_batch) &&
           a->tile == b->tile && shard_of(check, by) == shard_of(check, index);
}

/* Operands of gradients of weights that come later lie there for one micro-batch. */
static bool
holds_micro_batch(uint8_t purpose)
{
    return purpose == MW_PURPOSE_PRODUCT_INPUTS || purpose == MW_PURPOSE_RESULT_GRADIENTS;
}

static bool
check_content(struct mw_step_check *check, uint32_t index, const struct mw_use *use)
{
    uint32_t by = check->slots[use->slot].definer;
    uint8_t purpose = check->plan->slots[use->slot].purpose;
    bool micro_batch = holds_micro_batch(purpose);
    bool again = by != MW_NONE && micro_batch &&
                 check->plan->ops[by].micro_batch == check->plan->ops[index].micro_batch;

    if (use->mode == MW_USE_DEFINE && again)
        return mw_plan_refuse(&check->base,
                              "%s: defines slot %u, which still holds what %s put "
                              "there",
                              mw_step_label(check, index).text, use->slot,
                              mw_step_label(check, by).text);
    if ((!holds_one_part(purpose) && !micro_batch) || use->mode == MW_USE_DEFINE)
        return true;
    if (by != MW_NONE && !micro_batch && is_of_one_part(check, by, index))
        return true;
    if (again)
        return true;
    return mw_plan_refuse(&check->base, "%s: uses slot %u, which holds what %s put there",
                          mw_step_label(check, index).text, use->slot,
                          by == MW_NONE ? "no op" : mw_step_label(check, by).text);
}

/* Homes are written in their turn: parameters by the optimizer, once nobody needs the old ones (or,
 * with a delay, before anybody reads them); and gradients are whole before it reads them. */
static bool
check_home(struct mw_step_check *check, uint32_t index, const struct mw_use *use)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_step_slot *slot = &check->slots[use->slot];
    bool optimizes = plan->ops[index].phase == MW_PHASE_OPTIMIZER;
    bool writes = use->mode != MW_USE_READ;

    switch (plan->slots[use->slot].purpose) {
    case MW_PURPOSE_PARAMETERS:
        if (writes && !optimizes)
            return refuse(check, index, "writes parameters, and is no op of the optimizer");
        return optimizes || !slot->written || (check->delayed && !slot->updated_late) ||
               refuse(check, index, "reads parameters that the step has updated");
    case MW_PURPOSE_GRADIENTS:
        if (writes && optimizes)
            return refuse(check, index, "writes gradients, and is an op of the optimizer");
        if (check->delayed ? optimizes && slot->written : writes && slot->read_by_optimizer)
            return refuse(check, index,
                          check->delayed ? "takes gradients of this step, and the update is delayed"
                                         : "writes gradients that the optimizer has taken");
        return true;
    default:
        return true;
    }
}

/* Whether an interpreter writes what the op uses in this role.  The check of the plan has proved
 * the order of writes, so these must not be called reads. */
static bool
is_written(const struct mw_step_check *check, uint32_t index, int role)
{
    const struct mw_work *work = mw_step_work(check, index);
    int phase = check->plan->ops[index].phase;

    switch (role) {
    case MW_ROLE_DESTINATION:
    case MW_ROLE_SUM:
    case MW_ROLE_OUTPUT:
    case MW_ROLE_WIDENED:
    case MW_ROLE_SENT:
        return true;
    case MW_ROLE_GRADIENT:
        return work->kind == MW_OP_COMPUTE || work->kind == MW_OP_ALL_REDUCE ||
               work->kind == MW_OP_ALL_TO_ALL;
    case MW_ROLE_LOGITS:
    case MW_ROLE_CHECKPOINT:
        return work->kind == MW_OP_COMPUTE && phase == MW_PHASE_FORWARD &&
               (role == MW_ROLE_CHECKPOINT || work->operator_ == MW_OPERATOR_LOGITS);
    case MW_ROLE_STATE:
        return work->kind == MW_OP_UPDATE || work->kind == MW_OP_NVME_WRITE;
    case MW_ROLE_PARAMETER:
        return work->kind == MW_OP_UPDATE;
    default:
        return false;
    }
}

static bool
check_uses(struct mw_step_check *check, uint32_t index)
{
    const struct mw_op *op = &check->plan->ops[index];

    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++) {
        const struct mw_use *use = &check->plan->uses[u];
        if (use->mode == MW_USE_READ && is_written(check, index, use->role))
            return mw_plan_refuse(&check->base, "%s: reads slot %u, which as %s it writes",
                                  mw_step_label(check, index).text, use->slot,
                                  mw_role_name(use->role));
        if (!check_content(check, index, use) || !check_home(check, index, use))
            return false;
    }
    return true;
}

static void
note_uses(struct mw_step_check *check, uint32_t index)
{
    const struct mw_op *op = &check->plan->ops[index];

    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++) {
        const struct mw_use *use = &check->plan->uses[u];
        struct mw_step_slot *slot = &check->slots[use->slot];
        if (use->mode == MW_USE_DEFINE)
            slot->definer = index;
        if (use->mode != MW_USE_READ) {
            slot->writer = index;
            slot->written = true;
            slot->updated_late |= slot->read_by_others;
        } else if (op->phase == MW_PHASE_OPTIMIZER) {
            slot->read_by_optimizer = true;
        } else {
            slot->read_by_others = true;
        }
    }
}

/* --- parameters ------------------------------------------------------------------------------ */

/* Whether a slot holds the part as an op of this kind has left it there. */
static bool
is_made_by(const struct mw_step_check *check, uint32_t slot, uint32_t tensor, enum mw_object object,
           enum mw_op_kind kind)
{
    uint32_t by = slot == MW_NONE ? MW_NONE : check->slots[slot].definer;

    return by != MW_NONE && mw_step_work(check, by)->kind == kind &&
           mw_step_work(check, by)->object == object && mw_step_tensor(check, by) == tensor;
}

bool
mw_step_is_gradient_of(const struct mw_step_check *check, uint32_t slot, uint32_t index,
                       uint32_t tensor, enum mw_op_kind kind)
{
    enum mw_role role = kind == MW_OP_COMPUTE ? MW_ROLE_GRADIENT : MW_ROLE_DESTINATION;
    bool made =
        is_made_by(check, slot, tensor, MW_OBJECT_GRADIENTS, kind) ||
        (kind == MW_OP_COMPUTE && is_made_by(check, slot, tensor, MW_OBJECT_ACTIVATIONS, kind));

    if (!made)
        return false;
    uint32_t by = check->slots[slot].definer;
    return mw_step_slot(check, by, role) == slot &&
           check->plan->ops[by].tile == check->plan->ops[index].tile &&
           check->plan->ops[by].micro_batch == check->plan->ops[index].micro_batch;
}

static bool
is_gathered(const struct mw_step_check *check, uint32_t slot, uint32_t tensor)
{
    return is_made_by(check, slot, tensor, MW_OBJECT_PARAMETERS, MW_OP_ALL_GATHER) ||
           is_made_by(check, slot, tensor, MW_OBJECT_PARAMETERS, MW_OP_BROADCAST);
}

static bool
check_fetch(struct mw_step_check *check, uint32_t index)
{
    uint32_t t = mw_step_tensor(check, index), from = mw_step_slot(check, index, MW_ROLE_SOURCE);
    const struct mw_tensor *tensor = &check->plan->tensors[t];
    enum mw_tier home = mw_step_tier(check, tensor->param_slot);
    bool good = false;

    switch (mw_step_work(check, index)->kind) {
    case MW_OP_NVME_READ:
        good = home == MW_TIER_NVME && from == tensor->param_slot;
        break;
    case MW_OP_H2D:
        good = home == MW_TIER_NVME
                   ? is_made_by(check, from, t, MW_OBJECT_PARAMETERS, MW_OP_NVME_READ)
                   : home == MW_TIER_CPU && from == tensor->param_slot;
        break;
    case MW_OP_ALL_GATHER:
    case MW_OP_BROADCAST:
        good = mw_step_meets_replicas(check, index, tensor) &&
               (home == MW_TIER_GPU ? from == tensor->param_slot
                                    : is_made_by(check, from, t, MW_OBJECT_PARAMETERS, MW_OP_H2D));
        break;
    default:
        break;
    }
    return (good && !tensor->params_whole) ||
           refuse(check, index, "does not bring the parameters on their way from home");
}

static bool
check_parameters(struct mw_step_check *check, uint32_t index, uint32_t t)
{
    const struct mw_op *op = &check->plan->ops[index];
    int operator_ = mw_step_work(check, index)->operator_;
    const struct mw_tensor *tensor = &check->plan->tensors[t];
    uint32_t slot = mw_step_slot(check, index, MW_ROLE_PARAMETER);
    bool needs = check->plan->shape.has_decoder && mw_operator_row(operator_)->parameters &&
                 mw_step_work(check, index)->object != MW_OBJECT_GRADIENTS &&
                 !(operator_ == MW_OPERATOR_EMBEDDING && op->phase == MW_PHASE_BACKWARD);
    bool on_gpu = mw_step_tier(check, tensor->param_slot) == MW_TIER_GPU;
    int64_t replicas = mw_step_replicas(check, tensor);

    if (slot == MW_NONE)
        return !needs || refuse(check, index, "lacks its parameters");
    if (tensor->params_whole || (on_gpu && replicas == 1))
        return slot == tensor->param_slot ||
               refuse(check, index, "computes with parameters that are not its tensor's");
    return (replicas > 1 ? is_gathered(check, slot, t)
                         : is_made_by(check, slot, t, MW_OBJECT_PARAMETERS, MW_OP_H2D)) ||
           refuse(check, index, "computes with parameters that were not brought there");
}

/* --- gradients ------------------------------------------------------------------------------- */

/* Whether the first and the last stage of a pipeline have a copy each of the tensor: of a tied
 * embedding. */
static bool
is_copied(const struct mw_step_check *check, const struct mw_tensor *tensor)
{
    uint32_t ends = 1u << MW_OPERATOR_EMBEDDING | 1u << MW_OPERATOR_LOGITS;

    const struct mw_decoder *decoder = &check->plan->shape.decoder;

    return check->pp > 1 && check->plan->shape.has_decoder &&
           (decoder->tied_embedding || decoder->copies_embedding) && tensor->trainable &&
           tensor->layer < 0 && tensor->operators & ends;
}

/* Whether replicas sum up sums of micro-batches, or what comes of the only one, and not each on its
 * way to the host. */
static bool
is_summed_before_replicas(const struct mw_step_check *check, const struct mw_tensor *tensor)
{
    return tensor->gradients_whole || mw_step_tier(check, tensor->gradient_slot) == MW_TIER_GPU ||
           mw_plan_sums_passing(check->plan, tensor);
}

/* How often a part's gradient does this in a step; the last micro-batch's does it, of fewer. */
static uint32_t
times(const struct mw_step_check *check, const struct mw_tensor *tensor, enum mw_step_gradient what)
{
    enum mw_tier home = mw_step_tier(check, tensor->gradient_slot);
    uint32_t all = (uint32_t)check->plan->shape.micro_batches;
    bool whole = tensor->gradients_whole;
    uint32_t home_times = mw_plan_sums_passing(check->plan, tensor) ? 1 : all;

    switch (what) {
    case MW_STEP_COPIES:
        return is_copied(check, tensor);
    case MW_STEP_REDUCE:
        return mw_step_replicas(check, tensor) == 1 ? 0 : whole ? 1 : all;
    case MW_STEP_REPLICAS:
        return check->rp == 1 ? 0 : is_summed_before_replicas(check, tensor) ? 1 : all;
    case MW_STEP_DOWN:
        return !whole && home != MW_TIER_GPU ? home_times : 0;
    case MW_STEP_SUM_READ:
        return tensor->summed && !whole && home == MW_TIER_NVME ? home_times - 1 : 0;
    case MW_STEP_ACCUMULATE:
        return tensor->summed || (whole && home != MW_TIER_GPU) ? all : 0;
    case MW_STEP_PART_NORM:
        return !whole && home == MW_TIER_NVME && !check->plan->shape.updates_beside ? 1 : 0;
    case MW_STEP_SUM_WRITE:
        return !whole && home == MW_TIER_NVME ? home_times : 0;
    default:
        return 0;
    }
}

static bool
is_made_at_home(const struct mw_step_check *check, const struct mw_tensor *tensor)
{
    return (tensor->gradients_whole || mw_step_replicas(check, tensor) == 1) && !tensor->summed &&
           mw_step_tier(check, tensor->gradient_slot) == MW_TIER_GPU;
}

static bool
check_made(struct mw_step_check *check, uint32_t index, uint32_t t)
{
    const struct mw_op *op = &check->plan->ops[index];
    const struct mw_tensor *tensor = &check->plan->tensors[t];
    int operator_ = mw_step_work(check, index)->operator_;
    uint32_t slot = mw_step_slot(check, index, MW_ROLE_GRADIENT);
    bool piece = op->shard == 0 && mw_step_in_pieces(check, op->layer, operator_, true);
    bool later = piece || (mw_step_splits(check, op->layer, operator_) &&
                           mw_step_work(check, index)->object != MW_OBJECT_GRADIENTS);
    bool needs = check->plan->shape.has_decoder && op->phase == MW_PHASE_BACKWARD &&
                 mw_operator_row(operator_)->parameters && tensor->trainable && !later;

    if (slot == MW_NONE)
        return !needs || refuse(check, index, "leaves no gradient");
    if (op->phase != MW_PHASE_BACKWARD || !tensor->trainable)
        return refuse(check, index, "leaves a gradient where there is none");
    struct mw_step_part *part = mw_step_part_of(check, t, op->tile);
    if (part->left > op->micro_batch)
        return refuse(check, index, "adds to a gradient that has gone on");
    if (is_made_at_home(check, tensor)
            ? slot != tensor->gradient_slot
            : check->plan->slots[slot].purpose != MW_PURPOSE_GRADIENT_BUFFERS)
        return refuse(check, index, "leaves its gradient in a place that is not its own");
    part->made = op->micro_batch + 1u; /* one after the other */
    if (check->plan->shape.tensor_parts && check->tp > 1 && mw_operator_row(operator_)->norms)
        part->unsummed |= 1u << operator_;
    return true;
}

/* Where an op takes what backward has made: then it goes on. */
static bool
takes_made(struct mw_step_check *check, uint32_t index, uint32_t t, uint32_t slot)
{
    const struct mw_op *op = &check->plan->ops[index];
    struct mw_step_part *part = mw_step_part_of(check, t, op->tile);

    if (part->unsummed || part->made <= op->micro_batch ||
        (slot != check->plan->tensors[t].gradient_slot &&
         !mw_step_is_gradient_of(check, slot, index, t, MW_OP_COMPUTE)))
        return false;
    part->left = op->micro_batch + 1u;
    return true;
}

static bool
is_summed_up(const struct mw_step_check *check, uint32_t slot)
{
    uint32_t by = check->slots[slot].writer;
    return by != MW_NONE && mw_step_work(check, by)->kind == MW_OP_ACCUMULATE;
}

/* Whether the slot, on the GPU, has the sum of the op's part over so many micro-batches. */
static bool
has_sum_of(const struct mw_step_check *check, uint32_t slot, uint32_t index, uint32_t t,
           uint32_t micro_batches)
{
    const struct mw_op *ops = check->plan->ops;

    if (!micro_batches || !is_made_by(check, slot, t, MW_OBJECT_GRADIENTS, MW_OP_ACCUMULATE))
        return false;
    uint32_t first = check->slots[slot].definer, last = check->slots[slot].writer;
    bool replicas = mw_step_work(check, last)->kind == MW_OP_ALL_REDUCE;
    return mw_step_slot(check, first, MW_ROLE_SUM) == slot && ops[first].micro_batch == 0 &&
           ops[first].tile == ops[index].tile &&
           mw_step_slot(check, last, replicas ? MW_ROLE_GRADIENT : MW_ROLE_SUM) == slot &&
           ops[last].micro_batch + 1u == micro_batches;
}

/* A sum that comes home later grows in a buffer of the GPU. */
static bool
adds_passing(const struct mw_step_check *check, uint32_t index, uint32_t t)
{
    uint32_t sum = mw_step_slot(check, index, MW_ROLE_SUM);
    uint32_t before = check->plan->ops[index].micro_batch;

    return sum != MW_NONE && !mw_step_work(check, index)->host &&
           check->plan->slots[sum].purpose == MW_PURPOSE_GRADIENT_BUFFERS &&
           mw_step_tier(check, sum) == MW_TIER_GPU &&
           (!before || has_sum_of(check, sum, index, t, before));
}

bool
mw_step_joins_along(const struct mw_step_check *check, uint32_t index, enum mw_axis along,
                    int64_t ranks)
{
    const struct mw_comm *comm = &check->plan->comms[mw_step_work(check, index)->comm];

    for (int axis = 0; axis < MW_AXIS_COUNT; axis++)
        if (comm->spans[axis].count != (axis == (int)along ? ranks : 1))
            return false;
    return true;
}

/* Whether the first stage meets the last one. */
static bool
joins_ends(const struct mw_step_check *check, uint32_t index)
{
    const struct mw_comm *comm = &check->plan->comms[mw_step_work(check, index)->comm];
    uint32_t of_stage = check->plan->world_ranks / (uint32_t)check->pp;

    return comm->spans[MW_AXIS_PP].stride == of_stage * ((uint32_t)check->pp - 1);
}

/* Gradients are added up over ranks as they are made, as they are kept, or in fp32: as the software
 * does it. */
static bool
are_reduced(const struct mw_tensor *tensor, int64_t elements, int64_t bytes)
{
    return bytes == mw_dtype_bytes(tensor->dtype, elements) ||
           bytes == mw_dtype_bytes(tensor->gradient_dtype, elements) ||
           bytes == mw_dtype_bytes(MW_DTYPE_FP32, elements);
}

/* One op for all parts, as the copies may be cut into unlike ones: of the word embedding alone,
 * which positions or a final norm may follow. */
static bool
sums_copies(struct mw_step_check *check, uint32_t index, uint32_t t)
{
    const struct mw_tensor *tensor = &check->plan->tensors[t];
    const struct mw_step_shape *shape = &check->plan->shape;
    int64_t slices = mw_decoder_is_slice(&shape->decoder) ? 1 : check->tp;
    int64_t rows = (shape->decoder.vocab + slices - 1) / slices;
    bool good =
        tensor->gradients_whole && is_copied(check, tensor) && joins_ends(check, index) &&
        mw_step_slot(check, index, MW_ROLE_GRADIENT) == tensor->gradient_slot &&
        are_reduced(tensor, rows * shape->decoder.hidden, mw_step_work(check, index)->bytes);

    for (uint32_t tile = 0; tile < tensor->tiles; tile++) {
        struct mw_step_part *part = mw_step_part_of(check, t, tile);
        good = good && part->made == shape->micro_batches &&
               part->done[MW_STEP_ACCUMULATE] == times(check, tensor, MW_STEP_ACCUMULATE);
        part->left = (uint32_t)shape->micro_batches;
        part->done[MW_STEP_COPIES] += tile > 0; /* that of part 0 is the op's */
    }
    return good;
}

static bool
reduces(struct mw_step_check *check, uint32_t index, uint32_t t)
{
    const struct mw_tensor *tensor = &check->plan->tensors[t];
    const struct mw_step_part *part = mw_step_part_of(check, t, check->plan->ops[index].tile);
    uint32_t from = mw_step_slot(check, index, MW_ROLE_SOURCE);
    uint32_t to = mw_step_slot(check, index, MW_ROLE_DESTINATION);
    uint32_t home = tensor->gradient_slot;
    bool arrives = mw_step_tier(check, home) == MW_TIER_GPU && !tensor->summed;

    if (!tensor->gradients_whole)
        return mw_step_work(check, index)->kind == MW_OP_REDUCE_SCATTER && from != MW_NONE &&
               to != MW_NONE && takes_made(check, index, t, from) && arrives == (to == home);
    if (mw_step_slot(check, index, MW_ROLE_GRADIENT) != home ||
        mw_step_work(check, index)->kind != (check->plan->shape.asynchronous ? MW_OP_ALL_TO_ALL
                                             : tensor->state_whole           ? MW_OP_ALL_REDUCE
                                                                   : MW_OP_REDUCE_SCATTER) ||
        part->done[MW_STEP_COPIES] != times(check, tensor, MW_STEP_COPIES))
        return false;
    return is_made_at_home(check, tensor)
               ? takes_made(check, index, t, home)
               : part->done[MW_STEP_ACCUMULATE] == times(check, tensor, MW_STEP_ACCUMULATE);
}

/* In place, once the sharding group has reduced the shard, and before it goes on. */
static bool
sums_replicas(struct mw_step_check *check, uint32_t index, uint32_t t)
{
    const struct mw_tensor *tensor = &check->plan->tensors[t];
    const struct mw_work *work = mw_step_work(check, index);
    const struct mw_step_part *part = mw_step_part_of(check, t, check->plan->ops[index].tile);
    uint32_t slot = mw_step_slot(check, index, MW_ROLE_GRADIENT), home = tensor->gradient_slot;
    bool passing = mw_plan_sums_passing(check->plan, tensor);
    bool on_gpu = mw_step_tier(check, home) == MW_TIER_GPU;

    if (work->kind != MW_OP_ALL_REDUCE || slot == MW_NONE || on_gpu != (slot == home) ||
        !are_reduced(tensor, tensor->shard_elements, work->bytes))
        return false;
    if (passing)
        return has_sum_of(check, slot, index, t, (uint32_t)check->plan->shape.micro_batches);
    if (!on_gpu)
        return mw_step_is_gradient_of(check, slot, index, t, MW_OP_REDUCE_SCATTER);
    return part->done[MW_STEP_REDUCE] == times(check, tensor, MW_STEP_REDUCE) &&
           part->done[MW_STEP_ACCUMULATE] == times(check, tensor, MW_STEP_ACCUMULATE);
}

/* Whether what the slot holds is summed up over sharding groups. */
static bool
has_replicas(const struct mw_step_check *check, uint32_t slot)
{
    uint32_t by = check->slots[slot].writer;

    return check->rp == 1 || (by != MW_NONE && mw_step_work(check, by)->kind == MW_OP_ALL_REDUCE);
}

static bool
goes_down(struct mw_step_check *check, uint32_t index, uint32_t t)
{
    const struct mw_tensor *tensor = &check->plan->tensors[t];
    uint32_t from = mw_step_slot(check, index, MW_ROLE_SOURCE);
    uint32_t to = mw_step_slot(check, index, MW_ROLE_DESTINATION);
    bool passing = mw_plan_sums_passing(check->plan, tensor);
    bool arrives =
        mw_step_tier(check, tensor->gradient_slot) == MW_TIER_CPU && (!tensor->summed || passing);

    if (from == MW_NONE || to == MW_NONE || arrives != (to == tensor->gradient_slot) ||
        !has_replicas(check, from))
        return false;
    if (passing)
        return has_sum_of(check, from, index, t, (uint32_t)check->plan->shape.micro_batches);
    return mw_step_replicas(check, tensor) > 1
               ? mw_step_is_gradient_of(check, from, index, t, MW_OP_REDUCE_SCATTER)
               : takes_made(check, index, t, from);
}

static bool
accumulates(struct mw_step_check *check, uint32_t index, uint32_t t)
{
    const struct mw_tensor *tensor = &check->plan->tensors[t];
    const struct mw_op *op = &check->plan->ops[index];
    bool passing = mw_plan_sums_passing(check->plan, tensor);
    bool drives = mw_step_tier(check, tensor->gradient_slot) == MW_TIER_NVME && !passing;
    uint32_t from = mw_step_slot(check, index, MW_ROLE_GRADIENT);
    uint32_t sum = mw_step_slot(check, index, MW_ROLE_SUM);
    uint32_t by = from == MW_NONE ? MW_NONE : check->slots[from].writer;

    if (by == MW_NONE ||
        (passing ? !adds_passing(check, index, t)
                 : sum != (drives ? MW_NONE : tensor->gradient_slot)) ||
        mw_step_work(check, index)->elements !=
            (tensor->gradients_whole ? tensor->tile_elements : tensor->shard_elements))
        return false;
    if (drives && op->micro_batch && mw_step_work(check, by)->kind != MW_OP_NVME_READ)
        return false;
    if (times(check, tensor, MW_STEP_DOWN) && !passing)
        return mw_step_is_gradient_of(check, from, index, t, MW_OP_D2H);
    if (mw_step_replicas(check, tensor) > 1 && !tensor->gradients_whole)
        return mw_step_is_gradient_of(check, from, index, t, MW_OP_REDUCE_SCATTER);
    return takes_made(check, index, t, from);
}

static bool
is_down(const struct mw_step_check *check, uint32_t index, uint32_t t, uint32_t slot)
{
    return mw_step_is_gradient_of(check, slot, index, t, MW_OP_D2H) &&
           (!check->plan->tensors[t].summed ||
            mw_plan_sums_passing(check->plan, &check->plan->tensors[t]) ||
            is_summed_up(check, slot));
}

/* The gradient's own op of this kind, and whether it finds what it takes. */
static bool
find_gradient_op(struct mw_step_check *check, uint32_t index, uint32_t t,
                 enum mw_step_gradient *what)
{
    const struct mw_op *op = &check->plan->ops[index];
    uint32_t home = check->plan->tensors[t].gradient_slot;
    const struct mw_step_part *part = mw_step_part_of(check, t, op->tile);
    uint32_t from = mw_step_slot(check, index, MW_ROLE_SOURCE);

    switch (mw_step_work(check, index)->kind) {
    case MW_OP_REDUCE_SCATTER:
    case MW_OP_ALL_REDUCE:
    case MW_OP_ALL_TO_ALL:
        if (mw_step_joins_along(check, index, MW_AXIS_PP, 2)) {
            *what = MW_STEP_COPIES;
            return sums_copies(check, index, t);
        }
        if (check->rp > 1 && mw_step_joins_along(check, index, MW_AXIS_RP, check->rp)) {
            *what = MW_STEP_REPLICAS;
            return sums_replicas(check, index, t);
        }
        *what = MW_STEP_REDUCE;
        return mw_step_meets_replicas(check, index, &check->plan->tensors[t]) &&
               reduces(check, index, t);
    case MW_OP_D2H:
        *what = MW_STEP_DOWN;
        return goes_down(check, index, t);
    case MW_OP_NVME_READ:
        *what = MW_STEP_SUM_READ;
        return from == home && part->done[MW_STEP_SUM_WRITE] == op->micro_batch;
    case MW_OP_ACCUMULATE:
        *what = MW_STEP_ACCUMULATE;
        return accumulates(check, index, t);
    case MW_OP_NORM:
        *what = MW_STEP_PART_NORM;
        return is_down(check, index, t, mw_step_slot(check, index, MW_ROLE_GRADIENT));
    case MW_OP_NVME_WRITE:
        *what = MW_STEP_SUM_WRITE;
        return is_down(check, index, t, from) &&
               mw_step_slot(check, index, MW_ROLE_DESTINATION) == home;
    default:
        *what = MW_STEP_GRADIENT_COUNT;
        return false;
    }
}

static bool
check_gradient(struct mw_step_check *check, uint32_t index, uint32_t t)
{
    const struct mw_op *op = &check->plan->ops[index];
    const struct mw_tensor *tensor = &check->plan->tensors[t];
    enum mw_step_gradient what;

    if (!tensor->trainable || op->phase != MW_PHASE_BACKWARD)
        return refuse(check, index, "is of a gradient that is not trained");
    if (mw_plan_sums_norm(check->plan, mw_step_work(check, index)))
        return mw_step_check_norm_sum(check, index, t);
    bool good = find_gradient_op(check, index, t, &what);
    uint32_t all = what == MW_STEP_GRADIENT_COUNT ? 0 : times(check, tensor, what);
    uint32_t first = (uint32_t)check->plan->shape.micro_batches - all;
    if (!all)
        return refuse(check, index, "is nothing that its gradient needs on its way home");
    uint32_t *done = &mw_step_part_of(check, t, op->tile)->done[what];
    if (op->micro_batch != first + *done)
        return refuse(check, index, "its micro-batch is not the next one whose gradient does this");
    ++*done;
    return good || refuse(check, index, "does not find the gradient that it takes");
}

/* Every part's gradient has come home. */
static bool
check_gradients(struct mw_step_check *check)
{
    static const char *const names[MW_STEP_GRADIENT_COUNT] = {
        "a sum with its copy's",  "a reduction over ranks",     "a sum over sharding groups",
        "a transfer to the host", "the sum's read from drives", "an accumulation",
        "the norm of a part",     "a write to drives"};
    const struct mw_plan *plan = check->plan;

    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        const struct mw_tensor *tensor = &plan->tensors[t];
        if (check->part_of[t] == MW_NONE || !tensor->trainable)
            continue;
        for (uint32_t tile = 0; tile < tensor->tiles; tile++) {
            const struct mw_step_part *part = mw_step_part_of(check, t, tile);
            if (plan->shape.has_decoder && part->made != plan->shape.micro_batches)
                return mw_plan_refuse(&check->base,
                                      "tensor %u: no op makes the gradient of tile %u", t, tile);
            if (part->unsummed)
                return mw_plan_refuse(&check->base,
                                      "tensor %u: slices do not sum up a norm's gradient of tile "
                                      "%u",
                                      t, tile);
            for (int what = 0; what < MW_STEP_GRADIENT_COUNT; what++)
                if ((tensor->layer >= 0 || plan->shape.has_decoder) &&
                    part->done[what] != times(check, tensor, (enum mw_step_gradient)what))
                    return mw_plan_refuse(&check->base,
                                          "tensor %u: the gradient of tile %u lacks %s of "
                                          "micro-batch %u",
                                          t, tile, names[what],
                                          (uint32_t)plan->shape.micro_batches -
                                              times(check, tensor, (enum mw_step_gradient)what) +
                                              part->done[what]);
        }
    }
    return true;
}

/* --- stages ---------------------------------------------------------------------------------- */

/* What stages hand on is of the same micro-batch and pass. */
static bool
is_handed(const struct mw_step_check *check, uint32_t index, uint32_t slot, enum mw_op_kind kind)
{
    uint32_t by = check->slots[slot].definer;
    const struct mw_op *op = &check->plan->ops[index];

    bool hop = kind == MW_OP_RECV || mw_step_work(check, index)->kind == MW_OP_SEND;

    return by != MW_NONE && mw_step_work(check, by)->kind == kind &&
           check->plan->ops[by].micro_batch == op->micro_batch &&
           (!hop || check->stretches == 1 || check->plan->ops[by].layer == op->layer) &&
           (check->plan->ops[by].phase == MW_PHASE_BACKWARD) == (op->phase == MW_PHASE_BACKWARD);
}

/* Layer by layer, and between the last layer and the logits, a micro-batch waits in its rank. */
static bool
waited_here(const struct mw_step_check *check, uint32_t index)
{
    const struct mw_op *op = &check->plan->ops[index];

    return check->plan->shape.layer_order || (op->layer < 0 && op->phase == MW_PHASE_FORWARD);
}

/* What the last op of its micro-batch that left something has left there. */
static bool
is_left(const struct mw_step_check *check, uint32_t index, uint32_t slot)
{
    return is_handed(check, index, slot, MW_OP_COMPUTE) &&
           check->left_by[check->plan->ops[index].micro_batch] == check->slots[slot].definer;
}

static bool
check_hop(struct mw_step_check *check, uint32_t index)
{
    uint32_t received = mw_step_slot(check, index, MW_ROLE_RECEIVED);
    uint32_t sent = mw_step_slot(check, index, MW_ROLE_SOURCE);
    bool sends = mw_step_work(check, index)->kind == MW_OP_SEND;

    if (received != MW_NONE &&
        !(waited_here(check, index) ? is_left(check, index, received)
                                    : is_handed(check, index, received, MW_OP_RECV)))
        return refuse(check, index, "takes what its micro-batch has not received");
    if (sends && (sent == MW_NONE || !is_handed(check, index, sent, MW_OP_COMPUTE) ||
                  mw_step_slot(check, check->slots[sent].definer, MW_ROLE_SENT) != sent))
        return refuse(check, index, "sends what its micro-batch has not computed");
    return true;
}

/* --- checkpoints and logits ------------------------------------------------------------------ */

static bool
is_for_checkpoints(const struct mw_step_check *check, uint32_t slot)
{
    uint8_t purpose = check->plan->slots[slot].purpose;
    return purpose == MW_PURPOSE_ACTIVATION_CHECKPOINTS || purpose == MW_PURPOSE_CHECKPOINT_BUFFERS;
}

/* Whether its present content came there as a checkpoint.  check_content knows of which layer. */
static bool
has_checkpoint(const struct mw_step_check *check, uint32_t slot)
{
    uint32_t by = check->slots[slot].definer;

    return by != MW_NONE && mw_step_slot(check, by,
                                         mw_step_work(check, by)->object == MW_OBJECT_CHECKPOINT
                                             ? MW_ROLE_DESTINATION
                                             : MW_ROLE_CHECKPOINT) == slot;
}

static bool
check_checkpoint_move(struct mw_step_check *check, uint32_t index)
{
    uint32_t from = mw_step_slot(check, index, MW_ROLE_SOURCE);
    uint32_t to = mw_step_slot(check, index, MW_ROLE_DESTINATION);

    return (from != MW_NONE && to != MW_NONE && is_for_checkpoints(check, from) &&
            is_for_checkpoints(check, to) && has_checkpoint(check, from)) ||
           refuse(check, index, "does not move a checkpoint from one of its places to another");
}

/* Parts of a checkpoint are gathered before a layer is recomputed from it (ZeRO-R, Pa), unless
 * slices share tokens: then the layer's first norm takes its slice's part. */
static bool
has_whole_checkpoint(const struct mw_step_check *check, uint32_t slot)
{
    const struct mw_step_shape *shape = &check->plan->shape;
    int64_t elements = mw_step_shape_tokens(shape) * shape->decoder.hidden;
    int dtype = shape->checkpoint_dtype == MW_DTYPE_NONE ? shape->dtype : shape->checkpoint_dtype;
    uint32_t by = check->slots[slot].definer;
    bool gathered = by != MW_NONE && mw_step_work(check, by)->kind == MW_OP_ALL_GATHER;

    return !shape->has_decoder || shape->sequence_parallel ||
           (gathered == check->gathers_checkpoints &&
            check->plan->slots[slot].size_bytes >= mw_dtype_bytes(dtype, elements));
}

/* The first part of the logits starts the content that later parts, loss and backward work on. */
static bool
has_logits(const struct mw_step_check *check, uint32_t index, const struct mw_use *use)
{
    const struct mw_op *op = &check->plan->ops[index];
    uint32_t by = use->mode == MW_USE_DEFINE ? index : check->slots[use->slot].definer;

    return check->plan->slots[use->slot].purpose == MW_PURPOSE_LOGITS && by != MW_NONE &&
           mw_step_slot(check, by, MW_ROLE_LOGITS) == use->slot &&
           check->plan->ops[by].micro_batch == op->micro_batch &&
           check->plan->ops[by].shard == op->shard;
}

static bool
check_kept(struct mw_step_check *check, uint32_t index)
{
    const struct mw_op *op = &check->plan->ops[index];

    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++) {
        const struct mw_use *use = &check->plan->uses[u];
        if (use->role == MW_ROLE_LOGITS && !has_logits(check, index, use))
            return refuse(check, index, "works on logits that are not its micro-batch's");
        if (use->role == MW_ROLE_CHECKPOINT &&
            (!is_for_checkpoints(check, use->slot) ||
             (op->phase != MW_PHASE_FORWARD && !has_checkpoint(check, use->slot))))
            return refuse(check, index, "keeps or takes a checkpoint where there is none");
        if (use->role == MW_ROLE_CHECKPOINT && op->phase == MW_PHASE_RECOMPUTE &&
            !has_whole_checkpoint(check, use->slot))
            return refuse(check, index, "recomputes from a part of a checkpoint");
    }
    return true;
}

static bool
uses_slot(const struct mw_step_check *check, uint32_t index, uint32_t slot)
{
    const struct mw_op *op = &check->plan->ops[index];

    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
        if (check->plan->uses[u].slot == slot && check->plan->uses[u].role == MW_ROLE_OUTPUT)
            return true;
    return false;
}

/* What layers keep lies in the rooms that share bytes, and the embedding makes the first layer's
 * input there.  Their ops must say so: else nothing would prove that what shares these bytes comes
 * before them, or after. */
static bool
check_rooms(struct mw_step_check *check, uint32_t index)
{
    const struct mw_op *op = &check->plan->ops[index];
    bool embeds = op->phase == MW_PHASE_FORWARD &&
                  mw_operator_row(mw_step_work(check, index)->operator_)->place == MW_PLACE_HEAD;

    for (uint32_t r = 0; r < check->room_count && (op->layer >= 0 || embeds); r++)
        if (!uses_slot(check, index, check->rooms[r]))
            return mw_plan_refuse(&check->base,
                                  "%s: does not use slot %u, in which layers keep activations and "
                                  "which shares its bytes",
                                  mw_step_label(check, index).text, check->rooms[r]);
    return true;
}

/* --- all ops --------------------------------------------------------------------------------- */

static bool
check_part_op(struct mw_step_check *check, uint32_t index)
{
    const struct mw_op *op = &check->plan->ops[index];
    const struct mw_work *work = mw_step_work(check, index);
    uint32_t t = mw_step_tensor(check, index);

    if (t == MW_NONE && !check->plan->shape.has_decoder && op->layer < 0)
        return true;
    if (t == MW_NONE || (op->tile && op->tile >= check->plan->tensors[t].tiles))
        return refuse(check, index, "is of no tensor of its program");
    if (check->part_of[t] == MW_NONE) /* without parameters, or left out */
        return !mw_step_drops(check, op->layer) ||
               refuse(check, index, "is of a layer that the step leaves out");
    if (work->kind == MW_OP_COMPUTE)
        return check_parameters(check, index, t) && check_made(check, index, t) &&
               check_kept(check, index);
    return work->object == MW_OBJECT_PARAMETERS ? check_fetch(check, index)
                                                : check_gradient(check, index, t);
}

static bool
uses_purpose(const struct mw_step_check *check, uint32_t index, enum mw_purpose purpose)
{
    const struct mw_op *op = &check->plan->ops[index];

    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
        if (check->plan->slots[check->plan->uses[u].slot].purpose == purpose)
            return true;
    return false;
}

/* Where gradients of weights come later, ops leave or find there what these take: inputs from the
 * first layer's on, and gradients of results from those of the last layer's output on. */
static bool
check_operands(struct mw_step_check *check, uint32_t index)
{
    const struct mw_op *op = &check->plan->ops[index];
    bool back = op->phase == MW_PHASE_BACKWARD;
    bool head = mw_operator_row(mw_step_work(check, index)->operator_)->place == MW_PLACE_HEAD;

    if (!check->plan->shape.weights_later)
        return true;
    if ((op->layer >= 0 || (head && !back)) &&
        !uses_purpose(check, index, MW_PURPOSE_PRODUCT_INPUTS))
        return refuse(check, index, "has no slot of inputs for the gradients of weights");
    return !back || head || uses_purpose(check, index, MW_PURPOSE_RESULT_GRADIENTS) ||
           refuse(check, index, "has no slot of results' gradients for those of weights");
}

static bool
check_op(struct mw_step_check *check, uint32_t index)
{
    const struct mw_work *work = mw_step_work(check, index);

    if (!check_hop(check, index))
        return false;
    if (work->kind == MW_OP_COMPUTE &&
        (!check_rooms(check, index) || !check_operands(check, index)))
        return false;
    if (work->object == MW_OBJECT_STATE || work->object == MW_OBJECT_UPDATED)
        return work->kind == MW_OP_AGREE || mw_step_check_chunk_op(check, index);
    if (work->kind == MW_OP_COMPUTE || work->object == MW_OBJECT_PARAMETERS ||
        work->object == MW_OBJECT_GRADIENTS)
        return check_part_op(check, index);
    return work->object != MW_OBJECT_CHECKPOINT || check_checkpoint_move(check, index);
}

/* Whether what a hop meets is of the same micro-batch, and of the layers beside its own. */
static bool
meets_neighbour(const struct mw_step_check *check, uint32_t index)
{
    const struct mw_plan_matches *matches = &check->base.matches;
    const struct mw_op *op = &check->plan->ops[index];
    bool before =
        (mw_step_work(check, index)->hop > 0) == (mw_step_work(check, index)->kind == MW_OP_SEND);

    if (op->match == MW_NONE)
        return true;
    uint32_t at = matches->begin[matches->of_op[index]];
    uint32_t other =
        matches->members[at] == index ? matches->members[at + 1] : matches->members[at];
    const struct mw_op *met = &check->plan->ops[other];
    return met->micro_batch == op->micro_batch && met->phase == op->phase &&
           met->layer == op->layer + (before ? 1 : -1);
}

/* One way, over the boundary at a layer of this side, for every micro-batch in turn. */
struct way {
    enum mw_op_kind kind;
    bool back, is_there;
    int64_t layer;
    const char *name;
};

static bool
check_way(struct mw_step_check *check, const struct way *way)
{
    const struct mw_plan *plan = check->plan;
    int64_t next = 0;

    for (uint32_t i = 0; i < check->op_count; i++) {
        const struct mw_op *op = &plan->ops[check->ops[i]];
        const struct mw_work *work = mw_step_work(check, check->ops[i]);
        if (work->kind != way->kind || (op->phase == MW_PHASE_BACKWARD) != way->back ||
            (check->stretches > 1 && op->layer != way->layer))
            continue;
        if (!way->is_there || op->micro_batch != next++ || (work->hop != 1 && work->hop != -1) ||
            (work->hop > 0) == way->back || !meets_neighbour(check, check->ops[i]))
            return refuse(check, check->ops[i], "is not what its stage hands on next");
    }
    return !way->is_there || next == plan->shape.micro_batches ||
           mw_plan_refuse(&check->base, "program %u: micro-batch %" PRId64 " does not %s",
                          check->program, next, way->name);
}

static bool
check_hops(struct mw_step_check *check)
{
    int64_t hops = 0, ways_there = 0;

    for (int64_t first = check->layer_first; first < check->layer_behind;
         first = mw_step_next_stretch(check, first)) {
        int64_t end = check->behind_stretch[first];
        bool forth = first > 0, on = end < check->layers;
        const struct way ways[] = {
            {MW_OP_RECV, false, forth, first, "receive from the stage before"},
            {MW_OP_SEND, false, on, end - 1, "send to the stage behind"},
            {MW_OP_RECV, true, on, end - 1, "receive from the stage behind"},
            {MW_OP_SEND, true, forth, first, "send to the stage before"}};
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            if (!check_way(check, &ways[w]))
                return false;
            ways_there += ways[w].is_there;
        }
    }
    for (uint32_t i = 0; i < check->op_count; i++)
        hops += mw_op_traits(mw_step_work(check, check->ops[i])->kind)->joins == MW_JOINS_PAIR;
    return hops == ways_there * check->plan->shape.micro_batches ||
           mw_plan_refuse(&check->base, "program %u: sends or receives where no stretch ends",
                          check->program);
}

bool
mw_step_check_flow(struct mw_step_check *check)
{
    for (uint32_t i = 0; i < check->op_count; i++) {
        if (!check_uses(check, check->ops[i]) || !check_op(check, check->ops[i]))
            return false;
        note_uses(check, check->ops[i]);
        if (mw_step_work(check, check->ops[i])->kind == MW_OP_COMPUTE &&
            mw_step_slot(check, check->ops[i], MW_ROLE_SENT) != MW_NONE)
            check->left_by[check->plan->ops[check->ops[i]].micro_batch] = check->ops[i];
    }
    return check_gradients(check) && check_hops(check) && mw_step_check_chunks(check);
}
