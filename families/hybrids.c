/* Decoders some of whose layers have something else than attention: state-space layers, short
 * convolutions, linear attention. */
#include "families/rows.h"

#define TIED                                                                                       \
    {                                                                                              \
        "tie_word_embeddings", MW_FLAG_TIED_EMBEDDING                                              \
    }
#define ENDS_AND_WIDTH                                                                             \
    {"hidden_size", MW_DIMENSION_HIDDEN}, {"num_hidden_layers", MW_DIMENSION_LAYERS}, ENDS, TIED
#define SCANS                                                                                      \
    "scans, convolutions and linear attention are counted as the memory that one fused kernel "    \
    "moves, without their own arithmetic"

/* --- pieces of layers ------------------------------------------------------------------------ */

#define GATED_MLP(inner)                                                                           \
    VECTOR(NORM2, "hidden_size"), MATRIX(UP, "2 * (" inner ")", "hidden_size"),                    \
        MATRIX(DOWN, "hidden_size", inner)
#define EXPERTS(number, visited, inner)                                                            \
    VECTOR(NORM2, "hidden_size"), MATRIX(UP, number, "hidden_size"),                               \
        MATRIX(UP, "2 * (" inner ")", "hidden_size", .count = number, .met = visited),             \
        MATRIX(DOWN, "hidden_size", inner, .count = number, .met = visited)
#define ATTENTION                                                                                  \
    VECTOR(NORM1, "hidden_size"),                                                                  \
        MATRIX(QKV, "(num_attention_heads + 2 * num_key_value_heads) * head_dim", "hidden_size",   \
               .bias = "attention_bias"),                                                          \
        MATRIX(PROJECTION, "hidden_size", "num_attention_heads * head_dim",                        \
               .bias = "attention_bias")
#define ATTENDS                                                                                    \
    .heads = "num_attention_heads", .kv_heads = "num_key_value_heads", .head_dim = "head_dim"

/* Mamba (arXiv 2312.00752, Sec. 3): in and gate, a convolution along the sequence, step and state
 * matrices from the input. */
#define MAMBA                                                                                      \
    VECTOR(NORM1, "hidden_size"), MATRIX(QKV, "2 * inner", "hidden_size", .bias = "use_bias"),     \
        VECTOR(QKV, "inner * (kernel + (use_conv_bias ? 1 : 0))"),                                 \
        MATRIX(QKV, "rank + 2 * state", "inner"), LINEAR(QKV, "inner", "rank"),                    \
        VECTOR(QKV, "inner * (state + 1)"),                                                        \
        MATRIX(PROJECTION, "hidden_size", "inner", .bias = "use_bias")

/* Mamba 2 (arXiv 2405.21060, Sec. 7.1): in, gate, B, C and steps of all heads in one product. */
#define MAMBA2_MIXER                                                                               \
    MATRIX(QKV, "2 * inner + 2 * groups * state + ssm_heads", "hidden_size", .bias = "use_bias"),  \
        VECTOR(QKV, "(inner + 2 * groups * state) * (kernel + (use_conv_bias ? 1 : 0))"),          \
        VECTOR(QKV, "3 * ssm_heads"),                                                              \
        MATRIX(PROJECTION, "hidden_size", "inner", .bias = "use_bias")
#define MAMBA2 VECTOR(NORM1, "hidden_size"), MAMBA2_MIXER, VECTOR(PROJECTION, "inner")

/* --- Mamba ----------------------------------------------------------------------------------- */

static const struct mw_family_let mamba_lets[] = {
    {"tie_word_embeddings", "1", false},
    {"expand", "2", false},
    {"use_bias", "0", false},
    {"use_conv_bias", "1", false},
    {"inner", "intermediate_size ?? int(expand * hidden_size)", false},
    {"intermediate_size", "int(expand * hidden_size)", false},
    {"kernel", "conv_kernel ?? 4", false},
    {"state", "state_size ?? 16", false},
    {"rank",
     "time_step_rank == 'auto' ? ceil(hidden_size / 16) "
     ": time_step_rank ?? ceil(hidden_size / 16)",
     false},
    END,
};
static const struct mw_family_key mamba_keys[] = {
    {"hidden_size", MW_DIMENSION_HIDDEN},
    {"num_hidden_layers", MW_DIMENSION_LAYERS},
    {"1", MW_DIMENSION_HEADS},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"2048", MW_DIMENSION_SEQ},
    TIED,
    END,
};
static const struct mw_family_tensor mamba_layer[] = {MAMBA, END};
static const struct mw_family_stack mamba_stacks[] = {
    {.name = "mamba", .layers = "num_hidden_layers", .tensors = mamba_layer},
    END,
};

