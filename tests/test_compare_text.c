/* Output of predicted against measured: table, JSON, trace, plot. */
#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

#include "report/plot_script.h"
#include "report/report.h"
#include "tests/compared.h"

static char *
text_of(bool (*write)(FILE *out, const struct mw_run *run), const struct mw_run *run)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    g_assert_true(write(out, run));
    fclose(out);
    return text;
}

static bool
write_table(FILE *out, const struct mw_run *run)
{
    mw_table_run(out, run);
    return true;
}

static void
test_table(struct compared *f, gconstpointer data)
{
    static const char expected[] =
        "Predicted for profile (not calibrated), measured on a machine\n"
        "medians of 3 steps after the first, 40.0 ms .. 60.0 ms\n"
        "                       predicted  measured   error\n"
        "  step                   42.0 ms   42.0 ms   +0.0%\n"
        "  first step             50.0 ms    119 ms  -58.0%\n"
        "  forward                15.0 ms   12.0 ms  +25.0%\n"
        "  backward               20.0 ms   20.0 ms   +0.0%\n"
        "  optimizer              9.00 ms   9.00 ms   +0.0%\n"
        "  step by FLOPs alone    21.0 ms   42.0 ms  -50.0%\n"
        "\n"
        "Lanes (busy; measured share of the step, and exposed: compute waits for it)\n"
        "  lane        ops  predicted  measured  error  of step  exposed\n"
        "  compute       2    35.0 ms   32.0 ms  +9.4%    76.2%      0 s\n"
        "  nvme-read     1    5.00 ms   5.00 ms  +0.0%    11.9%      0 s\n"
        "  nvme-write    1    8.00 ms   8.00 ms  +0.0%    19.0%  8.00 ms\n"
        "\n"
        "Operators (sum of their ops; by difference)\n"
        "  kind        operator   phase      ops  predicted  measured  difference   error\n"
        "  compute     qkv        forward      1    15.0 ms   12.0 ms     3.00 ms  +25.0%\n"
        "  compute     qkv        backward     1    20.0 ms   20.0 ms         0 s   +0.0%\n"
        "  nvme-read   optimizer  optimizer    1    5.00 ms   5.00 ms         0 s   +0.0%\n"
        "  nvme-write  optimizer  optimizer    1    8.00 ms   8.00 ms         0 s   +0.0%\n"
        "\n"
        "Ops that differ most\n"
        "  op                 kind        predicted  measured  difference\n"
        "   0  qkv fwd        compute       15.0 ms   12.0 ms     3.00 ms\n"
        "   1  qkv bwd        compute       20.0 ms   20.0 ms         0 s\n"
        "   2  optimizer opt  nvme-read     5.00 ms   5.00 ms         0 s\n"
        "   3  optimizer opt  nvme-write    8.00 ms   8.00 ms         0 s\n";
    char *text = text_of(write_table, &f->run);

    (void)data;
    g_assert_cmpstr(text, ==, expected);
    free(text);
}

/* An MFU that nothing can reach says that the calibration is what is wrong. */
static void
test_table_faster(struct compared *f, gconstpointer data)
{
    const struct {
        bool calibrated;
        double mfu;
        bool said;
    } cases[] = {{true, 1.04, true}, {true, 0.96, false}, {false, 1.04, false}};

    (void)data;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        f->predicted->calibrated = cases[i].calibrated;
        f->predicted->mfu =
            cases[i].mfu * f->compare->step.measured_s / f->compare->step.predicted_s;
        char *text = text_of(write_table, &f->run);
        const char *line = strstr(text, "MFU 104%: the machine was slower while it was calibrated");
        g_assert_true((line != NULL) == cases[i].said);
        g_assert_true((strstr(text, "memwall calibrate") != NULL) == cases[i].said);
        free(text);
    }
}

