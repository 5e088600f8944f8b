/* The table of model families.  A family that is like another is one row. */
#include "families/rows.h"

#include <string.h>

/* --- keys of config.json --------------------------------------------------------------------- */

/* In the order in which memwall writes them. */
#define LLAMA_DIMENSIONS                                                                           \
    {"hidden_size", MW_DIMENSION_HIDDEN}, {"intermediate_size", MW_DIMENSION_FFN},                 \
        {"num_hidden_layers", MW_DIMENSION_LAYERS}, {"num_attention_heads", MW_DIMENSION_HEADS},   \
        {"num_key_value_heads", MW_DIMENSION_KV_HEADS},                                            \
        {"max_position_embeddings", MW_DIMENSION_SEQ},                                             \
    {                                                                                              \
        "vocab_size", MW_DIMENSION_VOCAB                                                           \
    }
#define LLAMA_CONSTANTS                                                                            \
    {"hidden_act", MW_KEY_ACTIVATION}, {"rms_norm_eps", MW_KEY_NORM_EPSILON},                      \
    {                                                                                              \
        "rope_theta", MW_KEY_ROPE_THETA                                                            \
    }
#define HEAD_DIM                                                                                   \
    {                                                                                              \
        "head_dim", MW_DIMENSION_HEAD_DIM                                                          \
    }
#define ATTENTION_BIAS                                                                             \
    {                                                                                              \
        "attention_bias", MW_KEY_ATTENTION_BIAS                                                    \
    }
#define WINDOW                                                                                     \
    {                                                                                              \
        "sliding_window", MW_DIMENSION_WINDOW                                                      \
    }

static const struct mw_family_key gpt2_keys[] = {
    {"n_embd", MW_DIMENSION_HIDDEN},
    {"n_head", MW_DIMENSION_HEADS},
    {"n_inner", MW_DIMENSION_FFN},
    {"n_layer", MW_DIMENSION_LAYERS},
    {"n_positions", MW_DIMENSION_SEQ},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"activation_function", MW_KEY_ACTIVATION},
    {"layer_norm_epsilon", MW_KEY_NORM_EPSILON},
    {"add_cross_attention", MW_KEY_FALSE},
    {"scale_attn_weights", MW_KEY_RUNS_IF_TRUE},
    {"scale_attn_by_inverse_layer_idx", MW_KEY_RUNS_IF_FALSE},
    {"resid_pdrop", MW_KEY_DROPOUT},
    {"attn_pdrop", MW_KEY_DROPOUT},
    {"embd_pdrop", MW_KEY_EMBEDDING_DROPOUT},
    {NULL, 0},
};

static const struct mw_family_key opt_keys[] = {
    {"num_hidden_layers", MW_DIMENSION_LAYERS},
    {"hidden_size", MW_DIMENSION_HIDDEN},
    {"num_attention_heads", MW_DIMENSION_HEADS},
    {"ffn_dim", MW_DIMENSION_FFN},
    {"vocab_size", MW_DIMENSION_VOCAB},
    {"max_position_embeddings", MW_DIMENSION_SEQ},
    {"word_embed_proj_dim", MW_DIMENSION_EMBEDDING_DIM},
    {"do_layer_norm_before", MW_KEY_NORM_FIRST},
    {"_remove_final_layer_norm", MW_KEY_NO_FINAL_NORM},
    {"enable_bias", MW_KEY_BIAS},
    {"layer_norm_elementwise_affine", MW_KEY_TRUE},
    {"dropout", MW_KEY_DROPOUT},
    {"attention_dropout", MW_KEY_DROPOUT},
    {NULL, 0},
};

static const struct mw_family_key bloom_keys[] = {
    {"n_layer", MW_DIMENSION_LAYERS}, {"hidden_size", MW_DIMENSION_HIDDEN},
    {"n_head", MW_DIMENSION_HEADS},   {"vocab_size", MW_DIMENSION_VOCAB},
    {"seq_length", MW_DIMENSION_SEQ}, {NULL, 0},
};

static const struct mw_family_key llama_keys[] = {
    LLAMA_DIMENSIONS, HEAD_DIM, LLAMA_CONSTANTS, ATTENTION_BIAS, {"mlp_bias", MW_KEY_MLP_BIAS},
    {NULL, 0},
};

static const struct mw_family_key mistral_keys[] = {
    LLAMA_DIMENSIONS, HEAD_DIM, LLAMA_CONSTANTS, WINDOW, {NULL, 0},
};

