/*
 * weights.h - a decoder's parameters, operator by operator, and their names in Hugging Face files.
 *
 * The parameters of an operator are one flat vector, in the order of its row in plan/operators.c
 * (rows of a matrix are its output features: [out, in], row-major).  As the rows have it:
 *
 *                   GPT-2                                Llama
 *   EMBEDDING       tokens [vocab, hidden], positions    tokens [vocab, hidden]
 *   NORM1, NORM2    weight [hidden], bias [hidden]       weight [hidden]
 *   QKV             rows of q, k, v; their biases        rows of q, k, v; their biases, if any
 *   PROJECTION      weight [hidden, hidden], bias        weight [hidden, heads * head_dim]; bias
 *   MLP_UP          weight [ffn, hidden], bias           gate, up weights; their biases, if any
 *   MLP_DOWN        weight [hidden, ffn], bias           weight; bias, if any
 *   of a mixture    -                                    MLP_UP: gates of all experts, all of up,
 *                                                        router [experts, hidden]; MLP_DOWN: of
 *                                                        all experts
 *   FINAL_NORM      as NORM1                             as NORM1
 *   LOGITS          weight [vocab, hidden], unless tied  as GPT-2
 *
 * The row of the decoder's family (families/family.h) has the names of these tensors in files,
 * says which of them share one tensor there, and whether files store the matrices of a layer as
 * [in, out]: then they are transposed when they are loaded and stored.
 *
 * A *part* is what the plan fetches at once: tile `tile` of `tiles` of a fetch unit (struct
 * mw_tensor of plan/plan.h).  It has the rows from mw_part_first_row(rows, tiles, tile) up to those
 * of the next tile, of the unit's largest operator, with their biases, and tile 0 before them all
 * of its other operators.  Its elements are those of its pieces of tensors, in the order above:
 * with one tile the vectors of its operators, one after the other.
 *
 * A decoder can be a slice of a model, or have a copy of its embedding, or some of its experts
 * (plan/decoder.h).  Files have whole models: a slice's weights say which rows and columns of the
 * file's tensors they are.  Spread experts are operators of their own, with the roles that they
 * have in those of a whole mixture.
 *
 * Everything here takes any range of a part, so that a rank reads, starts or writes its own shard
 * alone.  Elements after the end of a part are padding: they read as zero and are not written.
 */
#ifndef MW_EXEC_DATA_WEIGHTS_H
#define MW_EXEC_DATA_WEIGHTS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan/decoder.h"
#include "exec/data/safetensors.h"
#include "plan/plan.h"

#define MW_WEIGHTS_MAX 8                 /* tensors of one operator */
#define MW_LORA_BASE "base_model.model." /* before PEFT's names of the model's tensors */
#define MW_WEIGHTS_PIECES_MAX 24         /* tensors of one part */
#define MW_WEIGHTS_NAME_MAX 112

/* Of an adapter (LoRA): A [rank, in] or B [out, rank]. */
enum mw_lora_side { MW_LORA_NONE, MW_LORA_IN, MW_LORA_OUT };

struct mw_weight {
    char name[MW_WEIGHTS_NAME_MAX]; /* as transformers writes it: "transformer.h.0.ln_1.weight" */
    const char *base;               /* of the name; files can leave it out */
    enum mw_operator operator_;
    enum mw_weight_role role; /* the first one's, where it has rows of several */
    int rank;
    int64_t shape[2];    /* of the tensor in the file, which can hold rows of other weights too */
    bool transposed;     /* the file holds [in, out], the vector [out, in] */
    int64_t file_row;    /* of the file's tensor at which this weight begins (transposed: column) */
    int64_t file_column; /* the same of columns, of which a slice can have some */
    int64_t elements;
    int64_t padding; /* elements at its end that the file does not have */
    /* Its rows among those of its operator, and its elements per row; a norm has no rows. */
    int64_t first_row, rows, row_elements;
    enum mw_weight_start start;
    enum mw_lora_side lora;
    /* So many tensors of this shape in files, one for each expert, whose names have its number
     * where this has MW_EXPERT_NUMBER: rows and elements are of all of them.  0: one tensor.  Of
     * spread experts the number of the first. */
    int64_t experts, first_expert;
};

struct mw_weights_part {
    int64_t layer;      /* -1: the model's ends */
    uint32_t operators; /* bits 1 << enum mw_operator, as in struct mw_tensor; others are ignored */
    int64_t tiles, tile;
};

/* The elements of one tensor that a part has: at least one. */
struct mw_weights_piece {
    struct mw_weight weight;
    int64_t first, count; /* elements of the tensor, in the vector's order */
    int64_t at;           /* in the part */
};

/* The tensors of an operator, in the vector's order; returns how many (0: no parameters). */
int mw_weights_list(const struct mw_decoder *decoder, enum mw_operator operator_, int64_t layer,
                    struct mw_weight out[MW_WEIGHTS_MAX]);
int64_t mw_weights_operator_elements(const struct mw_decoder *decoder, enum mw_operator operator_);
int64_t mw_weights_elements(const struct mw_decoder *decoder); /* of the whole model */

