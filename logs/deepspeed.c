/* DeepSpeed's log (deepspeed/utils/timer.py at 038beb63, 2026; forms of 2020 on too).  With
 * wall_clock_breakdown, timers of every step, those of its micro-batches apart:
 *
 *   [Rank 0] time (ms) | fwd_microstep: 27.41 | bwd_microstep: 73.44 | ... | step_microstep: 72.8
 *   [Rank 0] time (ms) | optimizer_allgather: 7.96 | optimizer_gradients: 0.02 | optimizer_step: 60
 *   [Rank 0] time (ms) | fwd: 27.41 | bwd: 73.44 | bwd_inner: 50.99 | bwd_allreduce: 22 | step: 72
 *
 * (forward, backward, backward_inner ... until 2023).  And every steps_per_print steps
 *
 *   epoch=0/micro_step=20/global_step=10, RunningAvgSamplesPerSec=7.7, CurrSamplesPerSec=7.1, ...
 *   0/40, SamplesPerSec=83.486, ...
 *
 * of which the last is the mean of all steps but the first two.  Timers are read where there are
 * some, else the newest of the rates. */
#include <math.h>
#include <string.h>

#include "logs/formats.h"
#include "logs/lines.h"

#define TIMERS "time (ms) |"
#define CURRENT "CurrSamplesPerSec="
#define MEAN "SamplesPerSec="
#define MEAN_AFTER 2 /* steps that the mean leaves out: start_step */
#define MS 1e-3

/* What contains a timer: by how its name begins. */
static const char *
parent_of(const char *part)
{
    return g_str_has_prefix(part, "bwd_")         ? "bwd"
           : g_str_has_prefix(part, "backward_")  ? "backward"
           : g_str_has_prefix(part, "optimizer_") ? "step"
                                                  : NULL;
}

static bool
has_timers(const struct mw_log_text *in)
{
    return mw_log_has(in, TIMERS " fwd: ") || mw_log_has(in, TIMERS " forward: ");
}

bool
mw_log_is_deepspeed(const struct mw_log_text *in)
{
    return has_timers(in) || mw_log_has(in, MEAN);
}

/* --- timers ---------------------------------------------------------------------------------- */

struct timers { /* of the lines since the last step */
    char *names[MW_GATE_PARTS_MAX];
    double ms[MW_GATE_PARTS_MAX];
    int count;
    double whole_ms; /* of those that no other contains */
    bool ends_step;  /* forward and backward are there */
};

static void
clear_timers(struct timers *timers)
{
    for (int i = 0; i < timers->count; i++)
        g_free(timers->names[i]);
    *timers = (struct timers){0};
}

static void
take_timer(struct timers *timers, const char *name, double ms)
{
    if (timers->count == MW_GATE_PARTS_MAX || g_str_has_suffix(name, "_microstep"))
        return;
    timers->names[timers->count] = g_strdup(name);
    timers->ms[timers->count++] = ms;
    timers->whole_ms += parent_of(name) ? 0 : ms;
    timers->ends_step = timers->ends_step || !strcmp(name, "fwd") || !strcmp(name, "forward");
}

static void
take_timers(struct timers *timers, const char *line)
{
    g_auto(GStrv) cells = g_strsplit(strstr(line, TIMERS) + strlen(TIMERS), "|", MW_GATE_PARTS_MAX);

    for (char **cell = cells; *cell; cell++) {
        char *text = g_strstrip(*cell), *colon = strstr(text, ": ");
        double ms;
        if (!colon || !mw_log_number(colon, ": ", &ms))
            continue;
        *colon = '\0';
        take_timer(timers, text, ms);
    }
}

/* Timers have no number of a step: they are counted.  Those of the optimizer come before. */
static bool
read_timers(struct mw_log_builder *builder, const struct mw_log_text *in, GError **error)
{
    struct mw_log_lines lines = {.text = in->text, .end = in->text + in->length};
    struct timers timers = {0};
    int64_t step = 0;
    bool good = true;

    while (good && mw_log_next_line(&lines)) {
        if (!strstr(lines.line, TIMERS))
            continue;
        take_timers(&timers, lines.line);
        if (!timers.ends_step)
            continue;
        good = mw_log_add_step(builder, lines.number, ++step, timers.whole_ms * MS, error);
        for (int i = 0; i < timers.count; i++)
            mw_log_add_part(builder, timers.names[i], timers.ms[i] * MS);
        clear_timers(&timers);
    }
    clear_timers(&timers);
    g_free(lines.line);
    mw_log_builder_steps(builder)->cut = lines.cut;
    return good;
}

/* --- rates ----------------------------------------------------------------------------------- */

/* "0/40, " or "global_step=40": before the rate. */
static bool
read_number(const char *line, int64_t *step)
{
    const char *at = strstr(line, "global_step="), *rate = strstr(line, MEAN);

    if (at)
        return mw_log_whole(at + strlen("global_step="), step);
    for (at = rate; at > line && at[-1] != '/'; at--)
        ;
    return at > line && mw_log_whole(at, step);
}

/* Means of all steps so far say how long those since the line before took. */
struct means {
    int64_t step;
    double time_s; /* for a sample of each step, of the steps that count */
};

static double
since_last(struct means *means, int64_t step, double rate)
{
    double time_s = (double)(step - MEAN_AFTER) / rate;
    double each_s = (time_s - means->time_s) / (double)(step - MAX(means->step, MEAN_AFTER));

    *means = (struct means){step, time_s};
    return each_s;
}

static bool
read_rates(struct mw_log_builder *builder, const struct mw_log_text *in, GError **error)
{
    struct mw_log_lines lines = {.text = in->text, .end = in->text + in->length};
    struct means means = {0};
    bool good = true;
    int64_t step;
    double rate;

    while (good && mw_log_next_line(&lines)) {
        bool current = strstr(lines.line, CURRENT) != NULL;
        if (!mw_log_number(lines.line, current ? CURRENT : MEAN, &rate) ||
            !read_number(lines.line, &step))
            continue;
        good = mw_log_add_step(builder, lines.number, step,
                               current                              ? 1 / rate
                               : step > MAX(means.step, MEAN_AFTER) ? since_last(&means, step, rate)
                                                                    : NAN,
                               error);
    }
    g_free(lines.line);
    mw_log_builder_steps(builder)->cut = lines.cut;
    return good;
}

bool
mw_log_read_deepspeed(const struct mw_log_text *in, struct mw_log *out, GError **error)
{
    bool timed = has_timers(in);
    struct mw_log_builder *builder =
        mw_log_builder_new(in, out->format, timed ? MW_GATE_STEP_TIME : MW_GATE_SAMPLES);

    if (timed ? read_timers(builder, in, error) : read_rates(builder, in, error))
        return mw_log_builder_end(builder, parent_of,
                                  "lines have \"" TIMERS " fwd: ...\" or \"" MEAN "...\"", out,
                                  error);
    mw_log_builder_free(builder);
    return false;
}
