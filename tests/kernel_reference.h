/*
 * kernel_reference.h - every kernel of exec/device/cpu as plain loops over doubles: dense row-major
 * tensors, outputs overwritten.  What the kernels must agree with; see exec/operators/kernel_list.h
 * for shapes.  The backward passes are themselves checked by finite differences.
 */
#ifndef MW_TESTS_KERNEL_REFERENCE_H
#define MW_TESTS_KERNEL_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

enum mw_ref_activation {
    MW_REF_GELU,
    MW_REF_GELU_ERF,
    MW_REF_RELU,
};

double mw_ref_activate(enum mw_ref_activation kind, double x);
double mw_ref_activation_slope(enum mw_ref_activation kind, double x);
double mw_ref_swiglu(double gate, double up);
void mw_ref_swiglu_slopes(double *dgate, double *dup, double dy, double gate, double up);

/* bias NULL: RMSNorm, which takes no mean off. */
void mw_ref_norm(double *y, const double *x, const double *weight, const double *bias, int64_t rows,
                 int64_t columns, double eps);
/* dbias NULL: RMSNorm. */
void mw_ref_norm_backward(double *dx, double *dweight, double *dbias, const double *dy,
                          const double *x, const double *weight, int64_t rows, int64_t columns,
                          double eps);

/* In place; angle of position p and pair i: p * theta^(-2i / head_dim). */
void mw_ref_rope(double *x, int64_t batch, int64_t seq, int64_t heads, int64_t head_dim,
                 double theta, bool inverse);

struct mw_ref_attention {
    int64_t batch, seq, heads, kv_heads, head_dim;
    double scale;
};

void mw_ref_attention(const struct mw_ref_attention *s, double *o, double *lse, const double *q,
                      const double *k, const double *v);
/* o NULL: exact.  Otherwise the sum of probability times its gradient over a row is taken as that
 * of d_o times the o given, as kernels do, who have o rounded. */
void mw_ref_attention_backward(const struct mw_ref_attention *s, double *dq, double *dk, double *dv,
                               const double *d_o, const double *o, const double *q, const double *k,
                               const double *v);

/* The sums of the terms' magnitudes: times a term's relative error what a sum is off by at most. */
void mw_ref_attention_backward_magnitudes(const struct mw_ref_attention *s, double *dq, double *dk,
                                          double *dv, const double *d_o, const double *o,
                                          const double *q, const double *k, const double *v);

/* Returns the sum of losses; dlogits may be NULL. */
double mw_ref_cross_entropy(double *dlogits, const double *logits, const int32_t *targets,
                            int64_t rows, int64_t vocab, double scale);

#endif
