/* The log of a run: its table and its file. */
#include <fcntl.h>
#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "exec/course/log.h"

static const struct mw_log_row rows[] = {
    {0, 10.9512, 2.431, 3e-5, 1250000000, 65536, false, 0, 1.25, 30.5, 1.5, 2},
    {1, 10.25, INFINITY, 6e-5, 1000000000, 65536, true, 0, NAN, 0, 0, 0},
    {2, 9.875, NAN, 1e-4, 800000000, 32768, true, 0, NAN, 0, 0, 0},
    {9, 1.0 / 3, 12345.6789, 1.0 / 3e4, 1000000001, 1, false, 0, 1.25, 30.5, 1.5, 2},
};

static const struct mw_log_options full = {
    .steps = 10,
    .tokens = 1024,
    .flops = 1e12,
    .peak_flops = 4e12,
    .predicted_ns = 950000000,
    .loss_scale = true,
};

static void
log_rows(struct mw_log *log, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        g_autoptr(GError) error = NULL;
        g_assert_true(mw_log_step(log, &rows[i], &error));
        g_assert_no_error(error);
    }
}

static struct mw_log *
open_log(const struct mw_log_options *options)
{
    g_autoptr(GError) error = NULL;
    struct mw_log *log = mw_log_open(options, &error);

    g_assert_no_error(error);
    g_assert_nonnull(log);
    return log;
}

/* --- the table --- */

static char *
table_of(struct mw_log_options options)
{
    char *text = NULL;
    size_t length;

    options.table = open_memstream(&text, &length);
    struct mw_log *log = open_log(&options);
    log_rows(log, 0, G_N_ELEMENTS(rows));
    mw_log_close(log);
    fclose(options.table);
    return text;
}

static void
test_table(void)
{
    g_autofree char *text = table_of(full);

    g_assert_cmpstr(
        text, ==,
        "step      loss  grad norm         lr        ms     tok/s     MFU  of predicted  loss "
        "scale\n"
        "   1   10.9512      2.431  3.000e-05    1250.0     819.2   20.0%         76.0%       "
        "65536\n"
        "   2   10.2500        inf  6.000e-05    1000.0    1024.0   25.0%         95.0%       65536"
        "  skipped: not finite\n"
        "   3    9.8750          -  1.000e-04     800.0    1280.0   31.2%        118.8%       32768"
        "  skipped: not finite\n"
        "  10    0.3333  1.235e+04  3.333e-05    1000.0    1024.0   25.0%         95.0%           "
        "1\n");
}

static void
test_unknown(void)
{
    g_autofree char *text = table_of((struct mw_log_options){.steps = 1234567});
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

    g_assert_cmpstr(
        lines[0], ==,
        "   step      loss  grad norm         lr        ms     tok/s     MFU  of predicted");
    g_assert_cmpstr(
        lines[1], ==,
        "      1   10.9512      2.431  3.000e-05    1250.0         -       -             -");
}

static void
test_router_losses(void)
{
    g_autofree char *text = table_of((struct mw_log_options){
        .steps = 10, .router_aux_loss = true, .router_z_loss = true, .expert_imbalance = true});
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

    g_assert_true(g_str_has_suffix(lines[0], "of predicted  router aux    router z   imbalance"));
    g_assert_true(g_str_has_suffix(lines[1], "             -      1.2500     30.5000       1.500"));
}

/* --- the file --- */

static char *
new_path(void)
{
    g_autofree char *folder = g_dir_make_tmp("memwall-log-XXXXXX", NULL);

    g_assert_nonnull(folder);
    return g_build_filename(folder, "run.jsonl", NULL);
}

static void
remove_path(char *path)
{
    g_autofree char *folder = g_path_get_dirname(path);

    g_unlink(path);
    g_assert_cmpint(g_rmdir(folder), ==, 0);
    g_free(path);
}

static char *
contents(const char *path)
{
    char *text = NULL;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    return text;
}

static double
number(JsonObject *object, const char *key)
{
    JsonNode *node = json_object_get_member(object, key);

    g_assert_nonnull(node);
    return json_node_is_null(node) ? NAN : json_node_get_double(node);
}

