/*
 * front.h - the Pareto front of a sweep: rows that no other row beats in step time and cost both.
 *
 * The cost is cost_usd where every fitting row has it, as a number of tokens to train on gives it;
 * else GPU-seconds per token: gpus * step time / tokens per step.
 */
#ifndef MW_REPORT_FRONT_H
#define MW_REPORT_FRONT_H

#include <stdint.h>

#include "report/rows.h"

struct mw_front {
    GArray *fitting; /* int64_t: rows with a step time, rising */
    GArray *step_s;  /* double, of these; and what they cost */
    GArray *cost;
    bool is_usd;
    GArray *rows; /* int64_t: those of `fitting` on the front, by rising step time */
};

struct mw_front mw_front_of(const struct mw_rows *rows);
void mw_front_clear(struct mw_front *front);

#endif
