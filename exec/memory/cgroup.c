#include <string.h>

#include "exec/memory/internal.h"

/*
 * Control groups, as in the kernel's Documentation/admin-guide/cgroup-v1/memory.rst and
 * cgroup-v2.rst: a process is bound by the limits of its group and of every group above.
 */
struct version {
    const char *type; /* of the file system */
    const char *limit, *usage, *inactive, *active;
};

static const struct version v1 = {"cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file", "total_active_file"};
static const struct version v2 = {"cgroup2", "memory.max", "memory.current", "inactive_file",
                                  "active_file"};

/* v1 says "no limit" with the largest whole number of pages. */
static const int64_t NO_LIMIT_BYTES = INT64_C(1) << 60;

static int64_t
read_in(const char *folder, const char *name)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);

    return mw_memory_read_number(path);
}

static int64_t
cache_bytes(const char *folder, const struct version *version)
{
    g_autofree char *path = g_build_filename(folder, "memory.stat", NULL);
    g_autofree char *text = NULL;

    if (!g_file_get_contents(path, &text, NULL, NULL))
        return 0;
    return MAX(mw_memory_find_number(text, version->inactive), 0) +
           MAX(mw_memory_find_number(text, version->active), 0);
}

static void
bound_by_group(const char *folder, const struct version *version,
               struct mw_memory_available *available)
{
    const int64_t limit_bytes = read_in(folder, version->limit);
    const int64_t usage_bytes = read_in(folder, version->usage);

    if (limit_bytes < 0 || limit_bytes >= NO_LIMIT_BYTES || usage_bytes < 0)
        return;
    mw_memory_bound(available, limit_bytes - usage_bytes + cache_bytes(folder, version),
                    "the cgroup limit of %" PRId64 " bytes in %s/%s, %" PRId64 " in use",
                    limit_bytes, folder, version->limit, usage_bytes);
}

static void
bound_by_chain(const char *mount, const char *group, const struct version *version,
               struct mw_memory_available *available)
{
    g_autofree char *folder = g_build_filename(mount, group, NULL);

    /* In a container the group may be named from outside: then the mount is the group. */
    if (!g_file_test(folder, G_FILE_TEST_IS_DIR)) {
        bound_by_group(mount, version, available);
        return;
    }
    while (strlen(folder) >= strlen(mount)) {
        bound_by_group(folder, version, available);
        char *slash = strrchr(folder, '/');
        if (!slash || slash == folder)
            return;
        *slash = 0;
    }
}

/* The path of this process's group: of a v1 line "N:memory:PATH", of the v2 line "0::PATH". */
static char *
find_group(const char *text, const struct version *version)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

    for (char **line = lines; *line; line++) {
        g_auto(GStrv) parts = g_strsplit(*line, ":", 3);
        if (g_strv_length(parts) < 3)
            continue;
        g_auto(GStrv) controllers = g_strsplit(parts[1], ",", -1);
        if (version == &v2 ? !strcmp(parts[0], "0") && !*parts[1]
                           : g_strv_contains((const char *const *)controllers, "memory"))
            return g_strdup(parts[2]);
    }
    return NULL;
}

/* mountinfo: ID PARENT MAJOR:MINOR ROOT MOUNT OPTIONS [FIELD...] - TYPE SOURCE SUPER_OPTIONS */
static bool
is_mount_of(char **words, const struct version *version)
{
    const guint count = g_strv_length(words);
    guint dash = 6;

    while (dash < count && strcmp(words[dash], "-"))
        dash++;
    if (dash + 3 >= count || strcmp(words[dash + 1], version->type))
        return false;
    g_auto(GStrv) options = g_strsplit(words[dash + 3], ",", -1);
    return version == &v2 || g_strv_contains((const char *const *)options, "memory");
}

static void
bound_by_version(const char *root, const char *groups, const char *mounts,
                 const struct version *version, struct mw_memory_available *available)
{
    g_autofree char *group = find_group(groups, version);
    g_auto(GStrv) lines = g_strsplit(mounts, "\n", -1);

    for (char **line = lines; group && *line; line++) {
        g_auto(GStrv) words = g_strsplit(*line, " ", -1);
        if (!is_mount_of(words, version))
            continue;
        const char *inside = group;
        if (strcmp(words[3], "/") && g_str_has_prefix(group, words[3]))
            inside += strlen(words[3]);
        g_autofree char *mount = g_build_filename(root, words[4], NULL);
        bound_by_chain(mount, inside, version, available);
        return;
    }
}

void
mw_memory_bound_by_cgroups(const char *root, struct mw_memory_available *available)
{
    g_autofree char *group_path = g_build_filename(root, "proc/self/cgroup", NULL);
    g_autofree char *mount_path = g_build_filename(root, "proc/self/mountinfo", NULL);
    g_autofree char *groups = NULL, *mounts = NULL;

    if (!g_file_get_contents(group_path, &groups, NULL, NULL) ||
        !g_file_get_contents(mount_path, &mounts, NULL, NULL))
        return;
    bound_by_version(root, groups, mounts, &v1, available);
    bound_by_version(root, groups, mounts, &v2, available);
}
