/*
 * attention_case.h - a random case of attention for any device's kernels: operands in bf16 as
 * slices of one fused tensor, poisoned outputs, and the comparison with plain loops in double
 * (kernel_reference.h).
 */
#ifndef MW_TESTS_ATTENTION_CASE_H
#define MW_TESTS_ATTENTION_CASE_H

#include "exec/operators/kernel_types.h"
#include "kernel_helpers.h"
#include "kernel_reference.h"

struct mw_attention_case {
    struct mw_attention shape;
    struct mw_ref_attention plain;
    struct mw_tensor q, k, v, d_o; /* dense */
    int64_t rows, ld;
    /* q, k, v beside each other, rows ld apart; their gradients likewise.  Poisoned where no
     * operand is, and in all of the gradients. */
    uint16_t *fused, *fused_gradient;
    struct mw_tensor o; /* dense, poisoned */
    int joins;          /* how often a gradient is rounded before more is added to it */
    float *lse;
};

/* gap: elements between two rows of the fused tensors. */
void mw_attention_case_init(struct mw_attention_case *c, const struct mw_ref_attention *plain,
                            int64_t gap);
void mw_attention_case_clear(struct mw_attention_case *c);

/* Elements of q and k before k and v begin in a row of the fused tensors. */
int64_t mw_attention_case_k(const struct mw_attention_case *c);
int64_t mw_attention_case_v(const struct mw_attention_case *c);

/* o and lse are as the case's operands say, within the rounding of bf16. */
void mw_attention_case_check_forward(const struct mw_attention_case *c);
/* fused_gradient is, for the o that the forward pass left; nothing is written between rows. */
void mw_attention_case_check_backward(const struct mw_attention_case *c);

#endif
