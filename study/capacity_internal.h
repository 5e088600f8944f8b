/* capacity_internal.h - shared by the files of study/capacity.h only. */
#ifndef MW_STUDY_CAPACITY_INTERNAL_H
#define MW_STUDY_CAPACITY_INTERNAL_H

#include "study/capacity.h"

/* The candidates: of each machine 1, 2, 4 and so on nodes. */
void mw_capacity_add_machines(const struct mw_capacity_machine *machines, int count,
                              const struct mw_capacity_limits *limits, struct mw_capacity *out);
/* Finds out->front of out->rows, with what an earlier search answered. */
void mw_capacity_search(const struct mw_capacity_limits *limits, struct mw_capacity *out);

/* How far a row with this bill, one of its own, is from the limit that is lifted: less is nearer;
 * NAN: not known. */
double mw_capacity_excess(const struct mw_capacity_row *row, const struct mw_capacity_bill *bill,
                          const struct mw_capacity *it);
/* Lifts one limit at a time, and at last those that can be without, for the front that is left. */
void mw_capacity_find_nearest(const struct mw_capacity_machine *machines, int count,
                              const struct mw_capacity_limits *limits, struct mw_capacity *out);

#endif
