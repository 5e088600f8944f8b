/*
 * datadir.h - finds presets and profiles in $MEMWALL_DATA, the source tree that the binary was
 * built from, or the installed data folder, in this order.
 */
#ifndef MW_BASE_DATADIR_H
#define MW_BASE_DATADIR_H

/* Full path of `folder`/`file` in the first data folder that has it, else NULL.  g_free it. */
char *mw_datadir_find(const char *folder, const char *file);

/* Sorted base names (without `suffix`) of all files in `folder` ending in `suffix`; g_strfreev. */
char **mw_datadir_list(const char *folder, const char *suffix);

#endif
