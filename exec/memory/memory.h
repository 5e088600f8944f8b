/*
 * memory.h - host memory of a run: how much is available, and the arenas that hold it.
 *
 * A run reserves its arenas once, before its first step, and gives them back at its end.  Slots lie
 * in them at the plan's places, so nothing is allocated while it runs.  An arena has the size asked
 * for, rounded up to a 4 KiB page and no more.  It starts on a 2 MiB border and is made of huge
 * pages as far as the system has them; every page is resident before the reservation returns.
 */
#ifndef MW_EXEC_MEMORY_MEMORY_H
#define MW_EXEC_MEMORY_MEMORY_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* --- room --- */

struct mw_memory_available {
    int64_t bytes;           /* what this process may still take */
    int64_t huge_page_bytes; /* that the system sets aside (hugetlb), not counted in bytes */
    char bound[320];         /* which limit that is, with its numbers */
};

/* The least of MemAvailable, the cgroup's limits (v1 and v2, its parents' too) and RLIMIT_AS and
 * RLIMIT_DATA.  Page cache counts as room: the kernel drops it. */
void mw_memory_available(struct mw_memory_available *available);

/* The same before a run starts its threads: less the address space that their stacks and the
 * libraries will take, where a limit bounds it. */
void mw_memory_available_to_run(struct mw_memory_available *available);

/* By how many bytes `need_bytes` exceed what is available; 0: they fit. */
int64_t mw_memory_short_bytes(const struct mw_memory_available *available, int64_t need_bytes);

/* This process's resident memory, huge pages included: now, and at its peak; -1: not known. */
int64_t mw_memory_resident_bytes(void);
int64_t mw_memory_resident_peak_bytes(void);

/* --- arenas --- */

struct mw_arena {
    char *base; /* NULL: none */
    int64_t bytes;
    int64_t huge_bytes; /* of these on huge pages */
    bool locked;        /* cannot be swapped out */
    bool pinned;        /* a device reaches it (exec/trainer/storage.h) */
    char *notice;       /* one line for the user where huge pages or the lock fell short; or NULL */
};

/* Zeroed memory.  False with *error (MW_ERROR_DEVICE) and an empty arena if there is no room: the
 * message has the numbers, and begins with `name`. */
bool mw_arena_reserve(struct mw_arena *arena, const char *name, int64_t bytes, GError **error);

/* An arena that was never reserved, or all zero, is allowed. */
void mw_arena_release(struct mw_arena *arena);

#endif
