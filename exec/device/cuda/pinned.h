/*
 * pinned.h - host memory that a GPU reaches.
 *
 * It is registered with CUDA as a whole.  Where CUDA refuses that, because the memory lies on
 * several kinds of pages (huge pages that the system sets aside, and ordinary ones after them), it
 * is registered in ranges of one kind each.  CUDA makes no copy across the end of a range:
 * mw_cuda_pinned_span says how far one copy goes.  No copy may run while memory is pinned or
 * unpinned.
 */
#ifndef MW_EXEC_DEVICE_CUDA_PINNED_H
#define MW_EXEC_DEVICE_CUDA_PINNED_H

#include "exec/device/cuda/gpu.h"

struct mw_cuda_pinned;

/* Borrows the GPU. */
struct mw_cuda_pinned *mw_cuda_pinned_create(const struct mw_cuda_gpu *gpu);
void mw_cuda_pinned_destroy(struct mw_cuda_pinned *pinned); /* NULL is allowed */

bool mw_cuda_pin(struct mw_cuda_pinned *pinned, void *memory, int64_t bytes, GError **error);
void mw_cuda_unpin(struct mw_cuda_pinned *pinned, void *memory);

/* How many of the bytes from `at` on, in memory of any kind, one copy may take. */
int64_t mw_cuda_pinned_span(const struct mw_cuda_pinned *pinned, const void *at, int64_t bytes);

/* The kernel's list of this process's mappings, /proc/self/smaps; tests have others. */
extern const char *mw_cuda_mappings;

#endif
