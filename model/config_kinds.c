/* What each model_type calls its dimensions, and what else it says. */
#include "base/error.h"
#include "base/json.h"
#include "model/config.h"

static const struct mw_dimension_names gpt2_names = {{
    [MW_DIMENSION_LAYERS] = "n_layer",
    [MW_DIMENSION_HIDDEN] = "n_embd",
    [MW_DIMENSION_HEADS] = "n_head",
    [MW_DIMENSION_FFN] = "n_inner",
    [MW_DIMENSION_VOCAB] = "vocab_size",
    [MW_DIMENSION_SEQ] = "n_positions",
}};

static const struct mw_dimension_names bloom_names = {{
    [MW_DIMENSION_LAYERS] = "n_layer",
    [MW_DIMENSION_HIDDEN] = "hidden_size",
    [MW_DIMENSION_HEADS] = "n_head",
    [MW_DIMENSION_VOCAB] = "vocab_size",
    [MW_DIMENSION_SEQ] = "seq_length",
}};

static const struct mw_dimension_names opt_names = {{
    [MW_DIMENSION_LAYERS] = "num_hidden_layers",
    [MW_DIMENSION_HIDDEN] = "hidden_size",
    [MW_DIMENSION_HEADS] = "num_attention_heads",
    [MW_DIMENSION_FFN] = "ffn_dim",
    [MW_DIMENSION_VOCAB] = "vocab_size",
    [MW_DIMENSION_SEQ] = "max_position_embeddings",
    [MW_DIMENSION_EMBEDDING_DIM] = "word_embed_proj_dim",
}};

#define LLAMA_NAMES                                                                                \
    [MW_DIMENSION_LAYERS] = "num_hidden_layers", [MW_DIMENSION_HIDDEN] = "hidden_size",            \
    [MW_DIMENSION_HEADS] = "num_attention_heads", [MW_DIMENSION_KV_HEADS] = "num_key_value_heads", \
    [MW_DIMENSION_FFN] = "intermediate_size", [MW_DIMENSION_VOCAB] = "vocab_size",                 \
    [MW_DIMENSION_SEQ] = "max_position_embeddings"

static const struct mw_dimension_names llama_names = {{
    LLAMA_NAMES,
    [MW_DIMENSION_HEAD_DIM] = "head_dim",
}};

/* Phi's heads always divide its hidden size. */
static const struct mw_dimension_names phi_names = {{LLAMA_NAMES}};

static const struct mw_dimension_names mixtral_names = {{
    LLAMA_NAMES,
    [MW_DIMENSION_HEAD_DIM] = "head_dim",
    [MW_DIMENSION_EXPERTS] = "num_local_experts",
    [MW_DIMENSION_EXPERTS_PER_TOKEN] = "num_experts_per_tok",
}};

static const struct mw_dimension_names qwen3_moe_names = {{
    LLAMA_NAMES,
    [MW_DIMENSION_HEAD_DIM] = "head_dim",
    [MW_DIMENSION_EXPERTS] = "num_experts",
    [MW_DIMENSION_EXPERTS_PER_TOKEN] = "num_experts_per_tok",
    [MW_DIMENSION_EXPERT_FFN] = "moe_intermediate_size",
}};

static const struct mw_dimension_names deepseek_names = {{
    LLAMA_NAMES,
    [MW_DIMENSION_VALUE_DIM] = "v_head_dim",
    [MW_DIMENSION_EXPERTS] = "n_routed_experts",
    [MW_DIMENSION_EXPERTS_PER_TOKEN] = "num_experts_per_tok",
    [MW_DIMENSION_EXPERT_FFN] = "moe_intermediate_size",
    [MW_DIMENSION_DENSE_LAYERS] = "first_k_dense_replace",
    [MW_DIMENSION_Q_LORA] = "q_lora_rank",
    [MW_DIMENSION_KV_LORA] = "kv_lora_rank",
    [MW_DIMENSION_ROPE_DIM] = "qk_rope_head_dim",
}};

static bool
read_flag(const struct mw_config *config, const char *key, bool *out)
{
    return mw_json_get_bool(config->object, key, config->origin, out, config->error);
}

/* Fails where the key is there and says something that this walk does not know. */
static bool
expect_flag(const struct mw_config *config, const char *key, bool expected)
{
    bool value = expected;

    if (!read_flag(config, key, &value))
        return false;
    if (value == expected)
        return true;
    g_set_error(config->error, MW_ERROR, MW_ERROR_INVALID, "%s: key \"%s\": value %s: must be %s",
                config->origin, key, value ? "true" : "false", expected ? "true" : "false");
    return false;
}

/* Dropout is off where every one of its rates is given as 0. */
static bool
read_dropout(const struct mw_config *config, const char *residual, const char *scores)
{
    double residual_rate = 0.1, scores_rate = 0.1;

    if (!mw_json_get_number(config->object, residual, 0, 1, config->origin, &residual_rate,
                            config->error) ||
        !mw_json_get_number(config->object, scores, 0, 1, config->origin, &scores_rate,
                            config->error))
        return false;
    config->model->dropout = residual_rate > 0 || scores_rate > 0;
    return true;
}

static bool
read_gpt2(const struct mw_config *config)
{
    return expect_flag(config, "add_cross_attention", false) &&
           read_dropout(config, "resid_pdrop", "attn_pdrop");
}

