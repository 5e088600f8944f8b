/*
 * robust.h - medians of noisy times, and how far they may be off.
 *
 * Times of steps are not independent: a shared machine is slow for a while.  So a series is cut
 * into blocks that are longer than what goes on from one step to the next, and the blocks' medians
 * count (docs/MODEL.md, "Whether a run became slower").  All of it is deterministic.
 */
#ifndef MW_STUDY_ROBUST_H
#define MW_STUDY_ROBUST_H

#include <stdbool.h>
#include <stddef.h>

/* The confidence of the intervals below, of both ends together. */
#define MW_ROBUST_CONFIDENCE 0.95

/* Of values that are not NAN; NAN without any. */
double mw_robust_median(const double *values, size_t count);

struct mw_robust_interval {
    double value, low, high;
    double confidence; /* NAN: too few blocks for MW_ROBUST_CONFIDENCE, or slow noise */
    size_t blocks;     /* of the series that has fewer */
    bool slow;         /* noise lasts too long for blocks: the range has every level of the logs */
};

/* How many times larger the values of `b` are than those of `a`; all are positive, and there is at
 * least one of each.  With a single one the interval is a point. */
struct mw_robust_interval mw_robust_ratio(const double *a, size_t a_count, const double *b,
                                          size_t b_count);
/* The median of positive values. */
struct mw_robust_interval mw_robust_level(const double *values, size_t count);

#endif
