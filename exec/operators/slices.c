/* Where tensor slices leave what all of them share. */
#include "exec/operators/internal.h"

float *
mw_compute_loss_sums(const struct mw_compute *compute)
{
    return mw_operator_at(compute, compute->shared->branch,
                          compute->first_token * compute->decoder->hidden);
}

void *
mw_compute_partial_sums(const struct mw_compute *compute, int64_t *elements)
{
    int64_t hidden = compute->decoder->hidden;

    *elements = compute->tokens * hidden;
    switch (compute->operator_) {
    case MW_OPERATOR_EMBEDDING:
        return compute->backward ? NULL : compute->input;
    case MW_OPERATOR_PROJECTION:
        return compute->backward ? NULL : compute->layer->x2;
    case MW_OPERATOR_MLP_DOWN:
        return compute->backward ? NULL : compute->output;
    case MW_OPERATOR_QKV:
        return compute->backward ? compute->layer->gradient.n1 : NULL;
    case MW_OPERATOR_MLP_UP:
        return compute->backward ? compute->layer->gradient.n2 : NULL;
    case MW_OPERATOR_LOGITS:
        return compute->backward
                   ? mw_operator_at(compute, compute->shared->branch, compute->first_token * hidden)
                   : NULL;
    default:
        return NULL;
    }
}
