/* The table of buffers: how many slots of each kind a step needs, and how large they are. */
#include <glib.h>
#include <math.h>
#include <string.h>

#include "plan/optimizers.h"
#include "base/arithmetic.h"
#include "planner/sizing/internal.h"

/* Two slots let the next micro-batch travel while a stage computes with this one. */
#define STAGE_RING 2
/* Two slots let one checkpoint travel while the next is written or used. */
#define CHECKPOINT_RING 2
/* Two slots let a chunk's gradients or parameters travel while another is updated on the GPU. */
#define GPU_UPDATE_RING 2
/* What a drive writes as one block: records are aligned to it. */
#define BLOCK_BYTES 4096
/* The fp32 sum that fused attention keeps of a token and head. */
#define SUM_BYTES 4
/* Step, data cursor, random state, loss scale, checksum: less than a block. */
#define COMMIT_HEADER_BYTES BLOCK_BYTES
/* Place, size, checksum and name of an extent, 8 bytes each. */
#define EXTENT_ENTRY_BYTES 32

/* Of the units' tiled tensors, and of their other tensors. */
#define OF_TENSORS(kind, tier_, purpose_)                                                          \
    [MW_BUFFER_##kind] = {.tier = MW_TIER_##tier_, .purpose = MW_PURPOSE_##purpose_},              \
    [MW_BUFFER_##kind##_SMALL] = {.tier = MW_TIER_##tier_, .purpose = MW_PURPOSE_##purpose_}

/* What the rows are; counts and bytes are set below. */
static const struct mw_buffer rows[MW_BUFFER_KIND_COUNT] = {
    [MW_BUFFER_PARAMETERS] = {.tier = MW_TIER_COUNT,
                              .purpose = MW_PURPOSE_PARAMETERS,
                              .persistent = true},
    [MW_BUFFER_GRADIENTS] = {.tier = MW_TIER_COUNT, .purpose = MW_PURPOSE_GRADIENTS},
    [MW_BUFFER_SUMS] = {.tier = MW_TIER_CPU, .purpose = MW_PURPOSE_GRADIENTS},
    [MW_BUFFER_CHECKPOINTS] = {.tier = MW_TIER_COUNT, .purpose = MW_PURPOSE_ACTIVATION_CHECKPOINTS},
    [MW_BUFFER_STATE] = {.tier = MW_TIER_COUNT,
                         .purpose = MW_PURPOSE_OPTIMIZER_STATE,
                         .persistent = true},
    [MW_BUFFER_STATE_OTHER] = {.tier = MW_TIER_NVME,
                               .purpose = MW_PURPOSE_OPTIMIZER_STATE_OTHER,
                               .persistent = true},
    OF_TENSORS(PARAMETERS_GATHERED, GPU, PARAMETER_BUFFERS),
    OF_TENSORS(PARAMETERS_SHARD, GPU, SHARD_BUFFERS),
    OF_TENSORS(PARAMETERS_PINNED, CPU, SHARD_BUFFERS),
    OF_TENSORS(GRADIENTS_WHOLE, GPU, GRADIENT_BUFFERS),
    [MW_BUFFER_GRADIENTS_TIED] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_GRADIENT_BUFFERS},
    OF_TENSORS(GRADIENTS_SHARD, GPU, SHARD_BUFFERS),
    OF_TENSORS(GRADIENTS_SUMMED, GPU, GRADIENT_BUFFERS),
    OF_TENSORS(GRADIENTS_PINNED, CPU, GRADIENT_BUFFERS),
    [MW_BUFFER_CHECKPOINTS_GATHERED] = {.tier = MW_TIER_GPU,
                                        .purpose = MW_PURPOSE_CHECKPOINT_BUFFERS},
    [MW_BUFFER_CHECKPOINTS_STAGED] = {.tier = MW_TIER_GPU,
                                      .purpose = MW_PURPOSE_CHECKPOINT_BUFFERS},
    [MW_BUFFER_CHECKPOINTS_PINNED] = {.tier = MW_TIER_CPU,
                                      .purpose = MW_PURPOSE_CHECKPOINT_BUFFERS},
    [MW_BUFFER_WIDENED] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_PARAMETER_BUFFERS},
    [MW_BUFFER_CAST] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_PARAMETER_BUFFERS},
    [MW_BUFFER_ACTIVATIONS] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_ACTIVATIONS},
    [MW_BUFFER_ROOMS] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_ACTIVATIONS},
    [MW_BUFFER_VERSIONS] = {.tier = MW_TIER_GPU,
                            .purpose = MW_PURPOSE_PARAMETERS,
                            .persistent = true},
    [MW_BUFFER_INPUTS] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_PRODUCT_INPUTS},
    [MW_BUFFER_RESULTS] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_RESULT_GRADIENTS},
    [MW_BUFFER_LOGITS] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_LOGITS},
    [MW_BUFFER_STAGE_INPUT] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_STAGE_BUFFERS},
    [MW_BUFFER_STAGE_OUTPUT] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_STAGE_BUFFERS},
    [MW_BUFFER_STAGE_GRADIENT_INPUT] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_STAGE_BUFFERS},
    [MW_BUFFER_STAGE_GRADIENT_OUTPUT] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_STAGE_BUFFERS},
    [MW_BUFFER_BOUNDARIES] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_STAGE_BUFFERS},
    [MW_BUFFER_STATE_PINNED] = {.tier = MW_TIER_CPU, .purpose = MW_PURPOSE_OPTIMIZER_BUFFERS},
    [MW_BUFFER_STATE_GPU] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_OPTIMIZER_BUFFERS},
    [MW_BUFFER_COMMIT_RECORDS] = {.tier = MW_TIER_NVME,
                                  .purpose = MW_PURPOSE_COMMIT_RECORDS,
                                  .persistent = true},
    [MW_BUFFER_SAVES] = {.tier = MW_TIER_NVME, .purpose = MW_PURPOSE_SAVES, .persistent = true},
    [MW_BUFFER_UPDATE_GRADIENTS_PINNED] = {.tier = MW_TIER_CPU,
                                           .purpose = MW_PURPOSE_OPTIMIZER_BUFFERS},
    [MW_BUFFER_UPDATE_GRADIENTS_GPU] = {.tier = MW_TIER_GPU,
                                        .purpose = MW_PURPOSE_OPTIMIZER_BUFFERS},
    [MW_BUFFER_UPDATED_PINNED] = {.tier = MW_TIER_CPU, .purpose = MW_PURPOSE_PARAMETER_BUFFERS},
    [MW_BUFFER_UPDATED_GPU] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_PARAMETER_BUFFERS},
    [MW_BUFFER_MOMENTUM_GATHERED] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_OPTIMIZER_BUFFERS},
    [MW_BUFFER_ORTHOGONAL] = {.tier = MW_TIER_GPU, .purpose = MW_PURPOSE_OPTIMIZER_BUFFERS},
    [MW_BUFFER_VECTORS] = {.tier = MW_TIER_CPU,
                           .purpose = MW_PURPOSE_OPTIMIZER_VECTORS,
                           .persistent = true},
    [MW_BUFFER_CHECKSUMS] = {.tier = MW_TIER_CPU,
                             .purpose = MW_PURPOSE_CHECKSUMS,
                             .persistent = true},
};

