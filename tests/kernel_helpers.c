#include "kernel_helpers.h"

#include <math.h>
#include <string.h>

enum mw_dtype mw_test_dtype = MW_DTYPE_BF16;

static float
fp16_value(uint16_t bits)
{
    int exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
    float size = exponent == 0x1f ? (mantissa ? NAN : INFINITY)
                 : exponent == 0  ? ldexpf((float)mantissa, -24)
                                  : ldexpf((float)(1024 + mantissa), exponent - 25);
    return copysignf(size, bits & 0x8000 ? -1.0f : 1.0f);
}

static uint16_t
fp16_nearest(float x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    int exponent;
    double size = fabs((double)x);
    if (isnan(x))
        return sign | 0x7e00;
    if (size == 0.0)
        return sign;
    if (size >= 65520.0)
        return sign | 0x7c00;
    frexp(size, &exponent);
    exponent = MAX(exponent, -13); /* from there on numbers are subnormal */
    double units = nearbyint(ldexp(size, 11 - exponent));
    return (uint16_t)(sign | (((exponent + 13) << 10) + (int)units));
}

float
mw_half_value(uint16_t bits)
{
    if (mw_test_dtype == MW_DTYPE_FP16)
        return fp16_value(bits);
    uint32_t word = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

uint16_t
mw_half_nearest(float x)
{
    if (mw_test_dtype == MW_DTYPE_FP16)
        return fp16_nearest(x);
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    uint16_t below = (uint16_t)(word >> 16);
    if (isnan(x))
        return below | 0x40;
    if (isinf(x))
        return below;
    uint32_t rest = word & 0xffff;
    bool up = rest > 0x8000 || (rest == 0x8000 && below % 2 == 1);
    return (uint16_t)(below + (up ? 1 : 0));
}

static double
random_value(double size)
{
    double x = g_test_rand_double_range(-1.0, 1.0);
    return size * x * fabs(x);
}

struct mw_tensor
mw_tensor_random(int64_t n, double size)
{
    struct mw_tensor t = {g_new(uint16_t, n), g_new(double, n), n};
    for (int64_t i = 0; i < n; i++) {
        t.bits[i] = mw_half_nearest((float)random_value(size));
        t.value[i] = (double)mw_half_value(t.bits[i]);
    }
    return t;
}

struct mw_tensor
mw_tensor_poisoned(int64_t n)
{
    struct mw_tensor t = {g_new(uint16_t, n), g_new(double, n), n};
    for (int64_t i = 0; i < n; i++) {
        t.bits[i] = 0x7fc1;
        t.value[i] = NAN;
    }
    return t;
}

void
mw_tensor_clear(struct mw_tensor *tensor)
{
    g_clear_pointer(&tensor->bits, g_free);
    g_clear_pointer(&tensor->value, g_free);
}

float *
mw_floats_poisoned(int64_t n)
{
    float *x = g_new(float, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = NAN;
    return x;
}

float *
mw_floats_random(int64_t n, double size)
{
    float *x = g_new(float, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)random_value(size);
    return x;
}

static void
expect(const char *what, int64_t i, double got, double expected, double bound)
{
    if (!(fabs(got - expected) <= bound))
        g_error("%s[%" G_GINT64_FORMAT "] is %.9g, not %.9g within %.3g", what, i, got, expected,
                bound);
}

void
mw_expect_half(const char *what, const uint16_t *bits, const double *expected, int64_t n,
               double relative, double absolute)
{
    double least = mw_test_dtype == MW_DTYPE_FP16 ? 0x1p-25 : 0.0;
    for (int64_t i = 0; i < n; i++)
        expect(what, i, (double)mw_half_value(bits[i]), expected[i],
               relative * fabs(expected[i]) + absolute + least);
}

void
mw_expect_fp32(const char *what, const float *x, const double *expected, int64_t n, double relative,
               double absolute)
{
    for (int64_t i = 0; i < n; i++)
        expect(what, i, (double)x[i], expected[i], relative * fabs(expected[i]) + absolute);
}

int64_t
mw_random_size(int64_t max)
{
    double x = g_test_rand_double();
    return 1 + (int64_t)(x * x * (double)max) % max;
}

double
mw_largest(const double *x, int64_t n)
{
    double largest = 0.0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(x[i]));
    return largest;
}

struct table_test {
    const struct mw_cpu_kernels *kernels;
    GTestDataFunc test;
};

static void
run_table_test(gconstpointer data)
{
    const struct table_test *it = data;
    mw_test_dtype = it->kernels->dtype;
    it->test(it->kernels);
    mw_test_dtype = MW_DTYPE_BF16;
}

void
mw_add_kernel_table_test(const char *path, const struct mw_cpu_kernels *kernels, GTestDataFunc test)
{
    struct table_test *it = g_new(struct table_test, 1);
    *it = (struct table_test){kernels, test};
    g_test_add_data_func_full(path, it, run_table_test, g_free);
}
