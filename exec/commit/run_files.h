/*
 * run_files.h - what runs keep in a directory, whatever their number of ranks and drives: which
 * step a run can continue from, how much it takes, whether a run is using it; and their removal.
 *
 * Files of a run begin with "memwall" or "memwall-rankR" (nvme.h, commit.h); beside them stand a
 * description, which is the caller's, and a lock of the whole run.  Only regular files of this user
 * count; no link is followed.  Data counts where a lock or record of its stem, or a description,
 * stands beside it.  What else has such a name, by chance or as another's, is a stranger: whether
 * there is a run, nobody can say then.
 */
#ifndef MW_EXEC_COMMIT_RUN_FILES_H
#define MW_EXEC_COMMIT_RUN_FILES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/commit/commit.h"

#define MW_RUN_DESCRIPTION "memwall-run.json"

/* Whether a file of a run can have this name. */
bool mw_run_files_is_name(const char *name);

struct mw_run_files {
    GPtrArray *names;         /* char *, names of our files, sorted; other files are not examined */
    int64_t bytes;            /* that they take on their drive */
    int records;              /* of ranks, that hold something: committed, or damaged */
    int ranks;                /* that the run had, as they say; 0 where none says it */
    int64_t step;             /* the newest that all of them hold whole; -1: none */
    bool running;             /* a run is at them now */
    int64_t changed_ns;       /* when one of them was last written, since 1970; 0: none is there */
    char *record;             /* the name of one that holds something; NULL */
    bool has_record;          /* a record's file is, though it may hold nothing */
    bool has_data;            /* state that is not empty is */
    char *stranger;           /* its name; NULL: there is none */
    const char *stranger_why; /* it is a stranger's file; why, in words that follow "NAME: " */
    bool stranger_is_plain;   /* a file of this user, not empty: a run would write over it */
};

/* Changes nothing.  A directory that is not there holds nothing.  False with *error where it cannot
 * be read.  To be cleared in either case. */
bool mw_run_files_look(const char *directory, struct mw_run_files *files, GError **error);
void mw_run_files_clear(struct mw_run_files *files);

/* A rank's newest whole record, or the one before.  False: none can be read; why is reported when
 * the run is opened. */
struct mw_run_record {
    struct mw_commit_record record; /* mw_commit_record_clear */
    int ranks;
    int64_t stripe_bytes; /* by which its extents lie on the drives */
};
bool mw_run_files_record(const char *directory, const char *stem, bool previous,
                         struct mw_run_record *out);

/* Deletes them, records first and durably, and nothing else; false with *error where a run is at
 * them, or the system refuses.  Of a run that the caller has locked the lock stays. */
bool mw_run_files_remove(const char *directory, bool locked, GError **error);

/* A directory is one run's, from before it looks for what others have left to its end. */
struct mw_run_lock;
struct mw_run_lock *mw_run_lock_take(const char *directory, GError **error);
void mw_run_lock_release(struct mw_run_lock *lock); /* NULL is allowed */

#endif
