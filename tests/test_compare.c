/* Predicted against measured, on timelines whose figures are known. */
#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

#include "planner/error.h"
#include "report/plot_script.h"
#include "report/report.h"
#include "report/run.h"
#include "tests/compare_fixture.h"

struct fixture {
    struct mw_plan *plan;
    struct mw_timeline_row rows[OPS];
    struct mw_timeline timeline;
    struct mw_result *predicted;
    struct mw_measured *measured;
    struct mw_compare *compare;
    struct mw_run run;
};

/* Predicted: forward 15 ms, the step 44 ms.  Measured: forward 90 ms, then 10, 12 and 30. */
static void
set_up(struct fixture *f, gconstpointer data)
{
    static const int64_t forward_ms[] = {90, 10, 30, 12};

    (void)data;
    f->plan = compare_fixture_plan();
    compare_fixture_rows(f->rows, 0, 3 * MS, 15);
    f->timeline = (struct mw_timeline){f->rows, OPS};
    f->predicted = g_new0(struct mw_result, 1);
    f->predicted->plan = f->plan;
    f->predicted->timeline = &f->timeline;
    f->predicted->hardware = g_strdup("profile");
    f->predicted->feasible = f->predicted->simulated = true;
    f->predicted->nodes = f->predicted->gpus_per_node = 1;
    for (int o = 0; o < 3; o++) {
        f->predicted->step_time_s[o] = 0.042;
        f->predicted->tflops_per_gpu[o] = 10;
    }
    f->predicted->first_step_time_s = 0.05;
    f->predicted->efficiency = 0.5;
    f->predicted->tokens_per_s = 1000;
    mw_summary_lanes(f->plan, &f->timeline, f->predicted);
    f->measured = compare_fixture_measured(forward_ms, G_N_ELEMENTS(forward_ms));
    f->compare = mw_compare_new(f->predicted, f->measured, 0.021);
    f->run = (struct mw_run){f->predicted, f->measured, f->compare, NULL, "a machine"};
}

static void
tear_down(struct fixture *f, gconstpointer data)
{
    (void)data;
    mw_compare_free(f->compare);
    mw_measured_free(f->measured);
    mw_result_free(f->predicted);
    mw_plan_free(f->plan);
}

static void
assert_pair(struct mw_pair pair, double predicted_ms, double measured_ms)
{
    g_assert_cmpfloat_with_epsilon(pair.predicted_s * 1e3, predicted_ms, 1e-9);
    g_assert_cmpfloat_with_epsilon(pair.measured_s * 1e3, measured_ms, 1e-9);
}

/* A later step takes forward + 29 ms and the millisecond since the one before: the median is that
 * of 12 ms. */
static void
test_step(struct fixture *f, gconstpointer data)
{
    const struct mw_compare *c = f->compare;

    (void)data;
    g_assert_cmpuint(c->steps, ==, 3);
    assert_pair(c->step, 42, 42);
    assert_pair(c->first_step, 50, 119);
    g_assert_cmpint(c->typical_step, ==, 3);
    g_assert_cmpfloat_with_epsilon(c->fastest_s, 0.040, 1e-12);
    g_assert_cmpfloat_with_epsilon(c->slowest_s, 0.060, 1e-12);
    g_assert_cmpfloat_with_epsilon(c->idle_s, 0.002, 1e-12);
    g_assert_cmpfloat_with_epsilon(mw_pair_error((struct mw_pair){1.1, 1}), 0.1, 1e-12);
    g_assert_true(isnan(mw_pair_error((struct mw_pair){1, 0})));
}

/* Read hides behind backward; write is exposed. */
static void
test_lanes(struct fixture *f, gconstpointer data)
{
    const struct mw_compare *c = f->compare;

    (void)data;
    g_assert_cmpuint(c->lane_count, ==, 3);
    g_assert_cmpuint(c->lanes[0].ops, ==, 2);
    assert_pair(c->lanes[0].busy, 35, 32);
    assert_pair(c->lanes[1].busy, 5, 5);
    assert_pair(c->lanes[1].exposed, 0, 0);
    assert_pair(c->lanes[2].exposed, 8, 8);
    g_assert_cmpuint(c->phase_count, ==, 3);
    g_assert_cmpstr(c->phases[0].name, ==, "forward");
    assert_pair(c->phases[0].takes, 15, 12);
    assert_pair(c->phases[1].takes, 20, 20);
    assert_pair(c->phases[2].takes, 9, 9);
}

