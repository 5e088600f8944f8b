/*
 * family.h - model families: one row per model_type of a Hugging Face config.json.
 *
 * A row says what the keys of such a file mean, what the model computes where no key says
 * otherwise, whether the executor can run it, and what its checkpoints call their tensors.  model/
 * reads and writes config.json and plans by it, a plan names its row, and exec/data reads and
 * writes weights by it.  So a family is one row of families/families.c, unless it computes
 * something new.
 *
 * Two kinds of rows.  What memwall reads, writes and runs has keys with meanings.  All other rows
 * say dimensions, flags and further tensors in formulas over the keys of the file, so that a family
 * with layers of its own is a list of its tensors.
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

    /* What a family's traits say, said by a formula. */
    MW_FLAG_MLP_MATRICES = MW_DIMENSION_COUNT,
    MW_FLAG_NORMS_PER_LAYER,
    MW_FLAG_UNUSED_POSITIONS,
    MW_FLAG_LEARNED_POSITIONS,
    MW_FLAG_ROTARY,
    MW_FLAG_TIED_EMBEDDING,
    MW_FLAG_QKV_BIAS, /* of q, k and v */
    MW_FLAG_PROJECTION_BIAS,
    MW_FLAG_MLP_BIAS,
    MW_FLAG_NORM_BIAS,
    MW_FLAG_LOGITS_BIAS,
    MW_FLAG_ROUTER_BIAS,
    MW_FLAG_FINAL_NORM,
    MW_FLAG_EMBEDDING_NORM,
    MW_FLAG_QK_NORM,
    MW_FLAG_PARALLEL_BLOCK,
    MW_FLAG_DROPOUT,
    MW_FLAG_PLAIN_NORMS, /* norms have no parameters */
    MW_FLAG_END,

    /* Flags for biases and norms. */
    MW_KEY_ATTENTION_BIAS = MW_FLAG_END, /* of q, k, v and of the projection */
    MW_KEY_MLP_BIAS,
    MW_KEY_BIAS, /* of all products */
    MW_KEY_QK_NORM,
    MW_KEY_NORM_FIRST,     /* false: no final norm */
    MW_KEY_NO_FINAL_NORM,  /* true: no final norm */
    MW_KEY_WINDOW_IF_USED, /* a window, if "use_sliding_window" says so */
    /* Rates of dropout.  If all of them are 0, no masks are saved.  A run has no dropout. */
    MW_KEY_DROPOUT,
    MW_KEY_EMBEDDING_DROPOUT, /* its mask is not counted */
    MW_KEY_LAYER_TYPES, /* ["sliding_attention", "full_attention", ...], as window and period say */
    /* Keys of which the walk over the operators supports one value. */
    MW_KEY_TRUE,
    MW_KEY_FALSE,
    /* Keys that only a run needs. */
    MW_KEY_ACTIVATION,
    MW_KEY_NORM_EPSILON,
    MW_KEY_ROPE_THETA, /* and "rope_scaling" or "rope_parameters" beside it */
    MW_KEY_RUNS_IF_TRUE,
    MW_KEY_RUNS_IF_FALSE,
    MW_KEY_RUNS_IF_ONE,
    MW_KEY_RUNS_IF_ZERO,
    MW_KEY_ROUTER_RENORMALIZES,
    MW_KEY_ROUTER_LOSSES, /* true: what follows is added to the loss */
    MW_KEY_ROUTER_AUX_LOSS,
    MW_KEY_ROUTER_Z_LOSS,
};

struct mw_family_key {
    const char *name; /* NULL: the end of the keys */
    enum mw_key_meaning meaning;
};

/* As transformers' mixtures have them, which add them if "output_router_logits" says so.  The last
 * one its Switch Transformers have, and memwall's files of others. */
#define MW_ROUTER_LOSS_KEYS                                                                        \
    {"output_router_logits", MW_KEY_ROUTER_LOSSES},                                                \
        {"router_aux_loss_coef", MW_KEY_ROUTER_AUX_LOSS},                                          \
    {                                                                                              \
        "router_z_loss_coef", MW_KEY_ROUTER_Z_LOSS                                                 \
    }

