/* What the models of an objective keep, and a frozen one's pass forward. */
#include "study/objective_internal.h"

bool
mw_objective_only_adapters(const struct mw_trained *trained)
{
    bool only = trained->rank > 0;

    for (int i = 0; i < MW_OPERATOR_COUNT; i++)
        only &= !mw_operator_names_params(i) || trained->frozen >> i & 1;
    return only;
}

static int64_t
taken(int64_t reserve, int64_t capacity, double bytes)
{
    return (double)reserve + bytes < (double)capacity ? reserve + (int64_t)bytes : capacity;
}

/* An allocator that loses a share of what it hands out loses it of these bytes too. */
void
mw_objective_reserve(struct mw_question *question, const int64_t bytes[MW_TIER_COUNT])
{
    const struct mw_settings *s = &question->settings;

    for (int outlook = 0; outlook < MW_OUTLOOK_COUNT; outlook++) {
        struct mw_hardware *hw = &question->hardware[outlook];
        int64_t gpus = s->gpus_per_node == MW_AUTO ? hw->gpus_per_node : s->gpus_per_node;
        double held = (double)bytes[MW_TIER_GPU] / (1 - hw->memory_use.allocator_loss);
        hw->gpu_reserve_bytes = taken(hw->gpu_reserve_bytes, hw->gpu_memory_bytes, held);
        hw->host_reserve_bytes = taken(hw->host_reserve_bytes, hw->host_memory_bytes,
                                       (double)bytes[MW_TIER_CPU] * (double)gpus);
        hw->nvme_reserve_bytes = taken(hw->nvme_reserve_bytes, hw->nvme_capacity_bytes,
                                       (double)bytes[MW_TIER_NVME] * (double)gpus);
    }
}

enum mw_strategy
mw_objective_frozen_strategy(enum mw_strategy trained, enum mw_tier tier)
{
    const struct mw_strategies all = mw_strategies_of(MW_STRATEGY_AUTO);
    int i = 0;

    if (tier == MW_TIER_GPU || mw_strategy_traits(trained)->state[MW_STATE_PARAMETERS].offloadable)
        return trained;
    while (mw_strategy_traits(all.one[i])->state[MW_STATE_PARAMETERS].deepest < tier)
        i++;
    return all.one[i];
}

/* One micro-batch: nothing is kept for a backward, and nothing is updated. */
struct mw_settings
mw_objective_forward(const struct mw_settings *trained, enum mw_strategy strategy,
                     const struct mw_placement *placement)
{
    const struct mw_placement on_gpu = {.count = 1,
                                        .part = {{.tier = MW_TIER_GPU, .bytes = INT64_MAX}}};
    struct mw_settings s = *trained;

    if (strategy != trained->strategy)
        s.partition = mw_strategy_traits(strategy)->partition;
    s.strategy = strategy;
    s.forward_only = true;
    for (int state = 0; state < MW_STATE_COUNT; state++)
        s.placement[state] = state == MW_STATE_PARAMETERS ? *placement : on_gpu;
    s.grad_accum = 1;
    s.global_batch = MW_AUTO;
    s.checkpoint_interval = 0;
    s.checkpoint_dtype = MW_DTYPE_NONE;
    s.kept_as = (struct mw_kept_as){0};
    s.recompute_layers = MW_AUTO;
    s.recompute_set = (struct mw_layer_set){{0}};
    s.update_on = 0;
    s.layer_order = 0;
    s.whole_checkpoints = 0;
    s.param_loads = 3;
    s.commit = 0;
    s.save_every = 0;
    s.dpu_start = MW_AUTO;
    s.update_beside = 0;
    s.drop_layers = NULL;
    s.layout = MW_LAYOUT_ZERO16;
    s.tokens = 0;
    return s;
}

void
mw_objective_frozen_bytes(const struct mw_sizing *sizing, int64_t bytes[MW_TIER_COUNT])
{
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        bytes[tier] = sizing->ledger[tier][MW_PURPOSE_PARAMETERS];
}

void
mw_objective_trained_bytes(const struct mw_sizing *sizing, bool gradients,
                           int64_t bytes[MW_TIER_COUNT])
{
    static const enum mw_purpose kept[] = {MW_PURPOSE_PARAMETERS, MW_PURPOSE_OPTIMIZER_STATE,
                                           MW_PURPOSE_OPTIMIZER_STATE_OTHER,
                                           MW_PURPOSE_COMMIT_RECORDS, MW_PURPOSE_SAVES};

    for (int tier = 0; tier < MW_TIER_COUNT; tier++) {
        bytes[tier] = gradients ? sizing->ledger[tier][MW_PURPOSE_GRADIENTS] : 0;
        for (size_t i = 0; i < G_N_ELEMENTS(kept); i++)
            bytes[tier] += sizing->ledger[tier][kept[i]];
    }
    static const struct {
        enum mw_beside what;
        bool gradients;
    } stay[] = {{MW_BESIDE_BUCKETS, false},        {MW_BESIDE_GRADIENTS, true},
                {MW_BESIDE_HOST_GRADIENTS, false}, {MW_BESIDE_FROZEN, false},
                {MW_BESIDE_MOMENTS, false},        {MW_BESIDE_HOST_MOMENTS, false},
                {MW_BESIDE_PINNED, false}};

    for (size_t i = 0; i < G_N_ELEMENTS(stay); i++)
        if (gradients || !stay[i].gradients)
            bytes[mw_beside_tier(stay[i].what)] += sizing->beside[stay[i].what];
    bytes[MW_TIER_GPU] += mw_sizing_bucket_bytes_in_rings(sizing); /* buckets stay whole */
}
