/*
 * kernels.h - what the operators of a GPT-2 or Llama decoder compute on a CUDA device: launches.
 *
 * Each function queues its kernels on `stream` (a cudaStream_t) and returns without waiting for
 * them: 0, or the cudaError_t of a launch that failed.  All pointers are addresses of device
 * memory, or of host memory that the device reaches; data are as exec/operators/kernel_types.h
 * says.  What is computed is said with the functions of the same names in
 * exec/device/cpu/kernels.h; in what order, here, where it is another.
 * Types.  There is a table for each type of 16-bit elements, bf16 and fp16, which differ in nothing
 * else: sums and what is between two roundings are fp32 or fp64 in both.  What rounds beyond fp16's
 * range becomes infinite, for the norm of gradients to find; its subnormals are kept.
 * Ownership.  The caller owns every buffer; no function allocates.  Outputs need no initial value
 * unless they accumulate.  Inputs and outputs overlap only where it says so, and then exactly.
 * `scratch` lies at a multiple of 16 bytes, is as large as the *_scratch_bytes function says, and
 * is used until the kernels are done.
 * Alignment.  Buffers whose address and row length are multiples of 16 bytes are read and written
 * in accesses of 16 bytes; others are allowed, and slower.
 * Bits.  Sums are cut by shape alone and combined in a fixed order, without atomics: the same
 * operands give the same bits.  Those of the cpu backend have conversions, accumulate, add, sums
 * over rows, embeddings, positions, rope, adamw and square_sums; of a NaN only that it is one.
 * Norms, activations and the loss are within fp32's rounding of them before they are rounded to 16
 * bits.
 */
#ifndef MW_EXEC_DEVICE_CUDA_KERNELS_H
#define MW_EXEC_DEVICE_CUDA_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/operators/kernel_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MW_CUDA_HEAD_DIM_MAX 256

struct mw_cuda_launches {
    /* --- elementwise, n elements --- */
    int (*widen)(void *stream, float *out, const uint16_t *x, int64_t n);
    int (*narrow)(void *stream, uint16_t *out, const float *x, int64_t n);
    int (*accumulate)(void *stream, float *sum, const uint16_t *x, int64_t n);
    int (*add)(void *stream, uint16_t *out, const uint16_t *a, const uint16_t *b, int64_t n);

    /* --- activations, n elements --- */
    int (*gelu_forward)(void *stream, uint16_t *y, const uint16_t *x, int64_t n);
    int (*gelu_backward)(void *stream, uint16_t *dx, const uint16_t *dy, const uint16_t *x,
                         int64_t n);
    int (*gelu_erf_forward)(void *stream, uint16_t *y, const uint16_t *x, int64_t n);
    int (*gelu_erf_backward)(void *stream, uint16_t *dx, const uint16_t *dy, const uint16_t *x,
                             int64_t n);
    int (*relu_forward)(void *stream, uint16_t *y, const uint16_t *x, int64_t n);
    int (*relu_backward)(void *stream, uint16_t *dx, const uint16_t *dy, const uint16_t *x,
                         int64_t n);
    int (*swiglu_forward)(void *stream, uint16_t *y, const uint16_t *gate, const uint16_t *up,
                          int64_t n);
    int (*swiglu_backward)(void *stream, uint16_t *dgate, uint16_t *dup, const uint16_t *dy,
                           const uint16_t *gate, const uint16_t *up, int64_t n);

    /* --- norms --- */
    int (*layernorm_forward)(void *stream, uint16_t *y, float *mean, float *rstd, const uint16_t *x,
                             const uint16_t *weight, const uint16_t *bias, int64_t rows,
                             int64_t columns, float eps);
    int (*layernorm_backward)(void *stream, uint16_t *dx, const uint16_t *dx_add,
                              const uint16_t *dy, const uint16_t *x, const uint16_t *weight,
                              const float *mean, const float *rstd, int64_t rows, int64_t columns);
    int (*rmsnorm_forward)(void *stream, uint16_t *y, float *rstd, const uint16_t *x,
                           const uint16_t *weight, int64_t rows, int64_t columns, float eps);
    int (*rmsnorm_backward)(void *stream, uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy,
                            const uint16_t *x, const uint16_t *weight, const float *rstd,
                            int64_t rows, int64_t columns);

