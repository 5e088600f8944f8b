/*
 * decoder.h - the model that a plan's operators make up: dimensions and constants, plain numbers.
 *
 * GPT-2: learned positions, LayerNorm with bias, fused qkv, two MLP matrices, every product
 * with a bias.  Llama: rotary positions, RMSNorm, grouped-query attention, a gated MLP; biases as
 * the flags say (Qwen2 has them on q, k, v).
 */
#ifndef MW_PLAN_DECODER_H
#define MW_PLAN_DECODER_H

#include <stdbool.h>
#include <stdint.h>

/* Records of runs have the numbers. */
enum mw_decoder_kind { MW_DECODER_GPT2, MW_DECODER_LLAMA, MW_DECODER_KIND_COUNT };

enum mw_decoder_activation {
    MW_ACTIVATION_GELU_TANH, /* "gelu_new", "gelu_pytorch_tanh" */
    MW_ACTIVATION_GELU_ERF,  /* "gelu" */
    MW_ACTIVATION_RELU,
    MW_ACTIVATION_SILU, /* of the gate: SwiGLU */
    MW_ACTIVATION_COUNT
};

/* Llama 3.1's stretched rotary positions (its config.json's rope_scaling); factor 1: none. */
struct mw_rope_scaling {
    double factor;
    double low_frequency_factor, high_frequency_factor;
    int64_t original_positions;
};

struct mw_decoder {
    enum mw_decoder_kind kind;
    enum mw_decoder_activation activation;
    int64_t layers, hidden;
    int64_t heads, kv_heads, head_dim; /* q is [heads * head_dim], k and v [kv_heads * head_dim] */
    int64_t ffn, vocab;
    int64_t positions;     /* the longest sequence */
    int64_t position_rows; /* rows of the learned position table; 0: rotary */
    bool tied_embedding;   /* logits use the embedding's matrix */
    bool attention_bias;   /* on q, k, v */
    bool projection_bias, mlp_bias;
    double norm_epsilon;
    double rope_theta; /* 0 without rotary positions */
    struct mw_rope_scaling rope_scaling;
};

/* What they can be. */
#define MW_DECODER_EPSILON_MAX 1.0
#define MW_DECODER_THETA_MAX 1e12
#define MW_DECODER_STRETCH_MIN 1e-3 /* of the factors of frequencies; that of all: 1 */
#define MW_DECODER_STRETCH_MAX 1e6
#define MW_DECODER_POSITIONS_MAX (INT64_C(1) << 40)

/* As transformers calls them; NULL out of range. */
const char *mw_decoder_kind_name(int kind);
const char *mw_activation_name(int activation);

#endif
