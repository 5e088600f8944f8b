#include "planner/sizing/sizing.h"

#include <glib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "plan/state.h"
#include "planner/sizing/internal.h"

/* The number of chunks that the planner cuts by itself, for any model size. */
#define CHUNKS_MOST 8192
/* A step with this many times the ops that a plan may have is not even sized, because searches size
 * thousands of them. */
#define SIZED_MOST 4

/* --- classes and units ---------------------------------------------------------------------- */

/* The operator's parameters join those of the one before, or begin a tensor. */
static void
add_to_tensor(struct mw_class_info *class, struct mw_unit *unit, int operator_)
{
    const struct mw_operator_info *info = &class->operators[operator_];
    struct mw_unit_tensor *tensor = NULL;

    if (unit->tensor_count)
        tensor = &class->tensors[class->tensor_count - 1];
    if (!tensor || (info->params && tensor->params &&
                    (tensor->trained != info->trained || tensor->dtype != info->weights))) {
        g_assert(class->tensor_count < MW_CLASS_TENSORS_MAX &&
                 unit->tensor_count < MW_UNIT_TENSORS_MAX);
        if (!unit->tensor_count++)
            unit->first_tensor = class->tensor_count;
        tensor = &class->tensors[class->tensor_count++];
        tensor->first = operator_;
    }
    if (info->params || !tensor->count) {
        tensor->trained = info->trained;
        tensor->dtype = info->weights;
    }
    tensor->count++;
    tensor->params += info->params;
    tensor->matrix_params += info->matrix_params;
}

static bool
is_adapted_by(const struct mw_class_info *class, int operator_, int before)
{
    return before >= 0 && mw_operator_row(class->operators[before].operator_)->adapts ==
                              class->operators[operator_].operator_;
}

static bool
starts_unit(const struct mw_class_info *class, int operator_)
{
    return mw_operator_row(class->operators[operator_].operator_)->starts_unit &&
           !is_adapted_by(class, operator_, operator_ - 1);
}

/* A norm is tiny: it travels with the product after it.  A block without norms still starts a
 * unit. */
static void
group_units(struct mw_class_info *class)
{
    struct mw_unit *unit = NULL;

    for (int i = 0; i < class->operator_count; i++) {
        const struct mw_operator_info *info = &class->operators[i];
        if (!unit || (starts_unit(class, i) && class->unit_count < MW_CLASS_UNITS_MAX)) {
            unit = &class->units[class->unit_count++];
            unit->first = i;
        }
        unit->count++;
        add_to_tensor(class, unit, i);
        class->params += info->params;
        class->trained_params += info->trained ? info->params : 0;
        class->trained_sides += info->trained ? info->sides : 0;
        class->saved_bytes += info->saved_bytes;
        class->kept_scores += info->kept_scores;
        class->kept_bytes += info->kept_bytes;
        class->coded_bytes += info->coded_bytes;
        class->inputs_bytes += info->inputs_bytes;
        class->results_bytes += info->results_bytes;
        class->widest_bytes = MAX(class->widest_bytes, info->output_bytes);
    }
}

static void
take_operators(struct mw_class_info *class, const struct mw_operators *operators)
{
    class->operator_count = operators->count;
    memcpy(class->operators, operators->info, operators->count * sizeof *operators->info);
}

int64_t
mw_sizing_stretch_layers(const struct mw_sizing *sizing, int64_t stretch)
{
    return sizing->stretch[stretch + 1].first - sizing->stretch[stretch].first;
}

/* A guess as if all had as many layers, then stepped to the right one. */
int64_t
mw_sizing_stretch_of(const struct mw_sizing *sizing, int64_t layer)
{
    if (sizing->stretches == 1)
        return 0;
    int64_t stretch = MIN(layer * sizing->stretches / sizing->layers, sizing->stretches - 1);
    while (layer < sizing->stretch[stretch].first)
        stretch--;
    while (stretch + 1 < sizing->stretches && layer >= sizing->stretch[stretch + 1].first)
        stretch++;
    return stretch;
}

int64_t
mw_sizing_model_layer(const struct mw_sizing *sizing, int64_t layer)
{
    const struct mw_stretch *stretch = &sizing->stretch[mw_sizing_stretch_of(sizing, layer)];

    return stretch->begin + layer - stretch->first;
}

/* Of a kind, among the first `layers` of the stage. */
static int64_t
count_blocks(const struct mw_sizing *sizing, enum mw_block_kind kind, int64_t layers)
{
    int64_t count = 0;

    for (int64_t k = 0; k < sizing->stretches && layers > sizing->stretch[k].first; k++) {
        int64_t begin = sizing->stretch[k].begin, here = layers - sizing->stretch[k].first;
        if (k + 1 < sizing->stretches)
            here = MIN(here, mw_sizing_stretch_layers(sizing, k));
        count += mw_model_count_blocks(sizing->model, kind, begin, begin + here);
    }
    return count;
}

/* The operators and units of the stage's classes. */
static void
fill_classes(struct mw_sizing *sizing, const struct mw_model_walk *walk,
             const struct mw_operators *tail)
{
    struct mw_class_info *classes = sizing->classes;

    if (sizing->stage == 0)
        take_operators(&classes[MW_CLASS_HEAD], &walk->head);
    if (sizing->stage + 1 == sizing->pp)
        take_operators(&classes[MW_CLASS_TAIL], tail);
    classes[MW_CLASS_HEAD].blocks = classes[MW_CLASS_HEAD].operator_count > 0;
    classes[MW_CLASS_TAIL].blocks = classes[MW_CLASS_TAIL].operator_count > 0;
    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++) {
        struct mw_class_info *class = &classes[MW_CLASS_LAYERS + kind];
        class->blocks = count_blocks(sizing, (enum mw_block_kind)kind, sizing->layers);
        if (class->blocks)
            take_operators(class, &walk->blocks[kind]);
    }
    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        group_units(&classes[c]);
        sizing->tensor_count += classes[c].blocks * classes[c].tensor_count;
        sizing->params += classes[c].blocks * classes[c].params;
        sizing->trained_params += classes[c].blocks * classes[c].trained_params;
        sizing->trained_sides += classes[c].blocks * classes[c].trained_sides;
    }
}

