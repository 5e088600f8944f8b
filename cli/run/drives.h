/*
 * drives.h - the directories of a run: those of --nvme, those of the run that it resumes, or one of
 * its own.  Keeps other runs out of them, and writes the run's description there.
 */
#ifndef MW_CLI_RUN_DRIVES_H
#define MW_CLI_RUN_DRIVES_H

#include "cli/run/training.h"

struct cli_run_drives;

/* Sets training->options.nvme to the same on all ranks, which all call this.  The directories are
 * this run's until close.  NULL with *error: another run is there.  Plans without drives have none.
 */
struct cli_run_drives *cli_run_drives_open(struct cli_training *training, GError **error);
/* Called once all else is known to be good, before anything is written.  Sets aside what
 * --overwrite deletes, and describes a new run, so that what is left after a kill can be found.  If
 * a rank was told to end before that, nothing happens: false with training->unstarted, on all
 * ranks. */
bool cli_run_drives_begin(struct cli_run_drives *drives, GError **error);
/* Deletes what is set aside at once, because a drive has no room beside it; true if there was
 * something. */
bool cli_run_drives_delete_set_aside(struct cli_run_drives *drives);
/* The new run has done a step: deletes what was set aside, if the new run is kept instead.  May be
 * called as note_step below. */
void cli_run_drives_begun(struct cli_run_drives *drives, bool committed, bool skipped);
/* The run has ended well and is `kept`: deletes what was set aside, whatever its steps were. */
void cli_run_drives_ended(struct cli_run_drives *drives, bool kept);
/* Whether something is still set aside, and will be put back. */
bool cli_run_drives_spare(const struct cli_run_drives *drives);
/* The run can be resumed: describes it, if it is not described yet or its course has `changed`. */
bool cli_run_drives_resumed(struct cli_run_drives *drives, bool changed, GError **error);
/* A step is durable: the first time, the description is changed to say so, because then more would
 * be lost with the record.  In any thread, while the others leave the drives alone. */
void cli_run_drives_note_step(struct cli_run_drives *drives);
/* Of a run that is described; NULL. */
const char *cli_run_drives_name(const struct cli_run_drives *drives);
/* Whether the directories were made for the run, so that a resume finds it by its name. */
bool cli_run_drives_are_own(const struct cli_run_drives *drives);
/* How `memwall export` names the run: by its name, by a directory, or by all of them if they were
 * moved and no longer name each other.  g_free it. */
char *cli_run_drives_called(const struct cli_run_drives *drives);
/* How the run is resumed and deleted, once it is described.  g_free it. */
char *cli_run_drives_kept_text(const struct cli_run_drives *drives);
/* What must be done to start anew instead of resuming this run; NULL: --overwrite does it. */
const char *cli_run_drives_anew(struct cli_run_drives *drives);
/* Called when all files are closed.  Forgets what is not durable; `together`: all ranks are
 * here. */
void cli_run_drives_close(struct cli_run_drives *drives, bool together); /* NULL is allowed */

#endif
