#include <json-glib/json-glib.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "report/report.h"
#include "study/lanes.h"
#include "tests/golden.h"
#include "tests/report_fixture.h"

typedef void (*print_function)(FILE *out, const struct mw_result *result);

static char *
print_one(print_function print, const struct mw_result *result)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    print(out, result);
    g_assert_cmpint(fclose(out), ==, 0);
    return text;
}

typedef bool (*write_function)(FILE *out, struct mw_result *const *results, size_t count);

static char *
write_all(write_function write, struct mw_result *const *results, size_t count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    g_assert_true(write(out, results, count));
    g_assert_cmpint(fclose(out), ==, 0);
    return text;
}

static bool
write_compare(FILE *out, struct mw_result *const *results, size_t count)
{
    mw_table_compare(out, results, count);
    return true;
}

static void
test_format(void)
{
    g_assert_cmpstr(mw_format_bytes(0), ==, "0 B");
    g_assert_cmpstr(mw_format_bytes(999.4e9), ==, "999 GB");
    g_assert_cmpstr(mw_format_bytes(999.6e9), ==, "1.00 TB");
    g_assert_cmpstr(mw_format_bytes(9.996e9), ==, "10.0 GB");
    g_assert_cmpstr(mw_format_bytes(99.96e9), ==, "100 GB");
    g_assert_cmpstr(mw_format_bytes(-5e6), ==, "-5.00 MB");
    g_assert_cmpstr(mw_format_gib(0x1p30), ==, "1.00 GiB");
    g_assert_cmpstr(mw_format_gib(1.5 * 0x1p40), ==, "1.50 TiB");
    g_assert_cmpstr(mw_format_seconds(0.456), ==, "456 ms");
    g_assert_cmpstr(mw_format_seconds(41.23), ==, "41.2 s");
    g_assert_cmpstr(mw_format_seconds(3e-10), ==, "0.30 ns");
    g_assert_cmpstr(mw_format_seconds(7200 * 5), ==, "10.0 hours");
    g_assert_cmpstr(mw_format_duration(3.5 * 3600), ==, "3.5 hours");
    g_assert_cmpstr(mw_format_duration(86400), ==, "1 day");
    g_assert_cmpstr(mw_format_duration(40 * 86400), ==, "40 days");
    g_assert_cmpstr(mw_format_duration(90), ==, "1.5 minutes");
    g_assert_cmpstr(mw_format_duration(1.19 * 31557600), ==, "1.19 years");
    g_assert_cmpstr(mw_format_duration(INFINITY), ==, "-");
    g_assert_cmpstr(mw_format_seconds(INFINITY), ==, "-");
    g_assert_cmpstr(mw_format_seconds(NAN), ==, "-");
}

static void
test_format_count(void)
{
    g_assert_cmpstr(mw_format_count(1.5e9), ==, "1.5B");
    g_assert_cmpstr(mw_format_count(175e9), ==, "175B");
    g_assert_cmpstr(mw_format_count(1.01e12), ==, "1.01T");
    g_assert_cmpstr(mw_format_count(999.9e9), ==, "1T");
    g_assert_cmpstr(mw_format_count(100), ==, "100");
    g_assert_cmpstr(mw_format_count(0), ==, "0");
    g_assert_cmpstr(mw_format_count(0.5), ==, "0.5");
    g_assert_cmpstr(mw_format_batch(4.875), ==, "4.875");
    g_assert_cmpstr(mw_format_batch(13.0 / 3), ==, "4.33333333333");
    g_assert_cmpstr(mw_format_batch(1288), ==, "1288");
    g_assert_cmpstr(mw_format_batch(1e9), ==, "1000000000");
    g_assert_cmpstr(mw_format_choice(2, 3), ==, "2 to 3");
    g_assert_cmpstr(mw_format_choice(2, 2), ==, "2");
}

static const struct mw_result_lane *
find_lane(const struct mw_result *result, const char *name)
{
    for (size_t i = 0; i < result->lane_count; i++)
        if (g_str_equal(result->lanes[i].name, name))
            return &result->lanes[i];
    g_assert_not_reached();
}

/* One layer: read 0-12, h2d 12-15, gather 15-17, forward 17-25, d2h 25-26.2; then from 10:
 * read 10-22, h2d 22-25, gather 25-27, recompute 27-35, backward 35-51; update 55-64, write 64-73.
 */
