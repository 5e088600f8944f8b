/* ranks_table.h - collectives of device memory against those of the host's. */
#ifndef MW_TESTS_CUDA_RANKS_TABLE_H
#define MW_TESTS_CUDA_RANKS_TABLE_H

#include "exec/ranks/ranks.h"

/* By all ranks, which have two lanes: random collectives of either table have the same bits.  False
 * with *error. */
bool ranks_table(struct mw_ranks *ranks, GError **error);

#endif
