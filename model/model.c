/*
 * The walk over a model's operators: the rows of plan/operators.h with the model's dimensions.
 *
 * Saved activations follow Korthikanti et al. (arXiv 2205.05198, Sec. 4.1 and Eq. 2): a GPT layer
 * with dropout and stored scores keeps t·h·(10 + 24/tp + 5·a·s/(h·tp)) bytes, 34·t·h + 5·a·s·t on
 * one rank; what an architecture lacks (dropout masks, a second norm) drops out.
 */
#include "model/walk.h"

#include <math.h>

#include "base/arithmetic.h"

/* --- a model's dimensions -------------------------------------------------------------------- */

static void
set_attention_widths(const struct mw_model *model, const struct mw_shape *shape, int64_t *width)
{
    /* If there are more ranks than k and v heads, the further ranks hold copies. */
    int64_t heads = mw_divide_up(model->heads, shape->tp);
    int64_t key_heads = model->kv_lora ? heads : mw_divide_up(model->kv_heads, shape->tp);

    width[MW_WIDTH_HEAD] = model->head_dim;
    width[MW_WIDTH_HEADS] = heads;
    width[MW_WIDTH_QUERIES] = MW_PRODUCT(heads, model->head_dim);
    width[MW_WIDTH_KEYS] = MW_PRODUCT(key_heads, model->head_dim);
    width[MW_WIDTH_VALUES] = MW_PRODUCT(key_heads, model->value_dim);
    width[MW_WIDTH_ATTENDED] = MW_PRODUCT(heads, model->value_dim);
    width[MW_WIDTH_SCORES] = MW_PRODUCT(heads, shape->seq);
    width[MW_WIDTH_QUERY_LATENT] = model->q_lora;
    width[MW_WIDTH_KEY_LATENT] = model->kv_lora;
    width[MW_WIDTH_KEY_LATENT_ROTARY] = MW_SUM(model->kv_lora, model->rope_dim);
    width[MW_WIDTH_QUERY_INPUT] = model->q_lora ? model->q_lora : model->hidden;
    width[MW_WIDTH_KEYS_VALUES] =
        MW_PRODUCT(heads, model->head_dim - model->rope_dim + model->value_dim);
}

static void
set_mlp_widths(const struct mw_model *model, const struct mw_shape *shape, bool mixture,
               int64_t *width)
{
    int64_t ffn = mw_divide_up(mixture ? model->shared_expert_ffn : model->ffn, shape->tp);
    int64_t part = mixture ? mw_divide_up(model->expert_ffn, shape->tp) : 0;
    int64_t visits = mw_model_visits(model, shape->gate);
    int64_t groups = mixture ? mw_model_gate_groups(model, shape->gate) : 0;

    width[MW_WIDTH_FFN] = ffn;
    width[MW_WIDTH_EXPERT] = mixture && shape->whole_experts ? model->expert_ffn : part;
    width[MW_WIDTH_EXPERTS] = mixture ? model->experts : 0;
    width[MW_WIDTH_EXPERTS_HERE] = mixture ? model->experts / MAX(1, shape->ep) : 0;
    width[MW_WIDTH_INNER] = MW_SUM(ffn, MW_PRODUCT(visits, part));
    width[MW_WIDTH_UP] = MW_PRODUCT(model->mlp_matrices - 1, width[MW_WIDTH_INNER]);
    width[MW_WIDTH_GROUPS] = groups;
    width[MW_WIDTH_GATED] = mixture ? mw_model_gate_scores(model, shape->gate) : 0;
    width[MW_WIDTH_COPIES] = mixture ? MW_PRODUCT(visits, model->hidden) : 0;
    width[MW_WIDTH_SENT] = width[MW_WIDTH_COPIES] / mw_gate_copies((int)shape->gate);
    width[MW_WIDTH_RANK_COPIES] = mixture ? MW_PRODUCT(visits, shape->trained.rank) : 0;
}

/* The input of attention and MLP together is kept once, by whoever of attention's needs it. */
static bool
mlp_keeps_input(const struct mw_model *model, const struct mw_trained *trained)
{
    return !model->parallel_block || (trained->frozen & ~trained->adapted) >> MW_OPERATOR_QKV & 1;
}

static mw_features
features_of(const struct mw_model *model, const struct mw_shape *shape, bool mixture, bool narrow)
{
    bool gate = model->mlp_matrices == 3;
    const struct mw_family_tensors *tensors = model->family ? model->family->run.tensors : NULL;
    bool fused_qkv = mw_tensors_share(tensors, MW_WEIGHT_Q, MW_WEIGHT_V) ||
                     (model->family && model->family->fused_qkv);
    bool fused_gate = gate && (mw_tensors_share(tensors, MW_WEIGHT_GATE, MW_WEIGHT_UP) ||
                               (model->family && model->family->fused_gate));
    bool spread = mixture && shape->ep > 1;
    const struct {
        bool has;
        mw_features feature;
    } features[] = {
        {model->vocab, MW_HAS(VOCAB)},
        {model->rotary, MW_HAS(ROTARY)},
        {model->position_rows, MW_HAS(POSITIONS)},
        {model->norm_bias, MW_HAS(NORM_BIAS)},
        {model->attention_bias, MW_HAS(ATTENTION_BIAS)},
        {model->projection_bias, MW_HAS(PROJECTION_BIAS)},
        {model->mlp_bias, MW_HAS(MLP_BIAS)},
        {model->logits_bias, MW_HAS(LOGITS_BIAS)},
        {model->router_bias, MW_HAS(ROUTER_BIAS)},
        {gate, MW_HAS(GATE)},
        {!model->parallel_block, MW_HAS(TWO_BRANCHES)},
        {mlp_keeps_input(model, &shape->trained), MW_HAS(MLP_KEEPS_INPUT)},
        {model->norms_per_layer == 4, MW_HAS(OUTPUT_NORMS)},
        {model->qk_norm, MW_HAS(QK_NORM)},
        {model->final_norm, MW_HAS(FINAL_NORM)},
        {model->embedding_norm, MW_HAS(EMBEDDING_NORM)},
        {model->embedding_dim != model->hidden, MW_HAS(EMBEDDING_PROJECTION)},
        {!model->tied_embedding, MW_HAS(UNTIED)},
        {model->dropout, MW_HAS(DROPOUT)},
        {mixture, MW_HAS(EXPERTS)},
        {mixture && shape->router_aux_loss > 0, MW_HAS(ROUTER_SUMS)},
        {mixture && shape->router_z_loss > 0, MW_HAS(ROUTER_Z)},
        {mixture && !spread, MW_HAS(EXPERTS_WITHIN)},
        {spread, MW_HAS(EXPERTS_SPREAD)},
        {spread && model->experts > shape->ep, MW_HAS(EXPERTS_SEVERAL)},
        {!model->kv_lora, MW_HAS(PLAIN_ATTENTION)},
        {model->kv_lora, MW_HAS(LATENT_ATTENTION)},
        {model->q_lora, MW_HAS(QUERY_LATENT)},
        {shape->flash_attention, MW_HAS(FLASH_ATTENTION)},
        {!shape->flash_attention, MW_HAS(STORED_SCORES)},
        {!shape->flash_attention && !shape->scores_again, MW_HAS(KEPT_SCORES)},
        {!shape->flash_attention && shape->scores_again, MW_HAS(SCORES_AGAIN)},
        {narrow, MW_HAS(NARROW)},
        {shape->product_dtype != MW_DTYPE_NONE, MW_HAS(CAST_PRODUCTS)},
        {mw_model_logits(model), MW_HAS(LOGITS)},
        {!model->plain_norms, MW_HAS(NORM_WEIGHTS)},
        {mixture ? model->shared_expert_ffn : model->ffn, MW_HAS(DENSE_MLP)},
        {!fused_qkv, MW_HAS(QKV_APART)},
        {fused_qkv, MW_HAS(QKV_FUSED)},
        {gate && !fused_gate, MW_HAS(GATE_APART)},
        {!fused_gate, MW_HAS(UP_APART)},
        {fused_gate, MW_HAS(GATE_FUSED)},
    };
    mw_features all = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(features); i++)
        all |= features[i].has ? features[i].feature : 0;
    return mixture ? all | mw_gate_row(shape->gate)->features : all;
}

