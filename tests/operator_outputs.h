/*
 * operator_outputs.h - what an operator writes, and how far apart the results of two devices may be
 * that run it on the same operands.
 *
 * Both add up the same terms in fp32, in orders of their own, and round to 16 bits where a buffer
 * is written.  With u half a unit in the last place of the 16-bit type and e that of fp32,
 *
 *   |a - b| <= 2 u (|b| + rounded) + 2 e terms size
 *
 * `size` is the sum of the terms' absolute values, `terms` how many fp32 operations follow each
 * other on the way, `rounded` what was rounded to 16 bits on the way to the result: operands of a
 * second product, or a sum that is written and read again.  All of it is computed in fp64, from the
 * operands.
 */
#ifndef MW_TESTS_OPERATOR_OUTPUTS_H
#define MW_TESTS_OPERATOR_OUTPUTS_H

#include <glib.h>

#include "exec/operators/compute.h"

enum mw_output_kind { MW_OUTPUT_HALF, MW_OUTPUT_FP32, MW_OUTPUT_FP64 };

struct mw_operator_output {
    const char *name;
    enum mw_output_kind kind;
    void *at;
    int64_t rows, columns, ld; /* in elements */
    /* From this column on it need hold nothing before. */
    int64_t fresh;
    bool exact; /* the same bits */
    int64_t terms;
    double *size, *rounded; /* [rows, columns] */
};

/* Of an operator whose operands are in memory of the host and hold what they do before it runs: an
 * array of struct mw_operator_output.  dtype: of 16-bit elements. */
GArray *mw_operator_outputs(const struct mw_compute *compute, enum mw_dtype dtype);
void mw_operator_outputs_free(GArray *outputs);

/* The value of an element, and the bound on the other device's; `at` is an address like the
 * output's own. */
double mw_operator_output_value(const struct mw_operator_output *output, enum mw_dtype dtype,
                                const void *at, int64_t row, int64_t column);
double mw_operator_output_bound(const struct mw_operator_output *output, enum mw_dtype dtype,
                                double value, int64_t row, int64_t column);
/* The address of a row in memory where the output is `at`, and its bytes. */
void *mw_operator_output_row(const struct mw_operator_output *output, void *at, int64_t row);
int64_t mw_operator_output_bytes(const struct mw_operator_output *output, int64_t columns);

#endif
