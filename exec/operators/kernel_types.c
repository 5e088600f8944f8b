#include "exec/operators/kernel_types.h"

#include <math.h>

bool
mw_product_same(const struct mw_product *a, const struct mw_product *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->ld_a == b->ld_a &&
           a->ld_b == b->ld_b && a->ld_c == b->ld_c && a->a_transposed == b->a_transposed &&
           a->b_transposed == b->b_transposed && a->bias == b->bias &&
           a->accumulate == b->accumulate && a->c_fp32 == b->c_fp32;
}

struct mw_update_step
mw_update_step_of(enum mw_update_rule rule, double lr, double beta1, double beta2, double eps,
                  double weight_decay, int64_t step, double grad_scale)
{
    double corrected = rule == MW_UPDATE_ADAMW ? lr / (1.0 - pow(beta1, (double)step)) : lr;
    struct mw_update_step update = {
        .rule = rule,
        .grad_scale = (float)grad_scale,
        .beta1 = (float)beta1,
        .one_minus_beta1 = (float)(1.0 - beta1),
        .beta2 = (float)beta2,
        .one_minus_beta2 = (float)(1.0 - beta2),
        .eps = (float)eps,
        .weight_decay = (float)weight_decay,
        .decay = (float)(1.0 - lr * weight_decay),
        .lr = (float)corrected,
        .v_scale = (float)(1.0 / sqrt(1.0 - pow(beta2, (double)step))),
    };
    return update;
}

struct mw_update_step
mw_adamw_step(double lr, double beta1, double beta2, double eps, double weight_decay, int64_t step,
              double grad_scale)
{
    return mw_update_step_of(MW_UPDATE_ADAMW, lr, beta1, beta2, eps, weight_decay, step,
                             grad_scale);
}

_Static_assert(sizeof(struct mw_exact_sum) == MW_EXACT_SUM_BYTES, "what plans count");

double
mw_exact_value(const struct mw_exact_sum *sum)
{
    double value = 0;

    for (int d = MW_EXACT_DIGITS - 1; d >= 0; d--)
        value +=
            ldexp((double)(int64_t)sum->digits[d], MW_EXACT_FIRST_BIT + d * MW_EXACT_DIGIT_BITS);
    return value;
}

int64_t
mw_norm_blocks(int64_t n)
{
    return (n + MW_NORM_BLOCK - 1) / MW_NORM_BLOCK;
}

double
mw_norm_combine(const double *partial, int64_t blocks)
{
    double sum = 0.0;
    for (int64_t i = 0; i < blocks; i++)
        sum += partial[i];
    return sum;
}
