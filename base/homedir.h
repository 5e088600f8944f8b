/*
 * homedir.h - the places of this user's own files, by the XDG base directory specification.  As it
 * asks, a variable that is not an absolute path is ignored.
 */
#ifndef MW_BASE_HOMEDIR_H
#define MW_BASE_HOMEDIR_H

#include <glib.h>
#include <stdbool.h>

enum mw_homedir { MW_HOMEDIR_CONFIG, MW_HOMEDIR_STATE };

/* $XDG_STATE_HOME/memwall, or else ~/.local/state/memwall; the other folders likewise.  g_free
 * it. */
char *mw_homedir_path(enum mw_homedir which);

/* Creates a folder in it, and its parents, for this user alone, but no home directory.  If the
 * variable is not set and the home directory is missing, it returns false, and *error names the
 * variable to set, or `otherwise`, an option to use instead. */
bool mw_homedir_make(enum mw_homedir which, const char *folder, const char *otherwise,
                     GError **error);

#endif
