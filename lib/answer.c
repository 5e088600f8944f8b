/* Reads an answer: figures by their names in the JSON, keys, warnings, texts. */
#include "lib/answer.h"

#include <math.h>
#include <string.h>

#include "base/json.h"

bool
memwall_answer_fits(const struct memwall_answer *answer)
{
    bool fits = (answer->serving && answer->serving->best >= 0) ||
                (answer->objective && answer->objective->fits);

    if (answer->cuts)
        return answer->cuts->fitting > 0;
    if (answer->capacity)
        return answer->capacity->front_count > 0 && answer->capacity->picks[0];
    if (answer->purchases)
        return mw_purchases_fit(answer->purchases);
    if (answer->parallel)
        return answer->parallel->row_count > 0;
    for (size_t i = 0; i < answer->count; i++)
        fits = fits || answer->answers[i]->result->feasible;
    for (guint i = 0; answer->largest && i < answer->largest->len; i++)
        fits = fits || g_array_index(answer->largest, struct mw_largest, i).layers > 0;
    return fits;
}

/* --- texts ----------------------------------------------------------------------------------- */

/* Makes a text when it is first requested, in whichever thread. */
static const char *
text_of(const struct memwall_answer *answer, enum memwall_form form)
{
    struct memwall_answer *kept = (struct memwall_answer *)answer;
    char **text = form == MEMWALL_JSON   ? &kept->json
                  : form == MEMWALL_TEXT ? &kept->text
                                         : &kept->plan;

    g_mutex_lock(&kept->lock);
    if (!*text)
        *text = mw_lib_string(answer, form, NULL);
    g_mutex_unlock(&kept->lock);
    return *text;
}

const char *
memwall_answer_json(const struct memwall_answer *answer)
{
    return text_of(answer, MEMWALL_JSON);
}

const char *
memwall_answer_text(const struct memwall_answer *answer)
{
    const char *text = text_of(answer, MEMWALL_TEXT);

    return text ? text : "";
}

const char *
memwall_answer_plan(const struct memwall_answer *answer)
{
    return text_of(answer, MEMWALL_PLAN_TEXT);
}

/* --- figures --------------------------------------------------------------------------------- */

static JsonNode *
figures_of(const struct memwall_answer *answer)
{
    struct memwall_answer *kept = (struct memwall_answer *)answer;
    const char *json = memwall_answer_json(answer);

    g_mutex_lock(&kept->lock);
    if (!kept->figures)
        kept->figures = mw_json_parse(json, -1, "answer", NULL);
    g_mutex_unlock(&kept->lock);
    return kept->figures;
}

/* The node that one part of a name leads to; NULL: none. */
static JsonNode *
child(JsonNode *node, const char *name)
{
    if (JSON_NODE_HOLDS_OBJECT(node))
        return json_object_get_member(json_node_get_object(node), name);
    if (!JSON_NODE_HOLDS_ARRAY(node) || !*name || strspn(name, "0123456789") != strlen(name))
        return NULL;
    JsonArray *array = json_node_get_array(node);
    guint64 index = g_ascii_strtoull(name, NULL, 10);
    return index < json_array_get_length(array) ? json_array_get_element(array, (guint)index)
                                                : NULL;
}

static bool
is_of_whole(const char *name)
{
    return g_str_has_prefix(name, "answers.") || g_str_has_prefix(name, "largest.");
}

static JsonNode *
figure(const struct memwall_answer *answer, const char *name)
{
    g_auto(GStrv) path = g_strsplit(name, ".", -1);
    JsonNode *node = figures_of(answer);

    if (!is_of_whole(name)) {
        node = node ? child(node, "answers") : NULL;
        node = node ? child(node, "0") : NULL;
    }
    for (char **part = path; node && *part; part++)
        node = child(node, *part);
    return node;
}

bool
memwall_answer_number(const struct memwall_answer *answer, const char *name, double *value)
{
    JsonNode *node = figure(answer, name);

    if (node && JSON_NODE_HOLDS_NULL(node)) {
        *value = NAN;
        return true;
    }
    if (!node || !JSON_NODE_HOLDS_VALUE(node) || json_node_get_value_type(node) == G_TYPE_STRING)
        return false;
    *value = json_node_get_value_type(node) == G_TYPE_BOOLEAN ? json_node_get_boolean(node)
                                                              : json_node_get_double(node);
    return true;
}

const char *
memwall_answer_string(const struct memwall_answer *answer, const char *name)
{
    JsonNode *node = figure(answer, name);

    return node && JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == G_TYPE_STRING
               ? json_node_get_string(node)
               : NULL;
}

/* --- beside the figures ---------------------------------------------------------------------- */

static char *
profile_text(const struct memwall_answer *answer, const char *name)
{
    g_auto(GStrv) parts = g_strsplit(name, ".", 2);

    if (!answer->question.profile) /* of many machines */
        return NULL;
    if (!strcmp(name, "profile.name"))
        return g_strdup(mw_profile_name(answer->question.profile));
    return parts[0] && parts[1] ? mw_profile_text(answer->question.profile, parts[0], parts[1])
                                : NULL;
}

const char *
memwall_answer_key(const struct memwall_answer *answer, const char *name)
{
    struct memwall_answer *kept = (struct memwall_answer *)answer;

    g_mutex_lock(&kept->lock);
    if (!kept->keys)
        kept->keys = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    char *text = g_hash_table_lookup(kept->keys, name);
    if (!text && (text = profile_text(answer, name)))
        g_hash_table_insert(kept->keys, g_strdup(name), text);
    g_mutex_unlock(&kept->lock);
    return text;
}

const char *
memwall_answer_warning(const struct memwall_answer *answer, size_t index)
{
    return index < answer->warnings->len ? answer->warnings->pdata[index] : NULL;
}
