/*
 * kernels.h - what the operators of a GPT-2 or Llama decoder compute on a CUDA device: launches.
 *
 * Each function queues its kernels on `stream` (a cudaStream_t) and returns without waiting for
 * them: 0, or the cudaError_t of a launch that failed.  All pointers are addresses of device
 * memory, or of host memory that the device reaches.  What each computes, of what shapes, and who
 * owns the memory: exec/operators/kernel_list.h.  Scratch is used until the kernels are done.
 *
 * Types.  There is a table for each type of 16-bit elements, bf16 and fp16, which differ in nothing
 * else: sums and what is between two roundings are fp32 or fp64 in both.  What rounds beyond fp16's
 * range becomes infinite, for the norm of gradients to find; its subnormals are kept.
 * Alignment.  Buffers whose address and row length are multiples of 16 bytes are read and written
 * in accesses of 16 bytes; others are allowed, and slower.  Embeddings take fewer than 2^31 rows.
 * Bits.  Sums are cut by shape alone and combined in a fixed order, without atomics: the same
 * operands give the same bits.  Conversions, accumulate, add, sums over rows, embeddings,
 * positions, rope, updates and square_sums give those of the cpu backend, of a NaN only that it is
 * one.  Norms, activations and the loss are within fp32's rounding of them before they are rounded
 * to 16 bits; the loss is summed over rows as a tree.
 * Attention never holds the matrix of scores (FlashAttention, arXiv 2205.14135 and 2307.08691).
 * Weights and gradients of scores are rounded to 16 bits as operands of the tensor cores; all sums
 * are fp32.  Rows whose scores hold a NaN or +infinity give NaN.  It is quick where q, k, v, o and
 * their gradients lie on 16-byte boundaries, and leading dimensions and head_dim are multiples of
 * 8; it is correct for any leading dimension and any head_dim up to MW_CUDA_HEAD_DIM_MAX.  scale is
 * above 0.  It returns cudaErrorInvalidValue for a shape that is none.  Its forward pass needs no
 * scratch.
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
#define MW_ELEMENT uint16_t
#define MW_KERNEL(name, parameters, arguments) int (*name)(void *stream, MW_BARE parameters);
#define MW_KERNEL_PASS MW_KERNEL
#define MW_KERNEL_SCRATCH(name, parameters, arguments) int64_t(*name) parameters;
#include "exec/operators/kernel_list.h"
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
