/*
 * datadir.h - finds presets and profiles: in $MEMWALL_DATA, then in the prefix that this program or
 * library is installed in, wherever that was moved to; without one in the source tree that it was
 * built from, or in the folder that it was configured for.
 */
#ifndef MW_BASE_DATADIR_H
#define MW_BASE_DATADIR_H

/* Full path of `folder`/`file` in the first data folder that has it, else NULL.  g_free it. */
char *mw_datadir_find(const char *folder, const char *file);

/* Sorted base names (without `suffix`) of all files in `folder` ending in `suffix`; g_strfreev. */
char **mw_datadir_list(const char *folder, const char *suffix);

#endif
