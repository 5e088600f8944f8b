/*
 * sketch_internal.h - what the makers of sketches and their oracle share.
 */
#ifndef MW_TESTS_SKETCH_INTERNAL_H
#define MW_TESTS_SKETCH_INTERNAL_H

#include "tests/sketch.h"

uint64_t sketch_bit(uint32_t op);
uint32_t sketch_rank_of(const struct sketch *sketch, uint32_t op);

/* How an op uses a slot: an enum mw_use_mode, or -1. */
int sketch_mode_of(const struct sketch_op *op, uint32_t slot);

/* Whether two such uses of one slot must not be at the same time. */
bool sketch_conflict(int a, int b);

#endif
