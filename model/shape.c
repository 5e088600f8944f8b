/* Checks that a shape suits a model, and that the sums over a step fit int64. */
#include <string.h>

#include "base/error.h"
#include "model/internal.h"
#include "model/walk.h"

/* The limit of the FLOPs of a step.  Bytes have an eighth of it, because a plan adds up more of
 * them. */
#define TOTAL_MAX (INT64_MAX / 2)
#define BYTES_ROOM 8

static bool G_GNUC_PRINTF(5, 6) refuse(const struct mw_model *model, const char *key, int64_t value,
                                       GError **error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree char *accepted = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    return mw_refuse(error, "model %s: %s: value %" G_GINT64_FORMAT ": must %s", model->name, key,
                     value, accepted);
}

static bool
check_tp(const struct mw_model *model, int64_t tp, GError **error)
{
    if (tp > 1 && (model->mixed || model->tensor_count))
        return refuse(model, "tp", tp, error,
                      "be 1: how tensor slices share layers of this type is not known here");
    if (tp < 1 || model->heads % tp)
        return refuse(model, "tp", tp, error, "divide the heads (%" G_GINT64_FORMAT ")",
                      model->heads);
    if (model->kv_heads % tp && tp % model->kv_heads)
        return refuse(model, "tp", tp, error,
                      "divide the key and value heads (%" G_GINT64_FORMAT ") or be divided by them",
                      model->kv_heads);
    if ((model->dense_layers || !model->experts) && model->ffn % tp)
        return refuse(model, "tp", tp, error, "divide the MLP's width (%" G_GINT64_FORMAT ")",
                      model->ffn);
    if (model->experts && (model->expert_ffn % tp || model->shared_expert_ffn % tp))
        return refuse(model, "tp", tp, error, "divide the experts' width (%" G_GINT64_FORMAT ")",
                      model->expert_ffn);
    return true;
}

bool
mw_model_can_spread(const struct mw_model *model)
{
    for (int i = 0; i < model->tensor_count; i++) {
        const struct mw_model_tensor *tensor = &model->tensors[i];
        bool of_mlp =
            tensor->operator_ == MW_OPERATOR_MLP_UP || tensor->operator_ == MW_OPERATOR_MLP_DOWN;
        if (tensor->met < tensor->count && (!of_mlp || tensor->count != model->experts))
            return false;
    }
    return model->experts > 1 && !model->stack_count && !model->described &&
           (!model->mixed || model->by_turns);
}

bool
mw_model_can_share(const struct mw_model *model)
{
    return !model->stack_count && !model->described && (!model->mixed || model->by_turns);
}

/* An adapter of a larger rank has more parameters than what it adapts. */
static bool
check_rank(const struct mw_model *model, const struct mw_shape *shape, GError **error)
{
    static const struct mw_block_traits dense, mixture = {.experts = true};
    struct mw_shape whole = *shape;
    int64_t least = INT64_MAX;
    enum mw_operator of = MW_OPERATOR_NONE;

    whole.tp = 1;
    for (int operator_ = 0; operator_ < MW_OPERATOR_COUNT && shape->trained.rank; operator_++) {
        enum mw_operator adapted = mw_operator_row(operator_)->adapts;
        if (!adapted || !(shape->trained.adapted >> adapted & 1))
            continue;
        struct mw_walk walk =
            mw_walk_begin(model, &whole, model->experts && !model->mixed ? mixture : dense);
        int64_t most = mw_walk_rank_max(&walk, operator_);
        of = most < least ? adapted : of;
        least = MIN(most, least);
    }
    return shape->trained.rank <= least ||
           mw_refuse(error,
                     "{train=lora:%" G_GINT64_FORMAT "}: in model %s a matrix of %s has a side of "
                     "%" G_GINT64_FORMAT ", and a rank is at most that; give "
                     "{train=lora:%" G_GINT64_FORMAT "} or less",
                     shape->trained.rank, model->name, mw_operator_name((int)of), least, least);
}

