/* Reads the operators of a description. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "model/described.h"

#define SIDE_MAX (INT64_C(1) << 26)  /* of a matrix */
#define COUNT_MAX (INT64_C(1) << 26) /* of matrices in one operator */
#define TERM_MAX (INT64_C(1) << 40)

struct kind_row {
    const char *name;
    bool (*read)(JsonObject *object, const char *where, struct mw_described_operator *out,
                 GError **error);
};

JsonArray *
mw_described_list(JsonObject *object, const char *key, const char *where, GError **error)
{
    JsonNode *node = json_object_get_member(object, key);

    if (node && JSON_NODE_HOLDS_ARRAY(node))
        return json_node_get_array(node);
    mw_refuse(error, "%s: key \"%s\": %s: must be a list", where, key,
              node ? "no list" : "missing");
    return NULL;
}

bool
mw_described_object(JsonArray *list, guint number, const char *where, JsonObject **out,
                    GError **error)
{
    JsonNode *node = json_array_get_element(list, number);

    if (!JSON_NODE_HOLDS_OBJECT(node))
        return mw_refuse(error, "%s: must be an object", where);
    *out = json_node_get_object(node);
    return true;
}

/* --- values ---------------------------------------------------------------------------------- */

static bool
need(JsonObject *object, const char *key, int64_t max, const char *where, int64_t *out,
     GError **error)
{
    *out = 0;
    if (!mw_json_get_int(object, key, 1, max, where, out, error))
        return false;
    return *out || mw_refuse(error,
                             "%s: key \"%s\": missing: must be a whole number from 1 to "
                             "%" G_GINT64_FORMAT,
                             where, key, max);
}

static bool
refuse_line(const char *where, const char *key, JsonNode *node, GError **error)
{
    g_autofree char *shown = node ? mw_json_text(node) : g_strdup("missing");

    return mw_refuse(
        error,
        "%s: key \"%s\": %s: must be [a, b, c], whole numbers of which a is from 0 and "
        "b from 1, for (a s + c) / b of a sequence of s tokens",
        where, key, shown);
}

bool
mw_described_line(JsonObject *object, const char *key, const char *where,
                  const struct mw_model_line *otherwise, struct mw_model_line *out, GError **error)
{
    JsonNode *node = json_object_get_member(object, key);
    int64_t parts[3];

    if (!node && otherwise) {
        *out = *otherwise;
        return true;
    }
    if (!node || !JSON_NODE_HOLDS_ARRAY(node) ||
        json_array_get_length(json_node_get_array(node)) != G_N_ELEMENTS(parts))
        return refuse_line(where, key, node, error);
    for (guint i = 0; i < G_N_ELEMENTS(parts); i++) {
        JsonNode *part = json_array_get_element(json_node_get_array(node), i);
        if (json_node_get_value_type(part) != G_TYPE_INT64)
            return refuse_line(where, key, node, error);
        parts[i] = json_node_get_int(part);
    }
    if (parts[0] < 0 || parts[0] > TERM_MAX || parts[1] < 1 || parts[1] > TERM_MAX ||
        parts[2] < -TERM_MAX || parts[2] > TERM_MAX)
        return refuse_line(where, key, node, error);
    *out = (struct mw_model_line){parts[0], parts[1], parts[2]};
    return true;
}

/* --- kinds ----------------------------------------------------------------------------------- */

static bool
read_product(JsonObject *object, const char *where, struct mw_described_operator *out,
             GError **error)
{
    out->count = 1;
    return need(object, "n", SIDE_MAX, where, &out->n, error) &&
           need(object, "k", SIDE_MAX, where, &out->k, error) &&
           mw_json_get_int(object, "count", 1, COUNT_MAX, where, &out->count, error) &&
           mw_described_line(object, "rows", where, NULL, &out->rows, error);
}

static bool
read_attention(JsonObject *object, const char *where, struct mw_described_operator *out,
               GError **error)
{
    static const struct mw_model_line once = {0, 1, 1};
    struct mw_model_mix *mix = &out->mix;
    struct mw_model_line times;

    if (!need(object, "heads", 1 << 16, where, &mix->heads, error) ||
        !need(object, "kv_heads", 1 << 16, where, &mix->kv_heads, error) ||
        !need(object, "head_dim", 1 << 16, where, &out->head_dim, error) ||
        !need(object, "value_dim", 1 << 16, where, &mix->value_dim, error) ||
        !mw_described_line(object, "queries", where, NULL, &mix->m, error) ||
        !mw_described_line(object, "keys", where, NULL, &mix->n, error) ||
        !mw_described_line(object, "times", where, &once, &times, error) ||
        !mw_json_get_bool(object, "causal", where, &mix->causal, error) ||
        !mw_json_get_int(object, "window", 0, 1 << 28, where, &mix->window, error))
        return false;
    if (mix->heads % mix->kv_heads)
        return mw_refuse(error,
                         "%s: key \"kv_heads\": value %" G_GINT64_FORMAT
                         ": must divide heads (%" G_GINT64_FORMAT ")",
                         where, mix->kv_heads, mix->heads);
    mix->k = (struct mw_model_line){0, 1, out->head_dim};
    mix->count = (struct mw_model_line){times.slope * mix->heads, times.divisor,
                                        times.constant * mix->heads};
    return true;
}

