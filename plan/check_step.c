/*
 * Whether a plan is a whole training step of its model.
 *
 * mw_plan_check proves that a plan is safe: nobody uses what is not there.  This proves that its
 * ops are those of a step, each once: what the step's shape, the tensors and the chunks say.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan/check_step.h"
#include "plan/clock.h"
#include "plan/internal.h"
#include "plan/optimizers.h"

/* --- helpers --------------------------------------------------------------------------------- */

struct mw_plan_label
mw_step_label(const struct mw_step_check *check, uint32_t op)
{
    struct mw_op_place place;

    if (check->said == check->plan || !mw_plan_find_number(check->said, op, &place))
        return mw_plan_label(check->plan, op);
    return mw_plan_label(check->said, place.op);
}

uint32_t
mw_step_slot(const struct mw_step_check *check, uint32_t op, enum mw_role role)
{
    const struct mw_op *it = &check->plan->ops[op];

    for (uint32_t u = it->use_begin; u < it->use_begin + it->use_count; u++)
        if (check->plan->uses[u].role == role)
            return check->plan->uses[u].slot;
    return MW_NONE;
}

uint32_t
mw_step_tensor(const struct mw_step_check *check, uint32_t op)
{
    int32_t layer = check->plan->ops[op].layer;

    if (layer < 0 && !check->plan->shape.has_decoder) /* it may be tied */
        return MW_NONE;
    return check->tensor_of[(layer + 1) * MW_OPERATOR_COUNT + mw_step_work(check, op)->operator_];
}

bool
mw_step_drops(const struct mw_step_check *check, int32_t layer)
{
    return layer >= 0 && check->dropped[layer];
}

bool
mw_step_splits(const struct mw_step_check *check, int32_t layer, int operator_)
{
    uint32_t t =
        layer < 0 ? MW_NONE : check->tensor_of[(layer + 1) * MW_OPERATOR_COUNT + operator_];

    if (check->plan->shape.weights_later)
        return t != MW_NONE && check->plan->tensors[t].trainable &&
               check->weights_apart >> operator_ & 1;
    return t != MW_NONE && check->plan->shape.tensor_overlap && check->tp > 1 &&
           mw_operator_row(operator_)->sums_backward && check->plan->tensors[t].trainable;
}

bool
mw_step_has(const struct mw_step_check *check, int64_t layer)
{
    return check->behind_stretch[layer] > 0;
}

int64_t
mw_step_next_stretch(const struct mw_step_check *check, int64_t layer)
{
    int64_t next = check->behind_stretch[layer];

    while (next < check->layer_behind && !mw_step_has(check, next))
        next++;
    return next;
}

int64_t
mw_step_stretch_before(const struct mw_step_check *check, int64_t layer)
{
    int64_t last = check->first_of_stretch[layer] - 1;

    while (last >= check->layer_first && !mw_step_has(check, last))
        last--;
    return last < check->layer_first ? -1 : check->first_of_stretch[last];
}

enum mw_tier
mw_step_tier(const struct mw_step_check *check, uint32_t slot)
{
    return (enum mw_tier)check->plan->slots[slot].tier;
}

/* --- layers and tensors ---------------------------------------------------------------------- */

/* Operators whose weights' gradients may come later: all that have parameters; of a model that no
 * executor runs, those of which any op says so. */
static uint32_t
find_apart(const struct mw_step_check *check)
{
    uint32_t all = 0;

    for (int o = 1; o < MW_OPERATOR_COUNT && check->plan->shape.has_decoder; o++)
        all |= mw_operator_row(o)->parameters ? 1u << o : 0;
    for (uint32_t i = 0; i < check->op_count && !check->plan->shape.has_decoder; i++) {
        const struct mw_work *work = mw_step_work(check, check->ops[i]);
        if (work->kind == MW_OP_COMPUTE && work->object == MW_OBJECT_GRADIENTS)
            all |= 1u << work->operator_;
    }
    return all;
}

static int64_t
count_layers(const struct mw_plan *plan)
{
    int64_t layers = 0;

    if (plan->shape.has_decoder)
        return plan->shape.decoder.layers;
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (plan->tensors[t].layer >= layers)
            layers = plan->tensors[t].layer + INT64_C(1);
    return layers;
}

