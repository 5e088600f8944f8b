/* Of a layer's norms and of its MLP's inner activation; of the final norm too. */
#include <math.h>

#include "tests/operator_outputs_internal.h"

/* --- norms ----------------------------------------------------------------------------------- */

struct norm {
    uint16_t *y;
    const uint16_t *x;
    uint16_t *dx;
    const uint16_t *dy;
    bool adds;
};

static struct norm
norm_of(const struct mw_compute *c)
{
    const struct mw_shared_activations *shared = c->shared;

    if (c->operator_ == MW_OPERATOR_NORM1)
        return (struct norm){c->layer->n1, c->layer->x, shared->gradient, shared->branch, true};
    if (c->operator_ == MW_OPERATOR_NORM2)
        return (struct norm){c->layer->n2, c->layer->x2, shared->gradient, shared->branch, true};
    return (struct norm){shared->final, shared->hidden, shared->gradient, shared->branch, false};
}

/* The largest of a row's elements times its 1 / deviation: at least half of what the norm makes of
 * any; and that factor. */
static double
row_scale(const struct mw_output_list *l, const uint16_t *x, double *rstd)
{
    const struct mw_decoder *decoder = l->compute->decoder;
    double n = (double)decoder->hidden, sum = 0, squares = 0, largest = 0;

    for (int64_t i = 0; i < decoder->hidden; i++) {
        double v = mw_outputs_load(l, x, i);
        sum += v;
        squares += v * v;
        largest = fmax(largest, fabs(v));
    }
    double mean = decoder->kind == MW_DECODER_GPT2 ? sum / n : 0;
    *rstd = 1 / sqrt(squares / n - mean * mean + decoder->norm_epsilon);
    return largest * *rstd;
}

static void
list_norm_forward(struct mw_output_list *l, const struct norm *norm)
{
    const struct mw_compute *c = l->compute;
    int64_t hidden = c->decoder->hidden;
    struct mw_operator_output *output =
        mw_outputs_add(l, "output", norm->y, mw_outputs_tokens(l), hidden, hidden, true);
    const uint16_t *weight = (const uint16_t *)c->params + c->part->norm_weight_at;
    double rstd;

    output->terms += hidden;
    for (int64_t t = 0; t < mw_outputs_tokens(l); t++) {
        double scale = row_scale(l, norm->x + t * hidden, &rstd);
        for (int64_t i = 0; i < hidden; i++)
            output->size[t * hidden + i] =
                2 * scale * fabs(mw_outputs_load(l, weight, i)) +
                (c->part->norm_bias_at < 0
                     ? 0
                     : fabs(mw_outputs_load(l, (const uint16_t *)c->params + c->part->norm_bias_at,
                                            i)));
    }
}

static void
list_norm_parameters(struct mw_output_list *l, const struct norm *norm)
{
    const struct mw_compute *c = l->compute;
    int64_t hidden = c->decoder->hidden, at = c->part->norm_bias_at;
    struct mw_operator_output weight =
        *mw_outputs_add(l, "weight gradient", (uint16_t *)c->gradient + c->part->norm_weight_at, 1,
                        hidden, hidden, mw_outputs_fresh_gradient(l));
    struct mw_operator_output *bias =
        at < 0 ? NULL
               : mw_outputs_add(l, "bias gradient", (uint16_t *)c->gradient + at, 1, hidden, hidden,
                                mw_outputs_fresh_gradient(l));
    double rstd;

    mw_outputs_add_old(l, &weight);
    if (bias)
        mw_outputs_add_old(l, bias);
    for (int64_t t = 0; t < mw_outputs_tokens(l); t++) {
        double scale = row_scale(l, norm->x + t * hidden, &rstd);
        for (int64_t i = 0; i < hidden; i++) {
            double dy = fabs(mw_outputs_load(l, norm->dy, t * hidden + i));
            weight.size[i] += 2 * scale * dy;
            if (bias)
                bias->size[i] += dy;
        }
    }
    for (guint i = 1; i <= (bias ? 2 : 1); i++)
        g_array_index(l->outputs, struct mw_operator_output, l->outputs->len - i).terms +=
            mw_outputs_tokens(l) + hidden;
}