/* Of tensors that no row of operators says, which matrix one is nobody knows. */
static bool
has_tensors(const struct mw_model *model, enum mw_operator operator_)
{
    for (int i = 0; i < model->tensor_count; i++)
        if (model->tensors[i].operator_ == operator_ && model->tensors[i].columns)
            return true;
    return model->described;
}

/* "c_attn", the name of a module that holds several matrices.  g_free it. */
static char *
module_of(const struct mw_model *model, enum mw_operator operator_)
{
    const struct mw_family *family = model->family;
    enum mw_weight_role role = operator_ == MW_OPERATOR_QKV ? MW_WEIGHT_Q : MW_WEIGHT_UP;
    const char *fused = operator_ == MW_OPERATOR_QKV ? family->fused_qkv : family->fused_gate;
    const char *tensor = family->run.tensors ? family->run.tensors->of[role] : NULL;

    if (fused || !tensor)
        return g_strdup(fused);
    g_autofree char *path = g_strndup(tensor, strlen(tensor) - strlen(".weight"));
    const char *last = strrchr(path, '.');
    return g_strdup(last ? last + 1 : path);
}

/* Why not each of an operator's matrices can have an adapter or none; NULL: it can.  g_free it. */
static char *
why_not_apart(const struct mw_model *model, const struct mw_operator_dims *dims,
              enum mw_operator operator_)
{
    bool qkv = operator_ == MW_OPERATOR_QKV;
    mw_features apart =
        qkv ? MW_HAS(PLAIN_ATTENTION) | MW_HAS(QKV_APART) : MW_HAS(GATE) | MW_HAS(UP_APART);

    if (has_tensors(model, operator_))
        return g_strdup("has layers whose matrices are not told apart here");
    if (mw_dims_have(dims, apart))
        return NULL;
    if (qkv && !mw_dims_have(dims, MW_HAS(PLAIN_ATTENTION)))
        return g_strdup("has latent attention, with other matrices than q, k and v");
    if (!qkv && !mw_dims_have(dims, MW_HAS(GATE)))
        return g_strdup("has no gate beside up");
    g_autofree char *module = module_of(model, operator_);
    return g_strdup_printf("has %s in one matrix, %s, which has one adapter or none",
                           qkv ? "q, k and v" : "gate and up", module);
}

/* Adapters of some matrices of an operator. */
static bool
check_targets(const struct mw_model *model, const struct mw_shape *shape, GError **error)
{
    static const struct mw_block_traits dense, mixture = {.experts = true};
    static const uint32_t gate = UINT32_C(1) << MW_TARGET_GATE;
    struct mw_walk walk;

    if (!shape->trained.rank || !shape->trained.bare)
        return true;
    walk = mw_walk_begin(model, shape, model->experts && !model->mixed ? mixture : dense);
    for (int i = 0; i < MW_OPERATOR_COUNT; i++) {
        uint32_t bare = shape->trained.bare & mw_targets_of(i);
        g_autofree char *why = bare ? why_not_apart(model, &walk.dims, (enum mw_operator)i) : NULL;
        bool ungated = bare == gate && !mw_dims_have(&walk.dims, MW_HAS(GATE));
        if (why && !ungated)
            return mw_refuse(error,
                             "{train}: adapters of some matrices of %s: model %s %s: give "
                             "{train=lora:%" G_GINT64_FORMAT "@%s}",
                             mw_operator_name(i), model->name, why, shape->trained.rank,
                             mw_operator_name(i));
    }
    return true;
}

/* What a convolution with strides makes of a short sequence may be nothing. */
static bool
check_rows(const struct mw_model *model, int64_t seq, GError **error)
{
    for (int i = 0; i < model->stack_count; i++) {
        const struct mw_model_stack *stack = &model->stacks[i];
        if (model->described && stack->layers && mw_model_line_at(&stack->line, seq) < 1)
            return refuse(model, "seq", seq, error, "be longer: some layer would have no token");
    }
    return true;
}

