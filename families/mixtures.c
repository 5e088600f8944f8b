/* Decoders with attention in every layer, and a mixture of experts in all or some. */
#include "families/rows.h"

#define WIDTHS {"hidden_size", MW_DIMENSION_HIDDEN}, {"intermediate_size", MW_DIMENSION_FFN}, HEADS
#define TIED                                                                                       \
    {                                                                                              \
        "tie_word_embeddings", MW_FLAG_TIED_EMBEDDING                                              \
    }
#define WINDOW                                                                                     \
    {                                                                                              \
        "sliding_window ?? 0", MW_DIMENSION_WINDOW                                                 \
    }
#define ATTENTION_BIAS                                                                             \
    {"attention_bias", MW_FLAG_QKV_BIAS},                                                          \
    {                                                                                              \
        "attention_bias", MW_FLAG_PROJECTION_BIAS                                                  \
    }
#define EXPERTS(count, visited, ffn, shared)                                                       \
    {count, MW_DIMENSION_EXPERTS}, {visited, MW_DIMENSION_EXPERTS_PER_TOKEN},                      \
        {ffn, MW_DIMENSION_EXPERT_FFN},                                                            \
    {                                                                                              \
        shared, MW_DIMENSION_SHARED_EXPERT_FFN                                                     \
    }
#define SLIDING "layer_types[layer] == 'sliding_attention'"

static const struct mw_family_let llama_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    END,
};

/* --- experts in every layer ------------------------------------------------------------------ */

static const struct mw_family_key granite_keys[] = {
    WIDTHS,
    ENDS,
    TIED,
    ATTENTION_BIAS,
    EXPERTS("num_local_experts", "num_experts_per_tok", "intermediate_size",
            "shared_intermediate_size ?? 0"),
    END,
};

static const struct mw_family_key olmoe_keys[] = {
    WIDTHS,
    ENDS,
    TIED,
    ATTENTION_BIAS,
    EXPERTS("num_experts", "num_experts_per_tok", "intermediate_size", "0"),
    END,
};
static const struct mw_family_tensor olmoe_tensors[] = {
    VECTOR(QKV, "num_attention_heads * head_dim"),
    VECTOR(QKV, "num_key_value_heads * head_dim"),
    END,
};

static const struct mw_family_key phimoe_keys[] = {
    WIDTHS,
    ENDS,
    TIED,
    WINDOW,
    ATTENTION_BIAS,
    {"lm_head_bias ?? 0", MW_FLAG_LOGITS_BIAS},
    EXPERTS("num_local_experts", "num_experts_per_tok", "intermediate_size", "0"),
    END,
};

static const struct mw_family_let dbrx_lets[] = {{"tie_word_embeddings", "0", false}, END};
static const struct mw_family_key dbrx_keys[] = {
    {"d_model", MW_DIMENSION_HIDDEN},
    {"ffn_config.ffn_hidden_size", MW_DIMENSION_FFN},
    {"n_layers", MW_DIMENSION_LAYERS},
    {"n_heads", MW_DIMENSION_HEADS},
    {"attn_config.kv_n_heads ?? num_key_value_heads ?? 1", MW_DIMENSION_KV_HEADS},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"max_seq_len ?? 2048", MW_DIMENSION_SEQ},
    TIED,
    EXPERTS("ffn_config.moe_num_experts ?? 4", "ffn_config.moe_top_k ?? 1",
            "ffn_config.ffn_hidden_size", "0"),
    END,
};

static const struct mw_family_let gpt_oss_lets[] = {
    {"head_dim", "64", false},
    {"attention_bias", "1", false},
    LLAMA_LETS,
    {"num_experts_per_tok", "experts_per_token ?? 4", false},
    {"tie_word_embeddings", "0", false},
    END,
};
static const struct mw_family_key gpt_oss_keys[] = {
    WIDTHS,
    ENDS,
    TIED,
    WINDOW,
    ATTENTION_BIAS,
    EXPERTS("num_local_experts", "num_experts_per_tok", "intermediate_size", "0"),
    END,
};
static const struct mw_family_tensor gpt_oss_tensors[] = {
    VECTOR(QKV, "num_attention_heads"), /* sinks: a score for no key */
    VECTOR(UP, "2 * intermediate_size", .count = "num_local_experts", .met = "num_experts_per_tok"),
    VECTOR(DOWN, "hidden_size", .count = "num_local_experts", .met = "num_experts_per_tok"),
    END,
};

/* --- experts in some layers ------------------------------------------------------------------ */