static const struct mw_family_let mamba2_lets[] = {
    {"tie_word_embeddings", "0", false},
    {"expand", "2", false},
    {"use_bias", "0", false},
    {"use_conv_bias", "1", false},
    {"inner", "int(expand * hidden_size)", false},
    {"kernel", "conv_kernel ?? 4", false},
    {"state", "state_size ?? 128", false},
    {"groups", "n_groups ?? 8", false},
    {"ssm_heads", "num_heads ?? 128", false},
    {"head_dim", "64", false}, /* what the heads divide inner by */
    {"time_step_rank", "0", false},
    END,
};
static const struct mw_family_tensor mamba2_layer[] = {MAMBA2, END};
static const struct mw_family_stack mamba2_stacks[] = {
    {.name = "mamba2", .layers = "num_hidden_layers", .tensors = mamba2_layer},
    END,
};

/* --- hybrids of Mamba ------------------------------------------------------------------------ */

static const struct mw_family_let jamba_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    {"use_bias", "mamba_proj_bias ?? 0", false},
    {"use_conv_bias", "mamba_conv_bias ?? 1", false},
    {"inner", "(mamba_expand ?? 2) * hidden_size", false},
    {"kernel", "mamba_d_conv ?? 4", false},
    {"state", "mamba_d_state ?? 16", false},
    {"rank",
     "mamba_dt_rank == 'auto' ? ceil(hidden_size / 16) "
     ": mamba_dt_rank ?? ceil(hidden_size / 16)",
     false},
    {"attends",
     "layers_block_type ? layers_block_type[layer] == 'attention' "
     ": layer % attn_layer_period == attn_layer_offset",
     false},
    {"attn_layer_period", "8", false},
    {"attn_layer_offset", "4", false},
    {"expert_layer_period", "2", false},
    {"expert_layer_offset", "1", false},
    {"num_experts", "16", false},
    {"num_experts_per_tok", "2", false},
    {"sparse", "num_experts > 1 and layer % expert_layer_period == expert_layer_offset", false},
    END,
};
static const struct mw_family_key hybrid_keys[] = {
    {"num_attention_heads", MW_DIMENSION_HEADS},
    {"num_key_value_heads", MW_DIMENSION_KV_HEADS},
    {"head_dim", MW_DIMENSION_HEAD_DIM},
    {"intermediate_size", MW_DIMENSION_FFN},
    ENDS_AND_WIDTH,
    END,
};
#define JAMBA_MAMBA MAMBA, VECTOR(QKV, "rank + 2 * state")
#define JAMBA_EXPERTS EXPERTS("num_experts", "num_experts_per_tok", "intermediate_size")
static const struct mw_family_tensor jamba_0[] = {ATTENTION, GATED_MLP("intermediate_size"), END};
static const struct mw_family_tensor jamba_1[] = {ATTENTION, JAMBA_EXPERTS, END};
static const struct mw_family_tensor jamba_2[] = {JAMBA_MAMBA, GATED_MLP("intermediate_size"), END};
static const struct mw_family_tensor jamba_3[] = {JAMBA_MAMBA, JAMBA_EXPERTS, END};
static const struct mw_family_stack jamba_stacks[] = {
    {.name = "attention", .when = "attends and not sparse", ATTENDS, .tensors = jamba_0},
    {.name = "attention with experts", .when = "attends", ATTENDS, .tensors = jamba_1},
    {.name = "mamba", .when = "not sparse", .tensors = jamba_2},
    {.name = "mamba with experts", .tensors = jamba_3},
    END,
};

#define MAMBA2_NAMES                                                                               \
    {"use_bias", "mamba_proj_bias ?? 0", false}, {"use_conv_bias", "mamba_conv_bias ?? 1", false}, \
        {"kernel", "mamba_d_conv ?? 4", false}, {"state", "mamba_d_state ?? 256", false},          \
        {"groups", "mamba_n_groups ?? 1", false},                                                  \
    {                                                                                              \
        "ssm_heads", "mamba_n_heads ?? 128", false                                                 \
    }

