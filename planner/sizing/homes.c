/* Where every tensor and checkpoint lives. */
#include <glib.h>
#include <math.h>
#include <string.h>

#include "plan/optimizers.h"
#include "base/arithmetic.h"
#include "planner/sizing/internal.h"
#include "planner/sizing/tiers.h"

bool
mw_sizing_splits(const struct mw_sizing *sizing, enum mw_state state)
{
    return sizing->settings.placement[state].count > 1;
}

int64_t
mw_sizing_part_stride(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor,
                      bool partitioned)
{
    int64_t block = mw_dtype_row(tensor->dtype)->block_elements;

    if (partitioned)
        return tensor->shard_stride;
    /* Ranks exchange shards in it, and the last one's is as long there. */
    if (mw_settings_asynchronous(&sizing->settings) && tensor->trained)
        return tensor->ranks * tensor->shard_params;
    return mw_round_up(tensor->tile_params, block);
}

bool
mw_sizing_owners_broadcast(const struct mw_sizing *sizing)
{
    return sizing->settings.partition == MW_PARTITION_OWNER && sizing->shards > 1;
}

int64_t
mw_sizing_carried_params(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor)
{
    return mw_sizing_owners_broadcast(sizing) ? tensor->tile_params : tensor->shard_params;
}

int64_t
mw_sizing_state_stride(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor)
{
    return mw_round_up(mw_sizing_part_stride(sizing, tensor, sizing->optimizer_partitioned),
                       mw_optimizer_block(sizing->settings.optimizer));
}

int64_t
mw_sizing_state_of_rank(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor)
{
    return tensor->tiles * mw_sizing_state_stride(sizing, tensor);
}

/* What Muon leaves to AdamW is divided over ranks apart, so each has its share of it. */
int64_t
mw_sizing_matrices_of_rank(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor)
{
    int64_t others = tensor->params - tensor->matrix_params;

    if (!tensor->matrix_params || !mw_optimizer_orthogonalizes(sizing->settings.optimizer))
        return 0;
    if (sizing->optimizer_partitioned)
        others = mw_divide_up(others, tensor->ranks);
    return MAX(0, mw_sizing_state_of_rank(sizing, tensor) - others);
}

/* Elements of a tensor's parameters, or of a trained one's gradients, on one rank. */
static int64_t
params_of_rank(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor,
               bool partitioned)
{
    return tensor->tiles * mw_sizing_part_stride(sizing, tensor, partitioned);
}

int64_t
mw_sizing_home_bytes(const struct mw_sizing *sizing, enum mw_buffer_kind kind,
                     const struct mw_unit_tensor *tensor)
{
    if (kind == MW_BUFFER_SUMS)
        return sizing->sums_on_host && tensor->trained
                   ? sizing->gradient_element_bytes *
                         params_of_rank(sizing, tensor, sizing->gradients_partitioned)
                   : 0;
    if (kind == MW_BUFFER_PARAMETERS)
        return mw_sizing_param_bytes(tensor,
                                     params_of_rank(sizing, tensor, sizing->params_partitioned));
    return tensor->trained ? sizing->gradient_rest_bytes *
                                 params_of_rank(sizing, tensor, sizing->gradients_partitioned)
                           : 0;
}

bool
mw_updates_in_place(const struct mw_settings *settings, const struct mw_hardware *hardware)
{
    return settings->dtype == MW_DTYPE_FP32 && hardware->memory_use.updates_fp32_in_place &&
           mw_optimizer_keeps(settings->optimizer, MW_KEPT_PARAMETER);
}

int64_t
mw_state_bytes(const struct mw_settings *settings, const struct mw_hardware *hardware,
               int64_t elements, int64_t of_matrices)
{
    int64_t bytes = mw_optimizer_mixed_bytes(settings->optimizer, elements, of_matrices);

    return mw_updates_in_place(settings, hardware) ? bytes - mw_dtype_bytes(MW_DTYPE_FP32, elements)
                                                   : bytes;
}

double
mw_update_bytes(const struct mw_settings *settings, const struct mw_hardware *hardware,
                double state_bytes)
{
    bool keeps_parameter = mw_optimizer_keeps(settings->optimizer, MW_KEPT_PARAMETER) &&
                           !mw_updates_in_place(settings, hardware);

    return mw_optimizer_moved_bytes(state_bytes, (double)mw_dtype_element_bytes(settings->dtype),
                                    keeps_parameter);
}