static bool
index_tensor(struct mw_step_check *check, uint32_t t)
{
    const struct mw_tensor *tensor = &check->plan->tensors[t];

    if (!tensor->operators || tensor->operators & 1 || tensor->operators >> MW_OPERATOR_COUNT ||
        tensor->layer >= check->layers)
        return mw_plan_refuse(&check->base, "tensor %u: is of no operator or layer of the model",
                              t);
    for (uint32_t o = 0; o < MW_OPERATOR_COUNT; o++) {
        uint32_t *of = &check->tensor_of[(tensor->layer + 1) * MW_OPERATOR_COUNT + o];
        if (!(tensor->operators >> o & 1))
            continue;
        if (*of != MW_NONE)
            return mw_plan_refuse(&check->base,
                                  "tensor %u: has the %s of layer %d, as tensor %u has", t,
                                  mw_operator_name((int)o), tensor->layer, *of);
        *of = t;
    }
    if (tensor->layer >= 0) {
        check->layer_first =
            tensor->layer < check->layer_first ? tensor->layer : check->layer_first;
        check->layer_behind =
            tensor->layer >= check->layer_behind ? tensor->layer + 1 : check->layer_behind;
    }
    return true;
}

static bool
is_of_model(const struct mw_step_check *check, int64_t layer, int operator_)
{
    const struct mw_operator_row *row = mw_operator_row(operator_);
    struct mw_operator_dims dims = mw_decoder_dims(&check->plan->shape.decoder);

    if (!mw_dims_have(&dims, row->when) || !mw_dims_adapt(&dims, row))
        return false;
    switch (row->place) {
    case MW_PLACE_HEAD:
        return layer < 0 && check->layer_first == 0;
    case MW_PLACE_BLOCK:
        return layer >= 0;
    case MW_PLACE_TAIL:
        return layer < 0 && check->layer_behind == check->layers;
    default:
        return false;
    }
}

/* Every operator of the program's layers has a tensor, with its parameters or those before it. */
static bool
check_operators(struct mw_step_check *check)
{
    for (int64_t l = -1; l < check->layer_behind; l = l < 0 ? check->layer_first : l + 1)
        for (int o = 1; o < MW_OPERATOR_COUNT; o++) {
            uint32_t t = check->tensor_of[(l + 1) * MW_OPERATOR_COUNT + o];
            if (l >= 0 && !mw_step_has(check, l))
                continue;
            if ((t != MW_NONE) != is_of_model(check, l, o))
                return mw_plan_refuse(&check->base,
                                      "program %u: %s tensor of the %s of layer %" PRId64
                                      ", which the model has%s",
                                      check->program, t == MW_NONE ? "no" : "a",
                                      mw_operator_name(o), l, t == MW_NONE ? "" : " not there");
        }
    return true;
}

static bool
index_tensors(struct mw_step_check *check)
{
    const struct mw_plan *plan = check->plan;
    bool any = false;

    for (int64_t i = 0; i < (check->layers + 1) * MW_OPERATOR_COUNT; i++)
        check->tensor_of[i] = MW_NONE;
    check->layer_first = check->layers;
    check->layer_behind = 0;
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        if (plan->tensors[t].program != check->program)
            continue;
        if (!index_tensor(check, t))
            return false;
        if (plan->tensors[t].trainable && !any)
            check->delayed = plan->slots[plan->tensors[t].gradient_slot].persistent;
        any |= plan->tensors[t].trainable;
    }
    if (check->layer_first >= check->layer_behind)
        return mw_plan_refuse(&check->base, "program %u: has no layer of the model",
                              check->program);
    check->stretches = mw_plan_find_stretches(plan, check->program, check->layers,
                                              check->first_of_stretch, check->behind_stretch);
    if (!plan->shape.has_decoder)
        return true;
    if (!check_operators(check))
        return false;
    if (plan->shape.decoder.tied_embedding && check->layer_first == 0 &&
        check->layer_behind == check->layers)
        check->tensor_of[MW_OPERATOR_LOGITS] = check->tensor_of[MW_OPERATOR_LOSS] =
            check->tensor_of[MW_OPERATOR_EMBEDDING];
    return true;
}

/* An interpreter divides the room of activations as it likes, so an op of a layer may use any byte
 * of it. */
static bool
find_rooms(struct mw_step_check *check)
{
    const struct mw_plan *plan = check->plan;

    check->room_count = 0;
    for (uint32_t s = 0; s < plan->slot_count; s++) {
        const struct mw_slot *slot = &plan->slots[s];
        if (slot->program != check->program || slot->purpose != MW_PURPOSE_ACTIVATIONS ||
            !slot->shares)
            continue;
        if (check->room_count == MW_STEP_ROOMS_MAX)
            return mw_plan_refuse(&check->base,
                                  "program %u: more than %d slots of activations share bytes",
                                  check->program, MW_STEP_ROOMS_MAX);
        check->rooms[check->room_count++] = s;
    }
    return true;
}

