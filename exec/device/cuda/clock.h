/*
 * clock.h - when events of a GPU happened, in nanoseconds of the monotonic clock.
 *
 * A GPU gives the time between two events, in single precision.  So a mark is an event whose time
 * is known: it is recorded on a stream with nothing else in it, between two reads of the host's
 * clock. Marks are renewed often enough that the clocks' drift and single precision add little to
 * that error.
 */
#ifndef MW_EXEC_DEVICE_CUDA_CLOCK_H
#define MW_EXEC_DEVICE_CUDA_CLOCK_H

#include "exec/device/cuda/gpu.h"

struct mw_cuda_clock;
struct mw_cuda_mark;

/* The GPU is borrowed. */
struct mw_cuda_clock *mw_cuda_clock_create(const struct mw_cuda_gpu *gpu, GError **error);
void mw_cuda_clock_destroy(struct mw_cuda_clock *clock); /* NULL is allowed */

/* A mark before all that is queued from now on; to be dropped.  NULL with *error. */
struct mw_cuda_mark *mw_cuda_clock_mark(struct mw_cuda_clock *clock, GError **error);
void mw_cuda_clock_drop(struct mw_cuda_clock *clock, struct mw_cuda_mark *mark);

/* The time of a completed cudaEvent_t that was queued after the mark was taken. */
bool mw_cuda_clock_time(const struct mw_cuda_clock *clock, const struct mw_cuda_mark *mark,
                        void *event, int64_t *at_ns, GError **error);

#endif
