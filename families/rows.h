/*
 * rows.h - the lists that the table of families is made of; for families/ alone.  Each ends with a
 * row without a name.
 */
#ifndef MW_FAMILIES_ROWS_H
#define MW_FAMILIES_ROWS_H

#include "families/family.h"

extern const struct mw_family mw_family_decoders[]; /* attention and a dense MLP in every layer */
extern const struct mw_family_tensors mw_family_qwen3_moe_tensors;
extern const struct mw_family mw_family_mixtures[]; /* of experts */
extern const struct mw_family mw_family_hybrids[];  /* state-space layers, convolutions, ... */
extern const struct mw_family mw_family_encoders[]; /* of text */
extern const struct mw_family mw_family_pairs[];    /* an encoder and a decoder */
extern const struct mw_family mw_family_images[];   /* of images, and of images and text */
extern const struct mw_family mw_family_views[];    /* more of them */

/* Rows give the fields beyond the first ones or none, as C2x allows it. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments"
#endif

/* In rows whose columns are formulas. */
#define MATRIX(part_, rows_, columns_, ...)                                                        \
    {                                                                                              \
        .part = MW_PART_##part_, .rows = rows_, .columns = columns_, __VA_ARGS__                   \
    }
#define LINEAR(part_, rows_, columns_, ...) /* with a bias */                                      \
    {                                                                                              \
        .part = MW_PART_##part_, .rows = rows_, .columns = columns_, .bias = "1", __VA_ARGS__      \
    }
#define TABLE(rows_, columns_, ...)                                                                \
    {                                                                                              \
        .part = MW_PART_EMBEDDING, .rows = rows_, .columns = columns_, .table = true, __VA_ARGS__  \
    }
#define VECTOR(part_, rows_, ...)                                                                  \
    {                                                                                              \
        .part = MW_PART_##part_, .rows = rows_, __VA_ARGS__                                        \
    }
#define LAYER_NORM(part_, rows_, ...) /* weight and bias */                                        \
    {                                                                                              \
        .part = MW_PART_##part_, .rows = rows_, .bias = "1", __VA_ARGS__                           \
    }
#define END                                                                                        \
    {                                                                                              \
        0                                                                                          \
    }

/* Heads, layers, vocabulary and length, where they have Llama's names; lets for optional ones. */
#define HEADS                                                                                      \
    {"num_attention_heads", MW_DIMENSION_HEADS}, {"num_key_value_heads", MW_DIMENSION_KV_HEADS},   \
        {"head_dim", MW_DIMENSION_HEAD_DIM},                                                       \
    {                                                                                              \
        "num_hidden_layers", MW_DIMENSION_LAYERS                                                   \
    }
#define ENDS                                                                                       \
    {"vocab_size", MW_DIMENSION_VOCAB},                                                            \
    {                                                                                              \
        "max_position_embeddings", MW_DIMENSION_SEQ                                                \
    }
#define LLAMA_LETS                                                                                 \
    {"num_key_value_heads", "num_attention_heads", false},                                         \
        {"head_dim", "hidden_size / num_attention_heads", false}, {"attention_bias", "0", false},  \
        {"mlp_bias", "0", false},                                                                  \
    {                                                                                              \
        "use_sliding_window", "0", false                                                           \
    }

#define GPT2_BLOCK(norms)                                                                          \
    .mlp_matrices = 2, .norms_per_layer = norms, .attention_bias = true, .projection_bias = true,  \
    .mlp_bias = true, .norm_bias = true, .final_norm = true
/* Of Gemma 2: final_logit_softcapping and attn_logit_softcapping (transformers,
 * configuration_gemma2.py). */
#define SOFT_CAPS .capped_logits = true, .capped_scores = true
#define LLAMA_BLOCK(norms)                                                                         \
    .mlp_matrices = 3, .norms_per_layer = norms, .rotary = true, .final_norm = true

#endif
