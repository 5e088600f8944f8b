#include "base/json_value.h"

#include <math.h>
#include <string.h>

static JsonNode *
member(JsonObject *it, const char *name)
{
    JsonNode *node = it ? json_object_get_member(it, name) : NULL;

    return node && !JSON_NODE_HOLDS_NULL(node) ? node : NULL;
}

JsonNode *
mw_value_node(JsonObject *it, const char *key)
{
    const char *dot = strchr(key, '.');

    if (!dot || member(it, key))
        return member(it, key);
    g_autofree char *first = g_strndup(key, (gsize)(dot - key));
    return mw_value_node(mw_value_object(it, first), dot + 1);
}

double
mw_value_number(JsonObject *it, const char *key)
{
    JsonNode *node = mw_value_node(it, key);
    GType type = node && JSON_NODE_HOLDS_VALUE(node) ? json_node_get_value_type(node) : 0;

    if (type == G_TYPE_INT64)
        return (double)json_node_get_int(node);
    return type == G_TYPE_DOUBLE ? json_node_get_double(node) : NAN;
}

const char *
mw_value_text(JsonObject *it, const char *key)
{
    JsonNode *node = mw_value_node(it, key);
    bool is_text =
        node && JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == G_TYPE_STRING;

    return is_text ? json_node_get_string(node) : NULL;
}

bool
mw_value_is(JsonObject *it, const char *key)
{
    JsonNode *node = mw_value_node(it, key);

    return node && JSON_NODE_HOLDS_VALUE(node) &&
           json_node_get_value_type(node) == G_TYPE_BOOLEAN && json_node_get_boolean(node);
}

JsonObject *
mw_value_object(JsonObject *it, const char *key)
{
    JsonNode *node = mw_value_node(it, key);

    return node && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
}

JsonArray *
mw_value_array(JsonObject *it, const char *key)
{
    JsonNode *node = mw_value_node(it, key);

    return node && JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
}

JsonObject *
mw_value_element(JsonArray *array, guint index)
{
    JsonNode *node =
        array && index < json_array_get_length(array) ? json_array_get_element(array, index) : NULL;

    return node && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
}
