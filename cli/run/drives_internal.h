/* drives_internal.h - what the files of a run's directories share; not for others. */
#ifndef MW_CLI_RUN_DRIVES_INTERNAL_H
#define MW_CLI_RUN_DRIVES_INTERNAL_H

#include "cli/run/drives.h"
#include "cli/runs/runs.h"
#include "exec/commit/run_files.h"

struct cli_run_drives {
    struct cli_training *training; /* borrowed */
    struct cli_run_entry entry;    /* no directories: a plan without drives */
    GPtrArray *locks;              /* of the first rank */
    struct mw_run_lock *listed;    /* of the list's folder, until it is described; NULL */
    bool first, leader, alone;     /* this rank: of all, of a machine, without others */
    bool fresh;                    /* no step of it was committed before */
    bool described;
    bool unlisted;  /* the list will not have it, which has been said */
    bool aside;     /* the run before is, on this machine, until this one has begun */
    bool begun;     /* it has a first step to keep */
    bool told_left; /* that the run before could not be deleted then */
    bool forgotten; /* its directories go with it */
    char *anew;
    int64_t dropped; /* step, from 1, that the run is gone on with without; 0: none */
    int64_t named;   /* durable steps of a run that --resume names, to be said; 0: it does not */
};

/* Says how far the run came that is gone on with. */
void cli_run_drives_say_going_on(const char *name, int64_t steps);

static inline const struct cli_run_options *
cli_run_drives_options(const struct cli_run_drives *drives)
{
    return &drives->training->options;
}

/* Of a run that trains nothing the files have other names. */
static inline bool
cli_run_drives_trains(const struct cli_run_drives *drives)
{
    return cli_run_drives_options(drives)->backend != &mw_backend_null;
}

/* --- cli/run/drives_where.c: finding and locking --- */

/* By all ranks: which directories they are, the same for all; locked by the first. */
bool cli_run_drives_find(struct cli_run_drives *drives, GError **error);

/* --- cli/run/drives_taken.c: what other runs have left there, and its end --- */

/* For a run that begins: nothing that is durable, or may be, would go for it, unless --overwrite
 * says so of all of it. */
bool cli_run_drives_are_free(const struct cli_run_drives *drives, GError **error);
/* For one that goes on: a step is recorded there, and all of them are that run's. */
bool cli_run_drives_hold_run(const struct cli_run_drives *drives, GError **error);

/* --- cli/run/drives_overwrite.c --- */

/* By all ranks: what --overwrite asks for, up to what can be taken back. */
bool cli_run_drives_overwrite(struct cli_run_drives *drives, GError **error);
/* That is taken back, if the run has not begun: true where it is. */
bool cli_run_drives_put_back(struct cli_run_drives *drives);

/* --- cli/run/drives_together.c --- */

/* For one that goes on: its directories are of one run, and no copy beside others that are none. */
bool cli_run_drives_are_together(const struct cli_run_drives *drives, GError **error);

/* --- cli/run/drives_describe.c: descriptions in the directories and in the list --- */

/* As descriptions have times.  g_free it. */
char *cli_run_drives_now(void);

/* Whether descriptions, which are JSON, can name the directories of a run to be found again. */
bool cli_run_drives_have_names(const struct cli_run_drives *drives, GError **error);
/* Of a run that is to be found again; nothing of others. */
bool cli_run_drives_describe(struct cli_run_drives *drives, GError **error);
/* Of one that was before. */
bool cli_run_drives_describe_again(struct cli_run_drives *drives, bool changed, GError **error);
/* The name of the run that was made these directories: they are its successor's under its name.
 * NULL: there is none.  g_free it. */
char *cli_run_drives_made_name(const struct cli_run_drives *drives);
/* At the end: how far it came; of a run without a durable step nothing stays. */
void cli_run_drives_describe_end(struct cli_run_drives *drives);

#endif
