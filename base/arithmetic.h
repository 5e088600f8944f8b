/* arithmetic.h - whole-number arithmetic that the planner's files share. */
#ifndef MW_BASE_ARITHMETIC_H
#define MW_BASE_ARITHMETIC_H

#include <stddef.h>
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

static inline int64_t
mw_saturating_add(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static inline int64_t
mw_saturating_product(const int64_t *factors, size_t count)
{
    int64_t product = 1;

    for (size_t i = 0; i < count; i++)
        if (factors[i] == 0)
            return 0;
    for (size_t i = 0; i < count; i++)
        if (__builtin_mul_overflow(product, factors[i], &product))
            return INT64_MAX;
    return product;
}

static inline int64_t
mw_saturating_sum(const int64_t *terms, size_t count)
{
    int64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum = mw_saturating_add(sum, terms[i]);
    return sum;
}

/* For non-negative numbers; both saturate at INT64_MAX. */
#define MW_PRODUCT(...)                                                                            \
    mw_saturating_product((const int64_t[]){__VA_ARGS__},                                          \
                          sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define MW_SUM(...)                                                                                \
    mw_saturating_sum((const int64_t[]){__VA_ARGS__},                                              \
                      sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

#endif