static void
set(struct mw_sizing *sizing, enum mw_buffer_kind kind, int64_t count, int64_t bytes)
{
    sizing->buffers[kind].count = count;
    sizing->buffers[kind].bytes = bytes;
}

/* Dozens of tensors, never one request. */
static void
set_block(struct mw_sizing *sizing, enum mw_buffer_kind kind, int64_t sets, int64_t bytes,
          int64_t widest)
{
    int64_t count = CLAMP(bytes / MAX(1, widest), 1, 64);

    set(sizing, kind, sets * count, mw_divide_up(bytes, count));
}

int64_t
mw_sizing_logit_bytes(const struct mw_sizing *sizing)
{
    int64_t planned = sizing->element_bytes + 4;
    double software = sizing->hardware->memory_use.bytes_per_logit;

    return software > 0 ? MIN(planned, (int64_t)ceil(software)) : planned;
}

int64_t
mw_sizing_layer_bytes(const struct mw_sizing *sizing)
{
    int64_t saved = 0;

    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++)
        saved = MAX(saved, sizing->classes[c].saved_bytes);
    return saved;
}

/* Where layers leave whole: one does while the next one, whose input it makes, is computed.  Those
 * that are recomputed have their turns in the same rooms. */
static int64_t
whole_rooms(const struct mw_sizing *sizing)
{
    return MIN(2, sizing->layers);
}

/* What layers keep from forward to backward.  Where they store it otherwise, it is made and used in
 * the room of one layer, in which one after the other has its turn. */
static int64_t
activations_bytes(const struct mw_sizing *sizing)
{
    bool coded = mw_kept_encodings(&sizing->settings.kept_as) != 0;
    int64_t one = mw_sizing_layer_bytes(sizing);

    if (mw_settings_keeps_whole(&sizing->settings))
        return whole_rooms(sizing) * one;
    int64_t group = mw_sizing_group_bytes(sizing);
    group = coded ? MAX(one, group) : group;
    /* One stretch is computed at a time, of many that are in flight. */
    if (sizing->stretches > 1)
        group = mw_divide_up(group, mw_sizing_activation_sets(sizing));
    return group + sizing->stored_bytes;
}

/* What passes between operators: two of the widest outputs, but at least one, a gradient of the
 * stream's width or of q's, and so many more of the stream's width.  Tensor slices have narrow
 * outputs, and the whole stream, of which those that share tokens gather a product's input too. */
static int64_t
passing_bytes(const struct mw_sizing *sizing, int64_t widest, int64_t streams)
{
    const struct mw_model *model = sizing->model;
    int64_t queries = mw_divide_up(model->heads, sizing->tp) * model->head_dim;
    int64_t width = MAX(model->hidden, queries) + streams * model->hidden;
    int64_t gathered = mw_sizing_tensor_parts(sizing) ? model->hidden : 0;

    return MAX(2 * widest, widest + sizing->element_bytes * sizing->tokens * width) +
           sizing->element_bytes * sizing->tokens * gathered;
}

/* What goes to experts on other ranks, and comes back, where the room for it is reserved. */
static int64_t
exchange_room(const struct mw_sizing *sizing)
{
    if (sizing->ep == 1 || !sizing->shape.all_visit_one)
        return 0;
    int64_t room = mw_model_expert_room(sizing->model, &sizing->shape);
    return sizing->element_bytes * mw_model_sent_rows(&sizing->shape, room) * sizing->model->hidden;
}

/* What must outlast the logits: the activations of layers that keep them, and what passes between
 * operators.  The sums of all layers' attention lie beside it. */
static int64_t
lasting_bytes(const struct mw_sizing *sizing, int64_t widest)
{
    const struct mw_model *model = sizing->model;
    int64_t kept = sizing->settings.checkpoint_interval ? mw_sizing_kept_in_pass(sizing) : 0;
    int64_t rooms = mw_settings_keeps_whole(&sizing->settings)
                        ? whole_rooms(sizing)
                        : mw_sizing_largest_group(sizing) + kept;

    return passing_bytes(sizing, widest, 2) + exchange_room(sizing) + sizing->kept_bytes +
           SUM_BYTES * sizing->tokens * model->heads * rooms;
}

/* Recomputed layers keep nothing from the end of the last layer's forward to the begin of the first
 * recomputation, which is when there are logits.  Cuts their rooms off the activations. */
