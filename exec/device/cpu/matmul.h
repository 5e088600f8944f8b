/*
 * matmul.h - matrix products by oneDNN, one primitive for each shape, kept.
 *
 * A cache belongs to one thread at a time: the thread whose OpenMP team computes (a lane).  It owns
 * its primitives and one scratch buffer, as large as its hungriest product needs.  Prepared
 * products allocate nothing when they run.  Results are the same for the same number of threads.
 * Where the library cannot multiply the type on this machine, or would emulate it, the kernels' own
 * gemm does.
 *
 * Where operands have gaps between their rows, the library keeps fp32 sums of the whole result,
 * once per thread (oneDNN 2.6, "gemm:jit"): 390 MiB for the logits of 1024 tokens.  A product that
 * asks for more scratch than MW_CPU_MATMUL_SCRATCH_MAX is computed block by block of its result, at
 * the same speed.
 */
#ifndef MW_EXEC_DEVICE_CPU_MATMUL_H
#define MW_EXEC_DEVICE_CPU_MATMUL_H

#include "exec/device/cpu/kernels.h"

#define MW_CPU_MATMUL_SCRATCH_MAX ((int64_t)32 << 20) /* bytes */

struct mw_cpu_matmul;

/* dtype: one that computes (plan/dtype.h).  NULL: no memory, or no engine.  Destroying NULL does
 * nothing. */
struct mw_cpu_matmul *mw_cpu_matmul_create(enum mw_dtype dtype);
void mw_cpu_matmul_destroy(struct mw_cpu_matmul *matmul);

/* Makes the product's primitive and room for its scratch, so that no later call allocates. */
bool mw_cpu_matmul_prepare(struct mw_cpu_matmul *matmul, const struct mw_product *product);

/* bias is read only where product->bias.  m, n and k are at least 1.  On failure false: see
 * mw_cpu_matmul_error. */
bool mw_cpu_matmul_run(struct mw_cpu_matmul *matmul, const struct mw_product *product, void *c,
                       const void *a, const void *b, const void *bias);

/* mw_cpu_matmul_scratch_bytes: bytes of scratch that the cache holds.  mw_cpu_matmul_error: what
 * went wrong last, in one line that the cache owns. */
int64_t mw_cpu_matmul_scratch_bytes(const struct mw_cpu_matmul *matmul);
const char *mw_cpu_matmul_error(const struct mw_cpu_matmul *matmul);

/* Whether the library multiplies, instead of the kernels' own gemm. */
bool mw_cpu_matmul_by_library(const struct mw_cpu_matmul *matmul);

#endif
