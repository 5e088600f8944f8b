/* internal.h - what the files of the memory layer share; not for others. */
#ifndef MW_EXEC_MEMORY_INTERNAL_H
#define MW_EXEC_MEMORY_INTERNAL_H

#include <inttypes.h>

#include "exec/memory/memory.h"

/* The number in a file; -1 if there is none, INT64_MAX for "max". */
int64_t mw_memory_read_number(const char *path);
/* The number after `key` at the start of a line; -1 if there is none. */
int64_t mw_memory_find_number(const char *text, const char *key);

/* Lowers the room to `bytes` where that is less; `format` is printf's and says why. */
G_GNUC_PRINTF(3, 4)
void mw_memory_bound(struct mw_memory_available *available, int64_t bytes, const char *format, ...);

void mw_memory_bound_by_cgroups(const char *root, struct mw_memory_available *available);

/* mw_memory_available with /proc and /sys looked up below `root`: for tests. */
void mw_memory_available_under(const char *root, struct mw_memory_available *available);

#endif
