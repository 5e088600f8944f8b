/* output.h - asks the library, and prints its answers. */
#ifndef MW_CLI_OUTPUT_H
#define MW_CLI_OUTPUT_H

#include "cli/cli.h"

/* Asks the request's question through lib/memwall.h, writes the files that were asked for, and
 * prints tables, JSON or CSV on standard output.  An error is one line on standard error.  Returns
 * the exit status. */
int cli_ask(const struct cli_request *request, enum memwall_depth depth);

/* Says of each file that was asked for that it is not written, as the plan does not fit. */
void cli_say_unwritten(const struct cli_request *request);

#endif