int64_t
mw_model_expert_rows(const struct mw_model *model, const struct mw_shape *shape)
{
    int64_t tokens = mw_shape_expert_tokens(shape), groups = mw_shape_expert_groups(shape);
    int64_t visits = mw_model_visits(model, shape->gate);

    if (!(shape->capacity_factor > 0) || !model->experts)
        return MW_PRODUCT(tokens, visits);
    double share = (double)tokens / (double)groups * (double)visits / (double)model->experts;
    return MW_PRODUCT(groups, model->experts,
                      MAX(1, (int64_t)ceil(share * shape->capacity_factor - 1e-9)));
}

int64_t
mw_model_filled_rows(const struct mw_model *model, const struct mw_shape *shape)
{
    struct mw_shape unlimited = *shape;

    unlimited.capacity_factor = 0;
    if (mw_gate_row(shape->gate)->experts_choose)
        return mw_model_expert_rows(model, shape);
    return MIN(mw_model_expert_rows(model, shape), mw_model_expert_rows(model, &unlimited));
}

int64_t
mw_model_expert_room(const struct mw_model *model, const struct mw_shape *shape)
{
    int64_t ep = MAX(1, shape->ep), here = model->experts / ep;
    int64_t rows = mw_model_expert_rows(model, shape);

    if (ep == 1 || shape->capacity_factor > 0)
        return rows;
    int64_t groups = mw_model_gate_groups(model, shape->gate) / ep;
    int64_t most = MIN(mw_model_visits(model, shape->gate), here);
    if (groups)
        most = MIN(most, MW_PRODUCT(groups, mw_gate_copies((int)shape->gate)));
    most = MW_PRODUCT(ep, mw_shape_expert_tokens(shape), most);
    if (shape->all_visit_one)
        return most;
    return (int64_t)fmin((double)most, ceil(fmax(1, shape->expert_imbalance) * (double)rows));
}

struct mw_walk
mw_walk_begin(const struct mw_model *model, const struct mw_shape *shape,
              struct mw_block_traits block)
{
    enum mw_dtype dtype = shape->dtype == MW_DTYPE_NONE ? MW_DTYPE_BF16 : shape->dtype;
    int64_t element_bytes = mw_dtype_element_bytes(dtype);
    int64_t fp32_bytes = mw_dtype_element_bytes(MW_DTYPE_FP32);
    struct mw_walk walk = {
        .model = model,
        .tokens = mw_shape_tokens(shape),
        .cp = MAX(1, shape->cp),
        .context = shape->context,
        .limited =
            block.experts && (shape->capacity_factor > 0 || shape->whole_experts ||
                              mw_model_visits(model, shape->gate) != model->experts_per_token),
        .expert_rows = block.experts ? mw_model_expert_rows(model, shape) : 0,
        .room_rows = block.experts ? mw_model_expert_room(model, shape) : 0,
        .filled_rows = block.experts ? mw_model_filled_rows(model, shape) : 0,
        .shares = shape->sequence_parallel ? shape->tp : 1,
        .whole_experts = shape->whole_experts,
        .seq = shape->seq,
        .sequences = shape->sequences,
        .text = shape->seq,
        .window = block.windowed && model->window < shape->seq ? model->window : 0,
        .dtype = dtype,
        .trained = shape->trained,
        .frozen_dtype = shape->frozen_dtype,
        .product_dtype = shape->product_dtype,
        .kept_as = shape->kept_as,
        .experts = block.experts,
        .causal = true,
        .element_bytes = {[MW_ELEMENT_ACTIVATION] = element_bytes,
                          [MW_ELEMENT_BYTE] = 1,
                          [MW_ELEMENT_FP32] = fp32_bytes,
                          [MW_ELEMENT_INT64] = sizeof(int64_t)},
        .dims.features = features_of(model, shape, block.experts, element_bytes < fp32_bytes) |
                         mw_targets_features(shape->trained.bare),
        .dims.adapted = shape->trained.adapted,
    };

    walk.dims.width[MW_WIDTH_ONE] = 1;
    walk.dims.width[MW_WIDTH_HIDDEN] = model->hidden;
    /* If ranks share the vocabulary, the rows of the last one are padded. */
    walk.dims.width[MW_WIDTH_VOCAB] = mw_divide_up(model->vocab, shape->tp);
    walk.dims.width[MW_WIDTH_LOGITS] = mw_divide_up(mw_model_logits(model), shape->tp);
    walk.dims.width[MW_WIDTH_POSITIONS] = model->position_rows;
    walk.dims.width[MW_WIDTH_EMBEDDING] = model->embedding_dim;
    walk.dims.width[MW_WIDTH_RANK] = shape->trained.rank;
    set_attention_widths(model, shape, walk.dims.width);
    set_mlp_widths(model, shape, block.experts, walk.dims.width);
    return walk;
}

/* --- an operator ----------------------------------------------------------------------------- */

