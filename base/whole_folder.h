/*
 * whole_folder.h - a folder of files that is written whole or not at all.
 *
 * Files go to a temporary folder beside it, which then takes its name.
 */
#ifndef MW_BASE_WHOLE_FOLDER_H
#define MW_BASE_WHOLE_FOLDER_H

#include <glib.h>
#include <stdbool.h>

struct mw_folder_file {
    const char *name, *text; /* borrowed */
    bool runs;               /* may be executed */
};

/* Writes a folder that does not exist, or is empty.  `replaces` says of each file of one that is
 * there whether it may go (NULL: none may): else the folder is refused, and names the file.  The
 * exchange is one step: there is always the old folder or the new one.  Where none may go, what
 * another process puts into an empty folder meanwhile stays, and the writing fails. */
bool mw_folder_write(const char *path, const struct mw_folder_file *files, size_t count,
                     bool (*replaces)(const char *name), GError **error);

/* Whether mw_folder_write would refuse what is there. */
bool mw_folder_check(const char *path, bool (*replaces)(const char *name), GError **error);

#endif
