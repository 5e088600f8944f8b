/* How a layer's operators run. */
#include <math.h>

#include "exec/operators/internal.h"

/* --- norms ----------------------------------------------------------------------------------- */

void
mw_operator_norm_forward(const struct mw_operators *operators, const struct mw_compute *compute,
                         const struct mw_operator_norm *norm)
{
    const struct mw_kernels *kernels = operators->kernels;
    int64_t tokens = mw_operator_own_tokens(compute), hidden = compute->decoder->hidden;
    /* Without y no kernel reads weights, and there may be none. */
    const void *weight =
        norm->y ? mw_operator_param_at(compute, compute->part->norm_weight_at) : norm->x;
    float eps = (float)compute->decoder->norm_epsilon;
    float *mean = operators->token_scratch, *rstd = mean + tokens;

    if (compute->part->norm_bias_at < 0)
        kernels->rmsnorm_forward(operators->device, norm->y, rstd, norm->x, weight, tokens, hidden,
                                 eps);
    else
        kernels->layernorm_forward(
            operators->device, norm->y, mean, rstd, norm->x, weight,
            norm->y ? mw_operator_param_at(compute, compute->part->norm_bias_at) : norm->x, tokens,
            hidden, eps);
}

static void
norm_parameters(const struct mw_operators *operators, const struct mw_compute *compute,
                const struct mw_operator_norm *norm)
{
    const struct mw_kernels *kernels = operators->kernels;
    int64_t tokens = mw_operator_own_tokens(compute), hidden = compute->decoder->hidden;
    const struct mw_part *part = compute->part;
    float *mean = operators->token_scratch, *rstd = mean + tokens;

    kernels->norm_weight_gradient(
        operators->device, mw_operator_gradient_at(compute, part->norm_weight_at), norm->dy,
        norm->x, part->norm_bias_at < 0 ? NULL : mean, rstd, tokens, hidden, operators->scratch);
    if (part->norm_bias_at >= 0)
        kernels->bias_gradient(operators->device,
                               mw_operator_gradient_at(compute, part->norm_bias_at), norm->dy,
                               hidden, tokens, hidden, operators->scratch);
}

/* Mean and rstd have no room in the plan: they are made once more. */
void
mw_operator_norm_backward(const struct mw_operators *operators, const struct mw_compute *compute,
                          const struct mw_operator_norm *norm)
{
    const struct mw_kernels *kernels = operators->kernels;
    int64_t tokens = mw_operator_own_tokens(compute), hidden = compute->decoder->hidden;
    const void *weight = mw_operator_param_at(compute, compute->part->norm_weight_at);
    float *mean = operators->token_scratch, *rstd = mean + tokens;
    struct mw_operator_norm moments = *norm;

    moments.y = NULL;
    mw_operator_norm_forward(operators, compute, &moments);
    if (compute->gradient)
        norm_parameters(operators, compute, norm);
    if (compute->part->norm_bias_at < 0)
        kernels->rmsnorm_backward(operators->device, norm->dx, norm->dx_add, norm->dy, norm->x,
                                  weight, rstd, tokens, hidden);
    else
        kernels->layernorm_backward(operators->device, norm->dx, norm->dx_add, norm->dy, norm->x,
                                    weight, mean, rstd, tokens, hidden);
}

static struct mw_operator_norm
norm_of(const struct mw_compute *compute)
{
    const struct mw_layer_activations *layer = compute->layer;
    const struct mw_layer_gradients *gradient = &layer->gradient;
    bool first = compute->operator_ == MW_OPERATOR_NORM1;

    return (struct mw_operator_norm){
        .y = first ? layer->n1 : layer->n2,
        .x = first ? layer->x : layer->x2,
        .dx = mw_compute_own_rows(compute, first ? gradient->x : gradient->x2),
        .dx_add = mw_compute_own_rows(compute, first ? gradient->x2 : gradient->out),
        .dy = mw_compute_own_rows(compute, first ? gradient->n1 : gradient->n2),
    };
}

