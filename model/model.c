/*
 * The walk over a layer's operators.
 *
 * Saved activations follow Korthikanti et al. (arXiv 2205.05198, Sec. 4.1 and Eq. 2): a GPT layer
 * with dropout and stored scores keeps t·h·(10 + 24/tp + 5·a·s/(h·tp)) bytes, 34·t·h + 5·a·s·t on
 * one rank; what an architecture lacks (dropout masks, a second norm) drops out.
 */
#include "model/walk.h"

/* If there are more ranks than k and v heads, the further ranks hold copies. */
static int64_t
kv_heads(const struct mw_walk *walk)
{
    return mw_divide_up(walk->model->kv_heads, walk->tp);
}

/* Dropout saves one byte per element, and every rank saves the whole mask. */
static int64_t
mask(const struct mw_walk *walk)
{
    return walk->model->dropout ? MW_PRODUCT(walk->tokens, walk->model->hidden) : 0;
}

void
mw_operator_add_residual(struct mw_operator_info *info, const struct mw_walk *walk, bool bias)
{
    int64_t one = mw_walk_tensor(walk, walk->model->hidden);

    info->params = MW_SUM(info->params, MW_PRODUCT(bias, walk->model->hidden));
    info->forward_bytes = MW_SUM(info->forward_bytes, MW_PRODUCT(3, one), mask(walk));
    info->backward_bytes = MW_SUM(info->backward_bytes, MW_PRODUCT(bias, one), mask(walk),
                                  MW_PRODUCT(walk->model->dropout, 2, one));
    info->saved_bytes = MW_SUM(info->saved_bytes, mask(walk));
    info->output_bytes = one;
    info->launches += 1;
}

/* Forward reads x and writes y.  Backward reads x and dy and writes dx, then adds the gradient of
 * the residual connection (two reads and a write). */
static struct mw_operator_info
norm(const struct mw_walk *walk, enum mw_operator operator_, int64_t count)
{
    int64_t hidden = walk->model->hidden;
    int64_t one = mw_walk_tensor(walk, hidden);

    return (struct mw_operator_info){
        .operator_ = operator_,
        .params = MW_PRODUCT(count, hidden, 1 + walk->model->norm_bias),
        .forward_bytes = MW_PRODUCT(count, 2, one),
        .backward_bytes = MW_SUM(MW_PRODUCT(count, 3, one), MW_PRODUCT(3, one)),
        .saved_bytes = MW_PRODUCT(count, one),
        .output_bytes = one,
        .launches = (uint32_t)count,
    };
}

/* Rotary positions and the norms of q and k each read and write q and k once.  The norms also save
 * their input. */
static struct mw_operator_info
plain_qkv(const struct mw_walk *walk)
{
    const struct mw_model *model = walk->model;
    int64_t keys = kv_heads(walk);
    int64_t q_and_k =
        mw_walk_tensor(walk, MW_PRODUCT(MW_SUM(mw_walk_query_heads(walk), keys), model->head_dim));
    int64_t columns = MW_SUM(MW_PRODUCT(MW_SUM(mw_walk_query_heads(walk), keys), model->head_dim),
                             MW_PRODUCT(keys, model->value_dim));
    int64_t passes = model->rotary + model->qk_norm;
    struct mw_operator_info info = {
        .operator_ = MW_OPERATOR_QKV,
        .params = MW_SUM(MW_PRODUCT(columns, MW_SUM(model->hidden, model->attention_bias)),
                         MW_PRODUCT(model->qk_norm, 2, model->head_dim, 1 + model->norm_bias)),
        .forward_bytes = MW_PRODUCT(passes, 2, q_and_k),
        .backward_bytes =
            MW_SUM(MW_PRODUCT(passes, 2, q_and_k), MW_PRODUCT(model->qk_norm, q_and_k),
                   MW_PRODUCT(model->attention_bias, mw_walk_tensor(walk, columns))),
        .saved_bytes =
            MW_SUM(mw_walk_tensor(walk, model->hidden), MW_PRODUCT(model->qk_norm, q_and_k)),
        .output_bytes = mw_walk_tensor(walk, columns),
        .launches = (uint32_t)(1 + model->rotary + 2 * model->qk_norm),
    };

    mw_operator_set_product(&info, walk->tokens, columns, model->hidden);
    return info;
}

/* Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, Sec. 2.1): q and kv pass through
 * normed latents that every rank holds; the products out of them are sliced by heads.
 * Traffic: the latents' norms, and q and k assembled from their parts with and without positions.
 */
static struct mw_operator_info
latent_qkv(const struct mw_walk *walk)
{
    const struct mw_model *model = walk->model;
    int64_t heads = mw_walk_query_heads(walk);
    int64_t q_width = MW_PRODUCT(heads, model->head_dim);
    int64_t kv_width = MW_PRODUCT(heads, model->head_dim - model->rope_dim + model->value_dim);
    int64_t q_from = model->q_lora ? model->q_lora : model->hidden;
    int64_t latents = MW_SUM(model->q_lora, model->kv_lora);
    int64_t weights = MW_SUM(MW_PRODUCT(model->hidden, MW_SUM(latents, model->rope_dim)),
                             MW_PRODUCT(q_from, q_width), MW_PRODUCT(model->kv_lora, kv_width));
    int64_t moved = MW_SUM(MW_PRODUCT(2, mw_walk_tensor(walk, latents)),
                           MW_PRODUCT(4, mw_walk_tensor(walk, q_width)));
    struct mw_operator_info info = {
        .operator_ = MW_OPERATOR_QKV,
        .params = MW_SUM(weights, latents),
        .forward_bytes = moved,
        .backward_bytes = MW_SUM(moved, mw_walk_tensor(walk, latents)),
        .saved_bytes = MW_SUM(mw_walk_tensor(walk, model->hidden),
                              MW_PRODUCT(2, mw_walk_tensor(walk, latents))),
        .output_bytes = mw_walk_tensor(
            walk, MW_SUM(MW_PRODUCT(2, q_width), MW_PRODUCT(heads, model->value_dim))),
        .launches = model->q_lora ? 9 : 7, /* products, latent norms, rotary and assembly of q, k */
    };

    mw_operator_set_product(&info, walk->tokens, q_width, q_from);
    info.forward_flops = 0;
    mw_operator_add_flops(&info, MW_PRODUCT(2, walk->tokens, weights));
    return info;
}

