/*
 * operators.h - the operators of a decoder, one row each, in forward order.
 *
 * A row says what an operator computes, as matrix products and as passes over activations.  It also
 * says which parameters it has, what it keeps for its backward and what its outputs are.  The row
 * is the source of parameter counts, FLOPs, bytes and launches (model/), of fetch units and their
 * rows (planner/), of rates (sim/), and of the tensors of checkpoints (exec/data).  Only the code
 * that runs an operator is its own: one entry of exec/operators/operators.c.
 *
 * A row counts in widths: elements per token of an activation, or rows and columns of a matrix.
 * The model decides the widths and features: struct mw_operator_dims.
 */
#ifndef MW_PLAN_OPERATORS_H
#define MW_PLAN_OPERATORS_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/decoder.h"

enum mw_operator {
    MW_OPERATOR_NONE,
    MW_OPERATOR_EMBEDDING,
    MW_OPERATOR_NORM1,
    MW_OPERATOR_QKV_LORA,
    MW_OPERATOR_QKV,
    MW_OPERATOR_ATTENTION,
    MW_OPERATOR_PROJECTION_LORA,
    MW_OPERATOR_PROJECTION,
    MW_OPERATOR_NORM2,
    MW_OPERATOR_MLP_UP_LORA,
    MW_OPERATOR_MLP_UP,     /* with the gate, if the model has one, and with a mixture's router */
    MW_OPERATOR_EXPERTS_UP, /* of experts that are spread over ranks; else MLP_UP has them */
    MW_OPERATOR_MLP_ACT,
    MW_OPERATOR_EXPERTS_DOWN,
    MW_OPERATOR_MLP_DOWN_LORA,
    MW_OPERATOR_MLP_DOWN,
    MW_OPERATOR_FINAL_NORM,
    MW_OPERATOR_LOGITS,
    MW_OPERATOR_LOSS,
    MW_OPERATOR_COUNT
};

enum mw_operator_place { MW_PLACE_NOWHERE, MW_PLACE_HEAD, MW_PLACE_BLOCK, MW_PLACE_TAIL };

/* Elements per token, rows or columns.  Tensor slicing divides some of them. */
enum mw_width {
    MW_WIDTH_NONE,
    MW_WIDTH_ONE,
    MW_WIDTH_HIDDEN,
    MW_WIDTH_HEAD,    /* one head of q or k */
    MW_WIDTH_HEADS,   /* number of heads of q */
    MW_WIDTH_QUERIES, /* all heads of q */
    MW_WIDTH_KEYS,
    MW_WIDTH_VALUES,
    MW_WIDTH_ATTENDED,     /* output of attention */
    MW_WIDTH_SCORES,       /* scores of a token with all others, for all heads */
    MW_WIDTH_FFN,          /* width of the dense MLP, or of all shared experts */
    MW_WIDTH_EXPERT,       /* width of one expert's MLP */
    MW_WIDTH_EXPERTS,      /* number of experts */
    MW_WIDTH_EXPERTS_HERE, /* of them those whose parameters a rank has */
    MW_WIDTH_INNER,        /* width of the MLP's activation: shared experts, and those that a token
                        * visits */
    MW_WIDTH_UP,           /* the same before the activation; twice as wide with a gate */
    MW_WIDTH_GROUPS,       /* of experts, among which a first gate chooses; 0: there is none */
    MW_WIDTH_GATED,        /* scores of a token: of all experts, or of all groups and of the experts
                            * in those that it visits */
    MW_WIDTH_COPIES,       /* one hidden state per token for each expert that it visits */
    MW_WIDTH_SENT,         /* the same for each group of experts, where these have gates */
    MW_WIDTH_VOCAB,
    MW_WIDTH_LOGITS,    /* what the last product puts out: the vocabulary, or classes */
    MW_WIDTH_POSITIONS, /* rows of the learned position table */
    MW_WIDTH_EMBEDDING, /* hidden, unless the embedding is narrower */
    /* Latent attention. */
    MW_WIDTH_QUERY_LATENT,
    MW_WIDTH_KEY_LATENT,
    MW_WIDTH_KEY_LATENT_ROTARY, /* with the part of k that carries positions */
    MW_WIDTH_QUERY_INPUT,       /* input of q: its latent, or the hidden state */
    MW_WIDTH_KEYS_VALUES,       /* k without positions, and v */
    MW_WIDTH_RANK,              /* of adapters */
    MW_WIDTH_RANK_COPIES,       /* one rank per token for each expert that it visits */
    MW_WIDTH_COUNT
};

