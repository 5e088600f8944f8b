/*
 * family.h - model families: one row per model_type of a Hugging Face config.json.
 *
 * A row says what the keys of such a file mean, what the model computes where no key says
 * otherwise, whether the executor can run it, and what its checkpoints call their tensors.  model/
 * reads and writes config.json and plans by it, a plan names its row, and exec/data reads and
 * writes weights by it.  So a family is one row of families/families.c, unless it computes
 * something new.
 *
 * The table lies under the plan and includes nothing but the C library, because both model/ and
 * exec/ need it and neither may include the other.
 */
#ifndef MW_FAMILIES_FAMILY_H
#define MW_FAMILIES_FAMILY_H

#include <stdbool.h>
#include <stdint.h>

/* --- what the executor can run --------------------------------------------------------------- */

/* How a block is built.  GPT-2: LayerNorm with bias, learned positions, two MLP matrices, a bias on
 * every product.  Llama: RMSNorm, rotary positions, grouped-query attention, a gated MLP, biases as
 * flags say.  Records of runs have the numbers. */
enum mw_decoder_kind { MW_DECODER_GPT2, MW_DECODER_LLAMA, MW_DECODER_KIND_COUNT };

enum mw_decoder_activation {
    MW_ACTIVATION_GELU_TANH, /* "gelu_new", "gelu_pytorch_tanh" */
    MW_ACTIVATION_GELU_ERF,  /* "gelu" */
    MW_ACTIVATION_RELU,
    MW_ACTIVATION_SILU, /* of the gate: SwiGLU */
    MW_ACTIVATION_COUNT
};

/* --- keys of config.json --------------------------------------------------------------------- */

/* What a key means.  A key may stand in a row several times, with several meanings. */
enum mw_key_meaning {
    /* Dimensions, as struct mw_model names them. */
    MW_DIMENSION_LAYERS,
    MW_DIMENSION_HIDDEN,
    MW_DIMENSION_HEADS,
    MW_DIMENSION_KV_HEADS,
    MW_DIMENSION_HEAD_DIM,
    MW_DIMENSION_VALUE_DIM,
    MW_DIMENSION_FFN,
    MW_DIMENSION_VOCAB,
    MW_DIMENSION_SEQ,
    MW_DIMENSION_EMBEDDING_DIM,
    MW_DIMENSION_EXPERTS,
    MW_DIMENSION_EXPERTS_PER_TOKEN,
    MW_DIMENSION_EXPERT_FFN,
    MW_DIMENSION_SHARED_EXPERT_FFN,
    MW_DIMENSION_DENSE_LAYERS,
    MW_DIMENSION_Q_LORA,
    MW_DIMENSION_KV_LORA,
    MW_DIMENSION_ROPE_DIM,
    MW_DIMENSION_WINDOW,
    MW_DIMENSION_WINDOW_PERIOD,
    MW_DIMENSION_COUNT,

    /* Flags for biases and norms. */
    MW_KEY_ATTENTION_BIAS = MW_DIMENSION_COUNT, /* of q, k, v and of the projection */
    MW_KEY_MLP_BIAS,
    MW_KEY_BIAS, /* of all products */
    MW_KEY_QK_NORM,
    MW_KEY_NORM_FIRST,    /* false: no final norm */
    MW_KEY_NO_FINAL_NORM, /* true: no final norm */
    /* Rates of dropout.  If all of them are 0, no masks are saved.  A run has no dropout. */
    MW_KEY_DROPOUT,
    MW_KEY_EMBEDDING_DROPOUT, /* its mask is not counted */
    /* Experts and latents. */
    MW_KEY_DENSE_LIST,     /* the layers without experts: [0, 1, ...] */
    MW_KEY_SHARED_EXPERTS, /* how many, each as wide as the others */
    MW_KEY_UNROTATED_DIM,  /* of a head of q and k, beside rope_dim */
    MW_KEY_LAYER_TYPES, /* ["sliding_attention", "full_attention", ...], as window and period say */
    /* Keys of which the walk over the operators supports one value. */
    MW_KEY_TRUE,
    MW_KEY_FALSE,
    MW_KEY_ONE,
    /* Keys that only a run needs. */
    MW_KEY_ACTIVATION,
    MW_KEY_NORM_EPSILON,
    MW_KEY_ROPE_THETA, /* and "rope_scaling" or "rope_parameters" beside it */
    MW_KEY_RUNS_IF_TRUE,
    MW_KEY_RUNS_IF_FALSE,
    MW_KEY_RUNS_IF_ONE,
};