static void
test_table_ranks(struct compared *f, gconstpointer data)
{
    static const char expected[] =
        "  lane        ops  predicted  measured  error  of step  exposed        over 2 ranks\n"
        "  compute       2    35.0 ms   32.0 ms  +9.4%    76.2%      0 s  32.0 ms .. 32.0 ms\n"
        "  nvme-read     1    5.00 ms   5.00 ms  +0.0%    11.9%      0 s  5.00 ms .. 7.00 ms\n";

    (void)data;
    compared_add_rank(f);
    char *text = text_of(write_table, &f->run);
    g_assert_nonnull(strstr(text, "measured on a machine by rank 0\n"));
    if (!strstr(text, expected))
        g_error("%s", text);
    free(text);
}

static JsonObject *
parse(JsonParser *parser, const char *text)
{
    g_autoptr(GError) error = NULL;

    g_assert_true(json_parser_load_from_data(parser, text, -1, &error));
    g_assert_no_error(error);
    return json_node_get_object(json_parser_get_root(parser));
}

static JsonObject *
parse_answer(JsonParser *parser, const char *text)
{
    JsonObject *whole = parse(parser, text);
    JsonArray *answers = json_object_get_array_member(whole, "answers");

    g_assert_cmpstr(json_object_get_string_member(whole, "schema"), ==, "memwall-run/1");
    g_assert_cmpuint(json_array_get_length(answers), ==, 1);
    return json_array_get_object_element(answers, 0);
}

static double
number(JsonObject *object, const char *one, const char *two, const char *three)
{
    object = json_object_get_object_member(object, one);
    if (three)
        object = json_object_get_object_member(object, two);
    return json_object_get_double_member(object, three ? three : two);
}

static void
test_json(struct compared *f, gconstpointer data)
{
    const struct mw_run_facts facts = {.steps = 4,
                                       .first_loss = 5,
                                       .last_loss = 4,
                                       .peak_bytes = {100, 200, 300},
                                       .scratch_bytes = 70,
                                       .program_bytes = -1,
                                       .planned_bytes = -1,
                                       .resident_bytes = 1000,
                                       .nvme_read_bytes = 40,
                                       .nvme_written_bytes = 80};
    g_autoptr(JsonParser) parser = json_parser_new();

    (void)data;
    f->run.facts = &facts;
    char *text = text_of(mw_json_run_write, &f->run);
    JsonObject *all = parse_answer(parser, text);
    g_assert_cmpfloat(json_object_get_double_member(all, "step_time_s"), ==, 0.042);
    g_assert_cmpint(json_object_get_int_member(all, "nvme_written_bytes"), ==, 20);
    g_assert_cmpfloat(number(all, "peak_bytes", "nvme", NULL), ==, 300);
    g_assert_cmpfloat(number(all, "predicted", "first_step_time_s", NULL), ==, 0.05);
    g_assert_cmpfloat(number(all, "predicted", "peak_bytes", "gpu"), ==, 0);
    g_assert_cmpfloat_with_epsilon(number(all, "compare", "flops_alone", "error"), -0.5, 1e-12);
    g_assert_cmpfloat(number(all, "run", "last_loss", NULL), ==, 4);
    JsonObject *run = json_object_get_object_member(all, "run");
    g_assert_cmpint(json_object_get_int_member(run, "scratch_bytes"), ==, 70);
    g_assert_true(json_object_get_null_member(run, "program_bytes"));
    g_assert_cmpint(json_object_get_int_member(run, "resident_peak_bytes"), ==, 1000);
    JsonArray *operators =
        json_object_get_array_member(json_object_get_object_member(all, "compare"), "operators");
    g_assert_cmpuint(json_array_get_length(operators), ==, OPS);
    g_assert_cmpstr(
        json_object_get_string_member(json_array_get_object_element(operators, 0), "kind"), ==,
        "compute");
    free(text);
}

