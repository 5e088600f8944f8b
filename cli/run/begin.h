/* begin.h - what a run says before its first step, which may take minutes. */
#ifndef MW_CLI_RUN_BEGIN_H
#define MW_CLI_RUN_BEGIN_H

#include "cli/run/training.h"

/* One line: steps, batch, sequence, placement, and how long a step and all of them are predicted to
 * take.  Of a training that has a trainer.  g_free it. */
char *cli_run_begin_text(const struct cli_training *training);

#endif