static const struct mw_family_let bamba_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    MAMBA2_NAMES,
    {"inner", "(mamba_expand ?? 2) * hidden_size", false},
    {"attends",
     "attn_layer_indices != null ? layer in attn_layer_indices "
     ": layer_types ? layer_types[layer] == 'full_attention' or "
     "layer_types[layer] == 'attention' : 0",
     false},
    END,
};
#define BAMBA_MLP                                                                                  \
    VECTOR(NORM2, "hidden_size"),                                                                  \
        MATRIX(UP, "2 * intermediate_size", "hidden_size", .bias = "mlp_bias"),                    \
        MATRIX(DOWN, "hidden_size", "intermediate_size", .bias = "mlp_bias")
static const struct mw_family_tensor bamba_attention[] = {ATTENTION, BAMBA_MLP, END};
static const struct mw_family_tensor bamba_mamba[] = {MAMBA2, BAMBA_MLP, END};
static const struct mw_family_stack bamba_stacks[] = {
    {.name = "attention", .when = "attends", ATTENDS, .tensors = bamba_attention},
    {.name = "mamba2", .tensors = bamba_mamba},
    END,
};

/* Falcon H1 has both in every layer. */
static const struct mw_family_let falcon_h1_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    MAMBA2_NAMES,
    {"inner", "mamba_d_ssm ?? (mamba_expand ?? 2) * hidden_size", false},
    {"projectors_bias", "0", false},
    END,
};
static const struct mw_family_tensor falcon_h1_layer[] = {
    ATTENTION,
    MATRIX(QKV, "2 * inner + 2 * groups * state + ssm_heads", "hidden_size", .bias = "use_bias"),
    VECTOR(QKV, "(inner + 2 * groups * state) * (kernel + (use_conv_bias ? 1 : 0))"),
    VECTOR(QKV, "3 * ssm_heads"),
    MATRIX(PROJECTION, "hidden_size", "inner", .bias = "projectors_bias"),
    VECTOR(PROJECTION, "inner", .when = "mamba_rms_norm"),
    BAMBA_MLP,
    END,
};
static const struct mw_family_stack falcon_h1_stacks[] = {
    {.name = "layers", .layers = "num_hidden_layers", ATTENDS, .tensors = falcon_h1_layer},
    END,
};

static const struct mw_family_let granite_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    MAMBA2_NAMES,
    {"inner", "(mamba_expand ?? 2) * hidden_size", false},
    {"num_local_experts", "8", false},
    {"num_experts_per_tok", "2", false},
    {"shared_intermediate_size", "1024", false},
    {"kinds", "layer_types ?? layers_block_type", false},
    {"attends", "kinds[layer] == 'attention' or kinds[layer] == 'full_attention'", false},
    END,
};
#define GRANITE_MLP                                                                                \
    VECTOR(NORM2, "hidden_size"), MATRIX(UP, "num_local_experts", "hidden_size"),                  \
        MATRIX(UP, "2 * intermediate_size", "hidden_size", .count = "num_local_experts",           \
               .met = "min(num_experts_per_tok, num_local_experts)"),                              \
        MATRIX(DOWN, "hidden_size", "intermediate_size", .count = "num_local_experts",             \
               .met = "min(num_experts_per_tok, num_local_experts)"),                              \
        MATRIX(UP, "2 * shared_intermediate_size", "hidden_size"),                                 \
        MATRIX(DOWN, "hidden_size", "shared_intermediate_size")
static const struct mw_family_tensor granite_attention[] = {ATTENTION, GRANITE_MLP, END};
static const struct mw_family_tensor granite_mamba[] = {MAMBA2, GRANITE_MLP, END};
static const struct mw_family_stack granite_stacks[] = {
    {.name = "attention", .when = "attends", ATTENDS, .tensors = granite_attention},
    {.name = "mamba2", .tensors = granite_mamba},
    END,
};

