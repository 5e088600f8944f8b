/*
 * attention.h - causal self-attention on a GPU, forward and backward, without ever holding the
 * matrix of scores (FlashAttention, arXiv 2205.14135 and 2307.08691).
 *
 * What is computed, and of which layouts, is said in exec/kernel_types.h and exec/cpu/kernels.h:
 * bf16 in and out, weights and gradients of scores rounded to bf16 as operands of the tensor cores,
 * all sums in fp32.  Sums are taken in an order that the shape alone decides, without atomics: the
 * same operands give the same bits.  Rows whose scores hold a NaN or +infinity give NaN.
 *
 * All pointers are the device's.  scratch: as many bytes as the function says, on a 16-byte
 * boundary.  The kernels are queued on `stream` (a cudaStream_t); nothing is waited for.
 * Quick where q, k, v, o and their gradients lie on 16-byte boundaries, leading dimensions and
 * head_dim are multiples of 8; correct for any leading dimension and any head_dim up to
 * MW_CUDA_HEAD_DIM_MAX.  scale is above 0.
 * They return a cudaError_t: of the launch, or cudaErrorInvalidValue where the shape is none.
 */
#ifndef MW_EXEC_CUDA_ATTENTION_H
#define MW_EXEC_CUDA_ATTENTION_H

#include "exec/kernel_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MW_CUDA_HEAD_DIM_MAX 256

/* The backward pass's; the forward pass needs none. */
int64_t mw_cuda_attention_scratch_bytes(const struct mw_attention *shape);

/* lse [batch, heads, seq]: the log-sum-exp of each row of scaled scores. */
int mw_cuda_attention_forward(void *stream, const struct mw_attention *shape, uint16_t *o,
                              float *lse, const uint16_t *q, const uint16_t *k, const uint16_t *v,
                              void *scratch);

/* dq, dk, dv are laid out as q, k, v and must not overlap the inputs. */
int mw_cuda_attention_backward(void *stream, const struct mw_attention *shape, uint16_t *dq,
                               uint16_t *dk, uint16_t *dv, const uint16_t *d_o, const uint16_t *o,
                               const float *lse, const uint16_t *q, const uint16_t *k,
                               const uint16_t *v, void *scratch);

#ifdef __cplusplus
}
#endif

#endif
