/*
 * whole_folder.h - a folder of files that is written whole or not at all.
 *
 * Files go to a temporary folder beside it (NAME.memwall-XXXXXX), which then takes its name.  With
 * them goes a list of their digests, MW_FOLDER_LIST, by which a later writer knows what it may
 * replace: files that nobody has changed since.  A writer holds a lock on its temporary folder;
 * those that nobody holds are of writers that were killed, and the next one removes them.
 */
#ifndef MW_BASE_WHOLE_FOLDER_H
#define MW_BASE_WHOLE_FOLDER_H

#include <glib.h>
#include <stdbool.h>

struct mw_folder_file {
    const char *name, *text; /* borrowed */
    bool runs;               /* may be executed */
};

/* As sha256sum -c reads it. */
#define MW_FOLDER_LIST "memwall.sha256"

/* Writes a folder that does not exist, or is empty; with `replace` also one that has nothing but
 * what was written to it so, as it was written: else it is refused, and the file is named.  The
 * exchange is one step: there is always the old folder or the new one.  What another process puts
 * there meanwhile stays: without `replace` in the folder, and the writing fails; with it under the
 * temporary name.  `stops` is asked again and again (NULL: never): true ends the writing with
 * MW_ERROR_IO, and nothing is left. */
bool mw_folder_write(const char *path, const struct mw_folder_file *files, size_t count,
                     bool replace, bool (*stops)(void), GError **error);

/* Whether mw_folder_write would refuse what is there. */
bool mw_folder_check(const char *path, bool replace, GError **error);

#endif
