/*
 * model.h - a decoder's dimensions, and the walk over its operators.
 *
 * families/families.c has the families that are supported.
 *
 * Shapes: tokens t = sequences * seq, hidden h, heads a, head_dim d, kv_heads g, ffn f, vocab V.
 * Nothing here knows hardware or parallelism beyond tensor slicing, which divides an operator's
 * parameters and FLOPs by `tp`.
 */
#ifndef MW_MODEL_MODEL_H
#define MW_MODEL_MODEL_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "families/family.h"
#include "plan/decoder.h"
#include "plan/encodings.h"
#include "plan/gates.h"
#include "plan/plan.h"

/* A count that is a line in the tokens s of a sequence: (slope·s + constant) / divisor, rounded
 * down.  divisor 0: there is none. */
struct mw_model_line {
    int64_t slope, divisor, constant;
};

/* A tensor that dimensions and flags do not say, or `count` of one shape, of which a token meets
 * `met`.  `stack`: of a stack's layers, by number, or one of the constants. */
enum { MW_STACKS_MAX = 64, MW_STACK_ENDS, MW_STACK_BLOCKS, MW_STACK_EXPERTS, MW_STACK_DENSE };
#define MW_TENSORS_MAX 512
/* Layers of a model with unlike ones. */
#define MW_TURNS_MAX 512
struct mw_model_tensor {
    int64_t rows, columns; /* columns 0: a vector */
    int32_t count, met;
    uint8_t stack, operator_;
    bool bias;  /* an element for each row */
    bool table; /* no product */
    /* Of a described model: rows that all of its products have for a sequence, and elements, which
     * are 0 where it is another operator's tensor. */
    struct mw_model_line line;
    int64_t elements;
};

/* Layers that are made of such tensors alone. */
struct mw_model_stack {
    int64_t layers, distinct; /* distinct: those with parameters of their own */
    int64_t hidden;
    int64_t tokens;                    /* of a sequence; 0: as many as it has */
    struct mw_model_line line;         /* the same of a described model */
    int64_t heads, kv_heads, head_dim; /* heads 0: no attention */
    int64_t attentions, window;
    bool causal;
};

/* Of a described model: products of activations with each other, for a sequence.  Attention has
 * [m, k] by [k, n], then [m, n] by [n, value_dim], for every head; a scan (value_dim 0) the first
 * of them alone. */
#define MW_MIXES_MAX 128
struct mw_model_mix {
    uint8_t stack;
    bool causal;
    int64_t heads, kv_heads, value_dim, window;
    struct mw_model_line m, n, k, count; /* count: of all heads */
};