static int64_t
parameter_elements(const struct mw_walk *walk, const struct mw_operator_parameter *parameter)
{
    const int64_t *width = walk->dims.width;

    switch (parameter->kind) {
    case MW_PARAMETER_EXPERTS:
    case MW_PARAMETER_EXPERTS_TWIN:
        return MW_PRODUCT(width[MW_WIDTH_EXPERTS_HERE], width[parameter->rows],
                          width[parameter->columns]);
    case MW_PARAMETER_EXPERTS_BIAS:
        return MW_PRODUCT(width[MW_WIDTH_EXPERTS_HERE], width[parameter->rows]);
    case MW_PARAMETER_BIAS:
    case MW_PARAMETER_MORE_BIAS:
    case MW_PARAMETER_VECTOR:
        return width[parameter->rows];
    default:
        return MW_PRODUCT(width[parameter->rows], width[parameter->columns]);
    }
}

static int64_t
parameter_sides(const struct mw_walk *walk, const struct mw_operator_parameter *parameter)
{
    const int64_t *width = walk->dims.width;
    bool of_experts =
        parameter->kind == MW_PARAMETER_EXPERTS || parameter->kind == MW_PARAMETER_EXPERTS_TWIN;

    if (!parameter->columns)
        return parameter_elements(walk, parameter);
    return MW_PRODUCT(of_experts ? width[MW_WIDTH_EXPERTS_HERE] : 1,
                      MW_SUM(width[parameter->rows], width[parameter->columns]));
}

/* Of an operator of a block: as a checkpoint's file has them. */
static void
add_matrix(struct mw_operator_info *info, const struct mw_walk *walk,
           const struct mw_operator_parameter *parameter)
{
    int64_t rows = walk->dims.width[parameter->rows];
    int64_t columns = walk->dims.width[parameter->columns];
    int64_t elements = parameter_elements(walk, parameter);

    if (!parameter->columns || !elements)
        return;
    int64_t count = elements / (rows * columns);
    info->matrix_params = MW_SUM(info->matrix_params, elements);
    for (int i = 0; i < info->matrix_count; i++) {
        struct mw_matrix *like = &info->matrices[i];
        if (like->rows == rows && like->columns == columns) {
            like->count = MW_SUM(like->count, count);
            return;
        }
    }
    g_assert(info->matrix_count < MW_OPERATOR_MATRICES_MAX);
    info->matrices[info->matrix_count++] = (struct mw_matrix){rows, columns, count};
}

static void
add_params(struct mw_operator_info *info, const struct mw_walk *walk,
           const struct mw_operator_row *row)
{
    for (const struct mw_operator_parameter *p = row->parameters; p && p->kind; p++) {
        if (!mw_dims_have(&walk->dims, p->when | p->owned))
            continue;
        info->params = mw_saturating_add(info->params, parameter_elements(walk, p));
        info->sides = mw_saturating_add(info->sides, parameter_sides(walk, p));
        if (row->place == MW_PLACE_BLOCK)
            add_matrix(info, walk, p);
    }
}

/* Beyond the number of products that a work can say, the last one has as many rows more as give the
 * same FLOPs. */
static void
take_product(struct mw_operator_info *info, struct mw_work_product product)
{
    if (info->product_count < MW_OPERATOR_PRODUCTS_MAX) {
        info->products[info->product_count++] = product;
        return;
    }
    struct mw_work_product *last = &info->products[info->product_count - 1];
    double rows = (double)product.m * (double)product.n * (double)product.k *
                  (double)product.count / ((double)last->n * (double)last->k * (double)last->count);
    last->m = mw_saturating_add(last->m, (int64_t)(rows + 0.5));
}

/* With experts one grouped kernel computes the products of all that a rank has.  Where they are
 * spread over ranks, it has the tokens of as many ranks: as many as without, if experts are visited
 * evenly, and each expert more. */
static void
add_product(struct mw_operator_info *info, const struct mw_walk *walk,
            const struct mw_operator_parameter *parameter, bool joins)
{
    const int64_t *width = walk->dims.width;
    int64_t n = width[parameter->rows], k = width[parameter->columns], rows = walk->tokens;
    bool of_experts =
        parameter->kind == MW_PARAMETER_EXPERTS || parameter->kind == MW_PARAMETER_EXPERTS_TWIN;
    int64_t count = of_experts ? width[MW_WIDTH_EXPERTS_HERE] : 1;
    bool routes = parameter->rows == MW_WIDTH_EXPERTS;
    bool wide = routes && mw_dims_have(&walk->dims, MW_HAS(ROUTER_FP32));

    if (!n || !k)
        return;
    if (routes && width[MW_WIDTH_GROUPS]) { /* each group's gate, of the tokens that visit it */
        count = width[MW_WIDTH_GROUPS];
        rows = MW_PRODUCT(rows, width[MW_WIDTH_SENT] / width[MW_WIDTH_HIDDEN]);
        n /= count;
    }
    if (of_experts) {
        rows = walk->expert_rows;
        info->idle_flops = MW_SUM(info->idle_flops, MW_PRODUCT(2, rows - walk->filled_rows, n, k));
    }
    info->forward_flops = MW_SUM(info->forward_flops, MW_PRODUCT(2, rows, n, k));
    if (joins) {
        struct mw_work_product *last = &info->products[info->product_count - 1];
        last->n = MW_SUM(last->n, n);
        return;
    }
    take_product(info, (struct mw_work_product){.m = mw_divide_up(rows, count),
                                                .n = n,
                                                .k = k,
                                                .count = count,
                                                .dtype = wide ? MW_DTYPE_FP32 : walk->dtype});
    info->launches++;
}

/* Bytes of `forward` and `backward` passes over so many elements, on top of what an operator's row
 * has. */
static void
add_streamed(struct mw_operator_info *info, const struct mw_walk *walk, int64_t elements,
             int64_t forward, int64_t backward)
{
    int64_t once = MW_PRODUCT(walk->element_bytes[MW_ELEMENT_ACTIVATION], elements);

    info->forward_bytes = MW_SUM(info->forward_bytes, MW_PRODUCT(forward, once));
    info->backward_bytes = MW_SUM(info->backward_bytes, MW_PRODUCT(backward, once));
}

/* Every block of keys but a rank's own is a kernel more, and passes that add up what it gives:
 * results in forward, which are read with the sum and written (Transformer Engine,
 * context_parallel.py, flash_attn_fwd_out_correction), gradients of q, k and v in backward.  Ranks
 * have two chunks of a sequence, one from either end: of a later rank's block the mask hides half
 * of the queries, of an earlier one's half of the keys.  Counted are those of the last rank, which
 * all others wait for: all of its queries, half of the keys. */
