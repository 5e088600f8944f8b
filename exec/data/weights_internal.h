/*
 * weights_internal.h - numbers of elements; for exec/data/weights*.c alone.
 */
#ifndef MW_EXEC_DATA_WEIGHTS_INTERNAL_H
#define MW_EXEC_DATA_WEIGHTS_INTERNAL_H

#include "exec/data/weights.h"

/* As mw_weights_list, with the rows of each role by themselves, also where files have them in one
 * tensor. */
int mw_weights_list_apart(const struct mw_decoder *decoder, enum mw_operator operator_,
                          int64_t layer, struct mw_weight out[MW_WEIGHTS_MAX]);
/* How many of these elements lie after the end of the part. */
int64_t mw_weights_padding(const struct mw_decoder *decoder, const struct mw_weights_part *part,
                           int64_t first, int64_t count);
/* The number of an operator's first element in the whole model. */
int64_t mw_weights_operator_begin(const struct mw_decoder *decoder, enum mw_operator operator_,
                                  int64_t layer);

#endif
