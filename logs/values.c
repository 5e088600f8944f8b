#include "logs/values.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

/* --- objects --------------------------------------------------------------------------------- */

/* The text after blanks and what `wanted` says; NULL: something else is there. */
static const char *
after(const char *at, const char *wanted)
{
    at += strspn(at, " \t\r\n");
    return g_str_has_prefix(at, wanted) ? at + strlen(wanted) : NULL;
}

bool
mw_log_has_schema(const struct mw_log_text *in, const char *schema)
{
    const char *at = after(in->text, "{");

    at = at ? after(at, "\"schema\"") : NULL;
    at = at ? after(at, ":") : NULL;
    at = at ? after(at, "\"") : NULL;
    return at && !strncmp(at, schema, strcspn(schema, "/") + 1);
}

JsonObject *
mw_log_object(const struct mw_log_text *in, const char *schema, GError **error)
{
    if (in->length > MW_JSON_BYTES_MAX) {
        mw_fail(error, MW_ERROR_FORMAT,
                "%s: has %" G_GSIZE_FORMAT " bytes; JSON of at most %d is "
                "read",
                in->path, in->length, MW_JSON_BYTES_MAX);
        return NULL;
    }
    g_autofree char *text = mw_json_from_python(in->text, in->length, NULL);
    JsonNode *root = mw_json_parse(text, (gssize)in->length, in->path, error);
    if (!root)
        return NULL;
    JsonObject *object = json_object_ref(json_node_get_object(root));
    json_node_unref(root);
    const char *has = schema ? mw_value_text(object, "schema") : NULL;
    if (!schema || !g_strcmp0(has, schema))
        return object;
    mw_fail(error, MW_ERROR_FORMAT, "%s: schema is %s; this memwall reads %s", in->path,
            has ? has : "missing", schema);
    json_object_unref(object);
    return NULL;
}

/* --- values ---------------------------------------------------------------------------------- */

/* Whether it fits is the only figure that may be true or false. */
double
mw_log_figure(JsonObject *object, const char *path)
{
    JsonNode *node = mw_value_node(object, path);
    double value = mw_value_number(object, path);

    if (!node || JSON_NODE_HOLDS_NULL(node))
        return NAN;
    if (JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == G_TYPE_BOOLEAN)
        return g_str_has_suffix(path, "feasible") ? json_node_get_boolean(node) : INFINITY;
    return isnan(value) ? INFINITY : value;
}

char *
mw_log_text_of(JsonNode *node)
{
    if (JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == G_TYPE_STRING)
        return g_strdup(json_node_get_string(node));
    return json_to_string(node, FALSE);
}

/* --- cases ----------------------------------------------------------------------------------- */

void
mw_log_take_lanes(JsonArray *lanes, struct mw_gate_case *one)
{
    for (guint i = 0; lanes && i < json_array_get_length(lanes); i++) {
        JsonObject *object = mw_value_element(lanes, i);
        const char *name = object ? mw_value_text(object, "name") : NULL;
        struct mw_gate_lane lane = {
            .name = g_strdup(name),
            .busy_s = name ? mw_value_number(object, "busy_s") : NAN,
            .exposed_s = name ? mw_value_number(object, "exposed_s") : NAN,
        };
        if (name)
            g_array_append_val(one->lanes, lane);
    }
}

#define BYTES_MAX 9e18 /* an int64_t holds more */

void
mw_log_take_memory(JsonArray *rows, struct mw_gate_case *one)
{
    for (guint i = 0; rows && i < json_array_get_length(rows); i++) {
        JsonObject *object = mw_value_element(rows, i);
        const char *tier = object ? mw_value_text(object, "tier") : NULL;
        const char *purpose = object ? mw_value_text(object, "purpose") : NULL;
        double bytes = object ? mw_value_number(object, "bytes") : NAN;
        if (!tier || !purpose || !(bytes >= 0 && bytes < BYTES_MAX))
            continue;
        struct mw_gate_memory row = {g_strdup(tier), g_strdup(purpose), (int64_t)bytes};
        g_array_append_val(one->memory, row);
    }
}

void
mw_log_add_case(struct mw_gate_case *one, struct mw_log *out)
{
    if (!out->cases)
        out->cases = g_ptr_array_new_with_free_func(mw_gate_case_free);
    g_ptr_array_add(out->cases, one);
}
