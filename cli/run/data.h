/*
 * data.h - the batches of a run, read ahead of their steps.
 *
 * A step that has begun cannot be undone: without durable steps, a failure in it would lose the
 * whole training.  So the data of a step is read while the run can still end before that step.  A
 * file that fails then (cut short, or on a drive that is gone) ends the run after a complete step,
 * on all ranks alike, as a signal does.  Only the first step reads its data when it begins: nothing
 * is lost with it.
 */
#ifndef MW_CLI_RUN_DATA_H
#define MW_CLI_RUN_DATA_H

#include "cli/run/stop.h"
#include "cli/run/training.h"

struct cli_run_data;

/* Borrows the training, which has a trainer, and its data; nothing is read yet. */
struct cli_run_data *cli_run_data_new(const struct cli_training *training, GError **error);
void cli_run_data_free(struct cli_run_data *data); /* NULL is allowed */

/* The `batch` callback of mw_trainer_options. */
bool cli_run_data_batch(struct cli_run_data *data, int64_t step, int64_t micro_batch, int32_t *ids,
                        int32_t *targets, GError **error);
/* Number of sequences that all steps up to this one use. */
int64_t cli_run_data_used(const struct cli_training *training, int64_t step);

/* A wish of mw_trainer_options, which ranks after those of signals: the data of a later step cannot
 * be read. */
#define CLI_RUN_DATA_WISH (CLI_RUN_STOP_WISHES + 1)
/* Any thread may call it. */
bool cli_run_data_fails(const struct cli_run_data *data);
/* Once the run has ended: why this rank's data cannot be read; NULL: it can be read. */
const GError *cli_run_data_error(const struct cli_run_data *data);

#endif
