#include "tests/operator_outputs.h"

#include <math.h>

#include "exec/convert.h"
#include "exec/operators_internal.h"

/* Operations of a function such as exp or tanh, generously: 3e-6 in units of 2^-24. */
#define FUNCTION_TERMS 64

struct list {
    const struct mw_compute *compute;
    enum mw_dtype dtype;
    GArray *outputs;
};

/* --- 16-bit elements ------------------------------------------------------------------------- */

static double
value_of(enum mw_dtype dtype, uint16_t bits)
{
    return (double)(dtype == MW_DTYPE_FP16 ? mw_fp32_of_fp16(bits) : mw_fp32_of_bf16(bits));
}

static double
half_ulp(enum mw_dtype dtype)
{
    return dtype == MW_DTYPE_FP16 ? 0x1p-11 : 0x1p-8;
}

/* Below it rounding is off by as much as there. */
static double
least(enum mw_dtype dtype)
{
    return dtype == MW_DTYPE_FP16 ? 0x1p-14 : 0x1p-126;
}

static double
at_least(const struct list *l, double x)
{
    return fmax(fabs(x), least(l->dtype));
}

static double
load(const struct list *l, const uint16_t *x, int64_t i)
{
    return value_of(l->dtype, x[i]);
}

static double *
load_all(const struct list *l, const uint16_t *x, int64_t n)
{
    double *all = g_new(double, n);

    for (int64_t i = 0; i < n; i++)
        all[i] = load(l, x, i);
    return all;
}

/* --- outputs --------------------------------------------------------------------------------- */

/* fresh: all of it; else it is added to, or changed in place. */
static struct mw_operator_output *
add(struct list *l, const char *name, void *at, int64_t rows, int64_t columns, int64_t ld,
    bool fresh)
{
    struct mw_operator_output output = {
        .name = name,
        .at = at,
        .rows = rows,
        .columns = columns,
        .ld = ld,
        .fresh = fresh ? 0 : columns,
        .terms = FUNCTION_TERMS,
        .size = g_new0(double, rows *columns),
        .rounded = g_new0(double, rows *columns),
    };

    g_array_append_val(l->outputs, output);
    return &g_array_index(l->outputs, struct mw_operator_output, l->outputs->len - 1);
}

/* What a sum that is not fresh starts with. */
static void
add_old(const struct list *l, struct mw_operator_output *output)
{
    const uint16_t *old = output->at;

    for (int64_t i = 0; output->fresh && i < output->rows * output->columns; i++)
        output->size[i] +=
            fabs(load(l, old, i / output->columns * output->ld + i % output->columns));
}

static bool
fresh_gradient(const struct list *l)
{
    return !l->compute->gradient_adds;
}

static int64_t
tokens_of(const struct list *l)
{
    return mw_operator_tokens(l->compute);
}

/* --- products -------------------------------------------------------------------------------- */

static int64_t
or_dense(int64_t ld, int64_t dense)
{
    return ld ? ld : dense;
}

/* One product as doubles. */
struct operands {
    const struct mw_product *p;
    const double *a, *b;
    int64_t ld_a, ld_b;
};

/* Adds row i's terms to value, and their absolute values to size. */
static void
multiply_row(const struct operands *o, int64_t i, double *value, double *size)
{
    const struct mw_product *p = o->p;
    int64_t step = p->b_transposed ? o->ld_b : 1, next = p->b_transposed ? 1 : o->ld_b;

    for (int64_t k = 0; k < p->k; k++) {
        double a = o->a[p->a_transposed ? k * o->ld_a + i : i * o->ld_a + k];
        const double *b = o->b + k * next;
        for (int64_t j = 0; j < p->n; j++) {
            value[j] += a * b[j * step];
            size[j] += fabs(a * b[j * step]);
        }
    }
}

/* rotated, or NULL: what a holds by the time of the product, rounded once more.  *values, if not
 * NULL: to be freed, [m, n]. */
