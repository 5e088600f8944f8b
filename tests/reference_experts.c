/* A mixture of experts in fp64, token by token: router, gated experts, their weighted sum. */
#include <math.h>
#include <string.h>

#include "exec/operators/kernel_types.h"
#include "tests/kernel_reference.h"
#include "tests/reference_decoder_internal.h"

/* Of one token: what the router gives, and whom the token visits. */
struct routed {
    double *probability, *weight; /* [experts]; weight 0: not visited */
    double sum;                   /* of the probabilities of those that are */
    double lse;                   /* of the scores */
};

/* The experts' matrices in the vectors of their operators, and the router behind all of up. */
struct places {
    int64_t gate, up, router, down;
};

static struct places
places_of(const struct mw_decoder *d, int64_t expert)
{
    int64_t one = d->ffn * d->hidden;

    return (struct places){expert * one, (d->experts + expert) * one, 2 * d->experts * one,
                           expert * one};
}

static double
dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* How many of a token's experts come before one. */
static int64_t
choice_of(const struct mw_decoder *d, const double *probability, int64_t expert)
{
    int64_t before = 0;

    for (int64_t e = 0; e < d->experts; e++)
        before += probability[e] > probability[expert] ||
                  (probability[e] == probability[expert] && e < expert);
    return before;
}

/* Visited are those that fewer than `experts_per_token` others come before. */
static bool
is_visited(const struct mw_decoder *d, const double *probability, int64_t expert)
{
    return choice_of(d, probability, expert) < d->experts_per_token;
}

static struct routed
route(const struct mw_reference_pass *r, int64_t layer, const double *x)
{
    const struct mw_decoder *d = r->d;
    const double *w = mw_reference_params(r, MW_OPERATOR_MLP_UP, layer) + places_of(d, 0).router;
    struct routed to = {mw_reference_zeros(d->experts), mw_reference_zeros(d->experts), 0, 0};
    double all = 0;

    for (int64_t e = 0; e < d->experts; e++)
        all += to.probability[e] = exp(dot(w + e * d->hidden, x, d->hidden));
    for (int64_t e = 0; e < d->experts; e++)
        to.probability[e] /= all;
    to.lse = log(all);
    for (int64_t e = 0; e < d->experts; e++)
        if (is_visited(d, to.probability, e))
            to.sum += to.weight[e] = to.probability[e];
    for (int64_t e = 0; e < d->experts && d->router_renormalizes; e++)
        to.weight[e] /= to.sum;
    return to;
}

static void
clear(struct routed *to)
{
    g_free(to->probability);
    g_free(to->weight);
}

/* GShard, arXiv 2006.16668, Algorithm 1. */
static bool
is_left_out(const struct mw_reference_pass *r, int64_t layer, int64_t token, int64_t choice,
            double weight)
{
    return r->d->gate == MW_GATING_GSHARD && choice == 1 &&
           !(mw_routing_draw(MW_DRIVE_DRAW + (uint64_t)layer, token) < 2 * weight);
}

/* [tokens][experts]: whether an expert has as many tokens as it takes when a token comes to it: all
 * first choices come before the second ones.  To be freed. */
static bool *
find_dropped(const struct mw_reference_pass *r, int64_t layer, const double *n2)
{
    const struct mw_decoder *d = r->d;
    bool *dropped = g_new0(bool, r->tokens * d->experts);
    g_autofree int64_t *taken = g_new0(int64_t, d->experts);

    for (int64_t choice = 0; choice < d->experts_per_token; choice++)
        for (int64_t t = 0; t < r->tokens; t++) {
            struct routed to = route(r, layer, n2 + t * d->hidden);
            for (int64_t e = 0; e < d->experts; e++)
                if (choice_of(d, to.probability, e) == choice)
                    dropped[t * d->experts + e] =
                        is_left_out(r, layer, t, choice, to.weight[e]) ||
                        (d->rows_of_expert && taken[e]++ >= d->rows_of_expert);
            clear(&to);
        }
    return dropped;
}

/* Of one token and expert. */
struct visit {
    double *gate, *up, *act, *y;
};

