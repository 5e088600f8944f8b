/* PyTorch's fully_shard (FSDP2): a script that shards a Hugging Face model with it. */
#include "launch/internal.h"
#include "planner/deepspeed/deepspeed.h"

static bool
shards_less(const struct mw_launch_plan *plan)
{
    const struct mw_strategy_traits *traits = mw_strategy_traits(plan->sizing->settings.strategy);

    return !traits->state[MW_STATE_GRADIENTS].partitioned;
}

#define TOGETHER                                                                                   \
    "its CPUOffloadPolicy moves parameters, gradients and optimizer state together, whole"

static const struct mw_launch_rule rules[] = {
    {"strategy", MW_LAUNCH_REFUSED, shards_less, "it shards gradients and parameters too"},
    {"optimizer-device", MW_LAUNCH_REFUSED, mw_launch_offloads_a_part, TOGETHER},
    {"tp", MW_LAUNCH_REFUSED, NULL, "it slices no tensors"},
    {"pp", MW_LAUNCH_REFUSED, NULL, "it has no stages"},
    {"shard-group", MW_LAUNCH_REFUSED, mw_launch_has_groups,
     "the script's mesh has one dimension, all GPUs"},
    {"shard-group", MW_LAUNCH_CARRIED, NULL, NULL},
    {"train", MW_LAUNCH_REFUSED, NULL, "the script trains all parameters, without adapters"},
    {"prefetch", MW_LAUNCH_CARRIED, NULL, NULL},
    {NULL, MW_LAUNCH_LEFT, NULL, NULL},
};

static bool
keeps_parameters(const struct mw_launch_plan *plan)
{
    return !plan->sizing->params_partitioned;
}

static void
say(const struct mw_launch_plan *plan, struct mw_launch *out)
{
    if (keeps_parameters(plan))
        mw_launch_note(out,
                       "strategy %s: parameters stay whole from forward to backward, and rest "
                       "in shards between steps",
                       mw_strategy_name((int)plan->sizing->settings.strategy));
    mw_launch_note_fp32(plan, out,
                        "gradients are reduced and kept in fp32, and parameters rest in fp32, as "
                        "fully_shard does with a MixedPrecisionPolicy");
}

static bool
write_files(const struct mw_launch_plan *plan, struct mw_launch *out, GError **error)
{
    GString *shell = mw_launch_shell(plan, mw_launch_fsdp2.name);

    mw_launch_shell_go(shell);
    mw_launch_shell_model(shell, plan, out);
    mw_launch_shell_torchrun(shell, plan, out);
    mw_launch_word(shell, "memwall_fsdp2.py");
    mw_launch_word(shell, keeps_parameters(plan) ? "--no-reshard-after-forward"
                                                 : "--reshard-after-forward");
    if (mw_launch_offloads(plan))
        mw_launch_word(shell, "--cpu-offload");
    mw_launch_option_number(shell, "--prefetch", plan->sizing->settings.prefetch);
    mw_launch_shell_job(shell, plan);
    mw_launch_add(out, MW_LAUNCH_START, g_string_free(shell, FALSE), true);
    say(plan, out);
    return mw_launch_add_script(out, "memwall_fsdp2.py", error) &&
           mw_launch_add_script(out, "memwall_job.py", error);
}

const struct mw_launch_target mw_launch_fsdp2 = {
    .name = "fsdp2",
    .title = "FSDP2",
    .rules = {mw_launch_no_drives_rules, rules, mw_launch_script_rules},
    .write = write_files,
};