static bool
is_adapter(const struct mw_class_info *class, int operator_)
{
    return mw_operator_row(class->operators[operator_].operator_)->adapts != MW_OPERATOR_NONE;
}

/* Adapters are never cut: theirs are products with few rows. */
int
mw_sizing_largest_operator(const struct mw_class_info *class, int first, int count)
{
    int best = first;

    for (int i = first + 1; i < first + count; i++)
        if (is_adapter(class, best) > is_adapter(class, i) ||
            (is_adapter(class, best) == is_adapter(class, i) &&
             class->operators[i].params > class->operators[best].params))
            best = i;
    return best;
}

bool
mw_sizing_all_reduces(enum mw_operator operator_, bool backward)
{
    const struct mw_operator_row *row = mw_operator_row(operator_);

    return backward ? row->sums_backward : row->sums_forward;
}

/* Where slices share tokens each has a part of all of them, not of each chunk. */
int64_t
mw_sizing_sum_parts(const struct mw_sizing *sizing, enum mw_operator operator_)
{
    bool whole = mw_sizing_tensor_parts(sizing) || mw_sizing_tensor_pieces(sizing);

    return whole && operator_ != MW_OPERATOR_LOSS ? 1 : mw_sizing_token_parts(sizing, operator_);
}

int64_t
mw_sizing_sum_bytes(const struct mw_sizing *sizing, enum mw_operator operator_)
{
    int64_t tokens = mw_divide_up(sizing->tokens, mw_sizing_sum_parts(sizing, operator_));

    if (operator_ == MW_OPERATOR_LOSS)
        return MW_LOSS_SUM_BYTES * tokens;
    return sizing->element_bytes * tokens * sizing->model->hidden;
}

static bool
is_of_layers(enum mw_operator operator_)
{
    return mw_operator_row((int)operator_)->place == MW_PLACE_BLOCK;
}

/* Where the gradients of weights are passes of their own, sums have no products beside them. */
bool
mw_sizing_tensor_overlap(const struct mw_sizing *sizing)
{
    return sizing->tp > 1 && sizing->hardware->tensor_overlap &&
           !mw_settings_weights_later(&sizing->settings);
}

/* Pieces are of whole products of all tokens: no experts, who have tokens of their own. */
bool
mw_sizing_tensor_pieces(const struct mw_sizing *sizing)
{
    return mw_sizing_tensor_overlap(sizing) && sizing->shape.sequence_parallel &&
           sizing->hardware->tensor_pieces && !sizing->model->experts &&
           sizing->tokens % sizing->tp == 0 && !mw_settings_keeps_whole(&sizing->settings) &&
           !mw_settings_layer_order(&sizing->settings);
}

bool
mw_sizing_in_pieces(const struct mw_sizing *sizing, enum mw_operator operator_, bool backward)
{
    return mw_sizing_tensor_pieces(sizing) && is_of_layers(operator_) &&
           (mw_sizing_all_reduces(operator_, false) ||
            (!backward && mw_sizing_all_reduces(operator_, true)));
}

bool
mw_sizing_tensor_parts(const struct mw_sizing *sizing)
{
    return sizing->tp > 1 && sizing->shape.sequence_parallel && sizing->hardware->tensor_parts &&
           !sizing->hardware->tensor_overlap && !mw_settings_weights_later(&sizing->settings);
}

bool
mw_sizing_scatters_sum(const struct mw_sizing *sizing, enum mw_operator operator_, bool backward)
{
    bool overlaps = backward && mw_sizing_tensor_overlap(sizing) && sizing->shape.sequence_parallel;

    return operator_ != MW_OPERATOR_LOSS &&
           (overlaps || mw_sizing_tensor_parts(sizing) || mw_sizing_tensor_pieces(sizing));
}

bool
mw_sizing_gathers_result(const struct mw_sizing *sizing, enum mw_operator operator_)
{
    return (mw_sizing_tensor_parts(sizing) || mw_sizing_tensor_pieces(sizing)) &&
           mw_sizing_all_reduces(operator_, true);
}

bool
mw_sizing_sums_norm(const struct mw_sizing *sizing, const struct mw_operator_info *info)
{
    return mw_sizing_tensor_parts(sizing) && mw_operator_row((int)info->operator_)->norms &&
           info->trained && info->params;
}

int64_t
mw_sizing_norm_bytes(const struct mw_sizing *sizing, const struct mw_operator_info *info)
{
    return info->params * sizing->element_bytes;
}

bool
mw_sizing_weights_later(const struct mw_sizing *sizing, const struct mw_operator_info *info)
{
    return mw_settings_weights_later(&sizing->settings) && info->trained && info->params &&
           is_of_layers(info->operator_);
}

bool
mw_sizing_scatters_stages(const struct mw_sizing *sizing)
{
    return sizing->tp > 1 && sizing->pp > 1 && sizing->hardware->stage_scatter &&
           !sizing->shape.sequence_parallel;
}

bool
mw_sizing_splits_backward(const struct mw_sizing *sizing, const struct mw_operator_info *info)
{
    return mw_sizing_tensor_overlap(sizing) && info->trained && is_of_layers(info->operator_) &&
           mw_sizing_all_reduces(info->operator_, true);
}

bool
mw_sizing_gathers_gradient(const struct mw_sizing *sizing, enum mw_operator operator_)
{
    return mw_sizing_scatters_sum(sizing, operator_, true) &&
           mw_sizing_all_reduces(operator_, false);
}