static void
add_ring_passes(struct mw_operator_info *info, const struct mw_walk *walk)
{
    const int64_t *width = walk->dims.width;
    int64_t tokens = MW_PRODUCT(walk->cp - 1, walk->tokens);
    int64_t keys = MW_PRODUCT(tokens, MW_SUM(width[MW_WIDTH_KEYS], width[MW_WIDTH_VALUES])) / 2;
    int64_t sums = MW_PRODUCT(tokens, width[MW_WIDTH_HEADS], walk->element_bytes[MW_ELEMENT_FP32]);

    add_streamed(info, walk, MW_PRODUCT(tokens, width[MW_WIDTH_QUERIES]), 1, 2 + 3);
    add_streamed(info, walk, keys, 1, 2 + 3);
    add_streamed(info, walk, MW_PRODUCT(tokens, width[MW_WIDTH_ATTENDED]), 1 + 3, 2);
    info->forward_bytes = MW_SUM(info->forward_bytes, sums);
    info->backward_bytes = MW_SUM(info->backward_bytes, sums);
    info->launches += (uint32_t)(2 * (walk->cp - 1));
}

/* What goes through an all-to-all is copied into the order of ranks before it, and out of it behind
 * (DeepSpeed, sequence/layer.py, single_all_to_all): q, k, v, the result, and their gradients.
 * Flash attention's backward needs its result as it was computed, whole sequences of some heads,
 * and the projection that of its own tokens. */
static void
add_exchange_passes(struct mw_operator_info *info, const struct mw_walk *walk)
{
    const int64_t *width = walk->dims.width;
    int64_t result = MW_PRODUCT(walk->tokens, width[MW_WIDTH_ATTENDED]);
    int64_t inputs = MW_PRODUCT(walk->tokens, MW_SUM(width[MW_WIDTH_QUERIES], width[MW_WIDTH_KEYS],
                                                     width[MW_WIDTH_VALUES]));
    int64_t kept = MW_PRODUCT(walk->element_bytes[MW_ELEMENT_ACTIVATION], result);

    add_streamed(info, walk, MW_SUM(inputs, result), 4, 4);
    info->launches += 4 * 2;
    if (!mw_dims_have(&walk->dims, MW_HAS(FLASH_ATTENTION)))
        return;
    info->saved_bytes = MW_SUM(info->saved_bytes, kept);
    info->kept_bytes = MW_SUM(info->kept_bytes, kept);
}

static void
add_context(struct mw_operator_info *info, const struct mw_walk *walk)
{
    if (walk->cp == 1 || !mw_operator_row(info->operator_)->attends)
        return;
    if (walk->context == MW_CONTEXT_RING)
        add_ring_passes(info, walk);
    else
        add_exchange_passes(info, walk);
}

/* Q·K^T and the product with V, counted whole although the mask makes half of them idle: the
 * published formulas (12·nl·hd² with its sequence term, arXiv 2104.04473 Eq. 3) count them whole.
 * A batch of products, one per head and sequence.  Flash attention skips the keys outside a window,
 * and its backward forms the scores again; without it the scores are computed whole.  Of ranks that
 * share the tokens each has its part of the scores: in a ring as many blocks of its own tokens with
 * another rank's, else whole sequences of its part of the heads. */
void
mw_walk_add_attention(struct mw_operator_info *info, const struct mw_walk *walk)
{
    const int64_t *width = walk->dims.width;
    int64_t heads = width[MW_WIDTH_HEADS], batch = walk->cp * walk->tokens / walk->seq;
    int64_t head_dim = width[MW_WIDTH_HEAD], value_dim = width[MW_WIDTH_ATTENDED] / heads;
    bool flash = mw_dims_have(&walk->dims, MW_HAS(FLASH_ATTENTION));
    bool ring = walk->cp > 1 && walk->context == MW_CONTEXT_RING;
    int64_t keys = flash && walk->window ? walk->window : walk->seq;
    int64_t parts = walk->cp > 1 && !ring ? walk->cp : 1, blocks = ring ? walk->cp : 1;
    int64_t queries = walk->seq / blocks, of_block = keys / blocks;
    int64_t count = MW_PRODUCT(batch, heads / parts, blocks);
    int64_t scores = MW_PRODUCT(2, walk->tokens, keys, width[MW_WIDTH_QUERIES]);

    info->attention = (struct mw_work_attention){
        .queries = queries,
        .keys = walk->seq / blocks,
        .heads = heads / parts,
        .kv_heads = width[MW_WIDTH_KEYS] / head_dim / parts,
        .head_dim = head_dim,
        .value_dim = value_dim,
        .window = keys < walk->seq ? walk->window : 0,
        .causal = walk->causal,
    };
    info->products[0] = (struct mw_work_product){
        .m = queries, .n = of_block, .k = head_dim, .count = count, .dtype = walk->dtype};
    info->products[1] = (struct mw_work_product){
        .m = queries, .n = value_dim, .k = of_block, .count = count, .dtype = walk->dtype};
    info->product_count = 2;
    info->forward_flops =
        MW_SUM(scores, MW_PRODUCT(2, walk->tokens, keys, width[MW_WIDTH_ATTENDED]));
    if (flash) {
        info->products_again = 1;
        info->backward_flops = scores;
    } else if (mw_dims_have(&walk->dims, MW_HAS(SCORES_AGAIN))) {
        info->products_again = 2;
        info->backward_flops = info->forward_flops;
    }
}

static struct mw_work_product
gradient_of_input(const struct mw_work_product *p)
{
    return (struct mw_work_product){p->m, p->k, p->n, p->count, p->dtype, MW_PRODUCT_OF_INPUT};
}

static struct mw_work_product
gradient_of_weights(const struct mw_work_product *p)
{
    return (struct mw_work_product){p->n, p->k, p->m, p->count, p->dtype, MW_PRODUCT_OF_WEIGHTS};
}

uint32_t
mw_operator_backward_products(const struct mw_operator_info *info,
                              struct mw_work_product out[MW_WORK_PRODUCTS_MAX])
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < info->product_count; i++) {
        out[count++] = gradient_of_input(&info->products[i]);
        if (info->trained)
            out[count++] = gradient_of_weights(&info->products[i]);
    }
    for (uint32_t i = 0; i < info->products_again; i++)
        out[count++] = info->products[i];
    return count;
}

uint32_t
mw_operator_gradient_products(const struct mw_operator_info *info, bool of_weights,
                              struct mw_work_product out[MW_WORK_PRODUCTS_MAX])
{
    for (uint32_t i = 0; i < info->product_count; i++)
        out[i] = of_weights ? gradient_of_weights(&info->products[i])
                            : gradient_of_input(&info->products[i]);
    return info->product_count;
}

static bool
is_widened(const struct mw_operator_info *info)
{
    return !mw_dtype_row(info->weights)->computes;
}

