/* What a layer's operators do beside matrix products. */
#include <math.h>
#include <string.h>

#include "exec/cpu/operators_internal.h"

/* --- norms ----------------------------------------------------------------------------------- */

void
mw_cpu_norm_forward(const struct mw_cpu_operators *operators, const struct mw_compute *compute,
                    const struct mw_cpu_norm *norm)
{
    const struct mw_cpu_kernels *kernels = operators->kernels;
    int64_t tokens = mw_cpu_tokens(compute), hidden = compute->decoder->hidden;
    const uint16_t *weight = compute->params + compute->part->norm_weight_at;
    float eps = (float)compute->decoder->norm_epsilon;
    float *mean = operators->token_scratch, *rstd = mean + tokens;

    if (compute->part->norm_bias_at < 0)
        kernels->rmsnorm_forward(norm->y, rstd, norm->x, weight, tokens, hidden, eps);
    else
        kernels->layernorm_forward(norm->y, mean, rstd, norm->x, weight,
                                   compute->params + compute->part->norm_bias_at, tokens, hidden,
                                   eps);
}

static void
norm_parameters(const struct mw_cpu_operators *operators, const struct mw_compute *compute,
                const struct mw_cpu_norm *norm)
{
    const struct mw_cpu_kernels *kernels = operators->kernels;
    int64_t tokens = mw_cpu_tokens(compute), hidden = compute->decoder->hidden;
    const struct mw_part *part = compute->part;
    float *mean = operators->token_scratch, *rstd = mean + tokens;

    kernels->norm_weight_gradient(mw_cpu_gradient_at(compute, part->norm_weight_at), norm->dy,
                                  norm->x, part->norm_bias_at < 0 ? NULL : mean, rstd, tokens,
                                  hidden);
    if (part->norm_bias_at >= 0)
        kernels->bias_gradient(mw_cpu_gradient_at(compute, part->norm_bias_at), norm->dy, hidden,
                               tokens, hidden);
}

/* Mean and rstd have no room in the plan: forward runs again to have them. */
void
mw_cpu_norm_backward(const struct mw_cpu_operators *operators, const struct mw_compute *compute,
                     const struct mw_cpu_norm *norm)
{
    const struct mw_cpu_kernels *kernels = operators->kernels;
    int64_t tokens = mw_cpu_tokens(compute), hidden = compute->decoder->hidden;
    const uint16_t *weight = compute->params + compute->part->norm_weight_at;
    float *mean = operators->token_scratch, *rstd = mean + tokens;

    mw_cpu_norm_forward(operators, compute, norm);
    if (compute->gradient)
        norm_parameters(operators, compute, norm);
    if (compute->part->norm_bias_at < 0)
        kernels->rmsnorm_backward(norm->dx, norm->dx_add, norm->dy, norm->x, weight, rstd, tokens,
                                  hidden);
    else
        kernels->layernorm_backward(norm->dx, norm->dx_add, norm->dy, norm->x, weight, mean, rstd,
                                    tokens, hidden);
}

static struct mw_cpu_norm
norm_of(const struct mw_compute *compute)
{
    const struct mw_layer_room *layer = compute->layer;
    const struct mw_shared_room *room = compute->room;
    bool first = compute->operator_ == MW_OPERATOR_NORM1;

    return (struct mw_cpu_norm){
        .y = first ? layer->n1 : layer->n2,
        .x = first ? layer->x : layer->x2,
        .dx = room->gradient,
        .dx_add = room->gradient,
        .dy = room->branch,
    };
}

static void
norm_forward(const struct mw_cpu_operators *operators, const struct mw_compute *compute)
{
    struct mw_cpu_norm norm = norm_of(compute);

    mw_cpu_norm_forward(operators, compute, &norm);
}

static void
norm_backward(const struct mw_cpu_operators *operators, const struct mw_compute *compute)
{
    struct mw_cpu_norm norm = norm_of(compute);

    mw_cpu_norm_backward(operators, compute, &norm);
}

/* --- attention ------------------------------------------------------------------------------- */

static void
rotate(const struct mw_cpu_operators *operators, const struct mw_compute *compute, uint16_t *qkv,
       bool inverse)
{
    const struct mw_decoder *decoder = compute->decoder;
    bool whole = mw_cpu_has_last_rows(&compute->part->matrix);

    if (operators->rope && whole) /* q and k are neighbours: heads behind heads */
        operators->kernels->rope(qkv, operators->rope, compute->sequences, compute->seq,
                                 decoder->heads + decoder->kv_heads, decoder->head_dim,
                                 mw_cpu_qkv_width(compute), inverse);
}

static void
qkv_forward(const struct mw_cpu_operators *operators, const struct mw_compute *compute)
{
    rotate(operators, compute, compute->layer->qkv, false);
}

static void
qkv_backward(const struct mw_cpu_operators *operators, const struct mw_compute *compute)
{
    rotate(operators, compute, compute->room->wide, true);
}

static struct mw_cpu_attention
shape_of(const struct mw_compute *compute)
{
    const struct mw_decoder *decoder = compute->decoder;
    int64_t width = mw_cpu_qkv_width(compute);

    return (struct mw_cpu_attention){
        .batch = compute->sequences,
        .seq = compute->seq,
        .heads = decoder->heads,
        .kv_heads = decoder->kv_heads,
        .head_dim = decoder->head_dim,
        .ld_q = width,
        .ld_k = width,
        .ld_v = width,
        .ld_o = mw_decoder_q(decoder),
        .scale = 1.0f / sqrtf((float)decoder->head_dim),
    };
}

