/* Reading JSON strictly. */
#include "base/json.h"

#include <string.h>

#include "base/error.h"

static JsonNode *
parse(const char *text, GError **error)
{
    return mw_json_parse(text, -1, "some.json", error);
}

static void
test_accepted(void)
{
    static const char *const texts[] = {
        "{}",
        "\xef\xbb\xbf{\"a\": 1}",
        "{\"a\": [1, -2.5e-05, 0.000271828182845904523536, 0, 0.5, 1e10, true, null]}",
        "{\"text\": \"]]]] } \\\" 0x10 007 // 'é\"}",
        "{\"a\": 999999999999999999}",
        "{\"a\": [-9223372036854775807, 9223372036854775807]}",
        "{\"a\": \"\\\\u0000\"}",
    };

    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(JsonNode) node = parse(texts[i], &error);
        g_assert_no_error(error);
        g_assert_nonnull(node);
    }
}

static void
test_refused(void)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "one JSON object"},
        {"[]", "one JSON object"},
        {"{\"a\": 1", "cut short"},
        {"{\"a\": \"x", "cut short"},
        {"{\"a\": \"x\\", "cut short"},
        {"{\"a\":\n1,\n", "line 3"},
        {"{\"a\": }", "not JSON"},
        {"{} x", "something follows the last brace"},
        {"{\"a\": 1}\n{\"a\": 1}\n", "something follows the last brace"},
        {"{\"b\": {\"a\": \"x\",\n\"a:\": 18446744073709552384}}",
         "line 2: key \"a:\": value 18446744073709552384: must be a whole number from -922"},
        {"{\"a\": 9223372036854775808}", "key \"a\": value 9223372036854775808: must be a whole"},
        {"{\"a\": -18446744073709550848}", "key \"a\": value -18446744073709550848: must be"},
        {"{\"a\": \"q_proj\\u0000x\"}", "line 1: a string has \\u0000"},
        {"{\"a\\u0000\": 1}", "a string has \\u0000"},
        {"[1000000000000000000000000000000000000000000000000000]",
         "line 1: value 100000000000000000000000000000000000000000000000...: must be"},
        {"{\"a\": 1, \"b\": {\"a\": 2, \"c\": 3, \"a\": {}}}", "key \"a\""},
        {"{\"a\": {\"x\": 1}, \"b\": {}, \"a\": {\"x\": 1}}", "given twice"},
        {"{\"a\": 010}", "starts with 0"},
        {"{\"a\": 0x10}", "starts with 0"},
        {"{'a': 1}", "a character"},
        {"{} /* comment */", "something follows the last brace"},
        {"{\"a\": NaN}", "not JSON: \"NaN\""},
        {"{\"a\": Infinity}", "not JSON: \"Infinity\""},
        {"{\"a\": \"\xff\"}", "not JSON: must be UTF-8"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(JsonNode) node = parse(rows[i].text, &error);
        g_assert_null(node);
        g_assert_error(error, MW_ERROR, MW_ERROR_FORMAT);
        g_assert_true(g_str_has_prefix(error->message, "some.json: "));
        g_assert_null(strchr(error->message, '\n'));
        if (!strstr(error->message, rows[i].why))
            g_error("%s: wanted \"%s\", got: %s", rows[i].text, rows[i].why, error->message);
    }
}

/* json-glib recurses: nesting without end would take the stack. */
static void
test_nesting(void)
{
    g_autofree char *open = g_strnfill(1000000, '[');
    g_autofree char *text = g_strconcat("{\"a\": ", open, NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonNode) node = parse(text, &error);

    g_assert_null(node);
    g_assert_nonnull(strstr(error->message, "64 deep"));
}

static void
test_values(void)
{
    g_autoptr(JsonNode) node =
        parse("{\"i\": 5, \"d\": 0.25, \"b\": true, \"s\": \"x\", \"n\": null,"
              " \"big\": 1e300, \"point\": 4.0}",
              NULL);
    JsonObject *object = json_node_get_object(node);
    int64_t whole = 7;
    double number = 7;
    bool flag = false;
    const char *text = NULL;

    g_assert_true(mw_json_get_int(object, "i", 1, 9, "o", &whole, NULL));
    g_assert_cmpint(whole, ==, 5);
    g_assert_true(mw_json_get_int(object, "absent", 1, 9, "o", &whole, NULL));
    g_assert_true(mw_json_get_int(object, "n", 1, 9, "o", &whole, NULL));
    g_assert_cmpint(whole, ==, 5);
    g_assert_true(mw_json_get_int(object, "point", 1, 9, "o", &whole, NULL));
    g_assert_cmpint(whole, ==, 4);
    g_assert_true(mw_json_get_number(object, "d", 0, 1, "o", &number, NULL));
    g_assert_cmpfloat(number, ==, 0.25);
    g_assert_true(mw_json_get_number(object, "i", 0, 9, "o", &number, NULL));
    g_assert_cmpfloat(number, ==, 5);
    g_assert_true(mw_json_get_bool(object, "b", "o", &flag, NULL));
    g_assert_true(flag);
    g_assert_true(mw_json_get_string(object, "s", "o", &text, NULL));
    g_assert_cmpstr(text, ==, "x");
}

static void
test_values_refused(void)
{
    g_autoptr(JsonNode) node =
        parse("{\"i\": 5, \"d\": 0.25, \"s\": \"a very long string that nobody wants to read in "
              "full in a message\", \"large\": -1e300, \"o\": {}}",
              NULL);
    JsonObject *object = json_node_get_object(node);
    int64_t whole = 7;
    bool flag = false;
    double number = 7;
    const char *text = NULL;
    GError *error = NULL;

    g_assert_false(mw_json_get_int(object, "i", 6, 9, "f", &whole, &error));
    g_assert_cmpstr(error->message, ==,
                    "f: key \"i\": value 5: must be a whole number from 6 to 9");
    g_clear_error(&error);
    g_assert_false(mw_json_get_int(object, "d", 0, 9, "f", &whole, &error));
    g_clear_error(&error);
    g_assert_false(mw_json_get_int(object, "large", 0, 9, "f", &whole, &error));
    g_assert_nonnull(strstr(error->message, "value -1e+300: must"));
    g_clear_error(&error);
    g_assert_false(mw_json_get_int(object, "o", 0, 9, "f", &whole, &error));
    g_assert_nonnull(strstr(error->message, "value {}"));
    g_clear_error(&error);
    g_assert_false(mw_json_get_number(object, "s", 0, 9, "f", &number, &error));
    g_assert_nonnull(strstr(error->message, "...: must be a number from 0 to 9"));
    g_clear_error(&error);
    g_assert_false(mw_json_get_bool(object, "i", "f", &flag, &error));
    g_clear_error(&error);
    g_assert_false(mw_json_get_string(object, "i", "f", &text, &error));
    g_clear_error(&error);
    g_assert_cmpint(whole, ==, 7);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/json/accepted", test_accepted);
    g_test_add_func("/json/refused", test_refused);
    g_test_add_func("/json/nesting", test_nesting);
    g_test_add_func("/json/values", test_values);
    g_test_add_func("/json/values/refused", test_values_refused);
    return g_test_run();
}
