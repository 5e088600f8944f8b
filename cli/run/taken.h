/*
 * taken.h - options that a resume takes from the run's description: those of the plan, model, data
 * and number of steps.
 *
 * A description lists the options that the run was given (with absolute paths), and the values that
 * the plan chose for the others.  Of the latter a resume takes what the state depends on; the rest
 * is chosen anew.  Options that are given win, and are compared with the run later
 * (cli/run/course.h).
 */
#ifndef MW_CLI_RUN_TAKEN_H
#define MW_CLI_RUN_TAKEN_H

#include "base/json_writer.h"
#include "cli/cli.h"
#include "cli/run/training.h"

/* Completes a parsed command line with --resume, before it is checked: `request`, *strategies and
 * the options that cli_run_options_read and cli_options_ask will read.  False with *error: there is
 * no such run, or one of its files is missing. */
bool cli_run_taken_complete(struct cli_request *request, char **strategies, GError **error);

/* Writes the key "options" into the open object of a description. */
void cli_run_taken_write(struct mw_json_writer *json, const struct cli_training *training);

#endif
