/* The table of operators. */
#include "plan/operators.h"

#include <stddef.h>
#include <string.h>

#define ALWAYS .when = 0
#define MATRIX(kind_, rows_, columns_, role_, ...)                                                 \
    {                                                                                              \
        .kind = MW_PARAMETER_##kind_, .rows = MW_WIDTH_##rows_, .columns = MW_WIDTH_##columns_,    \
        .role = MW_WEIGHT_##role_, __VA_ARGS__                                                     \
    }
#define BIAS(kind_, rows_, role_, ...)                                                             \
    {                                                                                              \
        .kind = MW_PARAMETER_##kind_, .rows = MW_WIDTH_##rows_, .role = MW_WEIGHT_##role_,         \
        .start = MW_WEIGHT_ZERO, .when = __VA_ARGS__                                               \
    }
#define NORM(rows_, role_, bias_role_, when_)                                                      \
    {.kind = MW_PARAMETER_VECTOR,                                                                  \
     .rows = MW_WIDTH_##rows_,                                                                     \
     .role = MW_WEIGHT_##role_,                                                                    \
     .start = MW_WEIGHT_ONE,                                                                       \
     .when = (when_) | MW_HAS(NORM_WEIGHTS)},                                                      \
    {                                                                                              \
        .kind = MW_PARAMETER_VECTOR, .rows = MW_WIDTH_##rows_, .role = MW_WEIGHT_##bias_role_,     \
        .start = MW_WEIGHT_ZERO, .when = (when_) | MW_HAS(NORM_BIAS)                               \
    }
#define PASS(width_, ...)                                                                          \
    {                                                                                              \
        .width = MW_WIDTH_##width_, __VA_ARGS__                                                    \
    }
#define END                                                                                        \
    {                                                                                              \
        0                                                                                          \
    }

/* A norm reads x and writes y; its backward reads x and dy and writes dx. */
#define NORM_PASS(width_, when_)                                                                   \
    PASS(width_, .forward = 2, .backward = 3, .kept = 1, .norms = true, .launches = 1,             \
         .when = when_)

/* The end of a branch: bias (each slice has all of it), dropout with a mask of one byte per
 * element, residual addition. */
#define RESIDUAL_PASSES(bias)                                                                      \
    PASS(HIDDEN, .forward = 3, .launches = 1),                                                     \
        PASS(HIDDEN, .backward = 1, .of_weights = true, .when = MW_HAS(bias)),                     \
        PASS(HIDDEN, .backward = 2, .when = MW_HAS(DROPOUT)),                                      \
        PASS(HIDDEN, .forward = 1, .backward = 1, .kept = 1, .element = MW_ELEMENT_BYTE,           \
             .when = MW_HAS(DROPOUT))

/* --- before the layers ----------------------------------------------------------------------- */

static const struct mw_operator_parameter embedding_parameters[] = {
    MATRIX(TABLE, VOCAB, EMBEDDING, TOKENS, ALWAYS),
    MATRIX(MORE_TABLE, POSITIONS, HIDDEN, POSITIONS, .when = MW_HAS(POSITIONS)),
    MATRIX(MATRIX, HIDDEN, EMBEDDING, NONE, .when = MW_HAS(EMBEDDING_PROJECTION)),
    NORM(HIDDEN, NONE, NONE, MW_HAS(EMBEDDING_NORM)),
    END,
};

/* Rows are gathered (read and written), positions are added (read), and norm and dropout have
 * passes of their own.  Backward adds each row's gradient into the table's gradient: two reads and
 * a write.  torch keeps token numbers as int64. */
static const struct mw_operator_pass embedding_passes[] = {
    PASS(EMBEDDING, .forward = 2, .backward = 3, .launches = 1),
    PASS(HIDDEN, .forward = 1, .backward = 3, .launches = 1, .when = MW_HAS(POSITIONS)),
    NORM_PASS(HIDDEN, MW_HAS(EMBEDDING_NORM)),
    PASS(HIDDEN, .forward = 2, .backward = 2, .launches = 1, .when = MW_HAS(DROPOUT)),
    PASS(HIDDEN, .forward = 1, .backward = 1, .kept = 1, .element = MW_ELEMENT_BYTE,
         .when = MW_HAS(DROPOUT)),
    PASS(ONE, .kept = 1, .element = MW_ELEMENT_INT64),
    PASS(EMBEDDING, .kept = 1, .when = MW_HAS(EMBEDDING_PROJECTION)),
    END,
};

/* --- a layer --------------------------------------------------------------------------------- */

static const struct mw_operator_parameter norm1_parameters[] = {
    NORM(HIDDEN, NORM1, NORM1_BIAS, 0),
    NORM(HIDDEN, NONE, NONE, MW_HAS(TWO_BRANCHES) | MW_HAS(OUTPUT_NORMS)),
    END,
};

/* Backward also adds the gradient of the residual connection: two reads and a write. */
static const struct mw_operator_pass norm_passes[] = {
    NORM_PASS(HIDDEN, 0),
    NORM_PASS(HIDDEN, MW_HAS(TWO_BRANCHES) | MW_HAS(OUTPUT_NORMS)),
    PASS(HIDDEN, .backward = 3),
    END,
};

/* Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, Sec. 2.1): q and kv pass through
 * normed latents that every slice holds; the products out of them are sliced by heads. */
static const struct mw_operator_parameter qkv_parameters[] = {
    MATRIX(MATRIX, QUERIES, HIDDEN, Q, .when = MW_HAS(PLAIN_ATTENTION)),
    MATRIX(MORE, KEYS, HIDDEN, K, .when = MW_HAS(PLAIN_ATTENTION)),
    MATRIX(MORE, VALUES, HIDDEN, V, .when = MW_HAS(PLAIN_ATTENTION)),
    BIAS(BIAS, QUERIES, Q_BIAS, MW_HAS(PLAIN_ATTENTION) | MW_HAS(ATTENTION_BIAS)),
    BIAS(MORE_BIAS, KEYS, K_BIAS, MW_HAS(PLAIN_ATTENTION) | MW_HAS(ATTENTION_BIAS)),
    BIAS(MORE_BIAS, VALUES, V_BIAS, MW_HAS(PLAIN_ATTENTION) | MW_HAS(ATTENTION_BIAS)),
    NORM(HEAD, Q_NORM, NONE, MW_HAS(PLAIN_ATTENTION) | MW_HAS(QK_NORM)),
    NORM(HEAD, K_NORM, NONE, MW_HAS(PLAIN_ATTENTION) | MW_HAS(QK_NORM)),
    MATRIX(MATRIX, QUERIES, QUERY_INPUT, NONE, .when = MW_HAS(LATENT_ATTENTION)),
    MATRIX(MATRIX, QUERY_LATENT, HIDDEN, NONE, .when = MW_HAS(QUERY_LATENT)),
    MATRIX(MATRIX, KEY_LATENT_ROTARY, HIDDEN, NONE, .when = MW_HAS(LATENT_ATTENTION)),
    MATRIX(MATRIX, KEYS_VALUES, KEY_LATENT, NONE, .when = MW_HAS(LATENT_ATTENTION)),
    MATRIX(VECTOR, QUERY_LATENT, NONE, NONE, .when = MW_HAS(QUERY_LATENT)),
    MATRIX(VECTOR, KEY_LATENT, NONE, NONE, .when = MW_HAS(LATENT_ATTENTION)),
    END,
};

