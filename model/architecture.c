/* What each architecture fixes, and the dimensions as a table. */
#include <string.h>

#include "model/internal.h"

#define DIMENSION(field, min, max)                                                                 \
    {                                                                                              \
#field, offsetof(struct mw_model, field), min, max                                         \
    }

/* The maxima leave room over any published model: the largest of ZeRO-Infinity's, 100T, has 315
 * layers of hidden size 163840. */
const struct mw_dimension_info mw_dimensions[MW_DIMENSION_COUNT] = {
    [MW_DIMENSION_LAYERS] = DIMENSION(layers, 1, 100000),
    [MW_DIMENSION_HIDDEN] = DIMENSION(hidden, 1, 1 << 21),
    [MW_DIMENSION_HEADS] = DIMENSION(heads, 1, 1 << 16),
    [MW_DIMENSION_KV_HEADS] = DIMENSION(kv_heads, 1, 1 << 16),
    [MW_DIMENSION_HEAD_DIM] = DIMENSION(head_dim, 1, 1 << 16),
    [MW_DIMENSION_VALUE_DIM] = DIMENSION(value_dim, 1, 1 << 16),
    [MW_DIMENSION_FFN] = DIMENSION(ffn, 1, 1 << 24),
    [MW_DIMENSION_VOCAB] = DIMENSION(vocab, 0, 1 << 26),
    [MW_DIMENSION_SEQ] = DIMENSION(seq, 1, 1 << 28),
    [MW_DIMENSION_EMBEDDING_DIM] = DIMENSION(embedding_dim, 1, 1 << 21),
    [MW_DIMENSION_EXPERTS] = DIMENSION(experts, 0, 1 << 16),
    [MW_DIMENSION_EXPERTS_PER_TOKEN] = DIMENSION(experts_per_token, 0, 1 << 16),
    [MW_DIMENSION_EXPERT_FFN] = DIMENSION(expert_ffn, 0, 1 << 24),
    [MW_DIMENSION_SHARED_EXPERT_FFN] = DIMENSION(shared_expert_ffn, 0, 1 << 24),
    [MW_DIMENSION_DENSE_LAYERS] = DIMENSION(dense_layers, 0, 100000),
    [MW_DIMENSION_Q_LORA] = DIMENSION(q_lora, 0, 1 << 21),
    [MW_DIMENSION_KV_LORA] = DIMENSION(kv_lora, 0, 1 << 21),
    [MW_DIMENSION_ROPE_DIM] = DIMENSION(rope_dim, 0, 1 << 16),
};

/*
 * Templates.  Dimensions given here are the defaults of Hugging Face's config classes that their
 * published config.json files rely on; position_rows holds the rows of the position table beyond
 * `seq` (OPT leaves its first two unused).
 */
static const struct mw_model templates[] = {
    {.architecture = "gpt2",
     .mlp_matrices = 2,
     .norms_per_layer = 2,
     .learned_positions = true,
     .tied_embedding = true,
     .attention_bias = true,
     .projection_bias = true,
     .mlp_bias = true,
     .norm_bias = true,
     .final_norm = true,
     .dropout = true},
    {.architecture = "opt",
     .mlp_matrices = 2,
     .norms_per_layer = 2,
     .learned_positions = true,
     .position_rows = 2,
     .tied_embedding = true,
     .attention_bias = true,
     .projection_bias = true,
     .mlp_bias = true,
     .norm_bias = true,
     .final_norm = true,
     .dropout = true},
    {.architecture = "bloom", /* ALiBi: no position table, nothing rotated */
     .mlp_matrices = 2,
     .norms_per_layer = 2,
     .tied_embedding = true,
     .attention_bias = true,
     .projection_bias = true,
     .mlp_bias = true,
     .norm_bias = true,
     .final_norm = true,
     .embedding_norm = true},
    {.architecture = "llama",
     .mlp_matrices = 3,
     .norms_per_layer = 2,
     .rotary = true,
     .final_norm = true},
    {.architecture = "mistral",
     .mlp_matrices = 3,
     .norms_per_layer = 2,
     .rotary = true,
     .final_norm = true},
    {.architecture = "mixtral",
     .mlp_matrices = 3,
     .norms_per_layer = 2,
     .rotary = true,
     .final_norm = true},
    {.architecture = "qwen2",
     .mlp_matrices = 3,
     .norms_per_layer = 2,
     .rotary = true,
     .attention_bias = true,
     .final_norm = true},
    {.architecture = "qwen3",
     .mlp_matrices = 3,
     .norms_per_layer = 2,
     .rotary = true,
     .head_dim = 128,
     .qk_norm = true,
     .final_norm = true},
    {.architecture = "qwen3_moe",
     .mlp_matrices = 3,
     .norms_per_layer = 2,
     .rotary = true,
     .qk_norm = true,
     .final_norm = true},
    {.architecture = "gemma",
     .mlp_matrices = 3,
     .norms_per_layer = 2,
     .rotary = true,
     .head_dim = 256,
     .tied_embedding = true,
     .final_norm = true},
    {.architecture = "gemma2",
     .mlp_matrices = 3,
     .norms_per_layer = 4,
     .rotary = true,
     .head_dim = 256,
     .tied_embedding = true,
     .final_norm = true},
    {.architecture = "gemma3_text",
     .mlp_matrices = 3,
     .norms_per_layer = 4,
     .rotary = true,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 256,
     .vocab = 262208,
     .seq = 131072,
     .qk_norm = true,
     .tied_embedding = true,
     .final_norm = true},
    {.architecture = "phi",
     .mlp_matrices = 2,
     .norms_per_layer = 1,
     .parallel_block = true,
     .rotary = true,
     .attention_bias = true,
     .projection_bias = true,
     .mlp_bias = true,
     .norm_bias = true,
     .logits_bias = true,
     .final_norm = true},
    {.architecture = "phi3",
     .mlp_matrices = 3,
     .norms_per_layer = 2,
     .rotary = true,
     .final_norm = true},
    {.architecture = "deepseek_v3",
     .mlp_matrices = 3,
     .norms_per_layer = 2,
     .rotary = true,
     .router_bias = true,
     .final_norm = true},
};

bool
mw_model_begin(struct mw_model *model, const char *architecture)
{
    for (size_t i = 0; i < G_N_ELEMENTS(templates); i++) {
        if (!strcmp(templates[i].architecture, architecture)) {
            *model = templates[i];
            return true;
        }
    }
    return false;
}

void
mw_model_set_name(struct mw_model *model, const char *text)
{
    g_autofree char *valid = g_utf8_make_valid(text, -1);
    const char *end;

    g_strlcpy(model->name, valid, sizeof model->name);
    if (!g_utf8_validate(model->name, -1, &end))
        model->name[end - model->name] = '\0';
}
