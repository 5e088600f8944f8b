#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "exec/memory/internal.h"

#define USUAL_STACK_BYTES (INT64_C(8) << 20)
#define OTHER_THREADS 12 /* of lanes, drives and MPI */
#define LIBRARIES_BYTES (INT64_C(64) << 20)

int64_t
mw_memory_read_number(const char *path)
{
    g_autofree char *text = NULL;

    if (!g_file_get_contents(path, &text, NULL, NULL))
        return -1;
    if (g_str_has_prefix(text, "max"))
        return INT64_MAX;
    return g_ascii_isdigit(*text) ? g_ascii_strtoll(text, NULL, 10) : -1;
}

int64_t
mw_memory_find_number(const char *text, const char *key)
{
    const size_t length = strlen(key);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, key, length) && (line[length] == ' ' || line[length] == ':'))
            return g_ascii_strtoll(line + length + 1, NULL, 10);
    }
    return -1;
}

void
mw_memory_bound(struct mw_memory_available *available, int64_t bytes, const char *format, ...)
{
    va_list arguments;

    if (bytes >= available->bytes)
        return;
    available->bytes = MAX(bytes, 0);
    va_start(arguments, format);
    vsnprintf(available->bound, sizeof available->bound, format, arguments);
    va_end(arguments);
}

static void
bound_by_machine(const char *root, struct mw_memory_available *available)
{
    g_autofree char *path = g_build_filename(root, "proc/meminfo", NULL);
    g_autofree char *text = NULL;

    if (!g_file_get_contents(path, &text, NULL, NULL))
        return;
    const int64_t available_kib = mw_memory_find_number(text, "MemAvailable");
    const int64_t free_pages = mw_memory_find_number(text, "HugePages_Free");
    const int64_t reserved_pages = mw_memory_find_number(text, "HugePages_Rsvd");
    const int64_t page_kib = mw_memory_find_number(text, "Hugepagesize");

    if (available_kib >= 0)
        mw_memory_bound(available, available_kib * 1024, "MemAvailable of the machine");
    if (free_pages > 0 && page_kib > 0)
        available->huge_page_bytes = MAX(free_pages - MAX(reserved_pages, 0), 0) * page_kib * 1024;
}

/* Address space that no plan counts: stacks of all threads, OpenMP's included, and what libraries
 * take while they run.  Some libraries do not survive an allocation that fails. */
static int64_t
uncounted_bytes(void)
{
    const int64_t threads = OTHER_THREADS + 2 * (int64_t)g_get_num_processors();
    struct rlimit limit;
    int64_t stack_bytes = USUAL_STACK_BYTES;

    if (!getrlimit(RLIMIT_STACK, &limit) && limit.rlim_cur < INT64_MAX / 2 / (rlim_t)threads)
        stack_bytes = (int64_t)limit.rlim_cur;
    return LIBRARIES_BYTES + threads * stack_bytes;
}

static void
bound_by_limit(struct mw_memory_available *available, const struct rlimit *limit,
               int64_t used_bytes, int64_t kept_bytes, const char *name)
{
    if (limit->rlim_cur < INT64_MAX)
        mw_memory_bound(available, (int64_t)limit->rlim_cur - used_bytes - kept_bytes,
                        "%s of %" PRId64 " bytes, %" PRId64 " in use, %" PRId64
                        " kept for threads and libraries",
                        name, (int64_t)limit->rlim_cur, used_bytes, kept_bytes);
}

/* Fields 1 and 6 of statm: pages of address space, and of data and stack. */
static void
bound_by_limits(const char *root, int64_t kept_bytes, struct mw_memory_available *available)
{
    g_autofree char *path = g_build_filename(root, "proc/self/statm", NULL);
    g_autofree char *text = NULL;
    struct rlimit limit;
    int64_t space_pages, data_pages;
    const int64_t page_bytes = sysconf(_SC_PAGESIZE);

    if (!g_file_get_contents(path, &text, NULL, NULL) ||
        sscanf(text, "%" SCNd64 " %*d %*d %*d %*d %" SCNd64, &space_pages, &data_pages) != 2)
        return;
    if (!getrlimit(RLIMIT_AS, &limit))
        bound_by_limit(available, &limit, space_pages * page_bytes, kept_bytes,
                       "RLIMIT_AS (ulimit -v)");
    if (!getrlimit(RLIMIT_DATA, &limit))
        bound_by_limit(available, &limit, data_pages * page_bytes, kept_bytes,
                       "RLIMIT_DATA (ulimit -d)");
}

static void
find_available(const char *root, int64_t kept_bytes, struct mw_memory_available *available)
{
    *available =
        (struct mw_memory_available){.bytes = INT64_MAX, .bound = "no limit could be read"};
    bound_by_machine(root, available);
    mw_memory_bound_by_cgroups(root, available);
    bound_by_limits(root, kept_bytes, available);
}

void
mw_memory_available_under(const char *root, struct mw_memory_available *available)
{
    find_available(root, 0, available);
}

void
mw_memory_available(struct mw_memory_available *available)
{
    find_available("/", 0, available);
}

void
mw_memory_available_to_run(struct mw_memory_available *available)
{
    find_available("/", uncounted_bytes(), available);
}

int64_t
mw_memory_short_bytes(const struct mw_memory_available *available, int64_t need_bytes)
{
    return MAX(need_bytes - available->bytes, 0);
}

/* Huge pages that the system sets aside (hugetlb) are not part of what it says of others. */
static int64_t
resident_bytes(const char *key)
{
    g_autofree char *text = NULL;

    if (!g_file_get_contents("/proc/self/status", &text, NULL, NULL))
        return -1;
    const int64_t other_kib = mw_memory_find_number(text, key);
    const int64_t huge_kib = mw_memory_find_number(text, "HugetlbPages");

    return other_kib < 0 ? -1 : (other_kib + MAX(huge_kib, 0)) * 1024;
}

int64_t
mw_memory_resident_bytes(void)
{
    return resident_bytes("VmRSS");
}

int64_t
mw_memory_resident_peak_bytes(void)
{
    return resident_bytes("VmHWM");
}
