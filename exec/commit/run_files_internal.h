/* run_files_internal.h - declarations that the code that moves and deletes a run's files shares;
 * not for others. */
#ifndef MW_EXEC_COMMIT_RUN_FILES_INTERNAL_H
#define MW_EXEC_COMMIT_RUN_FILES_INTERNAL_H

#include "exec/commit/run_files.h"

/* Whether the name is that of the lock of a whole run. */
bool mw_run_files_is_lock(const char *name);
/* Takes the locks of a run's files.  Adds their descriptors to *held, which must be closed even
 * after a failure.  `locked`: the caller holds the whole run's lock. */
bool mw_run_files_lock(const struct mw_run_files *files, int folder, const char *directory,
                       bool locked, GArray *held, GError **error);
bool mw_run_files_sync_folder(int folder, const char *directory, GError **error);

#endif