/* The window counts where "use_sliding_window" says so, behind the first max_window_layers. */
static const struct mw_family_key qwen2_keys[] = {
    LLAMA_DIMENSIONS,
    HEAD_DIM,
    LLAMA_CONSTANTS,
    {"use_sliding_window", MW_KEY_RUNS_IF_FALSE},
    {"sliding_window", MW_KEY_WINDOW_IF_USED},
    {NULL, 0},
};

static const struct mw_family_key qwen3_keys[] = {
    LLAMA_DIMENSIONS,
    HEAD_DIM,
    LLAMA_CONSTANTS,
    ATTENTION_BIAS,
    {"use_sliding_window", MW_KEY_RUNS_IF_FALSE},
    {"sliding_window", MW_KEY_WINDOW_IF_USED},
    {NULL, 0},
};
#define QWEN_WINDOWED                                                                              \
    .windowed_in = "layer_types ? layer_types[layer] == 'sliding_attention' "                      \
                   ": layer >= (max_window_layers ?? 28)"

static const struct mw_family_key gemma_keys[] = {
    LLAMA_DIMENSIONS,
    HEAD_DIM,
    ATTENTION_BIAS,
    {NULL, 0},
};

/* Every second layer sees all keys, in Gemma 3 every sixth; Gemma 2 has no key for that. */
static const struct mw_family_key gemma_windowed_keys[] = {
    LLAMA_DIMENSIONS,
    HEAD_DIM,
    ATTENTION_BIAS,
    {"sliding_window", MW_DIMENSION_WINDOW},
    {"sliding_window_pattern", MW_DIMENSION_WINDOW_PERIOD},
    {"layer_types", MW_KEY_LAYER_TYPES},
    {NULL, 0},
};

static const struct mw_family_key mixtral_keys[] = {
    LLAMA_DIMENSIONS,
    HEAD_DIM,
    LLAMA_CONSTANTS,
    WINDOW,
    {"num_local_experts", MW_DIMENSION_EXPERTS},
    {"num_experts_per_tok", MW_DIMENSION_EXPERTS_PER_TOKEN},
    {"intermediate_size", MW_DIMENSION_EXPERT_FFN},
    {"router_jitter_noise", MW_KEY_RUNS_IF_ZERO},
    MW_ROUTER_LOSS_KEYS,
    {NULL, 0},
};

/* Phi's heads always divide its hidden size. */
static const struct mw_family_key phi_keys[] = {
    LLAMA_DIMENSIONS,
    {"qk_layernorm", MW_KEY_QK_NORM},
    {NULL, 0},
};

static const struct mw_family_key phi3_keys[] = {
    LLAMA_DIMENSIONS, LLAMA_CONSTANTS, WINDOW, {"partial_rotary_factor", MW_KEY_RUNS_IF_ONE},
    {NULL, 0},
};

/* --- tensors --------------------------------------------------------------------------------- */

static const struct mw_family_tensors gpt2_tensors = {
    .base = "transformer.",
    .layer = "h",
    .transposed = true,
    .of =
        {
            [MW_WEIGHT_TOKENS] = "wte.weight",
            [MW_WEIGHT_POSITIONS] = "wpe.weight",
            [MW_WEIGHT_NORM1] = "ln_1.weight",
            [MW_WEIGHT_NORM1_BIAS] = "ln_1.bias",
            [MW_WEIGHT_Q] = "attn.c_attn.weight",
            [MW_WEIGHT_K] = "attn.c_attn.weight",
            [MW_WEIGHT_V] = "attn.c_attn.weight",
            [MW_WEIGHT_Q_BIAS] = "attn.c_attn.bias",
            [MW_WEIGHT_K_BIAS] = "attn.c_attn.bias",
            [MW_WEIGHT_V_BIAS] = "attn.c_attn.bias",
            [MW_WEIGHT_PROJECTION] = "attn.c_proj.weight",
            [MW_WEIGHT_PROJECTION_BIAS] = "attn.c_proj.bias",
            [MW_WEIGHT_NORM2] = "ln_2.weight",
            [MW_WEIGHT_NORM2_BIAS] = "ln_2.bias",
            [MW_WEIGHT_UP] = "mlp.c_fc.weight",
            [MW_WEIGHT_UP_BIAS] = "mlp.c_fc.bias",
            [MW_WEIGHT_DOWN] = "mlp.c_proj.weight",
            [MW_WEIGHT_DOWN_BIAS] = "mlp.c_proj.bias",
            [MW_WEIGHT_FINAL_NORM] = "ln_f.weight",
            [MW_WEIGHT_FINAL_NORM_BIAS] = "ln_f.bias",
            [MW_WEIGHT_LOGITS] = "lm_head.weight",
        },
    .beside = {".attn.bias", ".attn.masked_bias"},
};