/* Features that a model, its settings or the machine may have, as bits 1 << enum mw_feature. */
typedef uint64_t mw_features;
enum mw_feature {
    MW_FEATURE_VOCAB, /* without it the model is a bare stack of blocks */
    MW_FEATURE_ROTARY,
    MW_FEATURE_POSITIONS, /* learned positions */
    MW_FEATURE_NORM_BIAS,
    MW_FEATURE_ATTENTION_BIAS,
    MW_FEATURE_PROJECTION_BIAS,
    MW_FEATURE_MLP_BIAS,
    MW_FEATURE_LOGITS_BIAS,
    MW_FEATURE_ROUTER_BIAS,
    MW_FEATURE_GATE,
    MW_FEATURE_TWO_BRANCHES,    /* attention and MLP one after the other, each with a norm */
    MW_FEATURE_MLP_KEEPS_INPUT, /* without it, QKV keeps the input for both */
    MW_FEATURE_OUTPUT_NORMS,    /* each branch has a norm at its end too */
    MW_FEATURE_QK_NORM,
    MW_FEATURE_FINAL_NORM,
    MW_FEATURE_EMBEDDING_NORM,
    MW_FEATURE_EMBEDDING_PROJECTION, /* between the embedding's width and the hidden size */
    MW_FEATURE_UNTIED,               /* logits have a matrix of their own */
    MW_FEATURE_DROPOUT,
    MW_FEATURE_EXPERTS,         /* a mixture: each rank has all experts, */
    MW_FEATURE_EXPERTS_WITHIN,  /* which belong to the MLP's operators, */
    MW_FEATURE_EXPERTS_SPREAD,  /* or some, which have operators of their own: */
    MW_FEATURE_EXPERTS_SEVERAL, /* more than one */
    /* What the mixture's gate (plan/gates.h) adds to its router: */
    MW_FEATURE_ROUTER_NOISE,     /* of a size that a second matrix says, and its loss of load */
    MW_FEATURE_ROUTER_SUMS,      /* a loss of the sums of each expert's weights over the tokens */
    MW_FEATURE_ROUTER_FP32,      /* inputs and product of 32 bits */
    MW_FEATURE_ROUTER_DRAWS,     /* one for each token */
    MW_FEATURE_ROUTER_BY_EXPERT, /* scores are sorted over the tokens */
    MW_FEATURE_ROUTER_Z,         /* a loss of large scores */
    MW_FEATURE_ROUTER_LEVELS,    /* a gate for groups of experts, and one in each group */
    MW_FEATURE_PLAIN_ATTENTION,
    MW_FEATURE_LATENT_ATTENTION,
    MW_FEATURE_QUERY_LATENT,
    MW_FEATURE_FLASH_ATTENTION,
    MW_FEATURE_STORED_SCORES, /* without flash attention: */
    MW_FEATURE_KEPT_SCORES,   /* kept for backward, or */
    MW_FEATURE_SCORES_AGAIN,  /* formed again by it */
    MW_FEATURE_NARROW,        /* elements of fewer than 32 bits */
    MW_FEATURE_CAST_PRODUCTS, /* with operands narrower than those elements */
    MW_FEATURE_LOGITS,        /* else the model ends with its last norm */
    MW_FEATURE_NORM_WEIGHTS,
    MW_FEATURE_DENSE_MLP, /* a dense MLP, or shared experts */
    /* Checkpoints have q, k and v in tensors of their own, and gate and up: so do adapters. */
    MW_FEATURE_QKV_APART,
    MW_FEATURE_QKV_FUSED,
    MW_FEATURE_GATE_APART,
    MW_FEATURE_UP_APART,
    MW_FEATURE_GATE_FUSED,
    /* Adapters of these matrices are not left out (mw_trained.bare). */
    MW_FEATURE_ADAPTS_Q,
    MW_FEATURE_ADAPTS_K,
    MW_FEATURE_ADAPTS_V,
    MW_FEATURE_ADAPTS_GATE,
    MW_FEATURE_ADAPTS_UP,
};
#define MW_HAS(feature) (UINT64_C(1) << MW_FEATURE_##feature)