/* Whether every slice of a model has all of it: norms, positions, biases of sums. */
bool mw_weight_is_of_all_slices(const struct mw_decoder *slice, const struct mw_weight *weight);

/* Whether another slice, or another stage, writes it to files: those that have it before. */
bool mw_weight_is_written_elsewhere(const struct mw_decoder *decoder,
                                    const struct mw_weight *weight);

/* One expert's, and the number of the expert that has an element, among those of the weight; of
 * what no experts have it is the weight itself, and number 0. */
struct mw_weight mw_weight_of_expert(const struct mw_weight *weight, int64_t expert);
int64_t mw_weight_expert_at(const struct mw_weight *weight, int64_t element);

/* The element of the file's tensor that holds `element` of the weight, in the vector's order. */
int64_t mw_weight_file_element(const struct mw_weight *weight, int64_t element);

/* The pieces of a part, in order; returns how many. */
int mw_weights_pieces(const struct mw_decoder *decoder, const struct mw_weights_part *part,
                      struct mw_weights_piece out[MW_WEIGHTS_PIECES_MAX]);
/* Returns false to end the walk. */
typedef bool (*mw_weights_visit)(const struct mw_weights_piece *piece, void *data);

/* Visits the pieces of elements [first, first + count) of a part, with `at` relative to `first`;
 * false if a visit returned false. */
bool mw_weights_walk(const struct mw_decoder *decoder, const struct mw_weights_part *part,
                     int64_t first, int64_t count, mw_weights_visit visit, void *data);

int64_t mw_weights_part_elements(const struct mw_decoder *decoder,
                                 const struct mw_weights_part *part);
/* The rows by which tiles cut a unit: those of its largest operator, 1 if it has none. */
int64_t mw_weights_rows(const struct mw_decoder *decoder, uint32_t operators);

/* Starting values, each a function of the seed and of the element's number in the whole model
 * (embedding, layers, final norm, logits): the same for every tiling and partition.  `as` is
 * MW_DTYPE_FP32 (float), MW_DTYPE_BF16 or MW_DTYPE_FP16 (uint16_t, the fp32 value rounded to
 * nearest even), here and below. */
void mw_weights_start(const struct mw_decoder *decoder, uint64_t seed,
                      const struct mw_weights_part *part, int64_t first, int64_t count,
                      enum mw_dtype as, void *out);

/* The set holds this model: every tensor is there with its shape and a dtype that converts, and
 * none that the model lacks.  Names may lack the family's base ("model.").  `prefix` stands
 * before every name ("" for weights; "exp_avg." and the like in a checkpoint with optimizer
 * state); tensors without it are ignored.  Values are checked when they are loaded: one that is not
 * finite, or not within the requested type, is an error. */
bool mw_weights_check(const struct mw_decoder *decoder, const struct mw_safetensors *set,
                      const char *prefix, GError **error);
bool mw_weights_load(const struct mw_decoder *decoder, const struct mw_safetensors *set,
                     const char *prefix, const struct mw_weights_part *part, int64_t first,
                     int64_t count, enum mw_dtype as, void *out, GError **error);
/* The same for values that are squares, or means of squares: none may be negative. */
bool mw_weights_load_squares(const struct mw_decoder *decoder, const struct mw_safetensors *set,
                             const char *prefix, const struct mw_weights_part *part, int64_t first,
                             int64_t count, enum mw_dtype as, void *out, GError **error);

/* The same of a model whose own tensors and adapters are in two sets.  Where one is NULL, its
 * tensors are not looked for, and their elements of `out` are left as they are. */
struct mw_weights_sets {
    const struct mw_safetensors *own, *adapters;
};
bool mw_weights_check_sets(const struct mw_decoder *decoder, struct mw_weights_sets sets,
                           const char *prefix, GError **error);
bool mw_weights_load_sets(const struct mw_decoder *decoder, struct mw_weights_sets sets,
                          const char *prefix, const struct mw_weights_part *part, int64_t first,
                          int64_t count, enum mw_dtype as, void *out, GError **error);

/* Starting values: drawn from the seed where a set is NULL, else loaded. */
bool mw_weights_make(const struct mw_decoder *decoder, uint64_t seed, struct mw_weights_sets sets,
                     const struct mw_weights_part *part, int64_t first, int64_t count,
                     enum mw_dtype as, void *out, GError **error);

/* Where a model's own tensors and its adapters are written: one file or two. */
struct mw_weights_files {
    struct mw_safetensors_writer *own, *adapters;
};

/* Declares every tensor of the whole model by its Hugging Face name after `prefix`. */
bool mw_weights_declare(const struct mw_decoder *decoder, struct mw_weights_files files,
                        const char *prefix, enum mw_safetensors_dtype dtype, GError **error);
/* `values` are of the declared dtype.  Leaves out what is written elsewhere, as above. */
bool mw_weights_store(const struct mw_decoder *decoder, struct mw_weights_files files,
                      const char *prefix, const struct mw_weights_part *part, int64_t first,
                      int64_t count, enum mw_safetensors_dtype dtype, const void *values,
                      GError **error);

#endif