/* Nemotron H: each layer is one of mamba, attention, MLP and experts, with one norm. */
static const struct mw_family_let nemotron_h_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    {"use_conv_bias", "1", false},
    {"use_bias", "0", false},
    {"kernel", "conv_kernel ?? 4", false},
    {"state", "ssm_state_size ?? 128", false},
    {"groups", "n_groups ?? 8", false},
    {"ssm_heads", "mamba_num_heads ?? 128", false},
    {"inner", "ssm_heads * (mamba_head_dim ?? 64)", false},
    {"num_hidden_layers", "len(layers_block_type ? layers_block_type : hybrid_override_pattern)",
     false},
    {"kind", "layers_block_type ? layers_block_type[layer] : hybrid_override_pattern[layer]",
     false},
    {"n_shared_experts", "1", false},
    {"expand", "2", false},
    {"mtp_layers_block_type", "0", false}, /* transformers has no multi-token heads */
    END,
};
/* Never tied, whatever the file says. */
static const struct mw_family_key nemotron_keys[] = {
    {"num_attention_heads", MW_DIMENSION_HEADS},
    {"num_key_value_heads", MW_DIMENSION_KV_HEADS},
    {"head_dim", MW_DIMENSION_HEAD_DIM},
    {"intermediate_size", MW_DIMENSION_FFN},
    {"hidden_size", MW_DIMENSION_HIDDEN},
    {"num_hidden_layers", MW_DIMENSION_LAYERS},
    ENDS,
    END,
};
static const struct mw_family_tensor nemotron_mamba[] = {MAMBA2, END};
static const struct mw_family_tensor nemotron_attention[] = {ATTENTION, END};
static const struct mw_family_tensor nemotron_mlp[] = {
    VECTOR(NORM2, "hidden_size"),
    MATRIX(UP, "intermediate_size", "hidden_size", .bias = "mlp_bias"),
    MATRIX(DOWN, "hidden_size", "intermediate_size", .bias = "mlp_bias"),
    END,
};
static const struct mw_family_tensor nemotron_experts[] = {
    VECTOR(NORM2, "hidden_size"),
    MATRIX(UP, "n_routed_experts", "hidden_size"),
    MATRIX(UP, "moe_intermediate_size", "hidden_size", .count = "n_routed_experts",
           .met = "num_experts_per_tok"),
    MATRIX(DOWN, "hidden_size", "moe_intermediate_size", .count = "n_routed_experts",
           .met = "num_experts_per_tok"),
    MATRIX(UP, "n_shared_experts * moe_shared_expert_intermediate_size", "hidden_size",
           .bias = "mlp_bias"),
    MATRIX(DOWN, "hidden_size", "n_shared_experts * moe_shared_expert_intermediate_size",
           .bias = "mlp_bias"),
    END,
};
static const struct mw_family_stack nemotron_stacks[] = {
    {.name = "attention",
     .when = "kind == 'full_attention' or kind == 'attention' or kind == '*'",
     ATTENDS,
     .tensors = nemotron_attention},
    {.name = "experts", .when = "kind == 'moe' or kind == 'E'", .tensors = nemotron_experts},
    {.name = "mlp", .when = "kind == 'mlp' or kind == '-'", .tensors = nemotron_mlp},
    {.name = "mamba2", .tensors = nemotron_mamba},
    END,
};

/* --- short convolutions, linear attention ---------------------------------------------------- */

