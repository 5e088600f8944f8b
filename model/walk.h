/*
 * walk.h - one walk over a model's operators, for one shape; for model/ alone.
 */
#ifndef MW_MODEL_WALK_H
#define MW_MODEL_WALK_H

#include "model/model.h"

struct mw_walk {
    const struct mw_model *model;
    int64_t tokens, seq; /* of this rank's part of the sequences; of a whole sequence */
    int64_t cp;          /* ranks that share the tokens of each sequence, */
    enum mw_context context;
    bool whole_experts; /* each slice visits them with its own tokens */
    int64_t shares;     /* into which slices divide the tokens of what they do not slice; 1: not */
    int64_t sequences, text; /* text: tokens of a sequence of the model, of which lines speak */
    bool limited;            /* experts have a capacity, or a token visits others than the model
                              * says */
    int64_t expert_rows, filled_rows; /* of all experts of a mixture: mw_model_expert_rows */
    int64_t room_rows;                /* that there is room for: mw_model_expert_room */
    int64_t window;                   /* of attention; 0: it sees all keys */
    enum mw_dtype dtype;
    struct mw_trained trained;
    enum mw_dtype frozen_dtype, product_dtype;
    struct mw_kept_as kept_as;
    bool experts, causal;
    int64_t element_bytes[MW_ELEMENT_INT64 + 1];
    struct mw_operator_dims dims;
};

struct mw_walk mw_walk_begin(const struct mw_model *model, const struct mw_shape *shape,
                             struct mw_block_traits block);
/* The operators of the rows of a place, each with the tensors that rows do not say. */
int mw_walk_place(const struct mw_walk *walk, enum mw_operator_place place,
                  struct mw_operator_info out[MW_LAYER_OPERATORS_MAX]);
/* An operator with nothing counted yet. */
struct mw_operator_info mw_walk_operator(const struct mw_walk *walk, int operator_);
/* Parameters and products of a tensor, by which all tokens go that meet it; of its adapter, where
 * the operator adapts another. */
void mw_walk_add_tensor(struct mw_operator_info *info, const struct mw_walk *walk,
                        const struct mw_model_tensor *tensor);
/* The operator to which the tensors belong that this one computes or adapts. */
int mw_walk_tensors_of(int operator_);
/* The smallest side of the matrices that an operator adapts: no adapter has a larger rank.  Where
 * no row says them, that of the largest one: smaller ones then have no adapters. */
int64_t mw_walk_rank_max(const struct mw_walk *walk, int operator_);
void mw_walk_add_attention(struct mw_operator_info *info, const struct mw_walk *walk);
/* The gradients' FLOPs, the passes of the operator's row, and what is stored narrower. */
void mw_walk_finish(struct mw_operator_info *info, const struct mw_walk *walk);

int64_t mw_model_tensor_params(const struct mw_model_tensor *tensor);

/* The value of a line for a sequence of `text` tokens, at least 0. */
int64_t mw_model_line_at(const struct mw_model_line *line, int64_t text);
/* Of a described model: its mixes in a stack, and the widths of the passes around them. */
bool mw_described_mixes(const struct mw_model *model, int stack);
void mw_described_widths(struct mw_walk *walk, int stack);
void mw_described_attend(struct mw_operator_info *info, const struct mw_walk *walk, int stack);

/* Of a mixed model: a layer of this kind where it has turns, else the mean layer. */
int mw_mixed_block(const struct mw_model *model, enum mw_block_kind kind,
                   const struct mw_shape *shape,
                   struct mw_operator_info out[MW_LAYER_OPERATORS_MAX]);
/* Parameters of all layers; `met`: those that a token meets alone. */
int64_t mw_mixed_params(const struct mw_model *model, bool met);

#endif