static void
test_json_ranks(struct compared *f, gconstpointer data)
{
    g_autoptr(JsonParser) parser = json_parser_new();

    (void)data;
    compared_add_rank(f);
    char *text = text_of(mw_json_run_write, &f->run);
    JsonObject *compare = json_object_get_object_member(parse_answer(parser, text), "compare");
    JsonObject *read =
        json_array_get_object_element(json_object_get_array_member(compare, "lanes"), 1);
    JsonArray *busy = json_object_get_array_member(read, "busy_by_rank_s");
    g_assert_cmpint(json_object_get_int_member(compare, "ranks"), ==, 2);
    g_assert_cmpuint(json_array_get_length(busy), ==, 2);
    g_assert_cmpfloat_with_epsilon(json_array_get_double_element(busy, 1), 0.007, 1e-12);
    g_assert_cmpuint(json_array_get_length(json_object_get_array_member(read, "exposed_by_rank_s")),
                     ==, 2);
    free(text);
}

static guint
count_events(JsonArray *events, const char *ph, gint64 pid)
{
    guint found = 0;

    for (guint i = 0; i < json_array_get_length(events); i++) {
        JsonObject *event = json_array_get_object_element(events, i);
        found += !strcmp(json_object_get_string_member(event, "ph"), ph) &&
                 json_object_get_int_member(event, "pid") == pid;
    }
    return found;
}

/* What the read takes in a process of the trace. */
static double
read_ms(JsonArray *events, gint64 pid)
{
    for (guint i = 0; i < json_array_get_length(events); i++) {
        JsonObject *event = json_array_get_object_element(events, i);
        if (json_object_get_int_member(event, "pid") == pid &&
            json_object_has_member(event, "cat") &&
            !strcmp(json_object_get_string_member(event, "cat"), "nvme-read"))
            return json_object_get_double_member(event, "dur") / 1000;
    }
    return NAN;
}

static void
test_files(struct compared *f, gconstpointer data)
{
    g_autofree char *folder = g_dir_make_tmp("memwall-test-XXXXXX", NULL);
    g_autofree char *trace = g_build_filename(folder, "t.json", NULL);
    g_autofree char *plot = g_build_filename(folder, "p.svg", NULL);
    g_autofree char *text = NULL, *picture = NULL;
    g_autoptr(JsonParser) parser = json_parser_new();

    (void)data;
    compared_add_rank(f);
    compared_add_rank(f);
    g_assert_true(mw_trace_run_write(trace, &f->run, NULL));
    g_assert_true(g_file_get_contents(trace, &text, NULL, NULL));
    g_assert_nonnull(strstr(text, "\"predicted: rank 0\""));
    g_assert_nonnull(strstr(text, "\"measured: rank 0\""));
    g_assert_nonnull(strstr(text, "\"measured: rank 1\""));
    g_assert_nonnull(strstr(text, "\"measured: rank 2\""));
    JsonArray *events = json_object_get_array_member(parse(parser, text), "traceEvents");
    for (int pid = 0; pid < 4; pid++)
        g_assert_cmpuint(count_events(events, "X", pid), ==, OPS);
    g_assert_cmpfloat_with_epsilon(read_ms(events, 1), 5, 1e-9);
    g_assert_cmpfloat_with_epsilon(read_ms(events, 2), 7, 1e-9);
    g_assert_cmpfloat_with_epsilon(read_ms(events, 3), 9, 1e-9);
    g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
    if (gnuplot) {
        g_assert_true(mw_plot_run_write(plot, &f->run, NULL));
        g_assert_true(g_file_get_contents(plot, &picture, NULL, NULL));
        g_assert_nonnull(strstr(picture, "42.0 ms predicted, 42.0 ms measured"));
        g_assert_nonnull(strstr(picture, "measured: rank 2"));
    }
    g_remove(trace);
    g_remove(plot);
    g_rmdir(folder);
}

/* In ms, of the first box of the optimizer step, which is the read. */
static double
plotted_read_ms(const char *script, const char *prefix)
{
    g_autofree char *block = g_strdup_printf("$%sphase%d << EOD\n", prefix, MW_PHASE_OPTIMIZER);
    const char *at = strstr(script, block);
    double start_s = NAN, end_s = NAN;

    g_assert_nonnull(at);
    g_assert_cmpint(sscanf(at + strlen(block), "%*f %*f %lf %lf", &start_s, &end_s), ==, 2);
    return 1e3 * (end_s - start_s);
}

