/* Files of calibrations that were killed: the next one removes them, and nothing else. */
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "calibrate/internal.h"

static void
put(const char *directory, const char *name)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);

    g_assert_true(g_file_set_contents(path, "x", 1, NULL));
}

static bool
is_there(const char *directory, const char *name)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);

    return g_file_test(path, G_FILE_TEST_EXISTS);
}

static void
take_away(const char *directory, const char *name)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);

    g_assert_cmpint(g_remove(path), ==, 0);
}

/* Of two killed ranks; a file that a process is at, a link and others' names stay. */
static void
test_killed(void)
{
    static const char *const left[] = {"memwall-calibrate-0-1of2.data",
                                       "memwall-calibrate-1-1of1.data"};
    static const char *const others[] = {"memwall-calibrate-7-1of1.data",
                                         "memwall-calibrate-x-1of1.data",
                                         "memwall-calibrate-1-1of1.data.old", "memwall-1of1.data"};
    g_autofree char *directory = g_dir_make_tmp("memwall-XXXXXX", NULL);
    g_autofree char *lock = g_build_filename(directory, "memwall-calibrate-7.lock", NULL);
    g_autofree char *to = g_build_filename(directory, others[3], NULL);
    g_autofree char *link = g_build_filename(directory, "memwall-calibrate-2-1of1.data", NULL);
    int held = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    g_assert_cmpint(flock(held, LOCK_EX), ==, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(left); i++)
        put(directory, left[i]);
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        put(directory, others[i]);
    g_assert_cmpint(symlink(to, link), ==, 0);
    mw_calibrate_remove_left(directory);
    for (size_t i = 0; i < G_N_ELEMENTS(left); i++)
        g_assert_false(is_there(directory, left[i]));
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
        g_assert_true(is_there(directory, others[i]));
        take_away(directory, others[i]);
    }
    g_assert_true(g_file_test(link, G_FILE_TEST_IS_SYMLINK));
    remove(link);
    remove(lock);
    close(held);
    g_assert_cmpint(g_rmdir(directory), ==, 0); /* it is empty */
}

/* What stands in a lock's place and is not ours is neither taken for a lock nor deleted. */
static void
test_others(void)
{
    static const char data[] = "memwall-calibrate-3-1of1.data";
    g_autofree char *directory = g_dir_make_tmp("memwall-XXXXXX", NULL);
    g_autofree char *lock = g_build_filename(directory, "memwall-calibrate-3.lock", NULL);
    g_autofree char *mine = g_build_filename(directory, "mine", NULL);

    put(directory, "mine");
    put(directory, data);
    g_assert_cmpint(link(mine, lock), ==, 0);
    mw_calibrate_remove_left(directory);
    g_assert_true(is_there(directory, data));
    g_assert_true(g_file_test(lock, G_FILE_TEST_EXISTS));
    remove(lock);
    mw_calibrate_remove_left(directory);
    g_assert_false(is_there(directory, data));
    remove(mine);
    g_assert_cmpint(g_rmdir(directory), ==, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/calibrate-left/killed", test_killed);
    g_test_add_func("/calibrate-left/others", test_others);
    return g_test_run();
}
