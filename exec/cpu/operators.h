/*
 * operators.h - the decoder's operators on CPU cores, forward and backward (exec/compute.h).
 *
 * A struct mw_cpu_operators belongs to the thread that computes (a lane), whose OpenMP team does
 * the work.  It owns what operators need beside the device's arena: the primitives of matrix
 * products with their scratch, scratch of the attention, 8 bytes a token, and the table of rotary
 * positions.  After mw_cpu_operators_prepare nothing is allocated.
 *
 * Results are a function of the operands, of the parts that the parameters come in, and of the
 * instruction set; of the number of threads only where the library's products are
 * (exec/cpu/matmul.h).  What stands behind a part's end is neither read nor written.
 *
 * What a backward leaves in its layer's room is not what forward put there: NORM1 and NORM2 write
 * n1 and n2 again (the same bits, to have the statistics of the norm, which have no room of their
 * own), MLP_ACT with a gate turns `up` into its gradient.
 */
#ifndef MW_EXEC_CPU_OPERATORS_H
#define MW_EXEC_CPU_OPERATORS_H

#include <glib.h>

#include "exec/compute.h"

struct mw_cpu_operators;

/* For micro-batches of at most sequences * seq tokens, teams of at most `threads`.  NULL with
 * `error` set: no memory, or a decoder that these kernels cannot run. */
struct mw_cpu_operators *mw_cpu_operators_create(const struct mw_decoder *decoder,
                                                 int64_t sequences, int64_t seq, int threads,
                                                 GError **error);
void mw_cpu_operators_destroy(struct mw_cpu_operators *operators); /* NULL is allowed */

/* Makes what running `compute` will need; reads none of its operands, but where they are.  To be
 * called with the team that will run it. */
bool mw_cpu_operators_prepare(struct mw_cpu_operators *operators, const struct mw_compute *compute,
                              GError **error);
/* Token ids must be within the vocabulary.  Backward of LOSS is part of its forward. */
bool mw_cpu_operators_run(struct mw_cpu_operators *operators, const struct mw_compute *compute,
                          GError **error);

/* Of all that it holds beside primitives, as prepared so far. */
int64_t mw_cpu_operators_scratch_bytes(const struct mw_cpu_operators *operators);

#endif
