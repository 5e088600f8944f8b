/* Names the keys of a config.json that nothing here reads and that may change the answer. */
#include <string.h>

#include "model/description.h"

#define NAMED_MAX 12

struct search {
    const char *key;
    bool found;
};

/* --- names in formulas ----------------------------------------------------------------------- */

static bool
is_word(char c)
{
    return g_ascii_isalnum(c) || c == '_';
}

static void
look_in(struct search *search, const char *formula)
{
    size_t length = strlen(search->key);
    const char *at = formula && length ? strstr(formula, search->key) : NULL; /* "" is a key too */

    for (; at && !search->found; at = strstr(at + 1, search->key))
        search->found = (at == formula || !is_word(at[-1])) && !is_word(at[length]);
}

static void
look_in_tensors(struct search *search, const struct mw_family_tensor *tensors)
{
    for (const struct mw_family_tensor *tensor = tensors; tensor && tensor->part; tensor++) {
        const char *const formulas[] = {tensor->rows, tensor->columns, tensor->bias,
                                        tensor->when, tensor->count,   tensor->met};
        for (size_t i = 0; i < G_N_ELEMENTS(formulas); i++)
            look_in(search, formulas[i]);
    }
}

static void
look_in_stacks(struct search *search, const struct mw_family_stack *stacks)
{
    for (const struct mw_family_stack *stack = stacks; stack && stack->name; stack++) {
        const char *const formulas[] = {
            stack->layers, stack->when,     stack->shared,   stack->hidden,     stack->tokens,
            stack->heads,  stack->kv_heads, stack->head_dim, stack->attentions, stack->window};
        for (size_t i = 0; i < G_N_ELEMENTS(formulas); i++)
            look_in(search, formulas[i]);
        look_in_tensors(search, stack->tensors);
    }
}

bool
mw_config_is_read(const struct mw_family *family, const char *key)
{
    const char *const formulas[] = {family->experts_in, family->windowed_in, family->refused};
    struct search search = {.key = key};

    for (const struct mw_family_key *row = family->keys; row && row->name; row++)
        look_in(&search, row->name);
    for (const struct mw_family_let *let = family->lets; let && let->name; let++) {
        look_in(&search, let->name);
        look_in(&search, let->formula);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(formulas); i++)
        look_in(&search, formulas[i]);
    look_in_tensors(&search, family->tensors);
    look_in_stacks(&search, family->stacks);
    for (const struct mw_family_tower *tower = family->towers; tower && tower->key; tower++) {
        look_in(&search, tower->key);
        look_in(&search, tower->when);
    }
    return search.found || mw_config_is_alias(family, key);
}

/* --- keys of a file -------------------------------------------------------------------------- */

static bool
is_off(JsonNode *node)
{
    if (JSON_NODE_HOLDS_ARRAY(node))
        return !json_array_get_length(json_node_get_array(node));
    if (JSON_NODE_HOLDS_OBJECT(node))
        return !json_object_get_size(json_node_get_object(node));
    if (json_node_get_value_type(node) == G_TYPE_STRING)
        return !*json_node_get_string(node) || !strcmp(json_node_get_string(node), "absolute");
    return json_node_get_value_type(node) == G_TYPE_BOOLEAN ? !json_node_get_boolean(node)
                                                            : json_node_get_double(node) == 0;
}

static const struct mw_family *
family_in(JsonObject *part, JsonObject *whole, const char *without)
{
    const char *outer = mw_formula_type_of_part(whole, NULL, NULL);
    const struct mw_family *own = mw_family_find(mw_formula_type_of_part(part, outer, without));

    return own ? own : mw_family_find(without);
}

/* `around`: the row of the object that holds this one, which may read its keys; NULL: none does. */
static void
find_unread(JsonObject *object, const struct mw_family *family, const struct mw_family *around,
            const char *prefix, GPtrArray *found)
{
    g_autoptr(GList) keys = json_object_get_members(object);

    for (GList *key = keys; key; key = key->next) {
        JsonNode *node = json_object_get_member(object, key->data);
        const struct mw_family_tower *tower = family->towers;
        while (tower && tower->key && strcmp(tower->key, key->data))
            tower++;
        if (JSON_NODE_HOLDS_NULL(node))
            continue;
        if (tower && tower->key && JSON_NODE_HOLDS_OBJECT(node)) {
            JsonObject *inner = json_node_get_object(node);
            g_autofree char *path = g_strdup_printf("%s%s.", prefix, tower->key);
            const struct mw_family *of = family_in(inner, object, tower->family);
            if (of)
                find_unread(inner, of, family, path, found);
        } else if (!mw_config_is_read(family, key->data) &&
                   !(around && mw_config_is_read(around, key->data)) &&
                   !mw_family_key_is_aside(key->data, is_off(node))) {
            g_autofree char *shown = g_strescape(key->data, NULL);
            g_ptr_array_add(found, g_strdup_printf("%s%.40s", prefix, shown));
        }
    }
}

void
mw_config_note_unread(const struct mw_config *config, const struct mw_family *family)
{
    g_autoptr(GPtrArray) found = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GString) names = g_string_new(NULL);

    find_unread(config->object, family, config->model->family, "", found);
    for (guint i = 0; i < found->len && i < NAMED_MAX; i++)
        g_string_append_printf(names, "%s%s", i ? ", " : "",
                               (const char *)g_ptr_array_index(found, i));
    if (found->len > NAMED_MAX)
        g_string_append_printf(names, " and %u more", found->len - NAMED_MAX);
    if (found->len)
        mw_model_note(config->model, "keys that the plan does not follow: %s", names->str);
}
