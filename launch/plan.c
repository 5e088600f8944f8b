/* What targets ask of a plan. */
#include <math.h>
#include <string.h>

#include "launch/internal.h"
#include "plan/optimizers.h"

const char *
mw_launch_asked(const struct mw_launch_plan *plan, const char *name)
{
    size_t length = strlen(name);

    for (char *const *text = plan->asked; *text; text++)
        if (!strncmp(*text, name, length) && (*text)[length] == '=')
            return *text + length + 1;
    return NULL;
}

int64_t
mw_launch_micro_batch(const struct mw_launch_plan *plan)
{
    return plan->sizing->sequences;
}

int64_t
mw_launch_global_batch(const struct mw_launch_plan *plan)
{
    const struct mw_settings *s = &plan->sizing->settings;

    return llround(s->micro_batch * mw_settings_batch_gpus(s) * (double)s->grad_accum);
}

int64_t
mw_launch_steps(const struct mw_launch_plan *plan)
{
    const struct mw_settings *s = &plan->sizing->settings;
    double of_step = (double)mw_launch_global_batch(plan) * (double)s->seq;

    return s->tokens > 0 ? (int64_t)fmin(ceil(s->tokens / of_step), 1e15) : 0;
}

bool
mw_launch_is_off_gpu(const struct mw_launch_plan *plan, enum mw_state state)
{
    const struct mw_placement *placement = &plan->sizing->settings.placement[state];

    return mw_placement_has(placement, MW_TIER_CPU) || mw_placement_has(placement, MW_TIER_NVME);
}

bool
mw_launch_has_groups(const struct mw_launch_plan *plan)
{
    return plan->sizing->replicas > 1;
}

bool
mw_launch_offloads(const struct mw_launch_plan *plan)
{
    return mw_launch_is_off_gpu(plan, MW_STATE_OPTIMIZER);
}

bool
mw_launch_offloads_activations(const struct mw_launch_plan *plan)
{
    return mw_launch_is_off_gpu(plan, MW_STATE_ACTIVATIONS);
}

bool
mw_launch_is_split(const struct mw_launch_plan *plan, enum mw_state state)
{
    return plan->sizing->settings.placement[state].count > 1;
}

bool
mw_launch_offloads_a_part(const struct mw_launch_plan *plan)
{
    return mw_launch_is_off_gpu(plan, MW_STATE_PARAMETERS) !=
               mw_launch_is_off_gpu(plan, MW_STATE_OPTIMIZER) ||
           mw_launch_is_split(plan, MW_STATE_PARAMETERS) ||
           mw_launch_is_split(plan, MW_STATE_OPTIMIZER);
}

bool
mw_launch_is_on_nvme(const struct mw_launch_plan *plan, enum mw_state state)
{
    return mw_placement_has(&plan->sizing->settings.placement[state], MW_TIER_NVME);
}

bool
mw_launch_uses_nvme(const struct mw_launch_plan *plan)
{
    for (int state = 0; state < MW_STATE_COUNT; state++)
        if (mw_launch_is_on_nvme(plan, (enum mw_state)state))
            return true;
    return false;
}

bool
mw_launch_is_by_name(const struct mw_launch_plan *plan)
{
    return mw_strategy_traits(plan->sizing->settings.strategy)->by_name;
}

bool
mw_launch_trains_else(const struct mw_launch_plan *plan)
{
    return plan->sizing->settings.optimizer != MW_OPTIMIZER_ADAMW;
}

bool
mw_launch_trains_lora(const struct mw_launch_plan *plan)
{
    return plan->sizing->settings.trained.rank > 0;
}

bool
mw_launch_overlaps_steps(const struct mw_launch_plan *plan)
{
    return mw_settings_no_flush(&plan->sizing->settings);
}

bool
mw_launch_fills_bubbles(const struct mw_launch_plan *plan)
{
    return mw_settings_weights_later(&plan->sizing->settings);
}

bool
mw_launch_groups_layers(const struct mw_launch_plan *plan)
{
    return plan->sizing->settings.checkpoint_interval > 1;
}
