/*
 * export.h - what is durable of a run that has ended as a checkpoint, with no step more.
 */
#ifndef MW_CLI_RUNS_EXPORT_H
#define MW_CLI_RUNS_EXPORT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* The newest durable step of a run (a name, or one of its directories, or all of them, in order: of
 * a run that was moved, whose description says where it was), or the one before it, goes
 * to `folder`, which checkpoint_place.h guards and `option` names; *steps is how many the run has
 * done then.  False with *error: nothing has changed. */
bool cli_export(char **run, const char *option, const char *folder, bool previous, int64_t *steps,
                GError **error);

/* How many steps that would be, of a run that is at rest in these directories or that the caller
 * holds; 0: nothing there can be exported. */
int64_t cli_export_steps(char **directories, bool previous);

#endif
