/*
 * Tensor slices that share tokens make the gradients of norms' weights each of its own tokens, and
 * sum them up.
 */
#include "plan/check_step.h"
#include "plan/internal.h"

static int64_t
norm_elements(const struct mw_step_check *check, int operator_)
{
    const struct mw_operator_dims dims = mw_decoder_dims(&check->plan->shape.decoder);
    const struct mw_operator_parameter *it = mw_operator_row(operator_)->parameters;
    int64_t elements = 0;

    for (; it && it->kind != MW_PARAMETER_END; it++)
        elements += mw_dims_have(&dims, it->when) ? dims.width[it->rows] : 0;
    return elements;
}

bool
mw_step_check_norm_sum(struct mw_step_check *check, uint32_t index, uint32_t t)
{
    const struct mw_op *op = &check->plan->ops[index];
    const struct mw_work *work = mw_step_work(check, index);
    const struct mw_tensor *tensor = &check->plan->tensors[t];
    struct mw_step_part *part = mw_step_part_of(check, t, op->tile);
    uint32_t slot = mw_step_slot(check, index, MW_ROLE_GRADIENT);
    bool there = slot == tensor->gradient_slot ||
                 (slot != MW_NONE && mw_step_is_gradient_of(check, slot, index, t, MW_OP_COMPUTE));

    if (!mw_step_joins_along(check, index, MW_AXIS_TP, check->tp) ||
        !(part->unsummed >> work->operator_ & 1) || !there || part->made != op->micro_batch + 1u ||
        part->left > op->micro_batch ||
        (check->plan->shape.has_decoder &&
         work->bytes != mw_dtype_bytes(tensor->dtype, norm_elements(check, work->operator_))))
        return mw_plan_refuse(&check->base,
                              "%s: sums up no gradients of a norm that slices have made",
                              mw_step_label(check, index).text);
    part->unsummed &= ~(1u << work->operator_);
    return true;
}