static void
cut_rooms(struct mw_sizing *sizing, int64_t bytes, int64_t widest)
{
    const struct mw_settings *settings = &sizing->settings;
    int64_t rooms =
        (bytes - lasting_bytes(sizing, widest)) / MW_SLOT_ALIGNMENT_BYTES * MW_SLOT_ALIGNMENT_BYTES;

    if (settings->share_slots == MW_SHARE_NONE || settings->forward_only ||
        !sizing->buffers[MW_BUFFER_LOGITS].count || mw_sizing_activation_sets(sizing) > 1 ||
        settings->checkpoint_interval <= 0 || mw_kept_encodings(&settings->kept_as) || rooms <= 0)
        return;
    set_block(sizing, MW_BUFFER_ACTIVATIONS, 1, bytes - rooms, widest);
    set_block(sizing, MW_BUFFER_ROOMS, 1, rooms, widest);
}

/* Where no gradient of MLP_DOWN's weights reads its input, that lies where a layer's result would,
 * which then has a place of its own (exec/operators/activations.c). */
static bool
lacks_input_of_down(const struct mw_sizing *sizing)
{
    const struct mw_trained *trained = &sizing->settings.trained;

    return (trained->frozen & ~trained->adapted) >> MW_OPERATOR_MLP_DOWN & 1;
}

/* What the gradients of weights that come later need of a micro-batch: inputs from its forward on,
 * and gradients of results from its way back on.  Returns the bytes of the inputs, which are part
 * of its activations. */
static int64_t
set_operands_of_weights(struct mw_sizing *sizing)
{
    int64_t all = MAX(1, mw_sizing_micro_batches(sizing)), inputs = 0, results = 0;
    int64_t waiting = mw_sizing_weights_behind(sizing);

    if (!mw_settings_weights_later(&sizing->settings))
        return 0;
    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++) {
        inputs += sizing->classes[c].blocks * sizing->classes[c].inputs_bytes;
        results += sizing->classes[c].blocks * sizing->classes[c].results_bytes;
    }
    set(sizing, MW_BUFFER_INPUTS, MIN(sizing->micro_batches_in_flight + waiting, all), inputs);
    set(sizing, MW_BUFFER_RESULTS, waiting + 1, results);
    return inputs;
}

/* Where keys and values pass around a ring: those that attention takes and those that come
 * meanwhile, and in backward as many gradients (Liu et al., arXiv 2310.01889, Sec. 3). */
static int64_t
ring_room(const struct mw_sizing *sizing)
{
    if (!mw_sizing_rings(sizing, MW_OPERATOR_ATTENTION))
        return 0;
    return 2 * mw_sizing_ring_bytes(sizing, !sizing->settings.forward_only) / sizing->cp;
}

/* Working memory: what the backward of one group and of layers that are kept needs (ZeRO-Infinity
 * Sec. 3, Eq. 5 with the saved activations of the operators), plus the gradients into and out of
 * the widest operator. */
static void
set_activations(struct mw_sizing *sizing)
{
    const struct mw_class_info *classes = sizing->classes;
    int64_t sets = mw_sizing_activation_sets(sizing), widest = 0;

    for (int c = 0; c < MW_CLASS_TAIL; c++)
        widest = MAX(widest, classes[c].widest_bytes);
    int64_t passing = sizing->settings.forward_only
                          ? 2 * widest
                          : passing_bytes(sizing, widest, 1 + lacks_input_of_down(sizing));
    passing += ring_room(sizing) + exchange_room(sizing);
    passing = sizing->stretches > 1 ? mw_divide_up(passing, sets) : passing; /* as the group */
    /* Without a backward nothing waits for it. */
    int64_t bytes = (sizing->settings.forward_only ? 0 : activations_bytes(sizing)) + passing -
                    set_operands_of_weights(sizing);
    set_block(sizing, MW_BUFFER_ACTIVATIONS, sets, bytes, widest);
    int64_t tokens = mw_divide_up(sizing->tokens, sizing->settings.logits_chunks);
    int64_t width = mw_divide_up(mw_model_logits(sizing->model), sizing->tp);
    int64_t logits = mw_sizing_logit_bytes(sizing) * tokens * width;
    if (classes[MW_CLASS_TAIL].blocks && logits)
        set(sizing, MW_BUFFER_LOGITS, 1, logits);
    cut_rooms(sizing, bytes, widest);
}

/* Of all parameters of a stage, as operators read them. */
static int64_t
version_bytes(const struct mw_sizing *sizing)
{
    int64_t bytes = 0;

    for (uint32_t t = 0; t < sizing->tensor_count; t++)
        bytes += mw_sizing_home_bytes(sizing, MW_BUFFER_PARAMETERS, mw_sizing_tensor(sizing, t));
    return bytes;
}

/* Without a flush, gradients beyond one that a rank has made before the stage before begins its
 * step: while each rank of that one takes its last micro-batch back, this one takes its part of as
 * many, which wait here. */
static int64_t
gradients_waiting(const struct mw_sizing *sizing)
{
    const struct mw_settings *settings = &sizing->settings;

    if (!mw_settings_no_flush(settings) || !mw_settings_takes_turns(settings) || !sizing->stage)
        return 0;
    return mw_divide_up(mw_settings_stage_ranks(settings, sizing->stage - 1), sizing->dp) - 1;
}

/* A stage gets all tokens' activations from the previous stage, and their gradients from the
 * next. */
