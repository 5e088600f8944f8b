/*
 * runs.h - the runs of this user: each has a folder under the XDG state home
 * (memwall/runs/NAME), which holds its description, and its state too unless --nvme or
 * $MEMWALL_NVME says where that is.  What is measured of drives is measured there too.
 *
 * A description is not believed beyond what it lies in: a directory that it names and that does not
 * say the same of itself is another's, and left alone.
 */
#ifndef MW_CLI_RUNS_RUNS_H
#define MW_CLI_RUNS_RUNS_H

#include "cli/run/entry.h"

struct mw_run_files;
struct mw_run_lock;

enum cli_run_state {
    CLI_RUN_RUNNING,
    CLI_RUN_DURABLE,  /* can be gone on with */
    CLI_RUN_EMPTY,    /* nothing was committed */
    CLI_RUN_DAMAGED,  /* no step is whole on all its ranks, or a file of one is gone */
    CLI_RUN_AWAY,     /* a directory is not there, or another run has it */
    CLI_RUN_DELETING, /* what has begun to delete it has not come to its end */
};
const char *cli_run_state_name(enum cli_run_state state);

struct cli_run {
    struct cli_run_entry entry;
    enum cli_run_state state;
    int64_t steps;      /* that are durable; of a run that is away nobody knows */
    int64_t bytes;      /* on drives */
    int64_t changed_ns; /* when its files were last written, since 1970; 0: they are not there */
    int64_t used_ns;    /* or its place in the list was, which has that of runs that are away */
};
void cli_run_free(struct cli_run *run); /* NULL is allowed */

/* As help says it. */
#define CLI_RUNS_PLACE                                                                             \
    "$MEMWALL_NVME, drives with \":\" between them, or else in ~/.local/state/memwall/runs"

/* $XDG_STATE_HOME/memwall/runs.  g_free it. */
char *cli_runs_base(void);
bool cli_runs_make_base(GError **error);
/* Folders of drives in $MEMWALL_NVME, g_strfreev them; NULL where it names none.  False with *error
 * where it names one twice, or more than a run can have. */
bool cli_runs_drives(char ***drives, GError **error);

/* Whether both are there and one directory, whatever it is called. */
bool cli_runs_same_directory(const char *one, const char *other);
/* That another of them is before it; NULL: there is none. */
const char *cli_runs_repeated(char **directories);

/* Whether the description names the directory, */
bool cli_runs_names(const struct cli_run_entry *entry, const char *directory);
/* whether that one's own description is of the same run: by name, when it was created and how many
 * directories it has; */
bool cli_runs_has(const struct cli_run_entry *entry, const char *directory);
/* whether state lies beside it, too; */
bool cli_runs_has_state(const struct cli_run_entry *entry, const char *directory);
/* whether it is another run's, where it can be read; */
bool cli_runs_has_another(const struct cli_run_entry *entry, const char *directory);
/* and whether what was found in `directory` is a copy of what those it names have still. */
bool cli_runs_is_copy(const struct cli_run_entry *entry, const char *directory);

/* struct cli_run *, the newest first. */
GPtrArray *cli_runs_list(void);
/* Whether it has a folder under the base, whatever that holds. */
bool cli_runs_is_listed(const char *name);
/* By its exact name, or else by one of its directories.  NULL with *error. */
struct cli_run *cli_runs_find(const char *run, GError **error);
/* That has a step to go on from, and is there: *note (NULL: nothing) says which newer ones are not.
 * NULL with *error: there is none, or the newest that is there is running or damaged: an older one
 * is not gone on with unasked. */
struct cli_run *cli_runs_newest(char **note, GError **error);
/* The list's folder of it; NULL: it has none, for a name may have been given anew, where a
 * directory was carried to another place.  g_free it. */
char *cli_runs_own_folder(const struct cli_run_entry *entry);
/* Whether the list says that it is being deleted, whichever of its directories was named. */
bool cli_runs_is_deleting(const struct cli_run_entry *entry);
/* A directory that has its description: its own, or that of the list.  g_free it. */
char *cli_runs_described(const struct cli_run_entry *entry);

/* The first of its directories that is not there, or holds no run, as where its drive is not
 * mounted; NULL: all are there, though another run may have one. */
const char *cli_runs_missing(const struct cli_run_entry *entry);
/* The first that another run has got since; NULL. */
const char *cli_runs_taken(const struct cli_run_entry *entry);

/* Whether a run with these files in its first directory has had a durable step, and its record is
 * gone or empty. */
bool cli_runs_is_lost(const struct cli_run_entry *entry, const struct mw_run_files *files);
/* Whether a rank that ran on this machine has no record, or one with a record no data, by names
 * alone. */
bool cli_runs_lacks_files(const struct cli_run_entry *entry, const struct mw_run_files *first);
/* The step, from 1, that the description in a directory says was durable when it was written; 0:
 * none, or no description of a run that the directory is of. */
int64_t cli_runs_noted_step(const char *directory);
/* Says so where that is behind `step`, from 1, which is what was found. */
void cli_runs_tell_lost_step(int64_t noted_step, int64_t step, const char *what_follows);
/* "its last durable step was 8": what is known of a lost run in `directory`.  g_free it. */
char *cli_runs_lost_text(const struct cli_run_entry *entry, const char *directory);

/* A new name, such as gpt2-2026-11-22-1, with a folder of it under the base.  If `where` is not
 * NULL there is another in each of them, and these *directories then are (may be NULL).  The name
 * is the caller's while it holds *lock, of the folder under the base, which is to be described
 * before it is released.  NULL with *error. */
char *cli_runs_reserve(const char *model, char **where, char ***directories,
                       struct mw_run_lock **lock, GError **error);
/* Deletes what is ours of it in all its directories, and those that were made for it.  The list
 * says so first, so that what a kill leaves is deleted by the same name.  False with *error while
 * it runs (`locked`: unless by the caller). */
bool cli_runs_remove(const struct cli_run_entry *entry, bool locked, GError **error);
/* What runs that were killed have left in folders of their own, where nothing of it is durable. */
void cli_runs_sweep(void);

#endif
