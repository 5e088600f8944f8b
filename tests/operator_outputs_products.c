/* Of matrix products, and of the rotation behind, or before, those of queries and keys. */
#include <math.h>

#include "tests/operator_outputs_internal.h"

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
sum_product(const struct mw_output_list *l, const struct mw_multiply *m, const double *rotated,
            struct mw_operator_output *output, double **values)
{
    const struct mw_product *p = &m->product;
    int64_t ar = p->a_transposed ? p->k : p->m, ac = p->a_transposed ? p->m : p->k;
    int64_t br = p->b_transposed ? p->n : p->k, bc = p->b_transposed ? p->k : p->n;
    int64_t ld_a = or_dense(p->ld_a, ac), ld_b = or_dense(p->ld_b, bc);
    g_autofree double *a = rotated ? NULL : mw_outputs_load_all(l, m->a, (ar - 1) * ld_a + ac);
    g_autofree double *b = mw_outputs_load_all(l, m->b, (br - 1) * ld_b + bc);
    struct operands o = {p, rotated ? rotated : a, b, ld_a, ld_b};
    double *value = g_new0(double, p->m * p->n), *size = g_new0(double, p->m * p->n);

    for (int64_t i = 0; i < p->m; i++)
        multiply_row(&o, i, value + i * p->n, size + i * p->n);
    for (int64_t i = 0; i < p->m * p->n; i++) {
        /* cublasLt rounds before it adds C, and before it adds the bias. */
        output->rounded[i] += (p->bias + p->accumulate) * fabs(value[i]);
        value[i] += p->bias ? mw_outputs_load(l, m->bias, i % p->n) : 0;
        output->size[i] += size[i] + (p->bias ? fabs(mw_outputs_load(l, m->bias, i % p->n)) : 0);
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
find(struct mw_output_list *l, const void *at)
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
add_to(const struct mw_output_list *l, const struct mw_multiply *m,
       struct mw_operator_output *output)
{
    g_autofree double *second = NULL;

    for (int64_t i = 0; i < output->rows * output->columns; i++)
        output->rounded[i] += output->size[i];
    sum_product(l, m, NULL, output, &second);
}

static void
list_bias(struct mw_output_list *l, const struct mw_multiply *m, uint16_t *to,
          const double *rotated)
{
    struct mw_operator_output *output = mw_outputs_add(l, "bias gradient", to, 1, m->product.m,
                                                       m->product.m, mw_outputs_fresh_gradient(l));

    output->terms += m->product.k;
    for (int64_t t = 0; t < m->product.k; t++)
        for (int64_t r = 0; r < m->product.m; r++) {
            int64_t at = t * m->product.ld_a + r;
            double size = fabs(rotated ? rotated[at] : mw_outputs_load(l, m->a, at));
            output->size[r] += size;
            output->rounded[r] += rotated ? size : 0;
        }
    mw_outputs_add_old(l, output);
}

static void
list_weight_gradient(struct mw_output_list *l, const struct mw_multiply *m, int64_t twin,
                     const double *rotated)
{
    const struct mw_part_matrix *matrix = &l->compute->part->matrix;
    struct mw_operator_output *output =
        mw_outputs_add(l, "weight gradient", m->c, m->product.m, m->product.n, m->product.n,
                       mw_outputs_fresh_gradient(l));

    sum_product(l, m, rotated, output, NULL);
    mw_outputs_add_old(l, output);
    if (matrix->bias_at >= 0)
        list_bias(l, m, (uint16_t *)l->compute->gradient + matrix->bias_at + twin * matrix->rows,
                  rotated);
}

/* rotated: of all rows of the matrix. */
static void
list_backward_products(struct mw_output_list *l, const double *rotated)
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
                mw_outputs_add(l, "input gradient", m->c, m->product.m, m->product.n, m->product.n,
                               !m->product.accumulate);
            sum_product(l, m, from, output, NULL);
            mw_outputs_add_old(l, output);
        }
    }
}

void
mw_outputs_backward_products(struct mw_output_list *l)
{
    list_backward_products(l, NULL);
}