/* Rotary positions and the norms of q and k each read and write q and k once.  With latents: their
 * norms, and q and k put together from their parts with and without positions. */
static const struct mw_operator_pass qkv_passes[] = {
    PASS(HIDDEN, .kept = 1, .of_weights = true),
    PASS(QUERIES, .forward = 2, .backward = 2, .launches = 1,
         .when = MW_HAS(PLAIN_ATTENTION) | MW_HAS(ROTARY)),
    PASS(KEYS, .forward = 2, .backward = 2, .when = MW_HAS(PLAIN_ATTENTION) | MW_HAS(ROTARY)),
    NORM_PASS(QUERIES, MW_HAS(PLAIN_ATTENTION) | MW_HAS(QK_NORM)),
    NORM_PASS(KEYS, MW_HAS(PLAIN_ATTENTION) | MW_HAS(QK_NORM)),
    PASS(QUERIES, .backward = 1, .of_weights = true,
         .when = MW_HAS(PLAIN_ATTENTION) | MW_HAS(ATTENTION_BIAS)),
    PASS(KEYS, .backward = 1, .of_weights = true,
         .when = MW_HAS(PLAIN_ATTENTION) | MW_HAS(ATTENTION_BIAS)),
    PASS(VALUES, .backward = 1, .of_weights = true,
         .when = MW_HAS(PLAIN_ATTENTION) | MW_HAS(ATTENTION_BIAS)),
    NORM_PASS(QUERY_LATENT, MW_HAS(QUERY_LATENT)),
    PASS(QUERY_LATENT, .kept = 1, .of_weights = true, .when = MW_HAS(QUERY_LATENT)),
    NORM_PASS(KEY_LATENT, MW_HAS(LATENT_ATTENTION)),
    PASS(KEY_LATENT, .kept = 1, .of_weights = true, .when = MW_HAS(LATENT_ATTENTION)),
    PASS(QUERIES, .forward = 4, .backward = 4, .launches = 3, .when = MW_HAS(LATENT_ATTENTION)),
    END,
};

/*
 * Flash: q, k, v and the result pass once; backward reads them with the result's gradient and
 * writes three gradients.  Kept beside q, k, v: the logarithm of each row's sum, fp32.
 *
 * Stored scores, one element per head and pair of tokens.  Forward, per score: the product writes
 * one, the fused softmax reads and writes, the product with v reads; dropout reads, writes, and
 * writes a mask of a byte.  Backward: the gradient of the scores is written and the scores read,
 * softmax reads both and writes, two products read; dropout reads with its mask, and writes.  Kept:
 * softmax's result; with dropout its mask and result.  Recomputed selectively (Korthikanti et al.,
 * arXiv 2205.05198, Sec. 5) none of these is kept, and backward begins with all of forward.
 */
static const struct mw_operator_pass attention_passes[] = {
    PASS(QUERIES, .kept = 1),
    PASS(KEYS, .kept = 1),
    PASS(VALUES, .kept = 1),
    PASS(QUERIES, .forward = 1, .backward = 2, .when = MW_HAS(FLASH_ATTENTION)),
    PASS(KEYS, .forward = 1, .backward = 2, .when = MW_HAS(FLASH_ATTENTION)),
    PASS(VALUES, .forward = 1, .backward = 2, .when = MW_HAS(FLASH_ATTENTION)),
    PASS(ATTENDED, .forward = 1, .backward = 2, .launches = 1, .when = MW_HAS(FLASH_ATTENTION)),
    PASS(HEADS, .forward = 1, .backward = 1, .kept = 1, .element = MW_ELEMENT_FP32,
         .when = MW_HAS(FLASH_ATTENTION)),
    PASS(SCORES, .forward = 4, .backward = 7, .launches = 3, .when = MW_HAS(STORED_SCORES)),
    PASS(SCORES, .forward = 2, .backward = 2, .launches = 1,
         .when = MW_HAS(STORED_SCORES) | MW_HAS(DROPOUT)),
    PASS(SCORES, .forward = 1, .backward = 1, .element = MW_ELEMENT_BYTE,
         .when = MW_HAS(STORED_SCORES) | MW_HAS(DROPOUT)),
    PASS(SCORES, .kept = 1, .when = MW_HAS(KEPT_SCORES)),
    PASS(SCORES, .kept = 1, .when = MW_HAS(KEPT_SCORES) | MW_HAS(DROPOUT)),
    PASS(SCORES, .kept = 1, .element = MW_ELEMENT_BYTE,
         .when = MW_HAS(KEPT_SCORES) | MW_HAS(DROPOUT)),
    PASS(SCORES, .backward = 4, .when = MW_HAS(SCORES_AGAIN)),
    PASS(SCORES, .backward = 2, .when = MW_HAS(SCORES_AGAIN) | MW_HAS(DROPOUT)),
    PASS(SCORES, .backward = 1, .element = MW_ELEMENT_BYTE,
         .when = MW_HAS(SCORES_AGAIN) | MW_HAS(DROPOUT)),
    END,
};

static const struct mw_operator_parameter projection_parameters[] = {
    MATRIX(MATRIX, HIDDEN, ATTENDED, PROJECTION, .start = MW_WEIGHT_RESIDUAL),
    BIAS(BIAS, HIDDEN, PROJECTION_BIAS, MW_HAS(PROJECTION_BIAS)),
    END,
};

/* The backward of flash attention also reads its result, which is kept once for both operators,
 * unless the product takes another type. */