/* --- formulas -------------------------------------------------------------------------------- */

/*
 * Formulas are text: numbers, 'words', names, + - * / // %, == != < <= > >=, and, or, not,
 * `condition ? this : that`, `this ?? that` where this may have no value, `one in list`,
 * list[index] (from the end below 0), object.member, len(), int(), ceil(), sqrt(), min(), max(),
 * most(list): the largest number in it,
 * up(a, b): a rounded up to a multiple of b.  A file's flags are no numbers to
 * count with.  A word is a list of letters.
 *
 * A name is a key of the file, or where the file has none, a formula of the row's `lets`; a let
 * that nothing names says that its key is known, and changes nothing.  Names of
 * their own: layer, a layer's number; task, what `architectures` asks for; type, model_type.
 */
struct mw_family_let {
    const char *name, *formula;
    bool null_counts; /* a key that is null has no value; else it is as if absent */
};

/* The operator with which a tensor is counted, and with it its place. */
enum mw_family_part {
    MW_PART_END,
    MW_PART_EMBEDDING,
    MW_PART_NORM1,
    MW_PART_QKV, /* what goes into attention, or into what stands in its place */
    MW_PART_PROJECTION,
    MW_PART_NORM2,
    MW_PART_UP,
    MW_PART_DOWN,
    MW_PART_FINAL_NORM,
    MW_PART_LOGITS,
    MW_PART_COUNT
};

enum mw_family_layers { MW_LAYERS_ALL, MW_LAYERS_OF_EXPERTS, MW_LAYERS_DENSE };

/* A tensor, or several of one shape. */
struct mw_family_tensor {
    enum mw_family_part part;
    const char *rows;
    const char *columns;      /* NULL: a vector */
    const char *bias;         /* an element for each row, if this holds; NULL: none */
    const char *when;         /* NULL: always */
    const char *count;        /* so many of it; NULL: one */
    const char *met;          /* by a token: so many of them; NULL: all */
    bool table;               /* looked up or added: no product of the tokens with it */
    enum mw_family_layers in; /* outside stacks: which layers have it */
};

/*
 * Layers that are alike.  A family's stacks follow one another (an encoder, a decoder); those
 * without a number of layers share the layers of the family: a layer is of the first stack for
 * which `when` holds.
 */
struct mw_family_stack {
    const char *name;   /* for notes */
    const char *layers; /* how many; NULL: as said */
    const char *when;   /* NULL: always */
    const char *shared; /* layers that share their parameters with the first one; NULL: none */
    const char *hidden; /* NULL: the model's */
    const char *tokens; /* of a sequence; NULL: as many as the text has */
    const char *heads;  /* of attention; NULL: a layer without */
    const char *kv_heads, *head_dim; /* NULL: heads; hidden / heads */
    const char *attentions; /* how many a layer has, cross attention among them; NULL: one */
    const char *window;     /* keys that a token sees; NULL or 0: all */
    bool bidirectional;
    const struct mw_family_tensor *tensors;
};

/* A part of the model that is configured in an object of its own. */
struct mw_family_tower {
    const char *key;    /* of the object */
    const char *family; /* if the object does not say its model_type */
    bool is_text;       /* the decoder, whose row says all that this row does not */
    const char *when;   /* NULL: always */
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
    MW_WEIGHT_ROUTER,
    MW_WEIGHT_EXPERT_GATE,
    MW_WEIGHT_EXPERT_UP,
    MW_WEIGHT_EXPERT_DOWN,
    MW_WEIGHT_FINAL_NORM,
    MW_WEIGHT_FINAL_NORM_BIAS,
    MW_WEIGHT_LOGITS,
    MW_WEIGHT_ROLE_COUNT
};

#define MW_TENSORS_BESIDE_MAX 4
#define MW_EXPERT_NUMBER '*'

