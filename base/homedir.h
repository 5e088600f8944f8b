/*
 * homedir.h - where this user's own files go, by the XDG base directory specification: a variable
 * that is not an absolute path is ignored, as it asks.
 */
#ifndef MW_BASE_HOMEDIR_H
#define MW_BASE_HOMEDIR_H

#include <glib.h>
#include <stdbool.h>

enum mw_homedir { MW_HOMEDIR_CONFIG, MW_HOMEDIR_STATE };

/* $XDG_STATE_HOME/memwall, or else ~/.local/state/memwall; likewise of the others.  g_free it. */
char *mw_homedir_path(enum mw_homedir which);

/* Makes a folder in there, and its parents, for this user alone.  Not a home: where the variable
 * says nothing and the home directory is not there, false with *error, which names the variable to
 * set, or `otherwise`, an option that does. */
bool mw_homedir_make(enum mw_homedir which, const char *folder, const char *otherwise,
                     GError **error);

#endif