static void
set_stage(struct mw_sizing *sizing)
{
    int64_t bytes = sizing->element_bytes * sizing->tokens * sizing->model->hidden;

    bool ends = sizing->classes[MW_CLASS_HEAD].blocks || sizing->classes[MW_CLASS_TAIL].blocks;

    bool on = mw_settings_no_flush(&sizing->settings);

    if (on) { /* what has come for the next step's first passes waits in slots of its own */
        bool stashes = mw_settings_stashes(&sizing->settings);
        set(sizing, MW_BUFFER_VERSIONS, stashes ? mw_sizing_versions(sizing) - 1 : 1,
            version_bytes(sizing));
        sizing->buffers[MW_BUFFER_ACTIVATIONS].persistent = true;
        sizing->buffers[MW_BUFFER_STAGE_INPUT].persistent = true;
    }
    if (mw_settings_layer_order(&sizing->settings) && (ends || sizing->checkpoint_count > 1))
        set(sizing, MW_BUFFER_BOUNDARIES, mw_sizing_micro_batches(sizing), bytes);
    if (mw_sizing_waits_for_logits(sizing))
        set(sizing, MW_BUFFER_BOUNDARIES, sizing->micro_batches_in_flight, bytes);
    if (sizing->stage > 0 || sizing->stretches > 1) {
        set(sizing, MW_BUFFER_STAGE_INPUT, STAGE_RING + mw_sizing_carried(sizing, 0), bytes);
        set(sizing, MW_BUFFER_STAGE_GRADIENT_OUTPUT, STAGE_RING + gradients_waiting(sizing), bytes);
    }
    if (sizing->stage + 1 < sizing->pp || sizing->stretches > 1) {
        set(sizing, MW_BUFFER_STAGE_OUTPUT, STAGE_RING, bytes);
        set(sizing, MW_BUFFER_STAGE_GRADIENT_INPUT, STAGE_RING, bytes);
    }
}

struct widest {                          /* maxima of tensors */
    int64_t widened_params;              /* of those that no product takes as they are, */
    int64_t tile_bytes, carried_bytes;   /* of their parameters, */
    int64_t tile_params, carried_params; /* and of trained ones */
};

struct survey { /* what the homes require */
    bool params[MW_TIER_COUNT], gradients[MW_TIER_COUNT], chunks[MW_TIER_COUNT];
    bool checkpoints[MW_TIER_COUNT];
    struct mw_chunk_moves moves; /* for any chunk */
    bool gradient_with_state;    /* read from NVMe together */
    struct widest tiled, small;  /* of units' tiled tensors, and of their others, on their way */
    bool alone;     /* some are on a rank alone, among several: they come from its own host */
    int64_t smalls; /* the most others of a unit */
    int64_t chunk_params, state_bytes, group_parts; /* maxima */
    int64_t logits_parts, logits_gradients;         /* kept over all chunks; 0 with one chunk */
};

static void
survey_chunk(const struct mw_sizing *sizing, struct survey *survey, const struct mw_chunk *chunk)
{
    struct mw_chunk_moves moves = mw_sizing_chunk_moves(sizing, chunk);

    survey->chunks[chunk->tier] = true;
    survey->chunk_params = MAX(survey->chunk_params, chunk->params);
    survey->state_bytes = MAX(survey->state_bytes, chunk->state_bytes);
    survey->gradient_with_state |=
        chunk->tier == MW_TIER_NVME && sizing->gradient_home[chunk->first_tensor] == MW_TIER_NVME;
    survey->moves.state_streams |= moves.state_streams;
    survey->moves.gradient_streams |= moves.gradient_streams;
    survey->moves.gradient_read |= moves.gradient_read;
    survey->moves.gradient_h2d |= moves.gradient_h2d;
    survey->moves.gradient_d2h |= moves.gradient_d2h;
    survey->moves.param_h2d |= moves.param_h2d;
    survey->moves.param_d2h |= moves.param_d2h;
    survey->moves.param_write |= moves.param_write;
}

static int64_t
class_parts(const struct mw_class_info *class)
{
    int64_t parts = 0;

    for (int u = 0; u < class->unit_count; u++)
        parts += class->units[u].tiles;
    return parts;
}

/* Of layers in their turns. */
static int64_t
group_parts_by_layer(const struct mw_sizing *sizing, int64_t interval)
{
    int64_t most = 0, parts = 0;

    for (int64_t layer = 0; layer < sizing->layers; layer++) {
        parts = layer % interval ? parts : 0;
        parts += class_parts(&sizing->classes[mw_sizing_layer_class(sizing, layer)]);
        most = MAX(most, parts);
    }
    return most;
}

/* The most parts that a checkpoint group has: if all its layers are dense, all have experts, or one
 * kind follows the other. */
static int64_t
group_parts(const struct mw_sizing *sizing)
{
    const struct mw_class_info *classes = &sizing->classes[MW_CLASS_LAYERS];
    int64_t interval = MAX(1, sizing->settings.checkpoint_interval);
    if (sizing->model->by_turns)
        return group_parts_by_layer(sizing, interval);
    int64_t dense_parts =
        MAX(class_parts(&classes[MW_BLOCK_DENSE]), class_parts(&classes[MW_BLOCK_DENSE_WINDOWED]));
    int64_t expert_parts = MAX(class_parts(&classes[MW_BLOCK_EXPERTS]),
                               class_parts(&classes[MW_BLOCK_EXPERTS_WINDOWED]));
    int64_t dense = classes[MW_BLOCK_DENSE].blocks + classes[MW_BLOCK_DENSE_WINDOWED].blocks;
    int64_t expert = sizing->layers - dense, before = dense % interval;
    int64_t most = MAX(MIN(interval, dense) * dense_parts, MIN(interval, expert) * expert_parts);

    return MAX(most, before * dense_parts + MIN(interval - before, expert) * expert_parts);
}

/* The most parts that all micro-batches pass one after the other: of a group, or of an end of the
 * model. */
int64_t
mw_sizing_layer_parts(const struct mw_sizing *sizing)
{
    int64_t head = class_parts(&sizing->classes[MW_CLASS_HEAD]);
    int64_t tail = class_parts(&sizing->classes[MW_CLASS_TAIL]);

    return MAX(MAX(group_parts(sizing), head), tail + (mw_sizing_tied(sizing) ? head : 0));
}

static bool
rests_on_gpu(const struct mw_sizing *sizing, enum mw_state state)
{
    const struct mw_placement *placement = &sizing->settings.placement[state];

    return placement->count == 1 && placement->part[0].tier == MW_TIER_GPU;
}