static void
test_summary_lanes(void)
{
    struct report_fixture *fixture = report_fixture_new(1);
    const struct mw_result *r = fixture->result;
    const struct mw_result_lane *read = find_lane(r, "nvme-read");

    g_assert_cmpuint(r->lane_count, ==, 7);
    g_assert_cmpfloat_with_epsilon(read->busy_s, 0.022, 1e-12);
    g_assert_cmpfloat_with_epsilon(read->exposed_s, 0.017, 1e-12);
    g_assert_cmpfloat_with_epsilon(find_lane(r, "h2d")->exposed_s, 0.003, 1e-12);
    g_assert_cmpfloat_with_epsilon(find_lane(r, "compute")->busy_s, 0.032, 1e-12);
    g_assert_cmpfloat_with_epsilon(find_lane(r, "compute")->exposed_s, 0, 1e-12);
    report_fixture_free(fixture);
}

static void
test_summary_phases(void)
{
    struct report_fixture *fixture = report_fixture_new(1);
    const struct mw_result *r = fixture->result;

    g_assert_cmpuint(r->phase_count, ==, 3);
    g_assert_cmpstr(r->phases[0].name, ==, "forward");
    g_assert_cmpfloat_with_epsilon(r->phases[0].start_s, 0, 1e-12);
    g_assert_cmpfloat_with_epsilon(r->phases[0].end_s, 0.025, 1e-12);
    g_assert_cmpfloat_with_epsilon(r->phases[1].end_s, 0.051, 1e-12);
    g_assert_cmpfloat_with_epsilon(r->phases[2].start_s, 0.051, 1e-12);
    g_assert_cmpfloat_with_epsilon(r->phases[2].end_s, r->step_time_s[1], 1e-12);
    /* A second call replaces what the first one filled in. */
    mw_summary_lanes(fixture->plan, &fixture->timeline, fixture->result);
    g_assert_cmpuint(r->phase_count, ==, 3);
    report_fixture_free(fixture);
}

static void
print_brief(FILE *out, const struct mw_result *result)
{
    mw_table_simulate(out, result, false);
}

static void
print_details(FILE *out, const struct mw_result *result)
{
    mw_table_simulate(out, result, true);
}

static void
test_tables(void)
{
    static const struct {
        const char *name;
        print_function print;
    } tables[] = {{"report-plan.txt", mw_table_plan},
                  {"report-simulate.txt", print_brief},
                  {"report-simulate-details.txt", print_details}};
    struct report_fixture *fixture = report_fixture_new(2);

    for (size_t i = 0; i < G_N_ELEMENTS(tables); i++) {
        char *text = print_one(tables[i].print, fixture->result);
        mw_golden_check(tables[i].name, text);
        free(text);
    }
    report_fixture_free(fixture);
}

static void
test_tables_refused(void)
{
    struct mw_result *result = report_fixture_refused();
    char *text = print_one(print_brief, result);

    mw_golden_check("report-simulate-refused.txt", text);
    free(text);
    text = print_one(mw_table_plan, result);
    mw_golden_check("report-plan-refused.txt", text);
    free(text);
    mw_result_free(result);
}

static void
test_several(void)
{
    static const struct {
        const char *name;
        write_function write;
    } forms[] = {{"report-compare.txt", write_compare},
                 {"report-several.json", mw_json_write},
                 {"report-several.csv", mw_csv_write}};
    struct report_fixture *fixture = report_fixture_new(2);
    struct mw_result *results[] = {fixture->result, report_fixture_refused()};

    for (size_t i = 0; i < G_N_ELEMENTS(forms); i++) {
        char *text = write_all(forms[i].write, results, G_N_ELEMENTS(results));
        mw_golden_check(forms[i].name, text);
        free(text);
    }
    mw_result_free(results[1]);
    report_fixture_free(fixture);
}

/* Sequences per step have a column where they differ, of those that were simulated. */
static void
test_batches(void)
{
    struct report_fixture *one = report_fixture_new(2), *other = report_fixture_new(2);
    struct mw_result *results[] = {one->result, other->result, report_fixture_refused()};

    char *text = write_all(write_compare, results, G_N_ELEMENTS(results));
    g_assert_null(strstr(text, "per step"));
    free(text);
    other->result->global_batch = 48;
    text = write_all(write_compare, results, G_N_ELEMENTS(results));
    g_assert_nonnull(strstr(text, "fits  batch  per step"));
    g_assert_nonnull(strstr(text, "yes     1.5        24  "));
    g_assert_nonnull(strstr(text, "yes     1.5        48  "));
    g_assert_nonnull(strstr(text, "no      1.5         -  "));
    free(text);
    mw_result_free(results[2]);
    report_fixture_free(one);
    report_fixture_free(other);
}

