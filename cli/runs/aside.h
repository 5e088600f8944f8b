/*
 * aside.h - runs that --overwrite has set aside (exec/commit/run_aside.h): decides whether a
 * directory holds the old run or the new one, and makes the list say the same.
 *
 * The new run has begun if its first directory says so; that holds for all its directories on a
 * machine.
 */
#ifndef MW_CLI_RUNS_ASIDE_H
#define MW_CLI_RUNS_ASIDE_H

#include "cli/run/entry.h"

/* Ends what a run left undone that was killed, or failed, while it replaced another: puts the other
 * one back, and says so, or deletes it if the new one has begun.  Leaves alone what another run
 * has locked (`locked`: the caller has), and what cannot be decided.  False with *error: the system
 * refuses. */
bool cli_runs_end_replacing(const char *directory, bool locked, GError **error);
/* The same in all directories; the first one comes last. */
bool cli_runs_end_replacing_all(char **directories, bool locked, GError **error);

/* Deletes the old run from this directory, as the new one has begun.  False with *error: the old
 * one is still in the way, and will be deleted later. */
bool cli_runs_discard(const struct cli_run_entry *now, const char *directory, GError **error);

/* Removes from the list what the description in folder `described` says, because `now` (may be
 * NULL) has `directory`; unless a directory that is not given still has that name. */
void cli_runs_unlist(const struct cli_run_entry *now, const char *described, const char *directory);

#endif
