/*
 * operators.h - the decoder's operators, forward and backward (exec/operators/compute.h), as
 * sequences of a device's kernels (exec/operators/kernels.h).
 *
 * A struct mw_operators belongs to the thread that computes (a lane).  It owns what operators need
 * outside of the arena, all in device memory: scratch of the kernels, 8 bytes per token, and the
 * table of rotary positions.  Nothing is allocated after mw_operators_prepare.
 *
 * Results are a function of the operands, of how the parameters are cut into parts, and of the
 * device's kernels.  Memory past the end of a part is neither read nor written.
 *
 * A backward operator may change its layer's room: NORM1 and NORM2 write n1 and n2 again (the same
 * bits; they recompute the norm's statistics, which have no room of their own), and MLP_ACT with a
 * gate replaces `up` by its gradient.
 */
#ifndef MW_EXEC_OPERATORS_OPERATORS_H
#define MW_EXEC_OPERATORS_OPERATORS_H

#include <glib.h>

#include "exec/operators/compute.h"
#include "exec/operators/kernels.h"

struct mw_operators;

/* For micro-batches of at most sequences * seq tokens; kernels and device are borrowed.  NULL with
 * `error` set: no memory, or a decoder that these kernels cannot run. */
struct mw_operators *mw_operators_create(const struct mw_kernels *kernels, void *device,
                                         const struct mw_decoder *decoder, int64_t sequences,
                                         int64_t seq, GError **error);
void mw_operators_destroy(struct mw_operators *operators); /* NULL is allowed */

/* What it owns outside of the arena and writes when it runs. */
int64_t mw_operators_scratch_bytes(const struct mw_operators *operators);

/* Makes what running `compute` will need.  Reads the addresses of its operands, not their
 * contents. */
bool mw_operators_prepare(struct mw_operators *operators, const struct mw_compute *compute,
                          GError **error);
/* ids, targets and loss are where the kernels reach them.  Token ids must be within the vocabulary.
 * Backward of LOSS is part of its forward, but of slices.  Those sum up results of others, and in
 * between, where they say what they have seen of each token, all make theirs known to all. */
bool mw_operators_run(struct mw_operators *operators, const struct mw_compute *compute,
                      GError **error);

#endif
