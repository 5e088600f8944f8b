#include "tests/product_case.h"

#include <math.h>

static int64_t
or_dense(int64_t ld, int64_t dense)
{
    return ld != 0 ? ld : dense;
}

void
mw_product_case_shape(struct mw_product *p, int64_t m, int64_t n, int64_t k)
{
    *p = (struct mw_product){
        .m = m,
        .n = n,
        .k = k,
        .a_transposed = g_test_rand_bit(),
        .b_transposed = g_test_rand_bit(),
        .bias = g_test_rand_bit(),
        .accumulate = g_test_rand_bit(),
        .c_fp32 = g_test_rand_bit(),
    };
    if (g_test_rand_bit()) {
        p->ld_a = (p->a_transposed ? m : k) + mw_random_size(20);
        p->ld_b = (p->b_transposed ? k : n) + mw_random_size(20);
        p->ld_c = n + mw_random_size(20);
    }
}

static double
c_value(const struct mw_product_case *c, int64_t i)
{
    return c->product.c_fp32 ? (double)((float *)c->c)[i]
                             : (double)mw_half_value(((uint16_t *)c->c)[i]);
}

static void
fill_c(struct mw_product_case *c)
{
    const struct mw_product *p = &c->product;
    int64_t ld = or_dense(p->ld_c, p->n);
    c->c_n = (p->m - 1) * ld + p->n;
    struct mw_tensor half = mw_tensor_random(c->c_n, 1.0);
    float *full = g_new(float, c->c_n);
    for (int64_t i = 0; i < c->c_n; i++) {
        if (!p->accumulate || i % ld >= p->n)
            half.bits[i] = 0x7fc1;
        full[i] = mw_half_value(half.bits[i]);
    }
    c->c = p->c_fp32 ? (void *)full : (void *)half.bits;
    if (p->c_fp32)
        g_free(half.bits);
    else
        g_free(full);
    g_free(half.value);
}

static void
expect_element(struct mw_product_case *c, int64_t i, int64_t j)
{
    const struct mw_product *p = &c->product;
    int64_t ld_a = or_dense(p->ld_a, p->a_transposed ? p->m : p->k);
    int64_t ld_b = or_dense(p->ld_b, p->b_transposed ? p->k : p->n);
    int64_t at = i * or_dense(p->ld_c, p->n) + j;
    double before = p->accumulate ? c_value(c, at) : 0.0;
    double sum = (p->bias ? c->bias.value[j] : 0.0) + before, first = sum;
    double size = fabs(sum) + 1.0;
    for (int64_t k = 0; k < p->k; k++) {
        double term = c->a.value[p->a_transposed ? k * ld_a + i : i * ld_a + k] *
                      c->b.value[p->b_transposed ? j * ld_b + k : k * ld_b + j];
        sum += term;
        size += fabs(term);
    }
    c->expected[at] = sum;
    c->size[at] = size;
    if (p->bias || p->accumulate)
        c->rounded[at] = fabs(sum - first);
    if (p->bias && p->accumulate)
        c->rounded[at] += fabs(sum - first) + fabs(before);
}

void
mw_product_case_fill(struct mw_product_case *c, const struct mw_product *p)
{
    int64_t m = p->m, n = p->n, k = p->k;
    c->product = *p;
    int64_t a_rows = p->a_transposed ? k : m, a_columns = p->a_transposed ? m : k;
    int64_t b_rows = p->b_transposed ? n : k, b_columns = p->b_transposed ? k : n;
    c->a = mw_tensor_random((a_rows - 1) * or_dense(p->ld_a, a_columns) + a_columns, 2.0);
    c->b = mw_tensor_random((b_rows - 1) * or_dense(p->ld_b, b_columns) + b_columns, 2.0);
    c->bias = mw_tensor_random(n, 2.0);
    fill_c(c);
    c->expected = g_new0(double, c->c_n);
    c->size = g_new0(double, c->c_n);
    c->rounded = g_new0(double, c->c_n);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            expect_element(c, i, j);
}

void
mw_product_case_init(struct mw_product_case *c, int64_t m, int64_t n, int64_t k)
{
    struct mw_product product;
    mw_product_case_shape(&product, m, n, k);
    mw_product_case_fill(c, &product);
}

void
mw_product_case_clear(struct mw_product_case *c)
{
    mw_tensor_clear(&c->a);
    mw_tensor_clear(&c->b);
    mw_tensor_clear(&c->bias);
    g_free(c->c);
    g_free(c->expected);
    g_free(c->size);
    g_free(c->rounded);
}

void
mw_product_case_check(const struct mw_product_case *c, bool rounds_between)
{
    const struct mw_product *p = &c->product;
    int64_t ld = or_dense(p->ld_c, p->n);
    double relative = p->c_fp32 ? MW_FP32_HALF_ULP : MW_HALF_ROUNDING;
    for (int64_t i = 0; i < c->c_n; i++) {
        double got = c_value(c, i);
        if (i % ld >= p->n) {
            g_assert_true(isnan(got)); /* between rows: not touched */
            continue;
        }
        double bound = relative * (fabs(c->expected[i]) + (rounds_between ? c->rounded[i] : 0.0)) +
                       c->size[i] * MW_FP32_HALF_ULP * (4.0 + (double)p->k);
        if (!(fabs(got - c->expected[i]) <= bound))
            g_error("m %d n %d k %d: [%d] is %g, not %g within %g", (int)p->m, (int)p->n, (int)p->k,
                    (int)i, got, c->expected[i], bound);
    }
}