bool
mw_sizing_gathers_input(const struct mw_sizing *sizing, const struct mw_operator_info *info)
{
    bool again = mw_sizing_tensor_parts(sizing) && info->trained && is_of_layers(info->operator_) &&
                 mw_sizing_all_reduces(info->operator_, true);

    return again || (sizing->shape.sequence_parallel && mw_sizing_splits_backward(sizing, info));
}

/* A row of a tensor: an output of its largest product with its bias; in a gated MLP one of the gate
 * and one of the product beside it; in an embedding one token or position. */
static void
find_rows(const struct mw_sizing *sizing, const struct mw_class_info *class,
          struct mw_unit_tensor *tensor)
{
    const struct mw_operator_info *info =
        &class->operators[mw_sizing_largest_operator(class, tensor->first, tensor->count)];
    int64_t rows = info->product_count ? info->products[0].n : 0;

    if (info->operator_ == MW_OPERATOR_EMBEDDING)
        rows = info->params / sizing->model->hidden;
    else if (info->operator_ == MW_OPERATOR_MLP_UP || info->operator_ == MW_OPERATOR_EXPERTS_UP)
        rows /= sizing->model->mlp_matrices - 1;
    tensor->rows = CLAMP(rows, 1, MAX(1, info->params));
    tensor->row_params = info->params / tensor->rows;
}

static bool
uses_drives(const struct mw_settings *settings)
{
    for (int state = 0; state < MW_STATE_ACTIVATIONS; state++)
        if (mw_placement_has(&settings->placement[state], MW_TIER_NVME))
            return true;
    return false;
}

/* Cuts a tensor into as many parts as keep each within the limit, or leaves it whole. */
static void
cut_tensor(const struct mw_sizing *sizing, struct mw_unit_tensor *tensor, int64_t limit,
           int64_t grain)
{
    tensor->tiles = CLAMP(mw_divide_up(tensor->params, limit), 1, tensor->rows);
    tensor->tile_params = mw_part_rows_max(tensor->rows, tensor->tiles) * tensor->row_params +
                          tensor->params - tensor->rows * tensor->row_params;
    tensor->shard_params = mw_round_up(mw_divide_up(tensor->tile_params, tensor->ranks),
                                       mw_dtype_row(tensor->dtype)->block_elements);
    tensor->shard_stride = mw_round_up(tensor->shard_params, grain);
}

/* This many elements are whole blocks of their type, and where drives hold them fill a page: parts
 * and chunks begin at such multiples. */
static int64_t
grain_of(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor)
{
    const struct mw_dtype_traits *type = mw_dtype_row(tensor->dtype);

    if (!uses_drives(&sizing->settings))
        return type->block_elements;
    /* The fewest blocks whose bytes are whole pages: block_bytes may be odd. */
    int64_t blocks = MW_SLOT_ALIGNMENT_BYTES;
    while (blocks % 2 == 0 && blocks / 2 * type->block_bytes % MW_SLOT_ALIGNMENT_BYTES == 0)
        blocks /= 2;
    return blocks * type->block_elements;
}

bool
mw_sizing_is_spread(const struct mw_class_info *class, const struct mw_unit_tensor *tensor)
{
    return mw_operator_row(class->operators[tensor->first].operator_)->part_of != MW_OPERATOR_NONE;
}

static void
cut_unit(struct mw_sizing *sizing, struct mw_class_info *class, struct mw_unit *unit, int64_t limit)
{
    int largest = mw_sizing_largest_operator(class, unit->first, unit->count);

    for (int t = 0; t < unit->tensor_count; t++) {
        struct mw_unit_tensor *tensor = &class->tensors[unit->first_tensor + t];
        bool tiled = largest >= tensor->first && largest < tensor->first + tensor->count;
        tensor->ranks =
            mw_sizing_is_spread(class, tensor) ? sizing->dp / sizing->spread : sizing->shards;
        find_rows(sizing, class, tensor);
        cut_tensor(sizing, tensor, tiled ? limit : INT64_MAX, grain_of(sizing, tensor));
        if (tiled) {
            unit->tiled = t;
            unit->tiles = tensor->tiles;
        }
    }
}

static int64_t
experts_bytes(const struct mw_sizing *sizing)
{
    int64_t rows = mw_model_expert_rows(sizing->model, &sizing->shape);

    return sizing->element_bytes * mw_model_sent_rows(&sizing->shape, rows) * sizing->model->hidden;
}

/* Of a rank's tokens. */
static int64_t
keys_values_bytes(const struct mw_sizing *sizing)
{
    const struct mw_model *model = sizing->model;
    int64_t heads = mw_divide_up(model->kv_lora ? model->heads : model->kv_heads, sizing->tp);

    return sizing->element_bytes * sizing->tokens * heads * (model->head_dim + model->value_dim);
}

static int64_t
context_bytes(const struct mw_sizing *sizing, bool before)
{
    const struct mw_model *model = sizing->model;
    int64_t heads = sizing->element_bytes * sizing->tokens * mw_divide_up(model->heads, sizing->tp);

    return before ? heads * model->head_dim + keys_values_bytes(sizing) : heads * model->value_dim;
}

int64_t
mw_sizing_exchange_bytes(const struct mw_sizing *sizing, enum mw_operator operator_, bool before)
{
    const struct mw_operator_row *row = mw_operator_row((int)operator_);

    if (before ? row->takes_tokens : row->returns_tokens)
        return mw_divide_up(experts_bytes(sizing), sizing->shape.whole_experts ? 1 : sizing->tp);
    return row->attends && sizing->cp > 1 && sizing->settings.cp_kind == MW_CONTEXT_ALL_TO_ALL
               ? context_bytes(sizing, before)
               : 0;
}

