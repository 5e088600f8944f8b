/*
 * runs.h - the runs of this user.  Each has a folder under the XDG state home (memwall/runs/NAME),
 * which holds its description, and also its state unless --nvme or $MEMWALL_NVME says where that
 * is.  Calibration measures drives there too.
 *
 * A description is trusted only for the directory that it lies in.  If it names another directory
 * that does not say the same of itself, that one belongs to another run and is left alone.
 */
#ifndef MW_CLI_RUNS_RUNS_H
#define MW_CLI_RUNS_RUNS_H

#include "cli/run/entry.h"

struct mw_run_files;
struct mw_run_lock;

enum cli_run_state {
    CLI_RUN_RUNNING,
    CLI_RUN_DURABLE,  /* can be resumed */
    CLI_RUN_EMPTY,    /* nothing was committed */
    CLI_RUN_DAMAGED,  /* no step is complete on all its ranks, or a file of a rank is gone */
    CLI_RUN_AWAY,     /* a directory is missing, or holds another run */
    CLI_RUN_DELETING, /* its deletion has begun and not finished */
};
const char *cli_run_state_name(enum cli_run_state state);

struct cli_run {
    struct cli_run_entry entry;
    enum cli_run_state state;
    int64_t steps;      /* durable steps; unknown for a run that is away */
    int64_t bytes;      /* on drives */
    int64_t changed_ns; /* when its files were last written, since 1970; 0: they are not there */
    int64_t used_ns;    /* the same, or for a run that is away when its entry in the list was
                         * written */
};
void cli_run_free(struct cli_run *run); /* NULL is allowed */

/* Where runs keep their state, as help says it. */
#define CLI_RUNS_PLACE                                                                             \
    "$MEMWALL_NVME, drives separated by \":\", or else in ~/.local/state/memwall/runs"

/* $XDG_STATE_HOME/memwall/runs.  g_free it. */
char *cli_runs_base(void);
bool cli_runs_make_base(GError **error);
/* The folders of drives in $MEMWALL_NVME, to be given to g_strfreev; NULL if it names none.  False
 * with *error if it names one twice, or more than a run can have. */
bool cli_runs_drives(char ***drives, GError **error);

/* Whether both exist and are the same directory, whatever the names. */
bool cli_runs_same_directory(const char *one, const char *other);
/* An earlier entry that is the same directory; NULL: there is none. */
const char *cli_runs_repeated(char **directories);

/* Whether the description names the directory; */
bool cli_runs_names(const struct cli_run_entry *entry, const char *directory);
/* whether the directory's own description is of the same run: same name, time of creation and
 * number of directories; */
bool cli_runs_has(const struct cli_run_entry *entry, const char *directory);
/* whether there is also state beside it; */
bool cli_runs_has_state(const struct cli_run_entry *entry, const char *directory);
/* whether it is another run's, as far as it can be read; */
bool cli_runs_has_another(const struct cli_run_entry *entry, const char *directory);
/* and whether what was found in `directory` is a copy of what the directories that it names still
 * have. */
bool cli_runs_is_copy(const struct cli_run_entry *entry, const char *directory);

/* struct cli_run *, the newest first. */
GPtrArray *cli_runs_list(void);
/* Whether a folder under the base has this name, whatever it contains. */
bool cli_runs_is_listed(const char *name);
/* The run of this exact name, or else the run in this directory.  NULL with *error. */
struct cli_run *cli_runs_find(const char *run, GError **error);
/* The newest run that can be resumed; *note (NULL: nothing) names newer ones that cannot.  NULL
 * with *error: there is none, or the newest one with files is running or damaged: an older run is
 * not resumed unasked. */
struct cli_run *cli_runs_newest(char **note, GError **error);
/* The run's folder in the list; NULL: it has none, because its directory was moved here and its
 * name is another run's.  g_free it. */
char *cli_runs_own_folder(const struct cli_run_entry *entry);
/* Whether the list says that the run is being deleted, whichever directory was named. */
bool cli_runs_is_deleting(const struct cli_run_entry *entry);
/* A directory with its description: one of its own, or the one in the list.  g_free it. */
char *cli_runs_described(const struct cli_run_entry *entry);

/* The first of its directories that is missing or holds no run, perhaps because its drive is not
 * mounted; NULL: all are there, though another run may have one. */
const char *cli_runs_missing(const struct cli_run_entry *entry);
/* The first of its directories that holds another run now; NULL: none. */
const char *cli_runs_taken(const struct cli_run_entry *entry);

/* Whether a run with these files in its first directory once had a durable step, and its record is
 * gone or empty. */
bool cli_runs_is_lost(const struct cli_run_entry *entry, const struct mw_run_files *files);
/* Whether a rank that ran on this machine lacks its record, or has a record and lacks its data;
 * looks at names alone. */
bool cli_runs_lacks_files(const struct cli_run_entry *entry, const struct mw_run_files *first);
/* The last durable step, from 1, that the description in a directory notes; 0: there was none, or
 * it describes no run of this directory. */
int64_t cli_runs_noted_step(const char *directory);
/* Says so if the noted step is later than `step`, from 1, which was found. */
void cli_runs_tell_lost_step(int64_t noted_step, int64_t step, const char *what_follows);
/* "its last durable step was 8": what is known of a lost run in `directory`.  g_free it. */
char *cli_runs_lost_text(const struct cli_run_entry *entry, const char *directory);

/* A new name, such as gpt2-2026-11-22-1, with a folder under the base.  If `where` is not NULL,
 * each of its folders gets a folder too, and *directories (may be NULL) lists these.  The caller
 * has the name while it holds *lock, the lock of the folder under the base, and must write a
 * description there before it releases the lock.  NULL with *error. */
char *cli_runs_reserve(const char *model, char **where, char ***directories,
                       struct mw_run_lock **lock, GError **error);
/* Deletes the run's files in all its directories, and the directories that were made for it.  The
 * list notes that first, so that the same name deletes what is left after a kill.  False with
 * *error while the run is running (`locked`: the caller has locked it). */
bool cli_runs_remove(const struct cli_run_entry *entry, bool locked, GError **error);
/* Deletes folders that killed runs left and in which nothing is durable. */
void cli_runs_sweep(void);

#endif
