/*
 * kernel_helpers.h - random tensors for tests of kernels, in 16 bits and in double beside it, and
 * comparisons.  All are made by GLib's test random numbers, freed by mw_tensor_clear.
 */
#ifndef MW_TESTS_KERNEL_HELPERS_H
#define MW_TESTS_KERNEL_HELPERS_H

#include <glib.h>

#include "exec/device/cpu/kernels.h"

struct mw_tensor {
    uint16_t *bits; /* exactly n elements: a sanitizer sees the first one beyond */
    double *value;
    int64_t n;
};

/* What halves are, here and below: MW_DTYPE_BF16 unless a test says otherwise. */
extern enum mw_dtype mw_test_dtype;

float mw_half_value(uint16_t bits);
/* The nearer of both neighbours, the even one in the middle; found by comparing. */
uint16_t mw_half_nearest(float x);

/* Of [-size, size], more of them small. */
struct mw_tensor mw_tensor_random(int64_t n, double size);
/* Every element a NaN: outputs that are not written show. */
struct mw_tensor mw_tensor_poisoned(int64_t n);
void mw_tensor_clear(struct mw_tensor *tensor);
float *mw_floats_poisoned(int64_t n);
float *mw_floats_random(int64_t n, double size);

/* Every element of bits within relative * |expected| + absolute of expected; in fp16 half a unit of
 * its subnormal numbers is allowed as well. */
void mw_expect_half(const char *what, const uint16_t *bits, const double *expected, int64_t n,
                    double relative, double absolute);
void mw_expect_fp32(const char *what, const float *x, const double *expected, int64_t n,
                    double relative, double absolute);

/* In 1 to max, small ones more often. */
int64_t mw_random_size(int64_t max);
double mw_largest(const double *x, int64_t n);

/* Adds `/kernels/NAME/ISA/DTYPE` for each instruction set that runs here and each type of halves;
 * the test's data is its table.  In kernel_tables.c; a file of the same name in another folder has
 * other tables. */
void mw_add_kernel_test(const char *name, GTestDataFunc test);

/* For mw_add_kernel_test: the test with the table's type. */
void mw_add_kernel_table_test(const char *path, const struct mw_cpu_kernels *kernels,
                              GTestDataFunc test);

/* Half a unit in the last place, of halves and of fp32. */
#define MW_HALF_ROUNDING (mw_test_dtype == MW_DTYPE_FP16 ? 1.0 / 2048 : 1.0 / 256)
#define MW_FP32_HALF_ULP (1.0 / 16777216)

#endif