int64_t
mw_sizing_expert_slices_bytes(const struct mw_sizing *sizing, enum mw_operator operator_,
                              bool before)
{
    const struct mw_operator_row *row = mw_operator_row((int)operator_);

    return sizing->tp > 1 && !sizing->shape.whole_experts &&
                   (before ? row->takes_tokens : row->returns_tokens)
               ? experts_bytes(sizing)
               : 0;
}

/* No more than all visits that one rank's experts can get: a token visits each once. */
double
mw_sizing_imbalance(const struct mw_sizing *sizing)
{
    struct mw_shape shape = sizing->shape;

    if (sizing->ep == 1 || shape.capacity_factor > 0)
        return 1;
    shape.all_visit_one = true;
    return MIN(sizing->settings.expert_imbalance,
               (double)mw_model_expert_room(sizing->model, &shape) /
                   (double)mw_model_expert_rows(sizing->model, &shape));
}

static bool
has_spread_experts(const struct mw_class_info *class)
{
    for (int i = 0; i < class->operator_count; i++)
        if (class->operators[i].operator_ == MW_OPERATOR_EXPERTS_UP)
            return true;
    return false;
}

double
mw_sizing_expert_work(const struct mw_sizing *sizing, const struct mw_class_info *class,
                      enum mw_operator operator_)
{
    const struct mw_model *model = sizing->model;
    double shared = (double)model->shared_expert_ffn;
    double routed = (double)mw_model_visits(model, sizing->shape.gate) * (double)model->expert_ffn;
    double more = mw_sizing_imbalance(sizing) - 1;

    if (operator_ == MW_OPERATOR_EXPERTS_UP || operator_ == MW_OPERATOR_EXPERTS_DOWN)
        return 1 + more;
    return operator_ == MW_OPERATOR_MLP_ACT && has_spread_experts(class)
               ? 1 + more * routed / (shared + routed)
               : 1;
}

bool
mw_sizing_rings(const struct mw_sizing *sizing, enum mw_operator operator_)
{
    return sizing->cp > 1 && sizing->settings.cp_kind == MW_CONTEXT_RING &&
           mw_operator_row((int)operator_)->attends;
}

int64_t
mw_sizing_ring_bytes(const struct mw_sizing *sizing, bool backward)
{
    return (backward ? 2 : 1) * sizing->cp * keys_values_bytes(sizing);
}

/* Trained parameters of experts that are spread. */
static int64_t
count_spread(const struct mw_sizing *sizing)
{
    int64_t params = 0;

    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL && sizing->spread > 1; c++)
        for (int t = 0; t < sizing->classes[c].tensor_count; t++) {
            const struct mw_unit_tensor *tensor = &sizing->classes[c].tensors[t];
            if (tensor->trained && mw_sizing_is_spread(&sizing->classes[c], tensor))
                params += sizing->classes[c].blocks * tensor->params;
        }
    return params;
}

/* Of trained parameters those whose state a rank has. */
static int64_t
state_params(const struct mw_sizing *sizing)
{
    int64_t spread = sizing->spread_params, others = sizing->trained_params - spread;

    return sizing->optimizer_partitioned
               ? others / sizing->shards + spread / (sizing->dp / sizing->spread)
               : sizing->trained_params;
}

/* T tiles cut the layers' largest tensor; smaller ones, and the ends of the model, are cut only
 * into as many parts as keep them within the same buffer; where there is no layer, not at all. */
static void
cut_tiles(struct mw_sizing *sizing)
{
    int64_t largest = 1;

    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++)
        for (int t = 0; t < sizing->classes[c].tensor_count; t++)
            largest = MAX(largest, sizing->classes[c].tensors[t].params);
    int64_t limit = sizing->layers ? mw_divide_up(largest, sizing->settings.tiles) : INT64_MAX;

    for (int c = 0; c < MW_CLASS_COUNT; c++)
        for (int u = 0; u < sizing->classes[c].unit_count; u++)
            cut_unit(sizing, &sizing->classes[c], &sizing->classes[c].units[u], limit);
}

int64_t
mw_sizing_logits_parts(const struct mw_sizing *sizing)
{
    enum mw_class class = mw_sizing_tied(sizing) ? MW_CLASS_HEAD : MW_CLASS_TAIL;

    return sizing->classes[class].units[0].tiles;
}

int64_t
mw_sizing_token_parts(const struct mw_sizing *sizing, enum mw_operator operator_)
{
    return mw_operator_row(operator_)->in_token_chunks ? sizing->settings.logits_chunks : 1;
}

/* Layers of kinds that take turns, and have other units, follow each other kind by kind. */
enum mw_class
mw_sizing_layer_class(const struct mw_sizing *sizing, int64_t layer)
{
    int kind = MW_CLASS_LAYERS;

    if (sizing->model->by_turns) {
        for (; layer >= sizing->classes[kind].blocks; kind++)
            layer -= sizing->classes[kind].blocks;
        return (enum mw_class)kind;
    }
    return (enum mw_class)(
        MW_CLASS_LAYERS + mw_model_block_kind(sizing->model, mw_sizing_model_layer(sizing, layer)));
}

uint32_t
mw_sizing_layer_tensor(const struct mw_sizing *sizing, int64_t layer)
{
    const struct mw_class_info *classes = sizing->classes;
    int64_t tensors = classes[MW_CLASS_HEAD].blocks * classes[MW_CLASS_HEAD].tensor_count;

    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL && sizing->model->by_turns; c++) {
        int64_t blocks = MIN(layer, classes[c].blocks);
        tensors += classes[c].tensor_count * blocks;
        layer -= blocks;
    }
    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT && !sizing->model->by_turns; kind++)
        tensors += classes[MW_CLASS_LAYERS + kind].tensor_count *
                   count_blocks(sizing, (enum mw_block_kind)kind, layer);
    return (uint32_t)tensors;
}