/* Experts that one rank has alone stay where they are, and so do their gradients, if that is the
 * GPU. */
static void
survey_tensor(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor,
              struct widest *widest)
{
    int64_t carried = mw_sizing_carried_params(sizing, tensor);
    bool alone = tensor->ranks == 1 && sizing->shards > 1;

    if (!mw_dtype_row(tensor->dtype)->computes)
        widest->widened_params = MAX(widest->widened_params, tensor->tile_params);
    if (!alone || !rests_on_gpu(sizing, MW_STATE_PARAMETERS)) {
        widest->tile_bytes =
            MAX(widest->tile_bytes, mw_sizing_param_bytes(tensor, tensor->tile_params));
        widest->carried_bytes = MAX(widest->carried_bytes, mw_sizing_param_bytes(tensor, carried));
    }
    if (!tensor->trained ||
        (alone && rests_on_gpu(sizing, MW_STATE_GRADIENTS) && !sizing->gradients_summed))
        return;
    widest->tile_params = MAX(widest->tile_params, tensor->tile_params);
    widest->carried_params = MAX(widest->carried_params, carried);
}

static void
survey_class(const struct mw_sizing *sizing, const struct mw_class_info *class,
             struct survey *survey)
{
    for (int u = 0; u < class->unit_count; u++) {
        const struct mw_unit *unit = &class->units[u];
        for (int t = 0; t < unit->tensor_count; t++)
            survey_tensor(sizing, &class->tensors[unit->first_tensor + t],
                          t == unit->tiled ? &survey->tiled : &survey->small);
        survey->smalls = MAX(survey->smalls, unit->tensor_count - 1);
        for (int t = 0; t < unit->tensor_count; t++)
            survey->alone |=
                sizing->shards > 1 && class->tensors[unit->first_tensor + t].ranks == 1;
    }
}

static struct survey
survey_homes(const struct mw_sizing *sizing)
{
    struct survey survey = {0};
    bool splits = mw_sizing_splits(sizing, MW_STATE_PARAMETERS) ||
                  mw_sizing_splits(sizing, MW_STATE_GRADIENTS);

    for (uint32_t t = 0; t < (splits ? sizing->tensor_count : MIN(1, sizing->tensor_count)); t++) {
        survey.params[sizing->param_home[t]] = true;
        survey.gradients[sizing->gradient_home[t]] = true;
    }
    for (uint32_t c = 0; c < sizing->run_chunk_count; c++)
        survey_chunk(sizing, &survey, &sizing->run_chunks[c]);
    splits = mw_sizing_splits(sizing, MW_STATE_ACTIVATIONS);
    for (int64_t c = 0; c < (splits ? sizing->checkpoint_slots : MIN(1, sizing->checkpoint_slots));
         c++)
        survey.checkpoints[sizing->checkpoint_home[c]] = true;
    for (int c = 0; c < MW_CLASS_COUNT; c++)
        survey_class(sizing, &sizing->classes[c], &survey);
    survey.group_parts = group_parts(sizing);
    if (sizing->settings.logits_chunks > 1) {
        survey.logits_parts = mw_sizing_logits_parts(sizing);
        const struct mw_class_info *tail = &sizing->classes[MW_CLASS_TAIL];
        bool kept = !mw_sizing_tied(sizing) && tail->tensors[tail->units[0].tiled].trained;
        survey.logits_gradients = kept ? survey.logits_parts : 0;
    }
    return survey;
}

void
mw_sizing_count_homes(struct mw_sizing *sizing)
{
    int64_t committed = 0;

    for (uint32_t c = 0; c < sizing->run_chunk_count; c++)
        if (mw_sizing_commits_chunk(sizing, &sizing->run_chunks[c]))
            committed += sizing->run_chunks[c].times;
    sizing->buffers[MW_BUFFER_PARAMETERS].count = sizing->tensor_count;
    sizing->buffers[MW_BUFFER_GRADIENTS].count = sizing->tensor_count;
    sizing->buffers[MW_BUFFER_SUMS].count = sizing->sums_on_host ? sizing->tensor_count : 0;
    /* A delayed update needs the previous step's gradients. */
    sizing->buffers[MW_BUFFER_GRADIENTS].persistent = sizing->settings.dpu_start != MW_AUTO;
    sizing->buffers[MW_BUFFER_CHECKPOINTS].count = sizing->checkpoint_slots;
    sizing->buffers[MW_BUFFER_STATE].count = sizing->chunk_count;
    sizing->buffers[MW_BUFFER_STATE_OTHER].count = committed;
}

/* A ring of slots for the units' tiled tensors, and one for as many of their others. */
static void
set_rings(struct mw_sizing *sizing, const struct survey *survey, enum mw_buffer_kind kind,
          int64_t count, int64_t tiled_bytes, int64_t small_bytes)
{
    if (tiled_bytes)
        set(sizing, mw_buffer_of(kind, true), count, tiled_bytes);
    if (small_bytes)
        set(sizing, mw_buffer_of(kind, false), count * survey->smalls, small_bytes);
}

/* Rings that may become longer (planner/sizing/gradient_rings.c). */
static void
set_gradient_rings(struct mw_sizing *sizing, const struct survey *survey, enum mw_buffer_kind kind,
                   int64_t count, int64_t tiled_bytes, int64_t small_bytes)
{
    set_rings(sizing, survey, kind, count, tiled_bytes, small_bytes);
    if (count < MW_GRADIENT_RING)
        return;
    sizing->buffers[mw_buffer_of(kind, true)].part_slots = tiled_bytes ? 1 : 0;
    sizing->buffers[mw_buffer_of(kind, false)].part_slots = small_bytes ? survey->smalls : 0;
}