static const struct mw_family_let lfm2_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "tie_embedding ?? 1", false},
    {"conv_bias", "0", false},
    {"conv_L_cache", "3", false},
    {"block_auto_adjust_ff_dim", "1", false},
    {"block_ffn_dim_multiplier", "1", false},
    {"block_multiple_of", "256", false},
    {"ff", "block_ff_dim ?? intermediate_size", false},
    {"inner",
     "block_auto_adjust_ff_dim ? "
     "up(int(block_ffn_dim_multiplier * int(2 * ff / 3)), block_multiple_of) : ff",
     false},
    {"attends",
     "layer_types ? layer_types[layer] == 'full_attention' "
     ": full_attn_idxs ? layer in full_attn_idxs : 1",
     false},
    END,
};
static const struct mw_family_key lfm2_keys[] = {
    {"num_attention_heads", MW_DIMENSION_HEADS},
    {"num_key_value_heads", MW_DIMENSION_KV_HEADS},
    {"head_dim", MW_DIMENSION_HEAD_DIM},
    {"inner", MW_DIMENSION_FFN},
    ENDS_AND_WIDTH,
    END,
};
static const struct mw_family_tensor lfm2_attention[] = {
    VECTOR(NORM1, "hidden_size"),
    MATRIX(QKV, "(num_attention_heads + 2 * num_key_value_heads) * head_dim", "hidden_size"),
    VECTOR(QKV, "2 * head_dim"),
    MATRIX(PROJECTION, "hidden_size", "num_attention_heads * head_dim"),
    GATED_MLP("inner"),
    END,
};
static const struct mw_family_tensor lfm2_convolution[] = {
    VECTOR(NORM1, "hidden_size"),
    MATRIX(QKV, "3 * hidden_size", "hidden_size", .bias = "conv_bias"),
    VECTOR(QKV, "hidden_size * (conv_L_cache + (conv_bias ? 1 : 0))"),
    MATRIX(PROJECTION, "hidden_size", "hidden_size", .bias = "conv_bias"),
    GATED_MLP("inner"),
    END,
};
static const struct mw_family_stack lfm2_stacks[] = {
    {.name = "attention", .when = "attends", ATTENDS, .tensors = lfm2_attention},
    {.name = "short convolution", .tensors = lfm2_convolution},
    END,
};

/* Qwen3-Next: gated delta rule (arXiv 2412.06464) in three of four layers. */
static const struct mw_family_let qwen3_next_lets[] = {
    {"head_dim", "256", false},
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    {"keys", "linear_num_key_heads * linear_key_head_dim", false},
    {"values", "linear_num_value_heads * linear_value_head_dim", false},
    {"num_experts", "num_local_experts", false},
    {"attends",
     "layer_types ? layer_types[layer] == 'full_attention' "
     ": (layer + 1) % (full_attention_interval ?? 4) == 0",
     false},
    {"sparse",
     "not (layer in mlp_only_layers) and num_experts > 0 "
     "and (layer + 1) % (decoder_sparse_step ?? 1) == 0",
     false},
    END,
};
#define GATED_ATTENTION                                                                            \
    VECTOR(NORM1, "hidden_size"),                                                                  \
        MATRIX(QKV, "(2 * num_attention_heads + 2 * num_key_value_heads) * head_dim",              \
               "hidden_size", .bias = "attention_bias"),                                           \
        VECTOR(QKV, "2 * head_dim"),                                                               \
        MATRIX(PROJECTION, "hidden_size", "num_attention_heads * head_dim",                        \
               .bias = "attention_bias")
#define DELTA_RULE                                                                                 \
    VECTOR(NORM1, "hidden_size"),                                                                  \
        MATRIX(QKV, "2 * keys + 2 * values + 2 * linear_num_value_heads", "hidden_size"),          \
        VECTOR(QKV, "(2 * keys + values) * linear_conv_kernel_dim"),                               \
        VECTOR(QKV, "2 * linear_num_value_heads + linear_value_head_dim"),                         \
        MATRIX(PROJECTION, "hidden_size", "values")
#define NEXT_EXPERTS                                                                               \
    EXPERTS("num_experts", "num_experts_per_tok", "moe_intermediate_size"),                        \
        MATRIX(UP, "2 * shared_expert_intermediate_size", "hidden_size"),                          \
        MATRIX(UP, "1", "hidden_size"),                                                            \
        MATRIX(DOWN, "hidden_size", "shared_expert_intermediate_size")
static const struct mw_family_tensor next_0[] = {GATED_ATTENTION, NEXT_EXPERTS, END};
static const struct mw_family_tensor next_1[] = {GATED_ATTENTION, GATED_MLP("intermediate_size"),
                                                 END};
static const struct mw_family_tensor next_2[] = {DELTA_RULE, NEXT_EXPERTS, END};
static const struct mw_family_tensor next_3[] = {DELTA_RULE, GATED_MLP("intermediate_size"), END};
static const struct mw_family_stack qwen3_next_stacks[] = {
    {.name = "attention with experts", .when = "attends and sparse", ATTENDS, .tensors = next_0},
    {.name = "attention", .when = "attends", ATTENDS, .tensors = next_1},
    {.name = "delta rule with experts", .when = "sparse", .tensors = next_2},
    {.name = "delta rule", .tensors = next_3},
    END,
};