static void
norm_forward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    struct mw_operator_norm norm = norm_of(compute);

    mw_operator_norm_forward(operators, compute, &norm);
}

static void
norm_backward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    struct mw_operator_norm norm = norm_of(compute);

    mw_operator_norm_backward(operators, compute, &norm);
}

/* Mean and rstd once more, as in mw_operator_norm_backward. */
static void
norm_weights(const struct mw_operators *operators, const struct mw_compute *compute)
{
    struct mw_operator_norm norm = norm_of(compute);

    norm.y = NULL;
    mw_operator_norm_forward(operators, compute, &norm);
    norm_parameters(operators, compute, &norm);
}

const struct mw_operator_runner mw_run_norm = {
    .forward.before = norm_forward,
    .backward.before = norm_backward,
    .weights.before = norm_weights,
};

/* --- attention ------------------------------------------------------------------------------- */

static void
rotate_heads(const struct mw_operators *operators, const struct mw_compute *compute, void *heads,
             int64_t count, int64_t ld, bool inverse)
{
    operators->kernels->rope(operators->device, heads, operators->rope, compute->sequences,
                             compute->seq, count, compute->decoder->head_dim, ld, inverse);
}

static void
rotate(const struct mw_operators *operators, const struct mw_compute *compute, void *qkv,
       bool inverse)
{
    const struct mw_decoder *decoder = compute->decoder;
    struct mw_operator_heads at = mw_operator_heads(compute);

    if (!operators->rope || !mw_operator_has_last_rows(&compute->part->matrix))
        return;
    if (!decoder->qk_norm) { /* q and k are neighbours: heads behind heads */
        rotate_heads(operators, compute, qkv, decoder->heads + decoder->kv_heads, at.ld_q, inverse);
        return;
    }
    rotate_heads(operators, compute, qkv, decoder->heads, at.ld_q, inverse);
    rotate_heads(operators, compute, mw_operator_at(compute, qkv, at.k), decoder->kv_heads, at.ld_k,
                 inverse);
}

/* The heads of q, or of k, as rows of an RMSNorm. */
struct head_norm {
    int64_t rows, weight_at;
    void *y;
    const void *x;
    void *dx;
    const void *dy;
};

static struct head_norm
head_norm_of(const struct mw_compute *compute, bool of_k)
{
    struct mw_operator_heads at = mw_operator_heads(compute);
    int64_t first = of_k ? at.k : at.q, tokens = mw_operator_tokens(compute);

    return (struct head_norm){
        .rows = tokens * (of_k ? compute->decoder->kv_heads : compute->decoder->heads),
        .weight_at = of_k ? compute->part->k_norm_at : compute->part->q_norm_at,
        .y = mw_operator_at(compute, compute->layer->qkv, first),
        .x = mw_operator_read_at(compute, compute->layer->raw, first),
        .dx = mw_operator_at(compute, compute->layer->gradient.qkv, first),
        .dy = mw_operator_read_at(compute, compute->layer->gradient.heads, first),
    };
}

static void
head_norm_forward(const struct mw_operators *operators, const struct mw_compute *compute,
                  const struct head_norm *norm)
{
    operators->kernels->rmsnorm_forward(
        operators->device, norm->y, operators->token_scratch, norm->x,
        norm->y ? mw_operator_param_at(compute, norm->weight_at) : norm->x, norm->rows,
        compute->decoder->head_dim, (float)compute->decoder->norm_epsilon);
}

static void
head_norm_backward(const struct mw_operators *operators, const struct mw_compute *compute,
                   struct head_norm norm)
{
    int64_t columns = compute->decoder->head_dim;

    norm.y = NULL; /* rstd alone, as in mw_operator_norm_backward */
    head_norm_forward(operators, compute, &norm);
    if (compute->gradient)
        operators->kernels->norm_weight_gradient(
            operators->device, mw_operator_gradient_at(compute, norm.weight_at), norm.dy, norm.x,
            NULL, operators->token_scratch, norm.rows, columns, operators->scratch);
    if (!compute->of_weights)
        operators->kernels->rmsnorm_backward(operators->device, norm.dx, NULL, norm.dy, norm.x,
                                             mw_operator_param_at(compute, norm.weight_at),
                                             operators->token_scratch, norm.rows, columns);
}

