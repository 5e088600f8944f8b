/* Products by the library and by own code against plain sums in double. */
#include <math.h>
#include <string.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "exec/cpu/matmul.h"
#include "kernel_helpers.h"

struct product_case {
    struct mw_product product;
    struct mw_tensor a, b, bias;
    double *expected; /* what C becomes, [m, ld_c] with NaN between rows */
    double *size;     /* sum of the terms' magnitudes: what errors are relative to */
    void *c;
    int64_t c_n;
};

static int64_t
or_dense(int64_t ld, int64_t dense)
{
    return ld != 0 ? ld : dense;
}

static void
case_shape(struct mw_product *p, int64_t m, int64_t n, int64_t k)
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
c_value(const struct product_case *c, int64_t i)
{
    return c->product.c_fp32 ? (double)((float *)c->c)[i]
                             : (double)mw_bf16_value(((uint16_t *)c->c)[i]);
}

static void
fill_c(struct product_case *c)
{
    const struct mw_product *p = &c->product;
    int64_t ld = or_dense(p->ld_c, p->n);
    c->c_n = (p->m - 1) * ld + p->n;
    struct mw_tensor half = mw_tensor_random(c->c_n, 1.0);
    float *full = g_new(float, c->c_n);
    for (int64_t i = 0; i < c->c_n; i++) {
        if (!p->accumulate || i % ld >= p->n)
            half.bits[i] = 0x7fc1;
        full[i] = mw_bf16_value(half.bits[i]);
    }
    c->c = p->c_fp32 ? (void *)full : (void *)half.bits;
    if (p->c_fp32)
        g_free(half.bits);
    else
        g_free(full);
    g_free(half.value);
}

static void
expect_element(struct product_case *c, int64_t i, int64_t j)
{
    const struct mw_product *p = &c->product;
    int64_t ld_a = or_dense(p->ld_a, p->a_transposed ? p->m : p->k);
    int64_t ld_b = or_dense(p->ld_b, p->b_transposed ? p->k : p->n);
    int64_t at = i * or_dense(p->ld_c, p->n) + j;
    double sum = (p->bias ? c->bias.value[j] : 0.0) + (p->accumulate ? c_value(c, at) : 0.0);
    double size = fabs(sum) + 1.0;
    for (int64_t k = 0; k < p->k; k++) {
        double term = c->a.value[p->a_transposed ? k * ld_a + i : i * ld_a + k] *
                      c->b.value[p->b_transposed ? j * ld_b + k : k * ld_b + j];
        sum += term;
        size += fabs(term);
    }
    c->expected[at] = sum;
    c->size[at] = size;
}

/* Operands of a shape, and what is expected of them. */
static void
case_fill(struct product_case *c, const struct mw_product *p)
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
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            expect_element(c, i, j);
}

static void
case_init(struct product_case *c, int64_t m, int64_t n, int64_t k)
{
    struct mw_product product;
    case_shape(&product, m, n, k);
    case_fill(c, &product);
}

static void
case_clear(struct product_case *c)
{
    mw_tensor_clear(&c->a);
    mw_tensor_clear(&c->b);
    mw_tensor_clear(&c->bias);
    g_free(c->c);
    g_free(c->expected);
    g_free(c->size);
}

static void
check_result(const struct product_case *c)
{
    const struct mw_product *p = &c->product;
    int64_t ld = or_dense(p->ld_c, p->n);
    double relative = p->c_fp32 ? MW_FP32_HALF_ULP : MW_BF16_HALF_ULP;
    for (int64_t i = 0; i < c->c_n; i++) {
        double got = c_value(c, i);
        if (i % ld >= p->n) {
            g_assert_true(isnan(got)); /* between rows: not touched */
            continue;
        }
        double bound =
            relative * fabs(c->expected[i]) + c->size[i] * MW_FP32_HALF_ULP * (4.0 + (double)p->k);
        if (!(fabs(got - c->expected[i]) <= bound))
            g_error("m %d n %d k %d: [%d] is %g, not %g within %g", (int)p->m, (int)p->n, (int)p->k,
                    (int)i, got, c->expected[i], bound);
    }
}

static void
run_gemm(const struct mw_cpu_kernels *k, struct product_case *c)
{
    int threads = 1;
#if defined(_OPENMP)
    threads = omp_get_max_threads();
#endif
    gsize bytes = (gsize)k->gemm_scratch_bytes(&c->product, threads);
    void *scratch = g_aligned_alloc(1, bytes, 64);
    memset(scratch, 0xff, bytes);
    k->gemm(&c->product, c->c, c->a.bits, c->b.bits, c->bias.bits, scratch);
    g_aligned_free(scratch);
}

