/* Megatron-LM: the arguments of its pretrain_gpt.py. */
#include <string.h>

#include "launch/internal.h"
#include "plan/optimizers.h"

/* --- models ----------------------------------------------------------------------------------- */

/* What its arguments do not say of a decoder. */
static char *
why_not(const struct mw_launch_plan *plan)
{
    const struct mw_model *m = plan->sizing->model;
    const char *why = m->described || m->mixed  ? "layers of several kinds"
                      : m->experts              ? "experts"
                      : m->kv_lora              ? "latent attention"
                      : m->parallel_block       ? "attention and MLP beside each other"
                      : m->norms_per_layer != 2 ? "norms other than two per layer"
                      : m->window               ? "windows of attention"
                      : m->bare || m->classes   ? "no head of tokens"
                      : m->embedding_dim != 0 && m->embedding_dim != m->hidden
                          ? "an embedding of another width"
                          : NULL;

    return why ? g_strdup_printf("it has %s, for which no arguments are written", why) : NULL;
}

static void
add_model(GString *shell, const struct mw_model *m)
{
    mw_launch_option_number(shell, "--num-layers", m->layers);
    mw_launch_option_number(shell, "--hidden-size", m->hidden);
    mw_launch_option_number(shell, "--ffn-hidden-size", m->ffn);
    mw_launch_option_number(shell, "--num-attention-heads", m->heads);
    mw_launch_option_number(shell, "--kv-channels", m->head_dim);
    if (m->kv_heads != m->heads) {
        mw_launch_word(shell, "--group-query-attention");
        mw_launch_option_number(shell, "--num-query-groups", m->kv_heads);
    }
    mw_launch_option(shell, "--position-embedding-type", m->rotary ? "rope" : "learned_absolute");
    mw_launch_option(shell, "--normalization", m->norm_bias ? "LayerNorm" : "RMSNorm");
    if (m->mlp_matrices == 3)
        mw_launch_word(shell, "--swiglu");
    if (!m->dropout) {
        mw_launch_option(shell, "--attention-dropout", "0");
        mw_launch_option(shell, "--hidden-dropout", "0");
    }
    if (m->qk_norm)
        mw_launch_word(shell, "--qk-layernorm");
    if (!m->mlp_bias)
        mw_launch_word(shell, "--disable-bias-linear");
    if (m->attention_bias && !m->mlp_bias)
        mw_launch_word(shell, "--add-qkv-bias");
    if (!m->tied_embedding)
        mw_launch_word(shell, "--untie-embeddings-and-output-weights");
}

/* --- what it can ------------------------------------------------------------------------------ */

static bool
off_gpu(const struct mw_launch_plan *plan)
{
    return mw_launch_is_off_gpu(plan, MW_STATE_PARAMETERS);
}

/* Megatron-FSDP has the shards of gradients and parameters; it does not offload. */
static bool
shards_and_offloads(const struct mw_launch_plan *plan)
{
    return mw_launch_offloads(plan) && plan->sizing->params_partitioned;
}

static bool
has_gradients_off(const struct mw_launch_plan *plan)
{
    return mw_launch_is_off_gpu(plan, MW_STATE_GRADIENTS);
}

/* Its name for an optimizer; NULL: it has none. */
static const char *
optimizer_name(const struct mw_launch_plan *plan)
{
    switch (plan->sizing->settings.optimizer) {
    case MW_OPTIMIZER_ADAMW:
        return "adam";
    case MW_OPTIMIZER_SGD:
        return "sgd";
    case MW_OPTIMIZER_MUON:
        return "muon";
    default:
        return NULL;
    }
}

static bool
has_no_optimizer(const struct mw_launch_plan *plan)
{
    return !optimizer_name(plan);
}

static bool
all_forward_first(const struct mw_launch_plan *plan)
{
    return plan->sizing->settings.schedule == MW_SCHEDULE_GPIPE;
}