struct mw_model {
    char name[96];
    char architecture[32]; /* the family's name: gpt2, opt, llama, mistral, qwen2, ... */
    const struct mw_family *family;
    int64_t layers;
    int64_t hidden;
    int64_t heads;
    int64_t kv_heads;
    int64_t head_dim;  /* of q and k */
    int64_t value_dim; /* of v: head_dim, save with latent attention */
    int64_t ffn;
    int64_t vocab;        /* 0: a bare stack of blocks, as in the paper's 12·nl·hd² models */
    int64_t seq;          /* longest sequence */
    int64_t mlp_matrices; /* 2: up and down; 3: gate, up and down */
    bool learned_positions;
    int64_t position_rows; /* rows of the learned position table, 0 without one */
    bool rotary;           /* rotary positions: q and k are rewritten once */
    bool tied_embedding;
    bool attention_bias;  /* on the QKV product */
    bool projection_bias; /* on the attention output */
    bool mlp_bias;
    bool norm_bias;          /* LayerNorm; else RMSNorm */
    int64_t norms_per_layer; /* 2; 4 in Gemma 2 and 3; 1 in a parallel block */
    bool final_norm;         /* after the last layer */
    bool embedding_norm;     /* after the embedding (BLOOM) */
    bool logits_bias;        /* Phi */
    bool dropout;            /* on scores and residuals: masks are saved (GPT-2, OPT) */
    bool qk_norm;            /* Qwen3, Gemma 3: an RMSNorm of head_dim on q and on k */
    bool parallel_block;     /* attention and MLP share one norm (Phi) */
    int64_t embedding_dim;   /* width of the embedding where it differs (OPT-350M), else hidden */
    int64_t experts;         /* 0: dense */
    int64_t experts_per_token;
    int64_t expert_ffn;
    int64_t shared_expert_ffn; /* 0 without one */
    int64_t dense_layers;      /* of a mixture: leading layers without experts */
    bool router_bias;          /* DeepSeek-V3: a correction per expert */
    int64_t window;        /* keys that a query of a windowed layer sees, itself included; 0: all */
    int64_t window_period; /* every so many layers the last one sees all keys; 0: none does */
    int64_t kv_lora;       /* latent attention: rank of the k and v latent; 0: plain attention */
    int64_t q_lora;        /* rank of the q latent; 0: q straight from the hidden state */
    int64_t rope_dim;      /* of head_dim: the part with positions, one for all heads of k */
    bool bare;             /* no product follows the last norm */
    int64_t classes;       /* which that product tells apart; 0: the tokens of the vocabulary */
    bool plain_norms;      /* norms have no parameters (OLMo) */
    bool capped_logits;    /* tanh caps them, cap * tanh(x / cap) (Gemma 2) */
    bool capped_scores;    /* likewise those of attention */
    /* Layers of kinds that do not take turns as window and dense_layers say.  Where each layer's
     * kind is known, and they are no more kinds than a plan has (enum mw_block_kind), turns has it,
     * for more layers again from the start: a number of a stack, or with no stacks an enum
     * mw_block_kind.  Otherwise plans have `layers` layers that are alike, each the mean of all.
     * Counts of parameters are exact in both cases. */
    bool mixed, by_turns;
    int64_t turn_count;
    uint8_t turns[MW_TURNS_MAX];
    int64_t mixed_layers[4]; /* by enum mw_block_kind; the stacks have the rest */
    int stack_count, tensor_count;
    struct mw_model_stack stacks[MW_STACKS_MAX];
    struct mw_model_tensor tensors[MW_TENSORS_MAX];
    /* Read from memwall's own description: tensors and mixes say all parameters and products. */
    bool described;
    int mix_count;
    struct mw_model_mix mixes[MW_MIXES_MAX];
    char note[1024];            /* what an answer has to say of how the file was read; may be "" */
    char stored_as[24];         /* the file's type of weights, "float32"; "": it says none */
    bool quantized;             /* the file has a quantization_config */
    int64_t quantized_bits;     /* of its weights; 0: it does not say */
    char quantized_by[32];      /* "gptq"; may be "" */
    enum mw_dtype stored_dtype; /* MW_DTYPE_NONE: none that a plan computes in */
    bool paper_preset;          /* the paper's seq 1024 default applies */
    /* Whether the executor has a decoder for it; what such a decoder has beside dimensions, or why
     * there is none, in words for the user of a run. */
    bool runs;
    struct mw_decoder constants;
    char why_not[512];
};

/* Outputs of the last product for a token; 0: there is none. */
static inline int64_t
mw_model_logits(const struct mw_model *model)
{
    return model->bare ? 0 : model->classes ? model->classes : model->vocab;
}

#define MW_OPERATOR_PRODUCTS_MAX (MW_WORK_PRODUCTS_MAX / 2)

/* An operator of one layer, or of the model's ends. */
/* Matrices of the same sides. */
struct mw_matrix {
    int64_t rows, columns, count;
};
#define MW_OPERATOR_MATRICES_MAX 8

struct mw_operator_info {
    enum mw_operator operator_;
    bool trained;          /* else its parameters have no gradients; true if it has none */
    enum mw_dtype weights; /* type of its parameters at rest; where no product takes it they are
                              * widened for each use: among the bytes and launches below */
    int64_t params;        /* per rank after tensor slicing, biases and norm weights included */
    int64_t sides;         /* of its matrices, rows and columns together; of vectors, elements: the
                             * numbers that an optimizer by rows and columns keeps of them */
    int64_t matrix_params; /* of a block's operator, those of its matrices, which are: */
    struct mw_matrix matrices[MW_OPERATOR_MATRICES_MAX];
    int matrix_count;
    int64_t forward_flops;  /* matrix products, for all tokens of a micro-batch, per rank */
    int64_t idle_flops;     /* of these, of rows that no token has */
    int64_t backward_flops; /* input and weight gradients: 2x forward, without recompute; flash
                              * attention forms the scores again: 2.5x; of frozen weights 1x */
    struct mw_work_product products[MW_OPERATOR_PRODUCTS_MAX]; /* forward, per rank */
    uint32_t product_count;
    uint32_t products_again; /* so many of the first are computed again in backward */
    struct mw_work_attention attention;
    int64_t forward_bytes; /* device memory read and written outside matrix operands; without
                              * flash attention the scores too, which products write and read */
    int64_t backward_bytes;
    int64_t weight_bytes;  /* of these, what gradients of its own weights alone need */
    int64_t saved_bytes;   /* activations that backward needs, per rank */
    int64_t kept_scores;   /* elements of softmax's result among them */
    int64_t kept_bytes;    /* the same as they are stored meanwhile, */
    int64_t coded_bytes;   /* and what storing them moves, as restoring them does */
    int64_t inputs_bytes;  /* of saved_bytes, what the gradients of its weights need, and */
    int64_t results_bytes; /* gradients of results that these need beside it */
    int64_t output_bytes;  /* its result */
    uint32_t launches;     /* kernels, forward */
};