static void
test_gemm(gconstpointer data)
{
    for (int round = 0; round < 60; round++) {
        struct product_case c;
        case_init(&c, mw_random_size(150), mw_random_size(150), mw_random_size(100));
        run_gemm(data, &c);
        check_result(&c);
        case_clear(&c);
    }
    struct product_case c;
    case_init(&c, 5, 70, 1031);
    run_gemm(data, &c);
    check_result(&c);
    case_clear(&c);
}

static void
run_library(struct mw_cpu_matmul *matmul, struct product_case *c)
{
    g_assert_true(mw_cpu_matmul_prepare(matmul, &c->product));
    int64_t bytes = mw_cpu_matmul_scratch_bytes(matmul);
    g_assert_true(mw_cpu_matmul_run(matmul, &c->product, c->c, c->a.bits, c->b.bits, c->bias.bits));
    g_assert_cmpint(mw_cpu_matmul_scratch_bytes(matmul), ==, bytes);
}

static void
test_library(void)
{
    struct mw_cpu_matmul *matmul = mw_cpu_matmul_create();
    g_assert_nonnull(matmul);
    for (int round = 0; round < 60; round++) {
        struct product_case c;
        case_init(&c, mw_random_size(100), mw_random_size(100), mw_random_size(100));
        run_library(matmul, &c);
        check_result(&c);
        case_clear(&c);
    }
    mw_cpu_matmul_destroy(matmul);
}

/* So large that, for two threads, the library's sums of the whole result are more than the scratch
 * may be: blocks of columns, and of rows. */
static void
test_blocks(void)
{
    static const struct mw_product products[] = {
        {.m = 50, .n = 90001, .k = 2, .ld_c = 90003, .b_transposed = true, .bias = true},
        {.m = 50, .n = 90001, .k = 2, .ld_a = 5, .ld_b = 90002, .ld_c = 90005},
        {.m = 90001, .n = 50, .k = 2, .ld_a = 90004, .a_transposed = true, .bias = true},
        {.m = 90001, .n = 50, .k = 2, .ld_a = 5, .ld_c = 51, .accumulate = true},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(products); i++) {
        struct mw_cpu_matmul *matmul = mw_cpu_matmul_create();
        struct product_case c;
        case_fill(&c, &products[i]);
        run_library(matmul, &c);
        check_result(&c);
        g_assert_cmpint(mw_cpu_matmul_scratch_bytes(matmul), <=, MW_CPU_MATMUL_SCRATCH_MAX);
        case_clear(&c);
        mw_cpu_matmul_destroy(matmul);
    }
}

/* The same shape again, after others and with other data: the kept primitive. */
static void
test_kept(void)
{
    struct mw_cpu_matmul *matmul = mw_cpu_matmul_create();
    struct product_case first, second;
    case_init(&first, 33, 20, 47);
    case_init(&second, 20, 33, 47);
    for (int round = 0; round < 3; round++) {
        run_library(matmul, &first);
        check_result(&first);
        g_free(first.c);
        fill_c(&first);
        for (int64_t i = 0; i < first.product.m; i++)
            for (int64_t j = 0; j < first.product.n; j++)
                expect_element(&first, i, j);
        if (round == 0)
            run_library(matmul, &second);
    }
    check_result(&second);
    case_clear(&first);
    case_clear(&second);
    mw_cpu_matmul_destroy(matmul);
    mw_cpu_matmul_destroy(NULL);
}

static void
test_refused(void)
{
    struct mw_cpu_matmul *matmul = mw_cpu_matmul_create();
    const struct mw_product product = {.m = -4, .n = 8, .k = 8};
    if (mw_cpu_matmul_by_library(matmul)) {
        g_assert_false(mw_cpu_matmul_prepare(matmul, &product));
        g_assert_cmpstr(mw_cpu_matmul_error(matmul), ==,
                        "product of [-4, 8] and [8, 8]: oneDNN has no such product");
    }
    mw_cpu_matmul_destroy(matmul);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    mw_add_kernel_test("gemm", test_gemm);
    g_test_add_func("/matmul/library", test_library);
    g_test_add_func("/matmul/kept", test_kept);
    g_test_add_func("/matmul/blocks", test_blocks);
    g_test_add_func("/matmul/refused", test_refused);
    return g_test_run();
}
