/* Elementwise kernels, norms, embeddings and the loss against plain loops in double. */
#include <math.h>
#include <string.h>

#include "exec/data/convert.h"
#include "kernel_helpers.h"
#include "kernel_reference.h"
#include "norm_case.h"

#define ROUNDS 40
/* Of one result rounded to bf16 after a handful of operations in fp32. */
#define RELATIVE (MW_HALF_ROUNDING * 1.01)

static void
test_conversion(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    const uint16_t quiet = mw_test_dtype == MW_DTYPE_FP16 ? 0x200 : 0x40;
    const float odd[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, -1e-45f, 3.4e38f,
                         1.00390625f, 1.01171875f, 1.0f, 65504.0f, 65519.0f, 65520.0f, 6.1e-5f,
                         2.98e-8f, 2.99e-8f,
                         /* Rounded as a number the first would be infinite, the second zero. */
                         mw_fp32_of_bits(0x7f800001), mw_fp32_of_bits(0x7fffffff)};
    for (int64_t n = 1; n <= (int64_t)G_N_ELEMENTS(odd); n++) {
        uint16_t half[G_N_ELEMENTS(odd)];
        float back[G_N_ELEMENTS(odd)];
        k->narrow(half, odd, n);
        k->widen(back, half, n);
        for (int64_t i = 0; i < n; i++) {
            float value = mw_half_value(half[i]);
            if (isnan(odd[i])) {
                g_assert_true(isnan(value) && (half[i] & quiet) && isnan(back[i]));
                continue;
            }
            g_assert_cmphex(half[i], ==, mw_half_nearest(odd[i]));
            g_assert_cmpint(memcmp(&back[i], &value, sizeof value), ==, 0);
        }
    }
    int64_t n = 100003;
    g_autofree float *x = mw_floats_random(n, 1e3);
    struct mw_tensor out = mw_tensor_poisoned(n);
    k->narrow(out.bits, x, n);
    for (int64_t i = 0; i < n; i++)
        g_assert_cmphex(out.bits[i], ==, mw_half_nearest(x[i]));
    mw_tensor_clear(&out);
}

/* There is nothing between a half and itself in fp32. */
static void
test_every_half(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    const int64_t n = 1 << 16;
    g_autofree uint16_t *half = g_new(uint16_t, n), *back = g_new(uint16_t, n);
    g_autofree float *wide = g_new(float, n);
    for (int64_t i = 0; i < n; i++)
        half[i] = (uint16_t)i;
    k->widen(wide, half, n);
    k->narrow(back, wide, n);
    for (int64_t i = 0; i < n; i++) {
        float value = mw_half_value(half[i]);
        if (isnan(value)) {
            g_assert_true(isnan(wide[i]) && isnan(mw_half_value(back[i])));
            continue;
        }
        g_assert_cmpint(memcmp(&wide[i], &value, sizeof value), ==, 0);
        g_assert_cmphex(back[i], ==, half[i]);
    }
}

/* --- mxfp8 ----------------------------------------------------------------------------------- */

/* Of e4m3, by the words of OCP's Sec. 5.3.1: NaN at 0x7f. */
static double
e4m3_value(int code)
{
    int exponent = code >> 3 & 15, mantissa = code & 7;
    double size = exponent ? ldexp(1 + mantissa / 8.0, exponent - 7) : ldexp(mantissa, -9);

    return (code & 0x7f) == 0x7f ? NAN : code & 0x80 ? -size : size;
}

/* The nearest number; of two, the even one. */
static int
e4m3_nearest(double x)
{
    int best = 0;

    for (int code = 1; code < 0x7f; code++) {
        double nearer = fabs(e4m3_value(best) - fabs(x)) - fabs(e4m3_value(code) - fabs(x));
        best = nearer > 0 || (nearer == 0 && code % 2 == 0) ? code : best;
    }
    return best | (signbit(x) ? 0x80 : 0);
}

/* A block's scale is the smallest power of two at which nothing is beyond 448. */
static int
smallest_exponent(const double *x, int64_t n)
{
    double largest = mw_largest(x, n);
    int exponent = -126;

    while (largest > ldexp(448, exponent))
        exponent++;
    return exponent;
}

