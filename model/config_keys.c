/* Reads the keys of config.json as the row of the model's family defines them. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "model/config.h"

static bool
read_flag(const struct mw_config *config, const char *key, bool *out)
{
    return mw_json_get_bool(config->object, key, config->origin, out, config->error);
}

/* Fails if the key is present with a value that the walk over the operators does not support. */
static bool
expect_flag(const struct mw_config *config, const char *key, bool expected)
{
    bool value = expected;

    if (!read_flag(config, key, &value))
        return false;
    if (value == expected)
        return true;
    g_set_error(config->error, MW_ERROR, MW_ERROR_INVALID, "%s: key \"%s\": value %s: must be %s",
                config->origin, key, value ? "true" : "false", expected ? "true" : "false");
    return false;
}

static bool
read_attention_bias(const struct mw_config *config, const char *key)
{
    struct mw_model *model = config->model;

    if (!read_flag(config, key, &model->attention_bias))
        return false;
    model->projection_bias = model->attention_bias;
    return true;
}

static bool
read_bias(const struct mw_config *config, const char *key)
{
    struct mw_model *model = config->model;

    if (!read_flag(config, key, &model->attention_bias))
        return false;
    model->projection_bias = model->mlp_bias = model->attention_bias;
    return true;
}

#define WINDOW_DEFAULT 4096 /* of Qwen2 and Qwen3 */

/* Windows that another key switches on; which layers have them is said elsewhere. */
static bool
read_window_if_used(const struct mw_config *config, const char *key)
{
    JsonNode *node = json_object_get_member(config->object, key);
    int64_t window = node && JSON_NODE_HOLDS_NULL(node) ? 0 : WINDOW_DEFAULT;
    bool used = false;

    if (!read_flag(config, "use_sliding_window", &used) ||
        !mw_json_get_int(config->object, key, 1, mw_dimensions[MW_DIMENSION_WINDOW].max,
                         config->origin, &window, config->error))
        return false;
    if (used)
        config->model->window = window;
    return true;
}

/* The value `without` means that there is no final norm. */
static bool
read_final_norm(const struct mw_config *config, const char *key, bool without)
{
    bool value = !without;

    if (!read_flag(config, key, &value))
        return false;
    config->model->final_norm &= value != without;
    return true;
}

/* A list of what each layer sees is one of layers in turn: window and period say which. */
static bool
check_layer_types(const struct mw_config *config, const char *key)
{
    const struct mw_model *model = config->model;
    JsonNode *node = json_object_get_member(config->object, key);

    if (!node || JSON_NODE_HOLDS_NULL(node))
        return true;
    JsonArray *array = JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
    bool good = array && (gint64)json_array_get_length(array) == model->layers;
    for (gint64 layer = 0; good && layer < model->layers; layer++) {
        JsonNode *element = json_array_get_element(array, (guint)layer);
        bool windowed = mw_block_traits(mw_model_block_kind(model, layer))->windowed;
        good = json_node_get_value_type(element) == G_TYPE_STRING &&
               !strcmp(json_node_get_string(element),
                       windowed ? "sliding_attention" : "full_attention");
    }
    if (!good)
        g_set_error(config->error, MW_ERROR, MW_ERROR_INVALID,
                    "%s: key \"%s\": must have an entry for each of %" G_GINT64_FORMAT
                    " layers: \"sliding_attention\", and \"full_attention\" for every layer "
                    "number %" G_GINT64_FORMAT " in turn",
                    config->origin, key, model->layers, model->window_period);
    return good;
}

static bool
read_key(const struct mw_config *config, const struct mw_family_key *key)
{
    switch (key->meaning) {
    case MW_KEY_ATTENTION_BIAS:
        return read_attention_bias(config, key->name);
    case MW_KEY_MLP_BIAS:
        return read_flag(config, key->name, &config->model->mlp_bias);
    case MW_KEY_BIAS:
        return read_bias(config, key->name);
    case MW_KEY_QK_NORM:
        return read_flag(config, key->name, &config->model->qk_norm);
    case MW_KEY_NORM_FIRST:
        return read_final_norm(config, key->name, false);
    case MW_KEY_NO_FINAL_NORM:
        return read_final_norm(config, key->name, true);
    case MW_KEY_WINDOW_IF_USED:
        return read_window_if_used(config, key->name);
    case MW_KEY_LAYER_TYPES:
        return check_layer_types(config, key->name);
    case MW_KEY_TRUE:
    case MW_KEY_FALSE:
        return expect_flag(config, key->name, key->meaning == MW_KEY_TRUE);
    default: /* read_dropout reads it, or only a run needs it */
        return true;
    }
}

#define RATE_DEFAULT 0.1 /* of GPT-2 and OPT */

/* Dropout is off if the file gives 0 for every rate. */
static bool
read_dropout(const struct mw_config *config)
{
    double sum = 0;
    int keys = 0;

    for (const struct mw_family_key *key = config->model->family->keys; key && key->name; key++) {
        double rate = RATE_DEFAULT;
        if (key->meaning != MW_KEY_DROPOUT)
            continue;
        if (!mw_json_get_number(config->object, key->name, 0, 1, config->origin, &rate,
                                config->error))
            return false;
        sum += rate;
        keys++;
    }
    if (keys)
        config->model->dropout = sum > 0;
    return true;
}

bool
mw_config_read_keys(const struct mw_config *config)
{
    for (const struct mw_family_key *key = config->model->family->keys; key && key->name; key++)
        if (!read_key(config, key))
            return false;
    return read_dropout(config);
}
