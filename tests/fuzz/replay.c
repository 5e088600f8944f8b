/*
 * replay.c - runs a fuzz target once over every file of a folder, one TAP line each.
 * Broken inputs that the fuzzer finds go into that folder, and so stay tested.
 */
#include <glib.h>

#include "tests/fuzz/fuzz.h"

static void
test_seed(gconstpointer path)
{
    g_autofree char *text = NULL;
    gsize length = 0;

    g_assert_true(g_file_get_contents(path, &text, &length, NULL));
    /* An exact copy: a read past its end is found by a sanitizer. */
    g_autofree uint8_t *exact = g_memdup2(text, length);
    g_assert_cmpint(LLVMFuzzerTestOneInput(exact, length), ==, 0);
}

int
main(int argc, char **argv)
{
    const char *name;

    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 2);
    g_autoptr(GDir) folder = g_dir_open(argv[1], 0, NULL);
    g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(g_free);
    g_assert_nonnull(folder);
    while ((name = g_dir_read_name(folder))) {
        g_autofree char *test = g_strconcat("/seed/", name, NULL);
        char *path = g_build_filename(argv[1], name, NULL);
        g_ptr_array_add(paths, path);
        g_test_add_data_func(test, path, test_seed);
    }
    g_assert_cmpuint(paths->len, >, 0);
    return g_test_run();
}
