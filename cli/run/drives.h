/*
 * drives.h - the directories of a run: those of --nvme, those of the run that it goes on with,
 * or one of its own; that no other run is in them; and the description that they get.
 */
#ifndef MW_CLI_RUN_DRIVES_H
#define MW_CLI_RUN_DRIVES_H

#include "cli/run/training.h"

struct cli_run_drives;

/* Settles training->options.nvme, the same for all ranks, which all call.  The directories are this
 * run's until close.  NULL with *error: another run is there.  Plans without drives have none. */
struct cli_run_drives *cli_run_drives_open(struct cli_training *training, GError **error);
/* Once all else is known to be good, before anything is written: what --overwrite deletes is set
 * aside, and a new run described, so that what a kill leaves can be found.  Where a rank was told
 * to end before
 * --overwrite, nothing is: false with training->unstarted, on all ranks. */
bool cli_run_drives_begin(struct cli_run_drives *drives, GError **error);
/* Where a drive has no room beside what is set aside, that is deleted at once: true if there was
 * something. */
bool cli_run_drives_delete_set_aside(struct cli_run_drives *drives);
/* The new run has done a step: what was set aside goes, if that one is to be kept instead.  As
 * note_step below. */
void cli_run_drives_begun(struct cli_run_drives *drives, bool committed, bool skipped);
/* It has ended well, and `kept`: whatever its steps were, what was set aside goes now. */
void cli_run_drives_ended(struct cli_run_drives *drives, bool kept);
/* Whether something is set aside still, and will be back. */
bool cli_run_drives_spare(const struct cli_run_drives *drives);
/* What is resumed can be: it is described, if it is not, or anew where its course has `changed`. */
bool cli_run_drives_resumed(struct cli_run_drives *drives, bool changed, GError **error);
/* A step is durable: the first time the description gets to say so, for then there is more to lose
 * with the record.  In any thread, while the others leave the drives alone. */
void cli_run_drives_note_step(struct cli_run_drives *drives);
/* Of a run that is described; NULL. */
const char *cli_run_drives_name(const struct cli_run_drives *drives);
/* Whether the directories were made for it, and a resume finds it by its name. */
bool cli_run_drives_are_own(const struct cli_run_drives *drives);
/* What the run is called beside `memwall export`: its name, or a directory, or all of them where
 * they were moved and say so of each other no more.  g_free it. */
char *cli_run_drives_called(const struct cli_run_drives *drives);
/* How that is gone on with and deleted; once it is described.  g_free it. */
char *cli_run_drives_kept_text(const struct cli_run_drives *drives);
/* What has to be done for a new start instead of this run; NULL: --overwrite does it. */
const char *cli_run_drives_anew(struct cli_run_drives *drives);
/* When all files are closed.  What is not durable is forgotten; `together`: all ranks are here. */
void cli_run_drives_close(struct cli_run_drives *drives, bool together); /* NULL is allowed */

#endif
