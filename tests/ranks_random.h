/* ranks_random.h - random collectives, each against what one thread makes of all ranks' data. */
#ifndef RANKS_RANDOM_H
#define RANKS_RANDOM_H

#include "exec/ranks/ranks.h"

/* `rounds` of them in one lane: the same ones on every rank, by the seed.  False with a line on
 * standard error. */
bool ranks_random(struct mw_ranks *ranks, int lane, uint64_t seed, int rounds);

/* One all-gather and one reduce-scatter of so many elements. */
bool ranks_large(struct mw_ranks *ranks, int lane, uint64_t seed, int64_t elements);

#endif