/* The FLOPs of one operator in forward, recompute and backward, or its bytes times BYTES_ROOM. */
static int64_t
largest_sum(const struct mw_operator_info *info)
{
    int64_t flops = MW_SUM(MW_PRODUCT(2, info->forward_flops), info->backward_flops);
    int64_t bytes = MW_SUM(MW_PRODUCT(2, info->forward_bytes), info->backward_bytes,
                           info->saved_bytes, info->output_bytes);

    return MAX(flops, MW_PRODUCT(BYTES_ROOM, bytes));
}

static int64_t
sum_operators(const struct mw_operators *operators)
{
    int64_t sum = 0;

    for (int i = 0; i < operators->count; i++)
        sum = mw_saturating_add(sum, largest_sum(&operators->info[i]));
    return sum;
}

static int64_t
total(const struct mw_model *model, const struct mw_model_walk *walk)
{
    int64_t largest = 0;

    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++) {
        int64_t block = sum_operators(&walk->blocks[kind]);
        largest = MAX(largest, block);
    }
    return MW_SUM(MW_PRODUCT(model->layers, largest), sum_operators(&walk->head),
                  sum_operators(&walk->tail));
}

static bool
is_too_large(const struct mw_model *model, struct mw_shape shape, int64_t sequences, int64_t seq)
{
    struct mw_model_walk walk;

    shape.sequences = sequences;
    shape.seq = seq;
    mw_model_walk(model, &shape, &walk);
    return total(model, &walk) > TOTAL_MAX;
}

/* Sizes that are 0 leave a model without layers that compute anything. */
static bool
check_products(const struct mw_model *model, const struct mw_model_walk *walk, GError **error)
{
    int64_t flops = 0;

    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++)
        for (int i = 0; i < walk->blocks[kind].count; i++)
            flops = MW_SUM(flops, walk->blocks[kind].info[i].forward_flops);
    return flops > 0 || mw_refuse(error,
                                  "model %s: none of its layers has a matrix: some size of them "
                                  "is 0, and must be at least 1",
                                  model->name);
}

/* The error names the length if a single sequence is too large, or if sequences of the model's own
 * length would fit. */
static bool
refuse_total(const struct mw_model *model, const struct mw_shape *shape, GError **error)
{
    static const char too_large[] = "be smaller: the FLOPs or bytes of a step do not fit 64 bits";
    bool longer =
        shape->seq > model->seq && !is_too_large(model, *shape, shape->sequences, model->seq);

    return longer || is_too_large(model, *shape, 1, shape->seq)
               ? refuse(model, "seq", shape->seq, error, "%s", too_large)
               : refuse(model, "batch", shape->sequences, error, "%s", too_large);
}

bool
mw_model_walk_checked(const struct mw_model *model, const struct mw_shape *shape,
                      struct mw_model_walk *walk, GError **error)
{
    if (shape->sequences < 1)
        return refuse(model, "batch", shape->sequences, error, "be at least 1");
    if (shape->seq < 1)
        return refuse(model, "seq", shape->seq, error, "be at least 1");
    if (model->position_rows && shape->seq > model->seq)
        return refuse(model, "seq", shape->seq, error,
                      "be at most %" G_GINT64_FORMAT ", the model's learned positions", model->seq);
    if (!check_tp(model, shape->tp, error) || !check_rows(model, shape->seq, error) ||
        !check_targets(model, shape, error) || !check_rank(model, shape, error))
        return false;
    mw_model_walk(model, shape, walk);
    if (total(model, walk) > TOTAL_MAX)
        return refuse_total(model, shape, error);
    return check_products(model, walk, error);
}

bool
mw_model_validate_shape(const struct mw_model *model, const struct mw_shape *shape, GError **error)
{
    struct mw_model_walk walk;

    return mw_model_walk_checked(model, shape, &walk, error);
}
