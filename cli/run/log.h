/* log.h - whose log the file of --log is: what a new run would replace, or a resume cut. */
#ifndef MW_CLI_RUN_LOG_H
#define MW_CLI_RUN_LOG_H

#include "cli/run/training.h"

/* Of a training whose directories are settled, before it begins.  False with *error: the file is no
 * log, cannot be written, or has lines of another run that is running or can be gone on with. */
bool cli_run_log_check(const struct cli_training *training, GError **error);

#endif
