/* Hugging Face's trainer_state.json (transformers/trainer.py, Trainer.log, and speed_metrics of
 * trainer_utils.py, as of 2025 and 2026).  log_history has an object for each logged step.  Where
 * include_num_input_tokens_seen is set, newer versions put train_runtime into each: the seconds
 * since training began.  Else only the last one has it, for all steps.  The time of an evaluation
 * (eval_runtime) lies between two of them and is taken away. */
#include <math.h>

#include "base/error.h"
#include "logs/formats.h"
#include "logs/lines.h"
#include "logs/values.h"

bool
mw_log_is_trainer_state(const struct mw_log_text *in)
{
    return in->text[strspn(in->text, " \t\r\n")] == '{' && mw_log_has(in, "\"log_history\"");
}

struct clock { /* at the last row with a time */
    double step, runtime_s, evaluated_s;
};

static bool
read_row(struct mw_log_builder *builder, JsonObject *row, struct clock *clock, GError **error)
{
    double step = mw_value_number(row, "step"), now_s = mw_value_number(row, "train_runtime");
    double evaluated_s = mw_value_number(row, "eval_runtime");

    if (isfinite(evaluated_s) && evaluated_s > 0)
        clock->evaluated_s += evaluated_s;
    if (!(step >= 1 && step < MW_LOG_STEP_MAX) || !isfinite(now_s) || step == clock->step)
        return true;
    double steps = step - clock->step;
    double took_s = now_s - clock->runtime_s - clock->evaluated_s;
    *clock = (struct clock){step, now_s, 0};
    return mw_log_add_step(builder, 0, (int64_t)step, took_s / steps, error);
}

bool
mw_log_read_trainer_state(const struct mw_log_text *in, struct mw_log *out, GError **error)
{
    JsonObject *object = mw_log_object(in, NULL, error);
    JsonArray *rows = object ? mw_value_array(object, "log_history") : NULL;
    struct mw_log_builder *builder = mw_log_builder_new(in, out->format, MW_GATE_STEP_TIME);
    struct clock clock = {0};
    mw_log_builder_steps(builder)->rare =
        "only with include_num_input_tokens_seen each row has its time";
    bool good = object && (rows || mw_fail(error, MW_ERROR_FORMAT,
                                           "%s: log_history: must be an array", in->path));

    for (guint i = 0; good && i < json_array_get_length(rows); i++) {
        JsonObject *row = mw_value_element(rows, i);
        good = row ? read_row(builder, row, &clock, error)
                   : mw_fail(error, MW_ERROR_FORMAT, "%s: log_history.%u: must be an object",
                             in->path, i);
    }
    g_clear_pointer(&object, json_object_unref);
    if (good)
        return mw_log_builder_end(builder, NULL,
                                  "rows of log_history have step and train_runtime, "
                                  "which include_num_input_tokens_seen puts there",
                                  out, error);
    mw_log_builder_free(builder);
    return false;
}
