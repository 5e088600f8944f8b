/*
 * divided.h - how a run divides its model and data among ranks: a resume needs the same division,
 * since each rank continues from the files of its own.
 *
 * All ranks call each check together.  False with *error: they cannot reach each other.  If the
 * division differs, *alike is false on all ranks, and one rank has printed a line about it.
 */
#ifndef MW_CLI_RUN_DIVIDED_H
#define MW_CLI_RUN_DIVIDED_H

#include "cli/run/training.h"

/* Before a resume is planned: compares the number of ranks, slices and stages with those in the
 * run's description, if the first rank has one. */
bool cli_run_divided_asked(const struct cli_training *training, bool *alike, GError **error);
/* Before anything is opened for writing: whether each rank has the files that it left, under its
 * own number. */
bool cli_run_divided_files(const struct cli_training *training, bool *alike, GError **error);

#endif