static const struct mw_launch_rule rules[] = {
    {"strategy", MW_LAUNCH_REFUSED, shards_and_offloads,
     "its optimizer on the host goes with parameters that each GPU keeps whole"},
    {"param-device", MW_LAUNCH_REFUSED, off_gpu, "it keeps parameters on the GPU"},
    {"gradient-device", MW_LAUNCH_LEFT, has_gradients_off,
     "gradients stay on the GPU until the update"},
    {"activation-device", MW_LAUNCH_LEFT, mw_launch_offloads_activations,
     "it keeps activation checkpoints on the GPU"},
    {"train", MW_LAUNCH_REFUSED, NULL, "pretrain_gpt.py trains all parameters"},
    {"optimizer", MW_LAUNCH_REFUSED, has_no_optimizer, "it has adam, sgd and muon"},
    {"optimizer", MW_LAUNCH_CARRIED, NULL, NULL},
    {"tp", MW_LAUNCH_CARRIED, NULL, NULL},
    {"sequence-parallel", MW_LAUNCH_CARRIED, NULL, NULL},
    {"cp", MW_LAUNCH_CARRIED, NULL, NULL},
    {"cp-kind", MW_LAUNCH_CARRIED, NULL, NULL},
    {"pp", MW_LAUNCH_CARRIED, NULL, NULL},
    {"shard-group", MW_LAUNCH_CARRIED, NULL, NULL},
    {"schedule", MW_LAUNCH_REFUSED, all_forward_first,
     "its stages do one forward and one backward in turn"},
    {"schedule", MW_LAUNCH_REFUSED, mw_launch_fills_bubbles,
     "its backward computes gradients of inputs and weights together"},
    {"schedule", MW_LAUNCH_REFUSED, mw_launch_overlaps_steps, "it ends each step with a flush"},
    {"schedule", MW_LAUNCH_CARRIED, NULL, NULL},
    {"virtual-stages", MW_LAUNCH_CARRIED, NULL, NULL},
    {"stage-split", MW_LAUNCH_CARRIED, NULL, NULL},
    {"overlap", MW_LAUNCH_CARRIED, NULL, NULL},
    {"state-layout", MW_LAUNCH_CARRIED, NULL, NULL},
    {"activation-checkpoint-interval", MW_LAUNCH_CARRIED, NULL, NULL},
    {"recompute-layers", MW_LAUNCH_CARRIED, NULL, NULL},
    {"recompute-attention", MW_LAUNCH_CARRIED, NULL, NULL},
    {"checkpoint-partition", MW_LAUNCH_CARRIED, NULL, NULL},
    {"matmul-dtype", MW_LAUNCH_CARRIED, NULL, NULL},
    {NULL, MW_LAUNCH_LEFT, NULL, NULL},
};

static bool
uses_fsdp(const struct mw_launch_plan *plan)
{
    return plan->sizing->gradients_partitioned && !mw_launch_offloads(plan);
}

/* --- arguments -------------------------------------------------------------------------------- */

static void
add_sharding(GString *shell, const struct mw_launch_plan *plan)
{
    const struct mw_sizing *sizing = plan->sizing;

    if (uses_fsdp(plan)) {
        mw_launch_word(shell, "--use-megatron-fsdp");
        mw_launch_option(shell, "--data-parallel-sharding-strategy",
                         sizing->params_partitioned ? "optim_grads_params" : "optim_grads");
        mw_launch_option(shell, "--ckpt-format", "fsdp_dtensor");
    }
    if (sizing->optimizer_partitioned)
        mw_launch_word(shell, "--use-distributed-optimizer");
    if (sizing->replicas > 1)
        mw_launch_option_number(shell, "--num-distributed-optimizer-instances", sizing->replicas);
    if (mw_launch_offloads(plan)) {
        mw_launch_word(shell, "--optimizer-cpu-offload");
        mw_launch_word(shell, "--use-precision-aware-optimizer");
    }
    if (sizing->settings.overlap && sizing->dp > 1) {
        mw_launch_word(shell, "--overlap-grad-reduce");
        if (sizing->optimizer_partitioned)
            mw_launch_word(shell, "--overlap-param-gather");
    }
}