static const struct mw_operator_pass projection_passes[] = {
    PASS(ATTENDED, .kept = 1, .weights_too = true, .when = MW_HAS(FLASH_ATTENTION)),
    PASS(ATTENDED, .kept = 1, .of_weights = true,
         .when = MW_HAS(FLASH_ATTENTION) | MW_HAS(CAST_PRODUCTS)),
    PASS(ATTENDED, .kept = 1, .of_weights = true, .when = MW_HAS(STORED_SCORES)),
    RESIDUAL_PASSES(PROJECTION_BIAS),
    END,
};

static const struct mw_operator_parameter norm2_parameters[] = {
    NORM(HIDDEN, NORM2, NORM2_BIAS, 0),
    NORM(HIDDEN, NONE, NONE, MW_HAS(OUTPUT_NORMS)),
    END,
};

/* The first product sets the rate of all.  With experts it is the product of one expert; of spread
 * ones that of shared experts, if there are any. */
static const struct mw_operator_parameter mlp_up_parameters[] = {
    MATRIX(EXPERTS, EXPERT, HIDDEN, EXPERT_GATE, .when = MW_HAS(EXPERTS_WITHIN) | MW_HAS(GATE)),
    MATRIX(EXPERTS_TWIN, EXPERT, HIDDEN, EXPERT_UP, .when = MW_HAS(EXPERTS_WITHIN)),
    MATRIX(MATRIX, EXPERTS, HIDDEN, ROUTER, .when = MW_HAS(EXPERTS_WITHIN)),
    MATRIX(MATRIX, EXPERTS, HIDDEN, NONE, .when = MW_HAS(EXPERTS_WITHIN) | MW_HAS(ROUTER_NOISE)),
    MATRIX(MATRIX, FFN, HIDDEN, GATE, .when = MW_HAS(GATE)),
    MATRIX(TWIN, FFN, HIDDEN, UP, ALWAYS),
    MATRIX(MATRIX, EXPERTS, HIDDEN, ROUTER, .when = MW_HAS(EXPERTS_SPREAD)),
    MATRIX(MATRIX, EXPERTS, HIDDEN, NONE, .when = MW_HAS(EXPERTS_SPREAD) | MW_HAS(ROUTER_NOISE)),
    MATRIX(MATRIX, GROUPS, HIDDEN, NONE, .when = MW_HAS(ROUTER_LEVELS)),
    MATRIX(MATRIX, GROUPS, HIDDEN, NONE, .when = MW_HAS(ROUTER_LEVELS) | MW_HAS(ROUTER_NOISE)),
    BIAS(EXPERTS_BIAS, EXPERT, NONE, MW_HAS(EXPERTS_WITHIN) | MW_HAS(MLP_BIAS) | MW_HAS(GATE)),
    BIAS(EXPERTS_BIAS, EXPERT, NONE, MW_HAS(EXPERTS_WITHIN) | MW_HAS(MLP_BIAS)),
    BIAS(BIAS, EXPERTS, NONE, MW_HAS(EXPERTS) | MW_HAS(ROUTER_BIAS)),
    BIAS(BIAS, FFN, GATE_BIAS, MW_HAS(MLP_BIAS) | MW_HAS(GATE)),
    BIAS(BIAS, FFN, UP_BIAS, MW_HAS(MLP_BIAS)),
    END,
};

/* The router has an fp32 softmax (read and write), which the gradient of its input also needs, and
 * a copy that sorts tokens by expert.
 *
 * Noise (Shazeer et al., arXiv 1701.06538, Eq. 4), forward: softplus reads the second product and
 * writes; normal draws are written; their sum reads the first product, softplus and draws, and
 * writes: 7 fp32 passes.  Backward: the gradient of softplus reads the scores' gradient and the
 * draws, and writes; that of the second product reads this and the product, and writes: 6.  Kept:
 * the second product, the draws.  The loss of load (Eq. 8 to 11), forward: probabilities read the
 * first product, softplus and scores, and are written, their sum over the tokens reads them: 5.
 * Backward reads the first product, softplus and draws and writes two gradients, each added to
 * another (two reads and a write): 11.  Kept: the first product, softplus.
 *
 * A sum over the tokens, of importance (Eq. 6), or of probabilities (Switch, arXiv 2101.03961,
 * Eq. 6; GShard, arXiv 2006.16668, Algorithm 1), reads them; its gradient is added to theirs, read
 * and written.
 *
 * In fp32 (Switch, Sec. 2.4) the input is cast, forward: read and written, and its gradient
 * backward; the gradient of the weights takes the cast one.
 *
 * A draw for each token is written and read, beside the second expert's weight (GShard,
 * Algorithm 1).
 *
 * Experts that choose (Zhou et al., arXiv 2202.09368, Sec. 3.2) read the probabilities for a top-k
 * over the tokens.
 *
 * The loss of large scores (ST-MoE, arXiv 2202.08906, Eq. 5) is of the logarithm of the sum that
 * the softmax divides by, of each token: written and kept, read for the loss and backward.
 *
 * With groups of experts (Shazeer et al., Appendix B) the copy is sorted by group, and read and
 * written once more, for each expert in it. */