double
mw_sizing_state_element_bytes(const struct mw_sizing *sizing)
{
    int64_t elements = MW_KEPT_BLOCK, of_matrices = 0;

    if (sizing->shard_matrix_params) {
        elements = sizing->shard_params;
        of_matrices = sizing->shard_matrix_params;
    }
    return (double)mw_state_bytes(&sizing->settings, sizing->hardware, elements, of_matrices) /
           (double)elements;
}

double
mw_sizing_state_elements(const struct mw_sizing *sizing, enum mw_tier tier)
{
    double each = mw_sizing_state_element_bytes(sizing), elements = 0;

    if (each > 0)
        return (double)sizing->ledger[tier][MW_PURPOSE_OPTIMIZER_STATE] / each;
    for (uint32_t c = 0; c < sizing->run_chunk_count; c++)
        if (sizing->run_chunks[c].tier == tier)
            elements += (double)sizing->run_chunks[c].times * (double)sizing->run_chunks[c].params;
    return elements;
}

void
mw_sizing_sum_shards(struct mw_sizing *sizing)
{
    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        const struct mw_class_info *class = &sizing->classes[c];
        for (int t = 0; t < class->tensor_count; t++) {
            const struct mw_unit_tensor *tensor = &class->tensors[t];
            if (!tensor->trained)
                continue;
            sizing->shard_params += class->blocks * mw_sizing_state_of_rank(sizing, tensor);
            sizing->shard_matrix_params +=
                class->blocks * mw_sizing_matrices_of_rank(sizing, tensor);
        }
    }
}

/* The tiers of a class's tensors.  Returns the end of them. */
static uint8_t *
place_class(const struct mw_sizing *sizing, const struct mw_class_info *class,
            enum mw_buffer_kind kind, struct mw_tier_filler *filler, uint8_t *next)
{
    int64_t bytes[MW_CLASS_TENSORS_MAX], block_bytes = 0;

    for (int t = 0; t < class->tensor_count; t++)
        block_bytes += bytes[t] = mw_sizing_home_bytes(sizing, kind, &class->tensors[t]);
    for (int64_t block = 0; block < class->blocks; block++) {
        int64_t whole = mw_tiers_fill(filler, block_bytes, class->blocks - block);
        if (whole) {
            memset(next, filler->placement->part[filler->part].tier,
                   (size_t)(whole * class->tensor_count));
            next += whole * class->tensor_count;
            block += whole - 1;
            continue;
        }
        for (int t = 0; t < class->tensor_count; t++)
            *next++ = mw_tiers_next(filler, bytes[t]);
    }
    return next;
}

/* Of one state of all tensors. */
static int64_t
bytes_of_tensors(const struct mw_sizing *sizing, enum mw_buffer_kind kind)
{
    int64_t bytes = 0;

    for (int c = 0; c < MW_CLASS_COUNT; c++)
        for (int t = 0; t < sizing->classes[c].tensor_count; t++)
            bytes += sizing->classes[c].blocks *
                     mw_sizing_home_bytes(sizing, kind, &sizing->classes[c].tensors[t]);
    return bytes;
}

/* The tiers of one state of all tensors, in walk order: one, of a state that is not split. */
static uint8_t *
place_state(const struct mw_sizing *sizing, enum mw_state state, enum mw_buffer_kind kind)
{
    const struct mw_placement *placement = &sizing->settings.placement[state];
    uint8_t *home = g_new0(uint8_t, sizing->tensor_count + 1), *next = home;
    struct mw_tier_filler filler;

    if (placement->count == 1) {
        memset(home, placement->part[0].tier, sizing->tensor_count);
        return home;
    }
    mw_tiers_begin(&filler, placement, sizing->ranks_per_node, bytes_of_tensors(sizing, kind));
    for (int c = 0; c < MW_CLASS_COUNT; c++)
        next = place_class(sizing, &sizing->classes[c], kind, &filler, next);
    return home;
}

void
mw_sizing_place_tensors(struct mw_sizing *sizing)
{
    sizing->param_home = place_state(sizing, MW_STATE_PARAMETERS, MW_BUFFER_PARAMETERS);
    sizing->gradient_home = place_state(sizing, MW_STATE_GRADIENTS, MW_BUFFER_GRADIENTS);
}