/* Layers that are recomputed: all of them in groups, or the first ones of a stage. */
static void
add_recompute(GString *shell, const struct mw_launch_plan *plan)
{
    const struct mw_settings *s = &plan->sizing->settings;
    bool some = s->recompute_layers > 0;

    if (s->checkpoint_interval == 0) {
        if (s->scores_again == 1)
            mw_launch_option(shell, "--recompute-granularity", "selective");
        return;
    }
    mw_launch_option(shell, "--recompute-granularity", "full");
    mw_launch_option(shell, "--recompute-method", some ? "block" : "uniform");
    mw_launch_option_number(shell, "--recompute-num-layers",
                            some ? s->recompute_layers : s->checkpoint_interval);
    if (s->tp > 1 && s->checkpoint_partition != 0 && !s->sequence_parallel)
        mw_launch_word(shell, "--distribute-saved-activations");
}

static void
add_batch(GString *shell, const struct mw_launch_plan *plan)
{
    const struct mw_settings *s = &plan->sizing->settings;
    int64_t steps = mw_launch_steps(plan);

    mw_launch_option_number(shell, "--seq-length", s->seq);
    mw_launch_option_number(shell, "--max-position-embeddings", s->seq);
    mw_launch_option_number(shell, "--micro-batch-size", mw_launch_micro_batch(plan));
    mw_launch_option_number(shell, "--global-batch-size", mw_launch_global_batch(plan));
    if (steps)
        mw_launch_option_number(shell, "--train-iters", steps);
    else
        mw_launch_variable(shell, "--train-iters", "{TRAIN_ITERS:=100}");
}

/* As `memwall run` has them; a plan does not depend on them. */
static void
add_course(GString *shell, const struct mw_launch_plan *plan)
{
    mw_launch_option(shell, "--optimizer", optimizer_name(plan));
    mw_launch_option(shell, "--lr", "3e-4");
    mw_launch_option(shell, "--weight-decay", "0.1");
    mw_launch_option(shell, "--adam-beta2", "0.95");
    mw_launch_option(shell, "--clip-grad", "1.0");
}

static void
add_types(GString *shell, const struct mw_launch_plan *plan)
{
    const struct mw_settings *s = &plan->sizing->settings;
    int64_t kept = plan->sizing->gradient_element_bytes;
    bool narrow = mw_sizing_reduced_bytes(plan->sizing, kept) == 2;

    if (s->dtype == MW_DTYPE_BF16)
        mw_launch_word(shell, "--bf16");
    if (s->dtype == MW_DTYPE_FP16)
        mw_launch_word(shell, "--fp16");
    if (s->matmul_dtype == MW_DTYPE_FP8)
        mw_launch_option(shell, "--fp8-format", "hybrid");
    if (s->dtype == MW_DTYPE_BF16 && narrow) /* else in fp32, by default */
        mw_launch_word(shell, "--grad-reduce-in-bf16");
    else if (s->grad_accum > 1 || s->layout == MW_LAYOUT_PAPER20)
        mw_launch_word(shell, "--accumulate-allreduce-grads-in-fp32");
}

static void
ask(GString *shell, const struct mw_launch_plan *plan, struct mw_launch *out)
{
    g_string_append(shell,
                    ": \"${MEGATRON:?is missing: the folder of Megatron-LM}\"\n"
                    ": \"${TOKENIZER:?is missing: name or folder of the tokenizer at Hugging "
                    "Face}\"\n"
                    ": \"${DATA:?is missing: prefix of data as tools/preprocess_data.py writes "
                    "them, or mock}\"\n"
                    "data=(--data-path \"$DATA\")\n"
                    "[ \"$DATA\" != mock ] || data=(--mock-data)\n");
    /* Slices want one queue of the device for computation and collectives, as its arguments.py
     * checks, and its FSDP more than one. */
    if (plan->sizing->tp > 1 && !uses_fsdp(plan))
        g_string_append(shell, "export CUDA_DEVICE_MAX_CONNECTIONS=1\n");
    mw_launch_fill(out, "MEGATRON, TOKENIZER, DATA: fill in where Megatron-LM, the tokenizer and "
                        "preprocessed data are (DATA=mock: none, to measure speed)");
    mw_launch_note(out,
                   "vocabulary: %" G_GINT64_FORMAT " as planned; Megatron-LM takes that of "
                   "the tokenizer, padded",
                   plan->sizing->model->vocab);
}