static const struct mw_operator_pass mlp_up_passes[] = {
    PASS(HIDDEN, .kept = 1, .of_weights = true, .when = MW_HAS(MLP_KEEPS_INPUT)),
    PASS(UP, .backward = 1, .of_weights = true, .when = MW_HAS(MLP_BIAS)),
    PASS(HIDDEN, .forward = 1, .backward = 1, .when = MW_HAS(EXPERTS)),
    PASS(SENT, .forward = 1, .backward = 1, .launches = 1, .when = MW_HAS(EXPERTS)),
    PASS(SENT, .forward = 1, .backward = 1, .when = MW_HAS(EXPERTS_WITHIN) | MW_HAS(ROUTER_LEVELS)),
    PASS(COPIES, .forward = 1, .backward = 1, .launches = 1,
         .when = MW_HAS(EXPERTS_WITHIN) | MW_HAS(ROUTER_LEVELS)),
    PASS(COPIES, .kept = 1, .of_weights = true, .when = MW_HAS(EXPERTS)),
    PASS(GATED, .forward = 2, .backward = 2, .kept = 1, .launches = 1, .element = MW_ELEMENT_FP32,
         .when = MW_HAS(EXPERTS)),
    PASS(GATED, .forward = 7, .backward = 6, .kept = 2, .launches = 3, .element = MW_ELEMENT_FP32,
         .when = MW_HAS(ROUTER_NOISE)),
    PASS(GATED, .forward = 5, .backward = 11, .kept = 2, .launches = 2, .element = MW_ELEMENT_FP32,
         .when = MW_HAS(ROUTER_NOISE)),
    PASS(GATED, .forward = 1, .backward = 2, .launches = 1, .element = MW_ELEMENT_FP32,
         .when = MW_HAS(ROUTER_SUMS)),
    PASS(HIDDEN, .forward = 1, .backward = 1, .launches = 1,
         .when = MW_HAS(ROUTER_FP32) | MW_HAS(NARROW)),
    PASS(HIDDEN, .forward = 1, .backward = 1, .element = MW_ELEMENT_FP32,
         .when = MW_HAS(ROUTER_FP32) | MW_HAS(NARROW)),
    PASS(HIDDEN, .kept = 1, .of_weights = true, .element = MW_ELEMENT_FP32,
         .when = MW_HAS(ROUTER_FP32) | MW_HAS(NARROW)),
    PASS(ONE, .forward = 3, .launches = 2, .element = MW_ELEMENT_FP32,
         .when = MW_HAS(ROUTER_DRAWS)),
    PASS(GATED, .forward = 1, .launches = 1, .element = MW_ELEMENT_FP32,
         .when = MW_HAS(ROUTER_BY_EXPERT)),
    PASS(ONE, .forward = 2, .backward = 1, .kept = 1, .launches = 1, .element = MW_ELEMENT_FP32,
         .when = MW_HAS(ROUTER_Z)),
    END,
};

/* Experts that are spread over ranks: those that a rank has compute for the tokens of all ranks of
 * its group (GShard, arXiv 2006.16668, Sec. 3.1).  With several of them, what comes from each rank
 * is sorted by expert before, and sorted back behind them (Megatron-LM,
 * core/transformer/moe/token_dispatcher.py, sort_chunks_by_idxs).  What comes for a group of them
 * is copied for each expert in it that a token visits, and their results are weighted and summed up
 * before they go back: backward needs them for the gradient of these weights. */
static const struct mw_operator_parameter experts_up_parameters[] = {
    MATRIX(EXPERTS, EXPERT, HIDDEN, EXPERT_GATE, .when = MW_HAS(EXPERTS_SPREAD) | MW_HAS(GATE)),
    MATRIX(EXPERTS_TWIN, EXPERT, HIDDEN, EXPERT_UP, .when = MW_HAS(EXPERTS_SPREAD)),
    BIAS(EXPERTS_BIAS, EXPERT, NONE, MW_HAS(EXPERTS_SPREAD) | MW_HAS(MLP_BIAS) | MW_HAS(GATE)),
    BIAS(EXPERTS_BIAS, EXPERT, NONE, MW_HAS(EXPERTS_SPREAD) | MW_HAS(MLP_BIAS)),
    END,
};

static const struct mw_operator_parameter experts_down_parameters[] = {
    MATRIX(EXPERTS, HIDDEN, EXPERT, EXPERT_DOWN, .start = MW_WEIGHT_RESIDUAL,
           .when = MW_HAS(EXPERTS_SPREAD)),
    END,
};

static const struct mw_operator_pass experts_up_passes[] = {
    PASS(SENT, .forward = 1, .backward = 1, .when = MW_HAS(EXPERTS_SEVERAL)),
    PASS(COPIES, .forward = 1, .backward = 1, .launches = 1, .when = MW_HAS(EXPERTS_SEVERAL)),
    END,
};

static const struct mw_operator_pass experts_down_passes[] = {
    PASS(COPIES, .forward = 1, .backward = 1, .launches = 1, .when = MW_HAS(EXPERTS_SEVERAL)),
    PASS(SENT, .forward = 1, .backward = 1, .when = MW_HAS(EXPERTS_SEVERAL)),
    PASS(COPIES, .backward = 1, .kept = 1, .when = MW_HAS(EXPERTS_SPREAD) | MW_HAS(ROUTER_LEVELS)),
    END,
};

/* Forward reads the output of the products (gate and up) and writes one result.  Backward reads
 * both and the gradient of the result, and writes the gradients of both. */
static const struct mw_operator_pass mlp_act_passes[] = {
    PASS(UP, .forward = 1, .backward = 2, .kept = 1),
    PASS(INNER, .forward = 1, .backward = 1, .launches = 1),
    END,
};

static const struct mw_operator_parameter mlp_down_parameters[] = {
    MATRIX(EXPERTS, HIDDEN, EXPERT, EXPERT_DOWN, .start = MW_WEIGHT_RESIDUAL,
           .when = MW_HAS(EXPERTS_WITHIN)),
    MATRIX(MATRIX, HIDDEN, FFN, DOWN, .start = MW_WEIGHT_RESIDUAL),
    BIAS(BIAS, HIDDEN, DOWN_BIAS, MW_HAS(MLP_BIAS)),
    END,
};

/* The experts' results are weighted and summed, with groups first in each of them.  Backward needs
 * them for the gradient of these weights, which come from the router. */
static const struct mw_operator_pass mlp_down_passes[] = {
    PASS(INNER, .kept = 1, .of_weights = true),
    PASS(COPIES, .forward = 1, .backward = 2, .kept = 1, .launches = 1,
         .when = MW_HAS(EXPERTS_WITHIN) | MW_HAS(ROUTER_LEVELS)),
    PASS(SENT, .forward = 1, .backward = 1, .when = MW_HAS(EXPERTS_WITHIN) | MW_HAS(ROUTER_LEVELS)),
    PASS(SENT, .forward = 1, .backward = 2, .kept = 1, .launches = 1, .when = MW_HAS(EXPERTS)),
    PASS(HIDDEN, .forward = 1, .backward = 1, .when = MW_HAS(EXPERTS)),
    RESIDUAL_PASSES(MLP_BIAS),
    END,
};

/* --- adapters -------------------------------------------------------------------------------- */

/*
 * Adapters come before the product that they adapt, which adds itself to their result: so this
 * result needs no room, and what follows the product finds the sum.  The A's of one input are one
 * product.  Kept are A's result, `rank` elements per token, and the input of the adapted product.
 *
 * Passes: B's product adds to its output, which is read once more; so does the gradient of the
 * input.
 */
#define ADAPTER_IN(kind_, columns_, role_, ...)                                                    \
    MATRIX(kind_, RANK, columns_, role_, .start = MW_WEIGHT_UNIFORM, .when = __VA_ARGS__)
