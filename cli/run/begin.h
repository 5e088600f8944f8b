/* begin.h - the line that a run prints before its first step, which may take minutes. */
#ifndef MW_CLI_RUN_BEGIN_H
#define MW_CLI_RUN_BEGIN_H

#include "cli/run/training.h"

/* One line with steps, batch, sequence length, placement, and the predicted times of one step and
 * of the run.  The training must have a trainer.  g_free it. */
char *cli_run_begin_text(const struct cli_training *training);

#endif