/* "Et*8|t*9|t*6,L": embedding, layers of each stage, or of its stretches in turn, and loss;
 * "E|t*8|L" where these have a stage each. */
static void
add_layout(GString *shell, const struct mw_launch_plan *plan)
{
    const struct mw_settings *s = &plan->sizing->settings;
    int64_t layers = plan->sizing->model->layers, parts = s->pp * plan->sizing->stretches;
    g_autoptr(GString) layout = g_string_new("E");

    int64_t own = 0;
    for (int64_t part = 0; part < parts; part++) {
        own = mw_settings_stretch_begin(s, layers, part + 1) -
              mw_settings_stretch_begin(s, layers, part);
        g_string_append(layout, part ? "|" : "");
        if (own)
            g_string_append_printf(layout, "t*%" G_GINT64_FORMAT, own);
    }
    g_string_append(layout, own ? ",L" : "L");
    mw_launch_option(shell, "--pipeline-model-parallel-layout", layout->str);
}

/* Its own stages have as many layers each, and it counts the stretches of a layout itself
 * (megatron/core/transformer/pipeline_parallel_layer_layout.py). */
static void
add_stages(GString *shell, const struct mw_launch_plan *plan)
{
    const struct mw_settings *s = &plan->sizing->settings;
    int64_t layers = plan->sizing->model->layers, parts = s->pp * plan->sizing->stretches;

    mw_launch_option_number(shell, "--pipeline-model-parallel-size", s->pp);
    if (!mw_layer_set_is_empty(&s->stage_begins) || layers % parts)
        add_layout(shell, plan);
    else if (plan->sizing->stretches > 1)
        mw_launch_option_number(shell, "--num-layers-per-virtual-pipeline-stage", layers / parts);
}

static bool
write_files(const struct mw_launch_plan *plan, struct mw_launch *out, GError **error)
{
    const struct mw_settings *s = &plan->sizing->settings;
    GString *shell = mw_launch_shell(plan, mw_launch_megatron.name);

    ask(shell, plan, out);
    mw_launch_shell_torchrun(shell, plan, out);
    g_string_append(shell, " \\\n    \"$MEGATRON\"/pretrain_gpt.py");
    add_model(shell, plan->sizing->model);
    mw_launch_option_number(shell, "--tensor-model-parallel-size", s->tp);
    if (s->sequence_parallel == 1)
        mw_launch_word(shell, "--sequence-parallel");
    if (s->cp > 1) {
        mw_launch_option_number(shell, "--context-parallel-size", s->cp);
        mw_launch_option(shell, "--cp-comm-type", s->cp_kind == MW_CONTEXT_RING ? "p2p" : "a2a");
    }
    add_stages(shell, plan);
    add_sharding(shell, plan);
    add_recompute(shell, plan);
    add_batch(shell, plan);
    add_course(shell, plan);
    add_types(shell, plan);
    mw_launch_option(shell, "--tokenizer-type", "HuggingFaceTokenizer");
    mw_launch_variable(shell, "--tokenizer-model", "TOKENIZER");
    g_string_append(shell, " \\\n    \"${data[@]}\" \\\n    \"$@\"\n");
    mw_launch_add(out, MW_LAUNCH_START, g_string_free(shell, FALSE), true);
    return true;
}

const struct mw_launch_target mw_launch_megatron = {
    .name = "megatron",
    .title = "Megatron-LM",
    .rules = {mw_launch_no_drives_rules, rules},
    .why_not = why_not,
    .write = write_files,
};