/* The fetch path: gg, cg and nc slots. */
static void
set_parameters(struct mw_sizing *sizing, const struct survey *survey)
{
    const struct mw_settings *settings = &sizing->settings;
    const struct widest *tiled = &survey->tiled, *small = &survey->small;
    bool offloaded = survey->params[MW_TIER_CPU] || survey->params[MW_TIER_NVME];
    int64_t nc = mw_settings_fetch_depth(settings, MW_FETCH_NC);
    int64_t cg = mw_settings_fetch_depth(settings, MW_FETCH_CG);
    int64_t last = sizing->shards > 1 ? mw_settings_fetch_depth(settings, MW_FETCH_GG) : cg;
    int64_t group = settings->param_loads == 2 ? survey->group_parts : 0;

    if (offloaded && survey->alone) /* a part that nobody gathers is there as soon as it comes */
        last += cg;
    if (!sizing->params_partitioned || (!offloaded && sizing->shards == 1))
        return;
    /* With two loads the units of a checkpoint group stay from recompute to backward; with chunks
     * the logits' weight stays from the first chunk's forward to the last one's backward.  Layer by
     * layer a group stays for all micro-batches, while the next one comes. */
    int64_t whole = mw_settings_layer_order(settings) ? mw_sizing_layer_parts(sizing) : 0;
    set_rings(sizing, survey, MW_BUFFER_PARAMETERS_GATHERED,
              whole ? (last ? 2 : 1) * whole : MAX(last + 1 + group, last + survey->logits_parts),
              tiled->tile_bytes, small->tile_bytes);
    if (offloaded && sizing->shards > 1)
        set_rings(sizing, survey, MW_BUFFER_PARAMETERS_SHARD, cg + 1, tiled->carried_bytes,
                  small->carried_bytes);
    if (survey->params[MW_TIER_NVME])
        set_rings(sizing, survey, MW_BUFFER_PARAMETERS_PINNED, nc + 1, tiled->carried_bytes,
                  small->carried_bytes);
}

/* A gradient on its way, and behind the sum that drives read and write, which has whole pages; or
 * the sum alone, where it comes from the GPU. */
static int64_t
pinned_gradient_bytes(const struct mw_sizing *sizing, const struct survey *survey, int64_t params)
{
    int64_t bytes = sizing->element_bytes * params;

    if (mw_sizing_sums_passing(sizing) || !sizing->gradients_summed)
        return sizing->gradient_element_bytes * params;
    if (!sizing->sums_on_host && survey->gradients[MW_TIER_NVME] && sizing->gradients_summed)
        bytes += mw_round_up(4 * params, MW_SLOT_ALIGNMENT_BYTES);
    return bytes;
}

/* The next operator waits until this one's weights have been used. */
static void
set_widened(struct mw_sizing *sizing, const struct survey *survey)
{
    int64_t params = MAX(survey->tiled.widened_params, survey->small.widened_params);

    if (params)
        set(sizing, MW_BUFFER_WIDENED, 1, sizing->element_bytes * params);
}

/* Tensor cores of Ada, Hopper and sm_120 take fp8 operands whose rows lie along k alone, so
 * backward has a transposed copy of its own; those of sm_100 take them either way (Transformer
 * Engine's documentation, Performance Considerations, Handling transposes;
 * nvte_is_non_tn_fp8_gemm_supported). */
static int64_t
copies_in_fp8(const struct mw_hardware *hardware)
{
    return hardware->gpu_architecture == MW_ARCHITECTURE_BLACKWELL ? 1 : 2;
}

/* Beside 16-bit parameters, copies.  Without these both copies lie where they would; on sm_100 they
 * are mxfp8's, along rows and along columns, with a scale of a byte for each 32 of both
 * (Transformer Engine, MXFP8Quantizer.inner_tensor_specs; neither follows from the other). */
static int64_t
cast_bytes(const struct mw_sizing *sizing, int64_t weights)
{
    const struct mw_hardware *hardware = sizing->hardware;
    bool instead = hardware->memory_use.fp8_parameters && !sizing->params_partitioned;
    int64_t scales = hardware->gpu_architecture == MW_ARCHITECTURE_BLACKWELL
                         ? 2 * mw_divide_up(weights, mw_dtype_row(MW_DTYPE_MXFP8)->block_elements)
                         : 0;

    return instead ? scales : copies_in_fp8(hardware) * weights;
}

/* Weights of a block's products that are in fp8. */
static int64_t
cast_weights(const struct mw_class_info *class)
{
    int64_t weights = 0;

    for (int i = 0; i < class->operator_count; i++)
        for (uint32_t p = 0; p < class->operators[i].product_count; p++) {
            const struct mw_work_product *product = &class->operators[i].products[p];
            if (product->dtype == MW_DTYPE_FP8)
                weights += product->n * product->k * product->count;
        }
    return weights;
}

static int64_t
largest_part(const struct mw_class_info *class)
{
    int64_t largest = 0;

    for (int t = 0; t < class->tensor_count; t++)
        largest = MAX(largest, class->tensors[t].tile_params);
    return largest;
}

/* Copies of weights that stay on the GPU are kept for all micro-batches (Transformer Engine, FP8
 * weight caching, which Megatron-LM uses); of those that come for each use there is one at a time.
 * Many tensors, never one request.  The time of casts is counted for each use in both cases
 * (docs/MODEL.md, 7.1d). */
static void
set_cast(struct mw_sizing *sizing)
{
    int64_t all = 0, layers = 0, part = 0;

    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++) {
        int64_t weights = cast_weights(&sizing->classes[c]);
        if (!weights || !sizing->classes[c].blocks)
            continue;
        layers += sizing->classes[c].blocks;
        all += sizing->classes[c].blocks * weights;
        part = MAX(part, largest_part(&sizing->classes[c]));
    }
    int64_t bytes = cast_bytes(sizing, sizing->params_partitioned ? part : all);
    int64_t count = sizing->params_partitioned ? 1 : CLAMP(layers, 1, 64);
    if (bytes)
        set(sizing, MW_BUFFER_CAST, count, mw_divide_up(bytes, count));
}