static void
qkv_forward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    for (int of_k = 0; of_k <= 1 && compute->decoder->qk_norm; of_k++) {
        struct head_norm norm = head_norm_of(compute, of_k);
        head_norm_forward(operators, compute, &norm);
    }
    rotate(operators, compute, compute->layer->qkv, false);
}

static void
qkv_backward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    if (mw_decoder_rings(compute->decoder) && mw_operator_has_last_rows(&compute->part->matrix))
        mw_operator_ring_home(operators, compute);
    if (!compute->of_weights)
        rotate(operators, compute, compute->layer->gradient.heads, true);
    for (int of_k = 0; of_k <= 1 && compute->decoder->qk_norm; of_k++)
        head_norm_backward(operators, compute, head_norm_of(compute, of_k));
}

static struct mw_operator_linear
qkv_linear(const struct mw_compute *c, int number)
{
    const struct mw_operator_heads at = mw_operator_heads(c);
    int64_t q = mw_decoder_q(c->decoder), kv = mw_decoder_kv(c->decoder);
    struct mw_operator_linear linear = {
        .tokens = mw_operator_tokens(c),
        .in = c->decoder->hidden,
        .out = mw_operator_qkv_width(c),
        .x = mw_operator_input_rows(c, c->layer->n1),
        .y = c->layer->qkv,
        .dy = c->layer->gradient.qkv,
        .dx = c->layer->gradient.n1,
    };

    if (!c->decoder->qk_norm)
        return linear;
    int64_t place = number == 0 ? at.q : number == 1 ? at.k : at.v;
    linear.out = linear.rows = number == 0 ? q : kv;
    linear.first_row = number == 0 ? 0 : q + (number - 1) * kv;
    linear.y = mw_operator_at(c, number < 2 ? c->layer->raw : c->layer->qkv, place);
    linear.dy = mw_operator_read_at(c, c->layer->gradient.qkv, place);
    linear.follows = number > 0;
    return linear;
}

static int
qkv_linears(const struct mw_compute *c)
{
    return c->decoder->qk_norm ? 3 : 1;
}

const struct mw_operator_runner mw_run_qkv = {
    .forward.behind = qkv_forward,
    .backward = {.before = qkv_backward, .behind = mw_operator_bias},
    .weights = {.before = qkv_backward, .behind = mw_operator_bias},
    .linear = qkv_linear,
    .linears = qkv_linears,
};

/* Of what attention takes: all tokens of some heads lie one beside the other. */
static struct mw_operator_heads
attended_heads(const struct mw_compute *compute)
{
    int64_t sharers = mw_decoder_sharers(compute->decoder);
    int64_t q = mw_decoder_q(compute->decoder) / sharers;
    int64_t kv = mw_decoder_kv(compute->decoder) / sharers, width = q + 2 * kv;

    if (!mw_decoder_exchanges_heads(compute->decoder))
        return mw_operator_heads(compute);
    return (struct mw_operator_heads){0, q, q + kv, width, width, width};
}

static void *
attended_of(const struct mw_compute *compute)
{
    return mw_decoder_exchanges_heads(compute->decoder) ? compute->layer->attended
                                                        : compute->layer->o;
}

static struct mw_attention
shape_of(const struct mw_compute *compute)
{
    const struct mw_decoder *decoder = compute->decoder;
    struct mw_operator_heads at = attended_heads(compute);
    int64_t parts = mw_decoder_exchanges_heads(decoder) ? mw_decoder_sharers(decoder) : 1;

    return (struct mw_attention){
        .batch = compute->sequences,
        .seq = compute->seq * parts,
        .heads = decoder->heads / parts,
        .kv_heads = decoder->kv_heads / parts,
        .head_dim = decoder->head_dim,
        .ld_q = at.ld_q,
        .ld_k = at.ld_k,
        .ld_v = at.ld_v,
        .ld_o = mw_decoder_q(decoder) / parts,
        .scale = 1.0f / sqrtf((float)decoder->head_dim),
    };
}

