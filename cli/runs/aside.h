/*
 * aside.h - runs that --overwrite has set aside (exec/commit/run_aside.h): decides whether a
 * directory holds the old run or the new one, and updates the list accordingly.
 *
 * The new run has begun if its first directory says so; that holds for all its directories on a
 * machine.
 */
#ifndef MW_CLI_RUNS_ASIDE_H
#define MW_CLI_RUNS_ASIDE_H

#include "cli/run/entry.h"

/* Finishes what a run left undone that was killed, or failed, while it replaced another: puts the
 * old one back, and says so, or deletes it if the new one has begun.  Does nothing if another run
 * holds the lock (`locked`: the caller holds it), or if it cannot be decided.  False with *error:
 * the system refuses. */
bool cli_runs_end_replacing(const char *directory, bool locked, GError **error);
/* The same in all directories; the first one comes last. */
bool cli_runs_end_replacing_all(char **directories, bool locked, GError **error);

/* Deletes the old run from this directory, because the new one has begun.  False with *error: the
 * old one is still there, and will be deleted later. */
bool cli_runs_discard(const struct cli_run_entry *now, const char *directory, GError **error);

/* Removes from the list the run whose description is in folder `described`, because `now` (may be
 * NULL) has `directory`; unless a directory that is not given still has that name. */
void cli_runs_unlist(const struct cli_run_entry *now, const char *described, const char *directory);

#endif
