#include "tests/golden.h"

#include <glib.h>
#include <string.h>

#include "config.h"

static void
show_difference(const char *path, const char *expected, const char *text)
{
    g_auto(GStrv) old = g_strsplit(expected, "\n", -1);
    g_auto(GStrv) new = g_strsplit(text, "\n", -1);
    int line = 0;

    while (old[line] && new[line] && !strcmp(old[line], new[line]))
        line++;
    g_test_message("%s:%d: expected \"%s\"", path, line + 1, old[line] ? old[line] : "(end)");
    g_test_message("%s:%d: got      \"%s\"", path, line + 1, new[line] ? new[line] : "(end)");
    g_test_message("MW_UPDATE_GOLDEN=1 writes it anew");
}

void
mw_golden_check(const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(MW_SOURCE_DIR, "tests", "golden", name, NULL);
    g_autofree char *expected = NULL;
    g_autoptr(GError) error = NULL;

    if (g_getenv("MW_UPDATE_GOLDEN")) {
        g_assert_true(g_file_set_contents(path, text, -1, &error));
        g_assert_no_error(error);
        return;
    }
    g_file_get_contents(path, &expected, NULL, &error);
    g_assert_no_error(error);
    if (strcmp(expected, text)) {
        show_difference(path, expected, text);
        g_test_fail();
    }
}