/* An answer in which nothing was filled in is still printed, and leaks nothing. */
static void
test_empty(void)
{
    struct mw_result *result = mw_result_new();
    static const print_function prints[] = {mw_table_plan, print_brief, print_details};
    static const write_function writes[] = {write_compare, mw_json_write, mw_csv_write};

    for (int simulated = 0; simulated < 2; simulated++) {
        result->simulated = simulated;
        for (size_t i = 0; i < G_N_ELEMENTS(prints); i++)
            free(print_one(prints[i], result));
        for (size_t i = 0; i < G_N_ELEMENTS(writes); i++)
            free(write_all(writes[i], &result, 1));
    }
    mw_result_free(result);
    mw_result_free(NULL);
}

static JsonObject *
parse_answer(JsonParser *parser, const char *text)
{
    g_autoptr(GError) error = NULL;

    json_parser_load_from_data(parser, text, -1, &error);
    g_assert_no_error(error);
    JsonObject *whole = json_node_get_object(json_parser_get_root(parser));
    g_assert_cmpstr(json_object_get_string_member(whole, "schema"), ==, "memwall-answer/1");
    JsonArray *answers = json_object_get_array_member(whole, "answers");
    g_assert_cmpuint(json_array_get_length(answers), ==, 1);
    return json_array_get_object_element(answers, 0);
}

/* Every figure that follows from the step time: low and high beside it, the smaller first. */
static void
check_range(JsonObject *range, const struct mw_result *r)
{
    const struct {
        const char *key;
        double low, high;
    } rows[] = {
        {"tflops_per_gpu", r->tflops_per_gpu[0], r->tflops_per_gpu[2]},
        {"efficiency", r->efficiency[0], r->efficiency[2]},
        {"mfu", r->mfu / 1.2, r->mfu / 0.9},
        {"tokens_per_s", r->tokens_per_s / 1.2, r->tokens_per_s / 0.9},
        {"days", r->days * 0.9, r->days * 1.2},
        {"cost_usd", r->cost_usd * 0.9, r->cost_usd * 1.2},
        {"drive_life_steps", r->drive_life_steps, r->drive_life_steps},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        JsonObject *ends = json_object_get_object_member(range, rows[i].key);
        g_assert_cmpfloat_with_epsilon(json_object_get_double_member(ends, "low"), rows[i].low,
                                       1e-12 * rows[i].low);
        g_assert_cmpfloat_with_epsilon(json_object_get_double_member(ends, "high"), rows[i].high,
                                       1e-12 * rows[i].high);
    }
    g_assert_false(json_object_has_member(range, "energy_kwh")); /* cannot be said */
    g_assert_cmpuint(json_object_get_size(range), ==, G_N_ELEMENTS(rows) + 1);
}

static void
test_json_values(void)
{
    struct report_fixture *fixture = report_fixture_new(2);
    char *text = write_all(mw_json_write, &fixture->result, 1);
    g_autoptr(JsonParser) parser = json_parser_new();
    JsonObject *object = parse_answer(parser, text);
    JsonObject *range = json_object_get_object_member(object, "range");
    JsonArray *notes = json_object_get_array_member(object, "notes");

    g_assert_true(json_object_get_boolean_member(object, "feasible"));
    g_assert_cmpfloat(json_object_get_double_member(object, "step_time_s"), ==,
                      fixture->result->step_time_s[1]);
    g_assert_cmpint(
        json_object_get_int_member(json_object_get_object_member(object, "peak_bytes"), "cpu"), ==,
        fixture->result->tiers[MW_TIER_CPU].peak_bytes);
    g_assert_cmpfloat(
        json_object_get_double_member(json_object_get_object_member(range, "step_time_s"), "low"),
        ==, fixture->result->step_time_s[2]);
    check_range(range, fixture->result);
    g_assert_cmpstr(json_array_get_string_element(notes, 1), ==, fixture->result->notes[1]);
    g_assert_true(json_object_get_null_member(object, "energy_kwh"));
    free(text);
    report_fixture_free(fixture);
}

/* Where both ends of the profile give less than the typical one, or more, it is an end itself. */
static void
test_range_outside(void)
{
    struct report_fixture *fixture = report_fixture_new(2);
    struct mw_result *r = fixture->result;
    const double cases[][3] = {{0.5, 0.6, 0.55}, {0.6, 0.5, 0.55}, {0.55, 0.5, 0.6}};

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        memcpy(r->efficiency, cases[i], sizeof r->efficiency);
        for (int o = 0; o < 3; o++)
            r->tflops_per_gpu[o] = 100 * cases[i][o];
        char *text = write_all(mw_json_write, &r, 1), *table = print_one(print_details, r);
        g_autoptr(JsonParser) parser = json_parser_new();
        JsonObject *range = json_object_get_object_member(parse_answer(parser, text), "range");
        for (const char *const *key = (const char *const[]){"efficiency", "tflops_per_gpu", NULL};
             *key; key++) {
            double scale = !strcmp(*key, "efficiency") ? 1 : 100;
            JsonObject *ends = json_object_get_object_member(range, *key);
            g_assert_cmpfloat(json_object_get_double_member(ends, "low"), ==, 0.5 * scale);
            g_assert_cmpfloat(json_object_get_double_member(ends, "high"), ==, 0.6 * scale);
        }
        g_assert_nonnull(strstr(table, " (50.0 .. 60.0) TFLOP/s per GPU"));
        memcpy(r->step_time_s, cases[i], sizeof r->step_time_s);
        g_autofree char *ends = g_strdup_printf(",%g,0.5,0.6,", cases[i][1]);
        char *csv = write_all(mw_csv_write, &r, 1);
        g_assert_nonnull(strstr(csv, ends));
        free(csv);
        free(text);
        free(table);
    }
    report_fixture_free(fixture);
}