enum mw_class
mw_sizing_locate(const struct mw_sizing *sizing, uint32_t tensor, int32_t *layer, int *index)
{
    const struct mw_class_info *classes = sizing->classes;
    int64_t rest = tensor, base = 0;

    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        int64_t per_block = classes[c].tensor_count, all = per_block * classes[c].blocks;
        if (rest < all) {
            *layer = mw_class_is_of_layers(c) ? base + rest / per_block : -1;
            *index = rest % per_block;
            return *layer < 0 ? (enum mw_class)c : mw_sizing_layer_class(sizing, *layer);
        }
        rest -= all;
        base += mw_class_is_of_layers(c) ? classes[c].blocks : 0;
    }
    g_assert_not_reached();
}

int64_t
mw_sizing_reduced_bytes(const struct mw_sizing *sizing, int64_t planned)
{
    return (int64_t)mw_hardware_reduced_bytes(sizing->hardware, (double)sizing->element_bytes,
                                              (double)planned);
}

bool
mw_sizing_sums_passing(const struct mw_sizing *sizing)
{
    return mw_settings_layer_order(&sizing->settings) && sizing->gradients_summed &&
           sizing->gradients_partitioned;
}

bool
mw_sizing_tied(const struct mw_sizing *sizing)
{
    return sizing->model->tied_embedding && sizing->pp == 1 &&
           sizing->classes[MW_CLASS_HEAD].blocks;
}

uint32_t
mw_sizing_copied_tensor(const struct mw_sizing *sizing)
{
    bool tail = sizing->stage + 1 == sizing->pp;
    const struct mw_class_info *class = &sizing->classes[tail ? MW_CLASS_TAIL : MW_CLASS_HEAD];

    for (int t = 0; sizing->copied_params && class->blocks && t < class->tensor_count; t++) {
        const struct mw_unit_tensor *tensor = &class->tensors[t];
        int largest = mw_sizing_largest_operator(class, tensor->first, tensor->count);
        enum mw_operator operator_ = class->operators[largest].operator_;
        if (operator_ == MW_OPERATOR_EMBEDDING || operator_ == MW_OPERATOR_LOGITS)
            return tensor->trained
                       ? (tail ? mw_sizing_layer_tensor(sizing, sizing->layers) : 0) + (uint32_t)t
                       : MW_NONE;
    }
    return MW_NONE;
}

int64_t
mw_sizing_param_bytes(const struct mw_unit_tensor *tensor, int64_t elements)
{
    return mw_dtype_bytes(tensor->dtype, elements);
}

const struct mw_unit_tensor *
mw_sizing_tensor(const struct mw_sizing *sizing, uint32_t tensor)
{
    int32_t layer;
    int index;
    enum mw_class class = mw_sizing_locate(sizing, tensor, &layer, &index);

    return &sizing->classes[class].tensors[index];
}

enum mw_operator
mw_sizing_tensor_operator(const struct mw_sizing *sizing, uint32_t tensor)
{
    int32_t layer;
    int index;
    const struct mw_class_info *class =
        &sizing->classes[mw_sizing_locate(sizing, tensor, &layer, &index)];
    const struct mw_unit_tensor *it = &class->tensors[index];
    int largest = mw_sizing_largest_operator(class, it->first, it->count);
    enum mw_operator operator_ = class->operators[largest].operator_;
    bool tied = operator_ == MW_OPERATOR_LOGITS && mw_sizing_tied(sizing);
    return tied ? MW_OPERATOR_PROJECTION : operator_;
}

/* --- the whole ------------------------------------------------------------------------------ */

/* A pass forward alone trains nothing, and runs without adapters. */
static struct mw_trained
trained_of(const struct mw_settings *settings)
{
    return settings->forward_only ? (struct mw_trained){.frozen = UINT32_MAX} : settings->trained;
}

struct mw_shape
mw_sizing_shape(const struct mw_model *model, const struct mw_settings *settings,
                const struct mw_hardware *hardware)
{
    struct mw_shape shape;

    memset(&shape, 0, sizeof shape); /* walks are remembered by all of its bytes */
    shape.sequences =
        (int64_t)(settings->micro_batch * (double)mw_settings_sharers(settings) + 0.5);
    shape.seq = settings->seq;
    shape.tp = settings->tp;
    shape.sequence_parallel = settings->sequence_parallel == 1;
    shape.cp = settings->cp;
    shape.context = (enum mw_context)settings->cp_kind;
    shape.ep = settings->ep;
    shape.whole_experts = mw_settings_whole_experts(settings);
    shape.gate = settings->gate;
    shape.capacity_factor = mw_settings_capacity_factor(settings);
    shape.router_aux_loss = mw_settings_router_aux_loss(settings, model);
    shape.router_z_loss = mw_settings_router_z_loss(settings, model);
    shape.all_visit_one = hardware && hardware->memory_use.experts_whole;
    shape.expert_imbalance = settings->expert_imbalance;
    shape.flash_attention = !hardware || hardware->gpu_flash_attention;
    shape.scores_again = settings->scores_again == 1;
    shape.dtype = settings->dtype;
    shape.trained = trained_of(settings);
    shape.frozen_dtype = settings->frozen_dtype;
    shape.product_dtype = settings->matmul_dtype;
    shape.kept_as = settings->kept_as;
    return shape;
}

int64_t
mw_sizing_node_group(const struct mw_settings *settings)
{
    int64_t slices = MIN(settings->tp, settings->gpus_per_node);

    return MIN(mw_settings_stage_ranks(settings, 0), MAX(1, settings->gpus_per_node / slices));
}

int64_t
mw_sizing_shard_group(const struct mw_settings *settings)
{
    return settings->shard_group == MW_SHARD_ALL    ? mw_settings_stage_ranks(settings, 0)
           : settings->shard_group == MW_SHARD_NODE ? mw_sizing_node_group(settings)
                                                    : settings->shard_group;
}

bool
mw_sizing_has_replicas(const struct mw_settings *settings)
{
    return mw_sizing_shard_group(settings) < mw_settings_stage_ranks(settings, 0);
}