static const struct mw_family_let llama4_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    {"hidden_size", "5120", false},
    {"intermediate_size", "8192", false},
    {"intermediate_size_mlp", "16384", false},
    {"num_hidden_layers", "48", false},
    {"num_attention_heads", "40", false},
    {"vocab_size", "202048", false},
    {"interleave_moe_layer_step", "1", false},
    {"attention_chunk_size", "8192", true},
    END,
};
static const struct mw_family_key llama4_keys[] = {
    {"hidden_size", MW_DIMENSION_HIDDEN},
    {"intermediate_size_mlp", MW_DIMENSION_FFN},
    HEADS,
    ENDS,
    TIED,
    {"attention_chunk_size ?? 0", MW_DIMENSION_WINDOW},
    ATTENTION_BIAS,
    EXPERTS("num_local_experts ?? 16", "num_experts_per_tok ?? 1", "intermediate_size",
            "intermediate_size"),
    END,
};

#define SPARSE_STEP                                                                                \
    "not (layer in mlp_only_layers) and (layer + 1) % (decoder_sparse_step ?? 1) == 0"

static const struct mw_family_let qwen2_moe_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    {"qkv_bias", "1", false},
    END,
};
static const struct mw_family_key qwen2_moe_keys[] = {
    WIDTHS,
    ENDS,
    TIED,
    {"use_sliding_window ? sliding_window ?? 0 : 0", MW_DIMENSION_WINDOW},
    {"qkv_bias", MW_FLAG_QKV_BIAS},
    EXPERTS("num_experts", "num_experts_per_tok", "moe_intermediate_size",
            "shared_expert_intermediate_size"),
    END,
};
static const struct mw_family_tensor shared_gate[] = {
    MATRIX(UP, "1", "hidden_size", .in = MW_LAYERS_OF_EXPERTS),
    END,
};

static const struct mw_family_let qwen3_moe_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    {"num_experts", "num_local_experts", false},
    END,
};
static const struct mw_family_key qwen3_moe_keys[] = {
    WIDTHS,
    ENDS,
    TIED,
    {"use_sliding_window ? sliding_window ?? 0 : 0", MW_DIMENSION_WINDOW},
    ATTENTION_BIAS,
    EXPERTS("num_experts", "num_experts_per_tok", "moe_intermediate_size", "0"),
    END,
};

static const struct mw_family_key qwen3_moe_run_keys[] = {
    {"hidden_size", MW_DIMENSION_HIDDEN},
    {"num_hidden_layers", MW_DIMENSION_LAYERS},
    {"num_attention_heads", MW_DIMENSION_HEADS},
    {"num_key_value_heads", MW_DIMENSION_KV_HEADS},
    {"head_dim", MW_DIMENSION_HEAD_DIM},
    {"max_position_embeddings", MW_DIMENSION_SEQ},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"num_experts", MW_DIMENSION_EXPERTS},
    {"num_experts_per_tok", MW_DIMENSION_EXPERTS_PER_TOKEN},
    {"moe_intermediate_size", MW_DIMENSION_EXPERT_FFN},
    {"intermediate_size", MW_DIMENSION_FFN}, /* of dense layers, which a run does not have */
    {"norm_topk_prob", MW_KEY_ROUTER_RENORMALIZES},
    {"hidden_act", MW_KEY_ACTIVATION},
    {"rms_norm_eps", MW_KEY_NORM_EPSILON},
    {"rope_theta", MW_KEY_ROPE_THETA},
    {"attention_bias", MW_KEY_ATTENTION_BIAS},
    {"use_sliding_window", MW_KEY_RUNS_IF_FALSE},
    MW_ROUTER_LOSS_KEYS,
    END,
};

/* DeepSeek: latent attention (plain in GLM-4.5), the first layers dense, experts that all tokens
 * visit.  The correction of the router is a buffer. */
#define LATENTS                                                                                    \
    {"q_lora_rank ?? 0", MW_DIMENSION_Q_LORA}, {"kv_lora_rank", MW_DIMENSION_KV_LORA},             \
        {"qk_rope_head_dim", MW_DIMENSION_ROPE_DIM},                                               \
        {"qk_nope_head_dim + qk_rope_head_dim", MW_DIMENSION_HEAD_DIM},                            \
    {                                                                                              \
        "v_head_dim", MW_DIMENSION_VALUE_DIM                                                       \
    }
#define FIRST_DENSE                                                                                \
    {                                                                                              \
        "min(first_k_dense_replace, num_hidden_layers)", MW_DIMENSION_DENSE_LAYERS                 \
    }

