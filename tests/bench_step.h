/*
 * bench_step.h - matrix products timed where they run, inside a step, each beside the bare call of
 * the library at the same shape.
 */
#ifndef MW_TESTS_BENCH_STEP_H
#define MW_TESTS_BENCH_STEP_H

#include "exec/device/backend.h"

/* The cpu backend, which times the products of its operators. */
extern const struct mw_backend bench_products_backend;

/* While on, behind each product the bare call runs on operands of its own. */
void bench_products_compare(bool on);

/* A line for each shape: how often, milliseconds of a call inside the step and bare, their ratio;
 * then the sums. */
void bench_products_print(void);

#endif
