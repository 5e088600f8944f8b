/*
 * course.h - how a run is trained: each durable step records it, and a resume reads it.  Options of
 * the course that are not given keep their recorded values, and changes are reported.  Options that
 * the state or its place in the data depends on must be the same.
 *
 * The numbers stand in the record, not in the description beside it: the record has a checksum, and
 * its numbers are those of the step itself.
 */
#ifndef MW_CLI_RUN_COURSE_H
#define MW_CLI_RUN_COURSE_H

#include "cli/run/fields.h"
#include "cli/run/training.h"

#define CLI_RUN_COURSE_FIELDS 61 /* at most */

/* Sets the fields of a record, and returns their number.  Data must be open. */
int cli_run_course_fields(const struct cli_training *training, struct mw_commit_field *fields);

/* Appends phrases (char *) to the list: what cannot change in a run ("--batch 2"), known before
 * data is open; the course; all settings of the plan. */
void cli_run_course_list_fixed(const struct cli_training *training, GPtrArray *phrases);
void cli_run_course_list(const struct cli_training *training, GPtrArray *phrases);
void cli_run_course_list_settings(const struct cli_training *training, GPtrArray *phrases);

/* Fingerprint of all settings that a resume must not change. */
uint64_t cli_run_course_fingerprint(const struct cli_training *training);

/* Checks that all fields of the record at `path`, which may be any run's, are within their ranges.
 * Returns the position in the data, which the record must have. */
bool cli_run_course_check(const char *path, const struct mw_commit_record *record,
                          uint64_t *sequences, GError **error);
/* Checks that the record at `path`, of a run that has ended, has the model and fingerprint of the
 * run's description.  False with *error. */
bool cli_run_course_fits(const struct mw_decoder *decoder, uint64_t fingerprint, const char *path,
                         const struct mw_commit_record *record, GError **error);

/* Completes training->options from the first rank's record.  All ranks call it before data is
 * opened.  False with *error, one line with the options, their present and recorded values, and
 * what can be done.  It does not report a record that cannot be read. */
bool cli_run_course_resume(struct cli_training *training, GError **error);
/* The same for the checkpoint that a new run starts from, which is open and checked: options that
 * are not given keep the checkpoint's values. */
bool cli_run_course_from(struct cli_training *training, GError **error);
/* Once data is open: whether the course changes with the resume or after the checkpoint; a line
 * says so. */
bool cli_run_course_tell(struct cli_training *training);
/* Adds to the error of a resume which settings would place the state differently, and keeps them in
 * training->explained for what is said of it. */
void cli_run_course_explain(struct cli_training *training, GError *error);

#endif