struct mw_family_key {
    const char *name; /* NULL: the end of the keys */
    enum mw_key_meaning meaning;
};

/* --- tensors of a checkpoint ----------------------------------------------------------------- */

/* The role of a tensor in the executor. */
enum mw_weight_role {
    MW_WEIGHT_NONE,
    MW_WEIGHT_TOKENS,
    MW_WEIGHT_POSITIONS,
    MW_WEIGHT_NORM1,
    MW_WEIGHT_NORM1_BIAS,
    MW_WEIGHT_Q,
    MW_WEIGHT_K,
    MW_WEIGHT_V,
    MW_WEIGHT_Q_BIAS,
    MW_WEIGHT_K_BIAS,
    MW_WEIGHT_V_BIAS,
    MW_WEIGHT_Q_NORM,
    MW_WEIGHT_K_NORM,
    MW_WEIGHT_PROJECTION,
    MW_WEIGHT_PROJECTION_BIAS,
    MW_WEIGHT_NORM2,
    MW_WEIGHT_NORM2_BIAS,
    MW_WEIGHT_GATE,
    MW_WEIGHT_UP,
    MW_WEIGHT_GATE_BIAS,
    MW_WEIGHT_UP_BIAS,
    MW_WEIGHT_DOWN,
    MW_WEIGHT_DOWN_BIAS,
    MW_WEIGHT_FINAL_NORM,
    MW_WEIGHT_FINAL_NORM_BIAS,
    MW_WEIGHT_LOGITS,
    MW_WEIGHT_ROLE_COUNT
};

#define MW_TENSORS_BESIDE_MAX 4

/*
 * Roles that share a name share a tensor, which holds their rows one below the other in the order
 * of the roles: a fused QKV product, or gate and up in one.
 */
struct mw_family_tensors {
    const char *base;  /* before every name but that of the logits; files of the bare decoder leave
                        * it out */
    const char *layer; /* between the base and a layer's number */
    bool transposed;   /* matrices of layers are [in, out] ("Conv1D") */
    const char *of[MW_WEIGHT_ROLE_COUNT];
    /* Ends of names of what files hold beside parameters: masks, rotary frequencies. */
    const char *beside[MW_TENSORS_BESIDE_MAX];
};

/* --- a row ----------------------------------------------------------------------------------- */

/* What a family computes if no key of its config.json says otherwise.  struct mw_model, which has
 * the same members, explains them. */
struct mw_family_traits {
    int64_t mlp_matrices, norms_per_layer;
    int64_t unused_positions; /* rows of a learned position table before the first position */
    bool derived_ffn; /* ffn is 4 * hidden where no key says it; else one has to */
    bool learned_positions, rotary, tied_embedding;
    bool attention_bias, projection_bias, mlp_bias, norm_bias, logits_bias, router_bias;
    bool final_norm, embedding_norm, qk_norm, parallel_block, dropout;
};

/* How the executor runs the family.  The constants apply if a config.json has none. */
struct mw_family_run {
    const char *class_name; /* of the config.json that is written */
    enum mw_decoder_kind kind;
    enum mw_decoder_activation activation;
    double norm_epsilon, rope_theta;
    const struct mw_family_tensors *tensors;
};

struct mw_family {
    const char *name;         /* model_type */
    const char *class_prefix; /* of the class in "architectures"; NULL: never found by it */
    const char *same;         /* the family whose row holds all the rest; NULL: this row */
    struct mw_family_traits traits;
    const struct mw_family_key *keys;
    int64_t defaults[MW_DIMENSION_COUNT]; /* of absent keys; published files rely on them */
    struct mw_family_run run;
    const char *why_not; /* what the executor lacks; NULL if it runs the family */
};

extern const struct mw_family mw_families[];
extern const int mw_family_count;

const struct mw_family *mw_family_find(const char *name); /* NULL: there is none */
/* The names of families that the executor runs, by number from 0; NULL after the last. */
const char *mw_family_runs_name(int number);

/* The name in transformers and in the files that memwall writes; NULL out of range. */
const char *mw_activation_name(int activation);

#endif