static void
set_gradients(struct mw_sizing *sizing, const struct survey *survey)
{
    const struct mw_unit_tensor *embedding = &sizing->classes[MW_CLASS_HEAD].tensors[0];
    const struct widest *tiled = &survey->tiled, *small = &survey->small;
    bool offloaded = survey->gradients[MW_TIER_CPU] || survey->gradients[MW_TIER_NVME];
    bool sums = sizing->gradients_summed;
    int64_t element = sizing->element_bytes;
    bool reduced = sizing->gradients_partitioned && sizing->shards > 1;
    int64_t ring = offloaded || reduced ? MW_GRADIENT_RING : 1;

    /* The gradient of the logits' weight is summed over the chunks before it leaves. */
    if (offloaded || reduced || sums)
        set_gradient_rings(sizing, survey, MW_BUFFER_GRADIENTS_WHOLE,
                           MAX(ring, ring - 1 + survey->logits_gradients),
                           element * tiled->tile_params, element * small->tile_params);
    if (mw_sizing_tied(sizing) && embedding->trained &&
        (sizing->gradient_home[0] != MW_TIER_GPU || reduced || sums))
        set(sizing, MW_BUFFER_GRADIENTS_TIED,
            embedding->tiles *
                (mw_settings_layer_order(&sizing->settings) ? mw_sizing_micro_batches(sizing) : 1),
            element * embedding->tile_params);
    if (reduced && (offloaded || sums))
        set_gradient_rings(sizing, survey, MW_BUFFER_GRADIENTS_SHARD, MW_GRADIENT_RING,
                           element * tiled->carried_params, element * small->carried_params);
    /* Sums of a group stay until its last micro-batch, and leave while the next is computed. */
    bool passing = offloaded && mw_sizing_sums_passing(sizing);
    if (passing)
        set_rings(sizing, survey, MW_BUFFER_GRADIENTS_SUMMED, 2 * mw_sizing_layer_parts(sizing),
                  sizing->gradient_element_bytes * tiled->carried_params,
                  sizing->gradient_element_bytes * small->carried_params);
    if (survey->gradients[MW_TIER_NVME] || (offloaded && sums && !passing))
        set_gradient_rings(sizing, survey, MW_BUFFER_GRADIENTS_PINNED, MW_GRADIENT_RING,
                           pinned_gradient_bytes(sizing, survey, tiled->carried_params),
                           pinned_gradient_bytes(sizing, survey, small->carried_params));
}

/* Checkpoints of either size have their turns in the same slots. */
static void
set_checkpoints(struct mw_sizing *sizing, const struct survey *survey)
{
    int64_t bytes = sizing->checkpoint_layer_bytes;

    if (!bytes || mw_sizing_mixes_checkpoints(sizing))
        bytes = MAX(bytes, sizing->checkpoint_bytes);
    if (survey->checkpoints[MW_TIER_CPU] || survey->checkpoints[MW_TIER_NVME])
        set(sizing, MW_BUFFER_CHECKPOINTS_STAGED, CHECKPOINT_RING, bytes);
    if (survey->checkpoints[MW_TIER_NVME])
        set(sizing, MW_BUFFER_CHECKPOINTS_PINNED, CHECKPOINT_RING, bytes);
    /* A group takes it over with its first operator: then the next one may be gathered. */
    if (mw_sizing_gathers_checkpoints(sizing))
        set(sizing, MW_BUFFER_CHECKPOINTS_GATHERED, 1, sizing->checkpoint_whole_bytes);
}

static void
set_update(struct mw_sizing *sizing, const struct survey *survey)
{
    const struct mw_settings *settings = &sizing->settings;
    const struct mw_chunk_moves *moves = &survey->moves;
    bool delayed = settings->dpu_start != MW_AUTO;
    int64_t ring = MIN(MAX(2, settings->buffer_sets), sizing->chunk_count);
    int64_t gradient_bytes = sizing->gradient_element_bytes * survey->chunk_params;
    int64_t state_bytes = survey->state_bytes;

    if (survey->chunks[MW_TIER_NVME])
        set(sizing, MW_BUFFER_STATE_PINNED, settings->buffer_sets,
            survey->gradient_with_state
                ? mw_round_up(state_bytes, MW_SLOT_ALIGNMENT_BYTES) + gradient_bytes
                : state_bytes);
    /* A chunk goes back while the next is updated and the one behind it comes. */
    if (moves->state_streams)
        set(sizing, MW_BUFFER_STATE_GPU, MIN(settings->buffer_sets, sizing->chunk_count),
            moves->gradient_streams
                ? mw_round_up(state_bytes, MW_SLOT_ALIGNMENT_BYTES) + gradient_bytes
                : state_bytes);
    if (moves->gradient_read || moves->gradient_d2h)
        set(sizing, MW_BUFFER_UPDATE_GRADIENTS_PINNED, ring, gradient_bytes);
    if (moves->gradient_h2d)
        set(sizing, MW_BUFFER_UPDATE_GRADIENTS_GPU, GPU_UPDATE_RING, gradient_bytes);
    /* Updated parameters on their way to GPU or NVMe; all of them with delayed update, because the
     * GPU still computes with the old ones. */
    if (moves->param_h2d || moves->param_write)
        set(sizing, MW_BUFFER_UPDATED_PINNED, delayed ? sizing->chunk_count : ring,
            sizing->element_bytes * survey->chunk_params);
    if (moves->param_d2h)
        set(sizing, MW_BUFFER_UPDATED_GPU, GPU_UPDATE_RING,
            sizing->element_bytes * survey->chunk_params);
}

