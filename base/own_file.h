/*
 * own_file.h - files at names that others can foretell, in folders that others may write to.
 *
 * What is opened here is a regular file of this user with no other name: never what a symbolic link
 * names, a pipe or a device that would be waited for, or a file that somebody else put there.
 */
#ifndef MW_BASE_OWN_FILE_H
#define MW_BASE_OWN_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

/* As open(2), closed on exec.  `folder` is of an open folder, or AT_FDCWD.  `info` (may be NULL) is
 * what fstat says.  -1: errno is set and *why says what is wrong with it, in words that go behind
 * "PATH: "; they stay until the thread's next call. */
int mw_own_open_at(int folder, const char *name, int flags, mode_t mode, struct stat *info,
                   const char **why);
int mw_own_open(const char *path, int flags, mode_t mode, const char **why);

/* Whether a name in a folder is a regular file of this user, without opening it. */
bool mw_own_is_file(int folder, const char *name, struct stat *info);
/* Why it is none, in words; NULL: it is one, or is not there. */
const char *mw_own_why_not(int folder, const char *name);

/* Deletes what a killed process has left of a file that it was writing to `base`, under the
 * names of base/whole_file.c (.BASE.XXXXXX) or GLib (BASE.XXXXXX): of this user, and with no
 * other name. */
void mw_own_sweep(int folder, const char *base);

/* Of a folder itself, which a name before the last may be a link to, as the user wishes: -1 with
 * errno where it is none. */
int mw_own_open_folder(const char *path);

#endif
