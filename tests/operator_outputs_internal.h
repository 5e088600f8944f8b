/*
 * operator_outputs_internal.h - how outputs are listed; private to operator_outputs*.c.
 */
#ifndef MW_TESTS_OPERATOR_OUTPUTS_INTERNAL_H
#define MW_TESTS_OPERATOR_OUTPUTS_INTERNAL_H

#include "exec/operators/internal.h"
#include "tests/operator_outputs.h"

struct mw_output_list {
    const struct mw_compute *compute;
    enum mw_dtype dtype;
    GArray *outputs;
};

/* 16-bit elements; all n of them, to be freed. */
double mw_outputs_load(const struct mw_output_list *l, const uint16_t *x, int64_t i);
double *mw_outputs_load_all(const struct mw_output_list *l, const uint16_t *x, int64_t n);
/* Below this size rounding is off by as much as there; |x|, if it is larger. */
double mw_outputs_least(enum mw_dtype dtype);
double mw_outputs_at_least(const struct mw_output_list *l, double x);

int64_t mw_outputs_tokens(const struct mw_output_list *l);
/* Whether gradients of parameters are written; else they are added to. */
bool mw_outputs_fresh_gradient(const struct mw_output_list *l);
/* With the terms of a function such as exp; its size is 0.  fresh: what was there is not read; else
 * it is added to, or changed in place.  It stays until the next one is added. */
struct mw_operator_output *mw_outputs_add(struct mw_output_list *l, const char *name, void *at,
                                          int64_t rows, int64_t columns, int64_t ld, bool fresh);
/* If it is not fresh: what is there is one of its terms. */
void mw_outputs_add_old(const struct mw_output_list *l, struct mw_operator_output *output);

/* residual: what the product is added to, laid out as its result; or NULL. */
void mw_outputs_forward_products(struct mw_output_list *l, const uint16_t *residual);
void mw_outputs_backward_products(struct mw_output_list *l);
void mw_outputs_qkv_forward(struct mw_output_list *l);
void mw_outputs_qkv_backward(struct mw_output_list *l);
void mw_outputs_norm(struct mw_output_list *l); /* in either direction */
void mw_outputs_attention_forward(struct mw_output_list *l);
void mw_outputs_attention_backward(struct mw_output_list *l);
void mw_outputs_act_forward(struct mw_output_list *l);
void mw_outputs_act_backward(struct mw_output_list *l);
void mw_outputs_embedding_forward(struct mw_output_list *l);
void mw_outputs_embedding_backward(struct mw_output_list *l);
void mw_outputs_logits_backward(struct mw_output_list *l);
void mw_outputs_loss(struct mw_output_list *l);

#endif