#define ADAPTER_OUT(kind_, rows_, role_, ...)                                                      \
    MATRIX(kind_, rows_, RANK, role_, .start = MW_WEIGHT_ZERO, .when = __VA_ARGS__)
#define ADDS(width_, ...) PASS(width_, .forward = 1, .when = __VA_ARGS__)
#define KEEPS(width_, ...) PASS(width_, .kept = 1, .when = __VA_ARGS__)

/* A matrix with an A of its own; of the gate a dense MLP's. */
#define K_APART MW_HAS(PLAIN_ATTENTION) | MW_HAS(QKV_APART) | MW_HAS(ADAPTS_K)
#define V_APART MW_HAS(PLAIN_ATTENTION) | MW_HAS(QKV_APART) | MW_HAS(ADAPTS_V)
#define GATE_APART MW_HAS(DENSE_MLP) | MW_HAS(GATE_APART) | MW_HAS(ADAPTS_GATE)
#define EXPERTS_GATE MW_HAS(EXPERTS) | MW_HAS(GATE) | MW_HAS(ADAPTS_GATE)

static const struct mw_operator_parameter qkv_lora_parameters[] = {
    ADAPTER_IN(MATRIX, HIDDEN, Q, MW_HAS(PLAIN_ATTENTION) | MW_HAS(ADAPTS_Q)),
    ADAPTER_IN(MORE, HIDDEN, K, K_APART),
    ADAPTER_IN(MORE, HIDDEN, V, V_APART),
    ADAPTER_OUT(MATRIX, QUERIES, Q, MW_HAS(PLAIN_ATTENTION) | MW_HAS(ADAPTS_Q)),
    ADAPTER_OUT(MORE, KEYS, K, MW_HAS(PLAIN_ATTENTION) | MW_HAS(QKV_FUSED)),
    ADAPTER_OUT(MORE, VALUES, V, MW_HAS(PLAIN_ATTENTION) | MW_HAS(QKV_FUSED)),
    ADAPTER_OUT(MATRIX, KEYS, K, K_APART),
    ADAPTER_OUT(MATRIX, VALUES, V, V_APART),
    ADAPTER_IN(MATRIX, QUERY_INPUT, NONE, MW_HAS(LATENT_ATTENTION)),
    ADAPTER_IN(MATRIX, HIDDEN, NONE, MW_HAS(LATENT_ATTENTION)),
    ADAPTER_IN(MORE, HIDDEN, NONE, MW_HAS(QUERY_LATENT)),
    ADAPTER_IN(MATRIX, KEY_LATENT, NONE, MW_HAS(LATENT_ATTENTION)),
    ADAPTER_OUT(MATRIX, QUERIES, NONE, MW_HAS(LATENT_ATTENTION)),
    ADAPTER_OUT(MATRIX, QUERY_LATENT, NONE, MW_HAS(QUERY_LATENT)),
    ADAPTER_OUT(MATRIX, KEY_LATENT_ROTARY, NONE, MW_HAS(LATENT_ATTENTION)),
    ADAPTER_OUT(MATRIX, KEYS_VALUES, NONE, MW_HAS(LATENT_ATTENTION)),
    END,
};

static const struct mw_operator_pass qkv_lora_passes[] = {
    KEEPS(HIDDEN, 0),
    PASS(HIDDEN, .backward = 1),
    KEEPS(RANK, MW_HAS(ADAPTS_Q)),
    KEEPS(RANK, K_APART),
    KEEPS(RANK, V_APART),
    ADDS(QUERIES, MW_HAS(ADAPTS_Q)),
    ADDS(KEYS, MW_HAS(PLAIN_ATTENTION) | MW_HAS(ADAPTS_K)),
    ADDS(VALUES, MW_HAS(PLAIN_ATTENTION) | MW_HAS(ADAPTS_V)),
    KEEPS(QUERY_LATENT, MW_HAS(QUERY_LATENT)),
    KEEPS(KEY_LATENT, MW_HAS(LATENT_ATTENTION)),
    KEEPS(RANK, MW_HAS(QUERY_LATENT)),
    KEEPS(RANK, MW_HAS(LATENT_ATTENTION)),
    KEEPS(RANK, MW_HAS(LATENT_ATTENTION)),
    ADDS(QUERY_LATENT, MW_HAS(QUERY_LATENT)),
    ADDS(KEY_LATENT_ROTARY, MW_HAS(LATENT_ATTENTION)),
    ADDS(KEYS_VALUES, MW_HAS(LATENT_ATTENTION)),
    END,
};

static const struct mw_operator_parameter projection_lora_parameters[] = {
    ADAPTER_IN(MATRIX, ATTENDED, PROJECTION, 0),
    ADAPTER_OUT(MATRIX, HIDDEN, PROJECTION, 0),
    END,
};

/* The backward of flash attention has kept the input. */
static const struct mw_operator_pass projection_lora_passes[] = {
    KEEPS(ATTENDED, MW_HAS(STORED_SCORES)),
    PASS(ATTENDED, .backward = 1),
    KEEPS(RANK, 0),
    ADDS(HIDDEN, 0),
    END,
};

static const struct mw_operator_parameter mlp_up_lora_parameters[] = {
    ADAPTER_IN(EXPERTS, HIDDEN, NONE, EXPERTS_GATE),
    ADAPTER_IN(EXPERTS_TWIN, HIDDEN, NONE, MW_HAS(EXPERTS) | MW_HAS(ADAPTS_UP)),
    ADAPTER_OUT(EXPERTS, EXPERT, NONE, EXPERTS_GATE),
    ADAPTER_OUT(EXPERTS, EXPERT, NONE, MW_HAS(EXPERTS) | MW_HAS(ADAPTS_UP)),
    ADAPTER_IN(MATRIX, HIDDEN, GATE, GATE_APART),
    ADAPTER_IN(MORE, HIDDEN, UP, MW_HAS(DENSE_MLP) | MW_HAS(ADAPTS_UP)),
    ADAPTER_OUT(MATRIX, FFN, GATE, GATE_APART),
    ADAPTER_OUT(MATRIX, FFN, GATE, MW_HAS(DENSE_MLP) | MW_HAS(GATE_FUSED)),
    ADAPTER_OUT(MORE, FFN, UP, MW_HAS(DENSE_MLP) | MW_HAS(GATE_FUSED)),
    ADAPTER_OUT(MATRIX, FFN, UP, MW_HAS(DENSE_MLP) | MW_HAS(UP_APART) | MW_HAS(ADAPTS_UP)),
    END,
};