static void
attention_forward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    struct mw_attention shape = shape_of(compute);
    const struct mw_layer_activations *layer = compute->layer;
    struct mw_operator_heads at = attended_heads(compute);

    if (compute->block) {
        mw_operator_ring_forward(operators, compute, shape);
        return;
    }
    operators->kernels->attention_forward(
        operators->device, &shape, attended_of(compute), layer->lse, layer->qkv,
        mw_operator_read_at(compute, layer->qkv, at.k),
        mw_operator_read_at(compute, layer->qkv, at.v), operators->scratch);
}

static void
attention_backward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    struct mw_attention shape = shape_of(compute);
    const struct mw_layer_activations *layer = compute->layer;
    struct mw_operator_heads at = attended_heads(compute);
    void *heads = layer->gradient.heads;

    if (compute->block) {
        mw_operator_ring_backward(operators, compute, shape);
        return;
    }
    operators->kernels->attention_backward(
        operators->device, &shape, heads, mw_operator_at(compute, heads, at.k),
        mw_operator_at(compute, layer->gradient.qkv, at.v), compute->shared->branch,
        attended_of(compute), layer->lse, layer->qkv,
        mw_operator_read_at(compute, layer->qkv, at.k),
        mw_operator_read_at(compute, layer->qkv, at.v), operators->scratch);
}

const struct mw_operator_runner mw_run_attention = {
    .forward.before = attention_forward,
    .backward.before = attention_backward,
};

/* --- residual stream ------------------------------------------------------------------------- */

/* Of slices, whose results are summed up, the first one adds to the product; or each does, for its
 * own tokens, where these are shared, and 0 for those of others. */
static bool
adds_residual(const struct mw_compute *compute)
{
    return mw_decoder_is_first_slice(compute->decoder) || compute->decoder->slice.shares_tokens;
}

/* The part's columns of the buffer to which the product is added. */
static void
copy_columns(const struct mw_operators *operators, const struct mw_compute *compute, void *to,
             const void *from)
{
    int64_t first = compute->part->matrix.first_row, count = compute->part->matrix.rows;
    int64_t hidden = compute->decoder->hidden;

    if (mw_decoder_adapts(compute->decoder, compute->operator_))
        return; /* adapters have added to it */
    if (!adds_residual(compute) || !count)
        return;
    if (compute->decoder->slice.shares_tokens && !first)
        operators->kernels->clear(operators->device, to,
                                  mw_operator_tokens(compute) * hidden *
                                      mw_compute_element_bytes(compute->dtype));
    to = mw_compute_own_rows(compute, to);
    operators->kernels->copy_rows(operators->device, mw_operator_at(compute, to, first),
                                  mw_operator_read_at(compute, from, first),
                                  mw_operator_own_tokens(compute), count, hidden);
}

/* Where slices share tokens, the result is scattered from there. */
static void *
summed_rows(const struct mw_compute *compute, void *own)
{
    return compute->decoder->slice.shares_tokens ? compute->shared->branch : own;
}

static void
projection_forward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    copy_columns(operators, compute, summed_rows(compute, compute->layer->x2), compute->layer->x);
}

static struct mw_operator_linear
projection_linear(const struct mw_compute *c, int number)
{
    return (struct mw_operator_linear){
        .tokens = mw_operator_tokens(c),
        .in = mw_decoder_q(c->decoder),
        .out = c->decoder->hidden,
        .x = c->layer->o,
        .y = summed_rows(c, c->layer->x2),
        .dy = c->layer->gradient.x2,
        .dx = c->shared->branch,
        .residual = adds_residual(c),
        .no_bias = !mw_decoder_is_first_slice(c->decoder),
    };
}

const struct mw_operator_runner mw_run_projection = {
    .forward.before = projection_forward,
    .backward.behind = mw_operator_bias,
    .weights.behind = mw_operator_bias,
    .linear = projection_linear,
};