/* Matrices of an operator that has several: each may have an adapter or none. */
enum mw_target {
    MW_TARGET_Q,
    MW_TARGET_K,
    MW_TARGET_V,
    MW_TARGET_GATE,
    MW_TARGET_UP,
    MW_TARGET_COUNT
};

/* What of a model is trained.  LoRA (arXiv 2106.09685, Sec. 4.1): the product W x of a frozen
 * matrix W [out, in] becomes W x + (alpha / rank) B A x, and A [rank, in] and B [out, rank] are
 * trained. */
struct mw_trained {
    uint32_t frozen;  /* operators whose own parameters nobody trains: bits 1 << enum mw_operator;
                       * tied logits are as the embedding is */
    uint32_t adapted; /* operators whose matrices have adapters: frozen ones */
    int64_t rank;     /* of the adapters; 0: there are none */
    uint32_t bare;    /* matrices of adapted operators that have none: bits 1 << enum mw_target */
};

struct mw_operator_dims {
    int64_t width[MW_WIDTH_COUNT];
    mw_features features;
    uint32_t adapted;
};

/* Size of the element that a token puts into a slot. */
enum mw_element {
    MW_ELEMENT_ACTIVATION, /* the run's type */
    MW_ELEMENT_BYTE,       /* one byte of a mask */
    MW_ELEMENT_FP32,
    MW_ELEMENT_INT64,
};

enum mw_weight_start {
    MW_WEIGHT_NORMAL,   /* N(0, 0.02) */
    MW_WEIGHT_RESIDUAL, /* N(0, 0.02 / sqrt(2 * layers)), for weights that add to the residual
                         * stream */
    MW_WEIGHT_UNIFORM,  /* between -1 / sqrt(columns) and 1 / sqrt(columns): A of an adapter */
    MW_WEIGHT_ONE,
    MW_WEIGHT_ZERO,
};

enum mw_parameter_kind {
    MW_PARAMETER_END,     /* end of a row's list */
    MW_PARAMETER_MATRIX,  /* [rows, columns]: multiplied by the tokens */
    MW_PARAMETER_MORE,    /* a matrix whose rows follow those of the one before, in one product */
    MW_PARAMETER_TWIN,    /* a matrix of as many rows as the one before, in one product; tiles have
                            the same rows of both */
    MW_PARAMETER_EXPERTS, /* one matrix per expert; a token meets some of them */
    MW_PARAMETER_EXPERTS_TWIN, /* TWIN of EXPERTS */
    MW_PARAMETER_TABLE,        /* [rows, columns], looked up: no product */
    MW_PARAMETER_MORE_TABLE,   /* its rows follow those of the one before */
    MW_PARAMETER_BIAS,         /* an element per row of a matrix */
    MW_PARAMETER_MORE_BIAS,    /* bias of MORE */
    MW_PARAMETER_EXPERTS_BIAS,
    MW_PARAMETER_VECTOR, /* weights of a norm, which are never cut */
};

/* In the order of the operator's vector (exec/data/weights.h). */
struct mw_operator_parameter {
    enum mw_parameter_kind kind;
    enum mw_width rows, columns; /* only matrices and tables have columns */
    mw_features when;            /* the operator has it only with all these features */
    mw_features owned;           /* it is this operator's only with all these features; else another
                                  * operator has it */
    enum mw_weight_role role;    /* MW_WEIGHT_NONE: the executor has no such operator; of an
                                  * adapter, that of the matrix that it adapts */
    enum mw_weight_start start;
};

/* How often device memory is read or written outside the operands of products, in units of tokens *
 * width elements. */