static const struct mw_operator_pass mlp_up_lora_passes[] = {
    KEEPS(HIDDEN, MW_HAS(MLP_KEEPS_INPUT)),
    PASS(HIDDEN, .backward = 1),
    KEEPS(RANK, MW_HAS(DENSE_MLP) | MW_HAS(ADAPTS_UP)),
    KEEPS(RANK, GATE_APART),
    ADDS(INNER, MW_HAS(ADAPTS_UP)),
    ADDS(INNER, MW_HAS(GATE) | MW_HAS(ADAPTS_GATE)),
    KEEPS(COPIES, MW_HAS(EXPERTS)),
    KEEPS(RANK_COPIES, MW_HAS(EXPERTS) | MW_HAS(ADAPTS_UP)),
    KEEPS(RANK_COPIES, EXPERTS_GATE),
    END,
};

static const struct mw_operator_parameter mlp_down_lora_parameters[] = {
    ADAPTER_IN(EXPERTS, EXPERT, NONE, MW_HAS(EXPERTS)),
    ADAPTER_OUT(EXPERTS, HIDDEN, NONE, MW_HAS(EXPERTS)),
    ADAPTER_IN(MATRIX, FFN, DOWN, MW_HAS(DENSE_MLP)),
    ADAPTER_OUT(MATRIX, HIDDEN, DOWN, MW_HAS(DENSE_MLP)),
    END,
};

static const struct mw_operator_pass mlp_down_lora_passes[] = {
    KEEPS(INNER, 0),
    PASS(INNER, .backward = 1),
    KEEPS(RANK, MW_HAS(DENSE_MLP)),
    ADDS(HIDDEN, MW_HAS(DENSE_MLP)),
    KEEPS(RANK_COPIES, MW_HAS(EXPERTS)),
    ADDS(COPIES, MW_HAS(EXPERTS)),
    END,
};

/* --- after the layers ------------------------------------------------------------------------ */

static const struct mw_operator_parameter final_norm_parameters[] = {
    NORM(HIDDEN, FINAL_NORM, FINAL_NORM_BIAS, 0),
    END,
};

static const struct mw_operator_pass final_norm_passes[] = {
    NORM_PASS(HIDDEN, 0),
    END,
};

static const struct mw_operator_parameter logits_parameters[] = {
    MATRIX(MATRIX, LOGITS, EMBEDDING, LOGITS, .owned = MW_HAS(UNTIED)),
    BIAS(BIAS, LOGITS, NONE, MW_HAS(LOGITS_BIAS)),
    MATRIX(MATRIX, EMBEDDING, HIDDEN, NONE, .when = MW_HAS(EMBEDDING_PROJECTION)),
    END,
};

static const struct mw_operator_pass logits_passes[] = {
    PASS(EMBEDDING, .kept = 1, .of_weights = true),
    PASS(HIDDEN, .kept = 1, .of_weights = true, .when = MW_HAS(EMBEDDING_PROJECTION)),
    PASS(LOGITS, .backward = 1, .of_weights = true, .when = MW_HAS(LOGITS_BIAS)),
    END,
};

/* Cross entropy on fp32 logits.  Forward: the cast of narrower logits reads them and writes fp32;
 * the logarithm of softmax reads and writes fp32.  Backward: reads and writes fp32, and casts back.
 * Kept: the logarithms. */
static const struct mw_operator_pass loss_passes[] = {
    PASS(LOGITS, .forward = 2, .backward = 2, .kept = 1, .launches = 3, .element = MW_ELEMENT_FP32),
    PASS(LOGITS, .forward = 1, .backward = 1, .element = MW_ELEMENT_FP32, .when = MW_HAS(NARROW)),
    PASS(LOGITS, .forward = 1, .backward = 1, .when = MW_HAS(NARROW)),
    END,
};

/* --- the rows -------------------------------------------------------------------------------- */

