/*
 * aside.h - runs that --overwrite has set aside (exec/commit/run_aside.h): which of the two, the
 * old or the new one, a directory holds, and how the list says the same.
 *
 * The new run has begun where its first directory says so, for all of its directories on a machine.
 */
#ifndef MW_CLI_RUNS_ASIDE_H
#define MW_CLI_RUNS_ASIDE_H

#include "cli/run/entry.h"

/* What a run has left there that was killed, or failed, as it replaced another: that one is put
 * back, with a line that says so, or deleted if the new one has begun.  Leaves alone what a run is
 * at, unless that is the caller (`locked`), and what cannot be decided.  False with *error: the
 * system refuses. */
bool cli_runs_end_replacing(const char *directory, bool locked, GError **error);
/* In all of them; the first last. */
bool cli_runs_end_replacing_all(char **directories, bool locked, GError **error);

/* The run that replaces the old one, which has begun, has it no more: of this directory.  False
 * with *error: the old one is in the way still, and goes later. */
bool cli_runs_discard(const struct cli_run_entry *now, const char *directory, GError **error);

/* What the description in folder `described` says of the list holds no more once `now` (may be
 * NULL) has `directory`; unless a directory that is not given carries its name still. */
void cli_runs_unlist(const struct cli_run_entry *now, const char *described, const char *directory);

#endif
