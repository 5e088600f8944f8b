/* The buffers that DeepSpeed pins where our plans cut finer. */
#include "base/arithmetic.h"
#include "planner/deepspeed/internal.h"

#define ADAM_STATES 4 /* parameter, gradient, momentum, variance */
#define SUB_GROUP_DEFAULT 1000000000 /* DeepSpeed 0.19, zero/config.py: sub_group_size */

static bool
is_on_drives(const struct mw_sizing *sizing, enum mw_state state)
{
    return mw_ds_slowest(&sizing->settings.placement[state]) == MW_TIER_NVME;
}

static int64_t
largest_partition(const struct mw_sizing *sizing)
{
    int64_t largest = 1;

    for (int c = 0; c < MW_CLASS_COUNT; c++)
        for (int o = 0; o < sizing->classes[c].operator_count; o++)
            largest = MAX(largest, sizing->classes[c].operators[o].params);
    return mw_divide_up(largest, sizing->dp);
}

/* DeepSpeed fills a sub-group with partitions until it has `sub_group_size` or more elements. */
static int64_t
largest_sub_group(const struct mw_sizing *sizing)
{
    int64_t chunk = sizing->settings.optimizer_chunk;
    int64_t enough = chunk > 0 ? chunk : SUB_GROUP_DEFAULT;
    int64_t group = 0, largest = 1;

    for (int c = 0; c < MW_CLASS_COUNT; c++)
        for (int64_t b = 0; b < sizing->classes[c].blocks; b++)
            for (int o = 0; o < sizing->classes[c].operator_count; o++) {
                if (group >= enough)
                    group = 0;
                group += mw_divide_up(sizing->classes[c].operators[o].params, sizing->dp);
                largest = MAX(largest, group);
            }
    return largest;
}

static void
count_sets(struct mw_deepspeed_buffers *buffers, const struct mw_sizing *sizing, int64_t sets)
{
    buffers->state_sets = sets;
    buffers->state_count = ADAM_STATES * sets;
    buffers->all_bytes = MW_SUM(MW_PRODUCT(2, buffers->param_count, buffers->param_elements),
                                MW_PRODUCT(4, buffers->state_count, buffers->state_elements));
    buffers->host_bytes = mw_saturating_add(sizing->need_bytes[MW_TIER_CPU] - buffers->plan_bytes,
                                            buffers->all_bytes);
}

struct mw_deepspeed_buffers
mw_deepspeed_buffers(const struct mw_sizing *sizing)
{
    const struct mw_buffer *params = &sizing->buffers[MW_BUFFER_PARAMETERS_PINNED];
    const struct mw_buffer *state = &sizing->buffers[MW_BUFFER_STATE_PINNED];
    struct mw_deepspeed_buffers buffers = {
        .plan_bytes = MW_SUM(MW_PRODUCT(params->count, params->bytes),
                             MW_PRODUCT(state->count, state->bytes))};

    if (is_on_drives(sizing, MW_STATE_PARAMETERS)) {
        buffers.param_count = MAX(1, params->count);
        buffers.param_elements = largest_partition(sizing);
    }
    if (!is_on_drives(sizing, MW_STATE_OPTIMIZER)) {
        count_sets(&buffers, sizing, 0);
        return buffers;
    }
    buffers.state_elements = largest_sub_group(sizing);
    count_sets(&buffers, sizing, MAX(sizing->settings.buffer_sets, 1));
    if (buffers.host_bytes > sizing->tiers[MW_TIER_CPU].capacity_bytes)
        count_sets(&buffers, sizing, 1);
    return buffers;
}
