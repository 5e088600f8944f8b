/* Room, arenas and the ledger of host memory. */
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "exec/memory/internal.h"
#include "nvme_fixture.h"
#include "says.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* --- room, read from folders that look like a machine --- */

static void
put(const char *root, const char *path, const char *text)
{
    g_autofree char *full = g_build_filename(root, path, NULL);
    g_autofree char *folder = g_path_get_dirname(full);

    g_assert_cmpint(g_mkdir_with_parents(folder, 0700), ==, 0);
    g_assert_true(g_file_set_contents(full, text, -1, NULL));
}

static char *
make_machine(const char *groups, const char *mounts)
{
    g_autofree char *here = g_get_current_dir();
    char *root = g_build_filename(here, "memory-test-XXXXXX", NULL);

    g_assert_nonnull(g_mkdtemp(root));
    put(root, "proc/meminfo",
        "MemTotal:       32000000 kB\nMemAvailable:   20000000 kB\n"
        "HugePages_Free:       7\nHugePages_Rsvd:        2\nHugepagesize:       2048 kB\n");
    put(root, "proc/self/cgroup", groups);
    put(root, "proc/self/mountinfo", mounts);
    return root;
}

static void
expect_available(char *root, int64_t bytes, const char *bound)
{
    struct mw_memory_available available;

    mw_memory_available_under(root, &available);
    g_assert_cmpint(available.bytes, ==, bytes);
    mw_test_says(available.bound, bound);
    mw_nvme_fixture_remove(root);
    g_free(root);
}

static void
test_machine(void)
{
    char *root = make_machine("", "");
    struct mw_memory_available available;

    mw_memory_available_under(root, &available);
    g_assert_cmpint(available.huge_page_bytes, ==, 5 * 2048 * INT64_C(1024));
    g_assert_cmpint(mw_memory_short_bytes(&available, available.bytes), ==, 0);
    g_assert_cmpint(mw_memory_short_bytes(&available, available.bytes + 5), ==, 5);
    expect_available(root, INT64_C(20000000) * 1024, "MemAvailable");
}

static const char V2_MOUNT[] = "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 none rw\n";

/* The limit stands in the group above. */
static void
test_cgroup_2(void)
{
    char *root = make_machine("0::/user/job\n", V2_MOUNT);

    put(root, "sys/fs/cgroup/user/job/memory.max", "max\n");
    put(root, "sys/fs/cgroup/user/job/memory.current", "5\n");
    put(root, "sys/fs/cgroup/user/memory.max", "6000000000\n");
    put(root, "sys/fs/cgroup/user/memory.current", "2000000000\n");
    put(root, "sys/fs/cgroup/user/memory.stat",
        "anon 1500000000\nfile 500000000\ninactive_file 300000000\nactive_file 100000000\n");
    expect_available(root, 4400000000, "user/memory.max, 2000000000 in use");
}

static void
test_cgroup_1(void)
{
    char *root =
        make_machine("8:cpu,cpuacct:/a\n4:memory:/box\n0::/\n",
                     "33 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                     "35 31 0:32 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n"
                     "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");

    put(root, "sys/fs/cgroup/memory/box/memory.limit_in_bytes", "3000000000\n");
    put(root, "sys/fs/cgroup/memory/box/memory.usage_in_bytes", "1000000000\n");
    put(root, "sys/fs/cgroup/memory/box/memory.stat",
        "total_inactive_file 10\ntotal_active_file 20\n");
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "8000000000\n");
    expect_available(root, 2000000030, "the cgroup limit of 3000000000 bytes");
}

/* The group is named from outside, the mount shows it as its root; and the same with a root that
 * is not shown at all. */
static void
test_cgroup_container(void)
{
    char *root = make_machine("4:memory:/docker/abc/inner\n",
                              "35 31 0:32 /docker/abc /mem rw - cgroup cgroup rw,memory\n");

    put(root, "mem/inner/memory.limit_in_bytes", "700\n");
    put(root, "mem/inner/memory.usage_in_bytes", "100\n");
    expect_available(root, 600, "mem/inner/");
    root = make_machine("0::/outside\n", V2_MOUNT);
    put(root, "sys/fs/cgroup/memory.max", "500\n");
    put(root, "sys/fs/cgroup/memory.current", "800\n");
    expect_available(root, 0, "500 bytes");
}

/* --- arenas --- */

static void
test_arena(void)
{
    const int64_t sizes_bytes[] = {1, 4096, 4097, 2 << 20, (2 << 20) + 1, (7 << 20) - 3};

    for (unsigned i = 0; i < G_N_ELEMENTS(sizes_bytes); i++) {
        struct mw_arena arena;
        GError *error = NULL;

        g_assert_true(mw_arena_reserve(&arena, "test", sizes_bytes[i], &error));
        g_assert_no_error(error);
        g_assert_cmpint(arena.bytes, ==, sizes_bytes[i]);
        g_assert_cmpuint((uintptr_t)arena.base % (2 << 20), ==, 0);
        g_assert_cmpint(arena.huge_bytes, <=, arena.bytes);
        for (int64_t at = 0; at < arena.bytes; at++)
            g_assert_cmpint(arena.base[at], ==, 0);
        memset(arena.base, 1, (size_t)arena.bytes);
        mw_arena_release(&arena);
        g_assert_null(arena.base);
        mw_arena_release(&arena);
    }
}

