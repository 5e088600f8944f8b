/* Rules that several targets share. */
#include "launch/internal.h"

/* --- software without drives ------------------------------------------------------------------ */

static bool
has_params_on_nvme(const struct mw_launch_plan *plan)
{
    return mw_launch_is_on_nvme(plan, MW_STATE_PARAMETERS);
}

static bool
has_optimizer_on_nvme(const struct mw_launch_plan *plan)
{
    return mw_launch_is_on_nvme(plan, MW_STATE_OPTIMIZER);
}

static bool
has_gradients_on_nvme(const struct mw_launch_plan *plan)
{
    return mw_launch_is_on_nvme(plan, MW_STATE_GRADIENTS);
}

static bool
has_activations_on_nvme(const struct mw_launch_plan *plan)
{
    return mw_launch_is_on_nvme(plan, MW_STATE_ACTIVATIONS);
}

#define NO_DRIVES "it reaches no drives"

/* A refusal names the setting that puts state on drives. */
const struct mw_launch_rule mw_launch_no_drives_rules[] = {
    {"strategy", MW_LAUNCH_REFUSED, mw_launch_is_by_name, "it has no such strategy"},
    {"param-device", MW_LAUNCH_REFUSED, has_params_on_nvme, NO_DRIVES},
    {"optimizer-device", MW_LAUNCH_REFUSED, has_optimizer_on_nvme, NO_DRIVES},
    {"gradient-device", MW_LAUNCH_REFUSED, has_gradients_on_nvme, NO_DRIVES},
    {"activation-device", MW_LAUNCH_REFUSED, has_activations_on_nvme, NO_DRIVES},
    {NULL, MW_LAUNCH_LEFT, NULL, NULL},
};

/* --- memwall_job.py --------------------------------------------------------------------------- */

const struct mw_launch_rule mw_launch_script_rules[] = {
    {"optimizer", MW_LAUNCH_LEFT, mw_launch_trains_else, "the script has AdamW"},
    {"activation-checkpoint-interval", MW_LAUNCH_LEFT, mw_launch_groups_layers,
     "the script keeps a checkpoint for every layer"},
    {"activation-checkpoint-interval", MW_LAUNCH_CARRIED, NULL, NULL},
    {"recompute-layers", MW_LAUNCH_CARRIED, NULL, NULL},
    {"recompute-list", MW_LAUNCH_CARRIED, NULL, NULL},
    {"logits-chunks", MW_LAUNCH_CARRIED, NULL, NULL}, /* by Liger Kernel's loss */
    {NULL, MW_LAUNCH_LEFT, NULL, NULL},
};