static const struct mw_family_let deepseek_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    {"q_lora_rank", "1536", true},
    {"first_k_dense_replace", "0", false},
    {"n_shared_experts", "0", false},
    END,
};
static const struct mw_family_key deepseek_keys[] = {
    {"hidden_size", MW_DIMENSION_HIDDEN},
    {"intermediate_size", MW_DIMENSION_FFN},
    {"num_hidden_layers", MW_DIMENSION_LAYERS},
    {"num_attention_heads", MW_DIMENSION_HEADS},
    ENDS,
    TIED,
    LATENTS,
    EXPERTS("n_routed_experts", "num_experts_per_tok ?? 1", "moe_intermediate_size",
            "n_shared_experts * moe_intermediate_size"),
    FIRST_DENSE,
    END,
};
static const struct mw_family_tensor deepseek_tensors[] = {
    VECTOR(QKV, "q_lora_rank ?? 0", .when = "attention_bias"),
    VECTOR(QKV, "kv_lora_rank + qk_rope_head_dim", .when = "attention_bias"),
    VECTOR(PROJECTION, "hidden_size", .when = "attention_bias"),
    END,
};

static const struct mw_family_key glm4_moe_keys[] = {
    WIDTHS,
    ENDS,
    TIED,
    {"attention_bias", MW_FLAG_QKV_BIAS},
    {"use_qk_norm ?? 0", MW_FLAG_QK_NORM},
    EXPERTS("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size",
            "n_shared_experts * moe_intermediate_size"),
    FIRST_DENSE,
    END,
};

static const struct mw_family_key dots1_keys[] = {
    WIDTHS,
    ENDS,
    TIED,
    {"sliding_window ?? 0", MW_DIMENSION_WINDOW},
    ATTENTION_BIAS,
    EXPERTS("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size",
            "n_shared_experts * moe_intermediate_size"),
    FIRST_DENSE,
    END,
};

static const struct mw_family_let ernie_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "1", false},
    {"use_bias", "0", false},
    {"moe_layer_end_index", "-1", false},
    {"moe_layer_interval", "1", false},
    {"last", "moe_layer_end_index < 0 ? num_hidden_layers - 1 : moe_layer_end_index", false},
    END,
};
static const struct mw_family_key ernie_keys[] = {
    WIDTHS,
    ENDS,
    TIED,
    {"use_bias", MW_FLAG_QKV_BIAS},
    {"use_bias", MW_FLAG_PROJECTION_BIAS},
    {"use_bias", MW_FLAG_LOGITS_BIAS},
    EXPERTS("moe_num_experts", "moe_k", "moe_intermediate_size",
            "(moe_num_shared_experts ?? 0) * moe_intermediate_size"),
    END,
};
/* Biases of experts, too, where there are any; the router's correction is a parameter here. */
static const struct mw_family_tensor ernie_tensors[] = {
    VECTOR(UP, "moe_num_experts", .in = MW_LAYERS_OF_EXPERTS),
    VECTOR(UP, "2 * intermediate_size", .when = "use_bias", .in = MW_LAYERS_DENSE),
    VECTOR(DOWN, "hidden_size", .when = "use_bias", .in = MW_LAYERS_DENSE),
    VECTOR(UP, "2 * moe_num_shared_experts * moe_intermediate_size",
           .when = "use_bias and moe_num_shared_experts", .in = MW_LAYERS_OF_EXPERTS),
    VECTOR(DOWN, "hidden_size", .when = "use_bias and moe_num_shared_experts",
           .in = MW_LAYERS_OF_EXPERTS),
    END,
};

static const struct mw_family_key hunyuan_keys[] = {
    WIDTHS,
    ENDS,
    TIED,
    ATTENTION_BIAS,
    EXPERTS("num_experts[0]", "moe_topk[0]", "intermediate_size", "intermediate_size"),
    END,
};

#define MIXTURE .why_not = "a mixture of experts"

