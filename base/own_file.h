/*
 * own_file.h - files at names that others can predict, in folders that others may write to.
 *
 * Only a regular file of this user with no other name is opened here: never the target of a
 * symbolic link, a pipe or a device that would have to be waited for, or a file that somebody else
 * put there.
 */
#ifndef MW_BASE_OWN_FILE_H
#define MW_BASE_OWN_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

/* As open(2), closed on exec.  `folder` is an open folder's descriptor, or AT_FDCWD.  `info` (may
 * be NULL) receives fstat's result.  Returns -1 with errno set; *why then says what is wrong, in
 * words that follow "PATH: ".  They stay valid until the thread's next call. */
int mw_own_open_at(int folder, const char *name, int flags, mode_t mode, struct stat *info,
                   const char **why);
int mw_own_open(const char *path, int flags, mode_t mode, const char **why);

/* Whether a name in a folder is a regular file of this user, without opening it. */
bool mw_own_is_file(int folder, const char *name, struct stat *info);
/* Why it is not such a file, in words; NULL if it is one, or does not exist. */
const char *mw_own_why_not(int folder, const char *name);

/* Deletes what a killed process has left of a file that it was writing to `base`, with the names of
 * base/whole_file.c (.BASE.XXXXXX) or GLib (BASE.XXXXXX).  Deletes only files of this user with no
 * other name. */
void mw_own_sweep(int folder, const char *base);

/* Opens a folder itself.  Names before the last may be links, which are the user's choice; -1 with
 * errno if the last one is not a folder. */
int mw_own_open_folder(const char *path);

#endif
