/*
 * memory.h - host memory of a run: how much may be had, and arenas that hold it.
 *
 * A run reserves its arenas once, before its first step, and gives them back at its end: slots lie
 * at the plan's places inside, so nothing is allocated while it runs.  An arena has the size asked
 * for, rounded up to a 4 KiB page and no more; it starts on a 2 MiB border, is made of huge pages
 * as far as the system has them, and every page is there before the reservation returns.
 */
#ifndef MW_EXEC_MEMORY_MEMORY_H
#define MW_EXEC_MEMORY_MEMORY_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* --- room --- */

struct mw_memory_room {
    int64_t bytes;           /* what this process may still take */
    int64_t huge_page_bytes; /* set aside by the system for huge pages (hugetlb), not in bytes */
    char bound[320];         /* what says so, with its numbers */
};

/* The least of MemAvailable, the cgroup's limits (v1 and v2, its parents' too) and RLIMIT_AS and
 * RLIMIT_DATA.  Page cache counts as room: the kernel drops it. */
void mw_memory_room(struct mw_memory_room *room);

/* The same before a run starts its threads: of the limits' address space it leaves them their
 * stacks, and libraries what they take. */
void mw_memory_room_of_run(struct mw_memory_room *room);

/* How many bytes `need_bytes` are too many; 0: they fit. */
int64_t mw_memory_short_bytes(const struct mw_memory_room *room, int64_t need_bytes);

/* The most that this process has had in memory, huge pages included; -1: not known. */
int64_t mw_memory_resident_peak_bytes(void);

/* --- arenas --- */

struct mw_arena {
    char *base; /* NULL: none */
    int64_t bytes;
    int64_t huge_bytes; /* of these on huge pages */
    bool locked;        /* cannot be swapped out */
    bool pinned;        /* a device reaches it (exec/trainer/places.h) */
    char *notice;       /* a line for the user if it is not all that was wished; or NULL */
};

/* Zeroed memory.  False with *error (MW_ERROR_DEVICE) and an empty arena if there is no room: the
 * message has the numbers. `name` stands in messages. */
bool mw_arena_reserve(struct mw_arena *arena, const char *name, int64_t bytes, GError **error);

/* An arena that was never reserved, or all zero, is allowed. */
void mw_arena_release(struct mw_arena *arena);

#endif
