/* unite.h - what the other ranks of a run did, told to the first. */
#ifndef MW_CLI_RUN_UNITE_H
#define MW_CLI_RUN_UNITE_H

#include "exec/ranks/ranks.h"
#include "report/measured.h"

/* By all ranks together, each with what it measured of the same steps of one plan: that of rank 0
 * gets the others', in order: their lanes' medians, and their rows of its own typical step.  Of one
 * rank, or of no step, nothing is to be told.  After a failure mw_ranks_abort is to follow. */
bool cli_unite_ranks(struct mw_measured *measured, const struct mw_plan *plan,
                     struct mw_ranks *ranks, GError **error);

#endif
