#include "cli/progress.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define QUIET_US 2000000
#define SHOW_US 100000

static gint64 next_us; /* 0: no question has begun */
static bool shown;
static char doing[160];
static int simulated; /* plans, since the question began */

static void
show(void)
{
    gint64 now_us = g_get_monotonic_time();

    if (!next_us)
        next_us = now_us + QUIET_US;
    if (now_us < next_us || !isatty(STDERR_FILENO))
        return;
    next_us = now_us + SHOW_US;
    shown = true;
    fprintf(stderr, "\r\033[K%s; %d simulated", doing, simulated);
    fflush(stderr);
}

void
cli_progress(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(doing, sizeof doing, format, arguments);
    va_end(arguments);
    show();
}

void
cli_progress_simulates(void)
{
    if (!*doing)
        return;
    simulated++;
    show();
}

void
cli_progress_end(void)
{
    if (shown)
        fputs("\r\033[K", stderr);
    shown = false;
    *doing = '\0';
}