static void
sum_product(const struct list *l, const struct mw_multiply *m, const double *rotated,
            struct mw_operator_output *output, double **values)
{
    const struct mw_product *p = &m->product;
    int64_t ar = p->a_transposed ? p->k : p->m, ac = p->a_transposed ? p->m : p->k;
    int64_t br = p->b_transposed ? p->n : p->k, bc = p->b_transposed ? p->k : p->n;
    int64_t ld_a = or_dense(p->ld_a, ac), ld_b = or_dense(p->ld_b, bc);
    g_autofree double *a = rotated ? NULL : load_all(l, m->a, (ar - 1) * ld_a + ac);
    g_autofree double *b = load_all(l, m->b, (br - 1) * ld_b + bc);
    struct operands o = {p, rotated ? rotated : a, b, ld_a, ld_b};
    double *value = g_new0(double, p->m * p->n), *size = g_new0(double, p->m * p->n);

    for (int64_t i = 0; i < p->m; i++)
        multiply_row(&o, i, value + i * p->n, size + i * p->n);
    for (int64_t i = 0; i < p->m * p->n; i++) {
        value[i] += p->bias ? load(l, m->bias, i % p->n) : 0;
        output->size[i] += size[i] + (p->bias ? fabs(load(l, m->bias, i % p->n)) : 0);
        output->rounded[i] += rotated ? size[i] : 0;
    }
    output->terms += p->k;
    g_free(size);
    if (values)
        *values = value;
    else
        g_free(value);
}

static struct mw_operator_output *
find(struct list *l, const void *at)
{
    for (guint i = 0; i < l->outputs->len; i++) {
        struct mw_operator_output *output =
            &g_array_index(l->outputs, struct mw_operator_output, i);
        if (output->at == at)
            return output;
    }
    return NULL;
}

/* The second product of a gate adds to what the first one wrote. */
static void
add_to(const struct list *l, const struct mw_multiply *m, struct mw_operator_output *output)
{
    g_autofree double *second = NULL;

    for (int64_t i = 0; i < output->rows * output->columns; i++)
        output->rounded[i] += output->size[i];
    sum_product(l, m, NULL, output, &second);
}

static void
list_bias(struct list *l, const struct mw_multiply *m, uint16_t *to, const double *rotated)
{
    struct mw_operator_output *output =
        add(l, "bias gradient", to, 1, m->product.m, m->product.m, fresh_gradient(l));

    output->terms += m->product.k;
    for (int64_t t = 0; t < m->product.k; t++)
        for (int64_t r = 0; r < m->product.m; r++) {
            int64_t at = t * m->product.ld_a + r;
            double size = fabs(rotated ? rotated[at] : load(l, m->a, at));
            output->size[r] += size;
            output->rounded[r] += rotated ? size : 0;
        }
    add_old(l, output);
}

static void
list_weight_gradient(struct list *l, const struct mw_multiply *m, int64_t twin,
                     const double *rotated)
{
    const struct mw_part_matrix *matrix = &l->compute->part->matrix;
    struct mw_operator_output *output = add(l, "weight gradient", m->c, m->product.m, m->product.n,
                                            m->product.n, fresh_gradient(l));

    sum_product(l, m, rotated, output, NULL);
    add_old(l, output);
    if (matrix->bias_at >= 0)
        list_bias(l, m, l->compute->gradient + matrix->bias_at + twin * matrix->rows, rotated);
}

/* rotated: of all rows of the matrix. */
static void
list_backward_products(struct list *l, const double *rotated)
{
    struct mw_multiply multiplies[MW_MULTIPLIES_MAX];
    int count = mw_operator_products(l->compute, multiplies), gradients = 0;
    const double *from = rotated ? rotated + l->compute->part->matrix.first_row : NULL;

    for (int i = 0; i < count; i++) {
        const struct mw_multiply *m = &multiplies[i];
        if (m->product.a_transposed) {
            list_weight_gradient(l, m, gradients++, from);
        } else if (find(l, m->c)) {
            add_to(l, m, find(l, m->c));
        } else {
            struct mw_operator_output *output =
                add(l, "input gradient", m->c, m->product.m, m->product.n, m->product.n,
                    !m->product.accumulate);
            sum_product(l, m, from, output, NULL);
            add_old(l, output);
        }
    }
}

/* residual: what the product is added to, laid out as its result; or NULL. */
static void
list_forward_products(struct list *l, const uint16_t *residual)
{
    struct mw_multiply multiplies[MW_MULTIPLIES_MAX];
    int count = mw_operator_products(l->compute, multiplies);

    for (int i = 0; i < count; i++) {
        const struct mw_product *p = &multiplies[i].product;
        struct mw_operator_output *output =
            add(l, "output", multiplies[i].c, p->m, p->n, p->ld_c, true);
        sum_product(l, &multiplies[i], NULL, output, NULL);
        for (int64_t e = 0; residual && e < p->m * p->n; e++)
            output->size[e] += fabs(load(l, residual, e / p->n * p->ld_c + e % p->n));
    }
}