static struct visit
visit(const struct mw_reference_pass *r, int64_t layer, int64_t expert, const double *x)
{
    const struct mw_decoder *d = r->d;
    const struct places at = places_of(d, expert);
    const double *in = mw_reference_params(r, MW_OPERATOR_MLP_UP, layer);
    const double *down = mw_reference_params(r, MW_OPERATOR_MLP_DOWN, layer) + at.down;
    struct visit v = {mw_reference_zeros(d->ffn), mw_reference_zeros(d->ffn),
                      mw_reference_zeros(d->ffn), mw_reference_zeros(d->hidden)};

    for (int64_t i = 0; i < d->ffn; i++) {
        v.gate[i] = dot(in + at.gate + i * d->hidden, x, d->hidden);
        v.up[i] = dot(in + at.up + i * d->hidden, x, d->hidden);
        v.act[i] = mw_ref_swiglu(v.gate[i], v.up[i]);
    }
    for (int64_t i = 0; i < d->hidden; i++)
        v.y[i] = dot(down + i * d->ffn, v.act, d->ffn);
    return v;
}

static void
leave(struct visit *v)
{
    g_free(v->gate);
    g_free(v->up);
    g_free(v->act);
    g_free(v->y);
}

/* [experts]: choices of each, as a share of the tokens; where the second one is drawn, first
 * choices.  To be freed. */
static double *
find_shares(const struct mw_reference_pass *r, int64_t layer, const double *n2)
{
    const struct mw_decoder *d = r->d;
    double *shares = mw_reference_zeros(d->experts);
    int64_t counted = d->gate == MW_GATING_GSHARD ? 1 : d->experts_per_token;

    for (int64_t t = 0; t < r->tokens; t++) {
        struct routed to = route(r, layer, n2 + t * d->hidden);
        for (int64_t e = 0; e < d->experts; e++)
            shares[e] += choice_of(d, to.probability, e) < counted ? 1 / (double)r->tokens : 0;
        clear(&to);
    }
    return shares;
}

/* alpha E sum(f_i P_i) (Switch, arXiv 2101.03961, Eq. 4 to 6) and zeta times the mean square of the
 * log-sum-exp of scores (ST-MoE, arXiv 2202.08906, Eq. 5), as means over the layers. */
static void
add_losses(const struct mw_reference_pass *r, int64_t layer, const double *n2)
{
    const struct mw_decoder *d = r->d;
    g_autofree double *shares = find_shares(r, layer, n2);
    double balance = 0, squares = 0, tokens = (double)r->tokens;

    for (int64_t t = 0; t < r->tokens; t++) {
        struct routed to = route(r, layer, n2 + t * d->hidden);
        for (int64_t e = 0; e < d->experts; e++)
            balance += shares[e] * to.probability[e] / tokens;
        squares += to.lse * to.lse / tokens;
        clear(&to);
    }
    *r->router_loss +=
        (d->router_aux_loss * (double)d->experts * balance + d->router_z_loss * squares) /
        (double)d->layers;
}

void
mw_reference_experts(const struct mw_reference_pass *r, int64_t layer, double *output,
                     const double *n2)
{
    int64_t h = r->d->hidden;
    g_autofree bool *dropped = find_dropped(r, layer, n2);

    add_losses(r, layer, n2);
    memset(output, 0, (size_t)(r->tokens * h) * sizeof *output);
    for (int64_t t = 0; t < r->tokens; t++) {
        struct routed to = route(r, layer, n2 + t * h);
        for (int64_t e = 0; e < r->d->experts; e++) {
            if (to.weight[e] == 0 || dropped[t * r->d->experts + e])
                continue;
            struct visit v = visit(r, layer, e, n2 + t * h);
            for (int64_t i = 0; i < h; i++)
                output[t * h + i] += to.weight[e] * v.y[i];
            leave(&v);
        }
        clear(&to);
    }
}

/* dw += dy x^T and dx += W^T dy, of one token. */
static void
product_back(const double *w, double *dw, const double *dy, int64_t rows, const double *x,
             double *dx, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            dw[i * columns + j] += dy[i] * x[j];
            dx[j] += dy[i] * w[i * columns + j];
        }
}