static void
set_orthogonal(struct mw_sizing *sizing)
{
    int64_t gathered = 0, room = 0;

    for (uint32_t c = 0; sizing->shard_matrix_params && c < sizing->run_chunk_count; c++) {
        struct mw_orthogonal work;
        mw_sizing_orthogonal(sizing, &sizing->run_chunks[c], &work);
        room = MAX(room, work.room_bytes);
        if (mw_sizing_gathers_momentum(sizing, &sizing->run_chunks[c]))
            gathered = MAX(gathered, work.gathered_bytes);
    }
    if (gathered)
        set(sizing, MW_BUFFER_MOMENTUM_GATHERED, MIN(GPU_UPDATE_RING, sizing->chunk_count),
            gathered);
    if (room)
        set(sizing, MW_BUFFER_ORTHOGONAL, 1, room);
}

static void
set_vectors(struct mw_sizing *sizing)
{
    int64_t each = mw_optimizer_row(sizing->settings.optimizer)->vector_bytes;

    if (each)
        set(sizing, MW_BUFFER_VECTORS, 1, MW_PRODUCT(each, sizing->trained_sides));
}

int64_t
mw_sizing_agreed_sums_bytes(const struct mw_sizing *sizing)
{
    bool sums = mw_optimizer_row(sizing->settings.optimizer)->gradient_passes > 0;

    return sums && sizing->ranks > 1 && sizing->pp == 1
               ? MW_PRODUCT(MW_EXACT_SUM_BYTES, sizing->trained_sides)
               : 0;
}

/* Two records take turns, so that one is whole at any time.  A record holds the extent map, with
 * one entry for each chunk that has two extents. */
static void
set_commit_records(struct mw_sizing *sizing)
{
    int64_t extents = sizing->buffers[MW_BUFFER_STATE_OTHER].count;
    int64_t map_blocks = mw_divide_up(extents * EXTENT_ENTRY_BYTES, BLOCK_BYTES);

    if (extents)
        set(sizing, MW_BUFFER_COMMIT_RECORDS, 2, COMMIT_HEADER_BYTES + BLOCK_BYTES * map_blocks);
}

/* Gradients that a delayed update has not used yet: whole homes, because the next step overwrites
 * them. */
static int64_t
pending_bytes(const struct mw_sizing *sizing)
{
    int64_t bytes = 0;

    for (uint32_t t = 0; t < sizing->tensor_count; t++)
        bytes += mw_round_up(
            mw_sizing_home_bytes(sizing, MW_BUFFER_GRADIENTS, mw_sizing_tensor(sizing, t)),
            MW_SLOT_ALIGNMENT_BYTES);
    return bytes;
}

/* Ranks that have the same state each save a share of it; spread experts are not the same. */
static int64_t
save_sharers(const struct mw_sizing *sizing)
{
    return sizing->optimizer_partitioned || sizing->ep > 1 ? 1 : sizing->shards;
}

/* What a save has of vectors of rows and columns: all of them, or a rank's share. */
static int64_t
vectors_bytes(const struct mw_sizing *sizing)
{
    int64_t sharers = save_sharers(sizing);

    return mw_optimizer_has_vectors(sizing->settings.optimizer)
               ? mw_divide_up(MW_PRODUCT(sizeof(float), sizing->trained_sides), sharers)
               : 0;
}

/* A rank's share of the state that has no extents. */
static int64_t
unsaved_bytes(const struct mw_sizing *sizing)
{
    int64_t sharers = save_sharers(sizing), bytes = 0;

    for (uint32_t c = 0; c < sizing->run_chunk_count; c++) {
        const struct mw_chunk *chunk = &sizing->run_chunks[c];
        if (chunk->tier != MW_TIER_NVME)
            bytes += chunk->times * mw_divide_up(chunk->state_bytes, sharers);
    }
    for (uint32_t t = 0; t < sizing->tensor_count; t++) {
        const struct mw_unit_tensor *tensor = mw_sizing_tensor(sizing, t);
        if (tensor->trained && sizing->param_home[t] != MW_TIER_NVME)
            bytes += mw_sizing_param_bytes(tensor, tensor->tiles * tensor->shard_params);
    }
    return bytes;
}

/* State that is not on NVMe is saved there every K steps, by each rank its share, into the other of
 * two places, so that one save is whole at any time.  The gradients of a delayed update are saved
 * with it, and vectors of rows and columns; or with every step's commit if all state is on NVMe. */
static void
set_saves(struct mw_sizing *sizing)
{
    const struct mw_settings *settings = &sizing->settings;
    bool delayed = settings->dpu_start != MW_AUTO;

    int64_t vectors = vectors_bytes(sizing);

    sizing->saves_in_step = (delayed || vectors) && settings->commit == 1;
    for (uint32_t c = 0; c < sizing->run_chunk_count; c++)
        sizing->saves_in_step &= sizing->run_chunks[c].tier == MW_TIER_NVME;
    sizing->save_steps = sizing->saves_in_step ? 1 : settings->save_every;
    if (!sizing->save_steps)
        return;
    int64_t bytes = vectors + (sizing->saves_in_step ? 0 : unsaved_bytes(sizing));
    if (delayed || sizing->saves_in_step) /* a commit writes whole pages */
        bytes = mw_round_up(bytes, MW_SLOT_ALIGNMENT_BYTES);
    if (delayed)
        bytes += pending_bytes(sizing);
    if (bytes)
        set(sizing, MW_BUFFER_SAVES, 2, bytes);
}

void
mw_sizing_set_buffers(struct mw_sizing *sizing)
{
    struct survey survey = survey_homes(sizing);

    memcpy(sizing->buffers, rows, sizeof rows);
    mw_sizing_count_homes(sizing);
    mw_sizing_set_kept(sizing);
    set_activations(sizing);
    set_stage(sizing);
    set_parameters(sizing, &survey);
    set_widened(sizing, &survey);
    set_cast(sizing);
    set_gradients(sizing, &survey);
    set_checkpoints(sizing, &survey);
    set_update(sizing, &survey);
    set_orthogonal(sizing);
    set_vectors(sizing);
    set_commit_records(sizing);
    set_saves(sizing);
    mw_sizing_set_gradient_sets(sizing);
    mw_sizing_share_slots(sizing);
}