static void
check_line(const char *text, const struct mw_log_row *row)
{
    g_autoptr(JsonNode) node = json_from_string(text, NULL);
    JsonObject *object = json_node_get_object(node);
    double time_s = row->time_ns * 1e-9;

    g_assert_cmpint(json_object_get_int_member(object, "step"), ==, row->step + 1);
    g_assert_cmpfloat(number(object, "loss"), ==, row->loss);
    if (isfinite(row->gradient_norm))
        g_assert_cmpfloat(number(object, "gradient_norm"), ==, row->gradient_norm);
    else
        g_assert_true(isnan(number(object, "gradient_norm")));
    g_assert_cmpfloat(number(object, "lr"), ==, row->lr);
    g_assert_cmpfloat(number(object, "step_time_s"), ==, time_s);
    g_assert_cmpfloat(number(object, "tokens_per_s"), ==, 1024 / time_s);
    g_assert_cmpfloat(number(object, "mfu"), ==, 1e12 / time_s / 4e12);
    g_assert_cmpfloat(number(object, "loss_scale"), ==, row->loss_scale);
    g_assert_cmpint(json_object_get_boolean_member(object, "skipped"), ==, row->skipped);
}

static void
check_router_losses(const char *text, const struct mw_log_row *row)
{
    g_autoptr(JsonNode) node = json_from_string(text, NULL);
    JsonObject *object = json_node_get_object(node);

    g_assert_true(number(object, "router_aux_loss") == row->router_aux_loss ||
                  (isnan(number(object, "router_aux_loss")) && isnan(row->router_aux_loss)));
    g_assert_cmpfloat(number(object, "router_z_loss"), ==, row->router_z_loss);
    g_assert_cmpfloat(number(object, "expert_imbalance"), ==, row->expert_imbalance);
    g_assert_cmpfloat(number(object, "expert_imbalance_most"), ==, row->expert_imbalance_most);
}

static void
test_file(void)
{
    char *path = new_path();
    struct mw_log_options options = full;

    options.path = path;
    options.router_aux_loss = options.router_z_loss = options.expert_imbalance = true;
    struct mw_log *log = open_log(&options);
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        log_rows(log, i, i + 1);
        g_autofree char *text = contents(path); /* there as soon as the step is logged */
        g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
        g_assert_cmpint(g_strv_length(lines), ==, i + 2);
        g_assert_cmpstr(lines[i + 1], ==, "");
        check_line(lines[i], &rows[i]);
        check_router_losses(lines[i], &rows[i]);
    }
    mw_log_close(log);
    remove_path(path);
}

/* What a resume after `first_step` steps leaves of `before`. */
static void
assert_resumed(const char *before, int64_t first_step, const char *after)
{
    char *path = new_path();
    struct mw_log_options options = full;

    g_assert_true(g_file_set_contents(path, before, -1, NULL));
    options.path = path;
    options.resume = true;
    options.first_step = first_step;
    mw_log_close(open_log(&options));
    g_autofree char *text = contents(path);
    g_assert_cmpstr(text, ==, after);
    remove_path(path);
}

static void
test_resume(void)
{
#define LINE(step) "{\"step\": " step ", \"loss\": 1}\n"
    assert_resumed("", 0, "");
    assert_resumed(LINE("1") LINE("2") LINE("3"), 3, LINE("1") LINE("2") LINE("3"));
    assert_resumed(LINE("1") LINE("2") LINE("3"), 2, LINE("1") LINE("2"));
    assert_resumed(LINE("1") LINE("2") LINE("3"), 0, "");
    assert_resumed(LINE("9") LINE("10") LINE("11"), 10, LINE("9") LINE("10"));
    assert_resumed(LINE("1") "{\"step\": 2, \"lo", 5, LINE("1"));
    assert_resumed("{\"st", 5, "");
}

