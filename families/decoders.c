/* Decoders with attention and a dense MLP in every layer. */
#include <stddef.h>

#include "families/rows.h"

/* --- what rows share ------------------------------------------------------------------------- */

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
#define MLP_BIAS                                                                                   \
    {                                                                                              \
        "mlp_bias", MW_FLAG_MLP_BIAS                                                               \
    }

/* Most of the keys have the names that Llama gave them. */
static const struct mw_family_let llama_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    END,
};
static const struct mw_family_let tied_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "1", false},
    END,
};

static const struct mw_family_let biogpt_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "1", false},
    {"hidden_dropout_prob", "0.1", false},
    {"attention_probs_dropout_prob", "0.1", false},
    END,
};
static const struct mw_family_key biogpt_keys[] = {
    WIDTHS, ENDS,
    TIED,   {"hidden_dropout_prob > 0 or attention_probs_dropout_prob > 0", MW_FLAG_DROPOUT},
    END,
};

static const struct mw_family_key plain_keys[] = {WIDTHS, ENDS, TIED, END};
static const struct mw_family_key biased_keys[] = {WIDTHS,         ENDS,     TIED,
                                                   ATTENTION_BIAS, MLP_BIAS, END};
static const struct mw_family_key windowed_keys[] = {
    WIDTHS, ENDS, TIED, WINDOW, ATTENTION_BIAS, MLP_BIAS, END,
};

/* Norms of all heads of q together, and of k. */
static const struct mw_family_tensor wide_qk_norms[] = {
    VECTOR(QKV, "num_attention_heads * head_dim"),
    VECTOR(QKV, "num_key_value_heads * head_dim"),
    END,
};

#define SLIDING "layer_types[layer] == 'sliding_attention'"

/* --- GPT-2's kin ----------------------------------------------------------------------------- */

static const struct mw_family_let neo_lets[] = {
    {"tie_word_embeddings", "1", false},
    {"intermediate_size", "4 * hidden_size", false},
    {"turn", "attention_types[0][0]", false}, /* [[["global", "local"], so many times]] */
    END,
};
static const struct mw_family_key neo_keys[] = {
    {"hidden_size", MW_DIMENSION_HIDDEN},
    {"intermediate_size", MW_DIMENSION_FFN},
    {"num_layers", MW_DIMENSION_LAYERS},
    {"num_heads", MW_DIMENSION_HEADS},
    {"window_size ?? 256", MW_DIMENSION_WINDOW},
    ENDS,
    TIED,
    END,
};

static const struct mw_family_let gptj_lets[] = {
    {"tie_word_embeddings", "0", false},
    {"n_inner", "4 * n_embd", false},
    END,
};
static const struct mw_family_key gptj_keys[] = {
    {"n_embd", MW_DIMENSION_HIDDEN},
    {"n_inner", MW_DIMENSION_FFN},
    {"n_layer", MW_DIMENSION_LAYERS},
    {"n_head", MW_DIMENSION_HEADS},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"n_positions ?? 2048", MW_DIMENSION_SEQ},
    TIED,
    END,
};

static const struct mw_family_let bigcode_lets[] = {
    {"resid_pdrop", "0.1", false},
    {"embd_pdrop", "0.1", false},
    {"attn_pdrop", "0.1", false},
    {"tie_word_embeddings", "1", false},
    {"n_inner", "4 * n_embd", false},
    {"multi_query", "1", false},
    END,
};
static const struct mw_family_key bigcode_keys[] = {
    {"n_embd", MW_DIMENSION_HIDDEN},
    {"n_inner", MW_DIMENSION_FFN},
    {"n_layer", MW_DIMENSION_LAYERS},
    {"n_head", MW_DIMENSION_HEADS},
    {"multi_query ? 1 : num_key_value_heads ?? n_head", MW_DIMENSION_KV_HEADS},
    {"resid_pdrop > 0 or attn_pdrop > 0", MW_FLAG_DROPOUT},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"n_positions ?? 1024", MW_DIMENSION_SEQ},
    TIED,
    END,
};

/* Rates of dropout under GPT-2's names; masks are saved if any of them is above 0. */
#define GPT2_DROPOUT_LETS                                                                          \
    {"resid_pdrop", "0.1", false}, {"embd_pdrop", "0.1", false},                                   \
    {                                                                                              \
        "attn_pdrop", "0.1", false                                                                 \
    }