/* The page behind the last is not the arena's: nothing is rounded up to a huge page. */
static void
test_exact(void)
{
    struct mw_arena arena;
    unsigned char resident;

    g_assert_true(mw_arena_reserve(&arena, "test", (4 << 20) + 4096, NULL));
    g_assert_cmpint(mincore(arena.base + (4 << 20), 4096, &resident), ==, 0);
    g_assert_true(resident & 1);
    g_assert_cmpint(mincore(arena.base + (4 << 20) + 4096, 4096, &resident), ==, -1);
    mw_arena_release(&arena);
}

static void
test_too_large(void)
{
    g_autoptr(GError) error = NULL;
    struct mw_arena arena;
    struct mw_memory_available available;

    mw_memory_available(&available);
    g_assert_false(mw_arena_reserve(&arena, "slots", available.bytes + (INT64_C(8) << 30), &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_DEVICE);
    g_assert_nonnull(strstr(error->message, "slots: "));
    g_assert_nonnull(strstr(error->message, "bytes short"));
    g_assert_null(arena.base);
}

/* A child without the right to lock has a limit of 64 KiB. */
static void
test_lock_limit(void)
{
    if (SANITIZED) {
        g_test_skip("sanitizers make mlock do nothing");
        return;
    }
    if (g_test_subprocess()) {
        const struct rlimit limit = {65536, 65536};
        struct mw_arena arena;

        if (setrlimit(RLIMIT_MEMLOCK, &limit) || (!geteuid() && setuid(65534)))
            return;
        g_assert_true(mw_arena_reserve(&arena, "pinned", 1 << 20, NULL));
        g_printerr("locked %d %s\n", arena.locked, arena.notice);
        mw_arena_release(&arena);
        return;
    }
    g_test_trap_subprocess(NULL, 0, 0);
    g_test_trap_assert_passed();
    g_test_trap_assert_stderr("*locked 0 pinned: 1048576 bytes are not locked*is 65536 bytes*");
}

static void
test_data_limit(void)
{
    if (SANITIZED) {
        g_test_skip("shadow memory is counted by the limit");
        return;
    }
    if (g_test_subprocess()) {
        struct mw_memory_available available;
        const struct rlimit limit = {INT64_C(1) << 40, INT64_C(1) << 40};

        g_assert_cmpint(setrlimit(RLIMIT_DATA, &limit), ==, 0);
        mw_memory_available_under("/nowhere", &available);
        g_assert_cmpint(available.bytes, ==, INT64_MAX);
        mw_memory_available(&available);
        g_assert_cmpint(available.bytes, <, INT64_C(1) << 40);
        const struct rlimit tight = {INT64_C(1) << 30, INT64_C(1) << 30};
        g_assert_cmpint(setrlimit(RLIMIT_DATA, &tight), ==, 0);
        mw_memory_available(&available);
        g_assert_cmpint(available.bytes, <, INT64_C(1) << 30);
        g_printerr("%s\n", available.bound);
        /* Stacks of at least so many threads, and more where they are larger. */
        struct mw_memory_available small_stacks, large_stacks;
        const struct rlimit large = {2 << 20, 2 << 20}, small = {1 << 20, 1 << 20};
        g_assert_cmpint(setrlimit(RLIMIT_STACK, &large), ==, 0);
        mw_memory_available_to_run(&large_stacks);
        g_assert_cmpint(setrlimit(RLIMIT_STACK, &small), ==, 0);
        mw_memory_available_to_run(&small_stacks);
        g_assert_cmpint(small_stacks.bytes, <=, available.bytes - (8 << 20));
        g_assert_cmpint(large_stacks.bytes, <=, small_stacks.bytes - (8 << 20));
        return;
    }
    g_test_trap_subprocess(NULL, 0, 0);
    g_test_trap_assert_passed();
    g_test_trap_assert_stderr("*RLIMIT_DATA (ulimit -d) of 1073741824 bytes*");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/room/machine", test_machine);
    g_test_add_func("/memory/room/cgroup-2", test_cgroup_2);
    g_test_add_func("/memory/room/cgroup-1", test_cgroup_1);
    g_test_add_func("/memory/room/cgroup-container", test_cgroup_container);
    g_test_add_func("/memory/room/data-limit", test_data_limit);
    g_test_add_func("/memory/arena/any-size", test_arena);
    g_test_add_func("/memory/arena/exact", test_exact);
    g_test_add_func("/memory/arena/too-large", test_too_large);
    g_test_add_func("/memory/arena/lock-limit", test_lock_limit);
    return g_test_run();
}