/*
 * Stored scores, one element e per head and pair of tokens.  Forward, per score: the product writes
 * e bytes, the fused softmax reads and writes 2 e, the product with v reads e; dropout reads e,
 * writes e and a mask of 1.  Backward: the gradient of the scores is written (e) and the scores
 * read (e), softmax reads both and writes (3 e), two products read (2 e); dropout reads e + 1,
 * writes e. Kept: softmax's result (e); with dropout its mask and result (1 + e).
 */
static void
set_score_bytes(struct mw_operator_info *info, const struct mw_walk *walk)
{
    int64_t scores = MW_PRODUCT(walk->tokens, walk->seq, mw_walk_query_heads(walk));
    bool dropout = walk->model->dropout;
    int64_t e = walk->element_bytes;

    info->forward_bytes = MW_PRODUCT(4 * e + (2 * e + 1) * dropout, scores);
    info->backward_bytes = MW_PRODUCT(7 * e + (2 * e + 1) * dropout, scores);
    info->saved_bytes = MW_SUM(info->saved_bytes, MW_PRODUCT(e + (1 + e) * dropout, scores));
    info->launches = 3 + dropout;
}

/* q, k, v and the result pass once; backward reads them with the result's gradient and writes
 * three gradients.  Kept beside q, k, v: the logarithm of each row's sum, fp32. */
static void
set_flash_bytes(struct mw_operator_info *info, const struct mw_walk *walk)
{
    int64_t row_sums = MW_PRODUCT(MW_B32, walk->tokens, mw_walk_query_heads(walk));
    int64_t inputs = info->saved_bytes;

    info->forward_bytes = MW_SUM(inputs, info->output_bytes, row_sums);
    info->backward_bytes =
        MW_SUM(MW_PRODUCT(2, inputs), MW_PRODUCT(2, info->output_bytes), row_sums);
    info->saved_bytes = MW_SUM(inputs, row_sums);
    info->launches = 1;
}

/* Q·K^T and the product with V, counted whole although the mask makes half of them idle: the
 * published formulas (12·nl·hd² with its sequence term, arXiv 2104.04473 Eq. 3) count them whole.
 */
static struct mw_operator_info
attention(const struct mw_walk *walk)
{
    const struct mw_model *model = walk->model;
    int64_t heads = mw_walk_query_heads(walk);
    int64_t key_heads = model->kv_lora ? heads : kv_heads(walk);
    int64_t rows = MW_PRODUCT(walk->tokens, heads);
    struct mw_operator_info info = {
        .operator_ = MW_OPERATOR_ATTENTION,
        .saved_bytes = mw_walk_tensor(walk, MW_SUM(MW_PRODUCT(heads, model->head_dim),
                                                   MW_PRODUCT(key_heads, model->head_dim),
                                                   MW_PRODUCT(key_heads, model->value_dim))),
        .output_bytes = mw_walk_tensor(walk, MW_PRODUCT(heads, model->value_dim)),
    };

    mw_operator_set_product(&info, rows, walk->seq, model->head_dim);
    /* A batch of products, one per head and sequence: the shape of one determines the rate. */
    info.m = walk->seq;
    int64_t scores_flops = info.forward_flops;
    mw_operator_add_flops(&info, MW_PRODUCT(2, rows, walk->seq, model->value_dim));
    if (walk->flash) {
        info.backward_flops = MW_SUM(info.backward_flops, scores_flops);
        set_flash_bytes(&info, walk);
    } else {
        set_score_bytes(&info, walk);
    }
    return info;
}

static struct mw_operator_info
projection(const struct mw_walk *walk)
{
    const struct mw_model *model = walk->model;
    int64_t width = MW_PRODUCT(mw_walk_query_heads(walk), model->value_dim);
    struct mw_operator_info info = {
        .operator_ = MW_OPERATOR_PROJECTION,
        .params = MW_PRODUCT(width, model->hidden),
        .saved_bytes = mw_walk_tensor(walk, width),
        .launches = 1,
    };

    mw_operator_set_product(&info, walk->tokens, model->hidden, width);
    mw_operator_add_residual(&info, walk, model->projection_bias);
    return info;
}

int
mw_model_layer(const struct mw_model *model, int64_t layer, const struct mw_shape *shape,
               struct mw_operator_info out[MW_LAYER_OPERATORS_MAX])
{
    struct mw_walk walk = mw_walk_of(model, shape, model->experts && layer >= model->dense_layers);
    int64_t norms = model->parallel_block ? 1 : model->norms_per_layer / 2;
    int count = 0;

    out[count++] = norm(&walk, MW_OPERATOR_NORM1, norms);
    out[count++] = model->kv_lora ? latent_qkv(&walk) : plain_qkv(&walk);
    out[count++] = attention(&walk);
    out[count++] = projection(&walk);
    if (!model->parallel_block)
        out[count++] = norm(&walk, MW_OPERATOR_NORM2, norms);
    return count + mw_walk_mlp(&walk, out + count);
}