#define GPT2_DROPOUT                                                                               \
    {                                                                                              \
        "resid_pdrop > 0 or attn_pdrop > 0", MW_FLAG_DROPOUT                                       \
    }
static const struct mw_family_let openai_lets[] = {
    {"tie_word_embeddings", "1", false},
    GPT2_DROPOUT_LETS,
    END,
};
static const struct mw_family_let ctrl_lets[] = {
    {"tie_word_embeddings", "1", false},
    {"resid_pdrop", "0.1", false},
    {"embd_pdrop", "0.1", false},
    END,
};
static const struct mw_family_let xglm_lets[] = {
    {"tie_word_embeddings", "1", false},
    {"dropout", "0.1", false},
    {"attention_dropout", "0.1", false},
    END,
};
static const struct mw_family_key openai_keys[] = {
    {"n_embd", MW_DIMENSION_HIDDEN},
    {"4 * n_embd", MW_DIMENSION_FFN},
    GPT2_DROPOUT,
    {"n_layer", MW_DIMENSION_LAYERS},
    {"n_head", MW_DIMENSION_HEADS},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"n_positions ?? 512", MW_DIMENSION_SEQ},
    TIED,
    END,
};
static const struct mw_family_key ctrl_keys[] = {
    {"n_embd", MW_DIMENSION_HIDDEN},
    {"dff", MW_DIMENSION_FFN},
    {"resid_pdrop > 0", MW_FLAG_DROPOUT},
    {"n_layer", MW_DIMENSION_LAYERS},
    {"n_head", MW_DIMENSION_HEADS},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"n_positions ?? 256", MW_DIMENSION_SEQ},
    TIED,
    END,
};
static const struct mw_family_key xglm_keys[] = {
    {"d_model", MW_DIMENSION_HIDDEN},
    {"ffn_dim", MW_DIMENSION_FFN},
    {"dropout > 0 or attention_dropout > 0", MW_FLAG_DROPOUT},
    {"num_layers", MW_DIMENSION_LAYERS},
    {"attention_heads", MW_DIMENSION_HEADS},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"max_position_embeddings ?? 2048", MW_DIMENSION_SEQ},
    TIED,
    END,
};

static const struct mw_family_let neox_lets[] = {
    {"attention_bias", "1", false},
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    END,
};
static const struct mw_family_key neox_keys[] = {WIDTHS, ENDS, TIED, ATTENTION_BIAS, END};

/* --- Falcon, MPT ----------------------------------------------------------------------------- */

static const struct mw_family_let falcon_lets[] = {
    {"tie_word_embeddings", "1", false},
    {"hidden_size", "4544", false},
    {"num_hidden_layers", "n_layer ?? 32", false},
    {"num_attention_heads", "n_head ?? 71", false},
    {"num_kv_heads", "num_attention_heads", false},
    {"multi_query", "1", false},
    {"parallel_attn", "1", false},
    {"bias", "0", false},
    {"alibi", "0", false},
    {"new_decoder_architecture", "0", false},
    {"ffn_hidden_size", "4 * hidden_size", false},
    {"norms",
     "parallel_attn and (num_ln_in_parallel_attn ?? (new_decoder_architecture ? 2 : 1)) != 2 "
     "? 1 : 2",
     false},
    END,
};
static const struct mw_family_key falcon_keys[] = {
    {"hidden_size", MW_DIMENSION_HIDDEN},
    {"ffn_hidden_size", MW_DIMENSION_FFN},
    {"num_hidden_layers", MW_DIMENSION_LAYERS},
    {"num_attention_heads", MW_DIMENSION_HEADS},
    {"new_decoder_architecture or not multi_query ? num_kv_heads : 1", MW_DIMENSION_KV_HEADS},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"max_position_embeddings ?? 2048", MW_DIMENSION_SEQ},
    {"norms", MW_FLAG_NORMS_PER_LAYER},
    {"norms == 1", MW_FLAG_PARALLEL_BLOCK},
    {"not alibi", MW_FLAG_ROTARY},
    {"bias", MW_FLAG_QKV_BIAS},
    {"bias", MW_FLAG_PROJECTION_BIAS},
    {"bias", MW_FLAG_MLP_BIAS},
    TIED,
    END,
};

