/*
 * kept.h - arrays of the optimizer's state, as they lie and as fp32 (plan/optimizers.h).
 *
 * Moments in 8 bits are quantized in blocks: a scale, and for each moment the nearest of 256
 * values from -0.993 to 1, or from 0 to 1 for squares (dynamic tree quantization, arXiv 2110.02861
 * Sec. 2).  A square that is not 0 does not become 0, since an update divides by its root.  The
 * scale is the block's element of largest magnitude, with its sign, so that this element is kept
 * exactly, and values that were widened become the same bytes again.
 */
#ifndef MW_EXEC_TRAINER_KEPT_H
#define MW_EXEC_TRAINER_KEPT_H

#include "exec/operators/dynamic8.h"
#include "plan/optimizers.h"

/* The whole blocks of an array that hold elements, and how many elements of the first come before
 * them. */
struct mw_kept_span {
    int64_t at_bytes, bytes, skipped;
};
struct mw_kept_span mw_kept_span(enum mw_dtype dtype, int64_t first, int64_t count);

/* The codes of blocks with a scale; NULL: of another type. */
const struct mw_dynamic8 *mw_kept_codes(enum mw_dtype dtype);

/* Widens elements of blocks, past those that are skipped. */
void mw_kept_widen(enum mw_dtype dtype, const void *blocks, int64_t skipped, int64_t count,
                   float *out);
/* Narrows elements from the start of a block on.  The rest of the last block becomes 0. */
void mw_kept_narrow(enum mw_dtype dtype, const float *values, int64_t count, void *blocks);

/* Index of the first element that bytes [at, at + bytes) of an array make invalid: no finite
 * number, or a square below 0; -1 if all are valid.  Of a block with a scale it is the first.
 * *value is what it is. */
int64_t mw_kept_first_invalid(enum mw_dtype dtype, bool squares, const void *bytes, int64_t at,
                              int64_t count_bytes, float *value);

#endif
