/*
 * The layers of a model that has several kinds of them, in turns that a plan does not follow:
 * hybrid decoders, encoders with decoders, towers of other widths.  Parameters are sums over the
 * layers.  A plan has as many layers, each of its own kind where the model says which is of which,
 * else the mean of all (docs/MODEL.md, 3).
 */
#include "model/walk.h"

#include "base/arithmetic.h"

/* What some of the layers add to the mean. */
struct share {
    const struct mw_operator_info *info;
    int64_t layers, distinct;
};

struct mean {
    struct mw_operator_info sum;
    bool there;
    int64_t most; /* FLOPs of the share whose products stand for all */
};

static bool
is_in_stack(const struct mw_model_tensor *tensor, int stack, int operator_)
{
    return tensor->stack == stack && (!operator_ || tensor->operator_ == operator_);
}

/* --- a stack's layer ------------------------------------------------------------------------- */

/* Outputs of the products of one operator for a token, or inputs of them. */
static int64_t
sum_widths(const struct mw_model *model, int stack, int operator_, bool inputs)
{
    int64_t sum = 0;

    for (int i = 0; i < model->tensor_count; i++) {
        const struct mw_model_tensor *tensor = &model->tensors[i];
        if (is_in_stack(tensor, stack, operator_) && tensor->columns && !tensor->table)
            sum = MW_SUM(sum, MW_PRODUCT(tensor->met, inputs ? tensor->columns : tensor->rows));
    }
    return sum;
}

/* A layer without attention has something that runs along the sequence (a scan, a convolution): one
 * kernel that reads what the products put out and writes what the next one takes, as flash
 * attention does.  Its own arithmetic is not counted. */
static struct mw_walk
begin_stack(const struct mw_model *model, const struct mw_shape *shape, int number)
{
    const struct mw_model_stack *stack = &model->stacks[number];
    struct mw_shape own = *shape;

    own.seq = stack->line.divisor ? MAX(1, mw_model_line_at(&stack->line, shape->seq))
              : stack->tokens     ? stack->tokens
                                  : shape->seq;
    own.flash_attention |= !stack->heads;
    struct mw_walk walk = mw_walk_begin(model, &own, (struct mw_block_traits){0});
    int64_t *width = walk.dims.width;
    int64_t inner = sum_widths(model, number, MW_OPERATOR_MLP_DOWN, true);

    walk.text = shape->seq;
    walk.window = stack->window < own.seq ? stack->window : 0;
    walk.causal = stack->causal;
    walk.dims.features &= MW_HAS(FLASH_ATTENTION) | MW_HAS(STORED_SCORES) | MW_HAS(KEPT_SCORES) |
                          MW_HAS(SCORES_AGAIN) | MW_HAS(NARROW) | MW_HAS(CAST_PRODUCTS) |
                          MW_HAS(DROPOUT) | MW_HAS(ROTARY);
    walk.dims.features |=
        MW_HAS(PLAIN_ATTENTION) | MW_HAS(MLP_KEEPS_INPUT) | MW_HAS(QKV_APART) | MW_HAS(DENSE_MLP);
    width[MW_WIDTH_HIDDEN] = stack->hidden;
    width[MW_WIDTH_HEAD] = stack->head_dim;
    width[MW_WIDTH_HEADS] = stack->heads;
    width[MW_WIDTH_QUERIES] = MW_PRODUCT(stack->heads, stack->head_dim);
    width[MW_WIDTH_KEYS] = width[MW_WIDTH_VALUES] = MW_PRODUCT(stack->kv_heads, stack->head_dim);
    width[MW_WIDTH_ATTENDED] = width[MW_WIDTH_QUERIES];
    width[MW_WIDTH_SCORES] = MW_PRODUCT(stack->heads, own.seq);
    if (!stack->heads) {
        width[MW_WIDTH_QUERIES] = sum_widths(model, number, MW_OPERATOR_QKV, false);
        width[MW_WIDTH_ATTENDED] = sum_widths(model, number, MW_OPERATOR_PROJECTION, true);
    }
    if (stack->heads && model->described)
        mw_described_widths(&walk, number);
    width[MW_WIDTH_INNER] = inner;
    width[MW_WIDTH_UP] = sum_widths(model, number, MW_OPERATOR_MLP_UP, false);
    return walk;
}

static bool
has_operator(const struct mw_model *model, int stack, int operator_)
{
    int wanted = operator_ == MW_OPERATOR_ATTENTION ? MW_OPERATOR_PROJECTION
                 : operator_ == MW_OPERATOR_MLP_ACT ? MW_OPERATOR_MLP_UP
                                                    : operator_;

    if (model->described && operator_ == MW_OPERATOR_ATTENTION)
        return mw_described_mixes(model, stack);
    for (int i = 0; i < model->tensor_count; i++)
        if (is_in_stack(&model->tensors[i], stack, wanted))
            return true;
    return false;
}

