/*
 * data.h - the batches of a run, read ahead of their steps.
 *
 * A step that has begun cannot be taken back: without durable steps its end would be the end of all
 * that was trained.  So the data of a step is read while the run can still end before it, and a
 * file that fails by then (cut short, on a drive that is gone) ends the run behind a whole step, on
 * all ranks alike, as a signal does.  Only a step that is begun with has its data read as late as
 * it begins: nothing is lost with it.
 */
#ifndef MW_CLI_RUN_DATA_H
#define MW_CLI_RUN_DATA_H

#include "cli/run/stop.h"
#include "cli/run/training.h"

struct cli_run_data;

/* Of a training that has a trainer, borrowed with its data; nothing is read yet. */
struct cli_run_data *cli_run_data_new(const struct cli_training *training, GError **error);
void cli_run_data_free(struct cli_run_data *data); /* NULL is allowed */

/* As mw_trainer_options has `batch`. */
bool cli_run_data_batch(struct cli_run_data *data, int64_t step, int64_t micro_batch, int32_t *ids,
                        int32_t *targets, GError **error);
/* Sequences of the data that all steps up to this one have used. */
int64_t cli_run_data_used(const struct cli_training *training, int64_t step);

/* A wish of mw_trainer_options behind those of signals: the data of a later step cannot be read. */
#define CLI_RUN_DATA_WISH (CLI_RUN_STOP_WISHES + 1)
/* Any thread. */
bool cli_run_data_fails(const struct cli_run_data *data);
/* Once the run has ended: why, of this rank's data; NULL. */
const GError *cli_run_data_error(const struct cli_run_data *data);

#endif