static void
visit_back(const struct mw_reference_pass *r, int64_t layer, int64_t expert, const double *x,
           const struct visit *v, const double *dy, double *dx)
{
    const struct mw_decoder *d = r->d;
    const struct places at = places_of(d, expert);
    const double *in = mw_reference_params(r, MW_OPERATOR_MLP_UP, layer);
    const double *down = mw_reference_params(r, MW_OPERATOR_MLP_DOWN, layer);
    double *din = mw_reference_gradients(r, MW_OPERATOR_MLP_UP, layer);
    double *ddown = mw_reference_gradients(r, MW_OPERATOR_MLP_DOWN, layer);
    g_autofree double *dact = mw_reference_zeros(d->ffn), *dgate = mw_reference_zeros(d->ffn),
                      *dup = mw_reference_zeros(d->ffn);

    product_back(down + at.down, ddown + at.down, dy, d->hidden, v->act, dact, d->ffn);
    for (int64_t i = 0; i < d->ffn; i++)
        mw_ref_swiglu_slopes(&dgate[i], &dup[i], dact[i], v->gate[i], v->up[i]);
    product_back(in + at.gate, din + at.gate, dgate, d->ffn, x, dx, d->hidden);
    product_back(in + at.up, din + at.up, dup, d->ffn, x, dx, d->hidden);
}

/* dweight [experts] becomes the gradient of the router's scores.  A probability counts in its own
 * weight, and renormalized in those of all that are visited, and in the loss of balance; who visits
 * whom has no gradient. */
static void
scores_back(const struct mw_reference_pass *r, const struct routed *to, const double *shares,
            double *dweight)
{
    const struct mw_decoder *d = r->d;
    g_autofree double *dprobability = mw_reference_zeros(d->experts);
    double tokens = (double)r->tokens * (double)d->layers;

    for (int64_t e = 0; e < d->experts; e++)
        dprobability[e] = d->router_aux_loss * (double)d->experts * shares[e] / tokens;
    for (int64_t e = 0; e < d->experts; e++)
        for (int64_t j = 0; j < d->experts; j++) {
            if (to->weight[e] == 0 || to->weight[j] == 0)
                continue;
            double slope = d->router_renormalizes
                               ? ((e == j) - to->probability[j] / to->sum) / to->sum
                               : (e == j);
            dprobability[e] += dweight[j] * slope;
        }
    for (int64_t e = 0; e < d->experts; e++) {
        dweight[e] = d->router_z_loss * 2 * to->lse * to->probability[e] / tokens;
        for (int64_t j = 0; j < d->experts; j++)
            dweight[e] += dprobability[j] * to->probability[j] * ((e == j) - to->probability[e]);
    }
}

double *
mw_reference_experts_back(const struct mw_reference_pass *r, int64_t layer, const double *doutput,
                          const double *n2)
{
    const struct mw_decoder *d = r->d;
    int64_t h = d->hidden, router = places_of(d, 0).router;
    double *dx = mw_reference_zeros(r->tokens * h);
    g_autofree double *dy = mw_reference_zeros(h), *dweight = mw_reference_zeros(d->experts);
    g_autofree bool *dropped = find_dropped(r, layer, n2);
    g_autofree double *shares = find_shares(r, layer, n2);

    for (int64_t t = 0; t < r->tokens; t++) {
        struct routed to = route(r, layer, n2 + t * h);
        for (int64_t e = 0; e < d->experts; e++) {
            dweight[e] = 0;
            if (to.weight[e] == 0 || dropped[t * d->experts + e])
                continue;
            struct visit v = visit(r, layer, e, n2 + t * h);
            dweight[e] = dot(doutput + t * h, v.y, h);
            for (int64_t i = 0; i < h; i++)
                dy[i] = to.weight[e] * doutput[t * h + i];
            visit_back(r, layer, e, n2 + t * h, &v, dy, dx + t * h);
            leave(&v);
        }
        scores_back(r, &to, shares, dweight);
        product_back(mw_reference_params(r, MW_OPERATOR_MLP_UP, layer) + router,
                     mw_reference_gradients(r, MW_OPERATOR_MLP_UP, layer) + router, dweight,
                     d->experts, n2 + t * h, dx + t * h, h);
        clear(&to);
    }
    return dx;
}
