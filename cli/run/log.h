/* log.h - checks the file of --log, which a new run would replace and a resume would cut. */
#ifndef MW_CLI_RUN_LOG_H
#define MW_CLI_RUN_LOG_H

#include "cli/run/training.h"

/* For a training whose directories are known, before it begins.  False with *error: the file is not
 * a log, cannot be written, or has lines of another run that is running or can be resumed. */
bool cli_run_log_check(const struct cli_training *training, GError **error);

#endif
