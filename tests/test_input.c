/* Files that users name: what is wrong with them is one line, and none is waited for. */
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/input.h"
#include "says.h"

#define WANTED "a list of things"
#define MOST 10

static const struct mw_input_kind kind = {WANTED, MOST, NULL};

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

    g_assert_null(mw_input_read(path, &kind, &length, &error));
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
        refused(path, MW_ERROR_INVALID, g_strerror(EACCES));
}

static void
reads(const char *path, const char *text)
{
    g_autoptr(GError) error = NULL;
    gsize length;
    g_autofree char *got = mw_input_read(path, &kind, &length, &error);

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
    g_assert_true(g_file_set_contents(path, "0123456789", MOST, NULL));
    reads(path, "0123456789");
    int fd = mw_input_open(path, WANTED, NULL);
    g_assert_cmpint(fcntl(fd, F_GETFD) & FD_CLOEXEC, !=, 0);
    close(fd);
    g_assert_true(g_file_set_contents(path, "0123456789a", MOST + 1, NULL));
    g_assert_null(mw_input_read(path, &kind, &length, &error));
    mw_test_error_says(error, "more than 10 bytes", WANTED);
}

/* More than is read is known before it is; and what begins otherwise, whatever its size. */
static void
test_large(void)
{
    static const struct mw_input_kind list = {WANTED, 8 << 20, "list 1"};
    g_autofree char *path = in_folder("large");
    GError *error = NULL;
    gsize length;

    g_assert_true(g_file_set_contents(path, "", 0, NULL));
    g_assert_cmpint(truncate(path, INT64_C(3) << 30), ==, 0);
    g_assert_null(mw_input_read(path, &kind, &length, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_FORMAT);
    mw_test_error_says(error, "has 3221225472 bytes, more than 10 bytes", WANTED);
    error = NULL;
    g_assert_cmpint(truncate(path, 8 << 20), ==, 0);
    g_assert_null(mw_input_read(path, &list, &length, &error));
    mw_test_error_says(error, "line 1 does not begin with 'list 1'", WANTED);
    error = NULL;
    g_assert_true(g_file_set_contents(path, "list", 4, NULL)); /* whoever parses it says more */
    g_autofree char *text = mw_input_read(path, &list, &length, &error);
    g_assert_no_error(error);
    g_assert_nonnull(text);
    g_assert_cmpuint(length, ==, 4);
}

/* They have no end, or do something when they are opened. */
static void
test_devices(void)
{
    static const char *const devices[] = {"/dev/zero", "/dev/null", "/dev/tty"};
    GError *error = NULL;
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    g_autofree char *descriptor = g_strdup_printf("/dev/fd/%d", terminal);

    for (size_t i = 0; i < G_N_ELEMENTS(devices); i++)
        if (!access(devices[i], F_OK))
            refused(devices[i], MW_ERROR_INVALID, "is not a regular file or a pipe: must be");
    if (terminal >= 0)
        refused(descriptor, MW_ERROR_INVALID, "is not a regular file or a pipe: must be");
    g_assert_false(mw_input_is_there("/dev/null", WANTED, &error));
    mw_test_error_says(error, "/dev/null: is not a regular file or a pipe", WANTED);
    close(terminal);
}

/* Files by their kind, without a size: one has no end, others are gone once they were read. */
static void
test_made(void)
{
    static const char *const files[] = {"/proc/kmsg", "/proc/self/mem", "/proc/cpuinfo"};
    g_autofree char *path = in_folder("named"), *link = in_folder("link");
    GError *error = NULL;
    int fd;

    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        if (access(files[i], F_OK))
            continue;
        refused(files[i], MW_ERROR_INVALID, "is generated by the kernel on reading: must be");
        if (access(files[i], R_OK))
            continue;
        g_assert_false(mw_input_is_there(files[i], WANTED, &error));
        mw_test_error_says(error, files[i], "is generated by the kernel");
        error = NULL;
    }
    g_assert_cmpint(symlink("/proc/cpuinfo", link), ==, 0);
    refused(link, MW_ERROR_INVALID, "is generated by the kernel");
    g_assert_true(g_file_set_contents(path, "text", 4, NULL));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    g_autofree char *named = g_strdup_printf("/proc/self/fd/%d", fd); /* a file like others */
    reads(named, "text");
    close(fd);
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
    reads(path, "late"); /* who asks again is told the same, */
    static const struct mw_input_kind list = {WANTED, MOST, "list"};
    GError *error = NULL;
    gsize length;
    g_assert_null(mw_input_read(path, &list, &length, &error)); /* as far as it is of the kind */
    mw_test_error_says(error, "line 1 does not begin with 'list'", WANTED);
    g_autofree char *other = new_pipe("other");
    g_assert_cmpint(rename(other, path), ==, 0);
    refused(path, MW_ERROR_INVALID, "is a pipe that nobody writes to: must be " WANTED);
}

/* Somebody has it open and writes nothing, too much, or something else. */
static void
test_pipe_bounds(void)
{
    static const struct mw_input_kind list = {WANTED, 1 << 20, "list 1"};
    g_autofree char *path = new_pipe("bounds");
    g_autofree char *block = g_malloc0(MOST + 1);
    GError *error = NULL;
    gsize length;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    g_assert_null(mw_input_read_patiently(path, &kind, 50, &length, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    mw_test_error_says(error, "nobody wrote to it for 0.05 s", WANTED);
    error = NULL;
    g_assert_cmpint(write(fd, block, MOST + 1), ==, MOST + 1);
    g_assert_null(mw_input_read(path, &kind, &length, &error));
    mw_test_error_says(error, "more than 10 bytes", WANTED);
    error = NULL;
    g_assert_cmpint(write(fd, "lost", 4), ==, 4);
    g_assert_null(mw_input_read(path, &list, &length, &error));
    mw_test_error_says(error, "line 1 does not begin", WANTED);
    close(fd);
}

/* What a shell makes of <(command). */
static void
test_descriptor(void)
{
    int ends[2];

    g_assert_cmpint(pipe(ends), ==, 0);
    g_autofree char *path = g_strdup_printf("/dev/fd/%d", ends[0]);
    GThread *thread = g_thread_new("late", write_late, GINT_TO_POINTER(ends[1]));
    reads(path, "late");
    g_thread_join(thread);
    close(ends[0]);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    folder = g_dir_make_tmp("memwall-input-XXXXXX", NULL);
    g_test_add_func("/input/absent", test_absent);
    g_test_add_func("/input/unreadable", test_unreadable);
    g_test_add_func("/input/sizes", test_sizes);
    g_test_add_func("/input/large", test_large);
    g_test_add_func("/input/devices", test_devices);
    g_test_add_func("/input/made", test_made);
    g_test_add_func("/input/pipe", test_pipe);
    g_test_add_func("/input/pipe-bounds", test_pipe_bounds);
    g_test_add_func("/input/descriptor", test_descriptor);
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
