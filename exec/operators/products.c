/* The operators' matrix products: which rows of the weight, forward and back. */
#include "exec/operators/internal.h"

/* The rows of the part that the product is of. */
static struct mw_part_matrix
matrix_of(const struct mw_compute *c, const struct mw_operator_linear *l)
{
    struct mw_part_matrix matrix = c->part->matrix;

    if (!l->rows)
        return matrix;
    matrix.at += l->first_row * l->in;
    matrix.bias_at += matrix.bias_at >= 0 ? l->first_row : 0;
    matrix.first_row = 0;
    matrix.rows = matrix.all_rows = l->rows;
    return matrix;
}

static struct mw_multiply
forward_product(const struct mw_compute *c, const struct mw_operator_linear *l, int64_t twin)
{
    const struct mw_part_matrix own = matrix_of(c, l), *matrix = &own;
    int64_t at = matrix->at + twin * matrix->rows * l->in;
    bool bias = matrix->bias_at >= 0 && !l->no_bias;

    return (struct mw_multiply){
        .product = {.m = l->tokens,
                    .n = matrix->rows,
                    .k = l->in,
                    .ld_c = l->out,
                    .b_transposed = true,
                    .bias = bias,
                    .accumulate = l->residual || mw_decoder_adapts(c->decoder, c->operator_)},
        .c = mw_operator_at(c, l->y, matrix->first_row + twin * l->twin),
        .a = l->x,
        .b = mw_operator_param_at(c, at),
        .bias = bias ? mw_operator_param_at(c, matrix->bias_at + twin * matrix->rows) : NULL,
    };
}

/* dx += dy W, over the parts of W; the part visited first starts it. */
static struct mw_multiply
input_gradient(const struct mw_compute *c, const struct mw_operator_linear *l, int64_t twin)
{
    const struct mw_part_matrix own = matrix_of(c, l), *matrix = &own;

    return (struct mw_multiply){
        .product = {.m = l->tokens,
                    .n = l->in,
                    .k = matrix->rows,
                    .ld_a = l->out,
                    .accumulate = twin || l->follows || !mw_operator_has_last_rows(matrix)},
        .c = l->dx,
        .a = mw_operator_read_at(c, l->dy, matrix->first_row + twin * l->twin),
        .b = mw_operator_param_at(c, matrix->at + twin * matrix->rows * l->in),
    };
}

/* dW (+)= dy^T x. */
static struct mw_multiply
weight_gradient(const struct mw_compute *c, const struct mw_operator_linear *l, int64_t twin)
{
    const struct mw_part_matrix own = matrix_of(c, l), *matrix = &own;
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

static int
add_products(const struct mw_compute *compute, const struct mw_operator_linear *linear,
             struct mw_multiply *out)
{
    int count = 0;

    for (int64_t twin = 0; twin <= (linear->twin > 0); twin++) {
        if (!compute->backward) {
            out[count++] = forward_product(compute, linear, twin);
            continue;
        }
        if (!compute->of_weights)
            out[count++] = input_gradient(compute, linear, twin);
        if (compute->gradient)
            out[count++] = weight_gradient(compute, linear, twin);
    }
    return count;
}

int
mw_operator_linears(const struct mw_compute *compute)
{
    const struct mw_operator_runner *runner = mw_operator_runner(compute);

    return !runner->linear ? 0 : runner->linears ? runner->linears(compute) : 1;
}

struct mw_operator_linear
mw_operator_linear_at(const struct mw_compute *compute, int number)
{
    return mw_operator_runner(compute)->linear(compute, number);
}

int
mw_operator_products(const struct mw_compute *compute, struct mw_multiply out[MW_MULTIPLIES_MAX])
{
    const struct mw_operator_runner *runner = mw_operator_runner(compute);
    int linears = mw_operator_linears(compute), count = 0;

    if (runner->products)
        return runner->products(compute, out);
    if (!linears || !compute->part->matrix.rows)
        return 0;
    for (int i = 0; i < linears; i++) {
        struct mw_operator_linear linear = mw_operator_linear_at(compute, i);
        count += add_products(compute, &linear, out + count);
    }
    return count;
}

static void
add_bias(const struct mw_operators *operators, const struct mw_compute *compute,
         const struct mw_operator_linear *linear)
{
    const struct mw_part_matrix matrix = matrix_of(compute, linear);

    for (int64_t twin = 0; twin <= (linear->twin > 0); twin++)
        operators->kernels->bias_gradient(
            operators->device,
            mw_operator_gradient_at(compute, matrix.bias_at + twin * matrix.rows),
            mw_operator_read_at(compute, linear->dy, matrix.first_row + twin * linear->twin),
            linear->out, linear->tokens, matrix.rows, operators->scratch);
}

void
mw_operator_bias(const struct mw_operators *operators, const struct mw_compute *compute)
{
    int linears = mw_operator_linears(compute);

    if (!compute->gradient || !linears || !compute->part || compute->part->matrix.bias_at < 0)
        return;
    for (int i = 0; i < linears; i++) {
        struct mw_operator_linear linear = mw_operator_linear_at(compute, i);
        add_bias(operators, compute, &linear);
    }
}
