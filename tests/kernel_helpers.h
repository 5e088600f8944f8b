/*
 * kernel_helpers.h - random tensors for tests of kernels, in bf16 and in double beside it, and
 * comparisons.  All are made by GLib's test random numbers, freed by mw_tensor_clear.
 */
#ifndef MW_TESTS_KERNEL_HELPERS_H
#define MW_TESTS_KERNEL_HELPERS_H

#include <glib.h>

#include "exec/cpu/kernels.h"

struct mw_tensor {
    uint16_t *bits; /* exactly n elements: a sanitizer sees the first one beyond */
    double *value;
    int64_t n;
};

float mw_bf16_value(uint16_t bits);
/* The nearer of both neighbours, the even one in the middle; found by comparing. */
uint16_t mw_bf16_nearest(float x);

/* Of [-size, size], more of them small. */
struct mw_tensor mw_tensor_random(int64_t n, double size);
/* Every element a NaN: outputs that are not written show. */
struct mw_tensor mw_tensor_poisoned(int64_t n);
void mw_tensor_clear(struct mw_tensor *tensor);
float *mw_floats_poisoned(int64_t n);
float *mw_floats_random(int64_t n, double size);

/* Every element of bits within relative * |expected| + absolute of expected. */
void mw_expect_bf16(const char *what, const uint16_t *bits, const double *expected, int64_t n,
                    double relative, double absolute);
void mw_expect_fp32(const char *what, const float *x, const double *expected, int64_t n,
                    double relative, double absolute);

/* In 1 to max, small ones more often. */
int64_t mw_random_size(int64_t max);
double mw_largest(const double *x, int64_t n);

/* Adds `/kernels/NAME/ISA` for each instruction set that runs here; the test's data is its
 * table.  In kernel_tables.c; a file of the same name in another folder has other tables. */
void mw_add_kernel_test(const char *name, GTestDataFunc test);

/* Half a unit in the last place of bf16, and of fp32. */
#define MW_BF16_HALF_ULP (1.0 / 256)
#define MW_FP32_HALF_ULP (1.0 / 16777216)

#endif
