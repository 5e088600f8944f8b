#include "attention_case.h"

#include <math.h>
#include <string.h>

static void
copy_rows(uint16_t *to, int64_t ld_to, const uint16_t *from, int64_t ld_from, int64_t rows,
          int64_t columns)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * ld_to, from + r * ld_from, (size_t)columns * sizeof *to);
}

static int64_t
q_columns(const struct mw_attention_case *c)
{
    return c->plain.heads * c->plain.head_dim;
}

static int64_t
kv_columns(const struct mw_attention_case *c)
{
    return c->plain.kv_heads * c->plain.head_dim;
}

int64_t
mw_attention_case_k(const struct mw_attention_case *c)
{
    return q_columns(c);
}

int64_t
mw_attention_case_v(const struct mw_attention_case *c)
{
    return q_columns(c) + kv_columns(c);
}

static uint16_t *
poisoned_rows(const struct mw_attention_case *c)
{
    uint16_t *rows = g_new(uint16_t, c->rows * c->ld);
    memset(rows, 0xff, (size_t)(c->rows * c->ld) * sizeof *rows);
    return rows;
}

void
mw_attention_case_init(struct mw_attention_case *c, const struct mw_ref_attention *plain,
                       int64_t gap)
{
    *c = (struct mw_attention_case){.plain = *plain, .rows = plain->batch * plain->seq};
    int64_t q = q_columns(c), kv = kv_columns(c);
    c->ld = q + 2 * kv + gap;
    c->shape = (struct mw_attention){.batch = plain->batch,
                                     .seq = plain->seq,
                                     .heads = plain->heads,
                                     .kv_heads = plain->kv_heads,
                                     .head_dim = plain->head_dim,
                                     .ld_q = c->ld,
                                     .ld_k = c->ld,
                                     .ld_v = c->ld,
                                     .ld_o = q,
                                     .scale = (float)plain->scale};
    c->q = mw_tensor_random(c->rows * q, 4.0);
    c->k = mw_tensor_random(c->rows * kv, 4.0);
    c->v = mw_tensor_random(c->rows * kv, 2.0);
    c->d_o = mw_tensor_random(c->rows * q, 1.0);
    c->fused = poisoned_rows(c);
    c->fused_gradient = poisoned_rows(c);
    copy_rows(c->fused, c->ld, c->q.bits, q, c->rows, q);
    copy_rows(c->fused + mw_attention_case_k(c), c->ld, c->k.bits, kv, c->rows, kv);
    copy_rows(c->fused + mw_attention_case_v(c), c->ld, c->v.bits, kv, c->rows, kv);
    c->o = mw_tensor_poisoned(c->rows * q);
    c->lse = mw_floats_poisoned(plain->heads * c->rows);
}

void
mw_attention_case_clear(struct mw_attention_case *c)
{
    mw_tensor_clear(&c->q);
    mw_tensor_clear(&c->k);
    mw_tensor_clear(&c->v);
    mw_tensor_clear(&c->d_o);
    mw_tensor_clear(&c->o);
    g_clear_pointer(&c->fused, g_free);
    g_clear_pointer(&c->fused_gradient, g_free);
    g_clear_pointer(&c->lse, g_free);
}

/* Weights and results are rounded to bf16 once each. */
void
mw_attention_case_check_forward(const struct mw_attention_case *c)
{
    g_autofree double *o = g_new(double, c->o.n);
    g_autofree double *lse = g_new(double, c->plain.heads * c->rows);
    mw_ref_attention(&c->plain, o, lse, c->q.value, c->k.value, c->v.value);
    mw_expect_half("o", c->o.bits, o, c->o.n, MW_HALF_ROUNDING, 2.0 * MW_HALF_ROUNDING);
    mw_expect_fp32("lse", c->lse, lse, c->plain.heads * c->rows, 1e-5, 1e-4);
}

struct gradients {
    double *dq, *dk, *dv;
};

static struct gradients
gradients_new(int64_t q, int64_t kv)
{
    return (struct gradients){g_new(double, q), g_new(double, kv), g_new(double, kv)};
}

static void
gradients_clear(struct gradients *g)
{
    g_free(g->dq);
    g_free(g->dk);
    g_free(g->dv);
}

/* What is summed up is rounded to bf16 term by term, by half of MW_HALF_ROUNDING, and before that
 * in fp32; and so is the sum, once, or once for each part of it. */
static void
check_slice(const struct mw_attention_case *c, const char *what, int64_t first,
            const double *expected, const double *magnitudes, int64_t columns)
{
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t i = r * columns; i < (r + 1) * columns; i++)
            mw_expect_half(what, c->fused_gradient + r * c->ld + first + i - r * columns,
                           expected + i, 1, MW_HALF_ROUNDING,
                           MW_HALF_ROUNDING * (1 + 0.5 * c->joins) * magnitudes[i] + 1e-4);
}

void
mw_attention_case_check_backward(const struct mw_attention_case *c)
{
    int64_t q = q_columns(c), kv = kv_columns(c);
    g_autofree double *rounded = g_new(double, c->o.n);
    struct gradients exact = gradients_new(c->rows * q, c->rows * kv);
    struct gradients sums = gradients_new(c->rows * q, c->rows * kv);
    for (int64_t i = 0; i < c->o.n; i++)
        rounded[i] = (double)mw_half_value(c->o.bits[i]);
    mw_ref_attention_backward(&c->plain, exact.dq, exact.dk, exact.dv, c->d_o.value, rounded,
                              c->q.value, c->k.value, c->v.value);
    mw_ref_attention_backward_magnitudes(&c->plain, sums.dq, sums.dk, sums.dv, c->d_o.value,
                                         rounded, c->q.value, c->k.value, c->v.value);
    check_slice(c, "dq", 0, exact.dq, sums.dq, q);
    check_slice(c, "dk", mw_attention_case_k(c), exact.dk, sums.dk, kv);
    check_slice(c, "dv", mw_attention_case_v(c), exact.dv, sums.dv, kv);
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t i = q + 2 * kv; i < c->ld; i++)
            g_assert_cmphex(c->fused_gradient[r * c->ld + i], ==, 0xffff);
    gradients_clear(&exact);
    gradients_clear(&sums);
}
