/* --outlook reads one end of every range: its step time is that end of the range shown without. */
#include <glib.h>
#include <json-glib/json-glib.h>
#include <string.h>

/* Runs memwall with one more option; *status is its exit status. */
static char *
simulate(const char *option, int *status)
{
    const char *arguments[] = {g_getenv("MEMWALL"), "simulate", "-m", "tiny", "-H", "rtx4090",
                               "-s", "zero-offload", "--batch", "2", "--json", option, NULL};
    char *out = NULL;
    g_autofree char *err = NULL;
    g_autoptr(GError) error = NULL;
    int wait_status;

    g_spawn_sync(NULL, (char **)arguments, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &out, &err,
                 &wait_status, &error);
    g_assert_no_error(error);
    *status = g_spawn_check_wait_status(wait_status, &error) ? 0 : error->code;
    return out;
}

static JsonObject *
answer(JsonParser *parser, const char *option)
{
    int status;
    g_autofree char *text = simulate(option, &status);

    g_assert_cmpint(status, ==, 0);
    g_assert_true(json_parser_load_from_data(parser, text, -1, NULL));
    JsonObject *all = json_node_get_object(json_parser_get_root(parser));
    return json_array_get_object_element(json_object_get_array_member(all, "answers"), 0);
}

static double
step_s(const char *option)
{
    g_autoptr(JsonParser) parser = json_parser_new();

    return json_object_get_double_member(answer(parser, option), "step_time_s");
}

static void
test_ends(void)
{
    g_autoptr(JsonParser) parser = json_parser_new();
    JsonObject *range = json_object_get_object_member(answer(parser, NULL), "range");
    JsonObject *step = json_object_get_object_member(range, "step_time_s");

    /* A range adds up independent errors; an outlook has all figures at one end. */
    g_assert_cmpfloat(step_s("--outlook=low"), >=, json_object_get_double_member(step, "high"));
    g_assert_cmpfloat(step_s("--outlook=high"), <=, json_object_get_double_member(step, "low"));
    g_assert_cmpfloat(json_object_get_double_member(step, "high"), >, step_s(NULL));
    g_assert_cmpfloat(json_object_get_double_member(step, "low"), <, step_s(NULL));
    g_assert_cmpfloat(step_s("--outlook=typical"), ==, step_s(NULL));
    g_assert_cmpfloat(step_s("--outlook=low"), >, step_s("--outlook=high"));
}

static void
test_refusal(void)
{
    int status;
    g_autofree char *text = simulate("--outlook=worst", &status);

    g_assert_cmpint(status, ==, 2);
    g_assert_cmpstr(text, ==, "");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/cli/outlook/ends", test_ends);
    g_test_add_func("/cli/outlook/refusal", test_refusal);
    return g_test_run();
}
