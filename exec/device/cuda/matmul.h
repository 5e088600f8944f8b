/*
 * matmul.h - matrix products by cublasLt: 16-bit operands, sums in fp32, one choice of algorithm
 * for each shape, kept.
 *
 * A cache belongs to one thread at a time: the thread whose stream computes.  It owns its
 * descriptions of products and a workspace in device memory, which one product at a time uses.
 * Prepared products allocate nothing when they run.  An algorithm is chosen by the shape and by
 * whether operands lie at multiples of 16 bytes, and by nothing else: the same product has the same
 * bits wherever its operands are.  A product of a long size that is no multiple of 8 is computed in
 * two: where k is cut, C is rounded between them.
 */
#ifndef MW_EXEC_DEVICE_CUDA_MATMUL_H
#define MW_EXEC_DEVICE_CUDA_MATMUL_H

#include <glib.h>
#include <stdbool.h>

#include "exec/device/cuda/gpu.h"
#include "exec/operators/kernel_types.h"
#include "plan/dtype.h"

struct mw_cuda_matmul;

/* Whether the library is here; false with *error. */
bool mw_cuda_matmul_possible(GError **error);

/* dtype: of 16-bit elements, MW_DTYPE_BF16 or MW_DTYPE_FP16.  The thread's current device is the
 * GPU, which is borrowed.  NULL with *error. */
struct mw_cuda_matmul *mw_cuda_matmul_create(const struct mw_cuda_gpu *gpu, enum mw_dtype dtype,
                                             GError **error);
void mw_cuda_matmul_destroy(struct mw_cuda_matmul *matmul); /* NULL is allowed */

/* Chooses the algorithm for operands at multiples of 16 bytes. */
bool mw_cuda_matmul_prepare(struct mw_cuda_matmul *matmul, const struct mw_product *product,
                            GError **error);

/* Queues the product on `stream`, a cudaStream_t.  bias is read only where product->bias; m, n and
 * k are at least 1. */
bool mw_cuda_matmul_run(struct mw_cuda_matmul *matmul, void *stream,
                        const struct mw_product *product, void *c, const uint16_t *a,
                        const uint16_t *b, const uint16_t *bias, GError **error);

#endif
