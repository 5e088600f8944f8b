/* paths.h - the files that `memwall run` reads, writes and keeps, as cli/paths.h has them. */
#ifndef MW_CLI_RUN_PATHS_H
#define MW_CLI_RUN_PATHS_H

#include "cli/cli.h"
#include "cli/run/options.h"

/* Directories of drives are those that the options have: none, where the run is yet to find its
 * own. */
bool cli_run_paths_check(const struct cli_request *request, const struct cli_run_options *options,
                         GError **error);

#endif
