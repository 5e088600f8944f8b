/* What simulate prints as JSON (docs/schema.json, "answer"): a case for each strategy. */
#include <math.h>

#include "base/error.h"
#include "base/schemas.h"
#include "logs/formats.h"
#include "logs/values.h"

bool
mw_log_is_answer(const struct mw_log_text *in)
{
    return mw_log_has_schema(in, MW_SCHEMA_ANSWER);
}

/* Of several strategies each has a name of its own; alone, a plan may get another one. */
static char *
name_of(JsonObject *answer, bool several)
{
    const char *model = mw_value_text(answer, "model");
    const char *hardware = mw_value_text(answer, "hardware");
    const char *strategy = several ? mw_value_text(answer, "strategy") : NULL;

    return g_strdup_printf("%s on %s%s%s", model ? model : "a plan",
                           hardware ? hardware : "a machine", strategy ? " with " : "",
                           strategy ? strategy : "");
}

/* A row has all figures side by side; an answer has the peaks by tier. */
static double
figure_of(JsonObject *answer, const struct mw_gate_figure *figure)
{
    g_autofree char *peak = figure->tier ? g_strconcat("peak_bytes.", figure->tier, NULL) : NULL;

    return mw_log_figure(answer, peak ? peak : figure->name);
}

static struct mw_gate_case *
case_of(JsonObject *answer, bool several)
{
    struct mw_gate_case *one = mw_gate_case_new();

    one->name = name_of(answer, several);
    for (int i = 0; i < MW_GATE_FIGURES; i++)
        one->figures[i] = figure_of(answer, &mw_gate_figures[i]);
    one->strategy = g_strdup(mw_value_text(answer, "strategy"));
    one->bottleneck = g_strdup(mw_value_text(answer, "bottleneck"));
    one->gpus = mw_value_number(answer, "settings.nodes") *
                mw_value_number(answer, "settings.gpus_per_node");
    one->global_batch = mw_value_number(answer, "settings.global_batch");
    one->tokens_per_step = mw_value_number(answer, "settings.tokens_per_step");
    mw_log_take_lanes(mw_value_array(answer, "lanes"), one);
    mw_log_take_memory(mw_value_array(answer, "ledger"), one);
    return one;
}

bool
mw_log_read_answer(const struct mw_log_text *in, struct mw_log *out, GError **error)
{
    JsonObject *object = mw_log_object(in, MW_SCHEMA_ANSWER, error);
    JsonArray *answers = object ? mw_value_array(object, "answers") : NULL;
    guint count = answers ? json_array_get_length(answers) : 0;
    bool good = object && (count || mw_fail(error, MW_ERROR_FORMAT,
                                            "%s: answers: must have at "
                                            "least one",
                                            in->path));

    for (guint i = 0; good && i < count; i++) {
        JsonObject *answer = mw_value_element(answers, i);
        good = (answer && isfinite(mw_log_figure(answer, "feasible"))) ||
               mw_fail(error, MW_ERROR_FORMAT, "%s: answers.%u: must be an answer, with feasible",
                       in->path, i);
        if (good)
            mw_log_add_case(case_of(answer, count > 1), out);
    }
    g_clear_pointer(&object, json_object_unref);
    return good;
}