    /* --- sums over rows --- */
    int64_t (*row_sums_scratch_bytes)(int64_t rows, int64_t columns);
    int (*norm_weight_gradient)(void *stream, struct mw_gradient dweight, const uint16_t *dy,
                                const uint16_t *x, const float *mean, const float *rstd,
                                int64_t rows, int64_t columns, void *scratch);
    int (*bias_gradient)(void *stream, struct mw_gradient dbias, const uint16_t *dy, int64_t ld_dy,
                         int64_t rows, int64_t columns, void *scratch);

    /* --- embeddings; rows below 2^31 --- */
    int (*embedding_forward)(void *stream, uint16_t *y, const uint16_t *weight,
                             const int32_t *tokens, int64_t rows, int64_t columns, int32_t first,
                             int32_t count);
    int64_t (*embedding_scratch_bytes)(int64_t rows);
    int (*embedding_backward)(void *stream, struct mw_gradient dweight, const uint16_t *dy,
                              const int32_t *tokens, int64_t rows, int64_t columns, int32_t first,
                              int32_t count, void *scratch);
    int (*position_forward)(void *stream, uint16_t *y, const uint16_t *weight, int64_t batch,
                            int64_t seq, int64_t columns);
    int (*position_backward)(void *stream, struct mw_gradient dweight, const uint16_t *dy,
                             int64_t batch, int64_t seq, int64_t columns, int64_t positions);
    int (*rope)(void *stream, uint16_t *x, const float *table, int64_t batch, int64_t seq,
                int64_t heads, int64_t head_dim, int64_t ld, bool inverse);

    /* --- causal self-attention --- */
    /* Without ever holding the matrix of scores (FlashAttention, arXiv 2205.14135 and 2307.08691).
     * Weights and gradients of scores are rounded to 16 bits as operands of the tensor cores, all
     * sums are fp32.  Rows whose scores hold a NaN or +infinity give NaN.
     * Quick where q, k, v, o and their gradients lie on 16-byte boundaries, leading dimensions and
     * head_dim are multiples of 8; correct for any leading dimension and any head_dim up to
     * MW_CUDA_HEAD_DIM_MAX.  scale is above 0.  cudaErrorInvalidValue where the shape is none. */
    /* The backward pass's; the forward pass needs none. */
    int64_t (*attention_scratch_bytes)(const struct mw_attention *shape);
    /* lse [batch, heads, seq]: the log-sum-exp of each row of scaled scores. */
    int (*attention_forward)(void *stream, const struct mw_attention *shape, uint16_t *o,
                             float *lse, const uint16_t *q, const uint16_t *k, const uint16_t *v,
                             void *scratch);
    /* dq, dk, dv are laid out as q, k, v and must not overlap the inputs. */
    int (*attention_backward)(void *stream, const struct mw_attention *shape, uint16_t *dq,
                              uint16_t *dk, uint16_t *dv, const uint16_t *d_o, const uint16_t *o,
                              const float *lse, const uint16_t *q, const uint16_t *k,
                              const uint16_t *v, void *scratch);

    /* --- loss --- */
    /* *loss += the sum of row_loss, as a tree over the rows. */
    int (*cross_entropy)(void *stream, double *loss, double *row_loss, uint16_t *dlogits,
                         int64_t ld_dlogits, const void *logits, bool logits_fp32,
                         int64_t ld_logits, const int32_t *targets, int64_t rows, int64_t vocab,
                         float scale);

    /* --- optimizer --- */
    int (*adamw)(void *stream, const struct mw_adamw *step, float *w, float *m, float *v,
                 uint16_t *param, const void *grad, bool grad_fp32, int64_t n);
    int (*square_sums)(void *stream, double *partial, const void *grad, bool grad_fp32, int64_t n);
};

extern const struct mw_cuda_launches mw_cuda_launches_bf16, mw_cuda_launches_fp16;

/* --- of elements of any type --- */
/* Every one of `bytes` bytes becomes `value`. */
int mw_cuda_fill(void *stream, void *to, uint8_t value, int64_t bytes);
/* Of `rows` rows, ld elements of 16 bits apart in both, the first `columns` elements. */
int mw_cuda_copy_rows(void *stream, uint16_t *to, const uint16_t *from, int64_t rows,
                      int64_t columns, int64_t ld);

#ifdef __cplusplus
}
#endif

#endif
