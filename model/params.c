/* Parameter counts: sums over the operators of the walk. */
#include "model/internal.h"

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

/* The leading layers, without experts, are alike; so are all other layers. */
static int64_t
dense_layers(const struct mw_model *model)
{
    return model->experts ? model->dense_layers : model->layers;
}

int64_t
mw_model_params(const struct mw_model *model)
{
    int64_t dense = dense_layers(model);

    return MW_SUM(MW_PRODUCT(dense, mw_model_layer_params(model, 0)),
                  MW_PRODUCT(model->layers - dense, mw_model_layer_params(model, dense)),
                  end_params(model));
}

int64_t
mw_model_active_params(const struct mw_model *model)
{
    int64_t idle = model->experts - model->experts_per_token;

    return mw_model_params(model) - MW_PRODUCT(model->layers - dense_layers(model), idle,
                                               model->mlp_matrices, model->hidden,
                                               model->expert_ffn);
}

int64_t
mw_model_params_paper(const struct mw_model *model)
{
    return MW_PRODUCT(12, model->layers, model->hidden, model->hidden);
}