static bool
read_scan(JsonObject *object, const char *where, struct mw_described_operator *out, GError **error)
{
    struct mw_model_mix *mix = &out->mix;

    mix->heads = mix->kv_heads = 1;
    return mw_described_line(object, "m", where, NULL, &mix->m, error) &&
           mw_described_line(object, "n", where, NULL, &mix->n, error) &&
           mw_described_line(object, "k", where, NULL, &mix->k, error) &&
           mw_described_line(object, "count", where, NULL, &mix->count, error);
}

static bool
read_pass(JsonObject *object, const char *where, struct mw_described_operator *out, GError **error)
{
    return need(object, "width", SIDE_MAX, where, &out->width, error) &&
           mw_described_line(object, "rows", where, NULL, &out->rows, error);
}

static bool
read_embedding(JsonObject *object, const char *where, struct mw_described_operator *out,
               GError **error)
{
    return need(object, "table", SIDE_MAX, where, &out->table, error) &&
           read_pass(object, where, out, error);
}

static bool
read_parameters(JsonObject *object, const char *where, struct mw_described_operator *out,
                GError **error)
{
    (void)out;
    return mw_described_list(object, "parameters", where, error) != NULL;
}

static const struct kind_row kinds[MW_DESCRIBED_KIND_COUNT] = {
    [MW_DESCRIBED_PRODUCT] = {"product", read_product},
    [MW_DESCRIBED_ATTENTION] = {"attention", read_attention},
    [MW_DESCRIBED_SCAN] = {"scan", read_scan},
    [MW_DESCRIBED_NORM] = {"norm", read_pass},
    [MW_DESCRIBED_ACTIVATION] = {"activation", read_pass},
    [MW_DESCRIBED_EMBEDDING] = {"embedding", read_embedding},
    [MW_DESCRIBED_PARAMETERS] = {"parameters", read_parameters},
};

static bool
read_kind(JsonObject *object, const char *where, enum mw_described_kind *out, GError **error)
{
    const char *name = NULL;

    if (!mw_json_get_string(object, "kind", where, &name, error))
        return false;
    for (int kind = 0; name && kind < MW_DESCRIBED_KIND_COUNT; kind++)
        if (!strcmp(name, kinds[kind].name)) {
            *out = (enum mw_described_kind)kind;
            return true;
        }
    g_autofree char *shown =
        name ? mw_json_text(json_object_get_member(object, "kind")) : g_strdup("missing");
    g_autoptr(GString) known = g_string_new(NULL);
    for (int kind = 0; kind < MW_DESCRIBED_KIND_COUNT; kind++)
        g_string_append_printf(known, "%s%s", kind ? ", " : "", kinds[kind].name);
    return mw_refuse(error, "%s: key \"kind\": %s: must be one of %s", where, shown, known->str);
}

/* --- an operator ----------------------------------------------------------------------------- */

static bool
read_own(JsonObject *object, const char *where, struct mw_described_operator *out, GError **error)
{
    JsonNode *node = json_object_get_member(object, "parameters");
    JsonArray *list = node ? mw_described_list(object, "parameters", where, error) : NULL;

    if (node && !list)
        return false;
    for (guint i = 0; list && i < json_array_get_length(list); i++) {
        g_autofree char *at = g_strdup_printf("%s.parameters[%u]", where, i);
        JsonObject *parameter;
        int64_t elements;
        bool shared = false;
        if (!mw_described_object(list, i, at, &parameter, error) ||
            !need(parameter, "elements", MW_MODEL_PARAMS_MAX, at, &elements, error) ||
            !mw_json_get_bool(parameter, "shared", at, &shared, error))
            return false;
        out->shares |= shared;
        if (!shared)
            out->elements = MW_SUM(out->elements, elements);
    }
    return true;
}

GArray *
mw_described_operators(JsonObject *object, const char *key, const char *where, GError **error)
{
    JsonArray *list = mw_described_list(object, key, where, error);
    g_autoptr(GArray) out = g_array_new(false, false, sizeof(struct mw_described_operator));

    for (guint i = 0; list && i < json_array_get_length(list); i++) {
        g_autofree char *at = g_strdup_printf("%s: %s[%u]", where, key, i);
        struct mw_described_operator it = {0};
        JsonObject *row;
        if (!mw_described_object(list, i, at, &row, error) ||
            !read_kind(row, at, &it.kind, error) || !kinds[it.kind].read(row, at, &it, error) ||
            !read_own(row, at, &it, error))
            return NULL;
        g_array_append_val(out, it);
    }
    return list ? g_steal_pointer(&out) : NULL;
}
