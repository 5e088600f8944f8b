/* Prose within a terminal's columns. */
#include <glib.h>
#include <pty.h>
#include <string.h>
#include <unistd.h>

#include "report/wrap.h"

static char *
wrapped(const char *text, int at, int indent, int columns)
{
    char *got = NULL;
    size_t bytes;
    FILE *out = open_memstream(&got, &bytes);

    mw_wrap_text(out, text, at, indent, columns);
    fclose(out);
    return got;
}

static void
gives(const char *text, int at, int indent, int columns, const char *expected)
{
    char *got = wrapped(text, at, indent, columns);

    g_assert_cmpstr(got, ==, expected);
    free(got);
}

static void
test_text(void)
{
    gives("one two three", 0, 2, 0, "one two three\n");
    gives("one two three", 0, 2, 13, "one two three\n");
    gives("one two three", 0, 2, 12, "one two\n  three\n");
    gives("one two three", 6, 6, 13, "one two\n      three\n");
    gives("a b c d", 0, 1, 3, "a b\n c\n d\n");
    gives("one  two   three", 0, 0, 8, "one  two\nthree\n");
    gives("", 0, 2, 10, "\n");
}

/* A path may be pasted: it is not cut. */
static void
test_long_words(void)
{
    gives("/a/very/long/path", 0, 2, 10, "/a/very/long/path\n");
    gives("see /a/very/long/path now", 0, 2, 10, "see\n  /a/very/long/path\n  now\n");
    gives("see /a/very/long/path now", 10, 2, 12, "see\n  /a/very/long/path\n  now\n");
}

static void
test_characters(void)
{
    gives("äöü äöü äöü", 0, 0, 11, "äöü äöü äöü\n");
    gives("äöü äöü äöü", 0, 0, 10, "äöü äöü\näöü\n");
}

/* What `print` writes to a terminal of 60 columns, line ends as a terminal has them. */
static char *
on_terminal(void (*print)(FILE *out))
{
    struct winsize size = {.ws_row = 20, .ws_col = 60};
    char text[4096];
    int master, slave;

    g_assert_cmpint(openpty(&master, &slave, NULL, NULL, &size), ==, 0);
    FILE *out = fdopen(slave, "w");
    print(out);
    fflush(out);
    fputs("\x04", out); /* so that there is an end to be read to */
    fflush(out);
    GString *all = g_string_new(NULL);
    while (!strchr(all->str, 4)) {
        ssize_t got = read(master, text, sizeof text);
        g_assert_cmpint(got, >, 0);
        g_string_append_len(all, text, got);
    }
    g_string_truncate(all, all->len - 1);
    fclose(out);
    close(master);
    return g_string_free(all, FALSE);
}

#define LONG "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789"

static void
print_line(FILE *out)
{
    mw_wrap_line(out, 2, "%s", LONG);
}

static void
print_rows(FILE *out)
{
    mw_wrap_row(out, "a row of a list that takes 35 chars", "is short");
    mw_wrap_row(out, "a row of a list that takes 35 chars", "is longer than what is left");
}

static void
test_terminal(void)
{
    g_autofree char *line = on_terminal(print_line), *rows = on_terminal(print_rows);

    g_assert_cmpstr(line, ==,
                    "0123456789 0123456789 0123456789 0123456789 0123456789\r\n  0123456789\r\n");
    g_assert_cmpstr(rows, ==,
                    "a row of a list that takes 35 chars  is short\r\n"
                    "a row of a list that takes 35 chars\r\n    is longer than what is left\r\n");
    g_setenv("COLUMNS", "45", TRUE);
    g_autofree char *told = on_terminal(print_line);
    g_unsetenv("COLUMNS");
    g_assert_cmpstr(told, ==,
                    "0123456789 0123456789 0123456789 0123456789\r\n  0123456789 0123456789\r\n");
}

/* Nobody greps for half a line. */
static void
test_whole(void)
{
    char *got = NULL;
    size_t bytes;
    FILE *out = open_memstream(&got, &bytes);

    g_setenv("COLUMNS", "45", TRUE);
    print_line(out);
    print_rows(out);
    g_unsetenv("COLUMNS");
    fclose(out);
    g_assert_cmpstr(got, ==,
                    LONG "\na row of a list that takes 35 chars  is short\n"
                         "a row of a list that takes 35 chars  is longer than what is left\n");
    free(got);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_unsetenv("COLUMNS"); /* of the user's terminal */
    g_test_add_func("/wrap/text", test_text);
    g_test_add_func("/wrap/long-words", test_long_words);
    g_test_add_func("/wrap/characters", test_characters);
    g_test_add_func("/wrap/terminal", test_terminal);
    g_test_add_func("/wrap/whole", test_whole);
    return g_test_run();
}
