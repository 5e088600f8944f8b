/*
 * narrow.h - frozen weights in few bits: how a run makes them of those that it is given, so that
 * they are the same with every placement, tiling and number of ranks.
 *
 * A tensor of them has the matrices of one operator, whose blocks (exec/data/blocks.h) are counted
 * from the begin of a part on.  Where each matrix of each part begins at a whole block, and in a
 * whole block of the matrix too, the blocks are those of the matrix, however it is cut.  Biases lie
 * behind the matrices of their rows, so their blocks differ from cut to cut: all of an operator
 * share one scale, that of the largest.
 */
#ifndef MW_EXEC_TRAINER_NARROW_H
#define MW_EXEC_TRAINER_NARROW_H

#include <glib.h>
#include <stdbool.h>

#include "exec/operators/compute.h"
#include "plan/plan.h"

/* Whether products cannot take the tensor's parameters as they are. */
bool mw_narrow_is(const struct mw_tensor *tensor);

/* Whether the tensor, if it is narrow, can be encoded; false with an error: as it is cut, or in
 * its type, it cannot. */
bool mw_narrow_check(const struct mw_decoder *decoder, const struct mw_tensor *tensor,
                     GError **error);

/* Reads elements of a part, as fp32. */
typedef bool (*mw_narrow_read)(void *data, const struct mw_tensor *tensor, int64_t tile,
                               int64_t first, int64_t count, float *out, GError **error);

/* What all blocks of a tensor's biases share; 0 where it has none. */
bool mw_narrow_largest_bias(const struct mw_decoder *decoder, const struct mw_tensor *tensor,
                            mw_narrow_read read, void *data, float *largest, GError **error);

/* Elements [first, first + count) of a part into blocks; `first` begins one. */
void mw_narrow_encode(const struct mw_tensor *tensor, const struct mw_part *part,
                      const float *values, int64_t first, int64_t count, float largest_bias,
                      void *out);

#endif