static void
attend(struct mw_operator_info *info, const struct mw_walk *walk,
       const struct mw_model_stack *stack)
{
    mw_walk_add_attention(info, walk);
    for (uint32_t i = 0; i < info->product_count; i++)
        info->products[i].count = MW_PRODUCT(stack->attentions, info->products[i].count);
    info->forward_flops = MW_PRODUCT(stack->attentions, info->forward_flops);
    info->backward_flops = MW_PRODUCT(stack->attentions, info->backward_flops);
}

static int
walk_stack(const struct mw_model *model, const struct mw_shape *shape, int number,
           struct mw_operator_info out[MW_LAYER_OPERATORS_MAX])
{
    const struct mw_model_stack *stack = &model->stacks[number];
    struct mw_walk walk = begin_stack(model, shape, number);
    int count = 0;

    for (int operator_ = 0; operator_ < MW_OPERATOR_COUNT; operator_++) {
        const struct mw_operator_row *row = mw_operator_row(operator_);
        int of = mw_walk_tensors_of(operator_);
        if (row->place != MW_PLACE_BLOCK || !mw_dims_adapt(&walk.dims, row) ||
            !has_operator(model, number, of))
            continue;
        struct mw_operator_info *info = &out[count++];
        *info = mw_walk_operator(&walk, operator_);
        for (int i = 0; i < model->tensor_count; i++)
            if (is_in_stack(&model->tensors[i], number, of))
                mw_walk_add_tensor(info, &walk, &model->tensors[i]);
        if (operator_ == MW_OPERATOR_ATTENTION && model->described)
            mw_described_attend(info, &walk, number);
        else if (operator_ == MW_OPERATOR_ATTENTION && stack->heads)
            attend(info, &walk, stack);
        mw_walk_finish(info, &walk);
    }
    return count;
}

/* --- the mean -------------------------------------------------------------------------------- */

static void
add_share(struct mean means[MW_OPERATOR_COUNT], struct share share)
{
    const struct mw_operator_info *info = share.info;
    struct mean *mean = &means[info->operator_];
    struct mw_operator_info *sum = &mean->sum;
    int64_t flops = MW_PRODUCT(share.layers, info->forward_flops);
    struct mw_operator_info before = *sum;

    if (!mean->there || flops > mean->most) {
        *sum = *info;
        mean->most = flops;
    }
    mean->there = true;
    sum->params = MW_SUM(before.params, MW_PRODUCT(share.distinct, info->params));
    sum->sides = MW_SUM(before.sides, MW_PRODUCT(share.distinct, info->sides));
    sum->forward_flops = MW_SUM(before.forward_flops, flops);
    sum->backward_flops =
        MW_SUM(before.backward_flops, MW_PRODUCT(share.layers, info->backward_flops));
    sum->forward_bytes =
        MW_SUM(before.forward_bytes, MW_PRODUCT(share.layers, info->forward_bytes));
    sum->backward_bytes =
        MW_SUM(before.backward_bytes, MW_PRODUCT(share.layers, info->backward_bytes));
    sum->weight_bytes = MW_SUM(before.weight_bytes, MW_PRODUCT(share.layers, info->weight_bytes));
    sum->saved_bytes = MW_SUM(before.saved_bytes, MW_PRODUCT(share.layers, info->saved_bytes));
    sum->kept_scores = MW_SUM(before.kept_scores, MW_PRODUCT(share.layers, info->kept_scores));
    sum->kept_bytes = MW_SUM(before.kept_bytes, MW_PRODUCT(share.layers, info->kept_bytes));
    sum->coded_bytes = MW_SUM(before.coded_bytes, MW_PRODUCT(share.layers, info->coded_bytes));
    sum->inputs_bytes = MW_SUM(before.inputs_bytes, MW_PRODUCT(share.layers, info->inputs_bytes));
    sum->results_bytes =
        MW_SUM(before.results_bytes, MW_PRODUCT(share.layers, info->results_bytes));
    sum->output_bytes = MAX(before.output_bytes, info->output_bytes);
    sum->launches = MAX(before.launches, info->launches);
}

/* Products of the same sides, for so many tokens that their FLOPs are the mean. */
static void
fit_products(struct mw_operator_info *info)
{
    double flops = 0;

    for (uint32_t i = 0; i < info->product_count; i++) {
        const struct mw_work_product *p = &info->products[i];
        flops += 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->count;
    }
    for (uint32_t i = 0; i < info->product_count; i++) {
        double m = (double)info->products[i].m * (double)info->forward_flops / flops;
        info->products[i].m = MAX(1, (int64_t)(m + 0.5));
    }
}