const struct mw_family mw_family_mixtures[] = {
    {.name = "granitemoe",
     .class_prefix = "GraniteMoeFor",
     .traits = {LLAMA_BLOCK(2)},
     .keys = granite_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 2048},
     MIXTURE},
    {.name = "granitemoeshared",
     .class_prefix = "GraniteMoeSharedFor",
     .traits = {LLAMA_BLOCK(2)},
     .keys = granite_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 2048},
     MIXTURE},
    {.name = "olmoe",
     .class_prefix = "OlmoeFor",
     .traits = {LLAMA_BLOCK(2)},
     .keys = olmoe_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 4096},
     .tensors = olmoe_tensors,
     MIXTURE},
    {.name = "phimoe",
     .class_prefix = "PhimoeFor",
     .traits = {LLAMA_BLOCK(2), .norm_bias = true},
     .keys = phimoe_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 131072},
     MIXTURE},
    {.name = "dbrx",
     .fused_qkv = "Wqkv",
     .class_prefix = "DbrxFor",
     .traits = {LLAMA_BLOCK(2)},
     .keys = dbrx_keys,
     .lets = dbrx_lets,
     MIXTURE},
    {.name = "gpt_oss",
     .class_prefix = "GptOssFor",
     .traits = {LLAMA_BLOCK(2), .router_bias = true},
     .keys = gpt_oss_keys,
     .lets = gpt_oss_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 131072},
     .tensors = gpt_oss_tensors,
     .windowed_in = "layer_types ? " SLIDING " : layer % 2 == 0",
     MIXTURE},
    {.name = "llama4_text",
     .class_prefix = "Llama4ForCausal",
     .traits = {LLAMA_BLOCK(2)},
     .keys = llama4_keys,
     .lets = llama4_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 131072},
     .experts_in = "moe_layers ? layer in moe_layers "
                   ": (layer + 1) % interleave_moe_layer_step == 0",
     .windowed_in = "layer_types ? layer_types[layer] == 'chunked_attention' : "
                    "(layer + 1) % 4 != 0",
     .layer_kinds = "chunked_attention full_attention",
     .approximates = "attention in chunks is counted as a window of as many keys",
     MIXTURE},
    {.name = "qwen2_moe",
     .class_prefix = "Qwen2MoeFor",
     .traits = {LLAMA_BLOCK(2), .attention_bias = true},
     .keys = qwen2_moe_keys,
     .lets = qwen2_moe_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 32768},
     .tensors = shared_gate,
     .experts_in = SPARSE_STEP,
     .windowed_in = "layer_types ? " SLIDING " : layer >= (max_window_layers ?? 0)",
     MIXTURE},
    {.name = "qwen3_moe",
     .class_prefix = "Qwen3MoeFor",
     .traits = {LLAMA_BLOCK(2), .qk_norm = true},
     .keys = qwen3_moe_keys,
     .lets = qwen3_moe_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 32768},
     .experts_in = SPARSE_STEP,
     .windowed_in = "layer_types ? " SLIDING " : layer >= (max_window_layers ?? 0)",
     .run = {"Qwen3MoeForCausalLM", MW_DECODER_LLAMA, MW_ACTIVATION_SILU, 1e-6, 10000,
             &mw_family_qwen3_moe_tensors, .router_aux_loss = 0.001, .keys = qwen3_moe_run_keys}},
    {.name = "deepseek_v2",
     .class_prefix = "DeepseekV2For",
     .traits = {LLAMA_BLOCK(2)},
     .keys = deepseek_keys,
     .lets = deepseek_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 2048},
     .tensors = deepseek_tensors,
     .experts_in = "layer >= first_k_dense_replace and layer % (moe_layer_freq ?? 1) == 0",
     MIXTURE},
    {.name = "deepseek_v3",
     .class_prefix = "DeepseekV3For",
     .traits = {LLAMA_BLOCK(2)},
     .keys = deepseek_keys,
     .lets = deepseek_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 4096},
     .tensors = deepseek_tensors,
     .experts_in = "layer >= first_k_dense_replace and layer % (moe_layer_freq ?? 1) == 0",
     MIXTURE},
    {.name = "kimi_k2", .same = "deepseek_v3"},
    {.name = "glm4_moe",
     .class_prefix = "Glm4MoeFor",
     .traits = {LLAMA_BLOCK(2)},
     .keys = glm4_moe_keys,
     .lets = deepseek_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 131072},
     MIXTURE},
    {.name = "dots1",
     .class_prefix = "Dots1For",
     .traits = {LLAMA_BLOCK(2), .qk_norm = true},
     .keys = dots1_keys,
     .lets = deepseek_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 2048},
     .windowed_in = "layer_types ? " SLIDING " : layer >= (max_window_layers ?? num_hidden_layers)",
     MIXTURE},
    {.name = "ernie4_5_moe",
     .class_prefix = "Ernie4_5_MoeFor",
     .traits = {LLAMA_BLOCK(2)},
     .keys = ernie_keys,
     .lets = ernie_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 131072},
     .tensors = ernie_tensors,
     .experts_in = "layer >= moe_layer_start_index and layer <= last "
                   "and (layer + 1) % moe_layer_interval == 0",
     MIXTURE},
    {.name = "hunyuan_v1_moe",
     .class_prefix = "HunYuanMoEV1For",
     .traits = {LLAMA_BLOCK(2), .qk_norm = true},
     .keys = hunyuan_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 2048},
     MIXTURE},
    END,
};
