/*
 * taken.h - what a resume is not given again: options of the plan, model, data and the number
 * of steps, as the run's description has them.
 *
 * A description says which options the run was given (paths absolute), and what the plan made of
 * the others.  Of these a resume takes what the state follows from; the rest is chosen anew.  What
 * is given stands, and is compared with the run later (cli/run/course.h).
 */
#ifndef MW_CLI_RUN_TAKEN_H
#define MW_CLI_RUN_TAKEN_H

#include "base/json_writer.h"
#include "cli/cli.h"
#include "cli/run/training.h"

/* Of a command line that asks for --resume, where it was parsed and before it is looked at: fills
 * in `request`, *strategies and the options that cli_run_options_read and cli_options_ask are to
 * read.  False with *error: there is no such run, or a file of the run's is not there any more. */
bool cli_run_taken_complete(struct cli_request *request, char **strategies, GError **error);

/* The key "options", into the object of a description that is open. */
void cli_run_taken_write(struct mw_json_writer *json, const struct cli_training *training);

#endif
