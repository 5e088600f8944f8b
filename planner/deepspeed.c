#include "planner/deepspeed.h"

#include <math.h>
#include <string.h>

#include "planner/deepspeed_internal.h"
#include "planner/error.h"
#include "planner/input.h"
#include "planner/json.h"

#define BATCH_MAX INT64_C(1000000000000)
#define ELEMENTS_MAX INT64_C(1000000000000000000)

enum kind { KIND_SECTION, KIND_BOOL, KIND_WHOLE, KIND_NUMBER, KIND_DEVICE, KIND_CPU_OFFLOAD };

/* Names and bounds: deepspeed.ai/docs/config-json and DeepSpeed's own checks (a bucket size may be
 * 0).  A name that is not here has no effect on a plan. */
static const struct row {
    const char *name;
    enum mw_ds_key key;
    enum kind kind;
    int64_t min, max;
} rows[] = {
    {"train_batch_size", DS_TRAIN_BATCH, KIND_WHOLE, 1, BATCH_MAX},
    {"train_micro_batch_size_per_gpu", DS_MICRO_BATCH, KIND_WHOLE, 1, BATCH_MAX},
    {"gradient_accumulation_steps", DS_GRAD_ACCUM, KIND_WHOLE, 1, BATCH_MAX},
    {"gradient_clipping", DS_CHECKED, KIND_NUMBER, 0, ELEMENTS_MAX},
    {"fp16", DS_UNKNOWN, KIND_SECTION, 0, 0},
    {"fp16.enabled", DS_FP16, KIND_BOOL, 0, 1},
    {"bf16", DS_UNKNOWN, KIND_SECTION, 0, 0},
    {"bf16.enabled", DS_BF16, KIND_BOOL, 0, 1},
    {"bfloat16", DS_UNKNOWN, KIND_SECTION, 0, 0},
    {"bfloat16.enabled", DS_BF16, KIND_BOOL, 0, 1},
    {"zero_optimization", DS_UNKNOWN, KIND_SECTION, 0, 0},
    {"zero_optimization.stage", DS_STAGE, KIND_WHOLE, 0, 3},
    {"zero_optimization.overlap_comm", DS_OVERLAP, KIND_BOOL, 0, 1},
    {"zero_optimization.sub_group_size", DS_SUB_GROUP, KIND_WHOLE, 0, ELEMENTS_MAX},
    {"zero_optimization.reduce_bucket_size", DS_CHECKED, KIND_WHOLE, 0, ELEMENTS_MAX},
    {"zero_optimization.allgather_bucket_size", DS_CHECKED, KIND_WHOLE, 0, ELEMENTS_MAX},
    {"zero_optimization.stage3_prefetch_bucket_size", DS_PREFETCH, KIND_WHOLE, 0, ELEMENTS_MAX},
    {"zero_optimization.stage3_max_live_parameters", DS_CHECKED, KIND_WHOLE, 0, ELEMENTS_MAX},
    {"zero_optimization.stage3_max_reuse_distance", DS_CHECKED, KIND_WHOLE, 0, ELEMENTS_MAX},
    {"zero_optimization.cpu_offload", DS_OPTIMIZER_DEVICE_OLD, KIND_CPU_OFFLOAD, 0, 1},
    {"zero_optimization.cpu_offload_param", DS_PARAM_DEVICE_OLD, KIND_CPU_OFFLOAD, 0, 1},
    {"zero_optimization.cpu_offload_params", DS_PARAM_DEVICE_OLD, KIND_CPU_OFFLOAD, 0, 1},
    {"zero_optimization.offload_param", DS_UNKNOWN, KIND_SECTION, 0, 0},
    {"zero_optimization.offload_param.device", DS_PARAM_DEVICE, KIND_DEVICE, 0, 0},
    {"zero_optimization.offload_param.pin_memory", DS_CHECKED, KIND_BOOL, 0, 1},
    {"zero_optimization.offload_param.buffer_count", DS_CHECKED, KIND_WHOLE, 1, BATCH_MAX},
    {"zero_optimization.offload_param.buffer_size", DS_CHECKED, KIND_WHOLE, 1, ELEMENTS_MAX},
    {"zero_optimization.offload_param.max_in_cpu", DS_CHECKED, KIND_WHOLE, 0, ELEMENTS_MAX},
    {"zero_optimization.offload_optimizer", DS_UNKNOWN, KIND_SECTION, 0, 0},
    {"zero_optimization.offload_optimizer.device", DS_OPTIMIZER_DEVICE, KIND_DEVICE, 0, 0},
    {"zero_optimization.offload_optimizer.pin_memory", DS_CHECKED, KIND_BOOL, 0, 1},
    {"zero_optimization.offload_optimizer.buffer_count", DS_CHECKED, KIND_WHOLE, 1, BATCH_MAX},
    {"zero_optimization.offload_optimizer.pipeline_read", DS_PIPELINE_READ, KIND_BOOL, 0, 1},
    {"zero_optimization.offload_optimizer.pipeline_write", DS_PIPELINE_WRITE, KIND_BOOL, 0, 1},
    {"zero_optimization.offload_optimizer.fast_init", DS_CHECKED, KIND_BOOL, 0, 1},
    {"zero_optimization.offload_optimizer.ratio", DS_CHECKED, KIND_NUMBER, 0, 1},
    {"activation_checkpointing", DS_UNKNOWN, KIND_SECTION, 0, 0},
    {"activation_checkpointing.cpu_checkpointing", DS_CPU_CHECKPOINTING, KIND_BOOL, 0, 1},
    {"activation_checkpointing.number_checkpoints", DS_CHECKED, KIND_WHOLE, 1, BATCH_MAX},
    {"aio", DS_UNKNOWN, KIND_SECTION, 0, 0},
    {"aio.block_size", DS_CHECKED, KIND_WHOLE, 1, ELEMENTS_MAX},
    {"aio.queue_depth", DS_CHECKED, KIND_WHOLE, 1, BATCH_MAX},
    {"aio.intra_op_parallelism", DS_CHECKED, KIND_WHOLE, 1, BATCH_MAX},
    {"aio.thread_count", DS_CHECKED, KIND_WHOLE, 1, BATCH_MAX},
};