struct mw_shape {
    int64_t sequences; /* of one micro-batch, per tensor-parallel group (>= 1) */
    int64_t seq;
    int64_t tp;
    bool sequence_parallel; /* of tp slices each has its part of the tokens, where none is sliced */
    int64_t cp;             /* ranks that share the tokens of each sequence; 0 or 1: none do */
    enum mw_context context; /* how these compute attention */
    int64_t ep; /* ranks over which each mixture's experts are spread; 0 or 1: each has all */
    bool whole_experts; /* slices share these too, each with its own tokens: none is sliced */
    /* What spread experts take has room for all tokens of these ranks to come to one; else for what
     * the rank with most has, expert_imbalance times an even share, 1 time if it is less. */
    bool all_visit_one;
    double expert_imbalance;
    enum mw_gating gate; /* of mixtures */
    double
        capacity_factor; /* of experts, for each an even share of tokens times this; 0 or less: no
                             * limit, and an even share, whatever the gate has by default */
    double router_aux_loss, router_z_loss; /* coefficients of losses of the router, 0: none */
    bool flash_attention;
    bool scores_again;   /* selective recomputation, where attention stores scores */
    enum mw_dtype dtype; /* of activations; MW_DTYPE_NONE: one of 16 bits */
    struct mw_trained trained;
    enum mw_dtype frozen_dtype; /* of frozen weights of a block's products; MW_DTYPE_NONE: dtype */
    struct mw_kept_as kept_as;
    enum mw_dtype product_dtype; /* of the operands of a block's products; MW_DTYPE_NONE: dtype */
};

/* Tokens of a rank's micro-batch. */
int64_t mw_shape_tokens(const struct mw_shape *shape);
/* Those that visit experts from it: of slices with whole experts each has its own. */
int64_t mw_shape_expert_tokens(const struct mw_shape *shape);
/* Groups of them, each of which has its own part of the experts' capacity: slices that send tokens
 * of their own have one each. */
int64_t mw_shape_expert_groups(const struct mw_shape *shape);

#define MW_LAYER_OPERATORS_MAX 12

/* The kinds of blocks that a model may have; each layer is of one of them.  Where layers are of
 * stacks that take turns, the number of a stack stands for a kind. */
enum mw_block_kind {
    MW_BLOCK_DENSE,
    MW_BLOCK_DENSE_WINDOWED,
    MW_BLOCK_EXPERTS,
    MW_BLOCK_EXPERTS_WINDOWED,
    MW_BLOCK_KIND_COUNT
};
struct mw_block_traits {
    bool experts;  /* its MLP is a mixture; that of the leading dense_layers is not */
    bool windowed; /* its attention sees the last `window` keys alone */
};
const struct mw_block_traits *mw_block_traits(enum mw_block_kind kind);
enum mw_block_kind mw_model_block_kind(const struct mw_model *model, int64_t layer);
/* How many of the layers [first, end) are of a kind. */
int64_t mw_model_count_blocks(const struct mw_model *model, enum mw_block_kind kind, int64_t first,
                              int64_t end);

/* The products of an operator's backward, of those of its forward: the gradients of both factors,
 * or of the input alone where the weights are frozen, and what is computed again.  Returns how
 * many. */
uint32_t mw_operator_backward_products(const struct mw_operator_info *info,
                                       struct mw_work_product out[MW_WORK_PRODUCTS_MAX]);

/* Of trained weights, those of the input's gradient alone, or of the weights'. */
uint32_t mw_operator_gradient_products(const struct mw_operator_info *info, bool of_weights,
                                       struct mw_work_product out[MW_WORK_PRODUCTS_MAX]);

/* Kernels of an operator's backward: two for one of its forward, but one of a product with frozen
 * weights, and one that widens them. */
uint32_t mw_operator_backward_launches(const struct mw_operator_info *info);

/* All sums and products saturate at INT64_MAX: mw_model_validate_shape says when that happens.
 *
 * The operators of a block in forward order; returns how many.  Norm weights beyond the two
 * (Gemma 2 and 3) count with NORM1 and NORM2, q and k norms and latent norms with QKV, residual
 * additions with PROJECTION and MLP_DOWN, the router with MLP_UP.  Experts: parameters of all,
 * FLOPs of those that a token visits. */
