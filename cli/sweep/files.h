/*
 * files.h - whether a sweep's output and pictures would replace each other, or what it reads.
 */
#ifndef MW_CLI_SWEEP_FILES_H
#define MW_CLI_SWEEP_FILES_H

#include "cli/request_internal.h"
#include "cli/sweep/job.h"

/* Its pictures are known to be "KIND:FILE". */
bool cli_sweep_check_files(const struct cli_sweep_wish *wish, const struct cli_request *request,
                           const struct mw_space *space, GError **error);
/* Of files of shards (NULL-terminated) that are put together. */
bool cli_sweep_check_merge(const struct cli_sweep_wish *wish, char **shards, GError **error);

#endif