static const struct mw_family_let mpt_lets[] = {
    {"tie_word_embeddings", "1", false},
    {"resid_pdrop", "0", false},
    END,
};
static const struct mw_family_key mpt_keys[] = {
    {"d_model", MW_DIMENSION_HIDDEN},
    {"4 * d_model", MW_DIMENSION_FFN},
    {"resid_pdrop > 0 or (attn_config.attn_pdrop ?? 0) > 0", MW_FLAG_DROPOUT},
    {"n_layers", MW_DIMENSION_LAYERS},
    {"n_heads", MW_DIMENSION_HEADS},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"max_seq_len ?? 2048", MW_DIMENSION_SEQ},
    TIED,
    END,
};

/* --- Llama's kin ----------------------------------------------------------------------------- */

static const struct mw_family_let starcoder2_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "1", false},
    {"use_bias", "1", false},
    END,
};
static const struct mw_family_key use_bias_keys[] = {
    WIDTHS,
    ENDS,
    TIED,
    WINDOW,
    {"use_bias", MW_FLAG_QKV_BIAS},
    {"use_bias", MW_FLAG_PROJECTION_BIAS},
    {"use_bias", MW_FLAG_MLP_BIAS},
    END,
};
static const struct mw_family_let ernie_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "1", false},
    {"use_bias", "0", false},
    END,
};

static const struct mw_family_let cohere_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "1", false},
    {"use_qk_norm", "0", false},
    END,
};
static const struct mw_family_key cohere_keys[] = {WIDTHS, ENDS, TIED, ATTENTION_BIAS, WINDOW, END};
static const struct mw_family_tensor cohere_tensors[] = {
    VECTOR(QKV, "(num_attention_heads + num_key_value_heads) * head_dim", .when = "use_qk_norm"),
    END,
};

static const struct mw_family_let glm_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    {"attention_bias", "0", false},
    END,
};
static const struct mw_family_key qkv_bias_keys[] = {
    WIDTHS, ENDS, TIED, {"attention_bias", MW_FLAG_QKV_BIAS}, MLP_BIAS, END,
};

static const struct mw_family_key seed_keys[] = {
    WIDTHS,
    ENDS,
    TIED,
    {"attention_bias ?? 1", MW_FLAG_QKV_BIAS},
    {"attention_out_bias ?? 0", MW_FLAG_PROJECTION_BIAS},
    {"(attention_dropout ?? 0.1) > 0 or (residual_dropout ?? 0.1) > 0", MW_FLAG_DROPOUT},
    MLP_BIAS,
    END,
};

static const struct mw_family_let stablelm_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    {"use_qkv_bias", "0", false},
    {"qk_layernorm", "0", false},
    {"use_parallel_residual", "0", false},
    END,
};
static const struct mw_family_key stablelm_keys[] = {
    WIDTHS,
    ENDS,
    TIED,
    {"use_qkv_bias", MW_FLAG_QKV_BIAS},
    {"use_parallel_residual ? 1 : 2", MW_FLAG_NORMS_PER_LAYER},
    {"use_parallel_residual", MW_FLAG_PARALLEL_BLOCK},
    END,
};
static const struct mw_family_tensor stablelm_tensors[] = {
    VECTOR(QKV, "(num_attention_heads + num_key_value_heads) * head_dim", .when = "qk_layernorm"),
    END,
};

static const struct mw_family_let persimmon_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    {"qk_layernorm", "1", false},
    END,
};
static const struct mw_family_tensor persimmon_tensors[] = {
    LAYER_NORM(QKV, "2 * head_dim", .when = "qk_layernorm"),
    END,
};

static const struct mw_family_tensor apertus_tensors[] = {VECTOR(UP, "2"), END};
static const struct mw_family_tensor bitnet_tensors[] = {
    VECTOR(PROJECTION, "hidden_size"),
    VECTOR(DOWN, "intermediate_size"),
    END,
};
static const struct mw_family_tensor diffllama_tensors[] = {VECTOR(QKV, "4 * head_dim"), END};

static const struct mw_family_let gemma_lets[] = {
    {"head_dim", "256", false},
    LLAMA_LETS,
    {"tie_word_embeddings", "1", false},
    END,
};

/* --- Gemma 3n: inputs of each layer from a table, the last layers without k and v ------------- */

