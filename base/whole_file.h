/*
 * whole_file.h - a file that is written whole or not at all.
 *
 * Bytes go to a temporary file in the same folder; commit syncs it and renames it over the target.
 * A target that is not a regular file (a terminal, a pipe, /dev/null) is written directly.
 */
#ifndef MW_BASE_WHOLE_FILE_H
#define MW_BASE_WHOLE_FILE_H

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>

struct mw_file {
    FILE *stream; /* write to it; do not close it */
    char *target; /* private: the path with symbolic links followed */
    char *temporary;
    char *path;
    int descriptor;
    int failure; /* errno of the first write that failed, or 0 */
};

/* Returns NULL with MW_ERROR_IO naming the path and the reason.  End it with commit or abort. */
struct mw_file *mw_file_open(const char *path, GError **error);
/* The same for a name that the user did not choose: only a regular file of this user may already be
 * there; a link is refused. */
struct mw_file *mw_file_open_own(const char *path, GError **error);
/* Both free `file`.  After a failed commit the target is unchanged. */
bool mw_file_commit(struct mw_file *file, GError **error);
void mw_file_abort(struct mw_file *file);

/* Whether mw_file_open would open it, as far as a check can tell; the check leaves nothing behind.
 * It opens only files, since a pipe's reader would take the closing for the end. */
bool mw_file_check(const char *path, GError **error);

/* The same, long before the file is opened.  For a pipe that has a reader, *held is a descriptor
 * that keeps the reader waiting until it is closed; else -1. */
bool mw_file_hold(const char *path, int *held, GError **error);

/* Opens, writes `length` bytes and commits. */
bool mw_file_write(const char *path, const char *text, size_t length, GError **error);

/* The target of a path's links, whether or not it exists; NULL if the path is no link, or leads
 * nowhere.  g_free it. */
char *mw_file_end_of_links(const char *path);

/* Sets MW_ERROR_IO: "cannot write PATH: REASON". */
void mw_file_set_error(GError **error, const char *path, int error_number);

#endif
