/* torchtitan's metrics as it prints them (torchtitan/components/metrics.py at 00fbaafa,
 * 2025; issues of 2025 and 2026 show the same line), a line every log_freq steps:
 *
 *   step: 10  loss:  7.6258  grad_norm: 26.6250  memory: 66.91GiB(37.51%)  tps: 10,050  ...
 *
 * Words are coloured unless that is turned off, and several ranks may print.  tps (earlier wps) are
 * tokens/s of one GPU since the line before.  Steps have no parts. */
#include <string.h>

#include "logs/formats.h"
#include "logs/lines.h"

static const char *
rate_key(const char *line)
{
    return strstr(line, " tps:") ? " tps:" : strstr(line, " wps:") ? " wps:" : NULL;
}

/* The number after "step:" of a line about training; validation has lines of its own. */
static bool
read_step(const char *line, int64_t *step)
{
    const char *at = strstr(line, "step:");

    return at && !strstr(line, "validate step:") && strstr(at, "loss:") &&
           mw_log_whole(at + strlen("step:"), step);
}

bool
mw_log_is_torchtitan(const struct mw_log_text *in)
{
    struct mw_log_lines lines = {.text = in->text, .end = in->text + in->length};
    bool found = false;
    int64_t step;

    if (!mw_log_has(in, "step:") || !mw_log_has(in, "loss:"))
        return false;
    while (!found && mw_log_next_line(&lines))
        found = rate_key(lines.line) && read_step(lines.line, &step);
    g_free(lines.line);
    return found;
}

bool
mw_log_read_torchtitan(const struct mw_log_text *in, struct mw_log *out, GError **error)
{
    struct mw_log_lines lines = {.text = in->text, .end = in->text + in->length};
    struct mw_log_builder *builder = mw_log_builder_new(in, out->format, MW_GATE_TOKENS_PER_GPU);
    bool good = true;
    int64_t step;
    double rate;

    while (good && mw_log_next_line(&lines)) {
        const char *key = rate_key(lines.line);
        if (key && mw_log_number(lines.line, key, &rate) && read_step(lines.line, &step))
            good = mw_log_add_step(builder, lines.number, step, 1 / rate, error);
    }
    g_free(lines.line);
    mw_log_builder_steps(builder)->cut = lines.cut;
    if (good)
        return mw_log_builder_end(builder, NULL, "lines have \"step: N\" and \"tps: N\"", out,
                                  error);
    mw_log_builder_free(builder);
    return false;
}