/* Most ranks of a stage that a node has, where they need not fill nodes. */
static int64_t
ranks_in_one_node(const struct mw_settings *settings, int64_t stage)
{
    int64_t first = mw_settings_stage_rank(settings, stage), of_node = settings->gpus_per_node;
    int64_t end = first + mw_settings_stage_ranks(settings, stage), most = 0;

    for (int64_t node = first / of_node; node * of_node < end; node++)
        most = MAX(most, MIN(end, (node + 1) * of_node) - MAX(first, node * of_node));
    return most;
}

/* The states of a replica that takes turns are partitioned over its stage, if they are. */
static void
set_turns(struct mw_sizing *sizing, int64_t stage)
{
    sizing->dp = sizing->shards = mw_settings_stage_ranks(&sizing->settings, stage);
    sizing->dp_ranks_per_node = ranks_in_one_node(&sizing->settings, stage);
}

static void
set_ranks(struct mw_sizing *sizing, int64_t stage)
{
    const struct mw_settings *settings = &sizing->settings;

    sizing->ranks_per_node = settings->gpus_per_node;
    sizing->ranks = settings->nodes * settings->gpus_per_node;
    sizing->tp = settings->tp;
    sizing->pp = settings->pp;
    sizing->dp = mw_settings_stage_ranks(settings, stage);
    sizing->cp = settings->cp;
    sizing->ep = settings->ep;
    sizing->spread = mw_settings_spread(settings);
    sizing->tp_ranks_per_node = MIN(sizing->tp, sizing->ranks_per_node);
    sizing->dp_ranks_per_node = mw_sizing_node_group(settings);
    sizing->shards = mw_sizing_shard_group(settings);
    if (mw_settings_takes_turns(settings))
        set_turns(sizing, stage);
    sizing->first_rank = mw_settings_stage_rank(settings, stage);
    sizing->replicas = sizing->dp / sizing->shards;
    sizing->shards_per_node = MIN(sizing->shards, sizing->dp_ranks_per_node);
    sizing->replicas_per_node = sizing->dp_ranks_per_node / sizing->shards_per_node;
    sizing->shape = mw_sizing_shape(sizing->model, settings, sizing->hardware);
    sizing->sequences = sizing->shape.sequences;
    sizing->tokens = sizing->sequences * settings->seq / sizing->cp;
}

static void
set_stage(struct mw_sizing *sizing, int64_t stage)
{
    const struct mw_settings *s = &sizing->settings;
    int64_t layers = sizing->model->layers;

    sizing->stage = stage;
    sizing->stretches = mw_settings_stretches(s);
    sizing->layers = 0;
    sizing->names_recomputed = !mw_layer_set_is_empty(&s->recompute_set);
    for (int64_t k = 0; k < sizing->stretches; k++) {
        int64_t number = k * s->pp + stage;
        int64_t begin = mw_settings_stretch_begin(s, layers, number);
        sizing->stretch[k] = (struct mw_stretch){sizing->layers, begin};
        sizing->layers += mw_settings_stretch_begin(s, layers, number + 1) - begin;
    }
    sizing->stretch[sizing->stretches] = (struct mw_stretch){sizing->layers, layers};
    sizing->micro_batches_in_flight = mw_sizing_passes_in_flight(sizing);
}

/* A run that ends before the delay begins has none. */
static void
drop_late_delay(struct mw_sizing *sizing)
{
    struct mw_settings *s = &sizing->settings;
    double step_tokens = (double)sizing->tokens * sizing->dp * mw_sizing_micro_batches(sizing);

    if (s->tokens > 0 && s->dpu_start * step_tokens >= s->tokens)
        s->dpu_start = MW_AUTO;
}

/* Whether the software writes fp32 gradients to the drives, which the update reads with its state:
 * DeepSpeed's ZeRO-Infinity does (deepspeed/runtime/swap_tensor/optimizer_utils.py). */
static bool
swaps_gradients(const struct mw_sizing *sizing)
{
    return mw_placement_has(&sizing->settings.placement[MW_STATE_GRADIENTS], MW_TIER_NVME) &&
           sizing->hardware->swaps_gradients && sizing->gradients_partitioned;
}

static void
set_strategy(struct mw_sizing *sizing)
{
    const struct mw_strategy_traits *strategy = mw_strategy_traits(sizing->settings.strategy);
    bool paper20 = sizing->settings.layout == MW_LAYOUT_PAPER20;

    sizing->params_partitioned = strategy->state[MW_STATE_PARAMETERS].partitioned;
    sizing->gradients_partitioned = strategy->state[MW_STATE_GRADIENTS].partitioned;
    sizing->optimizer_partitioned = strategy->state[MW_STATE_OPTIMIZER].partitioned;
    sizing->element_bytes = mw_dtype_element_bytes(sizing->settings.dtype);
    sizing->gradients_summed =
        paper20 || (mw_sizing_micro_batches(sizing) > 1 && !mw_settings_stashes(&sizing->settings));
    bool at_end = sizing->optimizer_partitioned ? sizing->hardware->reduces_at_end
                                                : sizing->hardware->all_reduces_at_end;
    sizing->reduced_at_end =
        at_end && sizing->dp > 1 && sizing->replicas == 1 &&
        !mw_settings_update_beside(&sizing->settings) && !mw_settings_stashes(&sizing->settings) &&
        !mw_settings_asynchronous(&sizing->settings) && !sizing->gradients_partitioned;
    sizing->gradients_swapped = swaps_gradients(sizing);
    sizing->sums_on_host = sizing->gradients_swapped && mw_sizing_micro_batches(sizing) > 1 &&
                           !mw_sizing_sums_passing(sizing);
    sizing->sum_dtype = sizing->gradients_summed &&
                                (paper20 || sizing->hardware->memory_use.sum_type == MW_SUM_FP32)
                            ? MW_DTYPE_FP32
                            : sizing->settings.dtype;
    sizing->sum_element_bytes = mw_dtype_element_bytes(sizing->sum_dtype);
    sizing->gradient_element_bytes = sizing->gradients_swapped
                                         ? mw_dtype_element_bytes(MW_DTYPE_FP32)
                                         : sizing->sum_element_bytes;
    sizing->gradient_rest_bytes = sizing->gradient_element_bytes + (paper20 ? 2 : 0);
}

