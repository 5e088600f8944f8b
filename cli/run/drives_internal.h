/* drives_internal.h - what the files of a run's directories share; private to them. */
#ifndef MW_CLI_RUN_DRIVES_INTERNAL_H
#define MW_CLI_RUN_DRIVES_INTERNAL_H

#include "cli/run/drives.h"
#include "cli/runs/runs.h"
#include "exec/commit/run_files.h"

struct cli_run_drives {
    struct cli_training *training; /* borrowed */
    struct cli_run_entry entry;    /* without directories if the plan uses no drives */
    GPtrArray *locks;              /* held by the first rank */
    struct mw_run_lock *listed;    /* lock of the list's folder, until the run is described; NULL */
    bool first, leader, alone;     /* this rank: of all, of its machine, the only one */
    bool fresh;                    /* no step of the run was committed before this call */
    bool described;
    bool unlisted;  /* cannot be listed, which has been said */
    bool aside;     /* the previous run is set aside, on this machine, until this one has begun */
    bool begun;     /* it has a first step to keep */
    bool told_left; /* said that the previous run could not be deleted yet */
    bool forgotten; /* its directories are deleted with it */
    char *anew;
    int64_t dropped; /* the step, from 1, that the resume drops; 0: none */
    int64_t named;   /* durable steps to report, of the run that --resume names; 0: nothing to
                      * report */
};

/* Says how many steps of the resumed run are durable. */
void cli_run_drives_say_continuing(const char *name, int64_t steps);

static inline const struct cli_run_options *
cli_run_drives_options(const struct cli_run_drives *drives)
{
    return &drives->training->options;
}

/* A run that trains nothing has file names of its own. */
static inline bool
cli_run_drives_trains(const struct cli_run_drives *drives)
{
    return cli_run_drives_options(drives)->backend != &mw_backend_null;
}

/* --- cli/run/drives_where.c: finding and locking --- */

/* Finds the directories, the same for all ranks, and locks them on the first.  All ranks call
 * it. */
bool cli_run_drives_find(struct cli_run_drives *drives, GError **error);

/* --- cli/run/drives_taken.c: what other runs left there, and what a resume finds --- */

/* For a new run: false if it would replace anything that is durable, or may be, unless --overwrite
 * is given for all of it. */
bool cli_run_drives_are_free(const struct cli_run_drives *drives, GError **error);
/* For a resume: checks that a step is recorded there, and that all directories belong to that
 * run. */
bool cli_run_drives_hold_run(const struct cli_run_drives *drives, GError **error);

/* --- cli/run/drives_overwrite.c --- */

/* Sets aside what --overwrite deletes, up to the point where it can be undone.  All ranks call
 * it. */
bool cli_run_drives_overwrite(struct cli_run_drives *drives, GError **error);
/* Puts it back if the run has not begun; true if it did. */
bool cli_run_drives_put_back(struct cli_run_drives *drives);

/* --- cli/run/drives_together.c --- */

/* For a resume: checks that its directories are of one run, and are no copy beside directories that
 * still hold the original. */
bool cli_run_drives_are_together(const struct cli_run_drives *drives, GError **error);

/* --- cli/run/drives_describe.c: descriptions in the directories and in the list --- */

/* The current time in the form of descriptions.  g_free it. */
char *cli_run_drives_now(void);

/* Whether descriptions, which are JSON, can hold the names of the directories. */
bool cli_run_drives_have_names(const struct cli_run_drives *drives, GError **error);
/* Describes a run if it is to be found again; else does nothing. */
bool cli_run_drives_describe(struct cli_run_drives *drives, GError **error);
/* Updates the description of a resumed run. */
bool cli_run_drives_describe_again(struct cli_run_drives *drives, bool changed, GError **error);
/* Name of the run for which these directories were made: its successor keeps it.  NULL: they were
 * not made for a run.  g_free it. */
char *cli_run_drives_made_name(const struct cli_run_drives *drives);
/* At the end: records the last durable step; deletes a run that has none. */
void cli_run_drives_describe_end(struct cli_run_drives *drives);

#endif