/* A program's chunks follow each other. */
static bool
find_chunks(struct mw_step_check *check)
{
    const struct mw_plan *plan = check->plan;

    check->first_chunk = check->chunk_count = 0;
    for (uint32_t c = 0; c < plan->chunk_count; c++) {
        if (plan->chunks[c].program != check->program)
            continue;
        if (!check->chunk_count)
            check->first_chunk = c;
        if (c != check->first_chunk + check->chunk_count++)
            return mw_plan_refuse(&check->base,
                                  "chunk %u: another program's chunk is before it, and its own "
                                  "program's before that",
                                  c);
    }
    return true;
}

static bool
find_dropped(struct mw_step_check *check)
{
    int64_t dropped = 0;

    for (int64_t l = 0; l < check->layers; l++)
        check->dropped[l] = check->may_drop;
    for (uint32_t i = 0; i < check->op_count; i++) {
        const struct mw_op *op = &check->plan->ops[check->ops[i]];
        if (op->layer >= check->layers || op->micro_batch >= check->plan->shape.micro_batches)
            return mw_plan_refuse(&check->base, "%s is outside the step's shape",
                                  mw_step_label(check, check->ops[i]).text);
        if (op->layer >= 0 && mw_step_work(check, check->ops[i])->kind == MW_OP_COMPUTE)
            check->dropped[op->layer] = false;
    }
    for (int64_t l = check->layer_first; l < check->layer_behind; l++)
        dropped += check->dropped[l] || !mw_step_has(check, l);
    return dropped < check->layer_behind - check->layer_first ||
           mw_plan_refuse(&check->base, "program %u: no layer is computed", check->program);
}

/* Each part is computed by an op at least, so there are no more of them. */
static bool
count_parts(struct mw_step_check *check)
{
    uint64_t parts = 0;

    for (uint32_t t = 0; t < check->plan->tensor_count; t++) {
        const struct mw_tensor *tensor = &check->plan->tensors[t];
        check->part_of[t] = MW_NONE;
        if (tensor->program != check->program)
            continue;
        bool is_there = tensor->elements && !mw_step_drops(check, tensor->layer);
        if (is_there)
            check->part_of[t] = (uint32_t)parts;
        parts += is_there ? tensor->tiles : 0;
        if (parts > check->op_count || tensor->tiles > UINT16_MAX + 1u)
            return mw_plan_refuse(&check->base, "tensor %u: %u tiles, and its rank has %u ops", t,
                                  tensor->tiles, check->op_count);
    }
    check->parts = mw_plan_allocate(parts, sizeof *check->parts);
    return true;
}

/* --- the ends of a step, and the norm -------------------------------------------------------- */

static bool
find_one(struct mw_step_check *check, enum mw_op_kind kind, uint32_t *found)
{
    *found = MW_NONE;
    for (uint32_t i = 0; i < check->op_count; i++) {
        if (mw_step_work(check, check->ops[i])->kind != kind)
            continue;
        if (*found != MW_NONE)
            return mw_plan_refuse(&check->base, "%s: the step has another %s",
                                  mw_step_label(check, check->ops[i]).text, mw_op_kind_name(kind));
        *found = check->ops[i];
    }
    return *found != MW_NONE || mw_plan_refuse(&check->base, "program %u: the step has no %s",
                                               check->program, mw_op_kind_name(kind));
}

int64_t
mw_step_replicas(const struct mw_step_check *check, const struct mw_tensor *tensor)
{
    return tensor->spread > 1 ? check->dp / tensor->spread : check->dp;
}

bool
mw_step_meets_replicas(const struct mw_step_check *check, uint32_t op,
                       const struct mw_tensor *tensor)
{
    const struct mw_comm *comm = &check->plan->comms[mw_step_work(check, op)->comm];
    int64_t stride = check->tp * (tensor->spread > 1 ? tensor->spread : 1);
    bool good = true;

    for (int axis = 0; axis < MW_AXIS_COUNT; axis++)
        good =
            good &&
            comm->spans[axis].count == (axis == MW_AXIS_DP ? mw_step_replicas(check, tensor) : 1) &&
            (axis != MW_AXIS_DP || comm->spans[axis].count == 1 ||
             comm->spans[axis].stride == stride);
    return good;
}

