/* The operators of the decoder in fp64. */
#include <math.h>
#include <string.h>

#include "tests/kernel_reference.h"
#include "tests/reference_decoder_internal.h"

double *
mw_reference_zeros(int64_t n)
{
    return g_new0(double, n);
}

const double *
mw_reference_params(const struct mw_reference_pass *r, enum mw_operator operator_, int64_t layer)
{
    return r->in->params + mw_whole_begin(r->d, operator_, layer);
}

double *
mw_reference_gradients(const struct mw_reference_pass *r, enum mw_operator operator_, int64_t layer)
{
    return r->gradients + mw_whole_begin(r->d, operator_, layer);
}

/* --- products: the operator's matrices as one, [rows, in], its biases behind them ------------- */

/* Adapters of a product: A [inputs * rank, in], B [rows, rank].  A row of the product is of one of
 * its matrices, which have an A each, or share one. */
struct lora {
    enum mw_operator operator_; /* MW_OPERATOR_NONE: there is none */
    int64_t rank, inputs;
    double scale;
    uint32_t bare; /* matrices without, as bits 1 << enum mw_target */
};

/* The number of a row's matrix among those of the product. */
static int
matrix_of(const struct mw_reference_pass *r, const struct mw_reference_product *p, int64_t row)
{
    if (p->operator_ == MW_OPERATOR_QKV)
        return row < r->q ? MW_TARGET_Q : row < r->q + r->kv ? MW_TARGET_K : MW_TARGET_V;
    if (p->operator_ != MW_OPERATOR_MLP_UP)
        return MW_TARGET_COUNT;
    return p->rows > r->d->ffn && row < r->d->ffn ? MW_TARGET_GATE : MW_TARGET_UP;
}

static int64_t
adapted_rows(const struct mw_reference_pass *r, const struct mw_reference_product *p, uint32_t bare)
{
    int64_t rows = 0;

    for (int64_t i = 0; i < p->rows; i++)
        rows += !(bare >> matrix_of(r, p, i) & 1);
    return rows;
}

static struct lora
lora_of(const struct mw_reference_pass *r, const struct mw_reference_product *p)
{
    struct lora lora = {.rank = r->d->lora_rank};

    for (int i = 1; i < MW_OPERATOR_COUNT; i++)
        if (mw_operator_row(i)->adapts == p->operator_ && r->d->lora_adapted >> p->operator_ & 1)
            lora.operator_ = (enum mw_operator)i;
    if (!lora.operator_)
        return lora;
    int64_t elements = mw_weights_operator_elements(r->d, lora.operator_);
    lora.bare = r->d->lora_bare & mw_targets_of((int)p->operator_);
    lora.inputs = (elements / lora.rank - adapted_rows(r, p, lora.bare)) / p->in;
    lora.scale = r->d->lora_alpha / (double)lora.rank;
    return lora;
}

/* Which A its matrix has; -1: none. */
static int64_t
input_of(const struct mw_reference_pass *r, const struct mw_reference_product *p,
         const struct lora *lora, int64_t row)
{
    int matrix = matrix_of(r, p, row), first = 0;

    if (lora->bare >> matrix & 1)
        return -1;
    if (lora->inputs == 1)
        return 0;
    for (int m = matrix_of(r, p, 0); m < matrix; m++)
        first += !(lora->bare >> m & 1);
    return first;
}

/* out[inputs * rank] = A x, of one token. */
static void
reduce(const double *a, const struct lora *lora, const double *x, int64_t in, double *out)
{
    for (int64_t i = 0; i < lora->inputs * lora->rank; i++) {
        out[i] = 0;
        for (int64_t j = 0; j < in; j++)
            out[i] += a[i * in + j] * x[j];
    }
}

static void
adapt(const struct mw_reference_pass *r, const struct mw_reference_product *p, double *y,
      const double *x)
{
    struct lora lora = lora_of(r, p);
    g_autofree double *u = mw_reference_zeros(lora.inputs * lora.rank + 1);

    if (!lora.operator_)
        return;
    const double *a = mw_reference_params(r, lora.operator_, p->layer);
    const double *b = a + lora.inputs * lora.rank * p->in;
    for (int64_t t = 0; t < r->tokens; t++) {
        reduce(a, &lora, x + t * p->in, p->in, u);
        for (int64_t i = 0, of_b = 0; i < p->rows; i++) {
            int64_t input = input_of(r, p, &lora, i);
            for (int64_t k = 0; k < lora.rank && input >= 0; k++)
                y[t * p->rows + i] +=
                    lora.scale * b[of_b * lora.rank + k] * u[input * lora.rank + k];
            of_b += input >= 0;
        }
    }
}

