#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "exec/course/log_internal.h"

#define COLUMNS_USUAL 80
/* A step that lasts this many ticks gets a line that says for how long. */
#define QUIET_TICKS 5
#define SECOND_NS INT64_C(1000000000)

/* A line that is as long as the terminal is wide would wrap, and could not be rewritten. */
static int
columns_of(FILE *terminal)
{
    struct winsize size;

    if (ioctl(fileno(terminal), TIOCGWINSZ, &size) || !size.ws_col)
        return COLUMNS_USUAL - 1;
    return size.ws_col - 1;
}

/* Of a step, from those that were measured; 0: nothing is known. */
static double
step_s(const struct mw_log_progress *progress)
{
    return progress->measured_steps
               ? (double)progress->measured_ns * 1e-9 / (double)progress->measured_steps
               : (double)progress->predicted_ns * 1e-9;
}

/* "2d 02h", "0:08:46" */
static void
append_time(GString *line, double seconds)
{
    int64_t whole = (int64_t)(MAX(seconds, 0) + 0.5);

    if (whole >= 86400)
        g_string_append_printf(line, "%" PRId64 "d %02" PRId64 "h", whole / 86400,
                               whole / 3600 % 24);
    else
        g_string_append_printf(line, "%" PRId64 ":%02" PRId64 ":%02" PRId64, whole / 3600,
                               whole / 60 % 60, whole % 60);
}

/* Of the clock that GLib's conditions wait by. */
static int64_t
now_ns(void)
{
    return g_get_monotonic_time() * 1000;
}

/* A terminal that is held (Ctrl-S), or a pipe that nobody reads, would hold who writes, and with it
 * the run. */
static bool
takes(FILE *out)
{
    return mw_log_takes(fileno(out), 0);
}

/* The caller holds the lock. */
static void
write_line(struct mw_log_progress *progress)
{
    if (!takes(progress->out))
        return;
    g_autoptr(GString) line = g_string_new(NULL);
    int64_t in_step_ns = now_ns() - progress->begun_ns;
    double whole_s = step_s(progress), in_step_s = (double)in_step_ns / SECOND_NS;

    g_string_append_printf(line, "step %" PRId64 " of %" PRId64, progress->done + 1,
                           progress->steps);
    if (whole_s > 0) {
        double begun_s = MIN(in_step_s, whole_s);
        g_string_append(line, ", ");
        append_time(line, (double)(progress->steps - progress->done) * whole_s - begun_s);
        g_string_append(line, " left");
    }
    if (in_step_ns >= progress->quiet_ns) {
        g_string_append(line, "; this step for ");
        append_time(line, in_step_s);
        if (whole_s > 0) {
            g_string_append(line, " of about ");
            append_time(line, whole_s);
        }
    }
    g_string_truncate(line, MIN(line->len, (gsize)columns_of(progress->out)));
    fprintf(progress->out, "\r%s\033[K", line->str);
    fflush(progress->out);
    progress->visible = true;
}

static void *
tick(void *data)
{
    struct mw_log_progress *progress = data;

    g_mutex_lock(&progress->lock);
    while (!progress->ends) {
        gint64 next_us = (now_ns() + progress->tick_ns) / 1000;
        while (!progress->ends && g_cond_wait_until(&progress->ended, &progress->lock, next_us)) {
        }
        if (!progress->ends && progress->waits &&
            now_ns() - progress->begun_ns >= progress->quiet_ns)
            write_line(progress);
    }
    g_mutex_unlock(&progress->lock);
    return NULL;
}

void
mw_log_progress_open(struct mw_log_progress *progress, const struct mw_log_options *options)
{
    const char *terminal = g_getenv("TERM");

    progress->first_step = progress->done = options->first_step;
    progress->steps = options->steps;
    progress->predicted_ns = options->predicted_ns;
    progress->tick_ns = options->tick_ns ? options->tick_ns : SECOND_NS;
    progress->quiet_ns = QUIET_TICKS * progress->tick_ns;
    if (!options->progress || !isatty(fileno(options->progress)) || !terminal ||
        !strcmp(terminal, "dumb"))
        return;
    progress->out = options->progress;
    g_mutex_init(&progress->lock);
    g_cond_init(&progress->ended);
    progress->ticker = g_thread_try_new("progress", tick, progress, NULL);
}

void
mw_log_progress_close(struct mw_log_progress *progress)
{
    if (!progress->out)
        return;
    mw_log_progress_clear(progress);
    if (progress->ticker) {
        g_mutex_lock(&progress->lock);
        progress->ends = true;
        g_cond_signal(&progress->ended);
        g_mutex_unlock(&progress->lock);
        g_thread_join(progress->ticker);
    }
    g_mutex_clear(&progress->lock);
    g_cond_clear(&progress->ended);
    progress->out = NULL;
}

void
mw_log_progress_clear(struct mw_log_progress *progress)
{
    if (!progress->out)
        return;
    g_mutex_lock(&progress->lock);
    if (progress->visible && takes(progress->out)) {
        fputs("\r\033[K", progress->out);
        fflush(progress->out);
    }
    progress->visible = progress->waits = false;
    g_mutex_unlock(&progress->lock);
}

void
mw_log_progress_show(struct mw_log_progress *progress)
{
    if (!progress->out || progress->done >= progress->steps)
        return;
    g_mutex_lock(&progress->lock);
    progress->waits = true;
    progress->begun_ns = now_ns();
    write_line(progress);
    g_mutex_unlock(&progress->lock);
}

void
mw_log_progress_say(struct mw_log_progress *progress, FILE *out, const char *line)
{
    if (!progress->out) {
        if (out && takes(out))
            fprintf(out, "%s\n", line);
        return;
    }
    g_mutex_lock(&progress->lock);
    if (!takes(progress->out)) {
        g_mutex_unlock(&progress->lock);
        return;
    }
    fprintf(progress->out, "%s%s\n", progress->visible ? "\r\033[K" : "", line);
    fflush(progress->out);
    progress->visible = false;
    if (progress->waits)
        write_line(progress);
    g_mutex_unlock(&progress->lock);
}

/* Between mw_log_progress_clear and mw_log_progress_show: nobody else looks. */
void
mw_log_progress_step(struct mw_log_progress *progress, const struct mw_log_row *row)
{
    if (row->step > progress->first_step) {
        progress->measured_ns += row->time_ns;
        progress->measured_steps++;
    }
    progress->done = row->step + 1;
}