/* All ranks agree on the norm; so its communicator says how they are divided. */
static bool
find_ranks(struct mw_step_check *check)
{
    const struct mw_comm *world = &check->plan->comms[mw_step_work(check, check->agree)->comm];
    int64_t ranks = 1;

    for (int axis = 0; axis < MW_AXIS_COUNT; axis++)
        ranks *= world->spans[axis].count;
    check->dp = world->spans[MW_AXIS_DP].count;
    check->rp = world->spans[MW_AXIS_RP].count;
    check->tp = world->spans[MW_AXIS_TP].count;
    check->pp = world->spans[MW_AXIS_PP].count;
    if (ranks != check->plan->world_ranks)
        return mw_plan_refuse(&check->base, "%s: %" PRId64 " ranks agree on the norm, of %u",
                              mw_step_label(check, check->agree).text, ranks,
                              check->plan->world_ranks);
    if (check->pp == 1 &&
        (check->layer_first || check->layer_behind != check->layers || check->stretches > 1))
        return mw_plan_refuse(&check->base,
                              "program %u: has layers %" PRId64 " to %" PRId64 " of %" PRId64
                              ", and no pipeline has the others",
                              check->program, check->layer_first, check->layer_behind - 1,
                              check->layers);
    return true;
}

static bool
require(struct mw_step_check *check, uint32_t first, uint32_t second)
{
    if (first == second || mw_plan_clock_done_before(check->base.clock, first, second))
        return true;
    struct mw_plan_label after = mw_step_label(check, second);
    return mw_plan_refuse(&check->base, "%s: need not wait for %s", after.text,
                          mw_step_label(check, first).text);
}

/* The norm is of this step's gradients, or with a delay of the step before: those on drives are
 * added to it on their way there, where the update has used it. */
static bool
check_norm(struct mw_step_check *check, uint32_t op)
{
    bool on_its_way = mw_step_work(check, op)->object == MW_OBJECT_GRADIENTS;

    return on_its_way && check->delayed ? require(check, check->agree, op)
                                        : require(check, op, check->agree);
}

/* An optimizer that clips updates reads gradients from drives when ranks agree. */
static bool
check_written(struct mw_step_check *check, uint32_t op)
{
    const struct mw_work *work = mw_step_work(check, op);

    return work->kind != MW_OP_NVME_WRITE || work->object != MW_OBJECT_GRADIENTS ||
           check->delayed || !mw_optimizer_row(check->plan->shape.optimizer)->clips ||
           require(check, op, check->agree);
}

static bool
is_read_when_agreed(const struct mw_step_check *check, uint32_t slot)
{
    const struct mw_op *op = &check->plan->ops[check->agree];

    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
        if (check->plan->uses[u].slot == slot)
            return true;
    return false;
}

/* What such an optimizer updates one step late must be there when ranks agree, though the step may
 * have copied it before. */
static bool
check_clipped(struct mw_step_check *check)
{
    const struct mw_plan *plan = check->plan;

    if (!check->delayed || !mw_optimizer_row(plan->shape.optimizer)->clips)
        return true;
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (plan->tensors[t].program == check->program && plan->tensors[t].trainable &&
            check->part_of[t] != MW_NONE && plan->tensors[t].elements &&
            !is_read_when_agreed(check, plan->tensors[t].gradient_slot))
            return mw_plan_refuse(&check->base, "%s: does not read the gradients of tensor %u",
                                  mw_step_label(check, check->agree).text, t);
    return true;
}

static bool
check_order(struct mw_step_check *check)
{
    bool beside = check->plan->shape.updates_beside;

    if (beside && (check->delayed || check->pp > 1))
        return mw_plan_refuse(&check->base, "program %u: updates beside backward, and %s",
                              check->program,
                              check->delayed ? "one step late" : "is a stage of a pipeline");
    if (!check->said->barriered)
        return mw_plan_refuse(&check->base, "%s: need not wait for the commit of the step before",
                              mw_step_label(check, check->begin).text);
    for (uint32_t i = 0; i < check->op_count; i++) {
        uint32_t op = check->ops[i];
        const struct mw_work *work = mw_step_work(check, op);
        bool loss = work->kind == MW_OP_COMPUTE && work->operator_ == MW_OPERATOR_LOSS;

        if (!require(check, check->begin, op) || !require(check, op, check->commit) ||
            (work->kind == MW_OP_NORM && !check_norm(check, op)) ||
            (work->kind == MW_OP_UPDATE && !beside && !require(check, check->agree, op)) ||
            (work->kind == MW_OP_COMPUTE && beside && !require(check, op, check->agree)) ||
            (!beside && !check_written(check, op)) ||
            (loss && !check->delayed && !require(check, op, check->agree)))
            return false;
    }
    return true;
}

