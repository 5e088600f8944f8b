/* DeepSpeed: ds_config.json (planner/deepspeed/), a script that trains by it, its own launcher. */
#include <string.h>

#include "launch/internal.h"
#include "planner/deepspeed/deepspeed.h"

static bool
has_no_file(const struct mw_launch_plan *plan)
{
    const struct mw_deepspeed_traits *traits =
        &mw_strategy_traits(plan->sizing->settings.strategy)->deepspeed;

    return traits->offload == MW_TIER_COUNT && !traits->partly;
}

/* Of what DeepSpeed cannot do with a plan study/note_deepspeed.c knows most: `notes`. */
const struct mw_launch_rule mw_launch_deepspeed_rules[] = {
    {"strategy", MW_LAUNCH_REFUSED, has_no_file, "it has no such strategy"},
    {"pp", MW_LAUNCH_REFUSED, NULL,
     "a training script has to divide the model into its PipelineModule"},
    {"shard-group", MW_LAUNCH_REFUSED, mw_launch_has_groups,
     "it partitions over all data-parallel GPUs, since MiCS is gone"},
    {"shard-group", MW_LAUNCH_CARRIED, NULL, NULL},
    {"optimizer", MW_LAUNCH_LEFT, mw_launch_trains_else,
     "ds_config.json has AdamW; set its optimizer"},
    {"tp", MW_LAUNCH_CARRIED, NULL, NULL},
    {"prefetch", MW_LAUNCH_CARRIED, NULL, NULL},
    {"optimizer-chunk", MW_LAUNCH_CARRIED, NULL, NULL},
    {"overlap", MW_LAUNCH_CARRIED, NULL, NULL},
    {"state-layout", MW_LAUNCH_CARRIED, NULL, NULL},
    /* Said by the notes. */
    {"tiles", MW_LAUNCH_CARRIED, NULL, NULL},
    {"update", MW_LAUNCH_CARRIED, NULL, NULL},
    {"update-on", MW_LAUNCH_CARRIED, NULL, NULL},
    {"micro-batch-order", MW_LAUNCH_CARRIED, NULL, NULL},
    {"checkpoints", MW_LAUNCH_CARRIED, NULL, NULL},
    {"dpu-start", MW_LAUNCH_CARRIED, NULL, NULL},
    {NULL, MW_LAUNCH_LEFT, NULL, NULL},
};

/* It reaches all nodes by ssh, or is started on each of them, which then has a number. */
static void
ask_nodes(GString *shell, const struct mw_settings *s, struct mw_launch *out)
{
    g_string_append(shell,
                    ": \"${HOSTFILE:?is missing: a file with a line 'NODE slots=GPUS' for each "
                    "node}\"\n"
                    "by_node=()\n"
                    "[ -z \"${NODE_RANK:-}\" ] ||\n"
                    "    by_node=(--no_ssh --node_rank \"$NODE_RANK\" --master_addr "
                    "\"${MASTER_ADDR:?is missing}\")\n");
    mw_launch_fill(out,
                   "HOSTFILE: fill in a file with a line \"NODE slots=%" G_GINT64_FORMAT
                   "\" for each of %" G_GINT64_FORMAT " nodes, which the first node reaches by "
                   "ssh; or start launch.sh on every node, with MASTER_ADDR and NODE_RANK",
                   s->gpus_per_node, s->nodes);
}

static void
launch(const struct mw_launch_plan *plan, struct mw_launch *out)
{
    const struct mw_settings *s = &plan->sizing->settings;
    GString *shell = mw_launch_shell(plan, mw_launch_deepspeed.name);

    mw_launch_shell_go(shell);
    mw_launch_shell_model(shell, plan, out);
    if (s->nodes > 1)
        ask_nodes(shell, s, out);
    g_string_append(shell, "exec deepspeed");
    if (s->nodes > 1)
        g_string_append(shell, " \\\n    --hostfile \"$HOSTFILE\" \"${by_node[@]}\"");
    mw_launch_option_number(shell, "--num_nodes", s->nodes);
    mw_launch_option_number(shell, "--num_gpus", s->gpus_per_node);
    mw_launch_word(shell, "memwall_deepspeed.py");
    mw_launch_option(shell, "--deepspeed_config", "ds_config.json");
    mw_launch_shell_job(shell, plan);
    mw_launch_add(out, MW_LAUNCH_START, g_string_free(shell, FALSE), true);
}

void
mw_launch_add_ds_config(const struct mw_launch_plan *plan, struct mw_launch *out)
{
    mw_launch_add(out, "ds_config.json", mw_deepspeed_text_of(plan->sizing), false);
    for (char *const *note = plan->notes; note && *note; note++)
        mw_launch_note(out, "%s", *note);
    if (mw_launch_uses_nvme(plan))
        mw_launch_fill(out, "nvme_path in ds_config.json: fill in a folder on the drives");
}

static bool
write_files(const struct mw_launch_plan *plan, struct mw_launch *out, GError **error)
{
    launch(plan, out);
    mw_launch_add_ds_config(plan, out);
    mw_launch_add_adapters(plan, out);
    return mw_launch_add_script(out, "memwall_deepspeed.py", error) &&
           mw_launch_add_script(out, "memwall_job.py", error);
}

const struct mw_launch_target mw_launch_deepspeed = {
    .name = "deepspeed",
    .title = "DeepSpeed",
    .rules = {mw_launch_deepspeed_rules, mw_launch_script_rules, mw_launch_adapter_rules},
    .write = write_files,
};