/* What differs comes first, then what comes first in kind, operator and phase. */
static void
test_operators(struct fixture *f, gconstpointer data)
{
    const struct mw_compare *c = f->compare;

    (void)data;
    g_assert_cmpuint(c->operator_count, ==, OPS);
    g_assert_cmpint(c->operators[0].kind, ==, MW_OP_COMPUTE);
    g_assert_cmpint(c->operators[0].operator_, ==, MW_OPERATOR_QKV);
    g_assert_cmpint(c->operators[0].phase, ==, MW_PHASE_FORWARD);
    g_assert_cmpuint(c->operators[0].ops, ==, 1);
    assert_pair(c->operators[0].sum, 15, 12);
    g_assert_cmpint(c->operators[1].phase, ==, MW_PHASE_BACKWARD);
    g_assert_cmpint(c->operators[3].kind, ==, MW_OP_NVME_WRITE);
    g_assert_cmpuint(c->op_count, ==, OPS);
    g_assert_cmpuint(c->ops[0].op, ==, FORWARD);
    assert_pair(c->ops[0].takes, 15, 12);
}

/* The first step is all there is. */
static void
test_alone(struct fixture *f, gconstpointer data)
{
    static const int64_t forward_ms[] = {90};
    struct mw_measured *measured = compare_fixture_measured(forward_ms, 1);
    struct mw_compare *c = mw_compare_new(f->predicted, measured, NAN);

    (void)data;
    g_assert_cmpuint(c->steps, ==, 1);
    assert_pair(c->step, 42, 119);
    assert_pair(c->phases[0].takes, 15, 90);
    mw_compare_free(c);
    mw_measured_free(measured);
}

/* Of many steps the ones that are kept span all of them. */
static void
test_thinned(struct fixture *f, gconstpointer data)
{
    g_autofree int64_t *forward_ms = g_new(int64_t, 1000);
    uint32_t count;

    (void)data;
    for (int i = 0; i < 1000; i++)
        forward_ms[i] = i;
    struct mw_measured *measured = compare_fixture_measured(forward_ms, 1000);
    const struct mw_measured_step *steps = mw_measured_steps(measured, &count);
    g_assert_cmpint(measured->seen, ==, 1000);
    g_assert_cmpuint(count, ==, 63);
    for (uint32_t i = 0; i < count; i++) {
        g_assert_cmpint(steps[i].step, ==, 1 + 16 * i);
        g_assert_cmpint(steps[i].time_ns, ==, (steps[i].step + 30) * MS);
        g_assert_cmpint(steps[i].timeline.rows[FORWARD].step, ==, steps[i].step);
    }
    struct mw_compare *c = mw_compare_new(f->predicted, measured, NAN);
    assert_pair(c->step, 42, 1 + 16 * 31 + 30);
    mw_compare_free(c);
    mw_measured_free(measured);
}

/* A trainer that runs twice begins its clock anew. */
static void
test_anew(struct fixture *f, gconstpointer data)
{
    struct mw_timeline_row rows[OPS];

    (void)data;
    compare_fixture_rows(rows, 0, 0, 5);
    g_assert_cmpint(mw_measured_add(f->measured, &(struct mw_timeline){rows, OPS}), ==, 34 * MS);
}

/* What was measured stands where the prediction stood. */
static void
test_result(struct fixture *f, gconstpointer data)
{
    (void)data;
    f->predicted->step_time_s[0] = f->predicted->step_time_s[1] = f->predicted->step_time_s[2] =
        0.084;
    mw_compare_free(f->compare);
    f->run.compare = f->compare = mw_compare_new(f->predicted, f->measured, NAN);
    struct mw_result *r = mw_run_result(&f->run);
    for (int o = 0; o < 3; o++) {
        g_assert_cmpfloat_with_epsilon(r->step_time_s[o], 0.042, 1e-12);
        g_assert_cmpfloat_with_epsilon(r->tflops_per_gpu[o], 20, 1e-9);
    }
    g_assert_cmpfloat_with_epsilon(r->tokens_per_s, 2000, 1e-9);
    g_assert_cmpfloat_with_epsilon(r->efficiency, 1, 1e-12);
    g_assert_cmpfloat_with_epsilon(r->first_step_time_s, 0.119, 1e-12);
    g_assert_cmpstr(r->bottleneck, ==, "compute lane");
    g_assert_cmpfloat_with_epsilon(r->bottleneck_share, 32.0 / 42, 1e-9);
    g_assert_cmpfloat_with_epsilon(r->lanes[0].busy_s, 0.032, 1e-12);
    mw_run_result_free(r);
}