/* --- rotary positions ------------------------------------------------------------------------ */

static bool
rotates(const struct list *l)
{
    return l->compute->decoder->rope_theta > 0 &&
           mw_operator_has_last_rows(&l->compute->part->matrix);
}

/* The element that column c of q or k is rotated with. */
static int64_t
partner(const struct mw_decoder *decoder, int64_t c)
{
    int64_t dim = decoder->head_dim, i = c % dim;

    return c - i + (i + dim / 2) % dim;
}

/* At most, after a rotation by any angle, and off by so much of what x [T, ld] is off. */
static double *
rotated_size(const struct list *l, const double *x, int64_t ld)
{
    const struct mw_decoder *decoder = l->compute->decoder;
    int64_t turned = mw_decoder_q(decoder) + mw_decoder_kv(decoder);
    double *size = g_new(double, tokens_of(l) * ld);

    for (int64_t i = 0; i < tokens_of(l) * ld; i++) {
        int64_t c = i % ld;
        size[i] = c < turned ? hypot(x[i], x[i - c + partner(decoder, c)]) : fabs(x[i]);
    }
    return size;
}

/* Columns up to the part's last one: of those before the part, q and k are what earlier parts left.
 */
static void
list_rotated_qkv(struct list *l)
{
    const struct mw_compute *c = l->compute;
    struct mw_multiply m[MW_MULTIPLIES_MAX];
    int64_t width = mw_operator_qkv_width(c), first = c->part->matrix.first_row;
    g_autofree double *x = load_all(l, c->layer->qkv, tokens_of(l) * width), *made = NULL;

    mw_operator_products(c, m);
    struct mw_operator_output *output =
        add(l, "output", c->layer->qkv, tokens_of(l), width, width, false);
    struct mw_operator_output part = {.size = g_new0(double, m->product.m * m->product.n),
                                      .rounded = g_new0(double, m->product.m * m->product.n)};
    sum_product(l, m, NULL, &part, &made);
    output->fresh = first;
    output->terms += part.terms;
    for (int64_t i = 0; i < m->product.m * m->product.n; i++) {
        int64_t at = i / m->product.n * width + first + i % m->product.n;
        x[at] = made[i];
        output->size[at] = part.size[i];
    }
    g_autofree double *size = rotated_size(l, output->size, width);
    g_autofree double *kept = rotated_size(l, x, width);
    for (int64_t i = 0; i < tokens_of(l) * width; i++) {
        output->size[i] = size[i] + kept[i];
        output->rounded[i] = kept[i];
    }
    g_free(part.size);
    g_free(part.rounded);
}

static void
list_rotated_gradient(struct list *l)
{
    const struct mw_compute *c = l->compute;
    int64_t width = mw_operator_qkv_width(c);
    g_autofree double *x = load_all(l, c->room->wide, tokens_of(l) * width);
    g_autofree double *size = rotated_size(l, x, width);
    struct mw_operator_output *output =
        add(l, "rotated gradient", c->room->wide, tokens_of(l), width, width, false);

    for (int64_t i = 0; i < tokens_of(l) * width; i++)
        output->size[i] = size[i];
    list_backward_products(l, size);
}

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
    const struct mw_shared_room *room = c->room;

    if (c->operator_ == MW_OPERATOR_NORM1)
        return (struct norm){c->layer->n1, c->layer->x, room->gradient, room->branch, true};
    if (c->operator_ == MW_OPERATOR_NORM2)
        return (struct norm){c->layer->n2, c->layer->x2, room->gradient, room->branch, true};
    return (struct norm){room->final, room->hidden, room->gradient, room->branch, false};
}

/* The largest of a row's elements times its 1 / deviation: at least half of what the norm makes of
 * any; and that factor. */
