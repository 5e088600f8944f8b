/* torchtitan: a module with a function that returns its Trainer.Config, as its config/README.md
 * wants a run to be described (there are no job files of TOML since 0.3). */
#include <string.h>

#include "base/arithmetic.h"
#include "launch/internal.h"

/* The sizes of Llama 3 that torchtitan has (torchtitan/models/llama3/__init__.py). */
static const struct {
    const char *name;
    int64_t layers, hidden;
} flavors[] = {
    {"1B", 16, 2048}, {"3B", 28, 3072}, {"8B", 32, 4096}, {"70B", 80, 8192}, {"405B", 126, 16384},
};

static const char *
flavor_of(const struct mw_model *model)
{
    for (size_t i = 0; i < G_N_ELEMENTS(flavors); i++)
        if (!strcmp(model->architecture, "llama") && model->layers == flavors[i].layers &&
            model->hidden == flavors[i].hidden && model->vocab == 128256)
            return flavors[i].name;
    return NULL;
}

static char *
why_not(const struct mw_launch_plan *plan)
{
    return flavor_of(plan->sizing->model)
               ? NULL
               : g_strdup("the configuration is written for its Llama 3 of 1B, 3B, 8B, 70B and "
                          "405B alone");
}

/* --- what it can ------------------------------------------------------------------------------ */

/* Optimizer state in shards, and gradients or parameters whole. */
static bool
shards_state_alone(const struct mw_launch_plan *plan)
{
    return plan->sizing->optimizer_partitioned && !plan->sizing->gradients_partitioned;
}

static bool
keeps_sequences_whole(const struct mw_launch_plan *plan)
{
    const struct mw_settings *s = &plan->sizing->settings;

    return s->tp > 1 && !s->sequence_parallel;
}

static bool
is_fp16(const struct mw_launch_plan *plan)
{
    return plan->sizing->settings.dtype == MW_DTYPE_FP16;
}

#define TOGETHER "its enable_cpu_offload moves parameters, gradients and optimizer state together"

static const struct mw_launch_rule rules[] = {
    {"strategy", MW_LAUNCH_REFUSED, shards_state_alone, "it shards gradients too, or nothing"},
    {"optimizer-device", MW_LAUNCH_REFUSED, mw_launch_offloads_a_part, TOGETHER},
    {"activation-device", MW_LAUNCH_LEFT, mw_launch_offloads_activations,
     "it keeps activation checkpoints on the GPU"},
    {"tp", MW_LAUNCH_CARRIED, NULL, NULL},
    {"sequence-parallel", MW_LAUNCH_LEFT, keeps_sequences_whole,
     "its norms share the tokens of tensor slices"},
    {"sequence-parallel", MW_LAUNCH_CARRIED, NULL, NULL},
    {"pp", MW_LAUNCH_CARRIED, NULL, NULL},
    {"shard-group", MW_LAUNCH_CARRIED, NULL, NULL},
    {"schedule", MW_LAUNCH_REFUSED, mw_launch_fills_bubbles,
     "its zero-bubble schedules have several stretches of layers in a stage"},
    {"schedule", MW_LAUNCH_REFUSED, mw_launch_overlaps_steps, "it ends each step with a flush"},
    {"schedule", MW_LAUNCH_CARRIED, NULL, NULL},
    {"virtual-stages", MW_LAUNCH_CARRIED, NULL, NULL},
    {"stage-split", MW_LAUNCH_LEFT, NULL,
     "parallelism.module_fqns_per_model_part takes names of modules, which are not written here"},
    {"dtype", MW_LAUNCH_REFUSED, is_fp16, "it trains in bf16 or fp32"},
    {"train", MW_LAUNCH_REFUSED, NULL, "the configuration trains all parameters"},
    {"optimizer", MW_LAUNCH_LEFT, mw_launch_trains_else, "the configuration has AdamW"},
    {"activation-checkpoint-interval", MW_LAUNCH_LEFT, mw_launch_groups_layers,
     "FullAC keeps a checkpoint for every layer"},
    {"activation-checkpoint-interval", MW_LAUNCH_CARRIED, NULL, NULL},
    {"logits-chunks", MW_LAUNCH_LEFT, NULL, "its ChunkedLossWrapper has a number of its own"},
    {NULL, MW_LAUNCH_LEFT, NULL, NULL},
};

/* --- what is written -------------------------------------------------------------------------- */

static void
line(GString *text, const char *key, int64_t value)
{
    g_string_append_printf(text, "    config.%s = %" G_GINT64_FORMAT "\n", key, value);
}

static void
word(GString *text, const char *key, const char *value)
{
    g_string_append_printf(text, "    config.%s = \"%s\"\n", key, value);
}

/* With stages a rank's batch is what the stages cut into micro-batches; else micro-batches are
 * accumulated until the global batch is there. */
