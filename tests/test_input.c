/* Files that users name: what is wrong with them is one line, and none is waited for. */
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "planner/input.h"
#include "says.h"

#define WANTED "a list of things"
#define MOST 10

static char *folder;

static char *
in_folder(const char *name)
{
    return g_build_filename(folder, name, NULL);
}

static char *
new_pipe(const char *name)
{
    char *path = in_folder(name);

    g_assert_cmpint(mkfifo(path, 0600), ==, 0);
    return path;
}

/* Neither way opens it. */
static void
refused(const char *path, int code, const char *says)
{
    GError *error = NULL;
    gsize length;

    g_assert_null(mw_input_read(path, WANTED, MOST, &length, &error));
    g_assert_error(error, MW_ERROR, code);
    mw_test_error_says(error, path, says);
    error = NULL;
    g_assert_cmpint(mw_input_open(path, WANTED, &error), <, 0);
    mw_test_error_says(error, path, code == MW_ERROR_INVALID ? "must be " WANTED : "");
}

static void
test_absent(void)
{
    g_autofree char *missing = in_folder("missing"), *loop = in_folder("loop");
    g_autofree char *below = g_build_filename(folder, "file", "below", NULL);
    g_autofree char *file = in_folder("file");
    GError *error = NULL;

    g_assert_cmpint(symlink(loop, loop), ==, 0);
    g_assert_true(g_file_set_contents(file, "", 0, NULL));
    refused(missing, MW_ERROR_INVALID, "No such file or directory: must be " WANTED);
    refused(below, MW_ERROR_INVALID, "must be " WANTED);
    refused(loop, MW_ERROR_INVALID, "must be " WANTED);
    refused(folder, MW_ERROR_INVALID, "is a folder: must be " WANTED);
    g_assert_false(mw_input_is_there(missing, WANTED, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    mw_test_error_says(error, missing, WANTED);
    error = NULL;
    g_assert_false(mw_input_is_there(folder, WANTED, &error));
    mw_test_error_says(error, folder, "is a folder");
    g_assert_true(mw_input_is_there(file, WANTED, NULL));
}

static void
test_unreadable(void)
{
    g_autofree char *path = in_folder("unreadable");

    g_assert_true(g_file_set_contents(path, "", 0, NULL));
    g_assert_cmpint(g_chmod(path, 0), ==, 0);
    if (!access(path, R_OK))
        g_test_skip("nothing is kept from root");
    else
        refused(path, MW_ERROR_IO, g_strerror(EACCES));
}

static void
reads(const char *path, const char *text)
{
    g_autoptr(GError) error = NULL;
    gsize length;
    g_autofree char *got = mw_input_read(path, WANTED, MOST, &length, &error);

    g_assert_no_error(error);
    g_assert_cmpmem(got, length + 1, text, strlen(text) + 1);
}

static void
test_sizes(void)
{
    g_autofree char *path = in_folder("sizes");
    GError *error = NULL;
    gsize length;

    g_assert_true(g_file_set_contents(path, "", 0, NULL));
    reads(path, "");
    reads("/dev/null", "");
    g_assert_true(g_file_set_contents(path, "0123456789", MOST, NULL));
    reads(path, "0123456789");
    int fd = mw_input_open(path, WANTED, NULL);
    g_assert_cmpint(fcntl(fd, F_GETFD) & FD_CLOEXEC, !=, 0);
    close(fd);
    g_assert_true(g_file_set_contents(path, "0123456789a", MOST + 1, NULL));
    g_assert_null(mw_input_read(path, WANTED, MOST, &length, &error));
    mw_test_error_says(error, "more than 10 bytes", WANTED);
    error = NULL;
    g_assert_null(mw_input_read("/dev/zero", WANTED, MOST, &length, &error));
    mw_test_error_says(error, "more than 10 bytes", WANTED);
    error = NULL;
    g_assert_cmpint(mw_input_open("/dev/null", WANTED, &error), <, 0);
    mw_test_error_says(error, "is no regular file", WANTED);
}

static gpointer
write_late(gpointer fd)
{
    g_usleep(20000);
    g_assert_cmpint(write(GPOINTER_TO_INT(fd), "late", 4), ==, 4);
    close(GPOINTER_TO_INT(fd));
    return NULL;
}

static void
test_pipe(void)
{
    g_autofree char *path = new_pipe("pipe");

    refused(path, MW_ERROR_INVALID, "is a pipe that nobody writes to: must be " WANTED);
    int fd = open(path, O_RDWR | O_CLOEXEC); /* so that opening it to write does not wait */
    int writer = open(path, O_WRONLY | O_CLOEXEC);
    close(fd);
    GThread *thread = g_thread_new("late", write_late, GINT_TO_POINTER(writer));
    reads(path, "late");
    g_thread_join(thread);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    folder = g_dir_make_tmp("memwall-input-XXXXXX", NULL);
    g_test_add_func("/input/absent", test_absent);
    g_test_add_func("/input/unreadable", test_unreadable);
    g_test_add_func("/input/sizes", test_sizes);
    g_test_add_func("/input/pipe", test_pipe);
    int status = g_test_run();
    for (const char *const *name =
             (const char *const[]){"loop", "file", "unreadable", "sizes", "pipe", NULL};
         *name; name++) {
        g_autofree char *path = in_folder(*name);
        g_unlink(path);
    }
    g_rmdir(folder);
    g_free(folder);
    return status;
}
