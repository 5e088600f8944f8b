#include "tests/reference_decoder.h"

#include <string.h>

#include "tests/kernel_reference.h"
#include "tests/reference_decoder_internal.h"

/* --- layers ---------------------------------------------------------------------------------- */

static void
mlp_forward(const struct mw_reference_pass *r, int64_t layer, double *output)
{
    struct mw_reference_layer *l = &r->layers[layer];
    struct mw_reference_product up = mw_reference_product_of(r, MW_OPERATOR_MLP_UP, layer);
    struct mw_reference_product down = mw_reference_product_of(r, MW_OPERATOR_MLP_DOWN, layer);

    if (r->d->experts) {
        mw_reference_experts(r, layer, output, l->n2);
        return;
    }
    mw_reference_multiply(r, &up, l->up, l->n2);
    mw_reference_activate(r, l);
    mw_reference_multiply(r, &down, output, l->act);
}

/* Returns the gradient of n2, to be freed. */
static double *
mlp_backward(const struct mw_reference_pass *r, int64_t layer, const double *gradient)
{
    const struct mw_reference_layer *l = &r->layers[layer];
    struct mw_reference_product up = mw_reference_product_of(r, MW_OPERATOR_MLP_UP, layer);
    struct mw_reference_product down = mw_reference_product_of(r, MW_OPERATOR_MLP_DOWN, layer);

    if (r->d->experts)
        return mw_reference_experts_back(r, layer, gradient, l->n2);
    g_autofree double *dact = mw_reference_multiply_back(r, &down, gradient, l->act);
    g_autofree double *dup = mw_reference_activate_back(r, l, dact);
    return mw_reference_multiply_back(r, &up, dup, l->n2);
}

static void
layer_forward(const struct mw_reference_pass *r, int64_t layer, double *output)
{
    struct mw_reference_layer *l = &r->layers[layer];
    struct mw_reference_product qkv = mw_reference_product_of(r, MW_OPERATOR_QKV, layer);
    struct mw_reference_product projection =
        mw_reference_product_of(r, MW_OPERATOR_PROJECTION, layer);
    int64_t elements = r->tokens * r->d->hidden;

    mw_reference_norm(r, MW_OPERATOR_NORM1, layer, l->n1, l->x);
    mw_reference_multiply(r, &qkv, l->qkv, l->n1);
    mw_reference_attend(r, l);
    mw_reference_multiply(r, &projection, l->x2, l->o);
    mw_reference_add(l->x2, l->x, elements);
    mw_reference_norm(r, MW_OPERATOR_NORM2, layer, l->n2, l->x2);
    mlp_forward(r, layer, output);
    mw_reference_add(output, l->x2, elements);
}

/* gradient: of the layer's output, in the end of its input. */
static void
layer_backward(const struct mw_reference_pass *r, int64_t layer, double *gradient)
{
    const struct mw_reference_layer *l = &r->layers[layer];
    struct mw_reference_product qkv = mw_reference_product_of(r, MW_OPERATOR_QKV, layer);
    struct mw_reference_product projection =
        mw_reference_product_of(r, MW_OPERATOR_PROJECTION, layer);
    int64_t elements = r->tokens * r->d->hidden;

    g_autofree double *dn2 = mlp_backward(r, layer, gradient);
    g_autofree double *dx2 = mw_reference_norm_back(r, MW_OPERATOR_NORM2, layer, dn2, l->x2);
    mw_reference_add(gradient, dx2, elements);
    g_autofree double *d_o = mw_reference_multiply_back(r, &projection, gradient, l->o);
    g_autofree double *dqkv = mw_reference_attend_back(r, l, d_o);
    g_autofree double *dn1 = mw_reference_multiply_back(r, &qkv, dqkv, l->n1);
    g_autofree double *dx = mw_reference_norm_back(r, MW_OPERATOR_NORM1, layer, dn1, l->x);
    mw_reference_add(gradient, dx, elements);
}

/* --- ends ------------------------------------------------------------------------------------ */

/* The row of the table for a token: of its id, then (second) of its position. */
static int64_t
table_row(const struct mw_reference_pass *r, int64_t token, bool second)
{
    return second ? r->d->vocab + token % r->in->seq : r->in->ids[token];
}

static void
embed(const struct mw_reference_pass *r, double *x)
{
    const double *table = mw_reference_params(r, MW_OPERATOR_EMBEDDING, -1);
    int64_t h = r->d->hidden;

    memset(x, 0, (size_t)(r->tokens * h) * sizeof *x);
    for (int64_t t = 0; t < r->tokens; t++)
        for (int second = 0; second <= (r->d->position_rows > 0); second++)
            mw_reference_add(x + t * h, table + table_row(r, t, second) * h, h);
}

