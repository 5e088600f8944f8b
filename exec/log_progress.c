#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "exec/log_internal.h"

#define COLUMNS_USUAL 80

void
mw_log_progress_open(struct mw_log_progress *progress, const struct mw_log_options *options)
{
    const char *terminal = g_getenv("TERM");

    progress->first_step = progress->done = options->first_step;
    progress->steps = options->steps;
    if (options->progress && isatty(fileno(options->progress)) && terminal &&
        strcmp(terminal, "dumb"))
        progress->out = options->progress;
}

void
mw_log_progress_clear(struct mw_log_progress *progress)
{
    if (progress->visible)
        fputs("\r\033[K", progress->out);
    if (progress->visible)
        fflush(progress->out);
    progress->visible = false;
}

/* A line that is as long as the terminal is wide would wrap, and could not be rewritten. */
static int
columns_of(FILE *terminal)
{
    struct winsize size;

    if (ioctl(fileno(terminal), TIOCGWINSZ, &size) || !size.ws_col)
        return COLUMNS_USUAL - 1;
    return size.ws_col - 1;
}

static void
append_time_left(GString *line, const struct mw_log_progress *progress)
{
    double steps_left = (double)(progress->steps - progress->done);

    if (!progress->measured_steps)
        return;
    double mean_s = (double)progress->measured_ns * 1e-9 / (double)progress->measured_steps;
    int64_t left_s = (int64_t)(steps_left * mean_s + 0.5);
    if (left_s >= 86400)
        g_string_append_printf(line, ", %" PRId64 "d %02" PRId64 "h left", left_s / 86400,
                               left_s / 3600 % 24);
    else
        g_string_append_printf(line, ", %" PRId64 ":%02" PRId64 ":%02" PRId64 " left",
                               left_s / 3600, left_s / 60 % 60, left_s % 60);
}

void
mw_log_progress_show(struct mw_log_progress *progress)
{
    g_autoptr(GString) line = g_string_new(NULL);

    if (!progress->out || progress->done >= progress->steps)
        return;
    g_string_append_printf(line, "step %" PRId64 " of %" PRId64, progress->done + 1,
                           progress->steps);
    append_time_left(line, progress);
    g_string_truncate(line, MIN(line->len, (gsize)columns_of(progress->out)));
    fprintf(progress->out, "\r%s\033[K", line->str);
    fflush(progress->out);
    progress->visible = true;
}

void
mw_log_progress_step(struct mw_log_progress *progress, const struct mw_log_row *row)
{
    if (row->step > progress->first_step) {
        progress->measured_ns += row->time_ns;
        progress->measured_steps++;
    }
    progress->done = row->step + 1;
}
