/* output.h - asks the library, and prints its answers. */
#ifndef MW_CLI_OUTPUT_H
#define MW_CLI_OUTPUT_H

#include "cli/cli.h"

/* Asks the request's question through lib/memwall.h, writes the requested files, and prints tables,
 * JSON or CSV on standard output.  An error is one line on standard error.  Returns the exit
 * status. */
int cli_ask(const struct cli_request *request, enum memwall_depth depth);

/* Says for each requested file that it is not written because the plan does not fit. */
void cli_say_unwritten(const struct cli_request *request);

#endif
