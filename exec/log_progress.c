#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "exec/log_internal.h"

#define SHOW_EVERY_NS 100000000 /* as often as an eye follows */
#define COLUMNS_USUAL 80

static int64_t
now_ns(void)
{
    return g_get_monotonic_time() * 1000;
}

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
    double steps_left = (double)(progress->steps - progress->done) - progress->share;

    if (!progress->measured_steps || steps_left < 0)
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
    g_string_append_printf(line, "step %" PRId64 " of %" PRId64 ", %.0f%% of it done",
                           progress->done + 1, progress->steps, 100 * progress->share);
    append_time_left(line, progress);
    g_string_truncate(line, MIN(line->len, (gsize)columns_of(progress->out)));
    fprintf(progress->out, "\r%s\033[K", line->str);
    fflush(progress->out);
    progress->visible = true;
    progress->shown_ns = now_ns();
}

void
mw_log_progress_step(struct mw_log_progress *progress, const struct mw_log_row *row)
{
    if (row->step > progress->first_step) {
        progress->measured_ns += row->time_ns;
        progress->measured_steps++;
    }
    progress->done = row->step + 1;
    progress->share = 0;
}

void
mw_log_progress_share(struct mw_log_progress *progress, double share)
{
    progress->share = CLAMP(share, 0, 1);
    if (progress->out && now_ns() - progress->shown_ns >= SHOW_EVERY_NS)
        mw_log_progress_show(progress);
}