static void
adapt_back(const struct mw_reference_pass *r, const struct mw_reference_product *p,
           const double *dy, const double *x, double *dx)
{
    struct lora lora = lora_of(r, p);
    int64_t width = lora.inputs * lora.rank;
    g_autofree double *u = mw_reference_zeros(width + 1), *du = mw_reference_zeros(width + 1);

    if (!lora.operator_)
        return;
    const double *a = mw_reference_params(r, lora.operator_, p->layer), *b = a + width * p->in;
    double *da = mw_reference_gradients(r, lora.operator_, p->layer), *db = da + width * p->in;
    for (int64_t t = 0; t < r->tokens; t++) {
        reduce(a, &lora, x + t * p->in, p->in, u);
        memset(du, 0, (size_t)width * sizeof *du);
        for (int64_t i = 0, of_b = 0; i < p->rows; i++) {
            int64_t input = input_of(r, p, &lora, i);
            for (int64_t k = 0; k < lora.rank && input >= 0; k++) {
                int64_t at = input * lora.rank + k;
                double d = lora.scale * dy[t * p->rows + i];
                db[of_b * lora.rank + k] += d * u[at];
                du[at] += d * b[of_b * lora.rank + k];
            }
            of_b += input >= 0;
        }
        for (int64_t i = 0; i < width; i++)
            for (int64_t j = 0; j < p->in; j++) {
                da[i * p->in + j] += du[i] * x[t * p->in + j];
                dx[t * p->in + j] += du[i] * a[i * p->in + j];
            }
    }
}

void
mw_reference_multiply(const struct mw_reference_pass *r, const struct mw_reference_product *p,
                      double *y, const double *x)
{
    const double *w = mw_reference_params(r, p->operator_, p->layer), *bias = w + p->rows * p->in;

    for (int64_t t = 0; t < r->tokens; t++)
        for (int64_t i = 0; i < p->rows; i++) {
            double sum = p->bias ? bias[i] : 0;
            for (int64_t j = 0; j < p->in; j++)
                sum += w[i * p->in + j] * x[t * p->in + j];
            y[t * p->rows + i] = sum;
        }
    adapt(r, p, y, x);
}

/* Returns dx, to be freed; adds to the gradients of weight and bias. */
double *
mw_reference_multiply_back(const struct mw_reference_pass *r, const struct mw_reference_product *p,
                           const double *dy, const double *x)
{
    const double *w = mw_reference_params(r, p->operator_, p->layer);
    double *dw = mw_reference_gradients(r, p->operator_, p->layer), *dbias = dw + p->rows * p->in;
    double *dx = mw_reference_zeros(r->tokens * p->in);

    for (int64_t t = 0; t < r->tokens; t++)
        for (int64_t i = 0; i < p->rows; i++) {
            double d = dy[t * p->rows + i];
            for (int64_t j = 0; j < p->in; j++) {
                dx[t * p->in + j] += d * w[i * p->in + j];
                dw[i * p->in + j] += d * x[t * p->in + j];
            }
            if (p->bias)
                dbias[i] += d;
        }
    adapt_back(r, p, dy, x, dx);
    return dx;
}

struct mw_reference_product
mw_reference_product_of(const struct mw_reference_pass *r, enum mw_operator operator_,
                        int64_t layer)
{
    const struct mw_decoder *d = r->d;
    int64_t gates = d->kind == MW_DECODER_LLAMA;

    switch (operator_) {
    case MW_OPERATOR_QKV:
        return (struct mw_reference_product){operator_, layer, d->hidden, r->q + 2 * r->kv,
                                             d->attention_bias};
    case MW_OPERATOR_PROJECTION:
        return (struct mw_reference_product){operator_, layer, r->q, d->hidden, d->projection_bias};
    case MW_OPERATOR_MLP_UP:
        return (struct mw_reference_product){operator_, layer, d->hidden, d->ffn * (1 + gates),
                                             d->mlp_bias};
    case MW_OPERATOR_MLP_DOWN:
        return (struct mw_reference_product){operator_, layer, d->ffn, d->hidden, d->mlp_bias};
    default:
        return (struct mw_reference_product){operator_, layer, d->hidden, d->vocab, false};
    }
}

void
mw_reference_add(double *sum, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += x[i];
}

/* --- norms ----------------------------------------------------------------------------------- */

