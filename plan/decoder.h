/*
 * decoder.h - the model that a plan's operators make up: dimensions and constants, plain numbers.
 * Its family says what checkpoints call its tensors; nothing that is computed depends on it.
 */
#ifndef MW_PLAN_DECODER_H
#define MW_PLAN_DECODER_H

#include <stdbool.h>
#include <stdint.h>

#include "families/family.h"
#include "plan/context.h"

/* Llama 3.1's stretched rotary positions (its config.json's rope_scaling); factor 1: none. */
struct mw_rope_scaling {
    double factor;
    double low_frequency_factor, high_frequency_factor;
    int64_t original_positions;
};

/* The values that transformers assumes where only the factor is given. */
#define MW_ROPE_UNSCALED                                                                           \
    (struct mw_rope_scaling)                                                                       \
    {                                                                                              \
        .factor = 1, .low_frequency_factor = 1, .high_frequency_factor = 4,                        \
        .original_positions = 8192                                                                 \
    }

/* Which of several tensor slices a decoder is (Megatron-LM, arXiv 1909.08053, Sec. 3): count 0 or 1
 * is the whole.  Heads, the MLP's width and rows of the vocabulary are then those of the slice. */
struct mw_slice {
    int64_t count, index;
    int64_t vocab; /* of the whole: the last slice may have fewer, and the rest of its rows is 0 */
    bool shares_tokens; /* of hidden states it has its part, which a micro-batch's tokens are cut
                         * into one behind the other (Korthikanti et al., arXiv 2205.05198) */
};

/* Which of several ranks that share a mixture's experts a decoder is of: each has as many, one
 * after the other (docs/MODEL.md 2.16).  Count 0 or 1: it has all. */
struct mw_spread {
    int64_t count, index;
};

/* How tokens and experts find each other: plan/gates.h. */
enum mw_gating {
    MW_GATING_TOP_K, /* as the model's type has it */
    MW_GATING_NOISY_TOP_K,
    MW_GATING_SWITCH,
    MW_GATING_GSHARD,
    MW_GATING_EXPERT_CHOICE,
    MW_GATING_HIERARCHICAL,
    MW_GATING_COUNT
};

struct mw_decoder {
    const struct mw_family *family; /* a family that can run; a plan's text has its name */
    enum mw_decoder_kind kind;
    enum mw_decoder_activation activation;
    int64_t layers, hidden;
    int64_t heads, kv_heads, head_dim; /* q is [heads * head_dim], k and v [kv_heads * head_dim] */
    int64_t ffn, vocab;
    int64_t positions;     /* length of the longest sequence */
    int64_t position_rows; /* rows of the learned position table; 0: rotary */
    bool tied_embedding;   /* logits use the embedding's matrix */
    bool attention_bias;   /* biases on q, k and v */
    bool qk_norm;          /* each head of q and k passes an RMSNorm before positions are added */
    bool projection_bias, mlp_bias;
    double norm_epsilon;
    double rope_theta; /* 0 without rotary positions */
    struct mw_rope_scaling rope_scaling;
    /* A mixture: the MLP of every layer is so many experts, each as wide as ffn, of which a token
     * visits some (docs/MODEL.md 2.6); experts 0: it is one MLP. */
    int64_t experts, experts_per_token;
    enum mw_gating gate;      /* one that runs */
    int64_t rows_of_expert;   /* rows of a rank's micro-batch that an expert takes: it drops what is
                               * more (docs/MODEL.md 2.15); 0: it takes all */
    bool router_renormalizes; /* the probabilities of those that a token visits are divided by their
                               * sum: Mixtral; else they are the router's own: Switch
                               * (arXiv 2101.03961, Eq. 2) */
    /* Coefficients of the losses that are added (docs/MODEL.md 2.18), 0: there is none: of experts
     * that are visited unevenly, and of large scores. */
    double router_aux_loss, router_z_loss;
    bool router_losses_said; /* the model's file says whether there are any */
    /* Adapters (struct mw_trained of plan/operators.h). */
    int64_t lora_rank;     /* 0: none */
    double lora_alpha;     /* their results are multiplied by alpha / rank */
    uint32_t lora_adapted; /* operators that have them: bits 1 << enum mw_operator */
    uint32_t lora_bare;    /* matrices of these that have none: bits 1 << enum mw_target */
    struct mw_slice slice;
    struct mw_spread spread;
    struct mw_context_share context; /* the tokens of each sequence that a rank has */
    bool copies_embedding; /* of a stage of a pipeline whose model is tied: the logits have a matrix
                            * of their own, which is as the embedding's in the first stage */
};