static const struct mw_operator_row rows[MW_OPERATOR_COUNT] = {
    [MW_OPERATOR_NONE] = {.name = "none"},
    [MW_OPERATOR_EMBEDDING] = {.name = "embedding",
                               .place = MW_PLACE_HEAD,
                               .when = MW_HAS(VOCAB),
                               .starts_unit = true,
                               .sums_forward = true,
                               .parameters = embedding_parameters,
                               .passes = embedding_passes,
                               .output = {MW_WIDTH_HIDDEN}},
    [MW_OPERATOR_NORM1] = {.name = "norm1",
                           .place = MW_PLACE_BLOCK,
                           .starts_unit = true,
                           .norms = true,
                           .parameters = norm1_parameters,
                           .passes = norm_passes,
                           .output = {MW_WIDTH_HIDDEN}},
    [MW_OPERATOR_QKV_LORA] = {.name = "qkv-lora",
                              .place = MW_PLACE_BLOCK,
                              .adapts = MW_OPERATOR_QKV,
                              .parameters = qkv_lora_parameters,
                              .passes = qkv_lora_passes,
                              .output = {MW_WIDTH_RANK}},
    [MW_OPERATOR_QKV] = {.name = "qkv",
                         .place = MW_PLACE_BLOCK,
                         .sums_backward = true,
                         .parameters = qkv_parameters,
                         .passes = qkv_passes,
                         .output = {MW_WIDTH_QUERIES, MW_WIDTH_KEYS, MW_WIDTH_VALUES}},
    [MW_OPERATOR_ATTENTION] = {.name = "attention",
                               .place = MW_PLACE_BLOCK,
                               .attends = true,
                               .streams = true,
                               .passes = attention_passes,
                               .output = {MW_WIDTH_ATTENDED}},
    [MW_OPERATOR_PROJECTION_LORA] = {.name = "projection-lora",
                                     .place = MW_PLACE_BLOCK,
                                     .adapts = MW_OPERATOR_PROJECTION,
                                     .starts_unit = true,
                                     .parameters = projection_lora_parameters,
                                     .passes = projection_lora_passes,
                                     .output = {MW_WIDTH_RANK}},
    [MW_OPERATOR_PROJECTION] = {.name = "projection",
                                .place = MW_PLACE_BLOCK,
                                .starts_unit = true,
                                .sums_forward = true,
                                .parameters = projection_parameters,
                                .passes = projection_passes,
                                .output = {MW_WIDTH_HIDDEN}},
    [MW_OPERATOR_NORM2] = {.name = "norm2",
                           .place = MW_PLACE_BLOCK,
                           .when = MW_HAS(TWO_BRANCHES),
                           .starts_unit = true,
                           .norms = true,
                           .parameters = norm2_parameters,
                           .passes = norm_passes,
                           .output = {MW_WIDTH_HIDDEN}},
    [MW_OPERATOR_MLP_UP_LORA] = {.name = "mlp-up-lora",
                                 .place = MW_PLACE_BLOCK,
                                 .adapts = MW_OPERATOR_MLP_UP,
                                 .parameters = mlp_up_lora_parameters,
                                 .passes = mlp_up_lora_passes,
                                 .output = {MW_WIDTH_RANK}},
    [MW_OPERATOR_MLP_UP] = {.name = "mlp-up",
                            .place = MW_PLACE_BLOCK,
                            .sums_backward = true,
                            .parameters = mlp_up_parameters,
                            .passes = mlp_up_passes,
                            .output = {MW_WIDTH_UP}},
    [MW_OPERATOR_EXPERTS_UP] = {.name = "experts-up",
                                .place = MW_PLACE_BLOCK,
                                .when = MW_HAS(EXPERTS_SPREAD),
                                .part_of = MW_OPERATOR_MLP_UP,
                                .starts_unit = true,
                                .takes_tokens = true,
                                .parameters = experts_up_parameters,
                                .passes = experts_up_passes,
                                .output = {MW_WIDTH_UP}},
    [MW_OPERATOR_EXPERTS_DOWN] = {.name = "experts-down",
                                  .place = MW_PLACE_BLOCK,
                                  .when = MW_HAS(EXPERTS_SPREAD),
                                  .part_of = MW_OPERATOR_MLP_DOWN,
                                  .starts_unit = true,
                                  .returns_tokens = true,
                                  .parameters = experts_down_parameters,
                                  .passes = experts_down_passes,
                                  .output = {MW_WIDTH_COPIES}},
    [MW_OPERATOR_MLP_ACT] = {.name = "mlp-act",
                             .place = MW_PLACE_BLOCK,
                             .passes = mlp_act_passes,
                             .output = {MW_WIDTH_INNER}},
    [MW_OPERATOR_MLP_DOWN_LORA] = {.name = "mlp-down-lora",
                                   .place = MW_PLACE_BLOCK,
                                   .adapts = MW_OPERATOR_MLP_DOWN,
                                   .starts_unit = true,
                                   .parameters = mlp_down_lora_parameters,
                                   .passes = mlp_down_lora_passes,
                                   .output = {MW_WIDTH_RANK}},
    [MW_OPERATOR_MLP_DOWN] = {.name = "mlp-down",
                              .place = MW_PLACE_BLOCK,
                              .starts_unit = true,
                              .sums_forward = true,
                              .parameters = mlp_down_parameters,
                              .passes = mlp_down_passes,
                              .output = {MW_WIDTH_HIDDEN}},
    [MW_OPERATOR_FINAL_NORM] = {.name = "final-norm",
                                .place = MW_PLACE_TAIL,
                                .when = MW_HAS(VOCAB) | MW_HAS(FINAL_NORM),
                                .starts_unit = true,
                                .norms = true,
                                .parameters = final_norm_parameters,
                                .passes = final_norm_passes,
                                .output = {MW_WIDTH_HIDDEN}},
    [MW_OPERATOR_LOGITS] = {.name = "logits",
                            .place = MW_PLACE_TAIL,
                            .when = MW_HAS(VOCAB) | MW_HAS(LOGITS),
                            .in_token_chunks = true,
                            .sums_backward = true,
                            .parameters = logits_parameters,
                            .passes = logits_passes,
                            .output = {MW_WIDTH_LOGITS}},
    [MW_OPERATOR_LOSS] = {.name = "loss",
                          .place = MW_PLACE_TAIL,
                          .when = MW_HAS(VOCAB) | MW_HAS(LOGITS),
                          .in_token_chunks = true,
                          .streams = true,
                          .sums_forward = true,
                          .passes = loss_passes,
                          .output = {MW_WIDTH_ONE},
                          .output_element = MW_ELEMENT_FP32},
};

const struct mw_operator_row *
mw_operator_row(int operator_)
{
    return operator_ >= 0 && operator_ < MW_OPERATOR_COUNT ? &rows[operator_] : NULL;
}

bool
mw_operator_names_params(int operator_)
{
    const struct mw_operator_row *row = mw_operator_row(operator_);

    return row->parameters && !row->adapts && !row->part_of;
}

bool
mw_operator_takes_fp8(int operator_)
{
    const struct mw_operator_row *row = mw_operator_row(operator_);

    return row->place == MW_PLACE_BLOCK && row->parameters && !row->attends;
}

const char *
mw_operator_name(int operator_)
{
    const struct mw_operator_row *row = mw_operator_row(operator_);

    return row ? row->name : NULL;
}

/* Those that came later have the numbers behind all others. */
static uint32_t
stored_number(uint32_t operator_)
{
    if (operator_ == MW_OPERATOR_EXPERTS_UP)
        return MW_OPERATOR_COUNT - 2;
    if (operator_ == MW_OPERATOR_EXPERTS_DOWN)
        return MW_OPERATOR_COUNT - 1;
    if (operator_ >= MW_OPERATOR_COUNT)
        return operator_;
    return operator_ - (operator_ > MW_OPERATOR_EXPERTS_UP) -
           (operator_ > MW_OPERATOR_EXPERTS_DOWN);
}

uint32_t
mw_operators_stored(uint32_t operators)
{
    uint32_t stored = 0;

    for (uint32_t i = 0; i < 32; i++)
        stored |= (operators >> i & 1) << stored_number(i);
    return stored;
}

uint32_t
mw_operators_of_stored(uint32_t stored)
{
    uint32_t operators = 0;

    for (uint32_t i = 0; i < 32; i++)
        operators |= (stored >> stored_number(i) & 1) << i;
    return operators;
}

