/*
 * kernels.h - what a device computes so that the operators of a GPT-2 or Llama decoder
 * (exec/operators/operators.h) run on it: a table of functions, filled by each backend.
 *
 * `device` is the backend's own, one for all calls; every other pointer is an address that its
 * kernels reach: device memory, or host memory where it says so.  Data are as
 * exec/operators/kernel_types.h says.  Kernels run one after another, in the order of the calls: a
 * function may return while its kernel waits or runs, and what goes wrong there is the backend's to
 * find out.
 *
 * Ownership.  The caller owns every buffer; no kernel allocates.  Outputs need no initial value
 * unless they accumulate.  Inputs and outputs overlap only where it says so, and then exactly.
 * `scratch` is memory of `allocate`, as large as the kernel's *_scratch_bytes says (NULL for 0),
 * whose content lasts for one call.
 *
 * Sums are cut by shape alone and combined in a fixed order, without atomics: the same operands
 * give the same bits.
 */
#ifndef MW_EXEC_OPERATORS_KERNELS_H
#define MW_EXEC_OPERATORS_KERNELS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan/decoder.h"
#include "exec/operators/kernel_types.h"

struct mw_kernels {
    const char *device_name; /* in messages */

    /* False with an error: a decoder that these kernels do not run. */
    bool (*suits)(void *device, const struct mw_decoder *decoder, GError **error);

    /* --- memory --- */
    /* Of the device, at a multiple of 64 bytes; NULL: there is not so much.  Between steps. */
    void *(*allocate)(void *device, int64_t bytes);
    void (*release)(void *device, void *memory); /* NULL is allowed */
    /* From host memory, which may change once it returns.  Between steps. */
    bool (*upload)(void *device, void *to, const void *from, int64_t bytes, GError **error);
    void (*clear)(void *device, void *to, int64_t bytes);
    /* Of `rows` rows, ld elements apart in both, the first `columns` elements. */
    void (*copy_rows)(void *device, uint16_t *to, const uint16_t *from, int64_t rows,
                      int64_t columns, int64_t ld);

    /* out = a + b, n elements; out may be a or b. */
    void (*add)(void *device, uint16_t *out, const uint16_t *a, const uint16_t *b, int64_t n);

    /* --- matrix products --- */
    /* Makes what the product needs, so that running it allocates nothing. */
    bool (*prepare)(void *device, const struct mw_product *product, GError **error);
    /* bias is read only where product->bias.  m, n and k are at least 1. */
    bool (*multiply)(void *device, const struct mw_product *product, void *c, const uint16_t *a,
                     const uint16_t *b, const uint16_t *bias, GError **error);

    /* --- activations, n elements; dx may be dy --- */
    /* x/2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): "gelu_new" */
    void (*gelu_forward)(void *device, uint16_t *y, const uint16_t *x, int64_t n);
    void (*gelu_backward)(void *device, uint16_t *dx, const uint16_t *dy, const uint16_t *x,
                          int64_t n);
    /* x/2 * (1 + erf(x / sqrt(2))): "gelu" */
    void (*gelu_erf_forward)(void *device, uint16_t *y, const uint16_t *x, int64_t n);
    void (*gelu_erf_backward)(void *device, uint16_t *dx, const uint16_t *dy, const uint16_t *x,
                              int64_t n);
    void (*relu_forward)(void *device, uint16_t *y, const uint16_t *x, int64_t n);
    void (*relu_backward)(void *device, uint16_t *dx, const uint16_t *dy, const uint16_t *x,
                          int64_t n);
    /* y = silu(gate) * up; dgate may be gate and dup may be up. */
    void (*swiglu_forward)(void *device, uint16_t *y, const uint16_t *gate, const uint16_t *up,
                           int64_t n);
    void (*swiglu_backward)(void *device, uint16_t *dgate, uint16_t *dup, const uint16_t *dy,
                            const uint16_t *gate, const uint16_t *up, int64_t n);

    /* --- norms over rows of `columns` --- */
    /* mean and rstd [rows] are written for the backward pass.
     * y = (x - mean) * rstd * weight + bias;  y = x * rstd * weight.  dx may be dy.
     * dx_add, if not NULL, [rows, columns], is added to dx (the residual path); may be dx. */
    void (*layernorm_forward)(void *device, uint16_t *y, float *mean, float *rstd,
                              const uint16_t *x, const uint16_t *weight, const uint16_t *bias,
                              int64_t rows, int64_t columns, float eps);
    void (*layernorm_backward)(void *device, uint16_t *dx, const uint16_t *dx_add,
                               const uint16_t *dy, const uint16_t *x, const uint16_t *weight,
                               const float *mean, const float *rstd, int64_t rows, int64_t columns);
    void (*rmsnorm_forward)(void *device, uint16_t *y, float *rstd, const uint16_t *x,
                            const uint16_t *weight, int64_t rows, int64_t columns, float eps);
    void (*rmsnorm_backward)(void *device, uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy,
                             const uint16_t *x, const uint16_t *weight, const float *rstd,
                             int64_t rows, int64_t columns);

