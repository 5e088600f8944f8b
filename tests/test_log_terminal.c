/* The log's line on a terminal, which shows how far a run is. */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "exec/course/log.h"

#define SECOND_NS INT64_C(1000000000)
#define PATIENCE_MS 300000 /* for a busy machine */
#define MARK '\001'        /* no line holds it, no terminal acts on it */

static void
log_step(struct mw_log *log, int64_t step, int64_t time_ns)
{
    struct mw_log_row row = {.step = step, .time_ns = time_ns};

    g_assert_true(mw_log_step(log, &row, NULL));
}

struct terminal {
    int master;
    FILE *slave;
};

static bool
open_terminal(struct terminal *terminal, unsigned short columns)
{
    struct winsize size = {.ws_col = columns, .ws_row = 24};

    terminal->master = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal->master < 0 || grantpt(terminal->master) || unlockpt(terminal->master))
        return false;
    int fd = open(ptsname(terminal->master), O_RDWR | O_NOCTTY);
    if (fd < 0 || ioctl(fd, TIOCSWINSZ, &size))
        return false;
    terminal->slave = fdopen(fd, "w");
    return terminal->slave != NULL;
}

/* One that the progress goes to; false where there is none, which skips the test. */
static bool
open_for(struct mw_log_options *options, const char *term, unsigned short columns,
         struct terminal *terminal)
{
    if (!open_terminal(terminal, columns)) {
        g_test_skip("no pseudo terminals");
        return false;
    }
    g_setenv("TERM", term, TRUE);
    options->progress = terminal->slave;
    return true;
}

/* What was shown since the last look: what is written to a terminal may come in pieces, and late.
 * A mark behind it ends it. */
static char *
shown(const struct terminal *terminal)
{
    GString *text = g_string_new(NULL);
    char c;

    fputc(MARK, terminal->slave);
    fflush(terminal->slave);
    while (read(terminal->master, &c, 1) == 1 && c != MARK)
        g_string_append_c(text, c);
    return g_string_free(text, FALSE);
}

static void
close_terminal(struct terminal *terminal)
{
    fclose(terminal->slave);
    close(terminal->master);
}

static void
assert_shown(const struct terminal *terminal, const char *expected)
{
    g_autofree char *text = shown(terminal);

    g_assert_cmpstr(text, ==, expected);
}

static void
test_terminal(void)
{
    struct mw_log_options options = {.steps = 10};
    struct terminal terminal;

    if (!open_for(&options, "xterm", 100, &terminal))
        return;
    struct mw_log *log = mw_log_open(&options, NULL);
    assert_shown(&terminal, "\rstep 1 of 10\033[K");
    log_step(log, 0, 1250000000); /* the first step does not count for the time that is left */
    assert_shown(&terminal, "\r\033[K\rstep 2 of 10\033[K");
    log_step(log, 1, SECOND_NS);
    assert_shown(&terminal, "\r\033[K\rstep 3 of 10, 0:00:08 left\033[K");
    log_step(log, 9, SECOND_NS);
    assert_shown(&terminal, "\r\033[K");
    mw_log_close(log);
    assert_shown(&terminal, "");
    close_terminal(&terminal);
}

static void
test_narrow_terminal(void)
{
    struct mw_log_options options = {.steps = 10};
    struct terminal terminal;

    if (!open_for(&options, "xterm", 12, &terminal))
        return;
    struct mw_log *log = mw_log_open(&options, NULL);
    assert_shown(&terminal, "\rstep 1 of 1\033[K");
    mw_log_close(log);
    assert_shown(&terminal, "\r\033[K");
    close_terminal(&terminal);
}

static void
test_days_left(void)
{
    struct mw_log_options options = {.steps = 10};
    struct terminal terminal;

    if (!open_for(&options, "xterm", 100, &terminal))
        return;
    options.steps = 52;
    struct mw_log *log = mw_log_open(&options, NULL);
    assert_shown(&terminal, "\rstep 1 of 52\033[K");
    log_step(log, 1, 3600 * SECOND_NS);
    assert_shown(&terminal, "\r\033[K\rstep 3 of 52, 2d 02h left\033[K");
    mw_log_close(log);
    close_terminal(&terminal);
}

/* Whether the words come, before patience is at its end. */
static bool
comes(const struct terminal *terminal, const char *words)
{
    g_autoptr(GString) text = g_string_new(NULL);
    struct pollfd master = {.fd = terminal->master, .events = POLLIN};
    char c;

    while (!strstr(text->str, words) && poll(&master, 1, PATIENCE_MS) == 1 &&
           read(terminal->master, &c, 1) == 1)
        g_string_append_c(text, c);
    return strstr(text->str, words) != NULL;
}

/* A step that is long says for how long, against what was predicted, then measured; its row comes
 * behind a line that is cleared. */
static void
test_long_step(void)
{
    struct mw_log_options options = {
        .steps = 10, .tick_ns = SECOND_NS / 10, .predicted_ns = 90 * SECOND_NS};
    struct terminal terminal;

    if (!open_for(&options, "xterm", 100, &terminal))
        return;
    struct mw_log *log = mw_log_open(&options, NULL);
    g_assert_true(comes(&terminal, "\rstep 1 of 10, 0:15:00 left\033[K"));
    g_assert_true(comes(&terminal, "left; this step for 0:00:01 of about 0:01:30\033[K"));
    log_step(log, 0, 90 * SECOND_NS);
    g_assert_true(comes(&terminal, "\r\033[K\rstep 2 of 10, 0:13:30 left\033[K"));
    log_step(log, 1, 60 * SECOND_NS);
    g_assert_true(comes(&terminal, "\rstep 3 of 10, 0:08:00 left\033[K"));
    g_assert_true(comes(&terminal, "; this step for 0:00:01 of about 0:01:00\033[K"));
    mw_log_close(log);
    g_assert_true(comes(&terminal, "\r\033[K"));
    close_terminal(&terminal);
}

static void
test_no_terminal(void)
{
    struct mw_log_options options = {.steps = 10};
    struct terminal terminal;
    char *text = NULL;
    size_t length;

    options.progress = open_memstream(&text, &length);
    struct mw_log *log = mw_log_open(&options, NULL);
    log_step(log, 0, SECOND_NS);
    mw_log_close(log);
    fclose(options.progress);
    g_assert_cmpstr(text, ==, "");
    free(text);

    if (!open_for(&options, "dumb", 100, &terminal))
        return;
    log = mw_log_open(&options, NULL);
    log_step(log, 0, SECOND_NS);
    mw_log_close(log);
    assert_shown(&terminal, "");
    close_terminal(&terminal);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/log/terminal/rewritten", test_terminal);
    g_test_add_func("/log/terminal/narrow", test_narrow_terminal);
    g_test_add_func("/log/terminal/days-left", test_days_left);
    g_test_add_func("/log/terminal/long-step", test_long_step);
    g_test_add_func("/log/terminal/none", test_no_terminal);
    return g_test_run();
}