/*
 * Roles that share a name share a tensor, which holds their rows one below the other in the order
 * of the roles: a fused QKV product, or gate and up in one.  Names of experts' tensors have
 * MW_EXPERT_NUMBER where the number of the expert stands: each has its own.
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
    bool derived_ffn;         /* ffn is 4 * hidden where no key says it; else one has to */
    bool learned_positions, rotary, tied_embedding;
    bool attention_bias, projection_bias, mlp_bias, norm_bias, logits_bias, router_bias;
    bool final_norm, embedding_norm, qk_norm, parallel_block, dropout;
    bool plain_norms;
    bool capped_logits, capped_scores;
    bool
        own_heads; /* what follows the layers in tasks other than the language model is `tensors` */
};

/* How the executor runs the family.  The constants apply if a config.json has none. */
struct mw_family_run {
    const char *class_name; /* of the config.json that is written */
    enum mw_decoder_kind kind;
    enum mw_decoder_activation activation;
    double norm_epsilon, rope_theta;
    const struct mw_family_tensors *tensors;
    bool router_renormalizes;         /* of a mixture, as struct mw_decoder has it */
    double router_aux_loss;           /* its coefficient, where router's losses are asked for */
    const struct mw_family_key *keys; /* with meanings, of a row of formulas; NULL: the row's own */
};

struct mw_family {
    const char *name;         /* model_type */
    const char *class_prefix; /* of the class in "architectures"; NULL: never found by it */
    const char *same;         /* the family whose row holds all the rest; NULL: this row */
    struct mw_family_traits traits;
    const struct mw_family_key *keys;
    /* Of absent keys, as the configuration class of transformers 5.24 has them: published files
     * rely on them.  In rows of formulas a let of the same name comes first. */
    int64_t defaults[MW_DIMENSION_COUNT];
    struct mw_family_run run;
    const char *why_not; /* what the executor lacks; NULL if it runs the family */
    /* The module that holds q, k and v, or gate and up, as transformers has them, where
     * `run.tensors` does not say it: it has one adapter.  NULL: each matrix is a module. */
    const char *fused_qkv, *fused_gate;
    const char *score_bias; /* what attention adds to its scores, for which transformers has no
                             * flash kernel, and where that is seen; NULL: nothing */

    /* Rows of formulas alone: names of `keys` are formulas. */
    const struct mw_family_let *lets;       /* NULL: not such a row */
    const struct mw_family_tensor *tensors; /* beside those that traits and dimensions say */
    const struct mw_family_stack *stacks;   /* NULL: blocks as traits and dimensions say */
    const struct mw_family_tower *towers;   /* NULL: one file, one stack of layers */
    const char *experts_in;   /* which layers have experts; NULL: all behind dense_layers */
    const char *windowed_in;  /* which layers have a window; NULL: as window_period says */
    const char *layer_kinds;  /* the words of a list with an entry for each layer, with spaces
                               * between; NULL: "sliding_attention full_attention" */
    const char *task;         /* without `architectures`; NULL: a language model */
    const char *approximates; /* of FLOPs and bytes, for a note; NULL: nothing */
    const char *nested;       /* what a file leaves out that holds the decoder in an object: JSON */
    const char *refused;      /* a condition */
    const char *refused_why;  /* what is missing then */
};

/* The rows, in order; NULL out of range. */
const struct mw_family *mw_family_at(int number);

const struct mw_family *mw_family_find(const char *name); /* NULL: there is none */
/* The names of families that the executor runs, by number from 0; NULL after the last. */
const char *mw_family_runs_name(int number);

/* A key of config.json changes neither parameters nor FLOPs, whatever the family.  `off`: its value
 * is 0, false, empty or "absolute". */
bool mw_family_key_is_aside(const char *key, bool off);

/* Its value need not be whole: a rate, or what sizes are multiplied by. */
bool mw_family_key_is_fraction(const char *key);
/* Whether a file that has the key with 0 describes no model. */
bool mw_family_key_is_positive(const char *key);

/* The name in transformers and in the files that memwall writes; NULL out of range. */
const char *mw_activation_name(int activation);

#endif
