/*
 * norm_case.h - a norm over rows, with or without a mean, its operands and its passes: for tests of
 * kernels.
 */
#ifndef MW_TESTS_NORM_CASE_H
#define MW_TESTS_NORM_CASE_H

#include "tests/kernel_helpers.h"

struct norm_case {
    int64_t rows, columns;
    bool centred; /* layernorm; else rmsnorm, without bias */
    struct mw_tensor x, weight, bias, dy, add;
    float *mean, *rstd; /* [rows] of the forward pass */
};

void norm_case_init(struct norm_case *c, int64_t rows, int64_t columns, bool centred);
/* Adds to every x. */
void norm_case_shift(struct norm_case *c, double by);
void norm_case_clear(struct norm_case *c);

/* Fills mean and rstd, and checks y. */
void norm_case_forward(const struct mw_cpu_kernels *k, struct norm_case *c);
/* As the kernel's: dx may be dy or dx_add. */
void norm_case_backward(const struct mw_cpu_kernels *k, const struct norm_case *c, uint16_t *dx,
                        const uint16_t *dx_add, const uint16_t *dy);
/* Of the reference, without dx_add; dweight and dbias [columns], dbias untouched if not centred. */
void norm_case_reference(const struct norm_case *c, double *dx, double *dweight, double *dbias);

#endif