static double
row_scale(const struct list *l, const uint16_t *x, double *rstd)
{
    const struct mw_decoder *decoder = l->compute->decoder;
    double n = (double)decoder->hidden, sum = 0, squares = 0, largest = 0;

    for (int64_t i = 0; i < decoder->hidden; i++) {
        double v = load(l, x, i);
        sum += v;
        squares += v * v;
        largest = fmax(largest, fabs(v));
    }
    double mean = decoder->kind == MW_DECODER_GPT2 ? sum / n : 0;
    *rstd = 1 / sqrt(squares / n - mean * mean + decoder->norm_epsilon);
    return largest * *rstd;
}

static void
list_norm_forward(struct list *l, const struct norm *norm)
{
    const struct mw_compute *c = l->compute;
    int64_t hidden = c->decoder->hidden;
    struct mw_operator_output *output =
        add(l, "output", norm->y, tokens_of(l), hidden, hidden, true);
    const uint16_t *weight = c->params + c->part->norm_weight_at;
    double rstd;

    output->terms += hidden;
    for (int64_t t = 0; t < tokens_of(l); t++) {
        double scale = row_scale(l, norm->x + t * hidden, &rstd);
        for (int64_t i = 0; i < hidden; i++)
            output->size[t * hidden + i] =
                2 * scale * fabs(load(l, weight, i)) +
                (c->part->norm_bias_at < 0 ? 0
                                           : fabs(load(l, c->params + c->part->norm_bias_at, i)));
    }
}

static void
list_norm_parameters(struct list *l, const struct norm *norm)
{
    const struct mw_compute *c = l->compute;
    int64_t hidden = c->decoder->hidden, at = c->part->norm_bias_at;
    struct mw_operator_output weight =
        *add(l, "weight gradient", c->gradient + c->part->norm_weight_at, 1, hidden, hidden,
             fresh_gradient(l));
    struct mw_operator_output *bias =
        at < 0 ? NULL
               : add(l, "bias gradient", c->gradient + at, 1, hidden, hidden, fresh_gradient(l));
    double rstd;

    add_old(l, &weight);
    if (bias)
        add_old(l, bias);
    for (int64_t t = 0; t < tokens_of(l); t++) {
        double scale = row_scale(l, norm->x + t * hidden, &rstd);
        for (int64_t i = 0; i < hidden; i++) {
            double dy = fabs(load(l, norm->dy, t * hidden + i));
            weight.size[i] += 2 * scale * dy;
            if (bias)
                bias->size[i] += dy;
        }
    }
    for (guint i = 1; i <= (bias ? 2 : 1); i++)
        g_array_index(l->outputs, struct mw_operator_output, l->outputs->len - i).terms +=
            tokens_of(l) + hidden;
}

/* dx = rstd (g - mean(g) - xhat mean(g xhat)), g = dy weight. */
static void
list_norm_input(struct list *l, const struct norm *norm)
{
    const struct mw_compute *c = l->compute;
    int64_t hidden = c->decoder->hidden;
    const uint16_t *weight = c->params + c->part->norm_weight_at;
    struct mw_operator_output *output =
        add(l, "input gradient", norm->dx, tokens_of(l), hidden, hidden, !norm->adds);
    double rstd;

    output->terms += hidden;
    for (int64_t t = 0; t < tokens_of(l); t++) {
        double scale = 2 * row_scale(l, norm->x + t * hidden, &rstd), mean = 0;
        for (int64_t i = 0; i < hidden; i++)
            mean += fabs(load(l, norm->dy, t * hidden + i) * load(l, weight, i)) / (double)hidden;
        for (int64_t i = 0; i < hidden; i++)
            output->size[t * hidden + i] =
                rstd * (fabs(load(l, norm->dy, t * hidden + i) * load(l, weight, i)) + mean +
                        scale * scale * mean);
    }
    add_old(l, output);
}

/* The final norm's gradient is where its output was. */
static void
list_norm(struct list *l)
{
    struct norm norm = norm_of(l->compute);

    if (!l->compute->backward || norm.y != norm.dx)
        list_norm_forward(l, &norm);
    if (!l->compute->backward)
        return;
    list_norm_parameters(l, &norm);
    list_norm_input(l, &norm);
}

/* --- attention ------------------------------------------------------------------------------- */

/* A head of queries, with its keys, in one sequence. */
struct head {
    const struct mw_decoder *decoder;
    int64_t seq, dim, first, width; /* first: token */
    int64_t index, q_at, k_at, v_at;
    double scale;
    const double *qkv;
};

