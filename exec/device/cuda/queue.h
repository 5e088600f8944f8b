/*
 * queue.h - a stream for each lane that queues ops on the GPU, a thread that waits until they are
 * done, and the times at which they ran.
 *
 * An op is all that a thread queues between begin and end.  Its ticket names it to the ops that
 * must follow it.  Tickets are numbers that the caller gives; one may name another op once this one
 * is done and all ops that follow it have begun.
 *
 * Outside of begin and end a thread works on a stream of its own and waits for what it queued there
 * (mw_cuda_wait): so the same functions serve both.
 */
#ifndef MW_EXEC_DEVICE_CUDA_QUEUE_H
#define MW_EXEC_DEVICE_CUDA_QUEUE_H

#include "exec/device/backend.h"
#include "exec/device/cuda/gpu.h"

struct mw_cuda_queues;

/* The GPU is borrowed.  NULL with *error. */
struct mw_cuda_queues *mw_cuda_queues_create(const struct mw_cuda_gpu *gpu, GError **error);
/* When nothing is queued.  NULL is allowed. */
void mw_cuda_queues_destroy(struct mw_cuda_queues *queues);

/* To be called before the queue's first op: its ops then run before those of other queues that
 * could run at the same time. */
void mw_cuda_queues_hurry(struct mw_cuda_queues *queues, int queue);

/* As exec/device/backend.h says.  The thread's current device must be the GPU. */
bool mw_cuda_queues_begin(struct mw_cuda_queues *queues, int queue, uint32_t ticket,
                          const uint32_t *after, int after_count, GError **error);
bool mw_cuda_queues_end(struct mw_cuda_queues *queues, mw_backend_done done, void *data,
                        GError **error);

/* Ends all queues, and says why: ops whose end has not been seen by now have failed with this line,
 * whatever they still do.  Only the first call counts.  Any thread. */
void mw_cuda_queues_fail(struct mw_cuda_queues *queues, const char *why);

/* --- what an op waits for other ranks in --- */
/* Names a call of the op that this thread queues; a literal. */
void mw_cuda_queues_name(const char *call);
/* The call that one of the named ops, next in their queues, is in; NULL: there is none.  Any
 * thread. */
const char *mw_cuda_queues_awaited(struct mw_cuda_queues *queues);

/* The cudaStream_t that this thread's work goes to. */
void *mw_cuda_stream(void);
/* Outside of begin and end: waits until this thread's work is done. */
bool mw_cuda_wait(const struct mw_cuda_gpu *gpu, GError **error);

#endif