uint32_t
mw_operator_backward_launches(const struct mw_operator_info *info)
{
    uint32_t once = info->trained ? 0 : info->product_count + is_widened(info);

    return 2 * info->launches - once;
}

static bool
is_joined(const struct mw_operator_parameter *parameter)
{
    return parameter->kind == MW_PARAMETER_MORE || parameter->kind == MW_PARAMETER_TWIN ||
           parameter->kind == MW_PARAMETER_EXPERTS_TWIN;
}

/* Computed in one product with the matrix before it, where that is there. */
static bool
joins_last(const struct mw_walk *walk, const struct mw_operator_parameter *parameter)
{
    const struct mw_operator_parameter *before = parameter - 1;

    if (!is_joined(parameter))
        return false;
    while (is_joined(before) && !mw_dims_have(&walk->dims, before->when))
        before--;
    return mw_dims_have(&walk->dims, before->when);
}

static bool
is_multiplied(const struct mw_operator_parameter *parameter)
{
    return parameter->columns && parameter->kind != MW_PARAMETER_TABLE &&
           parameter->kind != MW_PARAMETER_MORE_TABLE;
}

static void
add_products(struct mw_operator_info *info, const struct mw_walk *walk,
             const struct mw_operator_row *row)
{
    for (const struct mw_operator_parameter *p = row->parameters; p && p->kind; p++)
        if (is_multiplied(p) && mw_dims_have(&walk->dims, p->when))
            add_product(info, walk, p, joins_last(walk, p));
    if (row->attends)
        mw_walk_add_attention(info, walk);
}

/* Whether a pass keeps an operand of a product that is cast for it: backward multiplies the
 * gradient by what forward has cast (Transformer Engine, pytorch/module/linear.py, which saves the
 * input in fp8). */
static bool
is_kept_cast(const struct mw_walk *walk, int operator_, const struct mw_operator_pass *pass)
{
    return walk->product_dtype != MW_DTYPE_NONE && pass->of_weights &&
           pass->element == MW_ELEMENT_ACTIVATION && mw_operator_takes_fp8(operator_);
}

/* How what a pass keeps is stored; MW_ENCODING_COUNT: as it is.  Of ReLU backward needs the sign of
 * the inputs alone; its results are the inputs of MLP_DOWN's product. */
static int
encoding_of(const struct mw_walk *walk, int operator_, const struct mw_operator_pass *pass)
{
    if (pass->element != MW_ELEMENT_ACTIVATION || is_kept_cast(walk, operator_, pass))
        return MW_ENCODING_COUNT;
    if (walk->kept_as.relu_mask && operator_ == MW_OPERATOR_MLP_ACT)
        return MW_ENCODING_RELU_MASK;
    if (walk->kept_as.relu_sparsity > 0 && operator_ == MW_OPERATOR_MLP_DOWN &&
        pass->width == MW_WIDTH_INNER)
        return MW_ENCODING_SPARSE;
    return walk->kept_as.dtype == MW_DTYPE_MXFP8 ? MW_ENCODING_MXFP8 : MW_ENCODING_COUNT;
}

static bool
is_of_experts_rows(enum mw_width wide)
{
    return wide == MW_WIDTH_COPIES || wide == MW_WIDTH_SENT || wide == MW_WIDTH_RANK_COPIES ||
           wide == MW_WIDTH_INNER || wide == MW_WIDTH_UP;
}

/* Elements of so wide a tensor, where experts have so many rows. */
static int64_t
elements_of_rows(const struct mw_walk *walk, enum mw_width wide, int64_t rows)
{
    const int64_t *width = walk->dims.width;

    if (wide == MW_WIDTH_COPIES || wide == MW_WIDTH_RANK_COPIES)
        return MW_PRODUCT(rows, width[wide == MW_WIDTH_COPIES ? MW_WIDTH_HIDDEN : MW_WIDTH_RANK]);
    if (wide == MW_WIDTH_SENT) /* an expert's rows are those of its group */
        return MW_PRODUCT(rows / (width[MW_WIDTH_COPIES] / width[MW_WIDTH_SENT]),
                          width[MW_WIDTH_HIDDEN]);
    return MW_PRODUCT(wide == MW_WIDTH_UP ? walk->model->mlp_matrices - 1 : 1,
                      MW_SUM(MW_PRODUCT(walk->tokens, width[MW_WIDTH_FFN]),
                             MW_PRODUCT(rows, width[MW_WIDTH_EXPERT])));
}

/* Experts may have other rows than tokens visit. */
static int64_t
elements_of(const struct mw_walk *walk, enum mw_width wide)
{
    if (!walk->limited || !is_of_experts_rows(wide))
        return MW_PRODUCT(walk->tokens, walk->dims.width[wide]);
    return elements_of_rows(walk, wide, walk->expert_rows);
}

/* What is held of it: there is room for more rows than come on average. */
static int64_t
room_of(const struct mw_walk *walk, enum mw_width wide)
{
    if (walk->room_rows == walk->expert_rows || !is_of_experts_rows(wide))
        return elements_of(walk, wide);
    return elements_of_rows(walk, wide, walk->room_rows);
}

/* Whether slices send tokens of their own through this pass: to spread experts, and what comes back
 * is weighted.  Of the experts' products they have the inputs of all. */
static bool
is_sent(const struct mw_walk *walk, int operator_, const struct mw_operator_pass *pass)
{
    return mw_dims_have(&walk->dims, MW_HAS(EXPERTS_SPREAD)) && !pass->of_weights &&
           (pass->width == MW_WIDTH_COPIES || pass->width == MW_WIDTH_SENT ||
            pass->width == MW_WIDTH_GATED) &&
           !mw_operator_row(operator_)->part_of;
}

/* Elements of a pass.  With sequence parallelism (Korthikanti et al., arXiv 2205.05198,
 * Sec. 4.2.2) what is as wide as the hidden size is sliced too, by tokens: the passes over it, and
 * what is kept, Eq. 4. */
static int64_t
pass_elements(const struct mw_walk *walk, int operator_, const struct mw_operator_pass *pass)
{
    if (pass->width == MW_WIDTH_HIDDEN)
        return MW_PRODUCT(mw_divide_up(walk->tokens, walk->shares), walk->dims.width[pass->width]);
    int64_t elements = elements_of(walk, pass->width);
    bool counted = walk->whole_experts && is_of_experts_rows(pass->width); /* of a slice's tokens */
    return is_sent(walk, operator_, pass) && !counted ? mw_divide_up(elements, walk->shares)
                                                      : elements;
}

/* What a rank sends to experts is that of its own tokens; what comes there may be of all. */
static int64_t
kept_elements(const struct mw_walk *walk, int operator_, const struct mw_operator_pass *pass)
{
    if (pass->width == MW_WIDTH_HIDDEN || is_sent(walk, operator_, pass))
        return pass_elements(walk, operator_, pass);
    return room_of(walk, pass->width);
}

