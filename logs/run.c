/* What run and compare print as JSON (docs/schema.json, "run"): the times of the steps that count,
 * and of lanes their medians. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/schemas.h"
#include "logs/formats.h"
#include "logs/lines.h"
#include "logs/values.h"

bool
mw_log_is_run(const struct mw_log_text *in)
{
    return mw_log_has_schema(in, MW_SCHEMA_RUN);
}

static void
add_lanes(struct mw_log_builder *builder, JsonArray *lanes)
{
    for (guint i = 0; lanes && i < json_array_get_length(lanes); i++) {
        JsonObject *lane = mw_value_element(lanes, i);
        const char *name = lane ? mw_value_text(lane, "name") : NULL;
        if (name)
            mw_log_add_lane(builder, name, mw_value_number(lane, "busy.measured_s"),
                            mw_value_number(lane, "exposed.measured_s"));
    }
}

static bool
read_compare(const struct mw_log_text *in, JsonObject *answer, struct mw_log *out, GError **error)
{
    JsonArray *times = mw_value_array(answer, "compare.step_times_s");
    JsonArray *lanes = mw_value_array(answer, "compare.lanes");
    struct mw_log_builder *builder = mw_log_builder_new(in, out->format, MW_GATE_STEP_TIME);
    struct mw_gate_steps *steps = mw_log_builder_steps(builder);

    steps->first_apart = true;
    steps->sequences = mw_value_number(answer, "settings.global_batch");
    steps->predicted_s = mw_value_number(answer, "compare.step.predicted_s");
    for (guint i = 0; times && i < json_array_get_length(times); i++) {
        JsonNode *node = json_array_get_element(times, i);
        double time_s = JSON_NODE_HOLDS_VALUE(node) ? json_node_get_double(node) : NAN;
        if (!mw_log_add_step(builder, 0, i + 1, time_s, error)) {
            mw_log_builder_free(builder);
            return false;
        }
        add_lanes(builder, lanes);
    }
    return mw_log_builder_end(builder, NULL, "compare.step_times_s has them", out, error);
}

bool
mw_log_read_run(const struct mw_log_text *in, struct mw_log *out, GError **error)
{
    JsonObject *object = mw_log_object(in, MW_SCHEMA_RUN, error);
    JsonArray *answers = object ? mw_value_array(object, "answers") : NULL;
    JsonObject *answer =
        answers && json_array_get_length(answers) == 1 ? mw_value_element(answers, 0) : NULL;
    bool good = object &&
                (answer ? read_compare(in, answer, out, error)
                        : mw_fail(error, MW_ERROR_FORMAT, "%s: answers: must have one", in->path));

    g_clear_pointer(&object, json_object_unref);
    return good;
}
