/* Lists of a config.json that say of each layer what it is. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "model/description.h"

/* The word `number` of a text with spaces between; the length is 0 behind the last. */
static size_t
next_word(const char **at)
{
    *at += strspn(*at, " ");
    return strcspn(*at, " ");
}

static bool
is_kind(const char *kinds, const char *word, size_t length)
{
    const char *at = kinds;

    for (size_t of = next_word(&at); of; at += of, of = next_word(&at))
        if (of == length && !strncmp(at, word, length))
            return true;
    return false;
}

static bool
refuse_entry(const struct mw_config *config, const char *key, const char *shown, const char *kinds)
{
    g_auto(GStrv) words = g_strsplit(kinds, " ", -1);
    g_autofree char *list = g_strjoinv(", ", words);

    return mw_refuse(config->error, "%s: key \"%s\": entry %s: must be one of %s", config->origin,
                     key, shown, list);
}

static bool
check_letters(const struct mw_config *config, const char *key, const char *letters,
              const char *kinds)
{
    for (const char *letter = letters; *letter; letter++) {
        g_autofree char *one = g_strndup(letter, 1);
        g_autofree char *shown = g_strescape(one, NULL);
        if (!is_kind(kinds, letter, 1))
            return refuse_entry(config, key, shown, kinds);
    }
    return true;
}

static bool
check_words(const struct mw_config *config, const char *key, JsonArray *array, const char *kinds)
{
    for (guint i = 0; i < json_array_get_length(array); i++) {
        JsonNode *entry = json_array_get_element(array, i);
        bool word = json_node_get_value_type(entry) == G_TYPE_STRING;
        const char *text = word ? json_node_get_string(entry) : "";
        g_autofree char *shown = mw_json_text(entry);
        if (!is_kind(kinds, text, strlen(text)))
            return refuse_entry(config, key, shown, kinds);
    }
    return true;
}

static bool
refuse_count(const struct mw_config *config, const char *key, int64_t count, const char *must,
             int64_t layers)
{
    return mw_refuse(config->error,
                     "%s: key \"%s\": has %" G_GINT64_FORMAT
                     " entries: must have %s for each of %" G_GINT64_FORMAT " layers",
                     config->origin, key, count, must, layers);
}

/* The kind of each layer: words, or letters of one word. */
static bool
check_each(const struct mw_config *config, const char *key, JsonNode *node, const char *kinds,
           int64_t layers)
{
    bool letters = json_node_get_value_type(node) == G_TYPE_STRING;
    JsonArray *array = JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
    int64_t count = array     ? json_array_get_length(array)
                    : letters ? (int64_t)strlen(json_node_get_string(node))
                              : 0;

    if (!array && !letters)
        return mw_refuse(config->error, "%s: key \"%s\": must be a list with an entry per layer",
                         config->origin, key);
    if (count != layers && (count || letters)) /* an empty list is as good as none */
        return refuse_count(config, key, count, "one", layers);
    return array ? check_words(config, key, array, kinds)
                 : check_letters(config, key, json_node_get_string(node), kinds);
}

/* Letters that layers take in turn, or a number, which formulas read. */
static bool
check_turn(const struct mw_config *config, const char *key, JsonNode *node, const char *kinds,
           int64_t layers G_GNUC_UNUSED)
{
    if (JSON_NODE_HOLDS_ARRAY(node) || JSON_NODE_HOLDS_OBJECT(node))
        return mw_refuse(config->error,
                         "%s: key \"%s\": must be letters, of %s, or a number of layers",
                         config->origin, key, kinds);
    return json_node_get_value_type(node) != G_TYPE_STRING ||
           check_letters(config, key, json_node_get_string(node), kinds);
}

/* The words of a pair of them and how many times; NULL: it is none. */
static JsonArray *
words_of_group(JsonNode *group)
{
    JsonArray *pair = JSON_NODE_HOLDS_ARRAY(group) ? json_node_get_array(group) : NULL;
    JsonNode *words =
        pair && json_array_get_length(pair) == 2 ? json_array_get_element(pair, 0) : NULL;

    if (!words || !JSON_NODE_HOLDS_ARRAY(words) ||
        !json_array_get_length(json_node_get_array(words)) ||
        json_node_get_value_type(json_array_get_element(pair, 1)) != G_TYPE_INT64)
        return NULL;
    return json_node_get_array(words);
}

