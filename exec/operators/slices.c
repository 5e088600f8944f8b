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

static struct mw_slice_rows
rows_of(const struct mw_compute *compute, void *whole, void *own)
{
    int64_t hidden = compute->decoder->hidden;

    return (struct mw_slice_rows){.whole = whole,
                                  .own = own,
                                  .elements = mw_operator_tokens(compute) * hidden,
                                  .own_elements = mw_operator_own_tokens(compute) * hidden};
}

static struct mw_slice_rows
in_place(const struct mw_compute *compute, void *whole)
{
    return rows_of(compute, whole, mw_compute_own_rows(compute, whole));
}

struct mw_slice_rows
mw_compute_scattered(const struct mw_compute *compute)
{
    void *branch = compute->shared->branch;
    struct mw_slice_rows none = {0};

    switch (compute->operator_) {
    case MW_OPERATOR_EMBEDDING:
        return compute->backward ? none : rows_of(compute, branch, compute->input);
    case MW_OPERATOR_PROJECTION:
        return compute->backward ? none : rows_of(compute, branch, compute->layer->x2);
    case MW_OPERATOR_MLP_DOWN:
        return compute->backward ? none : rows_of(compute, branch, compute->output);
    case MW_OPERATOR_QKV:
        return compute->backward ? in_place(compute, compute->layer->gradient.n1) : none;
    case MW_OPERATOR_MLP_UP:
        return compute->backward ? in_place(compute, compute->layer->gradient.n2) : none;
    case MW_OPERATOR_LOGITS:
        return compute->backward ? in_place(compute, branch) : none;
    default:
        return none;
    }
}

struct mw_slice_rows
mw_compute_gathered(const struct mw_compute *compute)
{
    struct mw_slice_rows none = {0};

    switch (compute->operator_) {
    case MW_OPERATOR_QKV:
        return rows_of(compute, compute->shared->gathered, compute->layer->n1);
    case MW_OPERATOR_MLP_UP:
        return rows_of(compute, compute->shared->gathered, compute->layer->n2);
    case MW_OPERATOR_LOGITS:
        return compute->backward ? none : in_place(compute, compute->shared->final);
    case MW_OPERATOR_PROJECTION:
        return compute->backward ? in_place(compute, compute->layer->gradient.x2) : none;
    case MW_OPERATOR_MLP_DOWN:
        return compute->backward ? in_place(compute, compute->layer->gradient.out) : none;
    case MW_OPERATOR_EMBEDDING:
        return compute->backward ? in_place(compute, compute->shared->gradient) : none;
    default:
        return none;
    }
}
