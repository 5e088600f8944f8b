/*
 * reference_decoder_internal.h - the reference's operators; private to reference_decoder.c and
 * reference_operators.c.
 */
#ifndef MW_TESTS_REFERENCE_DECODER_INTERNAL_H
#define MW_TESTS_REFERENCE_DECODER_INTERNAL_H

#include "tests/reference_decoder.h"
#include "tests/whole_model.h"

/* Of one layer; q, k, v apart. */
struct mw_reference_layer {
    double *x, *n1, *qkv, *q, *k, *v, *o, *lse, *x2, *n2, *up, *act;
};

struct mw_reference_pass {
    const struct mw_decoder *d;
    const struct mw_reference *in;
    int64_t tokens, q, kv;
    struct mw_reference_layer *layers;
    double *hidden, *final, *logits;
    double *router_loss; /* what losses of routers add to the loss */
    double *gradients;   /* of the whole model; NULL: forward alone */
};

/* An operator's matrices as one, [rows, in], its biases behind them. */
struct mw_reference_product {
    enum mw_operator operator_;
    int64_t layer, in, rows;
    bool bias;
};

double *mw_reference_zeros(int64_t n);
const double *mw_reference_params(const struct mw_reference_pass *r, enum mw_operator operator_,
                                  int64_t layer);
double *mw_reference_gradients(const struct mw_reference_pass *r, enum mw_operator operator_,
                               int64_t layer);
void mw_reference_multiply(const struct mw_reference_pass *r, const struct mw_reference_product *p,
                           double *y, const double *x);
/* Returns dx, to be freed; adds to the gradients of weight and bias. */
double *mw_reference_multiply_back(const struct mw_reference_pass *r,
                                   const struct mw_reference_product *p, const double *dy,
                                   const double *x);
struct mw_reference_product mw_reference_product_of(const struct mw_reference_pass *r,
                                                    enum mw_operator operator_, int64_t layer);
void mw_reference_add(double *sum, const double *x, int64_t n);
void mw_reference_norm(const struct mw_reference_pass *r, enum mw_operator operator_, int64_t layer,
                       double *y, const double *x);
/* Returns dx, to be freed. */
double *mw_reference_norm_back(const struct mw_reference_pass *r, enum mw_operator operator_,
                               int64_t layer, const double *dy, const double *x);
void mw_reference_attend(const struct mw_reference_pass *r, struct mw_reference_layer *l);
/* Returns the gradient of qkv, to be freed. */
double *mw_reference_attend_back(const struct mw_reference_pass *r,
                                 const struct mw_reference_layer *l, const double *d_o);
void mw_reference_activate(const struct mw_reference_pass *r, struct mw_reference_layer *l);
/* Returns the gradient of up, to be freed. */
double *mw_reference_activate_back(const struct mw_reference_pass *r,
                                   const struct mw_reference_layer *l, const double *dact);
/* A mixture's MLP instead of products and activation, without the residual, with the losses of its
 * router; back: returns the gradient of n2, to be freed. */
void mw_reference_experts(const struct mw_reference_pass *r, int64_t layer, double *output,
                          const double *n2);
double *mw_reference_experts_back(const struct mw_reference_pass *r, int64_t layer,
                                  const double *doutput, const double *n2);

#endif
