/* Megatron-LM's training log (megatron/training/training.py and megatron/core/timers.py at
 * 00caa53a, 2026; older forms too), a line every log_interval iterations, and timers below it
 * where the timing log level is above 0:
 *
 *    [2026-01-01 00:00:00] iteration       10/     100 | consumed samples:         1280 | elapsed
 *   time per iteration (ms): 4622.9 | ... | global batch size:   128 | ...
 *   (min, max) time across ranks (ms):
 *       forward-compute ................................: (1010.20, 1015.70)
 *   max time across ranks (ms):
 *       forward-compute ................................: 1015.70
 *   time (ms) | forward-compute: 58.16 | backward-compute: 42.66 | ...
 *
 * Times are means over the interval.  Of several ranks the slowest counts. */
#include <math.h>
#include <string.h>

#include "logs/formats.h"
#include "logs/lines.h"

#define ELAPSED "elapsed time per iteration (ms):"
#define MS 1e-3

/* Timers that others contain: by how their names begin. */
static const char *
parent_of(const char *part)
{
    static const struct {
        const char *begin, *parent;
    } rows[] = {
        {"forward-backward", NULL},
        {"forward-compute", "forward-backward"},
        {"forward-recv", "forward-backward"},
        {"forward-send", "forward-backward"},
        {"backward-compute", "forward-backward"},
        {"backward-recv", "forward-backward"},
        {"backward-send", "forward-backward"},
        {"batch-generator", "forward-compute"},
        {"optimizer-", "optimizer"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        if (g_str_has_prefix(part, rows[i].begin))
            return rows[i].parent;
    return NULL;
}

bool
mw_log_is_megatron(const struct mw_log_text *in)
{
    return mw_log_has(in, ELAPSED);
}

static bool
read_iteration(struct mw_log_builder *builder, const struct mw_log_lines *lines, GError **error)
{
    const char *at = strstr(lines->line, "iteration ");
    struct mw_gate_steps *steps = mw_log_builder_steps(builder);
    double elapsed_ms, batch;
    int64_t iteration;

    if (!at || !mw_log_whole(at + strlen("iteration "), &iteration) ||
        !mw_log_number(lines->line, ELAPSED, &elapsed_ms))
        return true;
    if (mw_log_number(lines->line, "global batch size:", &batch) && batch > 0)
        steps->sequences = batch;
    return mw_log_add_step(builder, lines->number, iteration, elapsed_ms * MS, error);
}

/* The line without what torchrun puts before it: "[default7]:". */
static const char *
without_rank(const char *line)
{
    const char *end = *line == '[' && !g_str_has_prefix(line, "[Rank") ? strstr(line, "]:") : NULL;

    return end ? end + strlen("]:") : line;
}

/* "    forward-compute ....: (1010.20, 1015.70)", or one number. */
static bool
read_timer(struct mw_log_builder *builder, const char *line)
{
    size_t begin = strspn(line, " "), length = strcspn(line + begin, " .:");
    const char *at = strstr(line, ".: ");
    double slowest_ms;

    if (!begin || !length || !at)
        return false;
    if (at[3] == '(' && !(at = strstr(at, ", ")))
        return false;
    if (!mw_log_number(at, at[0] == ',' ? ", " : ".: ", &slowest_ms))
        return false;
    g_autofree char *name = g_strndup(line + begin, length);
    mw_log_add_part(builder, name, slowest_ms * MS);
    return true;
}

/* "time (ms) | forward-compute: 58.16 | ...". */
static void
read_timers(struct mw_log_builder *builder, const char *line)
{
    g_auto(GStrv) cells = g_strsplit(line, "|", MW_GATE_PARTS_MAX);

    for (char **cell = cells; *cell && cell[1]; cell++) {
        char *text = g_strstrip(cell[1]), *colon = strstr(text, ": ");
        double ms;
        if (!colon || !mw_log_number(colon, ": ", &ms))
            continue;
        *colon = '\0';
        mw_log_add_part(builder, text, ms * MS);
    }
}

bool
mw_log_read_megatron(const struct mw_log_text *in, struct mw_log *out, GError **error)
{
    struct mw_log_lines lines = {.text = in->text, .end = in->text + in->length};
    struct mw_log_builder *builder = mw_log_builder_new(in, out->format, MW_GATE_STEP_TIME);
    bool good = true, timers = false;

    while (good && mw_log_next_line(&lines)) {
        const char *line = without_rank(lines.line);
        timers = (timers && read_timer(builder, line)) || strstr(line, "time across ranks (ms):");
        if (strstr(lines.line, ELAPSED))
            good = read_iteration(builder, &lines, error);
        else if (g_str_has_prefix(line, "time (ms) |"))
            read_timers(builder, line);
    }
    g_free(lines.line);
    mw_log_builder_steps(builder)->cut = lines.cut;
    if (good)
        return mw_log_builder_end(builder, parent_of,
                                  "lines have \"iteration N/\" and \"" ELAPSED "\"", out, error);
    mw_log_builder_free(builder);
    return false;
}
