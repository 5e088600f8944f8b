/*
 * collectives.h - collectives of memory on GPUs, one GPU per rank, by NCCL.  They are queued on the
 * stream of the op that calls them: no host thread waits until they are done.
 *
 * Sums are NCCL's: 16-bit numbers are rounded at every addition, in an order that depends on the
 * ranks, the machines and the number of bytes, and on nothing else.
 *
 * Failures.  A thread watches the communicators, ten times per second.  After an error of NCCL, the
 * end of a rank, or mw_ranks_cancel, it fails all ops that have not ended (mw_cuda_queues_fail) and
 * aborts the communicators, so that work on the GPU comes to an end.
 */
#ifndef MW_EXEC_DEVICE_CUDA_COLLECTIVES_H
#define MW_EXEC_DEVICE_CUDA_COLLECTIVES_H

#include "exec/device/cuda/gpu.h"
#include "exec/device/cuda/queue.h"
#include "exec/ranks/collectives.h"

struct mw_cuda_peers;

/* Whether this build and this machine have an NCCL that is new enough; false with *error. */
bool mw_cuda_peers_possible(GError **error);

/* Called by all ranks at once, as struct mw_backend says.  Borrows all of them; the thread's
 * current device is the GPU.  NULL with *error: NCCL is not available, it fails, or two ranks have
 * the same GPU. */
struct mw_cuda_peers *mw_cuda_peers_create(const struct mw_cuda_gpu *gpu,
                                           struct mw_cuda_queues *queues, struct mw_ranks *ranks,
                                           uint32_t streams, GError **error);
/* Called by all ranks at once, when nothing is queued.  NULL is allowed. */
void mw_cuda_peers_destroy(struct mw_cuda_peers *peers);

/* `self` is a struct mw_cuda_peers. */
extern const struct mw_collectives mw_cuda_collectives;

#endif