/* dx = rstd (g - mean(g) - xhat mean(g xhat)), g = dy weight. */
static void
list_norm_input(struct mw_output_list *l, const struct norm *norm)
{
    const struct mw_compute *c = l->compute;
    int64_t hidden = c->decoder->hidden;
    const uint16_t *weight = (const uint16_t *)c->params + c->part->norm_weight_at;
    struct mw_operator_output *output = mw_outputs_add(
        l, "input gradient", norm->dx, mw_outputs_tokens(l), hidden, hidden, !norm->adds);
    double rstd;

    output->terms += hidden;
    for (int64_t t = 0; t < mw_outputs_tokens(l); t++) {
        double scale = 2 * row_scale(l, norm->x + t * hidden, &rstd), mean = 0;
        for (int64_t i = 0; i < hidden; i++)
            mean +=
                fabs(mw_outputs_load(l, norm->dy, t * hidden + i) * mw_outputs_load(l, weight, i)) /
                (double)hidden;
        for (int64_t i = 0; i < hidden; i++)
            output->size[t * hidden + i] =
                rstd * (fabs(mw_outputs_load(l, norm->dy, t * hidden + i) *
                             mw_outputs_load(l, weight, i)) +
                        mean + scale * scale * mean);
    }
    mw_outputs_add_old(l, output);
}

void
mw_outputs_norm(struct mw_output_list *l)
{
    struct norm norm = norm_of(l->compute);

    if (!l->compute->backward) {
        list_norm_forward(l, &norm);
        return;
    }
    list_norm_parameters(l, &norm);
    list_norm_input(l, &norm);
}

/* --- the MLP's inner activation -------------------------------------------------------------- */

void
mw_outputs_act_forward(struct mw_output_list *l)
{
    const struct mw_compute *c = l->compute;
    int64_t n = mw_outputs_tokens(l) * c->decoder->ffn;
    bool gated = mw_decoder_gated(c->decoder);
    struct mw_operator_output *output = mw_outputs_add(
        l, "output", c->layer->act, mw_outputs_tokens(l), c->decoder->ffn, c->decoder->ffn, true);

    output->exact = !gated && c->decoder->activation == MW_ACTIVATION_RELU;
    for (int64_t i = 0; i < n; i++) {
        double x = fabs(mw_outputs_load(l, c->layer->up, i));
        output->size[i] = gated ? x * (1 + x) * fabs(mw_outputs_load(l, c->layer->up, n + i)) : x;
    }
}

static void
list_gate_backward(struct mw_output_list *l)
{
    const struct mw_compute *c = l->compute;
    int64_t rows = mw_outputs_tokens(l), ffn = c->decoder->ffn, n = rows * ffn;
    uint16_t *up = c->layer->up;
    struct mw_operator_output gate =
        *mw_outputs_add(l, "gradient of the gate", up, rows, ffn, ffn, false);
    struct mw_operator_output *other =
        mw_outputs_add(l, "gradient of up", up + n, rows, ffn, ffn, false);

    for (int64_t i = 0; i < n; i++) {
        double dy = fabs(mw_outputs_load(l, c->shared->wide, i)),
               x = fabs(mw_outputs_load(l, up, i));
        gate.size[i] = dy * fabs(mw_outputs_load(l, up, n + i)) * (1 + x) * (1 + x);
        other->size[i] = dy * x * (1 + x);
    }
}

void
mw_outputs_act_backward(struct mw_output_list *l)
{
    const struct mw_compute *c = l->compute;
    int64_t ffn = c->decoder->ffn;

    if (mw_decoder_gated(c->decoder)) {
        list_gate_backward(l);
        return;
    }
    struct mw_operator_output *output =
        mw_outputs_add(l, "input gradient", c->shared->wide, mw_outputs_tokens(l), ffn, ffn, false);
    output->exact = c->decoder->activation == MW_ACTIVATION_RELU;
    for (int64_t i = 0; i < mw_outputs_tokens(l) * ffn; i++) {
        double x = fabs(mw_outputs_load(l, c->layer->up, i));
        output->size[i] = fabs(mw_outputs_load(l, c->shared->wide, i)) * (1 + x + x * x * x);
    }
}
