#include "kernel_helpers.h"

#include <math.h>
#include <string.h>

float
mw_bf16_value(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

uint16_t
mw_bf16_nearest(float x)
{
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
        t.bits[i] = mw_bf16_nearest((float)random_value(size));
        t.value[i] = (double)mw_bf16_value(t.bits[i]);
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
mw_expect_bf16(const char *what, const uint16_t *bits, const double *expected, int64_t n,
               double relative, double absolute)
{
    for (int64_t i = 0; i < n; i++)
        expect(what, i, (double)mw_bf16_value(bits[i]), expected[i],
               relative * fabs(expected[i]) + absolute);
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