static void
add_kept(struct mw_operator_info *info, const struct mw_walk *walk,
         const struct mw_operator_pass *pass)
{
    int64_t element_bytes = is_kept_cast(walk, (int)info->operator_, pass)
                                ? mw_dtype_element_bytes(walk->product_dtype)
                                : walk->element_bytes[pass->element];
    int64_t elements = MW_PRODUCT(pass->kept, kept_elements(walk, (int)info->operator_, pass));
    int encoding = encoding_of(walk, (int)info->operator_, pass);
    double sparsity = walk->kept_as.relu_sparsity;

    if (!elements)
        return;
    if (info->trained && (pass->of_weights || pass->weights_too || pass->norms))
        info->inputs_bytes = MW_SUM(info->inputs_bytes, MW_PRODUCT(element_bytes, elements));
    if (info->trained && pass->norms)
        info->results_bytes = MW_SUM(info->results_bytes, MW_PRODUCT(element_bytes, elements));
    info->saved_bytes = MW_SUM(info->saved_bytes, MW_PRODUCT(element_bytes, elements));
    info->kept_bytes =
        MW_SUM(info->kept_bytes, mw_encoding_bytes(encoding, elements, element_bytes, sparsity));
    info->coded_bytes = MW_SUM(
        info->coded_bytes, mw_encoding_moved_bytes(encoding, elements, element_bytes, sparsity));
}

static void
add_passes(struct mw_operator_info *info, const struct mw_walk *walk,
           const struct mw_operator_row *row)
{
    for (const struct mw_operator_pass *pass = row->passes; pass->width; pass++) {
        int64_t once = MW_PRODUCT(walk->element_bytes[pass->element],
                                  pass_elements(walk, (int)info->operator_, pass));
        if (!mw_dims_have(&walk->dims, pass->when))
            continue;
        info->launches += pass->launches;
        info->forward_bytes = MW_SUM(info->forward_bytes, MW_PRODUCT(pass->forward, once));
        if (pass->of_weights && !info->trained)
            continue;
        if (pass->width == MW_WIDTH_SCORES && pass->kept)
            info->kept_scores = pass_elements(walk, (int)info->operator_, pass);
        info->backward_bytes = MW_SUM(info->backward_bytes, MW_PRODUCT(pass->backward, once));
        if (pass->of_weights)
            info->weight_bytes = MW_SUM(info->weight_bytes, MW_PRODUCT(pass->backward, once));
        add_kept(info, walk, pass);
    }
    for (int i = 0; i < MW_OPERATOR_OUTPUTS_MAX; i++)
        info->output_bytes =
            MW_SUM(info->output_bytes, MW_PRODUCT(walk->element_bytes[row->output_element],
                                                  room_of(walk, row->output[i])));
    if (info->trained && info->product_count && info->params)
        info->results_bytes = MW_SUM(info->results_bytes, info->output_bytes);
}

static bool
is_trained(const struct mw_walk *walk, const struct mw_operator_row *row, int operator_)
{
    bool tied = operator_ == MW_OPERATOR_LOGITS && !mw_dims_have(&walk->dims, MW_HAS(UNTIED));
    int named = row->part_of ? (int)row->part_of : operator_;

    return !row->parameters ||
           !(walk->trained.frozen >> (tied ? MW_OPERATOR_EMBEDDING : named) & 1);
}

/* Weights that nobody trains may be narrower: those of the products of layers (QLoRA,
 * arXiv 2305.14314, Sec. 3). */
static enum mw_dtype
weights_of(const struct mw_walk *walk, const struct mw_operator_row *row,
           const struct mw_operator_info *info)
{
    bool narrow = !info->trained && info->product_count && row->place == MW_PLACE_BLOCK;

    return narrow && walk->frozen_dtype != MW_DTYPE_NONE ? walk->frozen_dtype : walk->dtype;
}

/* A pass before forward, and one before backward, reads what is stored and writes what products
 * take. */
static void
add_widening(struct mw_operator_info *info, const struct mw_walk *walk)
{
    int64_t narrow = mw_dtype_bytes(info->weights, info->params);
    int64_t bytes =
        MW_SUM(narrow, MW_PRODUCT(walk->element_bytes[MW_ELEMENT_ACTIVATION], info->params));

    info->forward_bytes = MW_SUM(info->forward_bytes, bytes);
    info->backward_bytes = MW_SUM(info->backward_bytes, bytes);
    info->launches++;
}

/* Nothing comes before the head: frozen, it has no backward. */
static void
drop_backward(struct mw_operator_info *info)
{
    info->backward_flops = info->backward_bytes = info->saved_bytes = 0;
    info->kept_bytes = info->coded_bytes = info->inputs_bytes = info->results_bytes = 0;
}

struct mw_operator_info
mw_walk_operator(const struct mw_walk *walk, int operator_)
{
    return (struct mw_operator_info){.operator_ = (enum mw_operator)operator_,
                                     .trained =
                                         is_trained(walk, mw_operator_row(operator_), operator_)};
}

void
mw_walk_finish(struct mw_operator_info *info, const struct mw_walk *walk)
{
    const struct mw_operator_row *row = mw_operator_row(info->operator_);

    info->backward_flops =
        MW_SUM(info->backward_flops, MW_PRODUCT(info->trained ? 2 : 1, info->forward_flops));
    add_passes(info, walk, row);
    add_context(info, walk);
    info->weights = weights_of(walk, row, info);
    if (walk->product_dtype != MW_DTYPE_NONE && mw_operator_takes_fp8(info->operator_))
        for (uint32_t i = 0; i < info->product_count; i++)
            info->products[i].dtype = info->products[i].dtype == walk->dtype
                                          ? walk->product_dtype
                                          : info->products[i].dtype;
    if (is_widened(info))
        add_widening(info, walk);
    if (row->place == MW_PLACE_HEAD && !info->trained)
        drop_backward(info);
}

/* --- tensors that no row says ---------------------------------------------------------------- */

int64_t
mw_model_tensor_params(const struct mw_model_tensor *tensor)
{
    if (tensor->line.divisor)
        return tensor->elements;
    int64_t one = tensor->columns ? MW_PRODUCT(tensor->rows, tensor->columns) : tensor->rows;

    return MW_PRODUCT(tensor->count, MW_SUM(one, tensor->bias ? tensor->rows : 0));
}

/* Of a matrix that several operators share, each has a part: never more sides than elements. */
static int64_t
tensor_sides(const struct mw_model_tensor *tensor)
{
    int64_t params = mw_model_tensor_params(tensor);
    int64_t sides = MW_SUM(tensor->rows, tensor->columns, tensor->bias ? tensor->rows : 0);

    return tensor->columns ? MIN(params, MW_PRODUCT(tensor->count, sides)) : params;
}

