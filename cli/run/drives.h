/*
 * drives.h - the directories of a run: those of --nvme, those of the run that it resumes, or some
 * that are made for it.  Keeps other runs out of them, and writes the run's description there.
 */
#ifndef MW_CLI_RUN_DRIVES_H
#define MW_CLI_RUN_DRIVES_H

#include "cli/run/training.h"

struct cli_run_drives;

/* Sets training->options.nvme to the same directories on all ranks, which all call this.  The
 * directories are locked for this run until close.  NULL with *error: another run uses them.  A
 * plan without drives has no directories. */
struct cli_run_drives *cli_run_drives_open(struct cli_training *training, GError **error);
/* Call it once every other check has passed, before anything is written.  Sets aside what
 * --overwrite deletes, and describes a new run, so that its files can be found after a kill.  If
 * a signal ended a rank before that, nothing happens: false with training->unstarted, on all
 * ranks. */
bool cli_run_drives_begin(struct cli_run_drives *drives, GError **error);
/* Deletes what was set aside at once, because a drive has no room for both runs; true if there was
 * something. */
bool cli_run_drives_delete_set_aside(struct cli_run_drives *drives);
/* The new run has done a step: deletes what was set aside, if the new run now has something to
 * keep.  Same threads as note_step below. */
void cli_run_drives_begun(struct cli_run_drives *drives, bool committed, bool skipped);
/* The run has ended well and is `kept`: deletes what was set aside, whether or not a step was
 * kept. */
void cli_run_drives_ended(struct cli_run_drives *drives, bool kept);
/* Whether something is still set aside and will be put back. */
bool cli_run_drives_spare(const struct cli_run_drives *drives);
/* The run can be resumed: describes it, if it has no description yet or its course has
 * `changed`. */
bool cli_run_drives_resumed(struct cli_run_drives *drives, bool changed, GError **error);
/* A step is durable.  The first time, this updates the description to say so: from then on, losing
 * the record would lose a step.  Any thread may call it while no other uses the drives. */
void cli_run_drives_note_step(struct cli_run_drives *drives);
/* Name of the run once it is described; else NULL. */
const char *cli_run_drives_name(const struct cli_run_drives *drives);
/* Whether the directories were made for the run, so that a resume finds it by its name. */
bool cli_run_drives_are_own(const struct cli_run_drives *drives);
/* How to name the run to `memwall export`: by its name, by a directory, or by all of them if they
 * were moved and no longer name each other.  g_free it. */
char *cli_run_drives_called(const struct cli_run_drives *drives);
/* How to resume and how to delete the run, once it is described.  g_free it. */
char *cli_run_drives_kept_text(const struct cli_run_drives *drives);
/* What the user must do to start anew instead of resuming this run; NULL: --overwrite does it. */
const char *cli_run_drives_anew(struct cli_run_drives *drives);
/* Call it when all files are closed.  Deletes what is not durable; `together`: all ranks are
 * here. */
void cli_run_drives_close(struct cli_run_drives *drives, bool together); /* NULL is allowed */

#endif