/* --- programs -------------------------------------------------------------------------------- */

/* Ops by program, each program's in topological order; `begin` is where each one's are. */
static uint32_t *
sort_ops(const struct mw_step_check *check, uint32_t *begin)
{
    const struct mw_plan *plan = check->plan;
    uint32_t *sorted = mw_plan_allocate(plan->op_count, sizeof *sorted);

    for (uint32_t i = 0; i < plan->op_count; i++)
        begin[plan->lanes[plan->ops[i].lane].program + 1]++;
    for (uint32_t p = 0; p < plan->program_count; p++)
        begin[p + 1] += begin[p];
    for (uint32_t i = plan->op_count; i-- > 0;) {
        uint32_t op = check->base.order[i], p = plan->lanes[plan->ops[op].lane].program;
        sorted[--begin[p + 1]] = op;
    }
    for (uint32_t p = 0; p < plan->program_count; p++)
        begin[p] = begin[p + 1];
    begin[plan->program_count] = plan->op_count;
    return sorted;
}

static bool
check_program(struct mw_step_check *check)
{
    bool good = index_tensors(check) && find_one(check, MW_OP_BEGIN, &check->begin) &&
                find_one(check, MW_OP_AGREE, &check->agree) &&
                find_one(check, MW_OP_COMMIT, &check->commit) && find_ranks(check) &&
                find_chunks(check) && find_rooms(check) && find_dropped(check) &&
                mw_step_check_homes(check) && count_parts(check) && check_order(check) &&
                check_clipped(check) && mw_step_check_compute(check) && mw_step_check_flow(check);

    free(check->parts);
    check->parts = NULL;
    return good;
}

/* Where all programs are in the plan, each layer is on as many ranks. */
struct layers {
    int64_t *ranks; /* [layers + 1] more of them than on the layer before */
    int64_t all;
};

static bool
check_layers(struct mw_step_check *check, const struct layers *layers)
{
    int64_t ranks = 0;

    if (layers->all != check->plan->world_ranks)
        return true;
    for (int64_t l = 0; l < check->layers; l++) {
        ranks += layers->ranks[l];
        if (ranks * check->pp != layers->all)
            return mw_plan_refuse(&check->base,
                                  "step: layer %" PRId64 " is on %" PRId64 " ranks of %" PRId64
                                  " in %" PRId64 " stages",
                                  l, ranks, layers->all, check->pp);
    }
    return true;
}

static bool
check_programs(struct mw_step_check *check, const uint32_t *sorted, const uint32_t *begin)
{
    struct layers layers = {mw_plan_allocate((size_t)check->layers + 1, sizeof *layers.ranks), 0};
    bool good = true;

    for (uint32_t p = 0; p < check->plan->program_count && good; p++) {
        check->program = p;
        check->ops = sorted + begin[p];
        check->op_count = begin[p + 1] - begin[p];
        check->weights_apart = find_apart(check);
        good = check_program(check);
        if (!good)
            break;
        int64_t ranks = mw_members_count(&check->plan->programs[p].ranks);
        for (int64_t first = check->layer_first; first < check->layer_behind;
             first = mw_step_next_stretch(check, first)) {
            layers.ranks[first] += ranks;
            layers.ranks[check->behind_stretch[first]] -= ranks;
        }
        layers.all += ranks;
    }
    good = good && check_layers(check, &layers);
    free(layers.ranks);
    return good;
}

static bool
prepare(struct mw_step_check *check)
{
    struct mw_plan_check *base = &check->base;

    if (!mw_plan_check_programs(base) || !mw_plan_check_matches(base) ||
        !mw_step_check_meetings(base) || !mw_plan_check_order(base))
        return false;
    base->clock = mw_plan_clock_new(check->plan, base->order, 0, check->plan->op_count);
    return base->clock ||
           mw_plan_refuse(base, "a rank has more than %d lanes with ops", MW_MAX_LANES_PER_RANK);
}

