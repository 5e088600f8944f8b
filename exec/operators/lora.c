/*
 * Adapters (LoRA, arXiv 2106.09685, Sec. 4.1): y = s B A x before the product W x is added to it,
 * with s = alpha / rank.
 *
 * The A's of an operator's matrices (q, k and v; gate and up) lie one below the other, and are one
 * product; where a checkpoint has these matrices in one tensor there is one A.  Each B is a product
 * of its own, into the columns of y that its matrix has.  What the A's give is kept, times s; in
 * backward, once the gradients of the B's are made of it, its own gradient takes its place.
 *
 * Where some of these matrices have no adapter y is cleared first, for the product adds to all.
 */
#include "exec/operators/internal.h"

#define TARGETS_MAX 3 /* q, k and v */

/* Where the results of one matrix lie. */
struct target {
    int64_t first_row, rows, ld; /* first_row: of its B among those of the operator */
    void *y;
    const void *dy;
};

struct adapters {
    struct mw_operator_linear linear; /* of the adapted operator: x, dx, in, tokens */
    struct target target[TARGETS_MAX];
    int targets, inputs; /* inputs: A's, one or as many as targets */
    int64_t rank;
    void *kept; /* [tokens, inputs * rank] */
};

static struct mw_compute
adapted(const struct mw_compute *compute)
{
    struct mw_compute own = *compute;

    own.operator_ = mw_operator_row((int)compute->operator_)->adapts;
    return own;
}

static void
add_target(struct adapters *a, const struct mw_compute *c, const struct mw_operator_linear *l,
           int64_t column, int64_t rows, enum mw_target target)
{
    int64_t before =
        a->targets ? a->target[a->targets - 1].first_row + a->target[a->targets - 1].rows : 0;

    if (c->decoder->lora_bare >> target & 1)
        return;
    a->target[a->targets++] = (struct target){
        .first_row = before,
        .rows = rows,
        .ld = l->out,
        .y = mw_operator_at(c, l->y, column),
        .dy = mw_operator_read_at(c, l->dy, column),
    };
}

/* Of what is not q, k and v: the gate comes before up; others are whole operators. */
static enum mw_target
first_target(const struct mw_compute *adapted, const struct mw_operator_linear *linear)
{
    return adapted->operator_ != MW_OPERATOR_MLP_UP ? MW_TARGET_COUNT
           : linear->twin                           ? MW_TARGET_GATE
                                                    : MW_TARGET_UP;
}

/* One linear may be of several matrices: q, k and v side by side, gate and up one behind the
 * other. */
static struct adapters
adapters_of(const struct mw_compute *c)
{
    const struct mw_decoder *decoder = c->decoder;
    struct mw_compute own = adapted(c);
    int linears = mw_operator_linears(&own);
    struct adapters a = {
        .linear = mw_operator_linear_at(&own, 0),
        .rank = decoder->lora_rank,
        .kept = c->layer->lora[own.operator_],
    };

    if (own.operator_ == MW_OPERATOR_QKV && linears == 1) {
        int64_t q = mw_decoder_q(decoder), kv = mw_decoder_kv(decoder);
        add_target(&a, c, &a.linear, 0, q, MW_TARGET_Q);
        add_target(&a, c, &a.linear, q, kv, MW_TARGET_K);
        add_target(&a, c, &a.linear, q + kv, kv, MW_TARGET_V);
    }
    for (int i = 0; i < linears && own.operator_ == MW_OPERATOR_QKV && linears > 1; i++) {
        struct mw_operator_linear linear = mw_operator_linear_at(&own, i);
        add_target(&a, c, &linear, 0, linear.rows, (enum mw_target)(MW_TARGET_Q + i));
    }
    if (own.operator_ != MW_OPERATOR_QKV)
        add_target(&a, c, &a.linear, 0, a.linear.out, first_target(&own, &a.linear));
    if (a.linear.twin)
        add_target(&a, c, &a.linear, a.linear.twin, a.linear.out, MW_TARGET_UP);
    a.inputs = (int)(mw_decoder_lora_width(decoder, (int)own.operator_) / a.rank);
    return a;
}

static int64_t
width_of(const struct adapters *a)
{
    return a->inputs * a->rank;
}

/* The columns of what is kept that belong to a target. */
static void *
kept_of(const struct mw_compute *c, const struct adapters *a, int target)
{
    return mw_operator_at(c, a->kept, a->inputs > 1 ? target * a->rank : 0);
}

static const void *
out_of(const struct mw_compute *c, const struct adapters *a, int target)
{
    return mw_operator_param_at(c, c->part->lora_out_at + a->target[target].first_row * a->rank);
}

/* y = kept B^T; into what a residual stream holds it is added. */
static struct mw_multiply
forward_out(const struct mw_compute *c, const struct adapters *a, int target)
{
    const struct target *t = &a->target[target];

    return (struct mw_multiply){
        .product = {.m = a->linear.tokens,
                    .n = t->rows,
                    .k = a->rank,
                    .ld_a = width_of(a),
                    .ld_c = t->ld,
                    .b_transposed = true,
                    .accumulate = a->linear.residual},
        .c = t->y,
        .a = kept_of(c, a, target),
        .b = out_of(c, a, target),
    };
}

