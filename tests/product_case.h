/*
 * product_case.h - a matrix product with random operands, and what must come of it: plain sums in
 * double.
 */
#ifndef MW_TESTS_PRODUCT_CASE_H
#define MW_TESTS_PRODUCT_CASE_H

#include "tests/kernel_helpers.h"

struct mw_product_case {
    struct mw_product product;
    struct mw_tensor a, b, bias;
    double *expected; /* what C becomes, [m, ld_c] with NaN between rows */
    double *size;     /* sum of the terms' magnitudes: what errors are relative to */
    double *rounded;  /* magnitudes of what a library may round to C's type before it adds to it */
    void *c; /* c_n elements; NaN between rows, and all over where nothing is added to it */
    int64_t c_n;
};

/* Operands of a shape, and what is expected of them. */
void mw_product_case_fill(struct mw_product_case *c, const struct mw_product *p);
/* Transposed or not, with gaps between rows or without, as it comes; and such a case. */
void mw_product_case_shape(struct mw_product *p, int64_t m, int64_t n, int64_t k);
void mw_product_case_init(struct mw_product_case *c, int64_t m, int64_t n, int64_t k);
void mw_product_case_clear(struct mw_product_case *c);

/* c is as expected, but for the rounding of its type and of sums in fp32; between its rows nothing
 * was written.  rounds_between: the product may be rounded before C is added, and both before the
 * bias is. */
void mw_product_case_check(const struct mw_product_case *c, bool rounds_between);

#endif