static const struct mw_family_let minimax_lets[] = {
    LLAMA_LETS,
    {"tie_word_embeddings", "0", false},
    {"kinds", "layer_types", false},
    {"attends",
     "layer_types ? layer_types[layer] == 'full_attention' "
     ": attn_type_list ? attn_type_list[layer] == 1 : layer % 2 == 0",
     false},
    {"heads_wide", "num_attention_heads * head_dim", false},
    END,
};
#define MINIMAX_EXPERTS EXPERTS("num_local_experts", "num_experts_per_tok", "intermediate_size")
static const struct mw_family_tensor minimax_attention[] = {ATTENTION, MINIMAX_EXPERTS, END};
static const struct mw_family_tensor minimax_lightning[] = {
    VECTOR(NORM1, "hidden_size"),
    MATRIX(QKV, "4 * heads_wide", "hidden_size"),
    VECTOR(QKV, "heads_wide"),
    MATRIX(PROJECTION, "hidden_size", "heads_wide"),
    MINIMAX_EXPERTS,
    END,
};
static const struct mw_family_stack minimax_stacks[] = {
    {.name = "attention", .when = "attends", ATTENDS, .tensors = minimax_attention},
    {.name = "lightning attention", .tensors = minimax_lightning},
    END,
};

/* Griffin (arXiv 2402.19427, Sec. 2): gated linear recurrences, and windowed attention. */
static const struct mw_family_let griffin_lets[] = {
    {"head_dim", "hidden_size / num_attention_heads", false},
    {"num_key_value_heads", "num_attention_heads", false},
    {"tie_word_embeddings", "1", false},
    {"attention_bias", "0", false},
    {"lru", "lru_width ?? hidden_size", false},
    {"conv1d_width", "4", false},
    {"inner", "intermediate_size // 2", false},
    {"block", "lru / num_attention_heads", false},
    {"kinds", "block_types ?? _block_types", false},
    {"attends", "kinds ? kinds[layer % len(kinds)] == 'attention' : layer % 3 == 2", false},
    {"attention_window_size", "2048", false},
    END,
};
static const struct mw_family_key griffin_keys[] = {
    {"hidden_size", MW_DIMENSION_HIDDEN},
    {"inner", MW_DIMENSION_FFN},
    {"num_hidden_layers", MW_DIMENSION_LAYERS},
    {"num_attention_heads", MW_DIMENSION_HEADS},
    {"num_key_value_heads", MW_DIMENSION_KV_HEADS},
    {"head_dim", MW_DIMENSION_HEAD_DIM},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"8192", MW_DIMENSION_SEQ},
    TIED,
    END,
};
#define GRIFFIN_MLP                                                                                \
    VECTOR(NORM2, "hidden_size"), LINEAR(UP, "2 * inner", "hidden_size"),                          \
        LINEAR(DOWN, "hidden_size", "inner")
static const struct mw_family_tensor griffin_attention[] = {
    VECTOR(NORM1, "hidden_size"),
    MATRIX(QKV, "(num_attention_heads + 2 * num_key_value_heads) * head_dim", "hidden_size",
           .bias = "attention_bias"),
    LINEAR(PROJECTION, "hidden_size", "num_attention_heads * head_dim"),
    GRIFFIN_MLP,
    END,
};
static const struct mw_family_tensor griffin_recurrence[] = {
    VECTOR(NORM1, "hidden_size"),
    LINEAR(QKV, "2 * lru", "hidden_size"),
    VECTOR(QKV, "lru * (conv1d_width + 2)"),
    LINEAR(QKV, "block", "block", .count = "2 * num_attention_heads"),
    LINEAR(PROJECTION, "hidden_size", "lru"),
    GRIFFIN_MLP,
    END,
};
static const struct mw_family_stack griffin_stacks[] = {
    {.name = "windowed attention",
     .when = "attends",
     ATTENDS,
     .window = "attention_window_size",
     .tensors = griffin_attention},
    {.name = "recurrence", .tensors = griffin_recurrence},
    END,
};

#define HYBRID(name_, prefix, what)                                                                \
    .name = name_, .class_prefix = prefix, .approximates = SCANS, .why_not = what

