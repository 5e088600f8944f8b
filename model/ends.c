/* The walk over the operators before the layers (embedding) and after them (final norm, logits,
 * loss). */
#include "model/walk.h"

#define TOKEN_BYTES 8 /* torch keeps token numbers as int64 */

/* Per rank, if ranks share the vocabulary; the rows of the last rank are padded. */
static int64_t
vocab_rows(const struct mw_walk *walk)
{
    return mw_divide_up(walk->model->vocab, walk->tp);
}

static bool
projected(const struct mw_model *model)
{
    return model->embedding_dim != model->hidden;
}

/* Rows gathered: read and written, positions added (read), norm and dropout in passes of their own.
 * Backward adds each row's gradient into the table's gradient: two reads and a write. */
static void
set_embedding_bytes(struct mw_operator_info *info, const struct mw_walk *walk)
{
    const struct mw_model *model = walk->model;
    int64_t one = mw_walk_tensor(walk, model->hidden);
    int64_t rows = mw_walk_tensor(walk, model->embedding_dim);
    int64_t mask = model->dropout ? MW_PRODUCT(walk->tokens, model->hidden) : 0;
    bool positions = model->position_rows > 0;

    info->forward_bytes =
        MW_SUM(MW_PRODUCT(2, rows), MW_PRODUCT(positions, one),
               MW_PRODUCT(model->embedding_norm, 2, one), MW_PRODUCT(model->dropout, 2, one), mask);
    info->backward_bytes =
        MW_SUM(MW_PRODUCT(3, rows), MW_PRODUCT(positions, 3, one),
               MW_PRODUCT(model->embedding_norm, 3, one), MW_PRODUCT(model->dropout, 2, one), mask);
    info->saved_bytes =
        MW_SUM(MW_PRODUCT(TOKEN_BYTES, walk->tokens), mask, MW_PRODUCT(model->embedding_norm, one),
               MW_PRODUCT(projected(model), rows));
    info->output_bytes = one;
}

static struct mw_operator_info
embedding(const struct mw_walk *walk)
{
    const struct mw_model *model = walk->model;
    struct mw_operator_info info = {
        .operator_ = MW_OPERATOR_EMBEDDING,
        .params = MW_SUM(MW_PRODUCT(vocab_rows(walk), model->embedding_dim),
                         MW_PRODUCT(model->position_rows, model->hidden),
                         MW_PRODUCT(projected(model), model->embedding_dim, model->hidden),
                         MW_PRODUCT(model->embedding_norm, model->hidden, 1 + model->norm_bias)),
        .launches = (uint32_t)(1 + (model->position_rows > 0) + projected(model) +
                               model->embedding_norm + model->dropout),
    };

    if (projected(model))
        mw_operator_set_product(&info, walk->tokens, model->hidden, model->embedding_dim);
    set_embedding_bytes(&info, walk);
    return info;
}

static struct mw_operator_info
final_norm(const struct mw_walk *walk)
{
    int64_t one = mw_walk_tensor(walk, walk->model->hidden);

    return (struct mw_operator_info){
        .operator_ = MW_OPERATOR_FINAL_NORM,
        .params = MW_PRODUCT(walk->model->hidden, 1 + walk->model->norm_bias),
        .forward_bytes = MW_PRODUCT(2, one),
        .backward_bytes = MW_PRODUCT(3, one),
        .saved_bytes = one,
        .output_bytes = one,
        .launches = 1,
    };
}

static struct mw_operator_info
logits(const struct mw_walk *walk)
{
    const struct mw_model *model = walk->model;
    int64_t rows = vocab_rows(walk);
    int64_t between = projected(model) ? MW_PRODUCT(model->hidden, model->embedding_dim) : 0;
    struct mw_operator_info info = {
        .operator_ = MW_OPERATOR_LOGITS,
        .params = MW_SUM(model->tied_embedding ? 0 : MW_PRODUCT(rows, model->embedding_dim),
                         MW_PRODUCT(model->logits_bias, rows), between),
        .backward_bytes = MW_PRODUCT(model->logits_bias, mw_walk_tensor(walk, rows)),
        .saved_bytes = MW_SUM(mw_walk_tensor(walk, model->embedding_dim),
                              MW_PRODUCT(projected(model), mw_walk_tensor(walk, model->hidden))),
        .output_bytes = mw_walk_tensor(walk, rows),
        .launches = (uint32_t)(1 + projected(model)),
    };

    mw_operator_set_product(&info, walk->tokens, rows, model->embedding_dim);
    mw_operator_add_flops(&info, MW_PRODUCT(2, walk->tokens, between));
    return info;
}

/* Cross entropy on fp32 logits.  Forward, per logit: the cast of narrower ones reads 2 bytes and
 * writes 4, the logarithm of softmax reads 4 and writes 4.  Backward: reads 4, writes 4, the cast
 * reads 4 and writes 2.  Kept: the logarithms, 4. */
static struct mw_operator_info
loss(const struct mw_walk *walk)
{
    int64_t logits = MW_PRODUCT(walk->tokens, vocab_rows(walk));
    int64_t cast = walk->element_bytes == MW_B32 ? 0 : walk->element_bytes + MW_B32;

    return (struct mw_operator_info){
        .operator_ = MW_OPERATOR_LOSS,
        .forward_bytes = MW_PRODUCT(2 * MW_B32 + cast, logits),
        .backward_bytes = MW_PRODUCT(2 * MW_B32 + cast, logits),
        .saved_bytes = MW_PRODUCT(MW_B32, logits),
        .output_bytes = MW_PRODUCT(MW_B32, walk->tokens),
        .launches = 3,
    };
}

int
mw_model_head(const struct mw_model *model, const struct mw_shape *shape,
              struct mw_operator_info out[MW_LAYER_OPERATORS_MAX])
{
    struct mw_walk walk = mw_walk_of(model, shape, false);

    if (!model->vocab)
        return 0;
    out[0] = embedding(&walk);
    return 1;
}

int
mw_model_tail(const struct mw_model *model, const struct mw_shape *shape,
              struct mw_operator_info out[MW_LAYER_OPERATORS_MAX])
{
    struct mw_walk walk = mw_walk_of(model, shape, false);
    int count = 0;

    if (!model->vocab)
        return 0;
    if (model->final_norm)
        out[count++] = final_norm(&walk);
    out[count++] = logits(&walk);
    out[count++] = loss(&walk);
    return count;
}
