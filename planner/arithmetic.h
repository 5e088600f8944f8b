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

#endif
