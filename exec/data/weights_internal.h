/*
 * weights_internal.h - ranges of a part, cut at its tensors; for exec/data/weights*.c alone.
 */
#ifndef MW_EXEC_DATA_WEIGHTS_INTERNAL_H
#define MW_EXEC_DATA_WEIGHTS_INTERNAL_H

#include "exec/data/weights.h"

/* False ends the walk. */
typedef bool (*mw_weights_visit)(const struct mw_weights_piece *piece, void *data);

/* Visits what elements [first, first + count) of a part have of its pieces, `at` counted from
 * `first`; false where a visit was. */
bool mw_weights_walk(const struct mw_decoder *decoder, const struct mw_weights_part *part,
                     int64_t first, int64_t count, mw_weights_visit visit, void *data);
/* How many of them lie behind the part's end. */
int64_t mw_weights_padding(const struct mw_decoder *decoder, const struct mw_weights_part *part,
                           int64_t first, int64_t count);
/* Number of an operator's first element in the whole model. */
int64_t mw_weights_operator_begin(const struct mw_decoder *decoder, enum mw_operator operator_,
                                  int64_t layer);

#endif
