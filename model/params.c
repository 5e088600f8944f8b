/* Parameter counts: sums over the operators of the walk. */
#include "model/internal.h"
#include "model/walk.h"

static const struct mw_shape one_token = {.sequences = 1, .seq = 1, .tp = 1};

static int64_t
sum_params(const struct mw_operator_info *info, int count)
{
    int64_t params = 0;

    for (int i = 0; i < count; i++)
        params = mw_saturating_add(params, info[i].params);
    return params;
}

int64_t
mw_model_layer_params(const struct mw_model *model, int64_t layer)
{
    struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];

    return sum_params(info, mw_model_layer(model, layer, &one_token, info));
}

static int64_t
end_params(const struct mw_model *model)
{
    struct mw_operator_info head[MW_LAYER_OPERATORS_MAX], tail[MW_LAYER_OPERATORS_MAX];
    int64_t first = sum_params(head, mw_model_head(model, &one_token, head));

    return mw_saturating_add(first, sum_params(tail, mw_model_tail(model, &one_token, tail)));
}

static int64_t
blocks_of(const struct mw_model *model, int kind)
{
    return mw_model_count_blocks(model, (enum mw_block_kind)kind, 0, model->layers);
}

static int64_t
params_of(const struct mw_model *model, const struct mw_shape *shape)
{
    int64_t params = end_params(model);

    if (model->mixed && !model->by_turns)
        return MW_SUM(params, mw_mixed_params(model, false));
    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++) {
        struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];
        int count = mw_model_block(model, (enum mw_block_kind)kind, shape, info);
        params = MW_SUM(params, MW_PRODUCT(blocks_of(model, kind), sum_params(info, count)));
    }
    return params;
}

int64_t
mw_model_params(const struct mw_model *model)
{
    return params_of(model, &one_token);
}

int64_t
mw_model_gate_params(const struct mw_model *model, enum mw_gating gate)
{
    struct mw_shape shape = one_token;

    shape.gate = gate;
    return params_of(model, &shape);
}

static int64_t
sum_trained(const struct mw_operators *operators)
{
    int64_t params = 0;

    for (int i = 0; i < operators->count; i++)
        params = MW_SUM(params, operators->info[i].trained ? operators->info[i].params : 0);
    return params;
}

int64_t
mw_model_trained_params(const struct mw_model *model, const struct mw_trained *trained,
                        enum mw_gating gate)
{
    struct mw_shape shape = one_token;
    struct mw_model_walk walk;

    shape.trained = *trained;
    shape.gate = gate;
    mw_model_walk(model, &shape, &walk);
    int64_t params = MW_SUM(sum_trained(&walk.head), sum_trained(&walk.tail));
    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++)
        params =
            MW_SUM(params, MW_PRODUCT(blocks_of(model, kind), sum_trained(&walk.blocks[kind])));
    return params;
}

int64_t
mw_model_active_params(const struct mw_model *model)
{
    int64_t idle = model->experts - model->experts_per_token;

    if (model->mixed)
        return MW_SUM(end_params(model), mw_mixed_params(model, true));

    int64_t mixtures =
        blocks_of(model, MW_BLOCK_EXPERTS) + blocks_of(model, MW_BLOCK_EXPERTS_WINDOWED);

    return mw_model_params(model) -
           MW_PRODUCT(mixtures, idle, model->mlp_matrices, model->hidden, model->expert_ffn);
}

int64_t
mw_model_params_paper(const struct mw_model *model)
{
    return MW_PRODUCT(12, model->layers, model->hidden, model->hidden);
}