bool
mw_ds_refuse(const char *origin, const char *name, const char *text, const char *accepted,
             GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "%s: key \"%s\": value %s: must be %s", origin,
                name, text, accepted);
    return false;
}

static const struct row *
find_row(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        if (!strcmp(name, rows[i].name))
            return &rows[i];
    return NULL;
}

static char *
accepted_by(const struct row *row)
{
    switch (row->kind) {
    case KIND_SECTION:
        return g_strdup("an object: {...}");
    case KIND_BOOL:
    case KIND_CPU_OFFLOAD:
        return g_strdup("true, false or \"auto\"");
    case KIND_DEVICE:
        return g_strdup("\"none\", \"cpu\", \"nvme\" or \"auto\"");
    case KIND_WHOLE:
        return g_strdup_printf("a whole number from %g to %g, or \"auto\"", (double)row->min,
                               (double)row->max);
    case KIND_NUMBER:
    default:
        return g_strdup_printf("a number from %g to %g, or \"auto\"", (double)row->min,
                               (double)row->max);
    }
}

static bool
is_text(JsonNode *node, const char *text)
{
    return json_node_get_value_type(node) == G_TYPE_STRING &&
           !strcmp(json_node_get_string(node), text);
}

/* 5e8 is a fine integer. */
static bool
read_number(JsonNode *node, const struct row *row, int64_t *out)
{
    GType type = json_node_get_value_type(node);
    double value;

    if (type != G_TYPE_INT64 && type != G_TYPE_DOUBLE)
        return false;
    value = json_node_get_double(node);
    if (!isfinite(value) || value < (double)row->min || value > (double)row->max)
        return false;
    *out = type == G_TYPE_INT64 ? json_node_get_int(node) : (int64_t)value;
    return row->kind == KIND_NUMBER || type == G_TYPE_INT64 || floor(value) == value;
}