static inline bool
mw_decoder_has_router_losses(const struct mw_decoder *decoder)
{
    return decoder->router_aux_loss > 0 || decoder->router_z_loss > 0;
}

static inline bool
mw_decoder_is_slice(const struct mw_decoder *decoder)
{
    return decoder->slice.count > 1;
}

/* Whether ranks share sequences, and each has whole ones of some heads for attention. */
static inline bool
mw_decoder_exchanges_heads(const struct mw_decoder *decoder)
{
    return decoder->context.count > 1 && decoder->context.kind == MW_CONTEXT_ALL_TO_ALL;
}

/* Or keys and values pass around a ring of them. */
static inline bool
mw_decoder_rings(const struct mw_decoder *decoder)
{
    return decoder->context.count > 1 && decoder->context.kind == MW_CONTEXT_RING;
}

/* Ranks that share a sequence; 1: it has whole ones. */
static inline int64_t
mw_decoder_sharers(const struct mw_decoder *decoder)
{
    return decoder->context.count > 1 ? decoder->context.count : 1;
}

/* Of so many tokens those whose hidden states it has, and the number of the first one. */
static inline int64_t
mw_decoder_own_tokens(const struct mw_decoder *decoder, int64_t tokens)
{
    return decoder->slice.shares_tokens ? tokens / decoder->slice.count : tokens;
}

static inline int64_t
mw_decoder_first_own(const struct mw_decoder *decoder, int64_t tokens)
{
    return decoder->slice.shares_tokens
               ? decoder->slice.index * mw_decoder_own_tokens(decoder, tokens)
               : 0;
}

/* The slice that adds what is added once: residuals and the biases of sums. */
static inline bool
mw_decoder_is_first_slice(const struct mw_decoder *decoder)
{
    return !decoder->slice.index;
}

/* One of `count` slices of a whole; what cannot be sliced so is not for the caller to slice: NULL,
 * or why, in words of a model's configuration. */
const char *mw_decoder_slice(const struct mw_decoder *whole, int64_t count, int64_t index,
                             struct mw_decoder *out);
struct mw_decoder mw_decoder_whole(const struct mw_decoder *slice);

/* Rows of the vocabulary that a slice has, and the number of the first one. */
int64_t mw_decoder_first_token(const struct mw_decoder *decoder);
int64_t mw_decoder_tokens(const struct mw_decoder *decoder);

static inline bool
mw_decoder_is_spread(const struct mw_decoder *decoder)
{
    return decoder->spread.count > 1;
}

/* Experts whose parameters it has. */
static inline int64_t
mw_decoder_experts_here(const struct mw_decoder *decoder)
{
    return mw_decoder_is_spread(decoder) ? decoder->experts / decoder->spread.count
                                         : decoder->experts;
}

/* Rows of a rank's tokens that experts give results for: one for each expert that a token visits,
 * or as many as all experts take. */
static inline int64_t
mw_decoder_result_rows(const struct mw_decoder *decoder, int64_t tokens)
{
    return decoder->rows_of_expert ? decoder->experts * decoder->rows_of_expert
                                   : decoder->experts_per_token * tokens;
}

/* Rows that a rank's experts have room for: those, or where experts are spread as many as can come,
 * if all tokens of all ranks that share them visit those of this one. */
static inline int64_t
mw_decoder_expert_rows(const struct mw_decoder *decoder, int64_t tokens)
{
    int64_t here = mw_decoder_experts_here(decoder), visits = decoder->experts_per_token;

    if (!mw_decoder_is_spread(decoder) || decoder->rows_of_expert)
        return mw_decoder_result_rows(decoder, tokens);
    return decoder->spread.count * (visits < here ? visits : here) * tokens;
}

/* Limits of these numbers. */
#define MW_DECODER_EPSILON_MAX 1.0
#define MW_DECODER_THETA_MAX 1e12
#define MW_DECODER_STRETCH_MIN 1e-3 /* least factor of a frequency; the factor of all is 1 */
#define MW_DECODER_STRETCH_MAX 1e6
#define MW_DECODER_POSITIONS_MAX (INT64_C(1) << 40)
#define MW_DECODER_ALPHA_MAX 1e6
#define MW_DECODER_ALPHA_MIN 1e-3
#define MW_DECODER_EXPERTS_MAX 1024
#define MW_DECODER_LOSS_MAX 1e6 /* a coefficient */

#endif
