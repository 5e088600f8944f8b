#include <dlfcn.h>
#include <errno.h>
#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/whole_file.h"
#include "report/memory_curve.h"
#include "report/report.h"
#include "tests/golden.h"
#include "tests/report_fixture.h"

struct folder {
    char *path;
};

static struct folder
folder_new(void)
{
    return (struct folder){g_dir_make_tmp("memwall-test-XXXXXX", NULL)};
}

static guint
folder_count(const struct folder *folder)
{
    g_autoptr(GDir) dir = g_dir_open(folder->path, 0, NULL);
    guint count = 0;

    while (g_dir_read_name(dir))
        count++;
    return count;
}

static void
folder_remove(struct folder *folder)
{
    GDir *dir = g_dir_open(folder->path, 0, NULL);
    const char *name;

    while ((name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(folder->path, name, NULL);
        g_remove(path);
    }
    g_dir_close(dir);
    g_assert_cmpint(g_rmdir(folder->path), ==, 0);
    g_free(folder->path);
}

static void
assert_contents(const char *path, const char *expected)
{
    g_autofree char *contents = NULL;

    g_assert_true(g_file_get_contents(path, &contents, NULL, NULL));
    g_assert_cmpstr(contents, ==, expected);
}

/* In place of the C library's, which fails when memory is out. */
static bool no_streams;

FILE *
fopencookie(void *cookie, const char *mode, cookie_io_functions_t calls)
{
    FILE *(*open)(void *, const char *, cookie_io_functions_t);

    *(void **)&open = dlsym(RTLD_NEXT, "fopencookie");
    errno = ENOMEM;
    return no_streams ? NULL : open(cookie, mode, calls);
}

static void
test_file_without_memory(void)
{
    struct folder folder = folder_new();
    g_autofree char *path = g_build_filename(folder.path, "f", NULL);
    g_autoptr(GError) error = NULL;

    no_streams = true;
    g_assert_null(mw_file_open(path, &error));
    no_streams = false;
    g_assert_error(error, MW_ERROR, MW_ERROR_IO);
    g_assert_cmpuint(folder_count(&folder), ==, 0);
    folder_remove(&folder);
}

static void
test_file_replaces(void)
{
    struct folder folder = folder_new();
    g_autofree char *path = g_build_filename(folder.path, "target", NULL);
    g_autofree char *link = g_build_filename(folder.path, "link", NULL);
    g_autoptr(GError) error = NULL;
    struct mw_file *file;
    struct stat status;

    g_assert_true(g_file_set_contents(path, "old", -1, NULL));
    g_assert_cmpint(g_chmod(path, 0640), ==, 0);
    g_assert_cmpint(symlink("target", link), ==, 0);
    file = mw_file_open(link, &error);
    g_assert_no_error(error);
    fputs("new", file->stream);
    fflush(file->stream);
    assert_contents(path, "old");
    g_assert_true(mw_file_commit(file, &error));
    assert_contents(path, "new");
    g_assert_cmpint(stat(path, &status), ==, 0);
    g_assert_cmpint(status.st_mode & 07777, ==, 0640);
    g_assert_true(g_file_test(link, G_FILE_TEST_IS_SYMLINK));
    g_assert_cmpuint(folder_count(&folder), ==, 2);
    folder_remove(&folder);
}

static void
assert_refused(const char *path, const char *reason)
{
    g_autoptr(GError) error = NULL;
    struct mw_file *file = mw_file_open(path, &error);

    g_assert_null(file);
    g_assert_error(error, MW_ERROR, MW_ERROR_IO);
    g_assert_nonnull(strstr(error->message, path));
    g_assert_nonnull(strstr(error->message, reason));
}

/* What they lead to is made, one behind another and from another folder; they stay. */
static void
test_file_dangling_links(void)
{
    struct folder folder = folder_new();
    g_autofree char *inner = g_build_filename(folder.path, "inner", NULL);
    g_autofree char *link = g_build_filename(inner, "link", NULL);
    g_autofree char *second = g_build_filename(folder.path, "second", NULL);
    g_autofree char *path = g_build_filename(folder.path, "target", NULL);
    g_autoptr(GError) error = NULL;

    g_assert_cmpint(g_mkdir(inner, 0755), ==, 0);
    g_assert_cmpint(symlink("../second", link), ==, 0);
    g_assert_cmpint(symlink("target", second), ==, 0);
    g_assert_true(mw_file_write(link, "new", 3, &error));
    g_assert_no_error(error);
    assert_contents(path, "new");
    g_assert_true(g_file_test(link, G_FILE_TEST_IS_SYMLINK));
    g_assert_true(g_file_test(second, G_FILE_TEST_IS_SYMLINK));
    g_unlink(link);
    g_rmdir(inner);
    g_assert_cmpuint(folder_count(&folder), ==, 2);
    folder_remove(&folder);
}

static void
test_file_links_nowhere(void)
{
    struct folder folder = folder_new();
    g_autofree char *loop = g_build_filename(folder.path, "loop", NULL);
    g_autofree char *lost = g_build_filename(folder.path, "lost", NULL);

    g_assert_cmpint(symlink("loop", loop), ==, 0);
    g_assert_cmpint(symlink("nowhere/target", lost), ==, 0);
    assert_refused(loop, "Too many levels of symbolic links");
    assert_refused(lost, "No such file or directory");
    g_assert_true(g_file_test(loop, G_FILE_TEST_IS_SYMLINK));
    g_assert_cmpuint(folder_count(&folder), ==, 2);
    folder_remove(&folder);
}

static void
test_file_abort(void)
{
    struct folder folder = folder_new();
    g_autofree char *path = g_build_filename(folder.path, "target", NULL);
    struct mw_file *file = mw_file_open(path, NULL);

    fputs("half", file->stream);
    mw_file_abort(file);
    g_assert_cmpuint(folder_count(&folder), ==, 0);
    folder_remove(&folder);
}

static void
test_file_unwritable(void)
{
    struct folder folder = folder_new();

    assert_refused("/nonexistent/folder/file", "No such file or directory");
    assert_refused(folder.path, "Is a directory");
    g_assert_cmpuint(folder_count(&folder), ==, 0);
    folder_remove(&folder);
}

/* A full device refuses the bytes when they are flushed; the device itself stays. */
static void
test_file_full(void)
{
    g_autoptr(GError) error = NULL;
    struct mw_file *file;

    if (!g_file_test("/dev/full", G_FILE_TEST_EXISTS)) {
        g_test_skip("no /dev/full");
        return;
    }
    file = mw_file_open("/dev/full", &error);
    g_assert_no_error(error);
    fputs("text", file->stream);
    g_assert_false(mw_file_commit(file, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_IO);
    g_assert_cmpstr(error->message, ==, "cannot write /dev/full: No space left on device");
    g_assert_true(g_file_test("/dev/full", G_FILE_TEST_EXISTS));
    /* The same when the stream has met it before the end. */
    g_autofree char *much = g_strnfill(1 << 20, 'x');
    g_clear_error(&error);
    g_assert_false(mw_file_write("/dev/full", much, 1 << 20, &error));
    g_assert_cmpstr(error->message, ==, "cannot write /dev/full: No space left on device");
}

/* The fixture's lives: see add_fetch.  GPU: gathered 12-27 (slot A) and so on. */
static void
test_memory_curve(void)
{
    struct report_fixture *fixture = report_fixture_new(1);
    struct mw_memory_lives lives = mw_memory_lives_find(fixture->plan, &fixture->timeline, 0);
    struct mw_memory_curve curve = mw_memory_curve_find(fixture->plan, &lives, MW_PURPOSE_COUNT);
    const int64_t gib = INT64_C(1) << 30;
    int64_t most[MW_TIER_COUNT] = {0};

    g_assert_cmpint(curve.point[0].time_ns, ==, 0);
    g_assert_cmpint(curve.point[0].bytes[MW_TIER_GPU], ==, 0);
    g_assert_cmpint(curve.point[0].bytes[MW_TIER_CPU], ==, 42 * gib);
    g_assert_cmpint(curve.point[curve.count - 1].time_ns, ==, lives.span_ns);
    g_assert_cmpint(curve.point[curve.count - 1].bytes[MW_TIER_CPU], ==, 40 * gib);
    for (size_t i = 0; i < curve.count; i++) {
        g_assert_true(i == 0 || curve.point[i].time_ns > curve.point[i - 1].time_ns);
        for (int tier = 0; tier < MW_TIER_COUNT; tier++)
            most[tier] = MAX(most[tier], curve.point[i].bytes[tier]);
        g_assert_cmpint(curve.point[i].bytes[MW_TIER_NVME], ==, 200 * gib);
    }
    g_assert_cmpint(most[MW_TIER_GPU], ==, 22 * gib);
    g_assert_cmpint(most[MW_TIER_CPU], ==, 56 * gib);
    mw_memory_curve_clear(&curve);
    mw_memory_lives_clear(&lives);
    report_fixture_free(fixture);
}

/* A slot that is read before it is defined was filled in the step before: it lives at both ends. */
static void
test_memory_wraps(void)
{
    struct mw_plan *plan = mw_plan_new("wraps");
    struct mw_timeline_row rows[] = {{.op = 0, .end_ns = 10},
                                     {.op = 1, .start_ns = 20, .end_ns = 30},
                                     {.op = 2, .start_ns = 30, .end_ns = 40}};
    struct mw_timeline timeline = {rows, G_N_ELEMENTS(rows)};
    struct mw_memory_lives lives;

    mw_plan_add_lane(plan, (struct mw_lane){.window_ops = 1});
    mw_plan_add_work(plan, (struct mw_work){.comm = MW_NONE}, NULL, 0);
    mw_plan_add_slot(plan, (struct mw_slot){.tier = MW_TIER_GPU, .size_bytes = 8});
    mw_plan_add_op(plan, (struct mw_op){0});
    mw_plan_add_use(plan, 0, MW_USE_READ, MW_ROLE_NONE);
    mw_plan_add_op(plan, (struct mw_op){0});
    mw_plan_add_use(plan, 0, MW_USE_DEFINE, MW_ROLE_NONE);
    mw_plan_add_op(plan, (struct mw_op){0});
    lives = mw_memory_lives_find(plan, &timeline, 0);
    g_assert_cmpuint(lives.count, ==, 2);
    g_assert_cmpint(lives.life[0].start_ns, ==, 0);
    g_assert_cmpint(lives.life[0].end_ns, ==, 10);
    g_assert_cmpint(lives.life[1].start_ns, ==, 20);
    g_assert_cmpint(lives.life[1].end_ns, ==, 40);
    mw_memory_lives_clear(&lives);
    mw_plan_free(plan);
}

static void
test_trace_golden(void)
{
    struct report_fixture *fixture = report_fixture_new(2);
    struct folder folder = folder_new();
    g_autofree char *path = g_build_filename(folder.path, "trace.json", NULL);
    g_autofree char *text = NULL;
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonParser) parser = json_parser_new();

    g_assert_true(mw_trace_write(path, fixture->result, &error));
    g_assert_no_error(error);
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    mw_golden_check("report-trace.json", text);
    json_parser_load_from_data(parser, text, -1, &error);
    g_assert_no_error(error);
    folder_remove(&folder);
    report_fixture_free(fixture);
}

static gint64
event_ns(JsonObject *event, const char *member)
{
    return (gint64)(json_object_get_double_member(event, member) * 1000 + 0.5);
}

/* Slices of one track, in file order, may touch but never overlap. */
static void
test_trace_tracks(void)
{
    struct report_fixture *fixture = report_fixture_new(5);
    struct folder folder = folder_new();
    g_autofree char *path = g_build_filename(folder.path, "trace.json", NULL);
    g_autoptr(JsonParser) parser = json_parser_new();
    g_autoptr(GHashTable) ends = g_hash_table_new(NULL, NULL);
    JsonArray *events;
    guint slices = 0;

    g_assert_true(mw_trace_write(path, fixture->result, NULL));
    g_assert_true(json_parser_load_from_file(parser, path, NULL));
    events = json_object_get_array_member(json_node_get_object(json_parser_get_root(parser)),
                                          "traceEvents");
    for (guint i = 0; i < json_array_get_length(events); i++) {
        JsonObject *event = json_array_get_object_element(events, i);
        gpointer track, end;
        if (!g_str_equal(json_object_get_string_member(event, "ph"), "X"))
            continue;
        track = GINT_TO_POINTER(json_object_get_int_member(event, "tid"));
        end = g_hash_table_lookup(ends, track);
        g_assert_cmpint(event_ns(event, "ts"), >=, GPOINTER_TO_INT(end));
        g_hash_table_insert(ends, track,
                            GINT_TO_POINTER(event_ns(event, "ts") + event_ns(event, "dur")));
        slices++;
    }
    g_assert_cmpuint(slices, ==, fixture->plan->op_count);
    /* Seven lanes, and a second row for the reads that overlap. */
    g_assert_cmpuint(g_hash_table_size(ends), ==, 8);
    folder_remove(&folder);
    report_fixture_free(fixture);
}

static void
test_no_timeline(void)
{
    struct mw_result *result = report_fixture_refused();
    g_autoptr(GError) error = NULL;

    g_assert_false(mw_trace_write("/nonexistent/trace.json", result, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    g_clear_error(&error);
    g_assert_false(mw_plot_write("/nonexistent/plot.png", result, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    mw_result_free(result);
}

static void
test_unwritable(void)
{
    struct report_fixture *fixture = report_fixture_new(1);
    g_autoptr(GError) error = NULL;

    g_assert_false(mw_trace_write("/nonexistent/trace.json", fixture->result, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_IO);
    g_assert_cmpstr(error->message, ==,
                    "cannot write /nonexistent/trace.json: No such file or directory");
    report_fixture_free(fixture);
}

static bool
have_gnuplot(void)
{
    g_autofree char *program = g_find_program_in_path("gnuplot");

    if (!program)
        g_test_skip("gnuplot is not installed");
    return program != NULL;
}

static char *
plot(const struct folder *folder, const char *name, const struct mw_result *result, gsize *length)
{
    g_autofree char *path = g_build_filename(folder->path, name, NULL);
    g_autoptr(GError) error = NULL;
    char *contents = NULL;

    g_assert_true(mw_plot_write(path, result, &error));
    g_assert_no_error(error);
    g_assert_true(g_file_get_contents(path, &contents, length, NULL));
    return contents;
}

/* The same input gives the same picture; texts that mean something to gnuplot stay texts. */
static void
test_plot(void)
{
    struct report_fixture *fixture = report_fixture_new(2);
    struct folder folder = folder_new();
    g_autofree char *first = NULL, *second = NULL, *png = NULL;
    gsize length;

    if (!have_gnuplot())
        return;
    g_free(fixture->result->model);
    fixture->result->model = g_strdup("it's `date` \"x\" {a}_b^c\n");
    first = plot(&folder, "a.svg", fixture->result, &length);
    second = plot(&folder, "b.svg", fixture->result, &length);
    png = plot(&folder, "c.png", fixture->result, &length);
    g_assert_cmpstr(first, ==, second);
    g_assert_nonnull(strstr(first, "it's `date`"));
    g_assert_nonnull(strstr(first, "nvme-read"));
    g_assert_cmpmem(png, 8, "\211PNG\r\n\032\n", 8);
    g_assert_cmpuint(folder_count(&folder), ==, 3);
    folder_remove(&folder);
    report_fixture_free(fixture);
}

/* Many ops do not make a large picture. */
static void
test_plot_many(void)
{
    struct report_fixture *fixture = report_fixture_new(3000);
    struct folder folder = folder_new();
    g_autofree char *text = NULL;
    gsize length;

    if (!have_gnuplot())
        return;
    text = plot(&folder, "many.svg", fixture->result, &length);
    g_assert_cmpuint(length, <, 3000000);
    folder_remove(&folder);
    report_fixture_free(fixture);
}

static void
assert_plot_fails(const char *path, const struct mw_result *result, enum mw_error code,
                  const char *reason)
{
    g_autoptr(GError) error = NULL;

    g_assert_false(mw_plot_write(path, result, &error));
    g_assert_error(error, MW_ERROR, (int)code);
    g_assert_nonnull(strstr(error->message, path));
    g_assert_nonnull(strstr(error->message, reason));
}

static void
test_plot_errors(void)
{
    struct report_fixture *fixture = report_fixture_new(1);
    g_autofree char *search = g_strdup(g_getenv("PATH"));

    assert_plot_fails("plot.pdf", fixture->result, MW_ERROR_INVALID, ".png or .svg");
    g_setenv("PATH", "/nonexistent", TRUE);
    assert_plot_fails("/tmp/plot.png", fixture->result, MW_ERROR_IO, "gnuplot was not found");
    g_setenv("PATH", search, TRUE);
    if (have_gnuplot())
        assert_plot_fails("/nonexistent/plot.png", fixture->result, MW_ERROR_IO,
                          "No such file or directory");
    report_fixture_free(fixture);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/file/without-memory", test_file_without_memory);
    g_test_add_func("/report/file/replaces", test_file_replaces);
    g_test_add_func("/report/file/dangling_links", test_file_dangling_links);
    g_test_add_func("/report/file/links_nowhere", test_file_links_nowhere);
    g_test_add_func("/report/file/abort", test_file_abort);
    g_test_add_func("/report/file/unwritable", test_file_unwritable);
    g_test_add_func("/report/file/full", test_file_full);
    g_test_add_func("/report/memory/curve", test_memory_curve);
    g_test_add_func("/report/memory/wraps", test_memory_wraps);
    g_test_add_func("/report/trace/golden", test_trace_golden);
    g_test_add_func("/report/trace/tracks", test_trace_tracks);
    g_test_add_func("/report/no-timeline", test_no_timeline);
    g_test_add_func("/report/unwritable", test_unwritable);
    g_test_add_func("/report/plot/same", test_plot);
    g_test_add_func("/report/plot/many", test_plot_many);
    g_test_add_func("/report/plot/errors", test_plot_errors);
    return g_test_run();
}