void
mw_reference_norm(const struct mw_reference_pass *r, enum mw_operator operator_, int64_t layer,
                  double *y, const double *x)
{
    const double *weight = mw_reference_params(r, operator_, layer);
    bool centred = r->d->kind == MW_DECODER_GPT2;

    mw_ref_norm(y, x, weight, centred ? weight + r->d->hidden : NULL, r->tokens, r->d->hidden,
                r->d->norm_epsilon);
}

/* Returns dx, to be freed. */
double *
mw_reference_norm_back(const struct mw_reference_pass *r, enum mw_operator operator_, int64_t layer,
                       const double *dy, const double *x)
{
    double *dweight = mw_reference_gradients(r, operator_, layer);
    bool centred = r->d->kind == MW_DECODER_GPT2;
    double *dx = mw_reference_zeros(r->tokens * r->d->hidden);

    mw_ref_norm_backward(dx, dweight, centred ? dweight + r->d->hidden : NULL, dy, x,
                         mw_reference_params(r, operator_, layer), r->tokens, r->d->hidden,
                         r->d->norm_epsilon);
    return dx;
}

/* --- attention ------------------------------------------------------------------------------- */

/* transformers' _compute_llama3_parameters, in wavelengths. */
static double
frequency(const struct mw_decoder *d, int64_t pair)
{
    const struct mw_rope_scaling *s = &d->rope_scaling;
    double f = 1 / pow(d->rope_theta, (double)(2 * pair) / (double)d->head_dim);
    double wavelength = 2 * G_PI / f, context = (double)s->original_positions;

    if (s->factor <= 1)
        return f;
    if (wavelength > context / s->low_frequency_factor)
        return f / s->factor;
    if (wavelength < context / s->high_frequency_factor)
        return f;
    double smooth = (context / wavelength - s->low_frequency_factor) /
                    (s->high_frequency_factor - s->low_frequency_factor);
    return (1 - smooth) * f / s->factor + smooth * f;
}

static void
rotate(const struct mw_reference_pass *r, double *x, int64_t heads, double sign)
{
    const struct mw_decoder *d = r->d;
    int64_t half = d->head_dim / 2;

    if (d->rope_theta <= 0)
        return;
    for (int64_t row = 0; row < r->tokens * heads; row++)
        for (int64_t i = 0; i < half; i++) {
            double angle = sign * (double)(row / heads % r->in->seq) * frequency(d, i);
            double *a = x + row * d->head_dim + i, *b = a + half, kept = *a;
            *a = kept * cos(angle) - *b * sin(angle);
            *b = *b * cos(angle) + kept * sin(angle);
        }
}

/* Columns of the fused tensor to a dense one, or back. */
static void
copy_columns(const struct mw_reference_pass *r, double *fused, double *dense, int64_t at,
             int64_t width, bool back)
{
    int64_t all = r->q + 2 * r->kv;

    for (int64_t t = 0; t < r->tokens; t++) {
        double *a = fused + t * all + at, *b = dense + t * width;
        memcpy(back ? a : b, back ? b : a, (size_t)width * sizeof *a);
    }
}

static void
split(const struct mw_reference_pass *r, double *qkv, double *q, double *k, double *v, bool back)
{
    copy_columns(r, qkv, q, 0, r->q, back);
    copy_columns(r, qkv, k, r->q, r->kv, back);
    copy_columns(r, qkv, v, r->q + r->kv, r->kv, back);
}

static struct mw_ref_attention
attention_of(const struct mw_reference_pass *r)
{
    return (struct mw_ref_attention){r->in->sequences, r->in->seq,
                                     r->d->heads,      r->d->kv_heads,
                                     r->d->head_dim,   1 / sqrt((double)r->d->head_dim)};
}

/* An RMSNorm of each head: the weights lie behind matrices and biases. */
static int64_t
head_weight(const struct mw_reference_pass *r, bool of_k)
{
    int64_t rows = r->q + 2 * r->kv;

    return rows * (r->d->hidden + r->d->attention_bias) + (of_k ? r->d->head_dim : 0);
}

static void
norm_heads(const struct mw_reference_pass *r, int64_t layer, double *x, bool of_k)
{
    int64_t rows = r->tokens * (of_k ? r->d->kv_heads : r->d->heads), n = rows * r->d->head_dim;
    g_autofree double *y = mw_reference_zeros(n);

    if (!r->d->qk_norm)
        return;
    mw_ref_norm(y, x, mw_reference_params(r, MW_OPERATOR_QKV, layer) + head_weight(r, of_k), NULL,
                rows, r->d->head_dim, r->d->norm_epsilon);
    memcpy(x, y, (size_t)n * sizeof *x);
}

