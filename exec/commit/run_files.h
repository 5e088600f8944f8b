/*
 * run_files.h - the files that runs keep in a directory, whatever their number of ranks and drives:
 * which step a run can continue from, how much space it takes, whether a run uses them; and their
 * removal.
 *
 * Files of a run begin with "memwall" or "memwall-rankR" (nvme.h, commit.h).  Beside them are a
 * description, which the caller writes, and a lock of the whole run.  Only regular files of this
 * user count, and no link is followed.  Data counts if a lock or record of its stem, or a
 * description, is beside it.  Any other file with such a name is a stranger; then it is unknown
 * whether there is a run.
 */
#ifndef MW_EXEC_COMMIT_RUN_FILES_H
#define MW_EXEC_COMMIT_RUN_FILES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/commit/commit.h"

#define MW_RUN_DESCRIPTION "memwall-run.json"

/* Whether the name may be that of a run's file. */
bool mw_run_files_is_name(const char *name);

struct mw_run_files {
    GPtrArray *names;         /* char *, names of our files, sorted; other files are not examined */
    int64_t bytes;            /* bytes that they take on their drive */
    int records;              /* number of ranks whose records hold something: committed, or
                               * damaged */
    int ranks;                /* number of ranks of the run, as the files say; 0 if none says it */
    int64_t step;             /* the newest step that all of them hold whole, or -1 */
    bool running;             /* a run uses them now */
    int64_t changed_ns;       /* when one of them was last written, since 1970; 0 if there is
                               * none */
    char *record;             /* name of a record that holds something, or NULL */
    bool has_record;          /* a record's file exists, though it may hold nothing */
    bool has_data;            /* state exists that is not empty */
    char *stranger;           /* name of a stranger, or NULL */
    const char *stranger_why; /* why that file is a stranger's, in words that follow "NAME: " */
    bool stranger_is_plain;   /* the stranger is a file of this user and not empty: a run would
                               * overwrite it */
};

/* Changes nothing.  A missing directory holds nothing.  Returns false with *error if it cannot be
 * read.  The caller clears *files in either case. */
bool mw_run_files_look(const char *directory, struct mw_run_files *files, GError **error);
void mw_run_files_clear(struct mw_run_files *files);

/* A rank's newest whole record, or the one before it.  Returns false if none can be read; opening
 * the run reports the reason. */
struct mw_run_record {
    struct mw_commit_record record; /* mw_commit_record_clear */
    int rank, ranks;
    int64_t stripe_bytes; /* stripe size by which its extents lie on the drives */
};
bool mw_run_files_record(const char *directory, const char *stem, bool previous,
                         struct mw_run_record *out);

/* Deletes the files, records first and durably, and nothing else.  Returns false with *error if a
 * run uses them, or the system refuses.  `locked`: the caller has locked the run, and its lock
 * stays. */
bool mw_run_files_remove(const char *directory, bool locked, GError **error);

/* Reserves a directory for one run, from before it looks for files of others until it ends. */
struct mw_run_lock;
struct mw_run_lock *mw_run_lock_take(const char *directory, GError **error);
void mw_run_lock_release(struct mw_run_lock *lock); /* NULL is allowed */

#endif
