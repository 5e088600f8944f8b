#include "report/html/value.h"

#include <math.h>
#include <string.h>

#include "base/format.h"
#include "base/json.h"

GPtrArray *
mw_value_objects(JsonObject *it, const char *key)
{
    JsonArray *array = mw_value_array(it, key);
    GPtrArray *found = g_ptr_array_new();

    for (guint i = 0; array && i < json_array_get_length(array); i++)
        if (mw_value_element(array, i))
            g_ptr_array_add(found, mw_value_element(array, i));
    return found;
}

static void
free_row(void *row)
{
    json_object_unref(row);
}

GPtrArray *
mw_value_rows_new(void)
{
    return g_ptr_array_new_with_free_func(free_row);
}

void
mw_value_rows_add(GPtrArray *rows, const char *name, const char *text, JsonObject *it)
{
    JsonObject *row = json_object_new();

    if (text)
        json_object_set_string_member(row, name, text);
    json_object_set_object_member(row, "it", json_object_ref(it));
    g_ptr_array_add(rows, row);
}

/* --- as a reader sees it ---------------------------------------------------------------------- */

static char *
bytes(double value)
{
    return g_strdup(mw_format_gib(value));
}

static char *
rate(double value)
{
    return g_strdup_printf("%s/s", mw_format_bytes(value));
}

static char *
seconds(double value)
{
    return g_strdup(mw_format_seconds(value));
}

static char *
days(double value)
{
    return g_strdup(mw_format_duration(value * 86400));
}

static char *
usd(double value)
{
    return g_strdup_printf("%s USD",
                           value > 0 && value < 0.005 ? "under 0.01" : mw_format_count(value));
}

static char *
kwh(double value)
{
    return g_strdup_printf("%s kWh", mw_format_count(value));
}

static char *
share(double value)
{
    return g_strdup(mw_format_percent(value));
}

static char *
error_of(double value)
{
    return g_strdup_printf("%s%s", value > 0 ? "+" : "", mw_format_percent(value));
}

static char *
batch(double value)
{
    return g_strdup(mw_format_batch(value));
}

static char *
tflops(double value)
{
    return g_strdup_printf("%s TFLOP/s", mw_format_significant(value));
}

static char *
count(double value)
{
    return fabs(value) < 1e4 && rint(value) == value ? g_strdup_printf("%.0f", value)
                                                     : g_strdup(mw_format_count(value));
}

static char *
factor(double value)
{
    return g_strdup_printf("%s \xc3\x97", mw_format_significant(value));
}

/* The first whose ending is that of the name: longer ones go first. */
static const struct {
    const char *ending;
    char *(*show)(double value);
} units[] = {
    {"tokens_per_s", count},
    {"bytes_per_s", rate},
    {"sequences_per_s", count},
    {"_bytes", bytes},
    {"times_tokens_per_usd", factor},
    {"_usd_at_most", usd},
    {"_usd", usd},
    {"usd", usd},
    {"days_at_most", days},
    {"days", days},
    {"_kwh", kwh},
    {"tflops_per_gpu", tflops},
    {"micro_batch", batch},
    {"global_batch", batch},
    {"mfu", share},
    {"mfu_published", share},
    {"efficiency", share},
    {"share", share},
    {"margin", share},
    {"error", error_of},
    {"factor", factor},
    {"_s_per_pair", seconds},
    {"_s", seconds},
    {"_s_low", seconds},
    {"_s_high", seconds},
};

/* The row of the table for a key; its length: none. */
static size_t
unit_of(const char *key)
{
    const char *dot = strrchr(key, '.');

    for (size_t u = 0; u < G_N_ELEMENTS(units); u++)
        if (g_str_has_suffix(key, units[u].ending))
            return u;
    if (!dot)
        return G_N_ELEMENTS(units);
    g_autofree char *outer = g_strndup(key, (gsize)(dot - key));
    return unit_of(outer);
}

int
mw_value_unit(const char *key)
{
    size_t unit = unit_of(key), first = 0;

    if (unit == G_N_ELEMENTS(units))
        return -1;
    while (units[first].show != units[unit].show)
        first++;
    return (int)first;
}

char *
mw_value_number_shown(const char *key, double value)
{
    size_t unit = unit_of(key);

    if (!isfinite(value))
        return g_strdup("");
    return unit < G_N_ELEMENTS(units) ? units[unit].show(value) : count(value);
}

char *
mw_value_shown(JsonObject *it, const char *key)
{
    JsonNode *node = mw_value_node(it, key);
    double value = mw_value_number(it, key);

    if (isfinite(value))
        return mw_value_number_shown(key, value);
    if (!node)
        return g_strdup("");
    if (mw_value_text(it, key))
        return g_strdup(mw_value_text(it, key));
    if (JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == G_TYPE_BOOLEAN)
        return g_strdup(json_node_get_boolean(node) ? "yes" : "no");
    return mw_json_text(node);
}