static void
norm_heads_back(const struct mw_reference_pass *r, int64_t layer, double *dy, const double *x,
                bool of_k)
{
    int64_t rows = r->tokens * (of_k ? r->d->kv_heads : r->d->heads), n = rows * r->d->head_dim;
    g_autofree double *dx = mw_reference_zeros(n);

    if (!r->d->qk_norm)
        return;
    mw_ref_norm_backward(
        dx, mw_reference_gradients(r, MW_OPERATOR_QKV, layer) + head_weight(r, of_k), NULL, dy, x,
        mw_reference_params(r, MW_OPERATOR_QKV, layer) + head_weight(r, of_k), rows, r->d->head_dim,
        r->d->norm_epsilon);
    memcpy(dy, dx, (size_t)n * sizeof *dy);
}

void
mw_reference_attend(const struct mw_reference_pass *r, struct mw_reference_layer *l)
{
    struct mw_ref_attention shape = attention_of(r);

    split(r, l->qkv, l->q, l->k, l->v, false);
    norm_heads(r, l - r->layers, l->q, false);
    norm_heads(r, l - r->layers, l->k, true);
    rotate(r, l->q, r->d->heads, 1);
    rotate(r, l->k, r->d->kv_heads, 1);
    mw_ref_attention(&shape, l->o, l->lse, l->q, l->k, l->v);
}

/* Returns the gradient of qkv, to be freed. */
double *
mw_reference_attend_back(const struct mw_reference_pass *r, const struct mw_reference_layer *l,
                         const double *d_o)
{
    struct mw_ref_attention shape = attention_of(r);
    double *dqkv = mw_reference_zeros(r->tokens * (r->q + 2 * r->kv));
    g_autofree double *dq = mw_reference_zeros(r->tokens * r->q);
    g_autofree double *dk = mw_reference_zeros(r->tokens * r->kv),
                      *dv = mw_reference_zeros(r->tokens * r->kv);
    g_autofree double *raw_q = mw_reference_zeros(r->tokens * r->q),
                      *raw_k = mw_reference_zeros(r->tokens * r->kv),
                      *raw_v = mw_reference_zeros(r->tokens * r->kv);

    mw_ref_attention_backward(&shape, dq, dk, dv, d_o, NULL, l->q, l->k, l->v);
    rotate(r, dq, r->d->heads, -1);
    rotate(r, dk, r->d->kv_heads, -1);
    split(r, l->qkv, raw_q, raw_k, raw_v, false);
    norm_heads_back(r, l - r->layers, dq, raw_q, false);
    norm_heads_back(r, l - r->layers, dk, raw_k, true);
    split(r, dqkv, dq, dk, dv, true);
    return dqkv;
}

/* --- the MLP's inner activation: [T, f], or with a gate [T, gate f, up f] -------------------- */

static enum mw_ref_activation
kind_of(const struct mw_decoder *d)
{
    return d->activation == MW_ACTIVATION_RELU       ? MW_REF_RELU
           : d->activation == MW_ACTIVATION_GELU_ERF ? MW_REF_GELU_ERF
                                                     : MW_REF_GELU;
}

void
mw_reference_activate(const struct mw_reference_pass *r, struct mw_reference_layer *l)
{
    int64_t f = r->d->ffn;
    bool gated = r->d->kind == MW_DECODER_LLAMA;

    for (int64_t t = 0; t < r->tokens; t++)
        for (int64_t i = 0; i < f; i++)
            l->act[t * f + i] =
                gated ? mw_ref_swiglu(l->up[2 * t * f + i], l->up[(2 * t + 1) * f + i])
                      : mw_ref_activate(kind_of(r->d), l->up[t * f + i]);
}

/* Returns the gradient of up, to be freed. */
double *
mw_reference_activate_back(const struct mw_reference_pass *r, const struct mw_reference_layer *l,
                           const double *dact)
{
    int64_t f = r->d->ffn;
    bool gated = r->d->kind == MW_DECODER_LLAMA;
    double *dup = mw_reference_zeros(r->tokens * f * 2);

    for (int64_t t = 0; t < r->tokens; t++)
        for (int64_t i = 0; i < f; i++) {
            int64_t gate = 2 * t * f + i, at = t * f + i;
            if (gated)
                mw_ref_swiglu_slopes(&dup[gate], &dup[gate + f], dact[at], l->up[gate],
                                     l->up[gate + f]);
            else
                dup[at] = dact[at] * mw_ref_activation_slope(kind_of(r->d), l->up[at]);
        }
    return dup;
}
