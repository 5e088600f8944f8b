/*
 * walk.h - what the parts of the operator walk share; for model/ alone.
 */
#ifndef MW_MODEL_WALK_H
#define MW_MODEL_WALK_H

#include "base/arithmetic.h"
#include "model/internal.h"

#define MW_B32 4

struct mw_walk {
    const struct mw_model *model;
    int64_t tokens, seq, tp;
    int64_t element_bytes; /* of an activation */
    bool flash;
    bool mixture; /* this layer has experts */
};

/* Of blocks, or of the model's ends. */
static inline struct mw_walk
mw_walk_of(const struct mw_model *model, const struct mw_shape *shape, bool mixture)
{
    return (struct mw_walk){
        .model = model,
        .tokens = MW_PRODUCT(shape->sequences, shape->seq),
        .seq = shape->seq,
        .tp = shape->tp,
        .element_bytes =
            mw_dtype_element_bytes(shape->dtype == MW_DTYPE_NONE ? MW_DTYPE_BF16 : shape->dtype),
        .flash = shape->flash_attention,
        .mixture = mixture,
    };
}

static inline int64_t
mw_walk_tensor(const struct mw_walk *walk, int64_t width)
{
    return MW_PRODUCT(walk->element_bytes, walk->tokens, width);
}

static inline int64_t
mw_walk_query_heads(const struct mw_walk *walk)
{
    return mw_divide_up(walk->model->heads, walk->tp);
}

static inline void
mw_operator_set_product(struct mw_operator_info *info, int64_t m, int64_t n, int64_t k)
{
    info->m = m;
    info->n = n;
    info->k = k;
    info->forward_flops = MW_PRODUCT(2, m, n, k);
    info->backward_flops = MW_PRODUCT(2, info->forward_flops);
}

static inline void
mw_operator_add_flops(struct mw_operator_info *info, int64_t flops)
{
    info->forward_flops = mw_saturating_add(info->forward_flops, flops);
    info->backward_flops = MW_PRODUCT(2, info->forward_flops);
}

/* A row-parallel product's end: bias (whole on every rank), dropout, residual addition. */
void mw_operator_add_residual(struct mw_operator_info *info, const struct mw_walk *walk, bool bias);

/* The MLP's operators, written from `out` on; returns how many. */
int mw_walk_mlp(const struct mw_walk *walk, struct mw_operator_info *out);

#endif