static void
attention_forward(const struct mw_cpu_operators *operators, const struct mw_compute *compute)
{
    struct mw_cpu_attention shape = shape_of(compute);
    const struct mw_layer_room *layer = compute->layer;
    const uint16_t *k = layer->qkv + mw_decoder_q(compute->decoder);

    operators->kernels->attention_forward(&shape, layer->o, layer->lse, layer->qkv, k,
                                          k + mw_decoder_kv(compute->decoder),
                                          operators->attention_scratch);
}

static void
attention_backward(const struct mw_cpu_operators *operators, const struct mw_compute *compute)
{
    struct mw_cpu_attention shape = shape_of(compute);
    const struct mw_layer_room *layer = compute->layer;
    int64_t q = mw_decoder_q(compute->decoder), kv = mw_decoder_kv(compute->decoder);
    uint16_t *dqkv = compute->room->wide;

    operators->kernels->attention_backward(
        &shape, dqkv, dqkv + q, dqkv + q + kv, compute->room->branch, layer->o, layer->lse,
        layer->qkv, layer->qkv + q, layer->qkv + q + kv, operators->attention_scratch);
}

/* --- residual stream ------------------------------------------------------------------------- */

/* The part's columns of what the product is added to. */
static void
copy_columns(const struct mw_compute *compute, uint16_t *to, const uint16_t *from)
{
    int64_t first = compute->part->matrix.first_row, count = compute->part->matrix.rows;
    int64_t tokens = mw_cpu_tokens(compute), hidden = compute->decoder->hidden;

#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < tokens; t++)
        memcpy(to + t * hidden + first, from + t * hidden + first, (size_t)count * sizeof *to);
}

static void
projection_forward(const struct mw_cpu_operators *operators, const struct mw_compute *compute)
{
    (void)operators;
    copy_columns(compute, compute->layer->x2, compute->layer->x);
}

static void
down_forward(const struct mw_cpu_operators *operators, const struct mw_compute *compute)
{
    (void)operators;
    copy_columns(compute, compute->output, compute->layer->x2);
}

/* --- the MLP's inner activation -------------------------------------------------------------- */

static void
act_forward(const struct mw_cpu_operators *operators, const struct mw_compute *compute)
{
    const struct mw_cpu_kernels *kernels = operators->kernels;
    const struct mw_layer_room *layer = compute->layer;
    int64_t n = mw_cpu_tokens(compute) * compute->decoder->ffn;

    if (mw_decoder_gated(compute->decoder))
        kernels->swiglu_forward(layer->act, layer->up, layer->up + n, n);
    else if (compute->decoder->activation == MW_ACTIVATION_GELU_TANH)
        kernels->gelu_forward(layer->act, layer->up, n);
    else if (compute->decoder->activation == MW_ACTIVATION_GELU_ERF)
        kernels->gelu_erf_forward(layer->act, layer->up, n);
    else
        kernels->relu_forward(layer->act, layer->up, n);
}

static void
act_backward(const struct mw_cpu_operators *operators, const struct mw_compute *compute)
{
    const struct mw_cpu_kernels *kernels = operators->kernels;
    uint16_t *wide = compute->room->wide, *up = compute->layer->up;
    int64_t n = mw_cpu_tokens(compute) * compute->decoder->ffn;

    if (mw_decoder_gated(compute->decoder))
        kernels->swiglu_backward(up, up + n, wide, up, up + n, n);
    else if (compute->decoder->activation == MW_ACTIVATION_GELU_TANH)
        kernels->gelu_backward(wide, wide, up, n);
    else if (compute->decoder->activation == MW_ACTIVATION_GELU_ERF)
        kernels->gelu_erf_backward(wide, wide, up, n);
    else
        kernels->relu_backward(wide, wide, up, n);
}

struct mw_cpu_steps
mw_cpu_layer_steps(enum mw_operator operator_, bool backward)
{
    static const struct mw_cpu_steps steps[MW_OPERATOR_COUNT][2] = {
        [MW_OPERATOR_NORM1] = {{norm_forward, NULL}, {norm_backward, NULL}},
        [MW_OPERATOR_QKV] = {{NULL, qkv_forward}, {qkv_backward, mw_cpu_operator_bias}},
        [MW_OPERATOR_ATTENTION] = {{attention_forward, NULL}, {attention_backward, NULL}},
        [MW_OPERATOR_PROJECTION] = {{projection_forward, NULL}, {NULL, mw_cpu_operator_bias}},
        [MW_OPERATOR_NORM2] = {{norm_forward, NULL}, {norm_backward, NULL}},
        [MW_OPERATOR_MLP_UP] = {{NULL, NULL}, {NULL, mw_cpu_operator_bias}},
        [MW_OPERATOR_MLP_ACT] = {{act_forward, NULL}, {act_backward, NULL}},
        [MW_OPERATOR_MLP_DOWN] = {{down_forward, NULL}, {NULL, mw_cpu_operator_bias}},
    };

    return steps[operator_][backward];
}