/* [[["global", "local"], 12]]: groups of words that layers take in turn, so many times. */
static bool
check_groups(const struct mw_config *config, const char *key, JsonNode *node, const char *kinds,
             int64_t layers)
{
    JsonArray *groups = JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
    guint count = groups ? json_array_get_length(groups) : 0;
    int64_t entries = 0;

    for (guint i = 0; i < MAX(1, count); i++) {
        JsonArray *words = count ? words_of_group(json_array_get_element(groups, i)) : NULL;
        if (!words)
            return mw_refuse(config->error,
                             "%s: key \"%s\": must be a list of pairs: kinds, and how many times",
                             config->origin, key);
        if (!check_words(config, key, words, kinds))
            return false;
        int64_t times = json_array_get_int_element(json_array_get_array_element(groups, i), 1);
        int64_t each = json_array_get_length(words);
        if (times < 1 || times > layers) /* so the product below is none too large */
            return mw_refuse(config->error,
                             "%s: key \"%s\": takes its kinds %" G_GINT64_FORMAT
                             " times: must be 1 to %" G_GINT64_FORMAT " times, for as many layers",
                             config->origin, key, times, layers);
        entries = MIN(entries + MIN(each, layers + 1) * times, G_MAXINT32);
    }
    return entries == layers || refuse_count(config, key, entries, "one", layers);
}

/* Numbers of layers, which formulas read. */
static bool
check_numbers(const struct mw_config *config, const char *key, JsonNode *node,
              const char *kinds G_GNUC_UNUSED, int64_t layers)
{
    int64_t count =
        JSON_NODE_HOLDS_ARRAY(node) ? json_array_get_length(json_node_get_array(node)) : 0;

    return count <= layers || refuse_count(config, key, count, "at most one", layers);
}

static const struct {
    const char *key;
    bool (*check)(const struct mw_config *, const char *, JsonNode *, const char *, int64_t);
    const char *kinds; /* NULL: the family's */
} lists[] = {
    {"layer_types", check_each, NULL},
    {"layers_block_type", check_each, NULL},
    {"hybrid_override_pattern", check_each, NULL},
    {"attention_layers", check_each, NULL},
    {"attention_types", check_groups, NULL},
    {"sliding_window_pattern", check_turn, "L G"},
    {"attn_layer_indices", check_numbers, NULL},
    {"mlp_only_layers", check_numbers, NULL},
};

/* Of each period of layers the one at the offset (JambaConfig, _check_supported_offset). */
static bool
check_offset(const struct mw_config *config, const struct mw_formula_scope *scope, const char *key,
             const char *period)
{
    int64_t at = 0, of = 0;

    if (!scope->object || !json_object_has_member(scope->object, key) ||
        !mw_config_is_read(scope->family, key))
        return true;
    if (!mw_formula_number(scope, key, &at, config->error) ||
        !mw_formula_number(scope, period, &of, config->error))
        return false;
    return at < of || mw_refuse(config->error,
                                "%s: key \"%s\": value %" G_GINT64_FORMAT
                                ": must be below %s (%" G_GINT64_FORMAT ")",
                                config->origin, key, at, period, of);
}

bool
mw_layer_lists_check(const struct mw_config *config, const struct mw_formula_scope *scope,
                     int64_t layers)
{
    const char *of_family = scope->family->layer_kinds;

    if (!of_family)
        of_family = "full_attention sliding_attention";
    for (size_t i = 0; i < G_N_ELEMENTS(lists); i++) {
        const char *key = lists[i].key, *kinds = lists[i].kinds ? lists[i].kinds : of_family;
        JsonNode *node = scope->object ? json_object_get_member(scope->object, key) : NULL;
        if (node && !JSON_NODE_HOLDS_NULL(node) && mw_config_is_read(scope->family, key) &&
            !lists[i].check(config, key, node, kinds, layers))
            return false;
    }
    return check_offset(config, scope, "attn_layer_offset", "attn_layer_period") &&
           check_offset(config, scope, "expert_layer_offset", "expert_layer_period");
}