static bool
read_opt(const struct mw_config *config)
{
    struct mw_model *model = config->model;
    bool norm_first = true, without_final_norm = false, bias = true;

    if (!read_flag(config, "do_layer_norm_before", &norm_first) ||
        !read_flag(config, "_remove_final_layer_norm", &without_final_norm) ||
        !read_flag(config, "enable_bias", &bias) ||
        !expect_flag(config, "layer_norm_elementwise_affine", true) ||
        !read_dropout(config, "dropout", "attention_dropout"))
        return false;
    model->final_norm = norm_first && !without_final_norm;
    model->attention_bias = model->projection_bias = model->mlp_bias = bias;
    return true;
}

static bool
read_attention_bias(const struct mw_config *config)
{
    if (!read_flag(config, "attention_bias", &config->model->attention_bias))
        return false;
    config->model->projection_bias = config->model->attention_bias;
    return true;
}

static bool
read_llama(const struct mw_config *config)
{
    return read_attention_bias(config) && read_flag(config, "mlp_bias", &config->model->mlp_bias);
}

static bool
read_phi(const struct mw_config *config)
{
    return read_flag(config, "qk_layernorm", &config->model->qk_norm);
}

static bool
read_mixtral(const struct mw_config *config)
{
    config->model->expert_ffn = config->model->ffn;
    return true;
}

/* Layers without experts may only be the first ones: [0, 1, ...]. */
static bool
read_dense_layers(const struct mw_config *config)
{
    JsonNode *node = json_object_get_member(config->object, "mlp_only_layers");
    JsonArray *array = node && JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
    guint count = array ? json_array_get_length(array) : 0;
    bool leading = !node || array || JSON_NODE_HOLDS_NULL(node);

    for (guint i = 0; i < count && leading; i++) {
        JsonNode *element = json_array_get_element(array, i);
        leading = json_node_get_value_type(element) == G_TYPE_INT64 &&
                  json_node_get_int(element) == (gint64)i;
    }
    config->model->dense_layers = count;
    if (!leading)
        g_set_error(config->error, MW_ERROR, MW_ERROR_INVALID,
                    "%s: key \"mlp_only_layers\": must be a list of the first layers: [0, 1, ...]",
                    config->origin);
    return leading;
}

static bool
read_qwen3_moe(const struct mw_config *config)
{
    int64_t step = 1;

    return read_attention_bias(config) && read_dense_layers(config) &&
           mw_json_get_int(config->object, "decoder_sparse_step", 1, 1, config->origin, &step,
                           config->error);
}

static bool
read_deepseek(const struct mw_config *config)
{
    struct mw_model *model = config->model;
    int64_t shared = 0, without_positions = 0, step = 1;

    if (!mw_json_get_int(config->object, "n_shared_experts", 0, 256, config->origin, &shared,
                         config->error) ||
        !mw_json_get_int(config->object, "qk_nope_head_dim", 1, 1 << 15, config->origin,
                         &without_positions, config->error) ||
        !mw_json_get_int(config->object, "moe_layer_freq", 1, 1, config->origin, &step,
                         config->error) ||
        !expect_flag(config, "attention_bias", false))
        return false;
    if (!without_positions || !model->value_dim || !model->kv_lora || !model->rope_dim) {
        g_set_error(config->error, MW_ERROR, MW_ERROR_INVALID,
                    "%s: kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim: must all be "
                    "whole numbers above 0",
                    config->origin);
        return false;
    }
    model->head_dim = without_positions + model->rope_dim;
    model->shared_expert_ffn = shared * model->expert_ffn;
    return true;
}

const struct mw_config_kind mw_config_kinds[] = {
    {"gpt2", "GPT2LMHead", "gpt2", &gpt2_names, read_gpt2},
    {"opt", "OPTFor", "opt", &opt_names, read_opt},
    {"bloom", "BloomFor", "bloom", &bloom_names, NULL},
    {"llama", "LlamaFor", "llama", &llama_names, read_llama},
    {"mistral", "MistralFor", "mistral", &llama_names, NULL},
    {"mixtral", "MixtralFor", "mixtral", &mixtral_names, read_mixtral},
    {"qwen2", "Qwen2For", "qwen2", &llama_names, NULL},
    {"qwen3", "Qwen3For", "qwen3", &llama_names, read_attention_bias},
    {"qwen3_moe", "Qwen3MoeFor", "qwen3_moe", &qwen3_moe_names, read_qwen3_moe},
    {"gemma", "GemmaFor", "gemma", &llama_names, read_attention_bias},
    {"gemma2", "Gemma2For", "gemma2", &llama_names, read_attention_bias},
    {"gemma3_text", "Gemma3ForCausal", "gemma3_text", &llama_names, read_attention_bias},
    {"gemma3", "Gemma3ForConditional", "gemma3_text", &llama_names, read_attention_bias},
    {"phi", "PhiFor", "phi", &phi_names, read_phi},
    {"phi3", "Phi3For", "phi3", &phi_names, NULL},
    {"deepseek_v3", "DeepseekV3For", "deepseek_v3", &deepseek_names, read_deepseek},
    {"kimi_k2", NULL, "deepseek_v3", &deepseek_names, read_deepseek},
};
const int mw_config_kind_count = G_N_ELEMENTS(mw_config_kinds);