static void
expect_block(const uint8_t *block, const uint16_t *back, const double *x, int64_t n)
{
    int exponent = smallest_exponent(x, n);

    g_assert_cmpint(block[0], ==, exponent + 127);
    for (int64_t i = 0; i < n; i++) {
        int expected = e4m3_nearest(ldexp(x[i], -exponent));
        g_assert_cmphex(block[1 + i], ==, expected);
        g_assert_cmphex(back[i], ==, mw_half_nearest((float)ldexp(e4m3_value(expected), exponent)));
    }
}

static void
test_mxfp8(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;

    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = mw_random_size(5000), blocks = (n + 31) / 32;
        struct mw_tensor x = mw_tensor_random(n, pow(10, g_test_rand_int_range(-4, 4)));
        struct mw_tensor back = mw_tensor_poisoned(n);
        int64_t bytes = mw_dtype_bytes(MW_DTYPE_MXFP8, n);
        g_autofree uint8_t *coded = g_malloc((gsize)bytes);
        g_assert_cmpint(bytes, ==, 33 * blocks);
        k->narrow_mxfp8(coded, x.bits, n);
        k->widen_blocks(back.bits, coded, MW_DTYPE_MXFP8, n);
        for (int64_t b = 0; b < blocks; b++)
            expect_block(coded + 33 * b, back.bits + 32 * b, x.value + 32 * b, MIN(32, n - 32 * b));
        for (int64_t i = n + blocks; i < bytes; i++)
            g_assert_cmphex(coded[i], ==, 0);
        mw_tensor_clear(&x);
        mw_tensor_clear(&back);
    }
}

/* What is no number makes no number of all that share its scale, and of nothing else; zeros stay
 * zeros, and whatever is stored again stays what it is. */
static void
test_mxfp8_odd(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    uint16_t x[96] = {0}, back[96], again[96];
    uint8_t coded[99];

    for (int i = 64; i < 96; i++)
        x[i] = mw_half_of_fp32(0.001f * (float)(i * i), mw_test_dtype);
    for (int odd = 0; odd < 2; odd++) {
        x[5] = mw_half_of_fp32(odd ? -INFINITY : NAN, mw_test_dtype);
        k->narrow_mxfp8(coded, x, 96);
        k->widen_blocks(back, coded, MW_DTYPE_MXFP8, 96);
        g_assert_cmphex(coded[0], ==, 0xff);
        for (int i = 1; i < 33; i++)
            g_assert_cmphex(coded[i], ==, 0);
        for (int i = 0; i < 96; i++)
            g_assert_true(i < 32 ? isnan(mw_half_value(back[i]))
                                 : (i < 64) == (back[i] == 0) &&
                                       fabsf(mw_half_value(back[i]) - mw_half_value(x[i])) <=
                                           fabsf(mw_half_value(x[i])) / 16);
    }
    x[5] = 0;
    k->narrow_mxfp8(coded, x, 96);
    k->widen_blocks(back, coded, MW_DTYPE_MXFP8, 96);
    k->narrow_mxfp8(coded, back, 96);
    k->widen_blocks(again, coded, MW_DTYPE_MXFP8, 96);
    g_assert_cmpmem(again, sizeof again, back, sizeof back);
}

static void
test_sums(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = mw_random_size(20000);
        struct mw_tensor a = mw_tensor_random(n, 4.0), b = mw_tensor_random(n, 4.0);
        g_autofree float *sum = mw_floats_random(n, 4.0);
        g_autofree float *before = g_memdup2(sum, (gsize)n * sizeof *sum);
        k->accumulate(sum, a.bits, n);
        for (int64_t i = 0; i < n; i++)
            g_assert_cmpfloat(sum[i], ==, before[i] + mw_half_value(a.bits[i]));
        g_autofree uint16_t *expected = g_new(uint16_t, n);
        for (int64_t i = 0; i < n; i++)
            expected[i] = mw_half_nearest(mw_half_value(a.bits[i]) + mw_half_value(b.bits[i]));
        k->add(a.bits, a.bits, b.bits, n);
        g_assert_cmpmem(a.bits, (gsize)n * 2, expected, (gsize)n * 2);
        float factor = (float)g_test_rand_double_range(-4, 4);
        for (int64_t i = 0; i < n; i++)
            expected[i] = mw_half_nearest(mw_half_value(b.bits[i]) * factor);
        k->scale(b.bits, factor, n);
        g_assert_cmpmem(b.bits, (gsize)n * 2, expected, (gsize)n * 2);
        mw_tensor_clear(&a);
        mw_tensor_clear(&b);
    }
}