static const struct mw_family_let gemma3n_lets[] = {
    {"num_attention_heads", "8", false},
    {"num_key_value_heads", "2", false},
    {"head_dim", "256", false},
    {"hidden_size", "2048", false},
    {"num_hidden_layers", "35", false},
    {"intermediate_size", "16384", false},
    {"vocab_size", "262400", false},
    {"vocab_size_per_layer_input", "262144", false},
    {"hidden_size_per_layer_input", "256", false},
    {"max_position_embeddings", "32768", false},
    {"sliding_window", "512", false},
    {"num_kv_shared_layers", "15", false},
    {"altup_num_inputs", "4", false},
    {"laurel_rank", "64", false},
    {"tie_word_embeddings", "1", false},
    {"attention_bias", "0", false},
    {"streams", "altup_num_inputs", false},
    {"inputs", "hidden_size_per_layer_input", false},
    {"shares", "layer >= num_hidden_layers - num_kv_shared_layers", false},
    {"slides", "layer_types ? " SLIDING " : (layer + 1) % 5 != 0", false},
    {"activation_sparsity_pattern", "0", false},
    {"altup_active_idx", "0", false},
    {"altup_coef_clip", "0", false},
    {"altup_correct_scale", "1", false},
    END,
};
static const struct mw_family_key gemma3n_keys[] = {
    {"hidden_size", MW_DIMENSION_HIDDEN},
    {"intermediate_size[0]", MW_DIMENSION_FFN},
    HEADS,
    ENDS,
    TIED,
    END,
};
static const struct mw_family_tensor gemma3n_tensors[] = {
    TABLE("vocab_size_per_layer_input", "num_hidden_layers * inputs"),
    MATRIX(EMBEDDING, "num_hidden_layers * inputs", "hidden_size"),
    VECTOR(EMBEDDING, "inputs"),
    MATRIX(EMBEDDING, "hidden_size", "hidden_size", .count = "streams - 1"),
    MATRIX(FINAL_NORM, "hidden_size", "hidden_size", .count = "streams - 1"),
    END,
};
#define GEMMA3N_LAYER                                                                              \
    VECTOR(NORM1, "2 * hidden_size"),                                                              \
        MATRIX(QKV, "num_attention_heads * head_dim", "hidden_size", .bias = "attention_bias"),    \
        VECTOR(QKV, "head_dim"),                                                                   \
        MATRIX(PROJECTION, "hidden_size", "num_attention_heads * head_dim",                        \
               .bias = "attention_bias"), /* Laurel's low rank beside attention */                 \
        MATRIX(PROJECTION, "laurel_rank", "hidden_size"),                                          \
        MATRIX(PROJECTION, "hidden_size", "laurel_rank"), VECTOR(PROJECTION, "hidden_size"),       \
        VECTOR(NORM2, "2 * hidden_size"), MATRIX(UP, "2 * intermediate_size[0]", "hidden_size"),   \
        MATRIX(                                                                                    \
            DOWN, "hidden_size",                                                                   \
            "intermediate_size[0]"), /* how the streams are mixed, and the layer's own inputs */   \
        VECTOR(DOWN, "3 * hidden_size"), MATRIX(DOWN, "streams", "streams"),                       \
        MATRIX(DOWN, "streams * streams", "streams"), MATRIX(DOWN, "streams", "hidden_size"),      \
        MATRIX(DOWN, "inputs", "hidden_size"), MATRIX(DOWN, "hidden_size", "inputs")
static const struct mw_family_tensor gemma3n_sharing[] = {GEMMA3N_LAYER, END};
static const struct mw_family_tensor gemma3n_layer[] = {
    GEMMA3N_LAYER,
    MATRIX(QKV, "2 * num_key_value_heads * head_dim", "hidden_size", .bias = "attention_bias"),
    VECTOR(QKV, "head_dim"),
    END,
};
#define GEMMA3N_STACK(name_, when_, window_, tensors_)                                             \
    {                                                                                              \
        .name = name_, .when = when_, .heads = "num_attention_heads",                              \
        .kv_heads = "num_key_value_heads", .head_dim = "head_dim", .window = window_,              \
        .tensors = tensors_                                                                        \
    }
static const struct mw_family_stack gemma3n_stacks[] = {
    GEMMA3N_STACK("windowed", "slides and not shares", "sliding_window", gemma3n_layer),
    GEMMA3N_STACK("full", "not shares", "0", gemma3n_layer),
    GEMMA3N_STACK("windowed, sharing k and v", "slides", "sliding_window", gemma3n_sharing),
    GEMMA3N_STACK("full, sharing k and v", NULL, "0", gemma3n_sharing),
    END,
};