struct mw_operator_pass {
    enum mw_width width; /* MW_WIDTH_NONE: the end of a row's list */
    uint8_t forward, backward;
    uint8_t kept;     /* kept for backward */
    uint8_t launches; /* kernels in forward, besides the products */
    /* `backward` and `kept` serve the gradients of the operator's own weights; they do not count
     * where these are frozen. */
    bool of_weights;
    bool weights_too; /* what is kept serves these gradients as well as that of the input, */
    bool norms;       /* and so does the gradient of as many elements: the result of a norm */
    enum mw_element element;
    mw_features when;
};

#define MW_OPERATOR_OUTPUTS_MAX 3

/* Of a token, where slices have parts of the vocabulary: the largest logit, the sum of exponentials
 * and the target's logit, in fp32 (Megatron-LM, core/tensor_parallel/cross_entropy.py). */
#define MW_LOSS_SUM_BYTES 12

struct mw_operator_row {
    const char *name;
    enum mw_operator_place place;
    mw_features when;         /* the model has the operator only with all these features */
    enum mw_operator adapts;  /* the next operator, whose matrices this one's parameters adapt */
    enum mw_operator part_of; /* the operator with whose parameters its own are trained or frozen,
                               * and by whose name; NONE: its own */
    bool starts_unit;         /* a fetch unit begins with it, unless its adapters have begun one */
    bool in_token_chunks;     /* runs over the tokens in chunks if the plan has them */
    bool attends;             /* relates every token to those before it: products and rate of
                           * attention */
    bool norms;               /* a norm of hidden states: tensor slices have all its weights */
    bool streams;             /* its bytes move at the memory's rate, not at that of small passes */
    /* With tensor slicing, an all-reduce follows: of hidden states, or of what the loss needs of
     * each token (MW_LOSS_SUM_BYTES). */
    bool sums_forward, sums_backward;
    bool takes_tokens, returns_tokens; /* of other ranks too: in forward an all-to-all comes before
                                         * it, or follows; in backward of its gradients follows, or
                                         * comes before */
    const struct mw_operator_parameter *parameters; /* NULL if there are none */
    const struct mw_operator_pass *passes;
    enum mw_width output[MW_OPERATOR_OUTPUTS_MAX]; /* widths side by side */
    enum mw_element output_element;
};

const struct mw_operator_row *mw_operator_row(int operator_); /* NULL out of range */
const char *mw_operator_name(int operator_);

/* Sets of operators as plans and records have them stored, by numbers that never change; bits that
 * are of no operator stay so. */
uint32_t mw_operators_stored(uint32_t operators);
uint32_t mw_operators_of_stored(uint32_t stored);

/* Whether it has parameters that are trained or frozen by its own name: adapters, and experts that
 * are spread, have those of other operators. */
bool mw_operator_names_params(int operator_);

/* Whether its products are with a layer's weights: those that software computes in fp8, as
 * Transformer Engine and torchao do. */
bool mw_operator_takes_fp8(int operator_);

static inline bool
mw_dims_have(const struct mw_operator_dims *dims, mw_features features)
{
    return (dims->features & features) == features;
}

/* False for adapters of operators that have none. */
static inline bool
mw_dims_adapt(const struct mw_operator_dims *dims, const struct mw_operator_row *row)
{
    return !row->adapts || dims->adapted >> row->adapts & 1;
}

const char *mw_target_name(int target);          /* "q"; NULL out of range */
enum mw_operator mw_target_operator(int target); /* NONE out of range */
uint32_t mw_targets_of(int operator_);           /* as bits 1 << enum mw_target */
mw_features mw_targets_features(uint32_t bare);  /* MW_FEATURE_ADAPTS_... of all others */
/* Whether `bare` leaves each of the operators `adapted` some matrix, and names no others'. */
bool mw_targets_suit(uint32_t adapted, uint32_t bare);

/* Whether files have the rows of two roles in one tensor; `tensors` may be NULL. */
bool mw_tensors_share(const struct mw_family_tensors *tensors, enum mw_weight_role a,
                      enum mw_weight_role b);

/* Dimensions of a decoder that the executor runs, as widths of whole tensors. */
struct mw_operator_dims mw_decoder_dims(const struct mw_decoder *decoder);

#endif
