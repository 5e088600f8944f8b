/*
 * operators.h - the decoder's operators, forward and backward (exec/operators/compute.h), as
 * sequences of a device's kernels (exec/operators/kernels.h).
 *
 * A struct mw_operators belongs to the thread that computes (a lane).  It owns what operators need
 * beside the arena, all of it in memory of the device: the kernels' scratch, 8 bytes a token, and
 * the table of rotary positions.  After mw_operators_prepare nothing is allocated.
 *
 * Results are a function of the operands, of the parts that the parameters come in, and of the
 * device's kernels.  What stands behind a part's end is neither read nor written.
 *
 * What a backward leaves in its layer's room is not what forward put there: NORM1 and NORM2 write
 * n1 and n2 again (the same bits, to have the statistics of the norm, which have no room of their
 * own), MLP_ACT with a gate turns `up` into its gradient.
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

/* Makes what running `compute` will need; reads none of its operands, but where they are. */
bool mw_operators_prepare(struct mw_operators *operators, const struct mw_compute *compute,
                          GError **error);
/* ids, targets and loss are where the kernels reach them.  Token ids must be within the vocabulary.
 * Backward of LOSS is part of its forward. */
bool mw_operators_run(struct mw_operators *operators, const struct mw_compute *compute,
                      GError **error);

#endif