static bool
check_flat(struct mw_step_check *check)
{
    const struct mw_plan *plan = check->plan;
    uint32_t *begin, *sorted;

    /* A plan cut down to one stage of a pipeline has few of the model's layers. */
    int64_t most = (int64_t)plan->tensor_count + 1;
    if (mw_plan_degree(plan, MW_AXIS_PP) > 1 && most < MW_LAYER_SET_MAX)
        most = MW_LAYER_SET_MAX;
    check->gathers_checkpoints = mw_plan_gathers_checkpoints(plan);
    check->layers = count_layers(plan);
    if (check->layers > most)
        return mw_plan_refuse(&check->base,
                              "decoder: %" PRId64 " layers, and the plan has %u tensors",
                              check->layers, plan->tensor_count);
    if (!mw_step_check_cover(check) || !prepare(check))
        return false;
    check->slots = mw_plan_allocate(plan->slot_count, sizeof *check->slots);
    for (uint32_t s = 0; s < plan->slot_count; s++)
        check->slots[s].definer = check->slots[s].writer = MW_NONE;
    check->dropped = mw_plan_allocate((size_t)check->layers + 1, sizeof *check->dropped);
    check->first_of_stretch =
        mw_plan_allocate((size_t)check->layers + 1, sizeof *check->first_of_stretch);
    check->behind_stretch =
        mw_plan_allocate((size_t)check->layers + 1, sizeof *check->behind_stretch);
    check->tensor_of =
        mw_plan_allocate((size_t)(check->layers + 1) * MW_OPERATOR_COUNT, sizeof *check->tensor_of);
    check->part_of = mw_plan_allocate(plan->tensor_count, sizeof *check->part_of);
    check->left_by = mw_plan_allocate((size_t)plan->shape.micro_batches, sizeof *check->left_by);
    check->chunk_done = mw_plan_allocate(plan->chunk_count, sizeof *check->chunk_done);
    begin = mw_plan_allocate((size_t)plan->program_count + 1, sizeof *begin);
    sorted = sort_ops(check, begin);
    bool good = check_programs(check, sorted, begin);
    free(sorted);
    free(begin);
    free(check->slots);
    free(check->dropped);
    free(check->first_of_stretch);
    free(check->behind_stretch);
    free(check->tensor_of);
    free(check->part_of);
    free(check->left_by);
    free(check->chunk_done);
    return good;
}

/* What is written to a plan by these parts of its check is what is there. */
static struct mw_step_check
start(const struct mw_plan *plan, const struct mw_plan *said, bool may_drop, char *why,
      size_t why_size)
{
    return (struct mw_step_check){
        .base = {.plan = (struct mw_plan *)plan,
                 .why = why,
                 .why_size = why_size,
                 .op_count = plan->op_count},
        .plan = plan,
        .said = said,
        .may_drop = may_drop,
    };
}

const char *
mw_plan_other_step(const struct mw_plan *plan)
{
    return plan->shape.only_simulated
               ? "it keeps or moves state as other software does, and can only be simulated; one "
                 "for the software memwall runs"
           : plan->shape.replicas.stages
               ? "the ranks of a stage take its micro-batches in turn, and a whole step has as "
                 "many ranks in each stage, with micro-batches of their own"
           : plan->program_count > 1 && !mw_plan_all_have_layers(plan)
               ? "a stage has an end of the model alone, and in a whole step each has a layer"
           : plan->shape.no_flush
               ? "its steps go on over their ends, and a whole step begins and ends by itself"
               : NULL;
}

bool
mw_plan_check_step(const struct mw_plan *plan, bool may_drop, char *why, size_t why_size)
{
    struct mw_step_check check = start(plan, plan, may_drop, why, why_size);
    struct mw_plan *flat = NULL;

    if (!plan->checked)
        return mw_plan_refuse(&check.base, "the plan was not checked");
    const char *other = mw_plan_other_step(plan);
    if (other)
        return mw_plan_refuse(&check.base, "%s", other);
    if (!mw_step_check_lanes(&check.base))
        return false;
    if (plan->section_count) {
        if (mw_plan_unfolded_ops(plan) > MW_PLAN_STEP_OPS_MAX)
            return mw_step_check_cover(&check);
        flat = mw_plan_unfold(plan);
        if (!flat)
            return mw_plan_refuse(&check.base, "its sections cannot be unfolded");
        check = start(flat, plan, may_drop, why, why_size);
    }
    bool good = check_flat(&check);
    mw_plan_check_clear(&check.base);
    mw_plan_free(flat);
    return good;
}
