/*
 * run_aside.h - a run's files, set aside in their directory while another run starts in it, and put
 * back where that one does not begin.
 *
 * They move by renames, into a folder beside them whose name says what a kill has left there:
 *
 *     memwall-moving     what lies beside it is the same run's: both together are all of it
 *     memwall-replaced   all of the run is in it; beside it lies what a run has that has not begun
 *     memwall-discarded  the other run has begun: this one is on its way out
 *
 * The folder goes from one name to the next by one rename, and nothing of the other run is made
 * before, or left behind, the second.  So whoever finds one of them knows what to do.
 *
 * The caller holds the lock of the directory (mw_run_lock_take), or is of a run that does.
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

/* Which there is: of two, the first of them.  Changes nothing, and needs no lock. */
enum mw_run_aside mw_run_aside_look(const char *directory);
/* Its path.  g_free it. */
char *mw_run_aside_path(const char *directory, enum mw_run_aside which);

/* From nothing, or moving, to replaced; of a directory without a run nothing comes.  False with
 * *error: a run is at the files, or the system refuses; what was moved waits to be put back. */
bool mw_run_aside_begin(const char *directory, GError **error);
/* From replaced, or moving, to as it was: files of a run beside it are deleted. */
bool mw_run_aside_return(const char *directory, GError **error);
/* From replaced to discarded: true also where another process was first. */
bool mw_run_aside_discard(const char *directory, GError **error);
/* From discarded to nothing. */
bool mw_run_aside_delete(const char *directory, GError **error);

#endif