#define UNGATED_BLOCK(norms)                                                                       \
    .mlp_matrices = 2, .norms_per_layer = norms, .rotary = true, .final_norm = true

const struct mw_family mw_family_decoders[] = {
    {.name = "gpt_neo",
     .class_prefix = "GPTNeoFor",
     .traits = {.mlp_matrices = 2,
                .norms_per_layer = 2,
                .projection_bias = true,
                .mlp_bias = true,
                .norm_bias = true,
                .final_norm = true,
                .learned_positions = true,
                .derived_ffn = true,
                .tied_embedding = true},
     .keys = neo_keys,
     .lets = neo_lets,
     .windowed_in = "attention_layers ? attention_layers[layer] == 'local' "
                    ": turn ? turn[layer % len(turn)] == 'local' : layer % 2 == 1",
     .layer_kinds = "global local",
     .refused = "not attention_layers and len(attention_types) > 1",
     .refused_why = "attention_types of several groups: must be one, or attention_layers must say "
                    "each layer",
     .why_not = "attention without biases of q, k and v"},
    {.name = "gptj",
     .class_prefix = "GPTJFor",
     .traits = {.mlp_matrices = 2,
                .norms_per_layer = 1,
                .parallel_block = true,
                .mlp_bias = true,
                .norm_bias = true,
                .final_norm = true,
                .rotary = true,
                .logits_bias = true},
     .keys = gptj_keys,
     .lets = gptj_lets,
     .why_not = "attention and MLP in parallel"},
    {.name = "codegen",
     .fused_qkv = "qkv_proj",
     .class_prefix = "CodeGenFor",
     .traits = {.mlp_matrices = 2,
                .norms_per_layer = 1,
                .parallel_block = true,
                .mlp_bias = true,
                .norm_bias = true,
                .final_norm = true,
                .rotary = true,
                .logits_bias = true},
     .keys = gptj_keys,
     .lets = gptj_lets,
     .why_not = "attention and MLP in parallel"},
    {.name = "gpt_neox",
     .fused_qkv = "query_key_value",
     .class_prefix = "GPTNeoXFor",
     .traits = {GPT2_BLOCK(2), .rotary = true},
     .keys = neox_keys,
     .lets = neox_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 2048},
     .why_not = "attention and MLP in parallel"},
    {.name = "gpt_bigcode",
     .fused_qkv = "c_attn",
     .class_prefix = "GPTBigCodeFor",
     .traits = {GPT2_BLOCK(2), .learned_positions = true, .tied_embedding = true},
     .keys = bigcode_keys,
     .lets = bigcode_lets,
     .refused = "add_cross_attention",
     .refused_why = "key \"add_cross_attention\": must be false",
     .why_not = "one head of k and v in a block of GPT-2's"},
    {.name = "openai-gpt",
     .fused_qkv = "c_attn",
     .class_prefix = "OpenAIGPT",
     .traits = {.mlp_matrices = 2,
                .norms_per_layer = 2,
                .attention_bias = true,
                .projection_bias = true,
                .mlp_bias = true,
                .norm_bias = true,
                .learned_positions = true,
                .tied_embedding = true},
     .keys = openai_keys,
     .lets = openai_lets,
     .why_not = "norms behind the additions"},
    {.name = "ctrl",
     .class_prefix = "CTRL",
     .traits = {GPT2_BLOCK(2), .tied_embedding = true, .logits_bias = true},
     .keys = ctrl_keys,
     .lets = ctrl_lets,
     .why_not = "positions from sines"},
    {.name = "xglm",
     .class_prefix = "XGLMFor",
     .traits = {GPT2_BLOCK(2), .tied_embedding = true},
     .keys = xglm_keys,
     .lets = xglm_lets,
     .why_not = "positions from sines"},
    {.name = "biogpt",
     .class_prefix = "BioGptFor",
     .traits = {GPT2_BLOCK(2), .tied_embedding = true, .learned_positions = true,
                .unused_positions = 2},
     .keys = biogpt_keys,
     .lets = biogpt_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 1024},
     .why_not = "positions that begin at row 2 of their table"},
    {.name = "falcon",
     .fused_qkv = "query_key_value",
     .class_prefix = "FalconFor",
     .traits = {.mlp_matrices = 2,
                .norms_per_layer = 2,
                .norm_bias = true,
                .final_norm = true,
                .rotary = true,
                .tied_embedding = true},
     .keys = falcon_keys,
     .lets = falcon_lets,
     .why_not = "attention and MLP in parallel"},
    {.name = "mpt",
     .fused_qkv = "Wqkv",
     .class_prefix = "MptFor",
     .traits =
         {.mlp_matrices = 2, .norms_per_layer = 2, .final_norm = true, .tied_embedding = true},
     .keys = mpt_keys,
     .lets = mpt_lets,
     .why_not = "ALiBi instead of positions",
     .score_bias = "ALiBi (transformers 4 and 5, modeling_mpt.py, likewise)"},
    {.name = "starcoder2",
     .class_prefix = "Starcoder2For",
     .traits = {UNGATED_BLOCK(2), .norm_bias = true, .tied_embedding = true},
     .keys = use_bias_keys,
     .lets = starcoder2_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 4096},
     .why_not = "LayerNorm beside rotary positions"},
    {.name = "ernie4_5",
     .class_prefix = "Ernie4_5For",
     .traits = {LLAMA_BLOCK(2), .tied_embedding = true},
     .keys = use_bias_keys,
     .lets = ernie_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 131072},
     .why_not = "rotary positions of neighbours"},
    {.name = "olmo",
     .class_prefix = "OlmoFor",
     .traits = {LLAMA_BLOCK(2), .plain_norms = true},
     .keys = biased_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 2048},
     .why_not = "norms without parameters"},
    {.name = "olmo2",
     .class_prefix = "Olmo2For",
     .traits = {LLAMA_BLOCK(2)},
     .keys = biased_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 2048},
     .tensors = wide_qk_norms,
     .why_not = "norms behind attention and MLP"},
    {.name = "olmo3",
     .class_prefix = "Olmo3For",
     .traits = {LLAMA_BLOCK(2)},
     .keys = windowed_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 2048},
     .tensors = wide_qk_norms,
     .windowed_in = "layer_types ? " SLIDING " : (layer + 1) % 4 != 0",
     .why_not = "norms behind attention and MLP"},
    {.name = "cohere",
     .class_prefix = "CohereFor",
     .traits = {LLAMA_BLOCK(1), .parallel_block = true, .tied_embedding = true},
     .keys = cohere_keys,
     .lets = cohere_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 8192},
     .tensors = cohere_tensors,
     .why_not = "attention and MLP in parallel"},
    {.name = "cohere2",
     .class_prefix = "Cohere2For",
     .traits = {LLAMA_BLOCK(1), .parallel_block = true, .tied_embedding = true},
     .keys = cohere_keys,
     .lets = cohere_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 8192},
     .windowed_in = "layer_types ? " SLIDING " : (layer + 1) % (sliding_window_pattern ?? 4) != 0",
     .why_not = "attention and MLP in parallel"},
    {.name = "granite",
     .class_prefix = "GraniteFor",
     .traits = {LLAMA_BLOCK(2)},
     .keys = biased_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 2048},
     .why_not = "multipliers of embeddings, scores and residuals"},
    {.name = "nemotron",
     .class_prefix = "NemotronFor",
     .traits = {UNGATED_BLOCK(2), .norm_bias = true},
     .keys = biased_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 4096},
     .why_not = "LayerNorm that scales by 1 + weight"},
    {.name = "arcee",
     .class_prefix = "ArceeFor",
     .traits = {UNGATED_BLOCK(2)},
     .keys = biased_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 4096},
     .why_not = "an MLP without a gate beside rotary positions"},
    {.name = "smollm3",
     .class_prefix = "SmolLM3For",
     .traits = {LLAMA_BLOCK(2), .tied_embedding = true},
     .keys = windowed_keys,
     .lets = tied_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 32768},
     .windowed_in = "use_sliding_window and layer_types ? " SLIDING " : use_sliding_window",
     .why_not = "layers without positions"},
    {.name = "helium",
     .class_prefix = "HeliumFor",
     .traits = {LLAMA_BLOCK(2)},
     .keys = qkv_bias_keys,
     .lets = glm_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 4096},
     .why_not = "rotary positions of neighbours"},
    {.name = "glm",
     .fused_gate = "gate_up_proj",
     .class_prefix = "GlmFor",
     .traits = {LLAMA_BLOCK(2)},
     .keys = qkv_bias_keys,
     .lets = glm_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 131072},
     .why_not = "rotary positions of half a head"},
    {.name = "glm4",
     .fused_gate = "gate_up_proj",
     .class_prefix = "Glm4For",
     .traits = {LLAMA_BLOCK(4)},
     .keys = qkv_bias_keys,
     .lets = glm_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 131072},
     .why_not = "four norms in a layer"},
    {.name = "seed_oss",
     .class_prefix = "SeedOssFor",
     .traits = {LLAMA_BLOCK(2)},
     .keys = seed_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 524288},
     .why_not = "dropout of residuals"},
    {.name = "stablelm",
     .class_prefix = "StableLmFor",
     .traits = {LLAMA_BLOCK(2), .norm_bias = true},
     .keys = stablelm_keys,
     .lets = stablelm_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 4096},
     .tensors = stablelm_tensors,
     .why_not = "LayerNorm beside rotary positions"},
    {.name = "persimmon",
     .fused_qkv = "query_key_value",
     .class_prefix = "PersimmonFor",
     .traits = {UNGATED_BLOCK(2), .attention_bias = true, .projection_bias = true, .mlp_bias = true,
                .norm_bias = true},
     .keys = plain_keys,
     .lets = persimmon_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 16384},
     .tensors = persimmon_tensors,
     .why_not = "LayerNorm of q and k"},
    {.name = "exaone4",
     .class_prefix = "Exaone4For",
     .traits = {LLAMA_BLOCK(2), .qk_norm = true},
     .keys = windowed_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 2048},
     /* A number, or letters in turn such as LLLG. */
     .windowed_in = "layer_types ? " SLIDING " : not sliding_window ? 0 "
                    ": len(sliding_window_pattern) "
                    "? sliding_window_pattern[layer % len(sliding_window_pattern)] == 'L' "
                    ": (layer + 1) % (sliding_window_pattern ?? 4) != 0",
     .why_not = "norms behind attention and MLP"},
    {.name = "ministral",
     .class_prefix = "MinistralFor",
     .traits = {LLAMA_BLOCK(2)},
     .keys = windowed_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 131072},
     .windowed_in = "layer_types ? " SLIDING " : sliding_window",
     .why_not = "windows in some of the layers"},
    {.name = "hunyuan_v1_dense",
     .class_prefix = "HunYuanDenseV1For",
     .traits = {LLAMA_BLOCK(2), .qk_norm = true},
     .keys = biased_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 2048},
     .why_not = "norms of q and k behind the rotation"},
    {.name = "apertus",
     .class_prefix = "ApertusFor",
     .traits = {UNGATED_BLOCK(2), .qk_norm = true},
     .keys = biased_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 65536},
     .tensors = apertus_tensors,
     .why_not = "an activation with parameters"},
    {.name = "bitnet",
     .class_prefix = "BitNetFor",
     .traits = {LLAMA_BLOCK(2)},
     .keys = biased_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 2048},
     .tensors = bitnet_tensors,
     .why_not = "norms within attention and MLP"},
    {.name = "diffllama",
     .class_prefix = "DiffLlamaFor",
     .traits = {LLAMA_BLOCK(2)},
     .keys = biased_keys,
     .lets = llama_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 2048},
     .tensors = diffllama_tensors,
     .approximates = "differential attention is counted as one attention",
     .why_not = "differential attention"},
    {.name = "vaultgemma",
     .class_prefix = "VaultGemmaFor",
     .traits = {LLAMA_BLOCK(2), .tied_embedding = true, SOFT_CAPS},
     .keys = windowed_keys,
     .lets = gemma_lets,
     .defaults = {[MW_DIMENSION_SEQ] = 8192},
     .windowed_in = "layer_types ? " SLIDING " : layer % 2 == 0",
     .why_not = "a scaled embedding, and norms that scale by 1 + weight"},
    {.name = "gemma3n_text",
     .class_prefix = "Gemma3nForCausal",
     .traits = {LLAMA_BLOCK(4), .tied_embedding = true, .capped_logits = true},
     .keys = gemma3n_keys,
     .lets = gemma3n_lets,
     .tensors = gemma3n_tensors,
     .stacks = gemma3n_stacks,
     .refused = "intermediate_size[0] != intermediate_size[-1]",
     .refused_why = "key \"intermediate_size\": must be the same for all layers",
     .approximates = "residual streams beside the first are counted by their parameters alone",
     .why_not = "four residual streams"},
    END,
};
