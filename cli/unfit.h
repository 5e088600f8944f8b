/* unfit.h - prints the answer of run and compare if the plan does not fit. */
#ifndef MW_CLI_UNFIT_H
#define MW_CLI_UNFIT_H

#include "cli/cli.h"

/* Prints it as plan does, or as simulate does if `simulated`.  Returns the exit status. */
int cli_unfit_print(const struct cli_request *request, const struct mw_answer *answer,
                    bool simulated);

#endif
