/* What the jobs that memwall export writes print of a step (launch/memwall_job.py):
 *
 *   step 1 loss 3.1000 7.400 s 265000 tokens/s
 *
 * Launchers may put a rank before it.  Steps have no parts. */
#include <string.h>

#include "base/number.h"
#include "logs/formats.h"
#include "logs/lines.h"

enum { STEP, NUMBER, LOSS, LOSS_VALUE, TIME, SECONDS, RATE, TOKENS, WORDS };

static bool
read_step(const char *line, int64_t *step, double *time_s)
{
    const char *at = strstr(line, "step ");
    g_auto(GStrv) words = at ? g_strsplit(at, " ", WORDS + 1) : NULL;

    if (!words || g_strv_length(words) < WORDS || strcmp(words[LOSS], "loss") != 0 ||
        strcmp(words[SECONDS], "s") != 0 || !g_str_has_prefix(words[TOKENS], "tokens/s"))
        return false;
    const char *end = mw_number_scan(words[TIME], time_s);
    return end && !*end && mw_log_whole(words[NUMBER], step);
}

bool
mw_log_is_exported(const struct mw_log_text *in)
{
    struct mw_log_lines lines = {.text = in->text, .end = in->text + in->length};
    bool found = false;
    int64_t step;
    double time_s;

    if (!mw_log_has(in, " tokens/s"))
        return false;
    while (!found && mw_log_next_line(&lines))
        found = read_step(lines.line, &step, &time_s);
    g_free(lines.line);
    return found;
}

bool
mw_log_read_exported(const struct mw_log_text *in, struct mw_log *out, GError **error)
{
    struct mw_log_lines lines = {.text = in->text, .end = in->text + in->length};
    struct mw_log_builder *builder = mw_log_builder_new(in, out->format, MW_GATE_STEP_TIME);
    bool good = true;
    int64_t step;
    double time_s;

    while (good && mw_log_next_line(&lines))
        if (read_step(lines.line, &step, &time_s))
            good = mw_log_add_step(builder, lines.number, step, time_s, error);
    g_free(lines.line);
    mw_log_builder_steps(builder)->cut = lines.cut;
    if (good)
        return mw_log_builder_end(builder, NULL, "lines have \"step N\" and its seconds", out,
                                  error);
    mw_log_builder_free(builder);
    return false;
}
