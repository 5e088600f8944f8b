/* Values of a ds_config.json, as DeepSpeed's classes read them. */
#include <math.h>
#include <string.h>

#include "base/typed.h"
#include "planner/deepspeed/internal.h"
#include "planner/settings/table.h"

#define OWN "memwall."
#define NUMBER_LENGTH_MAX 64 /* of a number in quotes */

struct range {
    double min, max;
};

/* The setting that a key of memwall's own section is; the stages of prefetch have keys each. */
static const struct mw_setting *
setting_of(const struct mw_ds_row *row)
{
    if (!g_str_has_prefix(row->name, OWN))
        return NULL;
    if (g_str_has_prefix(row->name, OWN "prefetch_"))
        return mw_setting_find("prefetch");
    g_autofree char *name = g_strdelimit(g_strdup(row->name + strlen(OWN)), "_", '-');
    return mw_setting_find(name);
}

static struct range
range_of(const struct mw_ds_row *row)
{
    const struct mw_setting *setting = setting_of(row);

    return setting ? (struct range){setting->min, setting->max}
                   : (struct range){(double)row->min, (double)row->max};
}

static char *
accepted_range(const char *noun, const struct mw_ds_row *row)
{
    struct range range = range_of(row);
    g_autofree char *min = mw_typed(range.min);
    g_autofree char *max = mw_typed(range.max);

    return g_strdup_printf("a %s from %s to %s, or \"auto\"", noun, min, max);
}

char *
mw_ds_accepted(const struct mw_ds_row *row)
{
    switch (row->kind) {
    case KIND_SECTION:
    case KIND_CLOSED:
        return g_strdup("an object: {...}");
    case KIND_SUM_DTYPE:
        return g_strdup("\"fp32\", \"bf16\" or \"fp16\"");
    case KIND_OPTIMIZER:
        return g_strdup("the name of an optimizer, such as \"AdamW\"");
    case KIND_STRATEGY:
        return g_strdup("the name of a strategy (memwall list strategies)");
    case KIND_PLACEMENT:
        return g_strdup("\"gpu\", \"cpu\" or \"nvme\", or a split such as \"cpu:60GB,nvme\"");
    case KIND_LAYERS:
        return g_strdup("layers such as \"0-3,8\"");
    case KIND_REPLICAS:
        return g_strdup("replicas of stages such as \"2,1,1\"");
    case KIND_BOOL:
    case KIND_CPU_OFFLOAD:
        return g_strdup("true, false or \"auto\"");
    case KIND_DEVICE:
        return g_strdup("\"none\", \"cpu\", \"nvme\" or \"auto\"");
    case KIND_WHOLE:
        return accepted_range("whole number", row);
    case KIND_NUMBER:
    case KIND_SHARE:
    default:
        return accepted_range("number", row);
    }
}

bool
mw_ds_is_text(JsonNode *node, const char *text)
{
    return json_node_get_value_type(node) == G_TYPE_STRING &&
           !strcmp(json_node_get_string(node), text);
}

/* Accepts 5e8 as an integer. */
static bool
read_number(JsonNode *node, const struct mw_ds_row *row, int64_t *out)
{
    GType type = json_node_get_value_type(node);
    struct range range = range_of(row);
    double value;

    if (type != G_TYPE_INT64 && type != G_TYPE_DOUBLE)
        return false;
    value = json_node_get_double(node);
    if (!isfinite(value) || value < range.min || value > range.max)
        return false;
    if (row->kind == KIND_SHARE) {
        *out = llround(value * (double)DS_WHOLE);
        return true;
    }
    *out = type == G_TYPE_INT64 ? json_node_get_int(node) : (int64_t)value;
    return row->kind == KIND_NUMBER || type == G_TYPE_INT64 || floor(value) == value;
}

static bool
read_device(JsonNode *node, int64_t *out)
{
    static const char *const names[MW_TIER_COUNT] = {"none", "cpu", "nvme"};

    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        if (mw_ds_is_text(node, names[tier])) {
            *out = tier;
            return true;
        }
    return false;
}

static bool
read_bool(JsonNode *node, int64_t *out)
{
    if (json_node_get_value_type(node) != G_TYPE_BOOLEAN)
        return false;
    *out = json_node_get_boolean(node);
    return true;
}

/* DeepSpeed ignores the case of an optimizer's name. */
static bool
read_optimizer(JsonNode *node, int64_t *out)
{
    if (json_node_get_value_type(node) != G_TYPE_STRING)
        return false;
    const char *name = json_node_get_string(node);
    *out = !g_ascii_strcasecmp(name, "adam") || !g_ascii_strcasecmp(name, "adamw");
    return true;
}