#define LLAMA_ENDS                                                                                 \
    [MW_WEIGHT_TOKENS] = "embed_tokens.weight", [MW_WEIGHT_NORM1] = "input_layernorm.weight",      \
    [MW_WEIGHT_PROJECTION] = "self_attn.o_proj.weight",                                            \
    [MW_WEIGHT_PROJECTION_BIAS] = "self_attn.o_proj.bias",                                         \
    [MW_WEIGHT_NORM2] = "post_attention_layernorm.weight", [MW_WEIGHT_FINAL_NORM] = "norm.weight", \
    [MW_WEIGHT_LOGITS] = "lm_head.weight"
#define LLAMA_HEAD_NORMS                                                                           \
    [MW_WEIGHT_Q_NORM] = "self_attn.q_norm.weight", [MW_WEIGHT_K_NORM] = "self_attn.k_norm.weight"
#define LLAMA_TENSORS                                                                              \
    LLAMA_ENDS, LLAMA_HEAD_NORMS, [MW_WEIGHT_DOWN] = "mlp.down_proj.weight",                       \
                                  [MW_WEIGHT_DOWN_BIAS] = "mlp.down_proj.bias"
#define LLAMA_ATTENTION                                                                            \
    [MW_WEIGHT_Q] = "self_attn.q_proj.weight", [MW_WEIGHT_K] = "self_attn.k_proj.weight",          \
    [MW_WEIGHT_V] = "self_attn.v_proj.weight", [MW_WEIGHT_Q_BIAS] = "self_attn.q_proj.bias",       \
    [MW_WEIGHT_K_BIAS] = "self_attn.k_proj.bias", [MW_WEIGHT_V_BIAS] = "self_attn.v_proj.bias"

static const struct mw_family_tensors llama_tensors = {
    .base = "model.",
    .layer = "layers",
    .of =
        {
            LLAMA_TENSORS,
            LLAMA_ATTENTION,
            [MW_WEIGHT_GATE] = "mlp.gate_proj.weight",
            [MW_WEIGHT_UP] = "mlp.up_proj.weight",
            [MW_WEIGHT_GATE_BIAS] = "mlp.gate_proj.bias",
            [MW_WEIGHT_UP_BIAS] = "mlp.up_proj.bias",
        },
    .beside = {".rotary_emb.inv_freq"},
};

static const struct mw_family_tensors mixtral_tensors = {
    .base = "model.",
    .layer = "layers",
    .of =
        {
            LLAMA_ENDS,
            LLAMA_ATTENTION,
            [MW_WEIGHT_ROUTER] = "block_sparse_moe.gate.weight",
            [MW_WEIGHT_EXPERT_GATE] = "block_sparse_moe.experts.*.w1.weight",
            [MW_WEIGHT_EXPERT_UP] = "block_sparse_moe.experts.*.w3.weight",
            [MW_WEIGHT_EXPERT_DOWN] = "block_sparse_moe.experts.*.w2.weight",
        },
    .beside = {".rotary_emb.inv_freq"},
};

const struct mw_family_tensors mw_family_qwen3_moe_tensors = {
    .base = "model.",
    .layer = "layers",
    .of =
        {
            LLAMA_ENDS,
            LLAMA_HEAD_NORMS,
            LLAMA_ATTENTION,
            [MW_WEIGHT_ROUTER] = "mlp.gate.weight",
            [MW_WEIGHT_EXPERT_GATE] = "mlp.experts.*.gate_proj.weight",
            [MW_WEIGHT_EXPERT_UP] = "mlp.experts.*.up_proj.weight",
            [MW_WEIGHT_EXPERT_DOWN] = "mlp.experts.*.down_proj.weight",
        },
    .beside = {".rotary_emb.inv_freq"},
};