static struct head
head_of(const struct list *l, const double *qkv, int64_t sequence, int64_t index)
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
size_head(const struct list *l, const struct head *h, double *o, double *o_rounded, double *lse)
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
            o_rounded[at] = largest[c] + (double)(i + 1) * least(l->dtype) * largest[c];
            o[at] = scores * largest[c];
        }
        lse[i] = scores;
    }
}

static void
list_attention_forward(struct list *l)
{
    const struct mw_compute *c = l->compute;
    const struct mw_decoder *d = c->decoder;
    int64_t q = mw_decoder_q(d), terms = d->head_dim + c->seq;
    g_autofree double *qkv = load_all(l, c->layer->qkv, tokens_of(l) * mw_operator_qkv_width(c));
    struct mw_operator_output o = *add(l, "output", c->layer->o, tokens_of(l), q, q, true);
    struct mw_operator_output *lse =
        add(l, "log-sum-exp", c->layer->lse, c->sequences * d->heads, c->seq, c->seq, true);

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
    const struct list *l;
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
    double ds = at_least(g->l, p * (dp - delta) * h->scale);
    double ds_size = size * h->scale * (dp_size + delta_size);

    add_rows(g, h, i, h->q_at, k, ds, ds_size);
    add_rows(g, h, j, h->k_at, query, ds, ds_size);
    add_rows(g, h, j, h->v_at, d_o, at_least(g->l, p), size);
}