/* Another rank, whose read takes 7 ms, a third one's 9, and stands in the way for what it has more
 * than 6. */
static void
add_rank(struct fixture *f)
{
    int64_t more_ms = 2 * (f->measured->rank_count + 1);
    struct mw_timeline_row rows[OPS];
    struct mw_measured_rank rank = {
        .lane_count = 3, .busy_ns = g_new0(int64_t, 3), .exposed_ns = g_new0(int64_t, 3)};

    compare_fixture_rows(rows, 3, 500 * MS, 12);
    rows[READ].end_ns += more_ms * MS;
    rank.timeline = (struct mw_timeline){g_memdup2(rows, sizeof rows), OPS};
    rank.busy_ns[0] = 32 * MS;
    rank.busy_ns[1] = (5 + more_ms) * MS;
    rank.busy_ns[2] = 8 * MS;
    rank.exposed_ns[1] = (more_ms - 1) * MS;
    mw_measured_add_rank(f->measured, &rank);
    mw_compare_free(f->compare);
    f->run.compare = f->compare = mw_compare_new(f->predicted, f->measured, 0.021);
}

static void
test_ranks(struct fixture *f, gconstpointer data)
{
    (void)data;
    g_assert_cmpuint(f->compare->ranks, ==, 1);
    add_rank(f);
    const struct mw_compare *c = f->compare;
    g_assert_cmpuint(c->ranks, ==, 2);
    assert_pair(c->lanes[1].busy, 5, 5);
    g_assert_cmpfloat_with_epsilon(c->lanes[1].busy_s[0], 0.005, 1e-12);
    g_assert_cmpfloat_with_epsilon(c->lanes[1].busy_s[1], 0.007, 1e-12);
    g_assert_cmpfloat_with_epsilon(c->lanes[1].exposed_s[1], 0.001, 1e-12);
}

/* What a rank says of itself is what the first would. */
static void
test_own_rank(struct fixture *f, gconstpointer data)
{
    struct mw_measured_rank rank = mw_compare_rank(f->plan, f->measured, 2);

    (void)data;
    for (uint32_t l = 0; l < 3; l++) {
        g_assert_cmpint(rank.busy_ns[l], ==, llround(f->compare->lanes[l].busy.measured_s * 1e9));
        g_assert_cmpint(rank.exposed_ns[l], ==,
                        llround(f->compare->lanes[l].exposed.measured_s * 1e9));
    }
    g_assert_cmpmem(rank.timeline.rows, OPS * sizeof *rank.timeline.rows,
                    f->measured->later[1].timeline.rows, OPS * sizeof *rank.timeline.rows);
    mw_measured_rank_clear(&rank);
}

/* --- what is written ------------------------------------------------------------------------- */

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
test_table(struct fixture *f, gconstpointer data)
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
        "Lanes (busy; measured share of the step, and exposed: compute stands still meanwhile)\n"
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