/* All else, behind the settings, is zero but stretches and operators, which take most of the room:
 * a search sizes thousands. */
static struct mw_sizing *
blank_sizing(const struct mw_model *model, const struct mw_hardware *hardware,
             const struct mw_settings *settings)
{
    struct mw_sizing *sizing = g_new(struct mw_sizing, 1);
    char *bytes = (char *)sizing;
    size_t behind_settings = offsetof(struct mw_sizing, settings) + sizeof sizing->settings;
    size_t behind_stretches = offsetof(struct mw_sizing, stretch) + sizeof sizing->stretch;

    sizing->model = model;
    sizing->hardware = hardware;
    sizing->settings = *settings;
    memset(bytes + behind_settings, 0, offsetof(struct mw_sizing, stretch) - behind_settings);
    memset(bytes + behind_stretches, 0, offsetof(struct mw_sizing, classes) - behind_stretches);
    for (int c = 0; c < MW_CLASS_COUNT; c++)
        memset(&sizing->classes[c], 0, offsetof(struct mw_class_info, operators));
    return sizing;
}

/* Cuts the model into parts; nothing is placed yet. */
static struct mw_sizing *
cut_model(const struct mw_model *model, const struct mw_hardware *hardware,
          const struct mw_settings *settings, const struct mw_model_walk *walk, int64_t stage)
{
    struct mw_sizing *sizing = blank_sizing(model, hardware, settings);

    if (sizing->settings.tiles == MW_AUTO)
        sizing->settings.tiles = 1;
    set_ranks(sizing, stage);
    set_stage(sizing, stage);
    sizing->settings.logits_chunks =
        mw_model_logits(model) ? CLAMP(sizing->settings.logits_chunks, 1, sizing->tokens) : 1;
    drop_late_delay(sizing);
    set_strategy(sizing);
    if (sizing->pp > 1 && model->tied_embedding) {
        struct mw_operators copying;
        sizing->copied_params = mw_model_copying_tail(model, &sizing->shape, &copying);
        fill_classes(sizing, walk, &copying);
    } else {
        fill_classes(sizing, walk, &walk->tail);
    }
    cut_tiles(sizing);
    sizing->spread_params = count_spread(sizing);
    if (sizing->settings.optimizer_chunk == MW_AUTO) {
        int64_t shard = state_params(sizing);
        sizing->settings.optimizer_chunk =
            MAX(CLAMP(shard / 16, 1 << 20, 32 << 20), shard / CHUNKS_MOST);
    }
    mw_sizing_sum_shards(sizing);
    return sizing;
}

static void
place_states(struct mw_sizing *sizing)
{
    mw_sizing_place_tensors(sizing);
    mw_sizing_place_checkpoints(sizing);
    mw_sizing_cut_chunks(sizing);
}

/* Places nothing if there are too many ops anyway. */
static int64_t
place_and_count(struct mw_sizing *sizing, int64_t most)
{
    int64_t least = mw_sizing_least_ops(sizing);

    if (least > most)
        return least;
    place_states(sizing);
    return mw_sizing_built_ops(sizing);
}

int64_t
mw_sizing_ops_of(const struct mw_model *model, const struct mw_hardware *hardware,
                 const struct mw_settings *settings, int64_t most)
{
    struct mw_shape shape = mw_sizing_shape(model, settings, hardware);
    struct mw_model_walk walk;
    int64_t ops = 0;

    mw_model_walk(model, &shape, &walk);
    for (int64_t stage = 0; stage < settings->pp && ops <= most; stage++) {
        struct mw_sizing *sizing = cut_model(model, hardware, settings, &walk, stage);
        ops += place_and_count(sizing, most - ops);
        mw_sizing_free(sizing);
    }
    return ops;
}

/* Sizes one stage of a pipeline, or the whole model.  Adds its ops to *ops; NULL: too many ops, or
 * *error. */
static struct mw_sizing *
size_stage(const struct mw_model *model, const struct mw_hardware *hardware,
           const struct mw_settings *settings, const struct mw_model_walk *walk, int64_t stage,
           int64_t *ops, GError **error)
{
    int64_t most = SIZED_MOST * settings->ops_max;
    struct mw_sizing *sizing = cut_model(model, hardware, settings, walk, stage);
    bool good = mw_sizing_check_chunks(sizing, error);

    if (good)
        *ops += place_and_count(sizing, most - *ops);
    if (!good || *ops > most || !mw_sizing_check_uses(sizing, error)) {
        mw_sizing_free(sizing);
        return NULL;
    }
    mw_sizing_set_buffers(sizing);
    mw_sizing_sum_ledger(sizing);
    mw_sizing_lengthen_rings(sizing);
    return sizing;
}

const struct mw_sizing *
mw_sizing_fullest(const struct mw_sizing *first)
{
    const struct mw_sizing *fullest = first;

    for (const struct mw_sizing *stage = first->next_stage; stage; stage = stage->next_stage) {
        double lack = mw_sizing_lack(stage), most = mw_sizing_lack(fullest);
        if (lack > most || (lack == most && mw_sizing_peak(stage, MW_TIER_GPU) >
                                                mw_sizing_peak(fullest, MW_TIER_GPU)))
            fullest = stage;
    }
    return fullest;
}

