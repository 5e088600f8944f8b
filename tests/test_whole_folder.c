/* A folder that another process fills between the check and the exchange. */
#include "base/whole_folder.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"

static char *theirs; /* appears once, as late as a sync */

int
fsync(int descriptor)
{
    g_autofree char *now = g_steal_pointer(&theirs);

    (void)descriptor;
    if (now)
        g_assert_true(g_file_set_contents(now, "theirs", -1, NULL));
    return 0;
}

static const struct mw_folder_file files[] = {{"ours", "new", false}};

static char *
text_of(const char *folder, const char *name)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    char *text = NULL;

    g_file_get_contents(path, &text, NULL, NULL);
    return text;
}

/* Names of `folder`, which it removes with them. */
static guint
remove_all(const char *folder)
{
    g_autoptr(GDir) all = g_dir_open(folder, 0, NULL);
    guint count = 0;

    for (const char *name; (name = g_dir_read_name(all)); count++) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        if (g_unlink(path))
            remove_all(path);
    }
    g_rmdir(folder);
    return count;
}

static void
test_filled_meanwhile(void)
{
    g_autofree char *root = g_dir_make_tmp("memwall-XXXXXX", NULL);
    g_autofree char *folder = g_build_filename(root, "job", NULL);
    g_autoptr(GError) error = NULL;

    g_assert_cmpint(g_mkdir(folder, 0777), ==, 0);
    theirs = g_build_filename(folder, "mine.txt", NULL);
    g_assert_false(mw_folder_write(folder, files, G_N_ELEMENTS(files), false, NULL, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_IO);
    g_autofree char *kept = text_of(folder, "mine.txt"), *ours = text_of(folder, "ours");
    g_assert_cmpstr(kept, ==, "theirs");
    g_assert_null(ours);
    g_assert_cmpuint(remove_all(root), ==, 1); /* nothing beside the folder */
}

/* What replaces an earlier folder keeps theirs too, under the temporary name. */
static void
test_replaced_meanwhile(void)
{
    g_autofree char *root = g_dir_make_tmp("memwall-XXXXXX", NULL);
    g_autofree char *folder = g_build_filename(root, "job", NULL);
    g_autoptr(GError) error = NULL;

    g_assert_true(mw_folder_write(folder, files, G_N_ELEMENTS(files), false, NULL, &error));
    theirs = g_build_filename(folder, "mine.txt", NULL);
    g_assert_true(mw_folder_write(folder, files, G_N_ELEMENTS(files), true, NULL, &error));
    g_autofree char *ours = text_of(folder, "ours");
    g_assert_cmpstr(ours, ==, "new");
    g_assert_cmpuint(remove_all(root), ==, 2);
}

static int asked, stops_at;

static bool
stops(void)
{
    return ++asked >= stops_at;
}

/* Whenever it is told to stop, neither the folder nor a temporary one is there. */
static void
test_stopped(void)
{
    g_autofree char *root = g_dir_make_tmp("memwall-XXXXXX", NULL);
    g_autofree char *folder = g_build_filename(root, "job", NULL);

    for (stops_at = 1; stops_at <= 2; stops_at++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(GDir) all = NULL;
        asked = 0;
        g_assert_false(mw_folder_write(folder, files, G_N_ELEMENTS(files), false, stops, &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_IO);
        all = g_dir_open(root, 0, NULL);
        g_assert_null(g_dir_read_name(all));
    }
    remove_all(root);
}

/* A temporary folder of a writer that was killed goes; one that is being written stays. */
static void
test_left_by_others(void)
{
    static const char *const names[] = {"job.memwall-killed", "job.memwall-writes",
                                        "other.memwall-abcdef", "job.memwall-mynote"};
    g_autofree char *root = g_dir_make_tmp("memwall-XXXXXX", NULL);
    g_autofree char *folder = g_build_filename(root, "job", NULL);
    char *paths[G_N_ELEMENTS(names)];

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        paths[i] = g_build_filename(root, names[i], NULL);
        g_autofree char *file = g_build_filename(paths[i], "launch.sh", NULL);
        g_assert_cmpint(g_mkdir(paths[i], 0777), ==, 0);
        g_assert_true(g_file_set_contents(file, "", 0, NULL));
        g_autofree char *mark = g_build_filename(paths[i], ".being-written", NULL);
        g_assert_true(i == 3 || g_file_set_contents(mark, "", 0, NULL)); /* the last is a user's */
    }
    int held = open(paths[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    g_assert_cmpint(flock(held, LOCK_EX), ==, 0);
    g_assert_true(mw_folder_write(folder, files, G_N_ELEMENTS(files), false, NULL, NULL));
    g_assert_false(g_file_test(paths[0], G_FILE_TEST_EXISTS));
    g_assert_true(g_file_test(paths[1], G_FILE_TEST_EXISTS));
    g_assert_true(g_file_test(paths[2], G_FILE_TEST_EXISTS));
    g_assert_true(g_file_test(paths[3], G_FILE_TEST_EXISTS));
    close(held);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        g_free(paths[i]);
    remove_all(root);
}

static void
test_below_a_file(void)
{
    g_autofree char *root = g_dir_make_tmp("memwall-XXXXXX", NULL);
    g_autofree char *file = g_build_filename(root, "file", NULL);
    g_autofree char *folder = g_build_filename(file, "job", NULL);
    g_autoptr(GError) error = NULL;

    g_assert_true(g_file_set_contents(file, "", 0, NULL));
    g_assert_false(mw_folder_check(folder, false, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_IO);
    remove_all(root);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/whole-folder/filled-meanwhile", test_filled_meanwhile);
    g_test_add_func("/whole-folder/replaced-meanwhile", test_replaced_meanwhile);
    g_test_add_func("/whole-folder/stopped", test_stopped);
    g_test_add_func("/whole-folder/left-by-others", test_left_by_others);
    g_test_add_func("/whole-folder/below-a-file", test_below_a_file);
    return g_test_run();
}