void
mw_outputs_forward_products(struct mw_output_list *l, const uint16_t *residual)
{
    struct mw_multiply multiplies[MW_MULTIPLIES_MAX];
    int count = mw_operator_products(l->compute, multiplies);

    for (int i = 0; i < count; i++) {
        const struct mw_product *p = &multiplies[i].product;
        struct mw_operator_output *output =
            mw_outputs_add(l, "output", multiplies[i].c, p->m, p->n, p->ld_c, true);
        sum_product(l, &multiplies[i], NULL, output, NULL);
        for (int64_t e = 0; residual && e < p->m * p->n; e++) {
            double old = fabs(mw_outputs_load(l, residual, e / p->n * p->ld_c + e % p->n));
            output->size[e] += old;
            output->rounded[e] += p->bias ? old : 0;
        }
    }
}

/* --- rotary positions ------------------------------------------------------------------------ */

static bool
rotates(const struct mw_output_list *l)
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
rotated_size(const struct mw_output_list *l, const double *x, int64_t ld)
{
    const struct mw_decoder *decoder = l->compute->decoder;
    int64_t turned = mw_decoder_q(decoder) + mw_decoder_kv(decoder);
    double *size = g_new(double, mw_outputs_tokens(l) * ld);

    for (int64_t i = 0; i < mw_outputs_tokens(l) * ld; i++) {
        int64_t c = i % ld;
        size[i] = c < turned ? hypot(x[i], x[i - c + partner(decoder, c)]) : fabs(x[i]);
    }
    return size;
}

/* Columns up to the part's last one: of those before the part, q and k are what earlier parts left.
 */
static void
list_rotated_qkv(struct mw_output_list *l)
{
    const struct mw_compute *c = l->compute;
    struct mw_multiply m[MW_MULTIPLIES_MAX];
    int64_t width = mw_operator_qkv_width(c), first = c->part->matrix.first_row;
    g_autofree double *x = mw_outputs_load_all(l, c->layer->qkv, mw_outputs_tokens(l) * width),
                      *rounded = g_new0(double, mw_outputs_tokens(l) * width), *made = NULL;

    mw_operator_products(c, m);
    struct mw_operator_output *output =
        mw_outputs_add(l, "output", c->layer->qkv, mw_outputs_tokens(l), width, width, false);
    struct mw_operator_output part = {.size = g_new0(double, m->product.m * m->product.n),
                                      .rounded = g_new0(double, m->product.m * m->product.n)};
    sum_product(l, m, NULL, &part, &made);
    output->fresh = first;
    output->terms += part.terms;
    for (int64_t i = 0; i < m->product.m * m->product.n; i++) {
        int64_t at = i / m->product.n * width + first + i % m->product.n;
        x[at] = made[i];
        output->size[at] = part.size[i];
        rounded[at] = part.rounded[i];
    }
    g_autofree double *size = rotated_size(l, output->size, width);
    g_autofree double *kept = rotated_size(l, x, width), *off = rotated_size(l, rounded, width);
    for (int64_t i = 0; i < mw_outputs_tokens(l) * width; i++) {
        output->size[i] = size[i] + kept[i];
        output->rounded[i] = kept[i] + off[i];
    }
    g_free(part.size);
    g_free(part.rounded);
}

static void
list_rotated_gradient(struct mw_output_list *l)
{
    const struct mw_compute *c = l->compute;
    int64_t width = mw_operator_qkv_width(c);
    g_autofree double *x = mw_outputs_load_all(l, c->shared->wide, mw_outputs_tokens(l) * width);
    g_autofree double *size = rotated_size(l, x, width);
    struct mw_operator_output *output = mw_outputs_add(l, "rotated gradient", c->shared->wide,
                                                       mw_outputs_tokens(l), width, width, false);

    for (int64_t i = 0; i < mw_outputs_tokens(l) * width; i++)
        output->size[i] = size[i];
    list_backward_products(l, size);
}

void
mw_outputs_qkv_forward(struct mw_output_list *l)
{
    if (rotates(l))
        list_rotated_qkv(l);
    else
        mw_outputs_forward_products(l, NULL);
}

void
mw_outputs_qkv_backward(struct mw_output_list *l)
{
    if (rotates(l))
        list_rotated_gradient(l);
    else
        mw_outputs_backward_products(l);
}
