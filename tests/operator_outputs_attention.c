/* Of attention. */
#include <math.h>

#include "tests/operator_outputs_internal.h"

/* A head of queries, with its keys, in one sequence. */
struct head {
    const struct mw_decoder *decoder;
    int64_t seq, dim, first, width; /* first: token */
    int64_t index, q_at, k_at, v_at;
    double scale;
    const double *qkv;
};

static struct head
head_of(const struct mw_output_list *l, const double *qkv, int64_t sequence, int64_t index)
{
    const struct mw_compute *c = l->compute;
    const struct mw_decoder *d = c->decoder;
    int64_t group = d->heads / d->kv_heads, k_at = mw_decoder_q(d) + index / group * d->head_dim;

    return (struct head){
        .decoder = d,
        .seq = c->seq,
        .dim = d->head_dim,
        .first = sequence * c->seq,
        .width = mw_operator_qkv_width(c),
        .index = index,
        .q_at = index * d->head_dim,
        .k_at = k_at,
        .v_at = k_at + mw_decoder_kv(d),
        .scale = 1 / sqrt((double)d->head_dim),
        .qkv = qkv,
    };
}

static const double *
row_of(const struct head *h, int64_t position, int64_t at)
{
    return h->qkv + (h->first + position) * h->width + at;
}

static double
dot(const double *a, const double *b, int64_t n, double *size)
{
    double sum = 0;

    *size = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
        *size += fabs(a[i] * b[i]);
    }
    return sum;
}

/* Weights, rounded to 16 bits, of values: their sum is 1, so that no result exceeds the largest. */
static void
size_head(const struct mw_output_list *l, const struct head *h, double *o, double *o_rounded,
          double *lse)
{
    g_autofree double *largest = g_new0(double, h->dim);
    int64_t q = mw_decoder_q(h->decoder);

    for (int64_t i = 0; i < h->seq; i++) {
        double scores = 1 + log((double)h->seq), size;
        for (int64_t j = 0; j <= i; j++) {
            dot(row_of(h, i, h->q_at), row_of(h, j, h->k_at), h->dim, &size);
            scores = fmax(scores, 1 + log((double)h->seq) + h->scale * size);
        }
        for (int64_t c = 0; c < h->dim; c++) {
            int64_t at = (h->first + i) * q + h->q_at + c;
            largest[c] = fmax(largest[c], fabs(row_of(h, i, h->v_at)[c]));
            o_rounded[at] = largest[c] + (double)(i + 1) * mw_outputs_least(l->dtype) * largest[c];
            o[at] = scores * largest[c];
        }
        lse[i] = scores;
    }
}

void
mw_outputs_attention_forward(struct mw_output_list *l)
{
    const struct mw_compute *c = l->compute;
    const struct mw_decoder *d = c->decoder;
    int64_t q = mw_decoder_q(d), terms = d->head_dim + c->seq;
    g_autofree double *qkv =
        mw_outputs_load_all(l, c->layer->qkv, mw_outputs_tokens(l) * mw_operator_qkv_width(c));
    struct mw_operator_output o =
        *mw_outputs_add(l, "output", c->layer->o, mw_outputs_tokens(l), q, q, true);
    struct mw_operator_output *lse = mw_outputs_add(l, "log-sum-exp", c->layer->lse,
                                                    c->sequences * d->heads, c->seq, c->seq, true);

    lse->kind = MW_OUTPUT_FP32;
    lse->terms += terms;
    g_array_index(l->outputs, struct mw_operator_output, 0).terms += terms;
    for (int64_t i = 0; i < c->sequences * d->heads; i++) {
        struct head h = head_of(l, qkv, i / d->heads, i % d->heads);
        size_head(l, &h, o.size, o.rounded, lse->size + i * c->seq);
    }
}

/* What a backward writes, as one: dq, dk, dv beside each other. */
struct gradients {
    const struct mw_output_list *l;
    double *size, *rounded;
    const double *d_o, *o; /* [T, q] */
    const float *lse;      /* of the head */
};

static void
add_rows(const struct gradients *g, const struct head *h, int64_t position, int64_t at,
         const double *times, double rounded, double size)
{
    int64_t to = (h->first + position) * h->width + at;

    for (int64_t c = 0; c < h->dim; c++) {
        g->rounded[to + c] += rounded * fabs(times[c]);
        g->size[to + c] += size * fabs(times[c]);
    }
}

/* Query i, key j: p = exp(s - lse), ds = p (do v - do o) scale; both are rounded to 16 bits. */
static void
size_pair(const struct gradients *g, const struct head *h, int64_t i, int64_t j)
{
    int64_t q = mw_decoder_q(h->decoder), at = (h->first + i) * q + h->q_at;
    const double *d_o = g->d_o + at, *k = row_of(h, j, h->k_at), *query = row_of(h, i, h->q_at);
    double s_size, dp_size, delta_size;
    double p = exp(dot(query, k, h->dim, &s_size) * h->scale - (double)g->lse[i]);
    double dp = dot(d_o, row_of(h, j, h->v_at), h->dim, &dp_size);
    double delta = dot(d_o, g->o + at, h->dim, &delta_size);
    double size = p * (1 + h->scale * s_size + fabs((double)g->lse[i]));
    double ds = mw_outputs_at_least(g->l, p * (dp - delta) * h->scale);
    double ds_size = size * h->scale * (dp_size + delta_size);

    add_rows(g, h, i, h->q_at, k, ds, ds_size);
    add_rows(g, h, j, h->k_at, query, ds, ds_size);
    add_rows(g, h, j, h->v_at, d_o, mw_outputs_at_least(g->l, p), size);
}

void
mw_outputs_attention_backward(struct mw_output_list *l)
{
    const struct mw_compute *c = l->compute;
    const struct mw_decoder *d = c->decoder;
    int64_t q = mw_decoder_q(d), width = mw_operator_qkv_width(c);
    g_autofree double *qkv = mw_outputs_load_all(l, c->layer->qkv, mw_outputs_tokens(l) * width);
    g_autofree double *d_o = mw_outputs_load_all(l, c->shared->branch, mw_outputs_tokens(l) * q);
    g_autofree double *o = mw_outputs_load_all(l, c->layer->o, mw_outputs_tokens(l) * q);
    struct mw_operator_output *output = mw_outputs_add(l, "gradient of q, k, v", c->shared->wide,
                                                       mw_outputs_tokens(l), width, width, true);
    struct gradients g = {l, output->size, output->rounded, d_o, o, NULL};

    output->terms += d->head_dim + c->seq * d->heads / d->kv_heads;
    for (int64_t n = 0; n < c->sequences * d->heads; n++) {
        struct head h = head_of(l, qkv, n / d->heads, n % d->heads);
        g.lse = c->layer->lse + n * c->seq;
        for (int64_t i = 0; i < c->seq; i++)
            for (int64_t j = 0; j <= i; j++)
                size_pair(&g, &h, i, j);
    }
}