/* --- targets of adapters ---------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum mw_operator operator_;
    enum mw_feature adapts;
} targets[MW_TARGET_COUNT] = {
    [MW_TARGET_Q] = {"q", MW_OPERATOR_QKV, MW_FEATURE_ADAPTS_Q},
    [MW_TARGET_K] = {"k", MW_OPERATOR_QKV, MW_FEATURE_ADAPTS_K},
    [MW_TARGET_V] = {"v", MW_OPERATOR_QKV, MW_FEATURE_ADAPTS_V},
    [MW_TARGET_GATE] = {"gate", MW_OPERATOR_MLP_UP, MW_FEATURE_ADAPTS_GATE},
    [MW_TARGET_UP] = {"up", MW_OPERATOR_MLP_UP, MW_FEATURE_ADAPTS_UP},
};

const char *
mw_target_name(int target)
{
    return target >= 0 && target < MW_TARGET_COUNT ? targets[target].name : NULL;
}

enum mw_operator
mw_target_operator(int target)
{
    return target >= 0 && target < MW_TARGET_COUNT ? targets[target].operator_ : MW_OPERATOR_NONE;
}

uint32_t
mw_targets_of(int operator_)
{
    uint32_t of = 0;

    for (int t = 0; t < MW_TARGET_COUNT; t++)
        of |= (int)targets[t].operator_ == operator_ ? UINT32_C(1) << t : 0;
    return of;
}

mw_features
mw_targets_features(uint32_t bare)
{
    mw_features features = 0;

    for (int t = 0; t < MW_TARGET_COUNT; t++)
        features |= bare >> t & 1 ? 0 : UINT64_C(1) << targets[t].adapts;
    return features;
}

bool
mw_targets_suit(uint32_t adapted, uint32_t bare)
{
    uint32_t may = 0;

    for (int i = 0; i < MW_OPERATOR_COUNT; i++) {
        uint32_t of = adapted >> i & 1 ? mw_targets_of(i) : 0;
        if (of && (bare & of) == of)
            return false;
        may |= of;
    }
    return !(bare & ~may);
}

bool
mw_tensors_share(const struct mw_family_tensors *tensors, enum mw_weight_role a,
                 enum mw_weight_role b)
{
    return tensors && tensors->of[a] && tensors->of[b] && !strcmp(tensors->of[a], tensors->of[b]);
}

/* --- a decoder's dimensions ------------------------------------------------------------------ */

static mw_features
features_if(bool has, mw_features features)
{
    return has ? features : 0;
}

struct mw_operator_dims
mw_decoder_dims(const struct mw_decoder *decoder)
{
    const struct mw_family_tensors *tensors = decoder->family ? decoder->family->run.tensors : NULL;
    bool gpt2 = decoder->kind == MW_DECODER_GPT2;
    bool fused_qkv = mw_tensors_share(tensors, MW_WEIGHT_Q, MW_WEIGHT_V);
    bool fused_gate = !gpt2 && mw_tensors_share(tensors, MW_WEIGHT_GATE, MW_WEIGHT_UP);
    int64_t queries = decoder->heads * decoder->head_dim;
    int64_t keys = decoder->kv_heads * decoder->head_dim;
    bool mixture = decoder->experts > 0, spread = mixture && mw_decoder_is_spread(decoder);
    int64_t here = mw_decoder_experts_here(decoder);
    int64_t inner = mixture ? decoder->experts_per_token * decoder->ffn : decoder->ffn;

    return (struct mw_operator_dims){
        .width =
            {
                [MW_WIDTH_ONE] = 1,
                [MW_WIDTH_HIDDEN] = decoder->hidden,
                [MW_WIDTH_HEAD] = decoder->head_dim,
                [MW_WIDTH_HEADS] = decoder->heads,
                [MW_WIDTH_QUERIES] = queries,
                [MW_WIDTH_KEYS] = keys,
                [MW_WIDTH_VALUES] = keys,
                [MW_WIDTH_ATTENDED] = queries,
                [MW_WIDTH_FFN] = mixture ? 0 : decoder->ffn,
                [MW_WIDTH_EXPERT] = mixture ? decoder->ffn : 0,
                [MW_WIDTH_EXPERTS] = decoder->experts,
                [MW_WIDTH_EXPERTS_HERE] = here,
                [MW_WIDTH_INNER] = inner,
                [MW_WIDTH_UP] = gpt2 ? inner : 2 * inner,
                [MW_WIDTH_GATED] = decoder->experts,
                [MW_WIDTH_COPIES] = decoder->experts_per_token * decoder->hidden,
                [MW_WIDTH_SENT] = decoder->experts_per_token * decoder->hidden,
                [MW_WIDTH_VOCAB] = decoder->vocab,
                [MW_WIDTH_LOGITS] = decoder->vocab,
                [MW_WIDTH_POSITIONS] = decoder->position_rows,
                [MW_WIDTH_EMBEDDING] = decoder->hidden,
                [MW_WIDTH_RANK] = decoder->lora_rank,
            },
        .adapted = decoder->lora_adapted,
        .features = MW_HAS(VOCAB) | MW_HAS(PLAIN_ATTENTION) | MW_HAS(TWO_BRANCHES) |
                    MW_HAS(MLP_KEEPS_INPUT) | MW_HAS(FINAL_NORM) | MW_HAS(LOGITS) |
                    MW_HAS(NORM_WEIGHTS) | (mixture ? MW_HAS(EXPERTS) : MW_HAS(DENSE_MLP)) |
                    features_if(mixture && !spread, MW_HAS(EXPERTS_WITHIN)) |
                    features_if(spread, MW_HAS(EXPERTS_SPREAD)) |
                    features_if(spread && here > 1, MW_HAS(EXPERTS_SEVERAL)) |
                    (fused_qkv ? MW_HAS(QKV_FUSED) : MW_HAS(QKV_APART)) |
                    (fused_gate ? MW_HAS(GATE_FUSED) : MW_HAS(UP_APART)) |
                    features_if(!gpt2 && !fused_gate, MW_HAS(GATE_APART)) |
                    mw_targets_features(decoder->lora_bare) |
                    features_if(gpt2, MW_HAS(POSITIONS) | MW_HAS(NORM_BIAS)) |
                    features_if(!gpt2, MW_HAS(ROTARY) | MW_HAS(GATE)) |
                    features_if(gpt2 || decoder->attention_bias, MW_HAS(ATTENTION_BIAS)) |
                    features_if(decoder->qk_norm, MW_HAS(QK_NORM)) |
                    features_if(gpt2 || decoder->projection_bias, MW_HAS(PROJECTION_BIAS)) |
                    features_if(gpt2 || decoder->mlp_bias, MW_HAS(MLP_BIAS)) |
                    features_if(!decoder->tied_embedding, MW_HAS(UNTIED)),
    };
}
