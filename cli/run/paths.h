/* paths.h - the files that `memwall run` reads, writes and keeps, as cli/paths.h lists them. */
#ifndef MW_CLI_RUN_PATHS_H
#define MW_CLI_RUN_PATHS_H

#include "cli/cli.h"
#include "cli/run/options.h"

/* The directories of drives are those in the options; none if the run has not found its own yet. */
bool cli_run_paths_check(const struct cli_request *request, const struct cli_run_options *options,
                         GError **error);

#endif