static bool
read_device(JsonNode *node, int64_t *out)
{
    static const char *const names[MW_TIER_COUNT] = {"none", "cpu", "nvme"};

    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        if (is_text(node, names[tier])) {
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

static bool
read_value(JsonNode *node, const struct row *row, int64_t *out)
{
    if (!JSON_NODE_HOLDS_VALUE(node))
        return false;
    if (is_text(node, "auto")) {
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
        return read_number(node, row, out);
    case KIND_SECTION:
    default:
        return false;
    }
}

/* A key may hold anything; it is to be shown on one line. */
static void
add_name(struct mw_ds_file *file, const char *dotted, enum mw_ds_key key)
{
    struct mw_ds_name name = {g_strdup(dotted), key};

    for (char *c = name.name; *c; c++)
        if (g_ascii_iscntrl(*c))
            *c = '?';
    g_array_append_val(file->names, name);
}

static bool
take_value(struct mw_ds_file *file, const struct row *row, JsonNode *node, GError **error)
{
    g_autofree char *text = mw_json_text(node);
    int64_t value;

    if (!read_value(node, row, &value)) {
        g_autofree char *accepted = accepted_by(row);
        return mw_ds_refuse(file->origin, row->name, text, accepted, error);
    }
    if (value != MW_AUTO) /* "auto" asks nothing: it is not a key without effect */
        add_name(file, row->name, row->key);
    file->key[row->key].value = value;
    file->key[row->key].name = row->name;
    g_free(file->key[row->key].text);
    file->key[row->key].text = g_steal_pointer(&text);
    return true;
}

/* An absent value and null are the same. */
static bool
walk(struct mw_ds_file *file, JsonObject *object, const char *prefix, GError **error)
{
    g_autoptr(GList) members = json_object_get_members(object);

    for (GList *member = members; member; member = member->next) {
        const char *key = member->data;
        JsonNode *node = json_object_get_member(object, key);
        g_autofree char *dotted = g_strconcat(prefix, key, NULL);
        const struct row *row = strchr(key, '.') ? NULL : find_row(dotted);
        bool good = true;

        if (JSON_NODE_HOLDS_NULL(node)) {
            continue;
        } else if (!row) {
            add_name(file, dotted, DS_UNKNOWN);
        } else if (row->kind == KIND_SECTION && JSON_NODE_HOLDS_OBJECT(node)) {
            g_autofree char *inner = g_strconcat(dotted, ".", NULL);
            good = walk(file, json_node_get_object(node), inner, error);
        } else {
            good = take_value(file, row, node, error);
        }
        if (!good)
            return false;
    }
    return true;
}

static char **
names_without_effect(const struct mw_ds_file *file)
{
    GPtrArray *names = g_ptr_array_new();

    for (guint i = 0; i < file->names->len; i++) {
        const struct mw_ds_name *name = &g_array_index(file->names, struct mw_ds_name, i);
        if (!file->key[name->key].used)
            g_ptr_array_add(names, g_strdup(name->name));
    }
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(names, FALSE);
}

static void
clear_name(void *name)
{
    g_free(((struct mw_ds_name *)name)->name);
}

bool
mw_deepspeed_parse(const char *text, gssize length, const char *origin, int64_t world_size,
                   struct mw_settings *settings, char ***ignored, GError **error)
{
    g_autoptr(JsonNode) root = mw_json_parse(text, length, origin, error);
    struct mw_ds_file file = {.origin = origin};
    struct mw_settings result = *settings;

    if (!root)
        return false;
    file.names = g_array_new(FALSE, FALSE, sizeof(struct mw_ds_name));
    g_array_set_clear_func(file.names, clear_name);
    for (int key = 0; key < DS_KEY_COUNT; key++)
        file.key[key].value = DS_ABSENT;

    bool good = walk(&file, json_node_get_object(root), "", error) &&
                mw_ds_apply(&file, world_size, &result, error);
    if (good) {
        *settings = result;
        if (ignored)
            *ignored = names_without_effect(&file);
    }
    for (int key = 0; key < DS_KEY_COUNT; key++)
        g_free(file.key[key].text);
    g_array_free(file.names, TRUE);
    return good;
}

bool
mw_deepspeed_load(const char *path, int64_t world_size, struct mw_settings *settings,
                  char ***ignored, GError **error)
{
    gsize length = 0;
    g_autofree char *text = mw_input_read(path, "a DeepSpeed configuration (ds_config.json)",
                                          MW_JSON_BYTES_MAX, &length, error);

    return text &&
           mw_deepspeed_parse(text, (gssize)length, path, world_size, settings, ignored, error);
}
