/* Hugging Face accelerate: its configuration, around DeepSpeed's, or of plain data parallelism. */
#include "launch/internal.h"
#include "planner/deepspeed/deepspeed.h"

static const struct mw_launch_rule rules[] = {
    {"tp", MW_LAUNCH_REFUSED, NULL, "its script has no slices beside DeepSpeed"},
    {"shard-group", MW_LAUNCH_REFUSED, mw_launch_has_groups,
     "its ZeRO is DeepSpeed's, which has no groups"},
    {"shard-group", MW_LAUNCH_CARRIED, NULL, NULL},
    {NULL, MW_LAUNCH_LEFT, NULL, NULL},
};

/* ZeRO's stages are DeepSpeed's. */
static bool
needs_deepspeed(const struct mw_launch_plan *plan)
{
    return mw_deepspeed_stage(&plan->sizing->settings) > 0;
}

static void
configure(const struct mw_launch_plan *plan, struct mw_launch *out)
{
    const struct mw_settings *s = &plan->sizing->settings;
    GString *yaml = g_string_new("compute_environment: LOCAL_MACHINE\n");
    int64_t ranks = s->nodes * s->gpus_per_node;

    if (needs_deepspeed(plan)) {
        g_string_append_printf(yaml,
                               "distributed_type: DEEPSPEED\n"
                               "deepspeed_config:\n"
                               "  deepspeed_config_file: ds_config.json\n"
                               "  deepspeed_multinode_launcher: standard\n"
                               "  zero3_init_flag: %s\n",
                               mw_deepspeed_stage(s) == 3 ? "true" : "false");
    } else {
        g_string_append_printf(yaml, "distributed_type: %s\nmixed_precision: '%s'\n",
                               ranks > 1 ? "MULTI_GPU" : "'NO'",
                               s->dtype == MW_DTYPE_FP32 ? "no" : mw_dtype_name(s->dtype));
    }
    g_string_append_printf(yaml,
                           "num_machines: %" G_GINT64_FORMAT "\n"
                           "num_processes: %" G_GINT64_FORMAT "\n"
                           "main_training_function: main\n"
                           "use_cpu: false\n",
                           s->nodes, ranks);
    mw_launch_add(out, "accelerate.yaml", g_string_free(yaml, FALSE), false);
}

static void
launch(const struct mw_launch_plan *plan, struct mw_launch *out)
{
    const struct mw_settings *s = &plan->sizing->settings;
    GString *shell = mw_launch_shell(plan, mw_launch_accelerate.name);

    mw_launch_shell_go(shell);
    mw_launch_shell_model(shell, plan, out);
    if (s->nodes > 1)
        mw_launch_shell_node(shell, out);
    g_string_append(shell, "exec accelerate launch");
    mw_launch_option(shell, "--config_file", "accelerate.yaml");
    if (s->nodes > 1) {
        mw_launch_variable(shell, "--machine_rank", "NODE_RANK");
        mw_launch_variable(shell, "--main_process_ip", "MASTER_ADDR");
        mw_launch_variable(shell, "--main_process_port", "MASTER_PORT");
    }
    mw_launch_word(shell, "memwall_accelerate.py");
    mw_launch_shell_job(shell, plan);
    mw_launch_add(out, MW_LAUNCH_START, g_string_free(shell, FALSE), true);
}

/* Under PyTorch's autocast; of adapters PEFT makes them so. */
static void
say(const struct mw_launch_plan *plan, struct mw_launch *out)
{
    mw_launch_note_fp32(plan, out,
                        mw_launch_trains_lora(plan)
                            ? "adapters and their gradients are in fp32, as PEFT makes them, and "
                              "autocast casts them for each use"
                            : "parameters and gradients are in fp32, and autocast casts parameters "
                              "to 16 bits for each use");
}

static bool
write_files(const struct mw_launch_plan *plan, struct mw_launch *out, GError **error)
{
    launch(plan, out);
    configure(plan, out);
    mw_launch_add_adapters(plan, out);
    if (needs_deepspeed(plan))
        mw_launch_add_ds_config(plan, out);
    else
        say(plan, out);
    return mw_launch_add_script(out, "memwall_accelerate.py", error) &&
           mw_launch_add_script(out, "memwall_job.py", error);
}

const struct mw_launch_target mw_launch_accelerate = {
    .name = "accelerate",
    .title = "accelerate",
    .rules = {rules, mw_launch_deepspeed_rules, mw_launch_script_rules, mw_launch_adapter_rules},
    .write = write_files,
};
