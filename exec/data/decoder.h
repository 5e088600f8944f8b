/*
 * decoder.h - the model that the executor runs: dimensions and constants, plain numbers.
 *
 * GPT-2: learned positions, LayerNorm with bias, fused qkv, two MLP matrices, every product
 * with a bias.  Llama: rotary positions, RMSNorm, grouped-query attention, a gated MLP; biases as
 * the flags say (Qwen2 has them on q, k, v).  cli/run/decoder.h fills it in from model/model.h and
 * config.json.
 */
#ifndef MW_EXEC_DATA_DECODER_H
#define MW_EXEC_DATA_DECODER_H

#include <stdbool.h>
#include <stdint.h>

enum mw_decoder_kind { MW_DECODER_GPT2, MW_DECODER_LLAMA };

enum mw_decoder_activation {
    MW_ACTIVATION_GELU_TANH, /* "gelu_new", "gelu_pytorch_tanh" */
    MW_ACTIVATION_GELU_ERF,  /* "gelu" */
    MW_ACTIVATION_RELU,
    MW_ACTIVATION_SILU, /* of the gate: SwiGLU */
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
    int64_t position_rows; /* rows of the learned position table; 0: rotary */
    bool tied_embedding;   /* logits use the embedding's matrix */
    bool attention_bias;   /* on q, k, v */
    bool projection_bias, mlp_bias;
    double norm_epsilon;
    double rope_theta; /* 0 without rotary positions */
    struct mw_rope_scaling rope_scaling;
};

#endif
