/* A baseline of check: predictions with their questions, or the steps of a run. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json_writer.h"
#include "base/schemas.h"
#include "logs/formats.h"
#include "logs/lines.h"
#include "logs/values.h"

static const char *const measures[] = {"step_time_s", "tokens_per_gpu_s", "samples_per_s"};

/* --- writing --------------------------------------------------------------------------------- */

static void
write_question(struct mw_json_writer *json, char **question)
{
    mw_json_begin(json, "question", '{', true);
    for (char **text = question; text && *text; text++) {
        const char *value = strchr(*text, '=');
        g_autofree char *name = g_strndup(*text, (gsize)(value - *text));
        mw_json_string(json, name, value + 1);
    }
    mw_json_end(json, '}');
}

static void
write_lanes(struct mw_json_writer *json, const GArray *lanes)
{
    mw_json_begin(json, "lanes", '[', false);
    for (guint i = 0; i < lanes->len; i++) {
        const struct mw_gate_lane *lane = &g_array_index(lanes, struct mw_gate_lane, i);
        mw_json_begin(json, NULL, '{', true);
        mw_json_string(json, "name", lane->name);
        mw_json_number(json, "busy_s", lane->busy_s);
        mw_json_number(json, "exposed_s", lane->exposed_s);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
write_memory(struct mw_json_writer *json, const GArray *memory)
{
    mw_json_begin(json, "ledger", '[', false);
    for (guint i = 0; i < memory->len; i++) {
        const struct mw_gate_memory *row = &g_array_index(memory, struct mw_gate_memory, i);
        mw_json_begin(json, NULL, '{', true);
        mw_json_string(json, "tier", row->tier);
        mw_json_string(json, "purpose", row->purpose);
        mw_json_integer(json, "bytes", row->bytes);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
write_case(struct mw_json_writer *json, const struct mw_gate_case *one)
{
    mw_json_begin(json, NULL, '{', false);
    mw_json_string(json, "name", one->name);
    write_question(json, one->question);
    mw_json_string(json, "error", one->error);
    mw_json_string(json, "strategy", one->strategy);
    mw_json_string(json, "bottleneck", one->bottleneck);
    mw_json_begin(json, "figures", '{', false);
    for (int i = 0; i < MW_GATE_FIGURES; i++)
        mw_json_number(json, mw_gate_figures[i].name, one->figures[i]);
    mw_json_end(json, '}');
    mw_json_number(json, "gpus", one->gpus);
    mw_json_number(json, "global_batch", one->global_batch);
    mw_json_number(json, "tokens_per_step", one->tokens_per_step);
    write_lanes(json, one->lanes);
    write_memory(json, one->memory);
    mw_json_end(json, '}');
}

void
mw_log_baseline_cases_write(FILE *out, GPtrArray *cases, const char *version)
{
    struct mw_json_writer json = {.out = out};

    mw_json_begin_answer(&json, MW_SCHEMA_BASELINE);
    mw_json_string(&json, "version", version);
    mw_json_begin(&json, "predictions", '[', false);
    for (guint i = 0; i < cases->len; i++)
        write_case(&json, cases->pdata[i]);
    mw_json_end(&json, ']');
    mw_json_end(&json, '}');
}

static void
write_times(struct mw_json_writer *json, const char *key, const double *times_s, uint32_t count)
{
    mw_json_begin(json, key, '[', true);
    for (uint32_t i = 0; i < count; i++)
        mw_json_number(json, NULL, times_s[i]);
    mw_json_end(json, ']');
}

static void
write_parts(struct mw_json_writer *json, const struct mw_gate_steps *steps)
{
    mw_json_begin(json, "parts", '[', false);
    for (int i = 0; i < steps->part_count; i++) {
        const struct mw_gate_part *part = &steps->parts[i];
        mw_json_begin(json, NULL, '{', false);
        mw_json_string(json, "name", part->name);
        mw_json_string(json, "parent", part->parent < 0 ? NULL : steps->parts[part->parent].name);
        write_times(json, "times_s", part->time_s, steps->count);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

void
mw_log_baseline_steps_write(FILE *out, const struct mw_gate_steps *steps, const char *version)
{
    struct mw_json_writer json = {.out = out};

    mw_json_begin_answer(&json, MW_SCHEMA_BASELINE);
    mw_json_string(&json, "version", version);
    mw_json_begin(&json, "run", '{', false);
    mw_json_string(&json, "format", steps->format);
    mw_json_string(&json, "measure", measures[steps->measure]);
    mw_json_number(&json, "sequences", steps->sequences);
    mw_json_number(&json, "predicted_s", steps->predicted_s);
    mw_json_boolean(&json, "first_step_apart", steps->first_apart);
    mw_json_integer(&json, "left_out", steps->left_out);
    mw_json_begin(&json, "steps", '[', true);
    for (uint32_t i = 0; i < steps->count; i++)
        mw_json_integer(&json, NULL, steps->step[i]);
    mw_json_end(&json, ']');
    write_times(&json, "times_s", steps->time_s, steps->count);
    write_parts(&json, steps);
    mw_json_end(&json, '}');
    mw_json_end(&json, '}');
}

/* --- reading predictions --------------------------------------------------------------------- */

bool
mw_log_is_baseline(const struct mw_log_text *in)
{
    return mw_log_has_schema(in, MW_SCHEMA_BASELINE);
}

static void
read_question(JsonObject *object, struct mw_gate_case *one)
{
    JsonObject *texts = mw_value_object(object, "question");
    GList *names = texts ? json_object_get_members(texts) : NULL;
    GPtrArray *all = g_ptr_array_new();

    for (GList *name = names; name; name = name->next) {
        JsonNode *node = json_object_get_member(texts, name->data);
        if (!strchr(name->data, '=') && JSON_NODE_HOLDS_VALUE(node) &&
            json_node_get_value_type(node) == G_TYPE_STRING)
            g_ptr_array_add(all, g_strdup_printf("%s=%s", (const char *)name->data,
                                                 json_node_get_string(node)));
    }
    g_ptr_array_add(all, NULL);
    one->question = (char **)g_ptr_array_free(all, FALSE);
    g_list_free(names);
}

static struct mw_gate_case *
read_case(JsonObject *object)
{
    struct mw_gate_case *one = mw_gate_case_new();

    one->name = g_strdup(mw_value_text(object, "name"));
    one->error = g_strdup(mw_value_text(object, "error"));
    one->strategy = g_strdup(mw_value_text(object, "strategy"));
    one->bottleneck = g_strdup(mw_value_text(object, "bottleneck"));
    for (int i = 0; i < MW_GATE_FIGURES; i++) {
        g_autofree char *path = g_strconcat("figures.", mw_gate_figures[i].name, NULL);
        one->figures[i] = mw_log_figure(object, path);
    }
    one->gpus = mw_value_number(object, "gpus");
    one->global_batch = mw_value_number(object, "global_batch");
    one->tokens_per_step = mw_value_number(object, "tokens_per_step");
    mw_log_take_lanes(mw_value_array(object, "lanes"), one);
    mw_log_take_memory(mw_value_array(object, "ledger"), one);
    read_question(object, one);
    return one;
}

static bool
read_cases(const struct mw_log_text *in, JsonArray *rows, struct mw_log *out, GError **error)
{
    bool good =
        json_array_get_length(rows) > 0 ||
        mw_fail(error, MW_ERROR_FORMAT, "%s: predictions: must have at least one", in->path);

    for (guint i = 0; good && i < json_array_get_length(rows); i++) {
        JsonObject *row = mw_value_element(rows, i);
        good = (row && mw_value_text(row, "name")) ||
               mw_fail(error, MW_ERROR_FORMAT, "%s: predictions.%u: must have a name", in->path, i);
        if (good)
            mw_log_add_case(read_case(row), out);
    }
    return good;
}

/* --- reading a run --------------------------------------------------------------------------- */

static double
number_at(JsonArray *array, guint index)
{
    JsonNode *node =
        array && index < json_array_get_length(array) ? json_array_get_element(array, index) : NULL;
    GType type =
        node && JSON_NODE_HOLDS_VALUE(node) ? json_node_get_value_type(node) : G_TYPE_INVALID;

    return type == G_TYPE_DOUBLE || type == G_TYPE_INT64 ? json_node_get_double(node) : NAN;
}

static void
add_parts(struct mw_log_builder *builder, JsonArray *parts, guint step)
{
    for (guint i = 0; parts && i < json_array_get_length(parts) && i < MW_GATE_PARTS_MAX; i++) {
        JsonObject *part = mw_value_element(parts, i);
        const char *name = part ? mw_value_text(part, "name") : NULL;
        if (name)
            mw_log_add_part(builder, name, number_at(mw_value_array(part, "times_s"), step));
    }
}

/* By what the file says.  A circle of parts is reached from no step, and so is never gone round. */
static void
set_parents(struct mw_gate_steps *steps, JsonArray *parts)
{
    for (guint i = 0; parts && i < json_array_get_length(parts); i++) {
        JsonObject *object = mw_value_element(parts, i);
        int part = object ? mw_log_find_part(steps, mw_value_text(object, "name")) : -1;
        int parent = object ? mw_log_find_part(steps, mw_value_text(object, "parent")) : -1;
        if (part >= 0)
            steps->parts[part].parent = parent == part ? -1 : parent;
    }
}

static int
measure_of(const char *name)
{
    for (size_t i = 0; name && i < G_N_ELEMENTS(measures); i++)
        if (!strcmp(measures[i], name))
            return (int)i;
    return -1;
}

/* The format that the run's log had, or this one. */
static const char *
format_of(JsonObject *run, const char *otherwise)
{
    const char *name = mw_value_text(run, "format");

    for (const struct mw_log_format *format = mw_log_formats; name && format->name; format++)
        if (!strcmp(format->name, name))
            return format->name;
    return otherwise;
}

static bool
add_steps(struct mw_log_builder *builder, const struct mw_log_text *in, JsonObject *run,
          GError **error)
{
    JsonArray *numbers = mw_value_array(run, "steps");
    JsonArray *times = mw_value_array(run, "times_s");
    JsonArray *parts = mw_value_array(run, "parts");

    for (guint i = 0; i < json_array_get_length(times); i++) {
        double number = number_at(numbers, i);
        if (!(number >= 0 && number < MW_LOG_STEP_MAX))
            return mw_fail(error, MW_ERROR_FORMAT, "%s: run.steps.%u: must be a step", in->path, i);
        if (!mw_log_add_step(builder, 0, (int64_t)number, number_at(times, i), error))
            return false;
        add_parts(builder, parts, i);
    }
    return true;
}

static bool
read_steps(const struct mw_log_text *in, JsonObject *run, struct mw_log *out, GError **error)
{
    int measure = measure_of(mw_value_text(run, "measure"));
    JsonArray *numbers = mw_value_array(run, "steps");
    JsonArray *times = mw_value_array(run, "times_s");
    if (measure < 0 || !numbers || !times ||
        json_array_get_length(numbers) != json_array_get_length(times))
        return mw_fail(error, MW_ERROR_FORMAT,
                       "%s: run: must have measure, and as many steps as times_s", in->path);
    struct mw_log_builder *builder =
        mw_log_builder_new(in, format_of(run, out->format), (enum mw_gate_measure)measure);
    struct mw_gate_steps *steps = mw_log_builder_steps(builder);
    steps->sequences = mw_value_number(run, "sequences");
    steps->predicted_s = mw_value_number(run, "predicted_s");
    steps->first_apart = mw_value_is(run, "first_step_apart");
    double left_out = mw_value_number(run, "left_out");
    steps->left_out = left_out > 0 && left_out < UINT32_MAX ? (uint32_t)left_out : 0;
    if (!add_steps(builder, in, run, error)) {
        mw_log_builder_free(builder);
        return false;
    }
    if (!mw_log_builder_end(builder, NULL, "run.times_s has them", out, error))
        return false;
    set_parents(out->steps, mw_value_array(run, "parts"));
    return true;
}

bool
mw_log_read_baseline(const struct mw_log_text *in, struct mw_log *out, GError **error)
{
    JsonObject *object = mw_log_object(in, MW_SCHEMA_BASELINE, error);
    if (!object)
        return false;
    JsonArray *rows = mw_value_array(object, "predictions");
    JsonObject *run = mw_value_object(object, "run");
    bool good = rows ? read_cases(in, rows, out, error)
                : run
                    ? read_steps(in, run, out, error)
                    : mw_fail(error, MW_ERROR_FORMAT, "%s: must have predictions or run", in->path);

    out->version = g_strdup(mw_value_text(object, "version"));
    json_object_unref(object);
    return good;
}
