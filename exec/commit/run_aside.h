/*
 * run_aside.h - sets a run's files aside in their directory while another run starts there, and
 * puts them back if that run does not begin.
 *
 * The files move by renames into a folder beside them.  Its name says what a kill has left there:
 *
 *     memwall-moving     the files beside it belong to the same run; both together are all of it
 *     memwall-replaced   it has all of the run; files beside it are of a run that has not begun
 *     memwall-discarded  the other run has begun, and this one is being deleted
 *
 * One rename takes the folder from one name to the next.  No file of the other run exists before
 * the second name or remains after it.  So a process that finds one of the folders knows what to
 * do.
 *
 * The caller holds the lock of the directory (mw_run_lock_take), or belongs to a run that does.
 */
#ifndef MW_EXEC_COMMIT_RUN_ASIDE_H
#define MW_EXEC_COMMIT_RUN_ASIDE_H

#include <glib.h>
#include <stdbool.h>

enum mw_run_aside {
    MW_RUN_ASIDE_NONE,
    MW_RUN_ASIDE_MOVING,
    MW_RUN_ASIDE_REPLACED,
    MW_RUN_ASIDE_DISCARDED,
};

/* Which folder exists; if two do, the first of them.  Changes nothing and needs no lock. */
enum mw_run_aside mw_run_aside_look(const char *directory);
/* Path of the folder.  g_free it. */
char *mw_run_aside_path(const char *directory, enum mw_run_aside which);

/* From nothing, or moving, to replaced; does nothing in a directory without a run.  Returns false
 * with *error if a run uses the files, or the system refuses; files that were moved wait to be put
 * back. */
bool mw_run_aside_begin(const char *directory, GError **error);
/* From replaced, or moving, back to the original state.  Deletes files of another run beside the
 * folder. */
bool mw_run_aside_return(const char *directory, GError **error);
/* From replaced to discarded.  Also returns true if another process was first. */
bool mw_run_aside_discard(const char *directory, GError **error);
/* From discarded to nothing. */
bool mw_run_aside_delete(const char *directory, GError **error);

#endif