static void
list_attention_backward(struct list *l)
{
    const struct mw_compute *c = l->compute;
    const struct mw_decoder *d = c->decoder;
    int64_t q = mw_decoder_q(d), width = mw_operator_qkv_width(c);
    g_autofree double *qkv = load_all(l, c->layer->qkv, tokens_of(l) * width);
    g_autofree double *d_o = load_all(l, c->room->branch, tokens_of(l) * q);
    g_autofree double *o = load_all(l, c->layer->o, tokens_of(l) * q);
    struct mw_operator_output *output =
        add(l, "gradient of q, k, v", c->room->wide, tokens_of(l), width, width, true);
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

/* --- the MLP's inner activation -------------------------------------------------------------- */

static void
list_act_forward(struct list *l)
{
    const struct mw_compute *c = l->compute;
    int64_t n = tokens_of(l) * c->decoder->ffn;
    bool gated = mw_decoder_gated(c->decoder);
    struct mw_operator_output *output =
        add(l, "output", c->layer->act, tokens_of(l), c->decoder->ffn, c->decoder->ffn, true);

    output->exact = !gated && c->decoder->activation == MW_ACTIVATION_RELU;
    for (int64_t i = 0; i < n; i++) {
        double x = fabs(load(l, c->layer->up, i));
        output->size[i] = gated ? x * (1 + x) * fabs(load(l, c->layer->up, n + i)) : x;
    }
}

static void
list_gate_backward(struct list *l)
{
    const struct mw_compute *c = l->compute;
    int64_t rows = tokens_of(l), ffn = c->decoder->ffn, n = rows * ffn;
    uint16_t *up = c->layer->up;
    struct mw_operator_output gate = *add(l, "gradient of the gate", up, rows, ffn, ffn, false);
    struct mw_operator_output *other = add(l, "gradient of up", up + n, rows, ffn, ffn, false);

    for (int64_t i = 0; i < n; i++) {
        double dy = fabs(load(l, c->room->wide, i)), x = fabs(load(l, up, i));
        gate.size[i] = dy * fabs(load(l, up, n + i)) * (1 + x) * (1 + x);
        other->size[i] = dy * x * (1 + x);
    }
}

static void
list_act_backward(struct list *l)
{
    const struct mw_compute *c = l->compute;
    int64_t ffn = c->decoder->ffn;

    if (mw_decoder_gated(c->decoder)) {
        list_gate_backward(l);
        return;
    }
    struct mw_operator_output *output =
        add(l, "input gradient", c->room->wide, tokens_of(l), ffn, ffn, false);
    output->exact = c->decoder->activation == MW_ACTIVATION_RELU;
    for (int64_t i = 0; i < tokens_of(l) * ffn; i++) {
        double x = fabs(load(l, c->layer->up, i));
        output->size[i] = fabs(load(l, c->room->wide, i)) * (1 + x + x * x * x);
    }
}

/* --- the ends -------------------------------------------------------------------------------- */

static void
list_embedding_forward(struct list *l)
{
    const struct mw_compute *c = l->compute;
    int64_t hidden = c->decoder->hidden;
    const struct mw_part_matrix *matrix = &c->part->matrix;

    add(l, "output", c->input, tokens_of(l), hidden, hidden, matrix->rows && !matrix->first_row)
        ->exact = true;
}

static void
list_tokens_gradient(struct list *l)
{
    const struct mw_compute *c = l->compute;
    const struct mw_part_matrix *matrix = &c->part->matrix;
    int64_t hidden = c->decoder->hidden;
    struct mw_operator_output *output = add(l, "tokens' gradient", c->gradient + matrix->at,
                                            matrix->rows, hidden, hidden, fresh_gradient(l));

    output->terms += tokens_of(l);
    add_old(l, output);
    for (int64_t t = 0; t < tokens_of(l); t++) {
        int64_t row = c->ids[t] - matrix->first_row;
        for (int64_t i = 0; row >= 0 && row < matrix->rows && i < hidden; i++)
            output->size[row * hidden + i] += fabs(load(l, c->room->gradient, t * hidden + i));
    }
}

/* A table that is cut takes one sequence after the other. */
static void
list_positions_gradient(struct list *l)
{
    const struct mw_compute *c = l->compute;
    const struct mw_part_matrix *positions = &c->part->positions;
    int64_t hidden = c->decoder->hidden;
    bool whole = !positions->first_row && positions->rows >= c->seq;
    struct mw_operator_output *output = add(l, "positions' gradient", c->gradient + positions->at,
                                            positions->rows, hidden, hidden, fresh_gradient(l));

    output->terms += c->sequences;
    add_old(l, output);
    for (int64_t t = 0; t < tokens_of(l); t++) {
        int64_t row = t % c->seq - positions->first_row;
        for (int64_t i = 0; row >= 0 && row < positions->rows && i < hidden; i++)
            output->size[row * hidden + i] += fabs(load(l, c->room->gradient, t * hidden + i));
    }
    for (int64_t i = 0; !whole && i < positions->rows * hidden; i++)
        output->rounded[i] = (double)c->sequences * output->size[i];
}

static void
list_embedding_backward(struct list *l)
{
    if (l->compute->part->matrix.rows)
        list_tokens_gradient(l);
    if (l->compute->part->positions.rows)
        list_positions_gradient(l);
}

static void
list_logits_backward(struct list *l)
{
    const struct mw_compute *c = l->compute;
    const struct mw_part_matrix *positions = &c->part->positions;

    list_backward_products(l, NULL);
    if (positions->rows && fresh_gradient(l))
        add(l, "positions' gradient", c->gradient + positions->at, positions->rows,
            positions->columns, positions->columns, true)
            ->exact = true;
}

/* Returns at most what the row's loss has for terms. */
static double
size_row(const struct list *l, int64_t row, double *size)
{
    const struct mw_compute *c = l->compute;
    int64_t vocab = c->decoder->vocab, target = c->targets[c->first_token + row];
    const uint16_t *logits = c->logits + row * mw_logits_stride(c->decoder);
    double largest = 0, sum = 0;

    if (target < 0)
        return 0;
    for (int64_t v = 0; v < vocab; v++) {
        largest = fmax(largest, fabs(load(l, logits, v)));
        sum += exp(load(l, logits, v));
    }
    double range = 1 + 2 * largest + log((double)vocab);
    for (int64_t v = 0; v < vocab; v++)
        size[v] =
            (double)c->gradient_scale * range * (exp(load(l, logits, v)) / sum + (v == target));
    return range;
}

static void
list_loss(struct list *l)
{
    const struct mw_compute *c = l->compute;
    int64_t stride = mw_logits_stride(c->decoder);
    struct mw_operator_output logits =
        *add(l, "gradient of logits", c->logits, c->tokens, stride, stride, false);
    struct mw_operator_output *loss = add(l, "loss", c->loss, 1, 1, 1, false);

    loss->kind = MW_OUTPUT_FP64;
    loss->terms += c->decoder->vocab;
    g_array_index(l->outputs, struct mw_operator_output, 0).terms += c->decoder->vocab;
    for (int64_t r = 0; r < c->tokens; r++)
        loss->size[0] += size_row(l, r, logits.size + r * stride);
}

/* --- all ------------------------------------------------------------------------------------- */

static void
list_forward(struct list *l)
{
    const struct mw_compute *c = l->compute;
    int64_t first = c->part ? c->part->matrix.first_row : 0;

    switch (c->operator_) {
    case MW_OPERATOR_EMBEDDING:
        list_embedding_forward(l);
        break;
    case MW_OPERATOR_QKV:
        if (rotates(l))
            list_rotated_qkv(l);
        else
            list_forward_products(l, NULL);
        break;
    case MW_OPERATOR_ATTENTION:
        list_attention_forward(l);
        break;
    case MW_OPERATOR_PROJECTION:
        list_forward_products(l, c->layer->x + first);
        break;
    case MW_OPERATOR_MLP_ACT:
        list_act_forward(l);
        break;
    case MW_OPERATOR_MLP_DOWN:
        list_forward_products(l, c->layer->x2 + first);
        break;
    case MW_OPERATOR_LOSS:
        list_loss(l);
        break;
    case MW_OPERATOR_NORM1:
    case MW_OPERATOR_NORM2:
    case MW_OPERATOR_FINAL_NORM:
        list_norm(l);
        break;
    default:
        list_forward_products(l, NULL);
    }
}

static void
list_backward(struct list *l)
{
    switch (l->compute->operator_) {
    case MW_OPERATOR_EMBEDDING:
        list_embedding_backward(l);
        break;
    case MW_OPERATOR_QKV:
        if (rotates(l))
            list_rotated_gradient(l);
        else
            list_backward_products(l, NULL);
        break;
    case MW_OPERATOR_ATTENTION:
        list_attention_backward(l);
        break;
    case MW_OPERATOR_MLP_ACT:
        list_act_backward(l);
        break;
    case MW_OPERATOR_LOGITS:
        list_logits_backward(l);
        break;
    case MW_OPERATOR_LOSS: /* in its forward */
        break;
    case MW_OPERATOR_NORM1:
    case MW_OPERATOR_NORM2:
    case MW_OPERATOR_FINAL_NORM:
        list_norm(l);
        break;
    default:
        list_backward_products(l, NULL);
    }
}

GArray *
mw_operator_outputs(const struct mw_compute *compute, enum mw_dtype dtype)
{
    struct list list = {compute, dtype,
                        g_array_new(false, false, sizeof(struct mw_operator_output))};

    if (compute->backward)
        list_backward(&list);
    else
        list_forward(&list);
    return list.outputs;
}

void
mw_operator_outputs_free(GArray *outputs)
{
    for (guint i = 0; i < outputs->len; i++) {
        g_free(g_array_index(outputs, struct mw_operator_output, i).size);
        g_free(g_array_index(outputs, struct mw_operator_output, i).rounded);
    }
    g_array_unref(outputs);
}

double
mw_operator_output_value(const struct mw_operator_output *output, enum mw_dtype dtype,
                         const void *at, int64_t row, int64_t column)
{
    int64_t i = row * output->ld + column;

    if (output->kind == MW_OUTPUT_FP64)
        return ((const double *)at)[i];
    return output->kind == MW_OUTPUT_FP32 ? (double)((const float *)at)[i]
                                          : value_of(dtype, ((const uint16_t *)at)[i]);
}

double
mw_operator_output_bound(const struct mw_operator_output *output, enum mw_dtype dtype, double value,
                         int64_t row, int64_t column)
{
    int64_t i = row * output->columns + column;
    double sums = 0x1p-24 * (double)output->terms * output->size[i];

    if (output->exact)
        return 0;
    if (output->kind != MW_OUTPUT_HALF)
        return 2 * sums;
    return 2 * (half_ulp(dtype) * (fmax(fabs(value), least(dtype)) + output->rounded[i]) + sums);
}

int64_t
mw_operator_output_bytes(const struct mw_operator_output *output, int64_t columns)
{
    return columns * (output->kind == MW_OUTPUT_HALF ? 2 : output->kind == MW_OUTPUT_FP32 ? 4 : 8);
}

void *
mw_operator_output_row(const struct mw_operator_output *output, void *at, int64_t row)
{
    return (char *)at + mw_operator_output_bytes(output, row * output->ld);
}