const struct mw_family mw_family_hybrids[] = {
    {HYBRID("mamba", "MambaFor", "state-space layers"),
     .traits = {LLAMA_BLOCK(2), .tied_embedding = true}, .keys = mamba_keys, .lets = mamba_lets,
     .stacks = mamba_stacks},
    {HYBRID("falcon_mamba", "FalconMambaFor", "state-space layers"),
     .traits = {LLAMA_BLOCK(2), .tied_embedding = true}, .keys = mamba_keys, .lets = mamba_lets,
     .stacks = mamba_stacks},
    {HYBRID("mamba2", "Mamba2For", "state-space layers"), .traits = {LLAMA_BLOCK(2)},
     .keys = mamba_keys, .lets = mamba2_lets, .stacks = mamba2_stacks},
    {HYBRID("jamba", "JambaFor", "state-space layers"), .traits = {LLAMA_BLOCK(2)},
     .layer_kinds = "attention mamba", .keys = hybrid_keys,
     .defaults = {[MW_DIMENSION_SEQ] = 262144}, .lets = jamba_lets, .stacks = jamba_stacks},
    {HYBRID("bamba", "BambaFor", "state-space layers"), .traits = {LLAMA_BLOCK(2)},
     .layer_kinds = "attention full_attention linear_attention mamba", .keys = hybrid_keys,
     .defaults = {[MW_DIMENSION_SEQ] = 262144}, .lets = bamba_lets, .stacks = bamba_stacks,
     .refused = "most(attn_layer_indices) >= num_hidden_layers",
     .refused_why = "attn_layer_indices: must be numbers of layers, below num_hidden_layers"},
    {HYBRID("falcon_h1", "FalconH1For", "state-space layers"), .traits = {LLAMA_BLOCK(2)},
     .keys = hybrid_keys, .defaults = {[MW_DIMENSION_SEQ] = 8192}, .lets = falcon_h1_lets,
     .stacks = falcon_h1_stacks},
    {HYBRID("granitemoehybrid", "GraniteMoeHybridFor", "state-space layers"),
     .traits = {LLAMA_BLOCK(2)}, .layer_kinds = "attention full_attention linear_attention mamba",
     .keys = hybrid_keys, .defaults = {[MW_DIMENSION_SEQ] = 2048}, .lets = granite_lets,
     .stacks = granite_stacks},
    {HYBRID("nemotron_h", "NemotronHFor", "state-space layers"), .traits = {LLAMA_BLOCK(2)},
     .layer_kinds = "attention full_attention linear_attention mamba mlp moe * M - E",
     .keys = nemotron_keys, .defaults = {[MW_DIMENSION_SEQ] = 4096}, .lets = nemotron_h_lets,
     .stacks = nemotron_stacks, .refused = "moe_latent_size or use_bias or mamba_proj_bias",
     .refused_why = "moe_latent_size, use_bias and mamba_proj_bias: not counted yet: must be "
                    "absent"},
    {HYBRID("lfm2", "Lfm2For", "short convolutions"),
     .traits = {LLAMA_BLOCK(2), .tied_embedding = true}, .layer_kinds = "conv full_attention",
     .keys = lfm2_keys, .defaults = {[MW_DIMENSION_SEQ] = 128000}, .lets = lfm2_lets,
     .stacks = lfm2_stacks, .refused = "most(full_attn_idxs) >= num_hidden_layers",
     .refused_why = "full_attn_idxs: must be numbers of layers, below num_hidden_layers"},
    {HYBRID("qwen3_next", "Qwen3NextFor", "linear attention"), .traits = {LLAMA_BLOCK(2)},
     .layer_kinds = "full_attention linear_attention", .keys = hybrid_keys,
     .defaults = {[MW_DIMENSION_SEQ] = 32768}, .lets = qwen3_next_lets,
     .stacks = qwen3_next_stacks},
    {HYBRID("minimax", "MiniMaxFor", "linear attention"), .traits = {LLAMA_BLOCK(2)},
     .layer_kinds = "full_attention linear_attention", .keys = hybrid_keys,
     .defaults = {[MW_DIMENSION_SEQ] = 131072}, .lets = minimax_lets, .stacks = minimax_stacks},
    {HYBRID("recurrent_gemma", "RecurrentGemmaFor", "linear recurrences"),
     .traits = {LLAMA_BLOCK(2), .tied_embedding = true, .capped_logits = true},
     .keys = griffin_keys, .lets = griffin_lets, .stacks = griffin_stacks},
    END,
};