int mw_model_block(const struct mw_model *model, enum mw_block_kind kind,
                   const struct mw_shape *shape,
                   struct mw_operator_info out[MW_LAYER_OPERATORS_MAX]);
int mw_model_layer(const struct mw_model *model, int64_t layer, const struct mw_shape *shape,
                   struct mw_operator_info out[MW_LAYER_OPERATORS_MAX]);
/* The embedding (before the layers), and final norm, logits and loss (after them); none without a
 * vocabulary.  A tied embedding's parameters are counted once, with the embedding; projections
 * between embedding_dim and hidden (OPT-350M) count with EMBEDDING and LOGITS. */
int mw_model_head(const struct mw_model *model, const struct mw_shape *shape,
                  struct mw_operator_info out[MW_LAYER_OPERATORS_MAX]);
int mw_model_tail(const struct mw_model *model, const struct mw_shape *shape,
                  struct mw_operator_info out[MW_LAYER_OPERATORS_MAX]);

/* All of a model's operators, for one shape; of blocks that it does not have, none. */
struct mw_operators {
    int count;
    struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];
};
struct mw_model_walk {
    struct mw_operators head, tail, blocks[MW_BLOCK_KIND_COUNT];
};
void mw_model_walk(const struct mw_model *model, const struct mw_shape *shape,
                   struct mw_model_walk *out);
/* The tail of a pipeline's last stage, which has a copy of a tied embedding's matrix: returns the
 * copy's elements, 0 if the model says none of its own for its logits. */
int64_t mw_model_copying_tail(const struct mw_model *model, const struct mw_shape *shape,
                              struct mw_operators *out);

/* Whether all is the same but why there is no decoder for it. */
bool mw_model_is_same(const struct mw_model *one, const struct mw_model *other);

static inline bool
mw_model_has_rms_norm(const struct mw_model *model)
{
    return !model->norm_bias && !model->plain_norms;
}

static inline bool
mw_model_is_gated(const struct mw_model *model)
{
    return model->mlp_matrices == 3;
}

int64_t mw_model_params(const struct mw_model *model);        /* exact, whole model */
int64_t mw_model_active_params(const struct mw_model *model); /* per token, for mixtures */
/* The same with another gate of mixtures whose layers are known (mw_model_can_spread). */
int64_t mw_model_gate_params(const struct mw_model *model, enum mw_gating gate);
int64_t mw_model_gate_active_params(const struct mw_model *model, enum mw_gating gate);
/* What is trained of it: adapters, and own parameters. */
int64_t mw_model_trained_params(const struct mw_model *model, const struct mw_trained *trained,
                                enum mw_gating gate);
int64_t mw_model_layer_params(const struct mw_model *model, int64_t layer);
/* The paper's approximation 12·nl·hd² (ZeRO-Infinity Sec. 3, Eq. 1). */
int64_t mw_model_params_paper(const struct mw_model *model);

/* Preset name (models/presets.ini), dimensions such as "layers=96,hidden=12288,heads=96", or a path
 * to a Hugging Face config.json, to the folder that holds it, or to memwall's own description of a
 * model (docs/description.md): a path has a '/' or ends in .json. */
bool mw_model_load(const char *name_or_path, struct mw_model *model, GError **error);
bool mw_model_load_preset(const char *name, struct mw_model *model, GError **error);
bool mw_model_load_config(const char *path, struct mw_model *model, GError **error);
/* The text of a config.json, which `path` names or holds; *file is its path; both to be freed.
 * NULL with *error, *file set nevertheless. */
char *mw_model_read_config(const char *path, char **file, gsize *length, GError **error);
/* For the fuzzer and tests: the text of a config.json or of a description in memory; `origin` names
 * it in errors. */
bool mw_model_parse_config(const char *text, gssize length, const char *origin,
                           struct mw_model *model, GError **error);
#define MW_MODEL_PARAMS_MAX ((int64_t)100000000000000000) /* 10^17: 20 bytes each fit int64 */

/* The most that a member of the model can be that is a dimension, such as "layers"; 0: it is none.
 */
int64_t mw_model_dimension_max(const char *name);

/* Every dimension in range, heads divide, no overflow of int64 in params or state bytes. */
bool mw_model_validate(const struct mw_model *model, const char *origin, GError **error);
/* Whether it is a mixture each of whose layers is known with its own experts, so that these can be
 * spread over ranks. */
