#include "cli/progress_line.h"

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/progress.h"

#define QUIET_US 2000000
#define SHOW_US 100000

static gint64 next_us; /* when the line may next be shown; 0: no question has begun */
static bool shown;

void
cli_progress_line_clear(void)
{
    if (shown)
        fputs("\r\033[K", stderr);
    shown = false;
}

/* Whether the line may be shown now. */
static bool
is_time(void)
{
    gint64 now_us = g_get_monotonic_time();

    if (!next_us)
        next_us = now_us + QUIET_US;
    if (now_us < next_us || !isatty(STDERR_FILENO))
        return false;
    next_us = now_us + SHOW_US;
    shown = true;
    return true;
}

void
cli_progress_line_print(const char *text)
{
    if (!is_time())
        return;
    fprintf(stderr, "\r\033[K%s", text);
    fflush(stderr);
}

void
cli_progress_line_show(void *data, const char *doing, int simulated)
{
    if (!doing) {
        cli_progress_line_clear();
        return;
    }
    if (!is_time())
        return;
    fprintf(stderr, "\r\033[K%s; %d simulated", doing, simulated);
    fflush(stderr);
}

void
cli_progress_line_begin(void)
{
    mw_progress_listen(cli_progress_line_show, NULL);
}