static const struct mw_family_tensors phi3_tensors = {
    .base = "model.",
    .layer = "layers",
    .of =
        {
            LLAMA_TENSORS,
            [MW_WEIGHT_Q] = "self_attn.qkv_proj.weight",
            [MW_WEIGHT_K] = "self_attn.qkv_proj.weight",
            [MW_WEIGHT_V] = "self_attn.qkv_proj.weight",
            [MW_WEIGHT_Q_BIAS] = "self_attn.qkv_proj.bias",
            [MW_WEIGHT_K_BIAS] = "self_attn.qkv_proj.bias",
            [MW_WEIGHT_V_BIAS] = "self_attn.qkv_proj.bias",
            [MW_WEIGHT_GATE] = "mlp.gate_up_proj.weight",
            [MW_WEIGHT_UP] = "mlp.gate_up_proj.weight",
            [MW_WEIGHT_GATE_BIAS] = "mlp.gate_up_proj.bias",
            [MW_WEIGHT_UP_BIAS] = "mlp.gate_up_proj.bias",
        },
    .beside = {".rotary_emb.inv_freq"},
};

/* --- families -------------------------------------------------------------------------------- */

#define LLAMA_RUN .kind = MW_DECODER_LLAMA, .activation = MW_ACTIVATION_SILU

static const struct mw_family rows_that_run[] = {
    {.name = "gpt2",
     .class_prefix = "GPT2LMHead",
     .traits = {GPT2_BLOCK(2), .derived_ffn = true, .learned_positions = true,
                .tied_embedding = true, .dropout = true},
     .keys = gpt2_keys,
     .run = {"GPT2LMHeadModel", MW_DECODER_GPT2, MW_ACTIVATION_GELU_TANH, .norm_epsilon = 1e-5,
             .tensors = &gpt2_tensors}},
    {.name = "opt",
     .class_prefix = "OPTFor",
     .traits = {GPT2_BLOCK(2), .learned_positions = true, .unused_positions = 2,
                .tied_embedding = true, .dropout = true},
     .keys = opt_keys,
     .run = {.activation = MW_ACTIVATION_RELU}, /* of what no executor runs that alone is known */
     .why_not = "positions that begin at row 2 of their table"},
    {.name = "bloom",
     .fused_qkv = "query_key_value",
     .class_prefix = "BloomFor",
     .traits = {GPT2_BLOCK(2), .tied_embedding = true, .embedding_norm = true},
     .keys = bloom_keys,
     .defaults = {[MW_DIMENSION_SEQ] = 2048},
     .why_not = "ALiBi instead of positions",
     .score_bias = "ALiBi (transformers 4 and 5, modeling_bloom.py: its class says of no kernel "
                   "that it supports it)"},
    {.name = "llama",
     .class_prefix = "LlamaFor",
     .traits = {LLAMA_BLOCK(2)},
     .nested = "{\"hidden_size\": 4096, \"intermediate_size\": 11008, "
               "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
               "\"vocab_size\": 32000, \"max_position_embeddings\": 2048}",
     .keys = llama_keys,
     .run = {"LlamaForCausalLM", LLAMA_RUN, 1e-5, 10000, &llama_tensors}},
    {.name = "mistral",
     .class_prefix = "MistralFor",
     .traits = {LLAMA_BLOCK(2)},
     .nested = "{\"hidden_size\": 4096, \"intermediate_size\": 14336, "
               "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
               "\"num_key_value_heads\": 8, \"vocab_size\": 32000, "
               "\"max_position_embeddings\": 131072}",
     .keys = mistral_keys,
     .run = {"MistralForCausalLM", LLAMA_RUN, 1e-5, 10000, &llama_tensors}},
    {.name = "mixtral",
     .class_prefix = "MixtralFor",
     .traits = {LLAMA_BLOCK(2)},
     .keys = mixtral_keys,
     .run = {"MixtralForCausalLM", LLAMA_RUN, 1e-5, 1000000, &mixtral_tensors,
             .router_renormalizes = true, .router_aux_loss = 0.001}},
    {.name = "qwen2",
     .class_prefix = "Qwen2For",
     .traits = {LLAMA_BLOCK(2), .attention_bias = true},
     .nested = "{\"hidden_size\": 4096, \"intermediate_size\": 22016, "
               "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
               "\"num_key_value_heads\": 32, \"vocab_size\": 151936, "
               "\"max_position_embeddings\": 32768}",
     .keys = qwen2_keys,
     QWEN_WINDOWED,
     .run = {"Qwen2ForCausalLM", LLAMA_RUN, 1e-6, 1000000, &llama_tensors}},
    {.name = "qwen3",
     .class_prefix = "Qwen3For",
     .traits = {LLAMA_BLOCK(2), .qk_norm = true},
     .keys = qwen3_keys,
     QWEN_WINDOWED,
     .defaults = {[MW_DIMENSION_HEAD_DIM] = 128},
     .run = {"Qwen3ForCausalLM", LLAMA_RUN, 1e-6, 1000000, &llama_tensors}},
    {.name = "gemma",
     .class_prefix = "GemmaFor",
     .traits = {LLAMA_BLOCK(2), .tied_embedding = true},
     .nested = "{\"hidden_size\": 3072, \"intermediate_size\": 24576, "
               "\"num_hidden_layers\": 28, \"num_attention_heads\": 16, "
               "\"num_key_value_heads\": 16, \"vocab_size\": 256000, "
               "\"max_position_embeddings\": 8192}",
     .keys = gemma_keys,
     .defaults = {[MW_DIMENSION_HEAD_DIM] = 256},
     .why_not = "a scaled embedding, and norms that scale by 1 + weight"},
    {.name = "gemma2",
     .class_prefix = "Gemma2For",
     .traits = {LLAMA_BLOCK(4), .tied_embedding = true, SOFT_CAPS},
     .nested = "{\"hidden_size\": 2304, \"intermediate_size\": 9216, "
               "\"num_hidden_layers\": 26, \"num_attention_heads\": 8, "
               "\"num_key_value_heads\": 4, \"vocab_size\": 256000, "
               "\"max_position_embeddings\": 8192}",
     .keys = gemma_windowed_keys,
     .defaults = {[MW_DIMENSION_HEAD_DIM] = 256,
                  [MW_DIMENSION_WINDOW] = 4096,
                  [MW_DIMENSION_WINDOW_PERIOD] = 2},
     .why_not = "four norms in a layer, and soft caps of scores and logits"},
    {.name = "gemma3_text",
     .class_prefix = "Gemma3ForCausal",
     .traits = {LLAMA_BLOCK(4), .qk_norm = true, .tied_embedding = true},
     .keys = gemma_windowed_keys,
     .defaults = {[MW_DIMENSION_HEADS] = 8,
                  [MW_DIMENSION_KV_HEADS] = 4,
                  [MW_DIMENSION_HEAD_DIM] = 256,
                  [MW_DIMENSION_VOCAB] = 262208,
                  [MW_DIMENSION_SEQ] = 131072,
                  [MW_DIMENSION_WINDOW] = 4096,
                  [MW_DIMENSION_WINDOW_PERIOD] = 6},
     .why_not = "four norms in a layer, and norms of q and k"},
    {.name = "phi",
     .class_prefix = "PhiFor",
     .traits = {GPT2_BLOCK(1), .parallel_block = true, .rotary = true, .logits_bias = true},
     .keys = phi_keys,
     .why_not = "attention and MLP in parallel"},
    {.name = "phi3",
     .class_prefix = "Phi3For",
     .traits = {LLAMA_BLOCK(2)},
     .keys = phi3_keys,
     .run = {"Phi3ForCausalLM", LLAMA_RUN, 1e-5, 10000, &phi3_tensors}},
    {0},
};