/* Lines say whose they are; to go on in those of another would cut them off. */
static void
test_run(void)
{
    char *path = new_path();
    struct mw_log_options options = full;
    g_autoptr(GError) error = NULL;

    options.path = path;
    options.run = "a \"b\"";
    struct mw_log *log = open_log(&options);
    g_assert_true(mw_log_step(log, &rows[0], &error));
    mw_log_close(log);
    g_autofree char *text = contents(path);
    g_assert_nonnull(strstr(text, ", \"run\": \"a ?b?\"}\n"));
    options.resume = true;
    options.first_step = 5;
    mw_log_close(open_log(&options));
    g_assert_true(mw_log_check(path, "a \"b\"", NULL) && mw_log_check(path, NULL, NULL));
    options.run = "c";
    g_assert_null(mw_log_open(&options, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, "belongs to run a ?b?, and c continues"));
    g_assert_false(mw_log_check(path, "c", NULL));
    g_autofree char *after = contents(path);
    g_assert_cmpstr(after, ==, text);
    const char *more = "{\"step\": 1}\n{\"step\":99,\"run\" : \"x\"}\n"
                       "{\"step\": 9, \"run\": \"x\"}\n";
    g_assert_true(g_file_set_contents(path, more, -1, NULL));
    g_auto(GStrv) runs = mw_log_runs(path), none = mw_log_runs("/dev/null");
    g_assert_cmpint(g_strv_length(runs), ==, 1);
    g_assert_cmpstr(runs[0], ==, "x");
    g_assert_null(none[0]);
    g_assert_false(mw_log_check(path, "c", NULL)); /* a line behind the first is of another */
    g_assert_true(mw_log_check(path, "x", NULL));
    options.resume = false; /* a new one may empty it */
    mw_log_close(open_log(&options));
    remove_path(path);
}

static void
test_new_run_empties(void)
{
    char *path = new_path();
    struct mw_log_options options = full;

    options.path = path;
    for (int run = 0; run < 2; run++) {
        struct mw_log *log = open_log(&options);
        g_autofree char *before = contents(path);
        g_assert_cmpint(strlen(before) > 0, ==, run > 0); /* it may never come to a step */
        log_rows(log, 0, 1);
        mw_log_close(log);
    }
    g_autofree char *text = contents(path);
    check_line(text, &rows[0]);
    g_assert_cmpint(strlen(text), ==, strchr(text, '\n') + 1 - text);
    remove_path(path);
}

static void
assert_refused(const char *path, int code, const char *part)
{
    struct mw_log_options options = full;
    g_autoptr(GError) error = NULL;

    options.path = path;
    g_assert_null(mw_log_open(&options, &error));
    g_assert_error(error, MW_ERROR, code);
    g_assert_nonnull(strstr(error->message, path));
    g_assert_nonnull(strstr(error->message, part));
}

static void
test_refused(void)
{
    char *path = new_path();
    g_autofree char *folder = g_path_get_dirname(path);

    g_assert_true(g_file_set_contents(path, "precious", -1, NULL));
    assert_refused(path, MW_ERROR_INVALID, "not the log of a run");
    g_autofree char *text = contents(path);
    g_assert_cmpstr(text, ==, "precious");
    g_assert_true(g_file_set_contents(path, "\0precious", 9, NULL));
    assert_refused(path, MW_ERROR_INVALID, "not the log of a run");
    assert_refused(folder, MW_ERROR_IO, "Is a directory");
    assert_refused("/nowhere/at/all.jsonl", MW_ERROR_IO, "No such file");
    remove_path(path);
}

