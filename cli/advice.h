/* advice.h - what if: scaled bandwidths, needed bandwidths, and the change that gains most. */
#ifndef MW_CLI_ADVICE_H
#define MW_CLI_ADVICE_H

#include "cli/cli.h"

/* The setting that gains most tokens a second; and beside it what gives most tokens for the money,
 * of what has to be paid for: a part, more nodes, another machine. */
void cli_advise(const struct cli_request *request, const struct cli_answer *answer);

/* Where the batch was open: a smaller one that is faster, if the estimates find one. */
void cli_advise_batch(const struct cli_request *request, const struct cli_answer *answer);

/* Step time against each bandwidth at 0.5x, 2x, 4x; bandwidth for 50, 70, 90% efficiency. */
void cli_what_if(const struct cli_request *request, const struct cli_answer *answer);

#endif