static void
add_training(GString *text, const struct mw_launch_plan *plan)
{
    const struct mw_settings *s = &plan->sizing->settings;
    int64_t micro = mw_launch_micro_batch(plan), steps = mw_launch_steps(plan);

    line(text, "training.local_batch_size", s->pp > 1 ? micro * s->grad_accum : micro);
    line(text, "training.global_batch_size", mw_launch_global_batch(plan));
    line(text, "training.seq_len", s->seq);
    if (steps)
        line(text, "training.steps", steps);
    word(text, "training.mixed_precision_param",
         s->dtype == MW_DTYPE_FP32 ? "float32" : "bfloat16");
    g_string_append_printf(text, "    config.training.enable_cpu_offload = %s\n",
                           mw_launch_offloads(plan) ? "True" : "False");
}

static void
add_parallelism(GString *text, const struct mw_launch_plan *plan)
{
    const struct mw_settings *s = &plan->sizing->settings;
    bool shards = plan->sizing->optimizer_partitioned;

    line(text, "parallelism.data_parallel_replicate_degree",
         shards ? plan->sizing->replicas : plan->sizing->dp);
    line(text, "parallelism.data_parallel_shard_degree", shards ? plan->sizing->shards : 1);
    word(text, "parallelism.fsdp_reshard_after_forward",
         plan->sizing->params_partitioned ? "always" : "never");
    line(text, "parallelism.tensor_parallel_degree", s->tp);
    line(text, "parallelism.pipeline_parallel_degree", s->pp);
    if (s->pp > 1) {
        word(text, "parallelism.pipeline_parallel_schedule",
             s->schedule == MW_SCHEDULE_GPIPE         ? "GPipe"
             : s->schedule == MW_SCHEDULE_INTERLEAVED ? "Interleaved1F1B"
                                                      : "1F1B");
        if (plan->sizing->stretches > 1)
            line(text, "parallelism.pipeline_parallel_layers_per_stage",
                 mw_divide_up(plan->sizing->model->layers, s->pp * plan->sizing->stretches));
        line(text, "parallelism.pipeline_parallel_microbatch_size", mw_launch_micro_batch(plan));
    }
}

static void
configure(const struct mw_launch_plan *plan, struct mw_launch *out)
{
    bool recomputes = plan->sizing->settings.checkpoint_interval > 0;
    GString *text = g_string_new("\"\"\"The plan as a configuration of torchtitan 0.3.\"\"\"\n");

    if (recomputes)
        g_string_append(text, "from torchtitan.distributed.activation_checkpoint import FullAC\n");
    g_string_append(text, "from torchtitan.models.llama3 import model_registry\n"
                          "from torchtitan.models.llama3.config_registry import llama3_8b\n\n\n"
                          "def planned():\n"
                          "    config = llama3_8b()\n");
    g_string_append_printf(text, "    config.model_spec = model_registry(\"%s\")\n",
                           flavor_of(plan->sizing->model));
    add_training(text, plan);
    add_parallelism(text, plan);
    g_string_append_printf(text, "    config.activation_checkpoint = %s\n    return config\n",
                           recomputes ? "FullAC.Config()" : "None");
    mw_launch_add(out, "memwall_titan.py", g_string_free(text, FALSE), false);
}

static bool
write_files(const struct mw_launch_plan *plan, struct mw_launch *out, GError **error)
{
    GString *shell = mw_launch_shell(plan, mw_launch_torchtitan.name);

    mw_launch_shell_go(shell);
    g_string_append(shell, ": \"${HF_ASSETS:?is missing: a folder with the model's tokenizer, as "
                           "torchtitan's scripts/download_hf_assets.py makes it}\"\n"
                           "export PYTHONPATH=\"$PWD${PYTHONPATH:+:$PYTHONPATH}\"\n");
    mw_launch_fill(out, "HF_ASSETS: fill in a folder with the model's tokenizer; the data are C4, "
                        "unless the configuration names others");
    mw_launch_shell_torchrun(shell, plan, out);
    mw_launch_word(shell, "-m");
    mw_launch_word(shell, "torchtitan.train");
    mw_launch_option(shell, "--module", "memwall_titan");
    mw_launch_option(shell, "--config", "planned");
    mw_launch_variable(shell, "--hf_assets_path", "HF_ASSETS");
    g_string_append(shell, " \\\n    \"$@\"\n");
    mw_launch_add(out, MW_LAUNCH_START, g_string_free(shell, FALSE), true);
    configure(plan, out);
    mw_launch_note_fp32(plan, out,
                        "parameters rest in fp32 and gradients are reduced in fp32; its "
                        "mixed_precision_param is the type that layers compute in");
    return true;
}

const struct mw_launch_target mw_launch_torchtitan = {
    .name = "torchtitan",
    .title = "torchtitan",
    .rules = {mw_launch_no_drives_rules, rules},
    .why_not = why_not,
    .write = write_files,
};
