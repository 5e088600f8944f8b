/* Compute ops of a visit, and the all-reduces of tensor slicing between them. */
#include <glib.h>

#include "planner/build/internal.h"

static bool
needs_all_reduce(const struct builder *b, const struct visit *v, enum mw_operator operator_)
{
    return b->sizing->tp > 1 && v->layer >= 0 &&
           mw_sizing_all_reduces(operator_, v->phase == MW_PHASE_BACKWARD);
}

static void
slicing_all_reduce(struct builder *b, const struct visit *v, enum mw_operator operator_,
                   uint32_t slot)
{
    int64_t bytes = b->sizing->element_bytes * b->sizing->tokens * b->sizing->model->hidden;
    uint32_t work = mw_work_collective(
        b, MW_OP_ALL_REDUCE, (struct subject){MW_OBJECT_ACTIVATIONS, operator_}, b->tp_comm, bytes);

    b->compute_wait = mw_build_op(
        b, LANE_SLICING, work, (struct identity){v->phase, v->layer, v->micro_batch, v->tile, 0});
    mw_build_use(b, slot, MW_USE_MODIFY, MW_ROLE_OUTPUT);
}

/* Activations take turns in the slots of the working memory. */
static uint32_t
activation_slot(const struct builder *b, uint32_t set, int turn)
{
    const struct ring *activations = &b->slots[MW_BUFFER_ACTIVATIONS];
    int count = activations->count / b->activation_sets;
    return activations->first + set * count + ((turn % count) + count) % count;
}

static void
use_activations(struct builder *b, const struct visit *v)
{
    bool backward = v->phase == MW_PHASE_BACKWARD;
    uint32_t set = mw_visit_place(b, v) % b->activation_sets;
    int turn = b->activation_turns[set];
    uint32_t mine = activation_slot(b, set, turn);
    uint32_t before = activation_slot(b, set, turn + (backward ? 1 : -1));

    if (before != mine && b->states[before].writer != MW_NONE)
        mw_build_use(b, before, MW_USE_READ, MW_ROLE_INPUT);
    bool holds = b->states[mine].writer != MW_NONE;
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

static void
compute_operator(struct builder *b, struct visit *v, int i, int64_t tiles, bool first, bool last,
                 struct gradients *gradients)
{
    const struct mw_class_info *class = &b->sizing->classes[v->class_];
    const struct mw_operator_info *info = &class->operators[i];
    bool backward = v->phase == MW_PHASE_BACKWARD;
    bool logits = info->operator_ == MW_OPERATOR_LOGITS, weight = v->tied == TIED_WEIGHT;
    bool has_params = weight ? logits : info->params > 0;
    const struct mw_unit *unit = &class->units[v->unit];
    int turn = weight ? 0 : mw_turn_of(class, unit, i);
    uint16_t tile = weight || turn == unit->tiled ? v->tile : 0; /* of the operator's tensor */
    bool checkpoint = first && v->first_of_group;
    uint32_t work = v->tied && logits ? mw_work_tied_logits(b, i, backward, tiles, v->tied)
                                      : mw_work_compute(b, v->class_, i, backward, tiles,
                                                        coded_bytes(b, v, i, tiles, checkpoint));

    mw_build_op(b, LANE_COMPUTE, work,
                (struct identity){v->phase, v->layer, v->micro_batch, tile, v->chunk});
    mw_build_after(b, b->compute_wait);
    b->compute_wait = MW_NONE;
    if (v->param_slot[turn] != MW_NONE && has_params)
        mw_build_use(b, v->param_slot[turn], MW_USE_READ, MW_ROLE_PARAMETER);
    if (has_params && !mw_dtype_row(info->weights)->computes)
        mw_build_use(b, b->slots[MW_BUFFER_WIDENED].first, MW_USE_DEFINE, MW_ROLE_WIDENED);
    use_logits(b, v, info->operator_);
    use_activations(b, v);
    use_rooms(b, v, first);
    mw_stage_use(b, first, last);
    if (checkpoint || (v->keeps_layer && (v->phase == MW_PHASE_FORWARD ? last : first)))
        use_checkpoint(b, v);
    if (gradients->slot[turn] != MW_NONE && has_params) {
        mw_build_use(b, gradients->slot[turn], gradients->mode[turn], MW_ROLE_GRADIENT);
        gradients->mode[turn] = info->params ? MW_USE_MODIFY : gradients->mode[turn];
    }
    uint32_t set = mw_visit_place(b, v) % b->activation_sets;
    int at = b->activation_turns[set];
    b->activation_turns[set] += backward ? -1 : 1;
    if (needs_all_reduce(b, v, info->operator_) && v->last_of_block_unit)
        slicing_all_reduce(b, v, info->operator_, activation_slot(b, set, at));
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
        if (belongs(v, &class->operators[i]) && runs_now(b, v, tiles, i, tiled))
            run[count++] = i;
    }
    for (int r = 0; r < count; r++)
        compute_operator(b, v, run[r], run[r] == tiled ? tiles : 1, r == 0, r == count - 1,
                         &gradients);
    for (int t = MW_UNIT_TENSORS_MAX; t-- > 0;) {
        struct part part;
        if (gradients.slot[t] != MW_NONE && !weight && mw_visit_computes(b, v, t, &part))
            mw_gradient_leave(b, &part, gradients.slot[t]);
    }
}
