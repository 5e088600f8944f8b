/*
 * rope.h - the angles of rotary positions (RoPE, arXiv 2104.09864, eq. 15).
 */
#ifndef MW_EXEC_OPERATORS_ROPE_H
#define MW_EXEC_OPERATORS_ROPE_H

#include "plan/decoder.h"

/* table[t][i] = cos, table[t][head_dim / 2 + i] = sin of p * f(i), for the positions p of a
 * sequence's `seq` tokens t that a rank has, and pairs i < head_dim / 2; computed in fp64.
 * f(i) = theta^(-2i / head_dim), stretched as Llama 3.1 does where the decoder says so. */
void mw_rope_table(const struct mw_decoder *decoder, int64_t seq, float *table);

#endif
