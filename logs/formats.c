#include "logs/formats.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"

/* Megatron before DeepSpeed: a log of both has the whole iteration in Megatron's lines. */
const struct mw_log_format mw_log_formats[] = {
    {"memwall-answer", "simulate as JSON", mw_log_is_answer, mw_log_read_answer},
    {"memwall-run", "run or compare as JSON", mw_log_is_run, mw_log_read_run},
    {"memwall-sweep", "sweep as JSON", mw_log_is_sweep_json, mw_log_read_sweep_json},
    {"memwall-baseline", "check", mw_log_is_baseline, mw_log_read_baseline},
    {"memwall-sweep", "sweep as CSV", mw_log_is_sweep_csv, mw_log_read_sweep_csv},
    {"memwall-timeline", "a saved timeline", mw_log_is_timeline, mw_log_read_timeline},
    {"memwall-log", "run's log", mw_log_is_lines, mw_log_read_lines},
    {"trainer_state", "Hugging Face's trainer_state.json", mw_log_is_trainer_state,
     mw_log_read_trainer_state},
    {"exported", "a job of memwall export", mw_log_is_exported, mw_log_read_exported},
    {"torchtitan", "torchtitan's log", mw_log_is_torchtitan, mw_log_read_torchtitan},
    {"megatron", "Megatron-LM's log", mw_log_is_megatron, mw_log_read_megatron},
    {"deepspeed", "DeepSpeed's log", mw_log_is_deepspeed, mw_log_read_deepspeed},
    {NULL, NULL, NULL, NULL},
};

/* "memwall-answer (simulate as JSON), ...". */
static char *
known_formats(void)
{
    g_autoptr(GString) all = g_string_new(NULL);

    for (const struct mw_log_format *format = mw_log_formats; format->name; format++)
        g_string_append_printf(all, "%s%s", all->len ? ", " : "", format->wrote);
    return g_string_free(g_steal_pointer(&all), FALSE);
}

/* What an answer always has: whether it fits, and if it does the time of a step. */
static bool
check_figure(const struct mw_log_text *in, const struct mw_gate_case *one, int figure,
             GError **error)
{
    const double value = one->figures[figure];
    const bool fits = one->figures[mw_gate_figure_find("feasible")] > 0;
    const char *name = mw_gate_figures[figure].name;
    const char *wants = NULL;

    if (!strcmp(name, "feasible"))
        wants = value == 0 || value == 1 ? NULL : "true or false";
    else if (fits && !strcmp(name, "step_time_s"))
        wants = value > 0 && isfinite(value) ? NULL : "a number above 0";
    else if (!isnan(value) && !(value >= 0 && isfinite(value)))
        wants = "a number from 0 on, or null";
    return !wants || mw_fail(error, MW_ERROR_FORMAT, "%s: \"%s\": %s: must be %s", in->path,
                             one->name, name, wants);
}

static bool
check_figures(const struct mw_log_text *in, const struct mw_log *log, GError **error)
{
    for (guint i = 0; log->cases && i < log->cases->len; i++) {
        const struct mw_gate_case *one = log->cases->pdata[i];
        for (int figure = 0; !one->error && figure < MW_GATE_FIGURES; figure++)
            if (!check_figure(in, one, figure, error))
                return false;
    }
    return true;
}

/* Cases are found by their names. */
static bool
check_names(const struct mw_log_text *in, const struct mw_log *log, GError **error)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);

    for (guint i = 0; log->cases && i < log->cases->len; i++) {
        const struct mw_gate_case *one = log->cases->pdata[i];
        if (!g_hash_table_add(seen, one->name))
            return mw_fail(error, MW_ERROR_FORMAT, "%s: has \"%s\" twice", in->path, one->name);
    }
    return true;
}

bool
mw_log_parse(const struct mw_log_text *in, struct mw_log *out, GError **error)
{
    *out = (struct mw_log){0};
    if (strspn(in->text, " \t\r\n") == in->length)
        return mw_fail(error, MW_ERROR_FORMAT, "%s: is empty", in->path);
    for (const struct mw_log_format *format = mw_log_formats; format->name; format++)
        if (format->probe(in)) {
            out->format = format->name;
            if (format->read(in, out, error) && check_names(in, out, error) &&
                check_figures(in, out, error))
                return true;
            mw_log_clear(out);
            return false;
        }
    g_autofree char *known = known_formats();
    return mw_fail(error, MW_ERROR_FORMAT, "%s: is of no format that check knows; it reads: %s",
                   in->path, known);
}

bool
mw_log_read(const char *path, struct mw_log *out, GError **error)
{
    static const struct mw_input_kind kind = {"a result or a log", MW_LOG_BYTES_MAX, NULL};
    struct mw_log_text in = {.path = path};
    g_autofree char *text = mw_input_read(path, &kind, &in.length, error);

    *out = (struct mw_log){0};
    in.text = text;
    return text && mw_log_parse(&in, out, error);
}

void
mw_log_clear(struct mw_log *log)
{
    if (log->cases)
        g_ptr_array_unref(log->cases);
    mw_gate_steps_free(log->steps);
    g_free(log->version);
    *log = (struct mw_log){0};
}