static void
test_full_device(void)
{
    struct mw_log_options options = full;
    g_autoptr(GError) error = NULL;

    options.path = "/dev/full";
    struct mw_log *log = open_log(&options);
    g_assert_false(mw_log_step(log, &rows[0], &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_IO);
    g_assert_nonnull(strstr(error->message, "/dev/full: cannot be written"));
    g_assert_true(mw_log_step(log, &rows[1], NULL)); /* it was said once */
    mw_log_close(log);
}

/* Until no byte more goes in. */
static void
fill(int fd)
{
    const char byte = 0;

    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (write(fd, &byte, 1) == 1)
        continue;
    fcntl(fd, F_SETFL, 0);
}

static bool
counts_down(void *data)
{
    return --*(int *)data <= 0;
}

/* A pipe that nobody reads: it is waited for, then neither it nor what is behind it. */
static void
test_reader_stands_still(void)
{
    char *path = new_path();
    struct mw_log_options options = full;
    g_autoptr(GError) error = NULL;
    int looks = 3, ends[2];

    g_assert_cmpint(mkfifo(path, 0600), ==, 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    g_assert_cmpint(pipe(ends), ==, 0);
    options.path = path;
    options.table = fdopen(ends[1], "w");
    options.gives_up = counts_down;
    options.data = &looks;
    struct mw_log *log = open_log(&options);
    g_assert_true(mw_log_step(log, &rows[0], NULL));
    g_assert_cmpint(looks, ==, 3);
    fill(ends[1]);
    g_assert_true(mw_log_step(log, &rows[1], NULL));
    g_assert_cmpint(looks, ==, 0);
    int writer = open(path, O_WRONLY | O_NONBLOCK);
    fill(writer);
    g_assert_false(mw_log_step(log, &rows[1], &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_IO);
    g_assert_true(mw_log_step(log, &rows[2], NULL)); /* it was said once */
    mw_log_close(log);
    fclose(options.table);
    close(ends[0]);
    close(writer);
    close(reader);
    remove_path(path);
}

/* A limit of the file's size within a line: the system takes the line's first part. */
static void
test_no_part_of_a_line(void)
{
    char *path = new_path();
    struct mw_log_options options = full;
    struct rlimit before, limit;
    g_autoptr(GError) error = NULL;

    options.path = path;
    struct mw_log *log = open_log(&options);
    log_rows(log, 0, 1);
    g_autofree char *one = contents(path);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = (struct rlimit){strlen(one) + 10, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    bool ok = mw_log_step(log, &rows[1], &error);
    setrlimit(RLIMIT_FSIZE, &before);
    g_assert_false(ok);
    g_assert_error(error, MW_ERROR, MW_ERROR_IO);
    g_assert_true(mw_log_step(log, &rows[2], NULL)); /* there is room, but it would leave a gap */
    g_autofree char *after = contents(path);
    g_assert_cmpstr(after, ==, one);
    mw_log_close(log);
    remove_path(path);
}

/* Marked in the table and in the file; others say nothing of it. */
static void
test_stolen(void)
{
    const struct mw_log_row stolen = {.loss = 1, .time_ns = 1000000000, .stolen_ns = 30000000};
    g_autofree char *folder = g_dir_make_tmp("memwall-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "log.jsonl", NULL);
    struct mw_log_options options = full;
    char *table = NULL;
    g_autofree char *lines = NULL;
    size_t length;

    options.table = open_memstream(&table, &length);
    options.path = path;
    struct mw_log *log = open_log(&options);
    g_assert_true(mw_log_step(log, &stolen, NULL));
    log_rows(log, 1, 2);
    mw_log_close(log);
    fclose(options.table);
    g_assert_true(g_file_get_contents(path, &lines, NULL, NULL));
    g_assert_nonnull(strstr(table, "  30 ms taken by the hypervisor\n"));
    g_assert_null(strstr(strstr(table, "hypervisor") + 1, "hypervisor"));
    g_assert_nonnull(strstr(lines, "\"skipped\": false, \"stolen_s\": 0.03}\n"));
    g_assert_null(strstr(strstr(lines, "stolen_s") + 1, "stolen_s"));
    free(table);
    remove(path);
    g_rmdir(folder);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/log/table", test_table);
    g_test_add_func("/log/table/unknown", test_unknown);
    g_test_add_func("/log/table/router-losses", test_router_losses);
    g_test_add_func("/log/file", test_file);
    g_test_add_func("/log/file/resume", test_resume);
    g_test_add_func("/log/file/run", test_run);
    g_test_add_func("/log/file/new-run-empties", test_new_run_empties);
    g_test_add_func("/log/file/refused", test_refused);
    g_test_add_func("/log/file/full-device", test_full_device);
    g_test_add_func("/log/reader-stands-still", test_reader_stands_still);
    g_test_add_func("/log/file/no-part-of-a-line", test_no_part_of_a_line);
    g_test_add_func("/log/stolen", test_stolen);
    return g_test_run();
}