/* The names of DeepSpeed's DtypeEnum; "auto" is not one of them. */
static bool
read_dtype(JsonNode *node, int64_t *out)
{
    static const struct {
        const char *name;
        enum mw_dtype dtype;
    } names[] = {
        {"fp32", MW_DTYPE_FP32},           {"float32", MW_DTYPE_FP32}, {"float", MW_DTYPE_FP32},
        {"torch.float32", MW_DTYPE_FP32},  {"bf16", MW_DTYPE_BF16},    {"bfloat16", MW_DTYPE_BF16},
        {"torch.bfloat16", MW_DTYPE_BF16}, {"fp16", MW_DTYPE_FP16},    {"float16", MW_DTYPE_FP16},
        {"torch.float16", MW_DTYPE_FP16},  {"half", MW_DTYPE_FP16},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        if (mw_ds_is_text(node, names[i].name)) {
            *out = names[i].dtype;
            return true;
        }
    return false;
}

static bool
read_strategy(JsonNode *node, int64_t *out)
{
    enum mw_strategy strategy;

    if (json_node_get_value_type(node) != G_TYPE_STRING ||
        !mw_strategy_parse(json_node_get_string(node), &strategy, NULL))
        return false;
    *out = strategy;
    return true;
}

static bool
read_placement(JsonNode *node, struct mw_placement *out)
{
    return json_node_get_value_type(node) == G_TYPE_STRING &&
           mw_placement_parse(json_node_get_string(node), "", out, NULL);
}

static bool
read_layers(JsonNode *node, int64_t *out)
{
    struct mw_layer_set set;

    if (json_node_get_value_type(node) != G_TYPE_STRING ||
        !mw_layer_set_read(json_node_get_string(node), &set))
        return false;
    *out = g_quark_from_string(json_node_get_string(node));
    return true;
}

static bool
read_replicas(JsonNode *node, int64_t *out)
{
    struct mw_stage_replicas replicas;

    if (json_node_get_value_type(node) != G_TYPE_STRING ||
        !mw_stage_replicas_read(json_node_get_string(node), &replicas))
        return false;
    *out = g_quark_from_string(json_node_get_string(node));
    return true;
}

static bool
read_strict(JsonNode *node, const struct mw_ds_row *row, int64_t *out,
            struct mw_placement *placement)
{
    if (!JSON_NODE_HOLDS_VALUE(node))
        return false;
    if (mw_ds_is_text(node, "auto") && row->kind != KIND_SUM_DTYPE) {
        *out = MW_AUTO;
        return true;
    }
    switch (row->kind) {
    case KIND_BOOL:
    case KIND_CPU_OFFLOAD: /* true is the tier MW_TIER_CPU, false MW_TIER_GPU */
        return read_bool(node, out);
    case KIND_DEVICE:
        return read_device(node, out);
    case KIND_WHOLE:
    case KIND_NUMBER:
    case KIND_SHARE:
        return read_number(node, row, out);
    case KIND_OPTIMIZER:
        return read_optimizer(node, out);
    case KIND_SUM_DTYPE:
        return read_dtype(node, out);
    case KIND_STRATEGY:
        return read_strategy(node, out);
    case KIND_PLACEMENT:
        *out = 1;
        return read_placement(node, placement);
    case KIND_LAYERS:
        return read_layers(node, out);
    case KIND_REPLICAS:
        return read_replicas(node, out);
    case KIND_ANY: /* never read */
    case KIND_REMOVED:
    case KIND_CLOSED:
    case KIND_SECTION:
    default:
        return false;
    }
}

/* --- conversions of pydantic ------------------------------------------------------------------ */

static JsonNode *
node_of_bool(bool value)
{
    return json_node_init_boolean(json_node_alloc(), value);
}

/* 0, 1, and words in any case, without blanks; else NULL. */
static JsonNode *
lax_bool(JsonNode *node)
{
    static const char *const words[][2] = {{"false", "true"}, {"0", "1"}, {"no", "yes"},
                                           {"off", "on"},     {"n", "y"}, {"f", "t"}};
    GType type = json_node_get_value_type(node);

    if (type == G_TYPE_INT64 || type == G_TYPE_DOUBLE) {
        double value = json_node_get_double(node);
        return value == 0 || value == 1 ? node_of_bool(value != 0) : NULL;
    }
    for (size_t i = 0; type == G_TYPE_STRING && i < G_N_ELEMENTS(words); i++)
        for (int value = 0; value < 2; value++)
            if (!g_ascii_strcasecmp(json_node_get_string(node), words[i][value]))
                return node_of_bool(value);
    return NULL;
}

/* "3", " 1_000 ", "8.0", and for a number "1e-3"; else NULL. */
static JsonNode *
lax_number(JsonNode *node, bool whole)
{
    GType type = json_node_get_value_type(node);

    if (type == G_TYPE_BOOLEAN)
        return json_node_init_int(json_node_alloc(), json_node_get_boolean(node));
    if (type != G_TYPE_STRING || strlen(json_node_get_string(node)) > NUMBER_LENGTH_MAX)
        return NULL;
    const char *form = whole ? "^\\s*[+-]?\\d+(_\\d+)*(\\.0*)?\\s*$"
                             : "^\\s*[+-]?(\\d+(\\.\\d*)?|\\.\\d+)([eE][+-]?\\d+)?\\s*$";
    if (!g_regex_match_simple(form, json_node_get_string(node), 0, 0))
        return NULL;
    g_auto(GStrv) digits = g_strsplit(json_node_get_string(node), "_", -1);
    g_autofree char *text = g_strjoinv("", digits);
    return json_node_init_double(json_node_alloc(), g_ascii_strtod(text, NULL));
}

/* The value after pydantic's conversion, if it has another type; NULL: no conversion applies. */
static JsonNode *
lax_value(JsonNode *node, enum mw_ds_kind kind)
{
    if (!JSON_NODE_HOLDS_VALUE(node))
        return NULL;
    if (kind == KIND_BOOL || kind == KIND_CPU_OFFLOAD)
        return lax_bool(node);
    return kind == KIND_WHOLE || kind == KIND_NUMBER || kind == KIND_SHARE
               ? lax_number(node, kind == KIND_WHOLE)
               : NULL;
}

bool
mw_ds_read_value(JsonNode *node, const struct mw_ds_row *row, bool lax, int64_t *out,
                 struct mw_placement *placement)
{
    g_autoptr(JsonNode) taken = lax ? lax_value(node, row->kind) : NULL;

    return read_strict(taken ? taken : node, row, out, placement);
}