static const struct mw_family *const groups[] = {
    rows_that_run,      mw_family_decoders, mw_family_mixtures, mw_family_hybrids,
    mw_family_encoders, mw_family_pairs,    mw_family_images,   mw_family_views};

const struct mw_family *
mw_family_at(int number)
{
    for (size_t group = 0; group < sizeof groups / sizeof *groups && number >= 0; group++)
        for (const struct mw_family *row = groups[group]; row->name; row++)
            if (!number--)
                return row;
    return NULL;
}

const struct mw_family *
mw_family_find(const char *name)
{
    const struct mw_family *row;

    for (int i = 0; (row = mw_family_at(i)); i++)
        if (!strcmp(row->name, name))
            return row->same ? mw_family_find(row->same) : row;
    return NULL;
}

const char *
mw_family_runs_name(int number)
{
    const struct mw_family *row;

    for (int i = 0; (row = mw_family_at(i)); i++)
        if (row->run.tensors && !number--)
            return row->name;
    return NULL;
}

const char *
mw_activation_name(int activation)
{
    static const char *const names[MW_ACTIVATION_COUNT] = {
        [MW_ACTIVATION_GELU_TANH] = "gelu_new",
        [MW_ACTIVATION_GELU_ERF] = "gelu",
        [MW_ACTIVATION_RELU] = "relu",
        [MW_ACTIVATION_SILU] = "silu",
    };

    return activation >= 0 && activation < MW_ACTIVATION_COUNT ? names[activation] : NULL;
}