static enum mw_dtype
checkpoint_dtype(const struct mw_sizing *sizing)
{
    const struct mw_settings *settings = &sizing->settings;

    if (settings->checkpoint_dtype != MW_DTYPE_NONE)
        return settings->checkpoint_dtype;
    return mw_sizing_stream_bytes(sizing) > sizing->element_bytes ? MW_DTYPE_FP32 : settings->dtype;
}

int64_t
mw_sizing_checkpoint_bytes(const struct mw_sizing *sizing, int64_t checkpoint)
{
    return mw_sizing_leaves_whole(sizing, checkpoint % sizing->checkpoint_count)
               ? sizing->checkpoint_layer_bytes
               : sizing->checkpoint_bytes;
}

int64_t
mw_sizing_all_checkpoint_bytes(const struct mw_sizing *sizing)
{
    int64_t layers = mw_settings_keeps_whole(&sizing->settings) ? mw_sizing_kept_layers(sizing) : 0;
    int64_t inputs = sizing->checkpoint_count / sizing->stretches - layers;

    return sizing->micro_batches_in_flight *
           (inputs * sizing->checkpoint_bytes + layers * sizing->checkpoint_layer_bytes);
}

/* Checkpoints: bsz·seq·hd elements every ci blocks (ZeRO-Infinity Sec. 3, Eq. 3); with tensor
 * slicing each rank keeps 1/tp of them (ZeRO-R, Pa), unless all keep the whole. */
void
mw_sizing_place_checkpoints(struct mw_sizing *sizing)
{
    struct mw_recomputed recomputed = mw_sizing_recomputed(sizing);
    struct mw_tier_filler filler;

    sizing->checkpoint_parts =
        sizing->settings.checkpoint_partition || sizing->shape.sequence_parallel ? sizing->tp : 1;
    if (recomputed.interval) {
        sizing->checkpoint_count = sizing->stretches * mw_recomputed_groups(&recomputed);
        sizing->checkpoint_bytes = mw_dtype_bytes(
            checkpoint_dtype(sizing),
            mw_divide_up(sizing->tokens * sizing->model->hidden, sizing->checkpoint_parts));
        sizing->checkpoint_whole_bytes =
            mw_dtype_bytes(checkpoint_dtype(sizing), sizing->tokens * sizing->model->hidden);
    }
    if (mw_settings_keeps_whole(&sizing->settings)) {
        sizing->checkpoint_count += mw_sizing_kept_layers(sizing);
        sizing->checkpoint_layer_bytes = mw_sizing_layer_bytes(sizing);
    }
    sizing->checkpoint_slots =
        sizing->checkpoint_count / sizing->stretches * sizing->micro_batches_in_flight;
    mw_tiers_begin(&filler, &sizing->settings.placement[MW_STATE_ACTIVATIONS],
                   sizing->ranks_per_node, mw_sizing_all_checkpoint_bytes(sizing));
    sizing->checkpoint_home = g_new0(uint8_t, sizing->checkpoint_slots + 1);
    if (!mw_sizing_splits(sizing, MW_STATE_ACTIVATIONS))
        memset(sizing->checkpoint_home, mw_tiers_next(&filler, 0), sizing->checkpoint_slots);
    else
        for (int64_t c = 0; c < sizing->checkpoint_slots; c++)
            sizing->checkpoint_home[c] =
                mw_tiers_next(&filler, mw_sizing_checkpoint_bytes(sizing, c));
}

bool
mw_sizing_gathers_checkpoints(const struct mw_sizing *sizing)
{
    bool of_inputs = !mw_settings_keeps_whole(&sizing->settings) ||
                     mw_sizing_kept_layers(sizing) < sizing->layers;

    return sizing->checkpoint_count && sizing->checkpoint_parts > 1 &&
           !sizing->shape.sequence_parallel && of_inputs;
}

int64_t
mw_sizing_checkpoint_coded_bytes(const struct mw_sizing *sizing, bool restores)
{
    int64_t elements = sizing->tokens * sizing->model->hidden;

    if (sizing->settings.checkpoint_dtype == MW_DTYPE_NONE ||
        sizing->settings.checkpoint_dtype == sizing->settings.dtype)
        return 0;
    if (restores && !sizing->shape.sequence_parallel)
        return sizing->checkpoint_whole_bytes + sizing->element_bytes * elements;
    return sizing->element_bytes * mw_divide_up(elements, sizing->checkpoint_parts) +
           sizing->checkpoint_bytes;
}
