/* unite.h - sends what the other ranks of a run measured to the first. */
#ifndef MW_CLI_RUN_UNITE_H
#define MW_CLI_RUN_UNITE_H

#include "exec/ranks/ranks.h"
#include "report/measured.h"

/* Adds the other ranks' measurements to rank 0's, in order: the medians of their lanes, and their
 * rows of rank 0's own typical step.  All ranks call it together, each with its measurement of the
 * same steps of one plan.  With one rank, or without a step, nothing is sent.  After a failure call
 * mw_ranks_abort. */
bool cli_unite_ranks(struct mw_measured *measured, const struct mw_plan *plan,
                     struct mw_ranks *ranks, GError **error);

#endif