static void
embed_back(const struct mw_reference_pass *r, const double *gradient)
{
    double *table = mw_reference_gradients(r, MW_OPERATOR_EMBEDDING, -1);
    int64_t h = r->d->hidden;

    for (int64_t t = 0; t < r->tokens; t++)
        for (int second = 0; second <= (r->d->position_rows > 0); second++)
            mw_reference_add(table + table_row(r, t, second) * h, gradient + t * h, h);
}

static double
end_forward(const struct mw_reference_pass *r, double *dlogits)
{
    struct mw_reference_product logits = mw_reference_product_of(r, MW_OPERATOR_LOGITS, -1);

    mw_reference_norm(r, MW_OPERATOR_FINAL_NORM, -1, r->final, r->hidden);
    mw_reference_multiply(r, &logits, r->logits, r->final);
    return mw_ref_cross_entropy(dlogits, r->logits, r->in->targets, r->tokens, r->d->vocab,
                                1 / (double)r->tokens) /
           (double)r->tokens;
}

static void
backward(const struct mw_reference_pass *r, const double *dlogits)
{
    struct mw_reference_product logits = mw_reference_product_of(r, MW_OPERATOR_LOGITS, -1);
    g_autofree double *dfinal = mw_reference_multiply_back(r, &logits, dlogits, r->final);
    g_autofree double *gradient =
        mw_reference_norm_back(r, MW_OPERATOR_FINAL_NORM, -1, dfinal, r->hidden);

    for (int64_t layer = r->d->layers - 1; layer >= 0; layer--)
        layer_backward(r, layer, gradient);
    embed_back(r, gradient);
}

/* --- the whole ------------------------------------------------------------------------------- */

static void
make_layer(const struct mw_reference_pass *r, struct mw_reference_layer *l)
{
    int64_t h = r->tokens * r->d->hidden, q = r->tokens * r->q, kv = r->tokens * r->kv;
    int64_t f = r->tokens * r->d->ffn;
    const int64_t sizes[] = {h, h, q + 2 * kv, q, kv, kv, q, r->tokens * r->d->heads,
                             h, h, 2 * f,      f};
    double **places = &l->x;

    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
        places[i] = mw_reference_zeros(sizes[i]);
}

static void
clear_layer(struct mw_reference_layer *l)
{
    double **places = &l->x;

    for (size_t i = 0; i < sizeof *l / sizeof *places; i++)
        g_free(places[i]);
}

static void
copy_out(const struct mw_reference_pass *r, double *logits, double *hidden)
{
    int64_t elements = r->tokens * r->d->hidden;

    if (logits)
        memcpy(logits, r->logits, (size_t)(r->tokens * r->d->vocab) * sizeof *logits);
    for (int64_t layer = 0; hidden && layer <= r->d->layers; layer++)
        memcpy(hidden + layer * elements, layer < r->d->layers ? r->layers[layer].x : r->hidden,
               (size_t)elements * sizeof *hidden);
}

double
mw_reference_run(const struct mw_reference *reference, double *logits, double *hidden,
                 double *gradients_out)
{
    const struct mw_decoder *d = reference->decoder;
    int64_t tokens = reference->sequences * reference->seq;
    struct mw_reference_pass r = {.d = d,
                                  .in = reference,
                                  .tokens = tokens,
                                  .q = d->heads * d->head_dim,
                                  .kv = d->kv_heads * d->head_dim,
                                  .layers = g_new0(struct mw_reference_layer, d->layers),
                                  .hidden = mw_reference_zeros(tokens * d->hidden),
                                  .final = mw_reference_zeros(tokens * d->hidden),
                                  .logits = mw_reference_zeros(tokens * d->vocab),
                                  .gradients = gradients_out};
    g_autofree double *dlogits = mw_reference_zeros(tokens * d->vocab);
    double router_loss = 0;

    r.router_loss = &router_loss;
    for (int64_t layer = 0; layer < d->layers; layer++)
        make_layer(&r, &r.layers[layer]);
    embed(&r, r.layers[0].x);
    for (int64_t layer = 0; layer < d->layers; layer++)
        layer_forward(&r, layer, layer + 1 < d->layers ? r.layers[layer + 1].x : r.hidden);
    double loss = end_forward(&r, dlogits) + router_loss;
    if (gradients_out) {
        memset(gradients_out, 0, (size_t)mw_weights_elements(d) * sizeof *gradients_out);
        backward(&r, dlogits);
    }
    copy_out(&r, logits, hidden);
    for (int64_t layer = 0; layer < d->layers; layer++)
        clear_layer(&r.layers[layer]);
    g_free(r.layers);
    g_free(r.hidden);
    g_free(r.final);
    g_free(r.logits);
    return loss;
}