static void
divide(struct mw_operator_info *info, int64_t layers)
{
    int64_t *const sums[] = {&info->params,        &info->forward_flops,  &info->backward_flops,
                             &info->forward_bytes, &info->backward_bytes, &info->saved_bytes,
                             &info->kept_scores,   &info->kept_bytes,     &info->coded_bytes,
                             &info->sides,         &info->weight_bytes,   &info->inputs_bytes,
                             &info->results_bytes};

    for (size_t i = 0; i < G_N_ELEMENTS(sums); i++)
        *sums[i] = mw_divide_up(*sums[i], layers);
    fit_products(info);
}

/* Of layers of which some attend and others scan, one product stands for all: backward forms again
 * what that one does. */
static void
fit_backward(struct mw_operator_info *info)
{
    double again = 0;

    for (uint32_t i = 0; i < info->products_again; i++) {
        const struct mw_work_product *p = &info->products[i];
        again += 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->count;
    }
    again = MIN(again, (double)info->forward_flops);
    info->backward_flops = MW_SUM(MW_PRODUCT(2, info->forward_flops), (int64_t)again);
}

static int
common_block(const struct mw_model *model, int kind, const struct mw_shape *shape,
             struct mw_operator_info out[MW_LAYER_OPERATORS_MAX])
{
    struct mw_walk walk = mw_walk_begin(model, shape, *mw_block_traits((enum mw_block_kind)kind));

    return mw_walk_place(&walk, MW_PLACE_BLOCK, out);
}

static int
mean_block(const struct mw_model *model, const struct mw_shape *shape,
           struct mw_operator_info out[MW_LAYER_OPERATORS_MAX])
{
    struct mean means[MW_OPERATOR_COUNT] = {0};
    struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];
    int count = 0;

    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++) {
        int64_t layers = model->mixed_layers[kind];
        int operators = layers ? common_block(model, kind, shape, info) : 0;
        for (int i = 0; i < operators; i++)
            add_share(means, (struct share){&info[i], layers, layers});
    }
    for (int stack = 0; stack < model->stack_count; stack++) {
        const struct mw_model_stack *of = &model->stacks[stack];
        int operators = of->layers || of->distinct ? walk_stack(model, shape, stack, info) : 0;
        for (int i = 0; i < operators; i++)
            add_share(means, (struct share){&info[i], of->layers, of->distinct});
    }
    for (int i = 0; i < MW_OPERATOR_COUNT; i++)
        if (means[i].there) {
            divide(&means[i].sum, model->layers);
            if (model->described && i == MW_OPERATOR_ATTENTION)
                fit_backward(&means[i].sum);
            out[count++] = means[i].sum;
        }
    return count;
}

int
mw_mixed_block(const struct mw_model *model, enum mw_block_kind kind, const struct mw_shape *shape,
               struct mw_operator_info out[MW_LAYER_OPERATORS_MAX])
{
    if (!model->by_turns)
        return mean_block(model, shape, out);
    return model->stack_count ? walk_stack(model, shape, (int)kind, out)
                              : common_block(model, kind, shape, out);
}

/* --- parameters ------------------------------------------------------------------------------ */

static int64_t
common_params(const struct mw_model *model, int kind, bool met)
{
    static const struct mw_shape one_token = {.sequences = 1, .seq = 1, .tp = 1};
    const struct mw_block_traits *traits = mw_block_traits((enum mw_block_kind)kind);
    struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];
    int count = common_block(model, kind, &one_token, info);
    int64_t params = 0, idle = model->experts - model->experts_per_token;

    for (int i = 0; i < count; i++)
        params = MW_SUM(params, info[i].params);
    return params - (met && traits->experts
                         ? MW_PRODUCT(idle, model->mlp_matrices, model->hidden, model->expert_ffn)
                         : 0);
}

int64_t
mw_mixed_params(const struct mw_model *model, bool met)
{
    int64_t params = 0;

    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++)
        if (model->mixed_layers[kind])
            params = MW_SUM(params,
                            MW_PRODUCT(model->mixed_layers[kind], common_params(model, kind, met)));
    for (int i = 0; i < model->tensor_count; i++) {
        struct mw_model_tensor tensor = model->tensors[i];
        if (tensor.stack >= MW_STACKS_MAX)
            continue;
        if (met && tensor.line.divisor)
            tensor.elements = tensor.elements / tensor.count * tensor.met;
        tensor.count = met ? tensor.met : tensor.count;
        params = MW_SUM(params, MW_PRODUCT(model->stacks[tensor.stack].distinct,
                                           mw_model_tensor_params(&tensor)));
    }
    return params;
}