    /* --- sums over rows: gradients of weights and biases --- */
    int64_t (*row_sums_scratch_bytes)(void *device, int64_t rows, int64_t columns);
    /* dweight (+)= sum of dy * (x - mean) * rstd; mean NULL: 0, for rmsnorm. */
    void (*norm_weight_gradient)(void *device, struct mw_gradient dweight, const uint16_t *dy,
                                 const uint16_t *x, const float *mean, const float *rstd,
                                 int64_t rows, int64_t columns, void *scratch);
    /* dbias (+)= sum of dy. */
    void (*bias_gradient)(void *device, struct mw_gradient dbias, const uint16_t *dy, int64_t ld_dy,
                          int64_t rows, int64_t columns, void *scratch);

    /* --- embeddings --- */
    /* y[t] = weight[tokens[t] - first] where that is in [0, count); other rows of y stay as they
     * are, so that a table cut in tiles fills y tile by tile. */
    void (*embedding_forward)(void *device, uint16_t *y, const uint16_t *weight,
                              const int32_t *tokens, int64_t rows, int64_t columns, int32_t first,
                              int32_t count);
    int64_t (*embedding_scratch_bytes)(void *device, int64_t rows, int64_t vocab);
    /* dweight[id - first] (+)= the sum of dy[t] over tokens[t] == id, in order of t; rows of no
     * token become 0 unless accumulated. */
    void (*embedding_backward)(void *device, struct mw_gradient dweight, const uint16_t *dy,
                               const int32_t *tokens, int64_t rows, int64_t columns, int32_t first,
                               int32_t count, void *scratch);
    /* y[b * seq + p] += weight[p] for `batch` sequences, and dweight[p] (+)= their sum over b.
     * dweight has `positions` >= seq rows; those from seq on become 0 unless accumulated. */
    void (*position_forward)(void *device, uint16_t *y, const uint16_t *weight, int64_t batch,
                             int64_t seq, int64_t columns);
    void (*position_backward)(void *device, struct mw_gradient dweight, const uint16_t *dy,
                              int64_t batch, int64_t seq, int64_t columns, int64_t positions);
    /* In place, Hugging Face's convention (element i pairs with i + head_dim / 2): x holds rows of
     * `heads` heads, ld apart; table is mw_rope_table's.  inverse: the backward pass. */
    void (*rope)(void *device, uint16_t *x, const float *table, int64_t batch, int64_t seq,
                 int64_t heads, int64_t head_dim, int64_t ld, bool inverse);

    /* --- attention --- */
    /* lse [batch, heads, seq] is the log-sum-exp of each row of scaled scores.
     * Backward: dq, dk, dv are laid out as q, k, v; they must not overlap the inputs. */
    int64_t (*attention_scratch_bytes)(void *device, const struct mw_attention *shape);
    void (*attention_forward)(void *device, const struct mw_attention *shape, uint16_t *o,
                              float *lse, const uint16_t *q, const uint16_t *k, const uint16_t *v,
                              void *scratch);
    void (*attention_backward)(void *device, const struct mw_attention *shape, uint16_t *dq,
                               uint16_t *dk, uint16_t *dv, const uint16_t *d_o, const uint16_t *o,
                               const float *lse, const uint16_t *q, const uint16_t *k,
                               const uint16_t *v, void *scratch);

    /* --- loss: mean or sum is up to the scale --- */
    /* Row r: row_loss[r] = log(sum(exp(logits[r]))) - logits[r][targets[r]]; then logits[r] becomes
     * scale * (softmax(logits[r]) - onehot(targets[r])), 0 from `vocab` to ld.  A row whose target
     * is -1 has loss 0 and gradient 0.  *loss += the sum of row_loss, in a fixed order: host memory
     * that the device reaches, read when the operator is done. */
    void (*cross_entropy)(void *device, double *loss, double *row_loss, uint16_t *logits,
                          int64_t ld, const int32_t *targets, int64_t rows, int64_t vocab,
                          float scale);
};

#endif