static void
add_tensor(struct mw_operator_info *info, const struct mw_walk *walk,
           const struct mw_model_tensor *tensor)
{
    bool of_experts = walk->limited && tensor->met == walk->model->experts_per_token &&
                      tensor->met < walk->model->experts && tensor->met < tensor->count;
    int64_t rows = tensor->line.divisor
                       ? MW_PRODUCT(walk->sequences, mw_model_line_at(&tensor->line, walk->text))
                   : of_experts ? walk->expert_rows
                                : MW_PRODUCT(walk->tokens, tensor->met);

    info->params = MW_SUM(info->params, mw_model_tensor_params(tensor));
    info->sides = MW_SUM(info->sides, tensor_sides(tensor));
    if (!tensor->columns || tensor->table || !tensor->met || !rows)
        return;
    info->forward_flops =
        MW_SUM(info->forward_flops, MW_PRODUCT(2, rows, tensor->rows, tensor->columns));
    info->launches++;
    take_product(info, (struct mw_work_product){.m = MAX(1, mw_divide_up(rows, tensor->count)),
                                                .n = tensor->rows,
                                                .k = tensor->columns,
                                                .count = tensor->count,
                                                .dtype = walk->dtype});
}

/* A and B of a matrix; a vector has none, nor has what is narrower than they would be, such as a
 * gate of one row. */
static void
add_adapter(struct mw_operator_info *info, const struct mw_walk *walk,
            const struct mw_model_tensor *adapted)
{
    struct mw_model_tensor in = *adapted, out = *adapted;

    if (!adapted->columns || adapted->table ||
        MIN(adapted->rows, adapted->columns) < walk->trained.rank)
        return;
    in.rows = out.columns = walk->trained.rank;
    in.bias = out.bias = false;
    /* Where the matrix is another operator's, its adapter is too. */
    in.elements = adapted->elements ? MW_PRODUCT(in.count, in.rows, in.columns) : 0;
    out.elements = adapted->elements ? MW_PRODUCT(out.count, out.rows, out.columns) : 0;
    add_tensor(info, walk, &in);
    add_tensor(info, walk, &out);
}

void
mw_walk_add_tensor(struct mw_operator_info *info, const struct mw_walk *walk,
                   const struct mw_model_tensor *tensor)
{
    if (mw_operator_row(info->operator_)->adapts)
        add_adapter(info, walk, tensor);
    else
        add_tensor(info, walk, tensor);
}

int64_t
mw_walk_rank_max(const struct mw_walk *walk, int operator_)
{
    const struct mw_operator_row *row = mw_operator_row(operator_);
    int64_t most = INT64_MAX;

    for (const struct mw_operator_parameter *p = row->parameters;
         p && p->kind && !walk->model->described; p++) {
        int64_t side = walk->dims.width[p->rows == MW_WIDTH_RANK ? p->columns : p->rows];
        if (side && mw_dims_have(&walk->dims, p->when))
            most = MIN(most, side);
    }
    int64_t of_tensors = 0;
    for (int i = 0; i < walk->model->tensor_count; i++) {
        const struct mw_model_tensor *tensor = &walk->model->tensors[i];
        if (tensor->operator_ == row->adapts && !tensor->table)
            of_tensors = MAX(of_tensors, MIN(tensor->rows, tensor->columns));
    }
    return most < INT64_MAX || !of_tensors ? most : of_tensors;
}

int
mw_walk_tensors_of(int operator_)
{
    enum mw_operator adapted = mw_operator_row(operator_)->adapts;

    return adapted ? (int)adapted : operator_;
}

/* Of several of which a token meets some, each is an expert's: they lie where the experts do. */
static int
owner_of(const struct mw_model_tensor *tensor, const struct mw_walk *walk)
{
    if (!mw_dims_have(&walk->dims, MW_HAS(EXPERTS_SPREAD)) || tensor->met >= tensor->count)
        return tensor->operator_;
    return tensor->operator_ == MW_OPERATOR_MLP_UP     ? MW_OPERATOR_EXPERTS_UP
           : tensor->operator_ == MW_OPERATOR_MLP_DOWN ? MW_OPERATOR_EXPERTS_DOWN
                                                       : tensor->operator_;
}

static bool
is_of(const struct mw_model_tensor *tensor, const struct mw_walk *walk, int operator_)
{
    return owner_of(tensor, walk) == mw_walk_tensors_of(operator_) &&
           (tensor->stack == MW_STACK_ENDS || tensor->stack == MW_STACK_BLOCKS ||
            tensor->stack == (walk->experts ? MW_STACK_EXPERTS : MW_STACK_DENSE));
}

static bool
has_tensors(const struct mw_walk *walk, int operator_)
{
    for (int i = 0; i < walk->model->tensor_count; i++)
        if (is_of(&walk->model->tensors[i], walk, operator_))
            return true;
    return false;
}

static void
add_tensors(struct mw_operator_info *info, const struct mw_walk *walk)
{
    bool spread = mw_operator_row(info->operator_)->part_of != MW_OPERATOR_NONE;

    for (int i = 0; i < walk->model->tensor_count; i++) {
        struct mw_model_tensor tensor = walk->model->tensors[i];
        if (!is_of(&tensor, walk, info->operator_))
            continue;
        if (spread)
            tensor.count = (int32_t)walk->dims.width[MW_WIDTH_EXPERTS_HERE];
        mw_walk_add_tensor(info, walk, &tensor);
    }
}

int
mw_walk_place(const struct mw_walk *walk, enum mw_operator_place place,
              struct mw_operator_info out[MW_LAYER_OPERATORS_MAX])
{
    int count = 0;

    for (int i = 0; i < MW_OPERATOR_COUNT; i++) {
        const struct mw_operator_row *row = mw_operator_row(i);
        bool has = mw_dims_have(&walk->dims, row->when);
        if (row->place != place || !mw_dims_adapt(&walk->dims, row) ||
            (!has && !(row->parameters && has_tensors(walk, i))))
            continue;
        struct mw_operator_info *info = &out[count++];
        *info = mw_walk_operator(walk, i);
        if (has && !walk->model->described) {
            add_params(info, walk, row);
            add_products(info, walk, row);
        }
        add_tensors(info, walk);
        mw_walk_finish(info, walk);
    }
    return count;
}

/* --- blocks ---------------------------------------------------------------------------------- */

