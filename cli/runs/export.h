/*
 * export.h - writes the durable state of a run that has ended as a checkpoint, without training.
 */
#ifndef MW_CLI_RUNS_EXPORT_H
#define MW_CLI_RUNS_EXPORT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Writes the newest durable step of a run, or the one before it, to `folder`, which is checked as
 * checkpoint_place.h says and which messages call `option`; *steps is the number of steps of the
 * checkpoint.  The run is named by its name, by one of its directories, or, if it was moved, by all
 * of them in order.  False with *error: nothing has changed. */
bool cli_export(char **run, const char *option, const char *folder, bool previous, int64_t *steps,
                GError **error);

/* The number of steps of such a checkpoint, for a run in these directories that is not running, or
 * that the caller has locked; 0: there is nothing to export. */
int64_t cli_export_steps(char **directories, bool previous);

#endif
