/* The operators' matrix products: which operands, which rows of the weight. */
#include "exec/operators/internal.h"

/* y[tokens, all rows] = x[tokens, in] W^T.  `dy` is its gradient, shaped like y. */
struct linear {
    int64_t tokens, in, out; /* out: from one row of y to the next */
    const void *x;
    void *y;
    const void *dy;
    void *dx;
    bool residual; /* y holds what the product is added to */
    int64_t twin;  /* with a gate: from its y to up's, else 0 */
};

static struct linear
logits(const struct mw_compute *c)
{
    int64_t at = c->first_token * c->decoder->hidden;

    return (struct linear){
        .tokens = c->tokens,
        .in = c->decoder->hidden,
        .out = mw_logits_stride(c->decoder, c->dtype),
        .x = mw_operator_read_at(c, c->room->final, at),
        .y = c->logits,
        .dy = c->logits,
        .dx = mw_operator_at(c, c->room->branch, at),
    };
}

static struct linear
mlp_up(const struct mw_compute *c)
{
    int64_t tokens = mw_operator_tokens(c), ffn = c->decoder->ffn;
    bool gated = mw_decoder_gated(c->decoder);

    return (struct linear){
        .tokens = tokens,
        .in = c->decoder->hidden,
        .out = ffn,
        .x = c->layer->n2,
        .y = c->layer->up,
        .dy = gated ? c->layer->up : c->room->wide,
        .dx = c->room->branch,
        .twin = gated ? tokens * ffn : 0,
    };
}

/* False: the operator has no matrix. */
static bool
describe(const struct mw_compute *c, struct linear *linear)
{
    int64_t tokens = mw_operator_tokens(c), hidden = c->decoder->hidden;
    const struct mw_layer_room *layer = c->layer;
    const struct mw_shared_room *room = c->room;

    switch (c->operator_) {
    case MW_OPERATOR_QKV:
        *linear = (struct linear){tokens,       hidden,     mw_operator_qkv_width(c),
                                  layer->n1,    layer->qkv, room->wide,
                                  room->branch, false,      0};
        return true;
    case MW_OPERATOR_PROJECTION:
        *linear = (struct linear){tokens,    mw_decoder_q(c->decoder), hidden,       layer->o,
                                  layer->x2, room->gradient,           room->branch, true,
                                  0};
        return true;
    case MW_OPERATOR_MLP_UP:
        *linear = mlp_up(c);
        return true;
    case MW_OPERATOR_MLP_DOWN:
        *linear = (struct linear){tokens,         c->decoder->ffn, hidden, layer->act, c->output,
                                  room->gradient, room->wide,      true,   0};
        return true;
    case MW_OPERATOR_LOGITS:
        *linear = logits(c);
        return true;
    default:
        return false;
    }
}

static struct mw_multiply
forward_product(const struct mw_compute *c, const struct linear *l, int64_t twin)
{
    const struct mw_part_matrix *matrix = &c->part->matrix;
    int64_t at = matrix->at + twin * matrix->rows * l->in;
    bool bias = matrix->bias_at >= 0;

    return (struct mw_multiply){
        .product = {.m = l->tokens,
                    .n = matrix->rows,
                    .k = l->in,
                    .ld_c = l->out,
                    .b_transposed = true,
                    .bias = bias,
                    .accumulate = l->residual},
        .c = mw_operator_at(c, l->y, matrix->first_row + twin * l->twin),
        .a = l->x,
        .b = mw_operator_param_at(c, at),
        .bias = bias ? mw_operator_param_at(c, matrix->bias_at + twin * matrix->rows) : NULL,
    };
}

/* dx += dy W, over the parts of W; the part visited first starts it. */
static struct mw_multiply
input_gradient(const struct mw_compute *c, const struct linear *l, int64_t twin)
{
    const struct mw_part_matrix *matrix = &c->part->matrix;

    return (struct mw_multiply){
        .product = {.m = l->tokens,
                    .n = l->in,
                    .k = matrix->rows,
                    .ld_a = l->out,
                    .accumulate = twin || !mw_operator_has_last_rows(matrix)},
        .c = l->dx,
        .a = mw_operator_read_at(c, l->dy, matrix->first_row + twin * l->twin),
        .b = mw_operator_param_at(c, matrix->at + twin * matrix->rows * l->in),
    };
}

/* dW (+)= dy^T x. */
static struct mw_multiply
weight_gradient(const struct mw_compute *c, const struct linear *l, int64_t twin)
{
    const struct mw_part_matrix *matrix = &c->part->matrix;
    struct mw_gradient to = mw_operator_gradient_at(c, matrix->at + twin * matrix->rows * l->in);

    return (struct mw_multiply){
        .product = {.m = matrix->rows,
                    .n = l->in,
                    .k = l->tokens,
                    .ld_a = l->out,
                    .a_transposed = true,
                    .accumulate = to.accumulate},
        .c = to.data,
        .a = mw_operator_read_at(c, l->dy, matrix->first_row + twin * l->twin),
        .b = l->x,
    };
}

int
mw_operator_products(const struct mw_compute *compute, struct mw_multiply out[MW_MULTIPLIES_MAX])
{
    struct linear linear;
    int count = 0;

    if (!describe(compute, &linear) || !compute->part->matrix.rows)
        return 0;
    for (int64_t twin = 0; twin <= (linear.twin > 0); twin++) {
        if (!compute->backward) {
            out[count++] = forward_product(compute, &linear, twin);
            continue;
        }
        out[count++] = input_gradient(compute, &linear, twin);
        if (compute->gradient)
            out[count++] = weight_gradient(compute, &linear, twin);
    }
    return count;
}

void
mw_operator_bias(const struct mw_operators *operators, const struct mw_compute *compute)
{
    struct linear linear;
    const struct mw_part_matrix *matrix = compute->part ? &compute->part->matrix : NULL;

    if (!compute->gradient || !describe(compute, &linear) || matrix->bias_at < 0)
        return;
    for (int64_t twin = 0; twin <= (linear.twin > 0); twin++)
        operators->kernels->bias_gradient(
            operators->device,
            mw_operator_gradient_at(compute, matrix->bias_at + twin * matrix->rows),
            mw_operator_read_at(compute, linear.dy, matrix->first_row + twin * linear.twin),
            linear.out, linear.tokens, matrix->rows, operators->scratch);
}