static void
down_forward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    copy_columns(operators, compute, summed_rows(compute, compute->output), compute->layer->x2);
}

static struct mw_operator_linear
down_linear(const struct mw_compute *c, int number)
{
    return (struct mw_operator_linear){
        .tokens = mw_operator_tokens(c),
        .in = c->decoder->ffn,
        .out = c->decoder->hidden,
        .x = c->layer->act,
        .y = summed_rows(c, c->output),
        .dy = c->layer->gradient.out,
        .dx = c->shared->wide,
        .residual = adds_residual(c),
        .no_bias = !mw_decoder_is_first_slice(c->decoder),
    };
}

const struct mw_operator_runner mw_run_mlp_down = {
    .forward.before = down_forward,
    .backward.behind = mw_operator_bias,
    .weights.behind = mw_operator_bias,
    .linear = down_linear,
};

/* --- the MLP's inner activation, and what it is of -------------------------------------------- */

/* Of experts that are spread: of the rows that have come. */
static int64_t
act_elements(const struct mw_compute *compute)
{
    const struct mw_decoder *decoder = compute->decoder;

    return compute->visits ? compute->visits->begin[mw_decoder_experts_here(decoder)] * decoder->ffn
                           : mw_decoder_inner(decoder, mw_operator_tokens(compute));
}

static void
act_forward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_kernels *kernels = operators->kernels;
    const struct mw_layer_activations *layer = compute->layer;
    int64_t n = act_elements(compute);
    int64_t twin = mw_decoder_inner(compute->decoder, mw_operator_tokens(compute));

    if (mw_decoder_gated(compute->decoder))
        kernels->swiglu_forward(operators->device, layer->act, layer->up,
                                mw_operator_read_at(compute, layer->up, twin), n);
    else if (compute->decoder->activation == MW_ACTIVATION_GELU_TANH)
        kernels->gelu_forward(operators->device, layer->act, layer->up, n);
    else if (compute->decoder->activation == MW_ACTIVATION_GELU_ERF)
        kernels->gelu_erf_forward(operators->device, layer->act, layer->up, n);
    else
        kernels->relu_forward(operators->device, layer->act, layer->up, n);
}

static void
act_backward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_kernels *kernels = operators->kernels;
    void *wide = compute->shared->wide, *to = compute->layer->gradient.up;
    const void *up = compute->layer->up;
    int64_t n = act_elements(compute);
    int64_t twin = mw_decoder_inner(compute->decoder, mw_operator_tokens(compute));

    if (mw_decoder_gated(compute->decoder))
        kernels->swiglu_backward(operators->device, to, mw_operator_at(compute, to, twin), wide, up,
                                 mw_operator_read_at(compute, up, twin), n);
    else if (compute->decoder->activation == MW_ACTIVATION_GELU_TANH)
        kernels->gelu_backward(operators->device, to, wide, up, n);
    else if (compute->decoder->activation == MW_ACTIVATION_GELU_ERF)
        kernels->gelu_erf_backward(operators->device, to, wide, up, n);
    else
        kernels->relu_backward(operators->device, to, wide, up, n);
}

const struct mw_operator_runner mw_run_mlp_act = {
    .forward.before = act_forward,
    .backward.before = act_backward,
};

static struct mw_operator_linear
up_linear(const struct mw_compute *c, int number)
{
    int64_t tokens = mw_operator_tokens(c), ffn = c->decoder->ffn;
    bool gated = mw_decoder_gated(c->decoder);

    return (struct mw_operator_linear){
        .tokens = tokens,
        .in = c->decoder->hidden,
        .out = ffn,
        .x = mw_operator_input_rows(c, c->layer->n2),
        .y = c->layer->up,
        .dy = c->layer->gradient.up,
        .dx = c->layer->gradient.n2,
        .twin = gated ? tokens * ffn : 0,
    };
}

const struct mw_operator_runner mw_run_mlp_up = {
    .backward.behind = mw_operator_bias,
    .weights.behind = mw_operator_bias,
    .linear = up_linear,
};
