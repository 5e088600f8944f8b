/* What examining a directory of runs reports, and that it disturbs nobody. */
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "exec/commit/run_files.h"
#include "says.h"

static char *directory;

/* To be given to drop. */
static char *
put(const char *name, const char *text)
{
    char *path = g_build_filename(directory, name, NULL);

    g_assert_true(g_file_set_contents(path, text, -1, NULL));
    return path;
}

static void
drop(char *path)
{
    g_assert_cmpint(g_unlink(path), ==, 0);
    g_free(path);
}

/* --- a directory that cannot be read --------------------------------------------------------- */

/* Is no empty one: with one descriptor left there is the folder, and nothing to list it by. */
static void
test_unreadable(void)
{
    char *data = put("memwall.record", "something");
    struct mw_run_files files;
    struct rlimit before, now;
    GError *error = NULL;

    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &before), ==, 0);
    now = before;
    now.rlim_cur = (rlim_t)next + 1;
    g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &now), ==, 0);
    bool good = mw_run_files_look(directory, &files, &error);
    g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
    mw_run_files_clear(&files);
    g_assert_false(good);
    g_assert_error(error, MW_ERROR, MW_ERROR_IO);
    mw_test_error_says(error, directory, "Too many open files");
    g_assert_true(mw_run_files_look(directory, &files, NULL));
    g_assert_cmpstr(files.record, ==, "memwall.record");
    mw_run_files_clear(&files);
    drop(data);
}

/* --- data that nobody has left --------------------------------------------------------------- */

static void
assert_claimed(const char *beside, bool claimed)
{
    char *data = put("memwall-1of1.data", "x"), *other = beside ? put(beside, "{}") : NULL;
    struct mw_run_files files;

    g_assert_true(mw_run_files_look(directory, &files, NULL));
    g_assert_cmpstr(files.stranger, ==, claimed ? NULL : "memwall-1of1.data");
    g_assert_true(claimed || files.stranger_is_plain);
    g_assert_true(files.has_data == claimed);
    mw_run_files_clear(&files);
    g_assert_true(mw_run_files_remove(directory, false, NULL));
    g_assert_true(g_file_test(data, G_FILE_TEST_EXISTS) == !claimed);
    if (!claimed)
        g_unlink(data);
    if (other)
        g_unlink(other);
    g_free(data);
    g_free(other);
}

static void
test_unclaimed(void)
{
    assert_claimed(NULL, false);
    assert_claimed("memwall-run.lock", false); /* whoever looks has that */
    assert_claimed("memwall-rank0.record", false);
    assert_claimed("memwall-rank0.lock", false);
    assert_claimed("memwall.lock", true);
    assert_claimed("memwall.record", true);
    assert_claimed(MW_RUN_DESCRIPTION, true);
}

/* --- locks ----------------------------------------------------------------------------------- */

static void *
let_go(void *data)
{
    g_usleep(10000);
    close(GPOINTER_TO_INT(data));
    return NULL;
}

/* A look lasts an instant, which a run that starts waits for; another run is told. */
static void
test_lock(void)
{
    g_autofree char *path = g_build_filename(directory, "memwall-run.lock", NULL);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    g_autoptr(GError) error = NULL;

    g_assert_cmpint(flock(fd, LOCK_SH), ==, 0);
    GThread *thread = g_thread_new("look", let_go, GINT_TO_POINTER(fd));
    struct mw_run_lock *lock = mw_run_lock_take(directory, &error);
    g_thread_join(thread);
    g_assert_no_error(error);
    g_assert_nonnull(lock);
    g_assert_null(mw_run_lock_take(directory, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_IO);
    mw_test_says(error->message, "in use by another run");
    mw_run_lock_release(lock);
}

/* Nobody's look keeps a run from its record. */
static void
test_record_is_free(void)
{
    char *record = put("memwall.record", "x");
    int fd = open(record, O_RDONLY | O_CLOEXEC);
    struct mw_run_files files;

    g_assert_cmpint(flock(fd, LOCK_EX), ==, 0);
    g_assert_true(mw_run_files_look(directory, &files, NULL));
    g_assert_false(files.running); /* who has a record has a lock beside it */
    mw_run_files_clear(&files);
    close(fd);
    drop(record);
}

/* --- records --------------------------------------------------------------------------------- */

static void
write_step(struct mw_commit *commit, int64_t step, uint64_t value)
{
    struct mw_commit_field field = mw_commit_field("value", value);
    struct mw_commit_record record = {.step = step, .fields = &field, .field_count = 1};
    GError *error = NULL;

    mw_commit_write(commit, NULL, &record, &error);
    g_assert_no_error(error);
}

static void
assert_value(bool previous, uint64_t wanted)
{
    struct mw_run_record found;
    uint64_t value;

    g_assert_true(mw_run_files_record(directory, "memwall", previous, &found));
    g_assert_true(mw_commit_find(&found.record, "value", &value));
    g_assert_cmpuint(value, ==, wanted);
    mw_commit_record_clear(&found.record);
}

static void
test_record(void)
{
    struct mw_commit_options options = {.directory = directory, .ranks = 1};
    struct mw_run_record found;
    GError *error = NULL;

    g_assert_false(mw_run_files_record(directory, "memwall", false, &found));
    struct mw_commit *commit = mw_commit_open(&options, &error);
    g_assert_no_error(error);
    g_assert_false(mw_run_files_record(directory, "memwall", false, &found));
    write_step(commit, 3, 30);
    assert_value(false, 30);
    g_assert_false(mw_run_files_record(directory, "memwall", true, &found));
    write_step(commit, 4, 40);
    assert_value(false, 40);
    assert_value(true, 30);
    mw_commit_close(commit);
    g_assert_true(mw_run_files_remove(directory, false, NULL));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    directory = g_dir_make_tmp("memwall-XXXXXX", NULL);
    g_test_add_func("/run-files/unreadable", test_unreadable);
    g_test_add_func("/run-files/unclaimed", test_unclaimed);
    g_test_add_func("/run-files/lock", test_lock);
    g_test_add_func("/run-files/record-is-free", test_record_is_free);
    g_test_add_func("/run-files/record", test_record);
    int result = g_test_run();
    g_assert_cmpint(g_rmdir(directory), ==, 0);
    g_free(directory);
    return result;
}