typedef void forward_fn(void *y, const void *x, int64_t n);
typedef void backward_fn(void *dx, const void *dy, const void *x, int64_t n);

static void
check_activation(enum mw_ref_activation kind, forward_fn *forward, backward_fn *backward)
{
    int64_t n = mw_random_size(10000);
    struct mw_tensor x = mw_tensor_random(n, 12.0), dy = mw_tensor_random(n, 4.0);
    struct mw_tensor y = mw_tensor_poisoned(n), dx = mw_tensor_poisoned(n);
    forward(y.bits, x.bits, n);
    backward(dx.bits, dy.bits, x.bits, n);
    for (int64_t i = 0; i < n; i++) {
        y.value[i] = mw_ref_activate(kind, x.value[i]);
        dx.value[i] = dy.value[i] * mw_ref_activation_slope(kind, x.value[i]);
    }
    /* 1 + tanh cancels for x far below 0: an error of 1e-6 of it is one of x * 1e-6. */
    mw_expect_half("y", y.bits, y.value, n, RELATIVE, 12.0 * 1e-6);
    mw_expect_half("dx", dx.bits, dx.value, n, RELATIVE, 4.0 * 12.0 * 4e-6);
    backward(dy.bits, dy.bits, x.bits, n);
    g_assert_cmpmem(dy.bits, (gsize)n * 2, dx.bits, (gsize)n * 2);
    mw_tensor_clear(&x);
    mw_tensor_clear(&dy);
    mw_tensor_clear(&y);
    mw_tensor_clear(&dx);
}

static void
test_activations(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    for (int round = 0; round < ROUNDS; round++) {
        check_activation(MW_REF_GELU, k->gelu_forward, k->gelu_backward);
        check_activation(MW_REF_GELU_ERF, k->gelu_erf_forward, k->gelu_erf_backward);
        check_activation(MW_REF_RELU, k->relu_forward, k->relu_backward);
    }
}

static void
test_swiglu(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = mw_random_size(10000);
        struct mw_tensor gate = mw_tensor_random(n, 100.0), up = mw_tensor_random(n, 4.0);
        struct mw_tensor dy = mw_tensor_random(n, 4.0), y = mw_tensor_poisoned(n);
        g_autofree double *dgate = g_new(double, n), *dup = g_new(double, n);
        for (int64_t i = 0; i < n; i++) {
            y.value[i] = mw_ref_swiglu(gate.value[i], up.value[i]);
            mw_ref_swiglu_slopes(&dgate[i], &dup[i], dy.value[i], gate.value[i], up.value[i]);
        }
        k->swiglu_forward(y.bits, gate.bits, up.bits, n);
        mw_expect_half("y", y.bits, y.value, n, RELATIVE, 1e-5);
        k->swiglu_backward(gate.bits, up.bits, dy.bits, gate.bits, up.bits, n);
        /* 1 - sigmoid cancels where the gate is large: times the gate, 100 * 1e-7. */
        mw_expect_half("dgate", gate.bits, dgate, n, RELATIVE, 4.0 * 4.0 * 1e-4);
        mw_expect_half("dup", up.bits, dup, n, RELATIVE, 1e-5);
        mw_tensor_clear(&gate);
        mw_tensor_clear(&up);
        mw_tensor_clear(&dy);
        mw_tensor_clear(&y);
    }
}

