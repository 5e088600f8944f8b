/* arithmetic.h - whole-number arithmetic that the planner's files share. */
#ifndef MW_PLANNER_ARITHMETIC_H
#define MW_PLANNER_ARITHMETIC_H

#include <stdint.h>

/* total / parts, rounded up; parts > 0, total >= 0. */
static inline int64_t
mw_divide_up(int64_t total, int64_t parts)
{
    return total / parts + (total % parts != 0);
}

/* value rounded up to a multiple of grain > 0; saturates just below INT64_MAX. */
static inline int64_t
mw_round_up(int64_t value, int64_t grain)
{
    int64_t rounded;

    return __builtin_mul_overflow(mw_divide_up(value, grain), grain, &rounded)
               ? INT64_MAX / grain * grain
               : rounded;
}

#endif
