#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/error.h"
#include "exec/memory/internal.h"

static const int64_t PAGE_BYTES = 4096;
static const int64_t HUGE_BYTES = INT64_C(2) << 20;

static int64_t
round_up(int64_t bytes, int64_t unit_bytes)
{
    return (bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
}

/* Addresses without memory, on a huge page's border. */
static char *
reserve_addresses(int64_t bytes)
{
    const int64_t reserved_bytes = bytes + HUGE_BYTES;
    char *start = mmap(NULL, (size_t)reserved_bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (start == MAP_FAILED)
        return NULL;
    const int64_t lead_bytes =
        round_up((int64_t)(uintptr_t)start, HUGE_BYTES) - (int64_t)(uintptr_t)start;
    if (lead_bytes)
        munmap(start, (size_t)lead_bytes);
    munmap(start + lead_bytes + bytes, (size_t)(reserved_bytes - lead_bytes - bytes));
    return start + lead_bytes;
}

static bool
map_at(char *place, int64_t bytes, int flags)
{
    return !bytes || mmap(place, (size_t)bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | flags, -1, 0) != MAP_FAILED;
}

/* The last part, smaller than a huge page, is of ordinary pages: nothing is rounded up to 2 MiB. */
static int64_t
map_huge(char *base, int64_t bytes, const struct mw_memory_available *available)
{
    const int64_t huge_bytes = bytes / HUGE_BYTES * HUGE_BYTES;

    if (!huge_bytes || huge_bytes > available->huge_page_bytes)
        return 0;
    return map_at(base, huge_bytes, MAP_HUGETLB) ? huge_bytes : 0;
}

/* Makes every page resident; false with errno if memory ran out on the way. */
static bool
populate(char *base, int64_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    if (!bytes || !madvise(base, (size_t)bytes, MADV_POPULATE_WRITE))
        return true;
    if (errno != EINVAL)
        return false;
#endif
    for (int64_t at = 0; at < bytes; at += PAGE_BYTES)
        *(volatile char *)(base + at) = 0;
    return true;
}

/* Bytes on transparent huge pages, as smaps reports them for the mappings in the arena. */
static int64_t
count_transparent(const char *base, int64_t bytes)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    char text[512];
    bool inside = false;
    int64_t kib = 0, one_kib;

    while (file && fgets(text, sizeof text, file)) {
        uint64_t start, end;
        if (sscanf(text, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2)
            inside = start < (uintptr_t)base + (uint64_t)bytes && end > (uintptr_t)base;
        else if (inside && sscanf(text, "AnonHugePages: %" SCNd64, &one_kib) == 1)
            kib += one_kib;
    }
    if (file)
        fclose(file);
    return MIN(kib * 1024, bytes);
}

static void
add_notice(struct mw_arena *arena, const char *name, const char *text)
{
    char *both = arena->notice ? g_strdup_printf("%s; %s", arena->notice, text)
                               : g_strdup_printf("%s: %s", name, text);

    g_free(arena->notice);
    arena->notice = both;
}

static void
lock(struct mw_arena *arena, const char *name, int64_t mapped_bytes)
{
    struct rlimit limit = {0, 0};

    arena->locked = !mlock(arena->base, (size_t)mapped_bytes);
    if (arena->locked)
        return;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    g_autofree char *text =
        g_strdup_printf("%" PRId64 " bytes are not locked in memory: RLIMIT_MEMLOCK (ulimit -l) "
                        "is %" PRIu64 " bytes",
                        mapped_bytes, (uint64_t)limit.rlim_cur);
    add_notice(arena, name, text);
}

static void
tell_pages(struct mw_arena *arena, const char *name)
{
    if (arena->huge_bytes < arena->bytes / HUGE_BYTES * HUGE_BYTES / 2)
        add_notice(arena, name,
                   "most of it is not on huge pages (/sys/kernel/mm/transparent_hugepage/enabled): "
                   "I/O to it is slower");
}

static bool
refuse(GError **error, const char *name, int64_t bytes, const char *reason)
{
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE, "%s: %" PRId64 " bytes of memory: %s", name,
                bytes, reason);
    return false;
}

static bool
check_fits(const char *name, int64_t bytes, const struct mw_memory_available *available,
           GError **error)
{
    const int64_t short_bytes = mw_memory_short_bytes(available, bytes);

    if (!short_bytes)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "%s: needs %" PRId64 " bytes of memory, %" PRId64 " are available (%s): %" PRId64
                " bytes short",
                name, bytes, available->bytes, available->bound, short_bytes);
    return false;
}

static bool
make(struct mw_arena *arena, const char *name, int64_t mapped_bytes,
     const struct mw_memory_available *available, GError **error)
{
    const int64_t huge_bytes = map_huge(arena->base, mapped_bytes, available);
    char *rest = arena->base + huge_bytes;
    const int64_t rest_bytes = mapped_bytes - huge_bytes;

    if (!check_fits(name, rest_bytes, available, error))
        return false;
    if (!map_at(rest, rest_bytes, 0))
        return refuse(error, name, rest_bytes, g_strerror(errno));
    madvise(rest, (size_t)rest_bytes, MADV_HUGEPAGE);
    if (!populate(arena->base, mapped_bytes))
        return refuse(error, name, mapped_bytes, g_strerror(errno));
    lock(arena, name, mapped_bytes);
    arena->huge_bytes = huge_bytes + count_transparent(rest, rest_bytes);
    arena->huge_bytes = MIN(arena->huge_bytes, arena->bytes);
    tell_pages(arena, name);
    return true;
}

bool
mw_arena_reserve(struct mw_arena *arena, const char *name, int64_t bytes, GError **error)
{
    const int64_t mapped_bytes = round_up(bytes, PAGE_BYTES);
    struct mw_memory_available available;

    *arena = (struct mw_arena){0};
    if (bytes < 0 || bytes > INT64_MAX / 2)
        return refuse(error, name, bytes, "not a size");
    if (!bytes)
        return true;
    mw_memory_available(&available);
    arena->base = reserve_addresses(mapped_bytes);
    if (!arena->base)
        return check_fits(name, bytes, &available, error) &&
               refuse(error, name, bytes, g_strerror(errno));
    arena->bytes = bytes;
    if (make(arena, name, mapped_bytes, &available, error))
        return true;
    mw_arena_release(arena);
    return false;
}

void
mw_arena_release(struct mw_arena *arena)
{
    if (arena->base)
        munmap(arena->base, (size_t)round_up(arena->bytes, PAGE_BYTES));
    g_free(arena->notice);
    *arena = (struct mw_arena){0};
}