/* The first stage's verdict covers all stages: whether they fit, and which of them lacks most. */
static void
add_stage(struct mw_sizing *first, struct mw_sizing *stage)
{
    struct mw_sizing *last = first;

    while (last->next_stage)
        last = last->next_stage;
    last->next_stage = stage;
    if (stage->fits || (!first->fits && mw_sizing_lack(first) >= mw_sizing_lack(stage)))
        return;
    first->fits = false;
    first->limiting_tier = stage->limiting_tier;
    first->short_bytes = stage->short_bytes;
    first->fragmentation = stage->fragmentation;
}

struct mw_sizing *
mw_sizing_new(const struct mw_model *model, const struct mw_hardware *hardware,
              const struct mw_settings *settings, GError **error)
{
    struct mw_model_walk walk;

    if (!mw_sizing_check(model, hardware, settings, &walk, error))
        return NULL;

    struct mw_sizing *sizing = NULL, *stage = NULL;
    int64_t ops = 0, most = SIZED_MOST * settings->ops_max;

    for (int64_t s = 0; s < settings->pp; s++) {
        stage = size_stage(model, hardware, settings, &walk, s, &ops, error);
        if (!stage)
            break;
        if (sizing)
            add_stage(sizing, stage);
        else
            sizing = stage;
    }
    /* A plan that does not fit is not built: that is the answer. */
    if (stage && (!sizing->fits || ops <= settings->ops_max))
        return sizing;
    mw_sizing_free(sizing);
    if (!stage && ops <= most)
        return NULL;
    if (error) /* a search needs no advice */
        mw_sizing_refuse_ops(model, hardware, settings, settings, NULL, error);
    return NULL;
}

static bool
have_as_many_layers(const struct mw_model *model, const struct mw_settings *s, int64_t one,
                    int64_t other)
{
    int64_t stretches = mw_settings_stretches(s), layers = model->layers;
    bool alike = true;

    for (int64_t k = 0; k < stretches && alike; k++) {
        int64_t a = k * s->pp + one, b = k * s->pp + other;
        alike =
            mw_settings_stretch_begin(s, layers, a + 1) - mw_settings_stretch_begin(s, layers, a) ==
            mw_settings_stretch_begin(s, layers, b + 1) - mw_settings_stretch_begin(s, layers, b);
    }
    return alike;
}

/* Whether stages between the first and the last that have as many layers differ in nothing but the
 * micro-batches in flight. */
static bool
has_like_stages(const struct mw_model *model, const struct mw_settings *settings)
{
    return mw_layer_set_is_empty(&settings->recompute_set) && !mw_settings_takes_turns(settings) &&
           mw_model_count_blocks(model, mw_model_block_kind(model, 0), 0, model->layers) ==
               model->layers;
}

/* Whether an earlier stage, of which no fewer micro-batches are in flight, stands for it. */
static bool
is_stood_for(const struct mw_model *model, const struct mw_settings *settings, int64_t stage)
{
    int64_t pp = settings->pp;

    for (int64_t s = 1; s < stage && stage + 1 < pp; s++)
        if (have_as_many_layers(model, settings, s, stage))
            return has_like_stages(model, settings);
    return false;
}

int64_t
mw_sizing_stands_for(const struct mw_sizing *sizing)
{
    int64_t stages = 1;

    if (!sizing->stage || !has_like_stages(sizing->model, &sizing->settings))
        return 1;
    for (int64_t s = sizing->stage + 1; s + 1 < sizing->pp; s++)
        stages += have_as_many_layers(sizing->model, &sizing->settings, s, sizing->stage);
    return stages;
}

struct mw_sizing *
mw_sizing_new_distinct(const struct mw_model *model, const struct mw_hardware *hardware,
                       const struct mw_settings *settings, GError **error)
{
    struct mw_sizing *first = NULL, *stage = NULL;
    struct mw_model_walk walk;
    int64_t ops = 0;

    if (!mw_sizing_check(model, hardware, settings, &walk, error))
        return NULL;
    for (int64_t s = 0; s < settings->pp; s++) {
        if (is_stood_for(model, settings, s))
            continue;
        stage = size_stage(model, hardware, settings, &walk, s, &ops, error);
        if (!stage)
            break;
        if (first)
            add_stage(first, stage);
        else
            first = stage;
    }
    if (stage)
        return first;
    mw_sizing_free(first);
    return NULL;
}

void
mw_sizing_free(struct mw_sizing *sizing)
{
    if (!sizing)
        return;
    mw_sizing_free(sizing->next_stage);
    g_free(sizing->param_home);
    g_free(sizing->gradient_home);
    g_free(sizing->checkpoint_home);
    g_free(sizing->runs);
    g_free(sizing->run_chunks);
    g_free(sizing);
}

/* --- with fewer micro-batches ----------------------------------------------------------------- */

void
mw_sizing_free_fewer(struct mw_sizing *fewer)
{
    if (!fewer)
        return;
    mw_sizing_free_fewer(fewer->next_stage);
    g_free(fewer);
}

/* Slots are for the micro-batches that a stage keeps, where these do not grow with all. */
struct mw_sizing *
mw_sizing_fewer(const struct mw_sizing *sizing, int64_t micro_batches)
{
    const struct mw_settings *s = &sizing->settings;
    struct mw_sizing *first = NULL, **next = &first;

    if (sizing->pp == 1 || mw_settings_takes_turns(s) || mw_settings_no_flush(s) ||
        mw_settings_layer_order(s) || mw_schedule_row(s->schedule)->all_forward ||
        micro_batches >= s->grad_accum ||
        micro_batches <=
            MAX((int64_t)sizing->pp * sizing->stretches, (int64_t)sizing->micro_batches_in_flight))
        return NULL;
    for (const struct mw_sizing *stage = sizing; stage; stage = stage->next_stage) {
        *next = g_memdup2(stage, sizeof *stage);
        (*next)->settings.grad_accum = micro_batches;
        (*next)->next_stage = NULL;
        next = &(*next)->next_stage;
    }
    return first;
}