static void
test_table_ranks(struct fixture *f, gconstpointer data)
{
    static const char expected[] =
        "  lane        ops  predicted  measured  error  of step  exposed        over 2 ranks\n"
        "  compute       2    35.0 ms   32.0 ms  +9.4%    76.2%      0 s  32.0 ms .. 32.0 ms\n"
        "  nvme-read     1    5.00 ms   5.00 ms  +0.0%    11.9%      0 s  5.00 ms .. 7.00 ms\n";

    (void)data;
    add_rank(f);
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

static double
number(JsonObject *object, const char *one, const char *two, const char *three)
{
    object = json_object_get_object_member(object, one);
    if (three)
        object = json_object_get_object_member(object, two);
    return json_object_get_double_member(object, three ? three : two);
}

static void
test_json(struct fixture *f, gconstpointer data)
{
    const struct mw_run_facts facts = {.steps = 4, .first_loss = 5, .last_loss = 4,
                                       .peak_bytes = {100, 200, 300}, .resident_bytes = 1000,
                                       .nvme_read_bytes = 40, .nvme_written_bytes = 80};
    g_autoptr(JsonParser) parser = json_parser_new();

    (void)data;
    f->run.facts = &facts;
    char *text = text_of(mw_json_run_write, &f->run);
    JsonObject *all = parse(parser, text);
    g_assert_cmpfloat(json_object_get_double_member(all, "step_time_s"), ==, 0.042);
    g_assert_cmpint(json_object_get_int_member(all, "nvme_written_bytes"), ==, 20);
    g_assert_cmpfloat(number(all, "peak_bytes", "nvme", NULL), ==, 300);
    g_assert_cmpfloat(number(all, "predicted", "first_step_time_s", NULL), ==, 0.05);
    g_assert_cmpfloat(number(all, "predicted", "peak_bytes", "gpu"), ==, 0);
    g_assert_cmpfloat_with_epsilon(number(all, "compare", "flops_alone", "error"), -0.5, 1e-12);
    g_assert_cmpfloat(number(all, "run", "last_loss", NULL), ==, 4);
    JsonArray *operators = json_object_get_array_member(
        json_object_get_object_member(all, "compare"), "operators");
    g_assert_cmpuint(json_array_get_length(operators), ==, OPS);
    g_assert_cmpstr(json_object_get_string_member(json_array_get_object_element(operators, 0),
                                                  "kind"),
                    ==, "compute");
    free(text);
}

static void
test_json_ranks(struct fixture *f, gconstpointer data)
{
    g_autoptr(JsonParser) parser = json_parser_new();

    (void)data;
    add_rank(f);
    char *text = text_of(mw_json_run_write, &f->run);
    JsonObject *compare = json_object_get_object_member(parse(parser, text), "compare");
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
test_files(struct fixture *f, gconstpointer data)
{
    g_autofree char *folder = g_dir_make_tmp("memwall-test-XXXXXX", NULL);
    g_autofree char *trace = g_build_filename(folder, "t.json", NULL);
    g_autofree char *plot = g_build_filename(folder, "p.svg", NULL);
    g_autofree char *text = NULL, *picture = NULL;
    g_autoptr(JsonParser) parser = json_parser_new();

    (void)data;
    add_rank(f);
    add_rank(f);
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
test_plot_ranks(struct fixture *f, gconstpointer data)
{
    static const char *const names[] = {"predicted'", "measured: rank 0'", "measured: rank 1'",
                                        "measured: rank 2'"};
    double bottom = 1;

    (void)data;
    add_rank(f);
    add_rank(f);
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
test_plot_alone(struct fixture *f, gconstpointer data)
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
test_plot_key(struct fixture *f, gconstpointer data)
{
    (void)data;
    add_rank(f);
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

/* --- the file of a run ----------------------------------------------------------------------- */

/* A run of two ranks. */
static char *
saved(struct fixture *f, size_t *length)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, length);

    add_rank(f);
    g_assert_true(mw_measured_write(f->measured, f->plan, "two\nlines", out));
    fclose(out);
    return text;
}

static void
test_saved(struct fixture *f, gconstpointer data)
{
    size_t length;
    char *text = saved(f, &length);
    struct mw_plan *plan;
    g_autofree char *machine = NULL;
    g_autoptr(GError) error = NULL;
    struct mw_measured *measured =
        mw_measured_parse(text, length, "file", &plan, &machine, &error);

    (void)data;
    g_assert_no_error(error);
    g_assert_cmpstr(machine, ==, "two lines");
    g_assert_true(plan->checked);
    g_assert_cmpint(measured->seen, ==, 4);
    g_assert_cmpuint(measured->count, ==, 3);
    g_assert_cmpint(measured->first.time_ns, ==, 119 * MS);
    for (uint32_t i = 0; i < 3; i++) {
        const struct mw_measured_step *a = &measured->later[i], *b = &f->measured->later[i];
        g_assert_cmpint(a->time_ns, ==, b->time_ns);
        g_assert_cmpmem(a->timeline.rows, OPS * sizeof *a->timeline.rows, b->timeline.rows,
                        OPS * sizeof *b->timeline.rows);
    }
    const struct mw_measured_rank *a = &measured->ranks[0], *b = &f->measured->ranks[0];
    g_assert_cmpuint(measured->rank_count, ==, 1);
    g_assert_cmpmem(a->busy_ns, 3 * sizeof *a->busy_ns, b->busy_ns, 3 * sizeof *b->busy_ns);
    g_assert_cmpmem(a->exposed_ns, 3 * sizeof *a->busy_ns, b->exposed_ns, 3 * sizeof *b->busy_ns);
    g_assert_cmpmem(a->timeline.rows, OPS * sizeof *a->timeline.rows, b->timeline.rows,
                    OPS * sizeof *b->timeline.rows);
    mw_measured_free(measured);
    mw_plan_free(plan);
    free(text);
}

/* Nothing is left out or added without being noticed. */
static void
test_cut(struct fixture *f, gconstpointer data)
{
    size_t length;
    char *text = saved(f, &length);

    (void)data;
    for (size_t cut = 0; cut < length - 1; cut++) {
        struct mw_plan *plan;
        char *machine = NULL;
        g_autoptr(GError) error = NULL;
        g_assert_null(mw_measured_parse(text, cut, "file", &plan, &machine, &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_FORMAT);
        g_assert_true(g_str_has_prefix(error->message, "file: "));
        g_assert_null(strchr(error->message, '\n'));
        g_assert_null(plan);
        g_assert_null(machine);
    }
    free(text);
}

static const struct {
    const char *from, *to, *why;
} wrong[] = {
    {"seen 4", "seen 0", "at least one step"},
    {"seen 4", "seen 3", "number from 0 to 2"},
    {"later 3", "later 65", "a number from 0 to 64"},
    {"later 3", "later 4", "'step'"},
    {"step 2 time", "step 1 time", "a later step"},
    {"time 119000000", "time 0", "a time above 0"},
    {"\n0 0 90000000", "\n1 0 90000000", "the op 0"},
    {"\n0 0 90000000", "\n0 90000000 0", "an end that is not before the start"},
    {"\n0 0 90000000", "\n0 0 -1", "a number from 0"},
    {"\n0 0 90000000", "\n0 0 90000001", "a start of op 1 after op 0"},
    {"\n0 0 90000000", "\n0 0 90000000 7", "the end of the line"},
    {"memwall-run 1", "memwall-run 2", "'1'"},
    {"machine two", "computer two", "'machine'"},
    {"rank 1", "rank 2", "the rank 1"},
    {"rank 1", "rang 1", "'end'"},
    {"lane busy 7000000", "lane busy -1", "a number from 0"},
    {"lane busy 7000000 exposed 1000000\n", "", "'lane'"},
    {"\n0 500000000 512000000", "\n0 500000000 512000001", "a start of op 1 after op 0"},
};

static void
test_wrong(struct fixture *f, gconstpointer data)
{
    size_t length;
    char *text = saved(f, &length);

    (void)data;
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        struct mw_plan *plan;
        char *machine = NULL;
        g_autoptr(GError) error = NULL;
        char *at = strstr(text, wrong[i].from);
        g_assert_nonnull(at);
        g_autofree char *bad = g_strdup_printf("%.*s%s%s", (int)(at - text), text, wrong[i].to,
                                               at + strlen(wrong[i].from));
        g_assert_null(mw_measured_parse(bad, strlen(bad), "file", &plan, &machine, &error));
        if (!strstr(error->message, wrong[i].why))
            g_error("%s -> %s: says %s", wrong[i].from, wrong[i].to, error->message);
    }
    free(text);
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *path;
        void (*test)(struct fixture *f, gconstpointer data);
    } tests[] = {
        {"/compare/step", test_step},
        {"/compare/lanes", test_lanes},
        {"/compare/operators", test_operators},
        {"/compare/first-alone", test_alone},
        {"/compare/thinned", test_thinned},
        {"/compare/clock-anew", test_anew},
        {"/compare/result", test_result},
        {"/compare/table", test_table},
        {"/compare/json", test_json},
        {"/compare/trace-and-plot", test_files},
        {"/measured/saved", test_saved},
        {"/measured/cut", test_cut},
        {"/measured/wrong", test_wrong},
        {"/compare/ranks", test_ranks},
        {"/compare/own-rank", test_own_rank},
        {"/compare/table-ranks", test_table_ranks},
        {"/compare/json-ranks", test_json_ranks},
        {"/compare/plot-ranks", test_plot_ranks},
        {"/compare/plot-alone", test_plot_alone},
        {"/compare/plot-key", test_plot_key},
    };

    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(tests); i++)
        g_test_add(tests[i].path, struct fixture, NULL, set_up, tests[i].test, tear_down);
    return g_test_run();
}
