/* The MLP's operators, dense or of experts. */
#include "model/walk.h"

/* Inner widths of a rank's MLP, and the number of rows that its experts process. */
struct mlp {
    int64_t dense;  /* of all shared experts together, in a layer with experts */
    int64_t expert; /* 0 without experts */
    int64_t copies; /* of tokens: one for each expert that a token visits */
    int64_t inner;  /* elements of the inner activation */
};

static struct mlp
mlp_shape(const struct mw_walk *walk)
{
    const struct mw_model *model = walk->model;
    struct mlp mlp = {
        .dense = mw_divide_up(walk->mixture ? model->shared_expert_ffn : model->ffn, walk->tp),
    };

    if (walk->mixture) {
        mlp.expert = mw_divide_up(model->expert_ffn, walk->tp);
        mlp.copies = MW_PRODUCT(walk->tokens, model->experts_per_token);
    }
    mlp.inner = MW_SUM(MW_PRODUCT(walk->tokens, mlp.dense), MW_PRODUCT(mlp.copies, mlp.expert));
    return mlp;
}

/* Columns of all experts together. */
static int64_t
mlp_columns(const struct mw_walk *walk, const struct mlp *mlp)
{
    return MW_SUM(mlp->dense, MW_PRODUCT(walk->mixture ? walk->model->experts : 0, mlp->expert));
}

/* The router's product, its fp32 softmax (read and write), and the copy that sorts tokens by
 * expert. */
static void
add_router(struct mw_operator_info *info, const struct mw_walk *walk, const struct mlp *mlp)
{
    const struct mw_model *model = walk->model;
    int64_t one = mw_walk_tensor(walk, model->hidden);
    int64_t ordered = MW_PRODUCT(walk->element_bytes, mlp->copies, model->hidden);
    int64_t scores = MW_PRODUCT(MW_B32, walk->tokens, model->experts);
    int64_t moved = MW_SUM(one, ordered, MW_PRODUCT(2, scores));

    info->params =
        MW_SUM(info->params, MW_PRODUCT(model->experts, MW_SUM(model->hidden, model->router_bias)));
    mw_operator_add_flops(info, MW_PRODUCT(2, walk->tokens, model->hidden, model->experts));
    info->forward_bytes = MW_SUM(info->forward_bytes, moved);
    info->backward_bytes = MW_SUM(info->backward_bytes, moved);
    info->saved_bytes = MW_SUM(info->saved_bytes, ordered, scores);
    info->launches += 3;
}

/* One grouped kernel computes the products of all experts.  Its shape is that of one expert. */
static void
set_mlp_product(struct mw_operator_info *info, const struct mw_walk *walk, const struct mlp *mlp,
                int64_t matrices, bool up)
{
    const struct mw_model *model = walk->model;
    int64_t rows = walk->mixture ? mw_divide_up(mlp->copies, model->experts) : walk->tokens;
    int64_t width = MW_PRODUCT(matrices, walk->mixture ? mlp->expert : mlp->dense);

    mw_operator_set_product(info, rows, up ? width : model->hidden, up ? model->hidden : width);
    info->forward_flops = 0;
    mw_operator_add_flops(info, MW_PRODUCT(2, matrices, mlp->inner, model->hidden));
}

static struct mw_operator_info
mlp_up(const struct mw_walk *walk)
{
    const struct mw_model *model = walk->model;
    struct mlp mlp = mlp_shape(walk);
    int64_t matrices = model->mlp_matrices - 1;
    int64_t columns = MW_PRODUCT(matrices, mlp_columns(walk, &mlp));
    struct mw_operator_info info = {
        .operator_ = MW_OPERATOR_MLP_UP,
        .params = MW_PRODUCT(columns, MW_SUM(model->hidden, model->mlp_bias)),
        .backward_bytes = MW_PRODUCT(model->mlp_bias, walk->element_bytes, matrices, mlp.inner),
        /* in a parallel block the MLP shares the input that QKV saves */
        .saved_bytes = model->parallel_block ? 0 : mw_walk_tensor(walk, model->hidden),
        .output_bytes = MW_PRODUCT(walk->element_bytes, matrices, mlp.inner),
        .launches = walk->mixture && mlp.dense ? 2 : 1,
    };

    set_mlp_product(&info, walk, &mlp, matrices, true);
    if (walk->mixture)
        add_router(&info, walk, &mlp);
    return info;
}

/* Forward reads the outputs of the products (gate and up) and writes one result.  Backward reads
 * both outputs and the gradient of the result, and writes the gradients of both. */
static struct mw_operator_info
mlp_act(const struct mw_walk *walk)
{
    int64_t inner = MW_PRODUCT(walk->element_bytes, mlp_shape(walk).inner);
    int64_t matrices = walk->model->mlp_matrices - 1;

    return (struct mw_operator_info){
        .operator_ = MW_OPERATOR_MLP_ACT,
        .forward_bytes = MW_PRODUCT(matrices + 1, inner),
        .backward_bytes = MW_PRODUCT(2 * matrices + 1, inner),
        .saved_bytes = MW_PRODUCT(matrices, inner),
        .output_bytes = inner,
        .launches = 1,
    };
}

static struct mw_operator_info
mlp_down(const struct mw_walk *walk)
{
    const struct mw_model *model = walk->model;
    struct mlp mlp = mlp_shape(walk);
    /* the experts' results, weighted and summed; backward needs them for the weights' gradient */
    int64_t results = MW_PRODUCT(walk->element_bytes, mlp.copies, model->hidden);
    struct mw_operator_info info = {
        .operator_ = MW_OPERATOR_MLP_DOWN,
        .params = MW_PRODUCT(mlp_columns(walk, &mlp), model->hidden),
        .forward_bytes = MW_SUM(results, walk->mixture ? mw_walk_tensor(walk, model->hidden) : 0),
        .backward_bytes =
            MW_SUM(MW_PRODUCT(2, results), walk->mixture ? mw_walk_tensor(walk, model->hidden) : 0),
        .saved_bytes = MW_SUM(MW_PRODUCT(walk->element_bytes, mlp.inner), results),
        .launches = (walk->mixture ? 2 : 1) + (walk->mixture && mlp.dense ? 1 : 0),
    };

    set_mlp_product(&info, walk, &mlp, 1, false);
    mw_operator_add_residual(&info, walk, model->mlp_bias);
    return info;
}

int
mw_walk_mlp(const struct mw_walk *walk, struct mw_operator_info *out)
{
    out[0] = mlp_up(walk);
    out[1] = mlp_act(walk);
    out[2] = mlp_down(walk);
    return 3;
}