/* No figure in all that is there. */
static void
assert_no_figure(JsonNode *node, const char *key)
{
    if (JSON_NODE_HOLDS_OBJECT(node)) {
        JsonObjectIter iter;
        const char *name;
        JsonNode *member;
        json_object_iter_init(&iter, json_node_get_object(node));
        while (json_object_iter_next(&iter, &name, &member))
            assert_no_figure(member, name);
    } else if (JSON_NODE_HOLDS_ARRAY(node)) {
        JsonArray *array = json_node_get_array(node);
        for (guint i = 0; i < json_array_get_length(array); i++)
            assert_no_figure(json_array_get_element(array, i), key);
    } else if (json_node_get_value_type(node) == G_TYPE_DOUBLE &&
               !g_str_has_suffix(key, "_bytes")) { /* counts: none is 0 */
        g_error("%s is %g, of which nothing was said", key, json_node_get_double(node));
    }
}

/* Of an answer that says nothing yet every figure is null, simulated or not. */
static void
test_json_unsaid(void)
{
    struct mw_result *result = mw_result_new();

    for (int simulated = 0; simulated < 2; simulated++) {
        result->simulated = simulated;
        char *text = write_all(mw_json_write, &result, 1);
        g_autoptr(JsonParser) parser = json_parser_new();
        g_assert_true(json_parser_load_from_data(parser, text, -1, NULL));
        assert_no_figure(json_parser_get_root(parser), "the whole");
        free(text);
    }
    mw_result_free(result);
}

static void
test_json_not_finite(void)
{
    struct report_fixture *fixture = report_fixture_new(1);
    struct mw_result *r = fixture->result;
    g_autoptr(JsonParser) parser = json_parser_new();
    JsonObject *object;
    char *text;

    r->step_time_s[0] = INFINITY;
    r->step_time_s[1] = NAN;
    r->efficiency[1] = -INFINITY;
    r->model[0] = '\377';
    r->model[1] = '\n';
    text = write_all(mw_json_write, &r, 1);
    object = parse_answer(parser, text);
    g_assert_true(json_object_get_null_member(object, "step_time_s"));
    g_assert_true(json_object_get_null_member(object, "efficiency"));
    g_assert_cmpuint(json_object_get_size(json_object_get_object_member(object, "range")), ==, 0);
    g_assert_true(
        g_str_has_prefix(json_object_get_string_member(object, "model"), "\357\277\275\n"));
    free(text);
    report_fixture_free(fixture);
}

/* A comma for a point would break every number. */
static void
test_locale(void)
{
    struct report_fixture *fixture;

    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) {
        g_test_skip("no locale with a decimal comma is installed");
        return;
    }
    fixture = report_fixture_new(2);
    for (int i = 0; i < 2; i++) {
        struct mw_result *results[] = {fixture->result, report_fixture_refused()};
        char *text = write_all(i ? mw_csv_write : mw_json_write, results, 2);
        mw_golden_check(i ? "report-several.csv" : "report-several.json", text);
        free(text);
        mw_result_free(results[1]);
    }
    report_fixture_free(fixture);
    setlocale(LC_NUMERIC, "C");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/format/units", test_format);
    g_test_add_func("/report/format/count", test_format_count);
    g_test_add_func("/report/summary/lanes", test_summary_lanes);
    g_test_add_func("/report/summary/phases", test_summary_phases);
    g_test_add_func("/report/table/golden", test_tables);
    g_test_add_func("/report/table/refused", test_tables_refused);
    g_test_add_func("/report/several/golden", test_several);
    g_test_add_func("/report/batches", test_batches);
    g_test_add_func("/report/empty", test_empty);
    g_test_add_func("/report/json/values", test_json_values);
    g_test_add_func("/report/json/range-outside", test_range_outside);
    g_test_add_func("/report/json/unsaid", test_json_unsaid);
    g_test_add_func("/report/json/not-finite", test_json_not_finite);
    g_test_add_func("/report/locale", test_locale);
    return g_test_run();
}
