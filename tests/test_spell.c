/* Settings in messages, spelled for a program and for a command line. */
#include "base/spell.h"

#include "base/error.h"

static const struct mw_spelling options = {
    "--", " ", "--set ", {{"hardware", "-H"}, {"strategy", "-s"}}};
static const struct mw_spelling names = {.before = "", .between = "=", .key = ""};

static const struct {
    const char *text, *by_name, *by_option;
} rows[] = {
    {"", "", ""},
    {"no setting", "no setting", "no setting"},
    {"{batch}", "batch", "--batch"},
    {"{batch=3}: must be", "batch=3: must be", "--batch 3: must be"},
    {"{batch=}", "batch=", "--batch "},
    {"{grad-accum=N} makes {tiles}", "grad-accum=N makes tiles", "--grad-accum N makes --tiles"},
    {"{hardware=dgx2} {strategy}", "hardware=dgx2 strategy", "-H dgx2 -s"},
    {"{key nvme.drives=2}", "nvme.drives=2", "--set nvme.drives=2"},
    {"{key gpu.memory_gib}", "gpu.memory_gib", "--set gpu.memory_gib"},
    {"{\"stage\": 3} {} {", "{\"stage\": 3} {} {", "{\"stage\": 3} {} {"},
    {"{batch", "{batch", "{batch"},
};

static void
test_rows(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        mw_spell_as(&names);
        g_autofree char *by_name = mw_spelled(rows[i].text);
        mw_spell_as(&options);
        g_autofree char *by_option = mw_spelled(rows[i].text);
        g_assert_cmpstr(by_name, ==, rows[i].by_name);
        g_assert_cmpstr(by_option, ==, rows[i].by_option);
    }
    mw_spell_as(&names);
}

/* Only formats are spelled out: what a person typed stays as it is. */
static void
test_arguments(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GString) appended = g_string_new("with ");
    g_autofree char *text = mw_spelled_printf("{%s=%d} of %s", "tiles", 4, "{batch}");

    g_assert_cmpstr(text, ==, "tiles=4 of {batch}");
    mw_spelled_append(appended, "{key %s.%s}", "nvme", "drives");
    g_assert_cmpstr(appended->str, ==, "with nvme.drives");
    g_assert_false(mw_refuse(&error, "{model=%s}: there is none", "{batch=3}"));
    g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    g_assert_cmpstr(error->message, ==, "model={batch=3}: there is none");
    g_assert_false(mw_fail(NULL, MW_ERROR_IO, "{batch}"));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/spell/rows", test_rows);
    g_test_add_func("/spell/arguments", test_arguments);
    return g_test_run();
}