const struct mw_block_traits *
mw_block_traits(enum mw_block_kind kind)
{
    static const struct mw_block_traits traits[MW_BLOCK_KIND_COUNT] = {
        [MW_BLOCK_DENSE] = {.experts = false, .windowed = false},
        [MW_BLOCK_DENSE_WINDOWED] = {.experts = false, .windowed = true},
        [MW_BLOCK_EXPERTS] = {.experts = true, .windowed = false},
        [MW_BLOCK_EXPERTS_WINDOWED] = {.experts = true, .windowed = true},
    };

    return &traits[kind];
}

/* Of the first so many layers, those whose attention sees all keys. */
static int64_t
count_full(const struct mw_model *model, int64_t layers)
{
    if (!model->window)
        return layers;
    return model->window_period ? layers / model->window_period : 0;
}

/* Of the first so many layers; a model of more layers begins again. */
static int64_t
count_turns(const struct mw_model *model, enum mw_block_kind kind, int64_t layers)
{
    int64_t in_all = 0, in_rest = 0, rest = layers % model->turn_count;

    for (int64_t turn = 0; turn < model->turn_count; turn++) {
        in_all += model->turns[turn] == kind;
        in_rest += turn < rest && model->turns[turn] == kind;
    }
    return layers / model->turn_count * in_all + in_rest;
}

int64_t
mw_model_count_blocks(const struct mw_model *model, enum mw_block_kind kind, int64_t first,
                      int64_t end)
{
    const struct mw_block_traits *traits = mw_block_traits(kind);
    int64_t dense = model->experts ? model->dense_layers : model->layers;

    if (model->by_turns)
        return count_turns(model, kind, end) - count_turns(model, kind, first);
    if (model->mixed)
        return kind == MW_BLOCK_DENSE ? end - first : 0;
    if (traits->experts)
        first = CLAMP(dense, first, end);
    else
        end = CLAMP(dense, first, end);
    int64_t full = count_full(model, end) - count_full(model, first);
    return traits->windowed ? end - first - full : full;
}

/* Every window_period-th layer sees all keys. */
enum mw_block_kind
mw_model_block_kind(const struct mw_model *model, int64_t layer)
{
    if (model->by_turns)
        return (enum mw_block_kind)model->turns[layer % model->turn_count];
    bool experts = model->experts && !model->mixed && layer >= model->dense_layers;
    bool windowed = model->window && !model->mixed &&
                    !(model->window_period && (layer + 1) % model->window_period == 0);

    if (experts)
        return windowed ? MW_BLOCK_EXPERTS_WINDOWED : MW_BLOCK_EXPERTS;
    return windowed ? MW_BLOCK_DENSE_WINDOWED : MW_BLOCK_DENSE;
}

int
mw_model_block(const struct mw_model *model, enum mw_block_kind kind, const struct mw_shape *shape,
               struct mw_operator_info out[MW_LAYER_OPERATORS_MAX])
{
    if (model->mixed)
        return mw_mixed_block(model, kind, shape, out);
    struct mw_walk walk = mw_walk_begin(model, shape, *mw_block_traits(kind));

    return mw_walk_place(&walk, MW_PLACE_BLOCK, out);
}

int
mw_model_layer(const struct mw_model *model, int64_t layer, const struct mw_shape *shape,
               struct mw_operator_info out[MW_LAYER_OPERATORS_MAX])
{
    return mw_model_block(model, mw_model_block_kind(model, layer), shape, out);
}

static int
walk_end(const struct mw_model *model, const struct mw_shape *shape, enum mw_operator_place place,
         struct mw_operator_info out[MW_LAYER_OPERATORS_MAX])
{
    struct mw_walk walk = mw_walk_begin(model, shape, (struct mw_block_traits){0});

    return mw_walk_place(&walk, place, out);
}

int
mw_model_head(const struct mw_model *model, const struct mw_shape *shape,
              struct mw_operator_info out[MW_LAYER_OPERATORS_MAX])
{
    return walk_end(model, shape, MW_PLACE_HEAD, out);
}

int
mw_model_tail(const struct mw_model *model, const struct mw_shape *shape,
              struct mw_operator_info out[MW_LAYER_OPERATORS_MAX])
{
    return walk_end(model, shape, MW_PLACE_TAIL, out);
}

static int64_t
count_params(const struct mw_operators *operators)
{
    int64_t params = 0;

    for (int i = 0; i < operators->count; i++)
        params = MW_SUM(params, operators->info[i].params);
    return params;
}

int64_t
mw_model_copying_tail(const struct mw_model *model, const struct mw_shape *shape,
                      struct mw_operators *out)
{
    g_autofree struct mw_model *apart = g_memdup2(model, sizeof *model);
    struct mw_shape with = *shape;
    struct mw_operators tied;
    uint32_t logits = 1u << MW_OPERATOR_LOGITS;
    bool frozen = shape->trained.frozen >> MW_OPERATOR_EMBEDDING & 1;

    apart->tied_embedding = false;
    with.trained.frozen = frozen ? with.trained.frozen | logits : with.trained.frozen & ~logits;
    tied.count = mw_model_tail(model, shape, tied.info);
    out->count = mw_model_tail(apart, &with, out->info);
    return count_params(out) - count_params(&tied);
}

void
mw_model_walk(const struct mw_model *model, const struct mw_shape *shape, struct mw_model_walk *out)
{
    out->head.count = mw_model_head(model, shape, out->head.info);
    out->tail.count = mw_model_tail(model, shape, out->tail.info);
    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++) {
        struct mw_operators *block = &out->blocks[kind];
        bool present = mw_model_count_blocks(model, (enum mw_block_kind)kind, 0, model->layers);
        block->count =
            present ? mw_model_block(model, (enum mw_block_kind)kind, shape, block->info) : 0;
    }
}

/* --- comparing -------------------------------------------------------------------------------- */

/* Of the bytes from one field up to another. */
#define SAME(one, other, from, to)                                                                 \
    (!memcmp(&(one)->from, &(other)->from,                                                         \
             offsetof(struct mw_model, to) - offsetof(struct mw_model, from)))
#define SAME_ROWS(one, other, rows, count)                                                         \
    (!memcmp((one)->rows, (other)->rows, (size_t)(one)->count * sizeof *(one)->rows))

/* Most rows of its tables are not used: a model has 60 KB. */
bool
mw_model_is_same(const struct mw_model *one, const struct mw_model *other)
{
    return SAME(one, other, name, turns) && SAME(one, other, mixed_layers, stacks) &&
           SAME(one, other, described, mixes) && SAME(one, other, stored_as, why_not) &&
           SAME_ROWS(one, other, turns, turn_count) && SAME_ROWS(one, other, stacks, stack_count) &&
           SAME_ROWS(one, other, tensors, tensor_count) && SAME_ROWS(one, other, mixes, mix_count);
}