bool mw_model_can_spread(const struct mw_model *model);
/* Experts that a token visits: as the model has it, unless the gate says it. */
int64_t mw_model_visits(const struct mw_model *model, enum mw_gating gate);
/* Groups of experts that have gates of their own: the least divisor of their number that is not
 * below its root; 0: one gate chooses among all. */
int64_t mw_model_gate_groups(const struct mw_model *model, enum mw_gating gate);
/* Scores that a gate gives a token: of all experts, or of all groups and of the experts in those
 * that it visits. */
int64_t mw_model_gate_scores(const struct mw_model *model, enum mw_gating gate);
/* Rows of a micro-batch that all experts of a layer have together: one for each expert that a token
 * visits, or with a capacity as many as there is room for (GShard, arXiv 2006.16668, Sec. 3.1).  Of
 * them those that a token has. */
int64_t mw_model_expert_rows(const struct mw_model *model, const struct mw_shape *shape);
int64_t mw_model_filled_rows(const struct mw_model *model, const struct mw_shape *shape);
/* Of so many rows of experts those that go there and come back: with groups one for all experts of
 * a group that a token visits. */
int64_t mw_model_sent_rows(const struct mw_shape *shape, int64_t rows);
/* Of what tokens send to experts, the share that a capacity drops where they choose independently
 * of each other and all experts alike; where these are not alike it is more (docs/MODEL.md 2.17).
 * 0 where experts choose. */
double mw_model_dropped_share(const struct mw_model *model, const struct mw_shape *shape);
/* Rows that what the experts of a rank take has room for: as many, or where they are spread all
 * that can come, or what the fullest rank has (struct mw_shape, all_visit_one). */
int64_t mw_model_expert_room(const struct mw_model *model, const struct mw_shape *shape);
/* Whether it is a decoder each of whose layers is known with its attention, so that ranks can share
 * the tokens of its sequences. */
bool mw_model_can_share(const struct mw_model *model);
/* The shape suits the model (tp divides heads and MLP, seq within learned positions), and the
 * FLOPs and bytes of a step's passes over one micro-batch fit int64.  If so, *walk has its
 * operators. */
bool mw_model_walk_checked(const struct mw_model *model, const struct mw_shape *shape,
                           struct mw_model_walk *walk, GError **error);
bool mw_model_validate_shape(const struct mw_model *model, const struct mw_shape *shape,
                             GError **error);

/* The decoder that the executor runs, of the model's present dimensions; false with *error for one
 * that it does not know: which part of it, and what it knows. */
bool mw_model_decoder(const struct mw_model *model, struct mw_decoder *decoder, GError **error);

/* The text of a config.json that is read as this decoder.  g_free it. */
char *mw_model_write_config(const struct mw_decoder *decoder);

/* The text of an adapter_config.json as PEFT reads it, of a decoder with adapters.  g_free it. */
char *mw_model_write_adapter_config(const struct mw_decoder *decoder);
/* What such a file says; false with *error for adapters that cannot be trained here. */
struct mw_adapter_config {
    int64_t rank;
    bool unranked; /* the file has no r: the rank is PEFT's default */
    double written_alpha;
    double alpha;     /* adapters' results are multiplied by alpha / rank */
    bool rslora;      /* written to be multiplied by alpha / sqrt(rank) */
    double dropout;   /* of training; the adapters themselves have none */
    uint32_t adapted; /* operators, as bits; 0: the file has a pattern, or names none of them */
    uint32_t bare;    /* matrices of these that it does not name: bits 1 << enum mw_target */
};
bool mw_model_read_adapter_config(const char *path, struct mw_adapter_config *out, GError **error);
/* As {train} requests them: "lora:16@q+v".  g_free it. */
char *mw_model_adapters_text(const struct mw_trained *trained);
char *mw_model_adapter_config_text(const struct mw_adapter_config *config);
/* Whether such a file is of the decoder's adapters; if it has a pattern, the tensors say of which
 * modules. */
bool mw_model_check_adapter_config(const char *path, const struct mw_decoder *decoder,
                                   GError **error);
/* Refuses the file for a decoder without adapters, and says how these are requested. */
bool mw_model_refuse_adapter_config(const char *path, const struct mw_decoder *decoder,
                                    GError **error);

/* A sequence is within the window of the attention, which the executor does not have. */
bool mw_model_runs_seq(const struct mw_model *model, int64_t seq, GError **error);

/* The types that a config.json may have, by number from 0; NULL after the last.  *lacks: what a run
 * of it lacks; NULL: nothing. */
const char *mw_model_type(int number, const char **lacks);

char **mw_model_list(void); /* preset names, in file order; g_strfreev */

#endif
