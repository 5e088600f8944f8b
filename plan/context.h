/*
 * context.h - which tokens of each sequence a rank has, where ranks share sequences (docs/MODEL.md
 * 3.2c): as many as every other.
 */
#ifndef MW_PLAN_CONTEXT_H
#define MW_PLAN_CONTEXT_H

#include <stdint.h>

/* How they compute attention. */
enum mw_context {
    MW_CONTEXT_RING,       /* keys and values pass around a ring (arXiv 2310.01889) */
    MW_CONTEXT_ALL_TO_ALL, /* each rank gets whole sequences of some heads (arXiv 2309.14509) */
    MW_CONTEXT_COUNT
};

/* Of a rank; count 0 or 1: it has whole sequences. */
struct mw_context_share {
    uint32_t count, index;
    uint8_t kind; /* enum mw_context */
};

/* Tokens that follow each other: [first, first + count) of the sequence, from `at` on of those that
 * the rank has. */
struct mw_context_span {
    int64_t first, count, at;
};

/* Returns how many spans the rank has of a sequence of which each rank has `own` tokens, in their
 * order: one, or in a ring two, from either end, so that the causal mask leaves as many scores to
 * each rank. */
#define MW_CONTEXT_SPANS_MAX 2
int mw_context_spans(const struct mw_context_share *share, int64_t own,
                     struct mw_context_span spans[MW_CONTEXT_SPANS_MAX]);

#endif