/* kept = x A^T. */
static struct mw_multiply
forward_in(const struct mw_compute *c, const struct adapters *a)
{
    return (struct mw_multiply){
        .product = {.m = a->linear.tokens,
                    .n = width_of(a),
                    .k = a->linear.in,
                    .b_transposed = true},
        .c = a->kept,
        .a = a->linear.x,
        .b = mw_operator_param_at(c, c->part->lora_in_at),
    };
}

/* dB (+)= dy^T kept. */
static struct mw_multiply
out_gradient(const struct mw_compute *c, const struct adapters *a, int target)
{
    const struct target *t = &a->target[target];
    struct mw_gradient to =
        mw_operator_gradient_at(c, c->part->lora_out_at + t->first_row * a->rank);

    return (struct mw_multiply){
        .product = {.m = t->rows,
                    .n = a->rank,
                    .k = a->linear.tokens,
                    .ld_a = t->ld,
                    .ld_b = width_of(a),
                    .a_transposed = true,
                    .accumulate = to.accumulate},
        .c = to.data,
        .a = t->dy,
        .b = kept_of(c, a, target),
    };
}

/* Its gradient takes the place of what was kept: dy B, of all targets that share an A. */
static struct mw_multiply
kept_gradient(const struct mw_compute *c, const struct adapters *a, int target)
{
    const struct target *t = &a->target[target];

    return (struct mw_multiply){
        .product = {.m = a->linear.tokens,
                    .n = a->rank,
                    .k = t->rows,
                    .ld_a = t->ld,
                    .ld_c = width_of(a),
                    .accumulate = a->inputs == 1 && target > 0},
        .c = kept_of(c, a, target),
        .a = t->dy,
        .b = out_of(c, a, target),
    };
}

/* dA (+)= kept^T x. */
static struct mw_multiply
in_gradient(const struct mw_compute *c, const struct adapters *a)
{
    struct mw_gradient to = mw_operator_gradient_at(c, c->part->lora_in_at);

    return (struct mw_multiply){
        .product = {.m = width_of(a),
                    .n = a->linear.in,
                    .k = a->linear.tokens,
                    .a_transposed = true,
                    .accumulate = to.accumulate},
        .c = to.data,
        .a = a->kept,
        .b = a->linear.x,
    };
}

/* dx += kept A. */
static struct mw_multiply
input_gradient(const struct mw_compute *c, const struct adapters *a)
{
    return (struct mw_multiply){
        .product = {.m = a->linear.tokens, .n = a->linear.in, .k = width_of(a), .accumulate = true},
        .c = a->linear.dx,
        .a = a->kept,
        .b = mw_operator_param_at(c, c->part->lora_in_at),
    };
}

static int
lora_products(const struct mw_compute *compute, struct mw_multiply out[MW_MULTIPLIES_MAX])
{
    struct adapters a = adapters_of(compute);
    int count = 0;

    if (!compute->backward) {
        out[count++] = forward_in(compute, &a);
        for (int t = 0; t < a.targets; t++)
            out[count++] = forward_out(compute, &a, t);
        return count;
    }
    for (int t = 0; t < a.targets; t++)
        out[count++] = out_gradient(compute, &a, t);
    for (int t = 0; t < a.targets; t++)
        out[count++] = kept_gradient(compute, &a, t);
    out[count++] = in_gradient(compute, &a);
    out[count++] = input_gradient(compute, &a);
    return count;
}

static int
products_before_forward(const struct mw_compute *compute)
{
    return 1;
}

static int
products_before_backward(const struct mw_compute *compute)
{
    return 2 * adapters_of(compute).targets;
}

static void
scale_kept(const struct mw_operators *operators, const struct mw_compute *compute)
{
    struct adapters a = adapters_of(compute);
    double factor = compute->decoder->lora_alpha / (double)compute->decoder->lora_rank;

    if (factor != 1)
        operators->kernels->scale(operators->device, a.kept, (float)factor,
                                  a.linear.tokens * width_of(&a));
}

/* What adapters and product are added to: the residual stream, or nothing. */
static void
begin(const struct mw_operators *operators, const struct mw_compute *compute)
{
    struct adapters a = adapters_of(compute);
    struct mw_compute own = adapted(compute);
    bool bare = compute->decoder->lora_bare & mw_targets_of((int)own.operator_);
    int64_t width = own.operator_ == MW_OPERATOR_QKV ? mw_operator_qkv_width(compute)
                                                     : (a.linear.twin ? 2 : 1) * a.linear.out;
    bool down = compute->operator_ == MW_OPERATOR_MLP_DOWN_LORA;
    const void *from = down ? compute->layer->x2 : compute->layer->x;

    if (a.linear.residual)
        operators->kernels->copy_rows(operators->device, a.linear.y, from, a.linear.tokens,
                                      a.linear.out, a.linear.out);
    else if (bare)
        operators->kernels->clear(operators->device, a.linear.y,
                                  a.linear.tokens * width *
                                      mw_compute_element_bytes(compute->dtype));
}

const struct mw_operator_runner mw_run_lora = {
    .forward = {.before = begin, .between = scale_kept, .products_before = products_before_forward},
    .backward = {.between = scale_kept, .products_before = products_before_backward},
    .products = lora_products,
};