/* The next panel, which begins below `bottom`, and its end. */
static double
next_panel(const char **script, double bottom, const char *name)
{
    double top, end;

    *script = strstr(*script, "set tmargin at screen ");
    g_assert_nonnull(*script);
    g_assert_cmpint(
        sscanf(*script, "set tmargin at screen %lf\nset bmargin at screen %lf\n", &top, &end), ==,
        2);
    g_assert_cmpfloat(top, <, bottom);
    g_assert_cmpfloat_with_epsilon(top - end, 200.0 / 1056, 1e-4);
    *script = strstr(*script, "set ylabel '") + strlen("set ylabel '");
    g_assert_true(g_str_has_prefix(*script, name));
    return end;
}

/* A panel each, of its own timeline. */
static void
test_plot_ranks(struct compared *f, gconstpointer data)
{
    static const char *const names[] = {"predicted'", "measured: rank 0'", "measured: rank 1'",
                                        "measured: rank 2'"};
    double bottom = 1;

    (void)data;
    compared_add_rank(f);
    compared_add_rank(f);
    g_autofree char *script = mw_plot_script_run(&f->run, "out", true);
    const char *at = script;
    g_assert_nonnull(strstr(script, " size 1400,1056 "));
    g_assert_cmpfloat_with_epsilon(plotted_read_ms(script, "p"), 5, 1e-9);
    g_assert_cmpfloat_with_epsilon(plotted_read_ms(script, "m0"), 5, 1e-9);
    g_assert_cmpfloat_with_epsilon(plotted_read_ms(script, "m1"), 7, 1e-9);
    g_assert_cmpfloat_with_epsilon(plotted_read_ms(script, "m2"), 9, 1e-9);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        bottom = next_panel(&at, bottom, names[i]);
    g_assert_cmpfloat(bottom, >, 0);
    g_assert_null(strstr(at, "set tmargin"));
    /* One axis, of the last panel, as long as the longest timeline. */
    const char *axis = strstr(script, "set format x\n");
    g_assert_true(axis > strstr(script, "measured: rank 1") &&
                  axis < strstr(script, "measured: rank 2"));
    g_assert_nonnull(strstr(script, "set xrange [0:44"));
}

/* Alone it needs no number, and the picture is as high as ever. */
static void
test_plot_alone(struct compared *f, gconstpointer data)
{
    (void)data;
    g_autofree char *script = mw_plot_script_run(&f->run, "out", true);
    g_assert_nonnull(strstr(script, " size 1400,800 "));
    g_assert_nonnull(strstr(script, "set tmargin at screen 0.47000\nset bmargin at screen 0.09000\n"
                                    "set ylabel 'measured' "));
    g_assert_null(strstr(script, "rank"));
}

/* A phase is named where it first takes time, and once. */
static void
test_plot_key(struct compared *f, gconstpointer data)
{
    (void)data;
    compared_add_rank(f);
    f->rows[FORWARD].end_ns = f->rows[FORWARD].start_ns;
    g_autofree char *script = mw_plot_script_run(&f->run, "out", true);
    const char *first = strstr(script, "set ylabel 'measured: rank 0'");
    const char *second = strstr(script, "set ylabel 'measured: rank 1'");
    const char *forward = strstr(script, " title 'forward'");
    const char *backward = strstr(script, " title 'backward'");
    g_assert_true(forward > first && forward < second && backward < first);
    g_assert_null(strstr(forward + 1, " title 'forward'"));
    g_assert_null(strstr(backward + 1, " title 'backward'"));
}

int
main(int argc, char **argv)
{
    static const struct compared_test tests[] = {
        {"/compare/table", test_table},
        {"/compare/json", test_json},
        {"/compare/trace-and-plot", test_files},
        {"/compare/table-ranks", test_table_ranks},
        {"/compare/json-ranks", test_json_ranks},
        {"/compare/plot-ranks", test_plot_ranks},
        {"/compare/plot-alone", test_plot_alone},
        {"/compare/plot-key", test_plot_key},
        {"/compare/table-faster", test_table_faster},
    };

    return compared_run(argc, argv, tests, G_N_ELEMENTS(tests));
}
