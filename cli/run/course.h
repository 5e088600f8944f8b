/*
 * course.h - how a run is trained, as each of its durable steps says it, and what a resume
 * makes of that: options of the course that are not given stay as they were, others are told, and
 * what the state or its place in the data follows from has to be the same.
 *
 * Numbers stand in the record, which has a checksum, and not in the description beside it: so they
 * are those that the step was made with.
 */
#ifndef MW_CLI_RUN_COURSE_H
#define MW_CLI_RUN_COURSE_H

#include "cli/run/fields.h"
#include "cli/run/training.h"

#define CLI_RUN_COURSE_FIELDS 40 /* at most */

/* Fills in fields of a record, returns how many.  Data is open. */
int cli_run_course_fields(const struct cli_training *training, struct mw_commit_field *fields);

/* As phrases, char *, behind what is in the list: what is fixed in a run ("--batch 2"), also
 * without data; its course; and all settings of its plan. */
void cli_run_course_list_fixed(const struct cli_training *training, GPtrArray *phrases);
void cli_run_course_list(const struct cli_training *training, GPtrArray *phrases);
void cli_run_course_list_settings(const struct cli_training *training, GPtrArray *phrases);

/* Of all that a resume has to have alike. */
uint64_t cli_run_course_fingerprint(const struct cli_training *training);

/* All fields of the record at `path` are within their ranges; and where the data goes on, which it
 * must say.  May be asked of any run's. */
bool cli_run_course_check(const char *path, const struct mw_commit_record *record,
                          uint64_t *sequences, GError **error);
/* Of a record, at `path`, of a run that has ended: whether it was made with this model and
 * fingerprint, which its description says.  False with *error. */
bool cli_run_course_fits(const struct mw_decoder *decoder, uint64_t fingerprint, const char *path,
                         const struct mw_commit_record *record, GError **error);

/* Before data is opened, by all ranks: reads what the first one's record says, and settles
 * training->options by it.  False with *error, one line that has the options, what they are and
 * what they were, and what can be done.  A record that cannot be read is not this one's to tell. */
bool cli_run_course_resume(struct cli_training *training, GError **error);
/* The same of the checkpoint that a new run starts from, which is open and checked: what it was
 * trained with stays where it is not given. */
bool cli_run_course_from(struct cli_training *training, GError **error);
/* Once data is open: whether the course changes by the resume or from the checkpoint on, with a
 * line for the user that says so. */
bool cli_run_course_tell(struct cli_training *training);
/* Adds to an error of a resume, of settings that place state otherwise, which these are. */
void cli_run_course_explain(const struct cli_training *training, GError *error);

#endif
