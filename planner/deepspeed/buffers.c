/* The buffers that DeepSpeed pins where our plans cut finer. */
#include "base/arithmetic.h"
#include "planner/deepspeed/internal.h"

/* At stage 3 all that a rank updates have a gradient in host memory if the optimizer's state is off
 * the GPU (stage3.py, grad_partitions_flat_buffer), and those whose state is there one in fp32. */
static int64_t
gradient_bytes(const struct mw_sizing *sizing)
{
    const struct mw_placement *state = &sizing->settings.placement[MW_STATE_OPTIMIZER];
    double on_host = mw_sizing_state_elements(sizing, MW_TIER_CPU);

    if (mw_deepspeed_stage(&sizing->settings) < 3 || mw_ds_slowest(state) == MW_TIER_GPU)
        return 0;
    return MW_SUM(MW_PRODUCT(sizing->sum_element_bytes, sizing->shard_params),
                  MW_PRODUCT((int64_t)sizeof(float), (int64_t)on_host));
}

static struct mw_deepspeed_buffers
with_sets(const struct mw_sizing *sizing, int64_t sets)
{
    struct mw_deepspeed_buffers buffers = {.swap = mw_sizing_swap_buffers(sizing, sets),
                                           .gradient_bytes = gradient_bytes(sizing),
                                           .planned_gradient_bytes =
                                               sizing->ledger[MW_TIER_CPU][MW_PURPOSE_GRADIENTS]};
    int64_t counted = buffers.planned_gradient_bytes + sizing->beside[MW_BESIDE_HOST_GRADIENTS];
    int64_t planned = sizing->beside[MW_BESIDE_SWAP] + buffers.swap.plan_bytes;

    buffers.host_bytes = MW_SUM(mw_sizing_whole_need(sizing, MW_TIER_CPU) - planned,
                                buffers.swap.all_bytes, MAX(0, buffers.gradient_bytes - counted));
    return buffers;
}

struct mw_deepspeed_buffers
mw_deepspeed_buffers(const struct mw_sizing *sizing)
{
    struct mw_deepspeed_buffers buffers = with_sets(sizing, sizing->settings.buffer_sets);

    return buffers.host_bytes > sizing->tiers[MW_TIER_CPU].capacity_bytes ? with_sets(sizing, 1)
                                                                          : buffers;
}