static void
check_norm_weights(const struct mw_cpu_kernels *k, const struct norm_case *c, const double *dweight,
                   const double *dbias)
{
    /* Rows' rounding errors in fp32, of terms up to about sqrt(columns). */
    double bound = (double)c->rows * 15.0 * 2e-6;
    struct mw_tensor half = mw_tensor_poisoned(c->columns);
    g_autofree float *full = mw_floats_poisoned(c->columns);
    const float *mean = c->centred ? c->mean : NULL;
    k->norm_weight_gradient((struct mw_gradient){half.bits, false, false}, c->dy.bits, c->x.bits,
                            mean, c->rstd, c->rows, c->columns, NULL);
    mw_expect_half("dweight", half.bits, dweight, c->columns, RELATIVE, bound);
    k->norm_weight_gradient((struct mw_gradient){full, true, false}, c->dy.bits, c->x.bits, mean,
                            c->rstd, c->rows, c->columns, NULL);
    mw_expect_fp32("dweight", full, dweight, c->columns, 1e-6, bound);
    k->bias_gradient((struct mw_gradient){full, true, true}, c->dy.bits, c->columns, c->rows,
                     c->columns, NULL);
    for (int64_t i = 0; i < c->columns; i++)
        half.value[i] = dweight[i] + dbias[i];
    mw_expect_fp32("dweight + dbias", full, half.value, c->columns, 1e-6, 2.0 * bound);
    mw_tensor_clear(&half);
}

static void
check_norm_backward(const struct mw_cpu_kernels *k, const struct norm_case *c)
{
    int64_t n = c->rows * c->columns;
    struct mw_tensor dx = mw_tensor_poisoned(n);
    g_autofree double *dweight = g_new(double, c->columns), *dbias = g_new0(double, c->columns);
    norm_case_reference(c, dx.value, dweight, dbias);
    for (int64_t i = 0; i < n && !c->centred; i++)
        dbias[i % c->columns] += c->dy.value[i];
    check_norm_weights(k, c, dweight, dbias);
    const uint16_t *add = g_test_rand_bit() ? c->add.bits : NULL;
    for (int64_t i = 0; i < n && add != NULL; i++)
        dx.value[i] += c->add.value[i];
    memcpy(dx.bits, c->dy.bits, (size_t)n * 2);
    norm_case_backward(k, c, dx.bits, add, dx.bits);
    /* rstd is at most 1/sqrt(eps), where a row is all but constant; its error grows with it. */
    for (int64_t r = 0; r < c->rows; r++)
        mw_expect_half("dx", dx.bits + r * c->columns, dx.value + r * c->columns, c->columns,
                       RELATIVE, 1e-5 * (1.0 + (double)c->rstd[r] * (double)c->rstd[r]));
    mw_tensor_clear(&dx);
}

static void
test_norms(gconstpointer data)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct norm_case c;
        norm_case_init(&c, mw_random_size(300), 1 + mw_random_size(200), round % 2 == 0);
        norm_case_forward(data, &c);
        check_norm_backward(data, &c);
        norm_case_clear(&c);
    }
}

/* Rows whose mean is many deviations from 0, where mean(x^2) - mean^2 would have few digits. */
static void
test_norms_far_from_0(gconstpointer data)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct norm_case c;
        norm_case_init(&c, mw_random_size(40), 20 + mw_random_size(500), round % 2 == 0);
        norm_case_shift(&c, g_test_rand_bit() ? 90.0 : -90.0);
        norm_case_forward(data, &c);
        check_norm_backward(data, &c);
        norm_case_clear(&c);
    }
}

/* A constant row has no variance: no NaN may come of it. */
static void
test_norm_of_constant(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    uint16_t x[37], y[37], weight[37], bias[37];
    float mean, rstd;
    for (int i = 0; i < 37; i++) {
        x[i] = mw_half_nearest(3.0f);
        weight[i] = mw_half_nearest(1.0f);
        bias[i] = mw_half_nearest(0.5f);
    }
    k->layernorm_forward(y, &mean, &rstd, x, weight, bias, 1, 37, 1e-5f);
    for (int i = 0; i < 37; i++)
        g_assert_cmpfloat(mw_half_value(y[i]), ==, 0.5f);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    mw_add_kernel_test("conversion", test_conversion);
    mw_add_kernel_test("every-half", test_every_half);
    mw_add_kernel_test("mxfp8", test_mxfp8);
    mw_add_kernel_test("mxfp8-odd", test_mxfp8_odd);
    mw_add_kernel_test("sums", test_sums);
    mw_add_kernel_test("activations", test_activations);
    mw_add_kernel_test("swiglu", test_swiglu);
    mw_add_kernel_test("norms", test_norms);
    mw_add_kernel_test("norms-far-from-0", test_norms_far_from_0);
    mw_add_kernel_test("norm-of-constant", test_norm_of_constant);
    return g_test_run();
}
