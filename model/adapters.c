/* adapter_config.json: what PEFT (huggingface/peft) says of the adapters beside it. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "base/json.h"
#include "base/spell.h"
#include "model/model.h"

/* Adapters are of the tensors with these roles. */
static const struct {
    enum mw_operator operator_;
    enum mw_weight_role role;
    uint32_t target; /* 1 << enum mw_target; 0: all that the operator has */
} adapted[] = {
    {MW_OPERATOR_QKV, MW_WEIGHT_Q, UINT32_C(1) << MW_TARGET_Q},
    {MW_OPERATOR_QKV, MW_WEIGHT_K, UINT32_C(1) << MW_TARGET_K},
    {MW_OPERATOR_QKV, MW_WEIGHT_V, UINT32_C(1) << MW_TARGET_V},
    {MW_OPERATOR_PROJECTION, MW_WEIGHT_PROJECTION, 0},
    {MW_OPERATOR_MLP_UP, MW_WEIGHT_GATE, UINT32_C(1) << MW_TARGET_GATE},
    {MW_OPERATOR_MLP_UP, MW_WEIGHT_UP, UINT32_C(1) << MW_TARGET_UP},
    {MW_OPERATOR_MLP_DOWN, MW_WEIGHT_DOWN, 0},
};

/* "self_attn.q_proj.weight" is of the module q_proj; NULL: the family has no such tensor.  Of
 * modules with one name in two places (GPT-2's attn.c_proj and mlp.c_proj) the path tells them
 * apart.  g_free it. */
static char *
module_of(const struct mw_decoder *decoder, enum mw_weight_role role)
{
    const char *name = decoder->family->run.tensors->of[role];

    if (!name)
        return NULL;
    g_autofree char *path = g_strndup(name, strlen(name) - strlen(".weight"));
    const char *last = strrchr(path, '.');
    bool twice = last && !strcmp(last + 1, "c_proj");
    return g_strdup(last && !twice ? last + 1 : path);
}

/* The names of the adapted modules, each once. */
static GPtrArray *
target_modules(const struct mw_decoder *decoder)
{
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);

    for (size_t i = 0; i < G_N_ELEMENTS(adapted); i++) {
        bool has = decoder->lora_adapted >> adapted[i].operator_ & 1 &&
                   !(decoder->lora_bare & adapted[i].target);
        char *name = has ? module_of(decoder, adapted[i].role) : NULL;
        if (name && !g_ptr_array_find_with_equal_func(names, name, g_str_equal, NULL))
            g_ptr_array_add(names, name);
        else
            g_free(name);
    }
    return names;
}

char *
mw_model_write_adapter_config(const struct mw_decoder *decoder)
{
    g_autoptr(GPtrArray) names = target_modules(decoder);
    GString *text = g_string_new(NULL);

    g_string_append_printf(text,
                           "{\n"
                           "  \"peft_type\": \"LORA\",\n"
                           "  \"task_type\": \"CAUSAL_LM\",\n"
                           "  \"base_model_name_or_path\": null,\n"
                           "  \"bias\": \"none\",\n"
                           "  \"fan_in_fan_out\": %s,\n"
                           "  \"inference_mode\": true,\n"
                           "  \"init_lora_weights\": true,\n"
                           "  \"lora_alpha\": %.15g,\n"
                           "  \"lora_dropout\": 0.0,\n"
                           "  \"modules_to_save\": null,\n"
                           "  \"r\": %" G_GINT64_FORMAT ",\n"
                           "  \"target_modules\": [",
                           decoder->family->run.tensors->transposed ? "true" : "false",
                           decoder->lora_alpha, decoder->lora_rank);
    for (guint i = 0; i < names->len; i++)
        g_string_append_printf(text, "%s\"%s\"", i ? ", " : "",
                               (const char *)g_ptr_array_index(names, i));
    g_string_append(text, "],\n"
                          "  \"use_dora\": false,\n"
                          "  \"use_rslora\": false\n"
                          "}\n");
    return g_string_free(text, FALSE);
}

/* --- as a setting --------------------------------------------------------------------------- */

static uint32_t
all_adapted(void)
{
    uint32_t all = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(adapted); i++)
        all |= UINT32_C(1) << adapted[i].operator_;
    return all;
}

static void
add_name(GString *list, const char *name)
{
    g_string_append_printf(list, "%c%s", strchr(list->str, '@') ? '+' : '@', name);
}

/* Its operators by name; of one of which some matrices have none, the others. */
char *
mw_model_adapters_text(const struct mw_trained *trained)
{
    GString *text = g_string_new(NULL);
    bool all = trained->adapted == all_adapted() && !trained->bare;

    g_string_printf(text, "lora:%" G_GINT64_FORMAT, trained->rank);
    for (int i = 0; i < MW_OPERATOR_COUNT && !all; i++) {
        if (!(trained->adapted >> i & 1))
            continue;
        bool whole = !(mw_targets_of(i) & trained->bare);
        if (whole)
            add_name(text, mw_operator_name(i));
        for (int t = 0; t < MW_TARGET_COUNT && !whole; t++)
            if (mw_targets_of(i) & ~trained->bare & UINT32_C(1) << t)
                add_name(text, mw_target_name(t));
    }
    return g_string_free(text, FALSE);
}

char *
mw_model_adapter_config_text(const struct mw_adapter_config *config)
{
    const struct mw_trained trained = {
        .adapted = config->adapted ? config->adapted : all_adapted(),
        .rank = config->rank,
        .bare = config->bare,
    };

    return mw_model_adapters_text(&trained);
}

/* --- reading --------------------------------------------------------------------------------- */

static bool
says_nothing(JsonNode *node)
{
    return !node || JSON_NODE_HOLDS_NULL(node) ||
           (json_node_get_value_type(node) == G_TYPE_BOOLEAN && !json_node_get_boolean(node)) ||
           (JSON_NODE_HOLDS_ARRAY(node) && !json_array_get_length(json_node_get_array(node))) ||
           (JSON_NODE_HOLDS_OBJECT(node) && !json_object_get_size(json_node_get_object(node)));
}

static bool
check_kind(JsonObject *object, const char *origin, GError **error)
{
    static const char *const flags[] = {"use_dora", "lora_bias", "use_qalora"};
    const char *type = "", *bias = "none", *task = "CAUSAL_LM";
    bool transposed; /* as the model is, and PEFT sees to that: only the type matters */

    if (!mw_json_get_string(object, "peft_type", origin, &type, error) ||
        !mw_json_get_bool(object, "fan_in_fan_out", origin, &transposed, error) ||
        !mw_json_get_string(object, "bias", origin, &bias, error))
        return false;
    if (strcmp(type, "LORA"))
        return mw_refuse(error, "%s: peft_type: \"%s\": must be \"LORA\"", origin, type);
    if (!says_nothing(json_object_get_member(object, "task_type")) &&
        !mw_json_get_string(object, "task_type", origin, &task, error))
        return false;
    if (strcmp(task, "CAUSAL_LM"))
        return mw_refuse(error, "%s: task_type: \"%s\": must be \"CAUSAL_LM\" or null", origin,
                         task);
    if (strcmp(bias, "none"))
        return mw_refuse(error, "%s: bias: \"%s\": must be \"none\"", origin, bias);
    for (size_t i = 0; i < G_N_ELEMENTS(flags); i++) {
        bool has = false;
        if (!mw_json_get_bool(object, flags[i], origin, &has, error))
            return false;
        if (has)
            return mw_refuse(error,
                             "%s: %s: true: must be false: other adapters than LoRA's own "
                             "are not trained",
                             origin, flags[i]);
    }
    return true;
}

/* What PEFT can have and adapters here have not: a list or an object that says which. */
static const struct {
    const char *key, *why;
} left_out[] = {
    {"target_parameters", "single parameters have no adapters here, modules have"},
    {"modules_to_save",
     "an adapter's file has no whole modules here; {train=OPERATORS} trains them"},
    {"trainable_token_indices", "rows of an embedding are not trained alone"},
    {"layers_to_transform", "all layers have adapters"},
    {"layer_replication", "layers are not repeated"},
    {"rank_pattern", "all adapters have one rank"},
    {"alpha_pattern", "all adapters have one alpha"},
    {"loftq_config", "frozen weights are those of the model"},
    {"alora_invocation_tokens", "adapters are of all tokens"},
    {"arrow_config", "there is one adapter, and nothing chooses among several"},
    {"use_bdlora", "adapters have no blocks"},
    {"exclude_modules", "target_modules lists those that have adapters, and no others"},
};

/* What changes the frozen weights as training begins, which are the model's here. */
static bool
check_start(JsonObject *object, const char *origin, GError **error)
{
    static const char *const changes[] = {"pissa", "olora", "corda", "loftq"};
    JsonNode *node = json_object_get_member(object, "init_lora_weights");
    bool said = node && json_node_get_value_type(node) == G_TYPE_STRING;
    const char *start = said ? json_node_get_string(node) : "";
    bool known = !node || JSON_NODE_HOLDS_NULL(node) || said ||
                 json_node_get_value_type(node) == G_TYPE_BOOLEAN;

    if (!known) {
        g_autofree char *value = mw_json_text(node);
        return mw_refuse(error,
                         "%s: init_lora_weights: %s: must be true, false, or a text such as "
                         "\"gaussian\"",
                         origin, value);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(changes); i++)
        if (g_str_has_prefix(start, changes[i]))
            return mw_refuse(error,
                             "%s: init_lora_weights: \"%s\": must leave frozen weights as they "
                             "are, as true, false and \"gaussian\" do",
                             origin, start);
    return true;
}

static bool
check_left_out(JsonObject *object, const char *origin, GError **error)
{
    for (size_t i = 0; i < G_N_ELEMENTS(left_out); i++) {
        if (says_nothing(json_object_get_member(object, left_out[i].key)))
            continue;
        g_autofree char *why = mw_spelled(left_out[i].why);
        return mw_refuse(error, "%s: %s: must be null: %s", origin, left_out[i].key, why);
    }
    return true;
}

/* By default PEFT's r and lora_alpha are 8.  Adapters that are stable in rank (rsLoRA, arXiv
 * 2312.03732) are scaled by alpha / sqrt(r). */
static bool
read_numbers(JsonObject *object, const char *origin, struct mw_adapter_config *out, GError **error)
{
    int64_t rank = 0;

    out->written_alpha = 8;
    if (!mw_json_get_int(object, "r", 1, 1 << 20, origin, &rank, error) ||
        !mw_json_get_number(object, "lora_alpha", MW_DECODER_ALPHA_MIN, MW_DECODER_ALPHA_MAX,
                            origin, &out->written_alpha, error) ||
        !mw_json_get_number(object, "lora_dropout", 0, 1, origin, &out->dropout, error) ||
        !mw_json_get_bool(object, "use_rslora", origin, &out->rslora, error))
        return false;
    out->unranked = !rank;
    out->rank = rank ? rank : 8;
    out->alpha = out->written_alpha * (out->rslora ? sqrt((double)out->rank) : 1);
    return out->alpha <= MW_DECODER_ALPHA_MAX ||
           mw_refuse(error,
                     "%s: lora_alpha: %.15g by the square root of the rank (use_rslora) is %.6g: "
                     "must be at most %.15g",
                     origin, out->written_alpha, out->alpha, MW_DECODER_ALPHA_MAX);
}

/* Whether a module is meant by its name or the end of its path, as PEFT reads it. */
static bool
is_module(const char *tensor, const char *module)
{
    g_autofree char *path = g_strndup(tensor, strlen(tensor) - strlen(".weight"));
    g_autofree char *end = g_strconcat(".", module, NULL);

    return !strcmp(path, module) || g_str_has_suffix(path, end);
}

/* What is named: operators, and of those with several matrices which. */
struct named {
    uint32_t operators, targets;
};

static void
add_of_family(struct named *named, const struct mw_family *family, const char *module)
{
    static const uint32_t gate = UINT32_C(1) << MW_TARGET_GATE;

    for (size_t i = 0; i < G_N_ELEMENTS(adapted) && family->run.tensors; i++) {
        const char *tensor = family->run.tensors->of[adapted[i].role];
        if (!tensor || !is_module(tensor, module))
            continue;
        named->operators |= UINT32_C(1) << adapted[i].operator_;
        named->targets |= adapted[i].target;
        if (!family->run.tensors->of[MW_WEIGHT_GATE]) /* up is all of its operator */
            named->targets |= mw_targets_of((int)adapted[i].operator_) & gate;
    }
}

/* NULL: of any family. */
static void
add_module(struct named *named, const struct mw_family *of, const char *module)
{
    const struct mw_family *family;

    for (int number = 0; !of && (family = mw_family_at(number)); number++)
        add_of_family(named, family, module);
    if (of)
        add_of_family(named, of, module);
}

static bool
is_text(JsonNode *node)
{
    return JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == G_TYPE_STRING;
}

/* Names, a pattern, or nothing. */
static bool
check_targets(JsonObject *object, const char *origin, GError **error)
{
    JsonNode *node = json_object_get_member(object, "target_modules");
    JsonArray *list = node && JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
    bool good = !node || JSON_NODE_HOLDS_NULL(node) || list || is_text(node);

    for (guint i = 0; list && i < json_array_get_length(list); i++)
        good &= is_text(json_array_get_element(list, i));
    return good || mw_refuse(error,
                             "%s: target_modules: must be a list of names such as [\"q_proj\", "
                             "\"v_proj\"], or \"all-linear\"",
                             origin);
}

/* The operators and matrices that target_modules names; none for a pattern. */
static void
read_targets(JsonObject *object, const struct mw_family *family, struct mw_adapter_config *out)
{
    JsonNode *node = json_object_get_member(object, "target_modules");
    JsonArray *list = node && JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
    const char *text = node && JSON_NODE_HOLDS_VALUE(node) ? json_node_get_string(node) : NULL;
    struct named named = {0};

    for (size_t i = 0; !g_strcmp0(text, "all-linear") && i < G_N_ELEMENTS(adapted); i++) {
        named.operators |= UINT32_C(1) << adapted[i].operator_;
        named.targets |= adapted[i].target;
    }
    for (guint i = 0; list && i < json_array_get_length(list); i++) {
        JsonNode *element = json_array_get_element(list, i);
        if (json_node_get_value_type(element) == G_TYPE_STRING)
            add_module(&named, family, json_node_get_string(element));
    }
    out->adapted = named.operators;
    for (int i = 0; i < MW_OPERATOR_COUNT; i++)
        out->bare |= named.operators >> i & 1 ? mw_targets_of(i) & ~named.targets : 0;
}

static bool
check_numbers(const struct mw_adapter_config *config, const struct mw_decoder *decoder,
              const char *origin, GError **error)
{
    if (config->rank != decoder->lora_rank) {
        g_autofree char *fits = mw_model_adapter_config_text(config);
        return mw_refuse(error,
                         "%s: r: %s%" G_GINT64_FORMAT ": the adapters to train have rank "
                         "%" G_GINT64_FORMAT "; give {train=%s}",
                         origin, config->unranked ? "missing, which PEFT reads as " : "",
                         config->rank, decoder->lora_rank, fits);
    }
    if (fabs(config->alpha - decoder->lora_alpha) <= 1e-12 * config->alpha)
        return true;
    g_autofree char *scaled =
        config->rslora ? g_strdup(" by the square root of the rank (use_rslora)") : g_strdup("");
    return mw_refuse(error,
                     "%s: lora_alpha: %.15g%s: the adapters to train have %.15g; give "
                     "{lora-alpha=%.15g}",
                     origin, config->written_alpha, scaled, decoder->lora_alpha, config->alpha);
}

/* "q_proj, v_proj".  g_free it. */
static char *
modules_text(const struct mw_decoder *decoder)
{
    g_autoptr(GPtrArray) names = target_modules(decoder);

    g_ptr_array_add(names, NULL);
    return g_strjoinv(", ", (char **)names->pdata);
}

/* A pattern names none: then the tensors say it. */
static bool
check_modules(const struct mw_adapter_config *config, const struct mw_decoder *decoder,
              const char *origin, GError **error)
{
    struct mw_decoder file = *decoder;

    if (!config->adapted ||
        (config->adapted == decoder->lora_adapted && config->bare == decoder->lora_bare))
        return true;
    file.lora_adapted = config->adapted;
    file.lora_bare = config->bare;
    g_autofree char *its = modules_text(&file), *asked = modules_text(decoder);
    g_autofree char *fits = mw_model_adapter_config_text(config);
    return mw_refuse(error,
                     "%s: target_modules: the file's adapters are of %s, and those to train of %s; "
                     "give {train=%s}",
                     origin, its, asked, fits);
}

static bool
read_config(const char *path, const struct mw_family *family, struct mw_adapter_config *out,
            GError **error)
{
    static const struct mw_input_kind kind = {
        "the adapter_config.json that PEFT writes beside its adapters", MW_JSON_BYTES_MAX, NULL};
    g_autofree char *text = NULL;
    gsize length;

    *out = (struct mw_adapter_config){0};
    text = mw_input_read(path, &kind, &length, error);
    if (!text)
        return false;
    g_autoptr(JsonNode) root = mw_json_parse(text, (gssize)length, path, error);
    if (!root)
        return false;
    JsonObject *object = json_node_get_object(root);
    if (!check_targets(object, path, error))
        return false;
    read_targets(object, family, out);
    return check_kind(object, path, error) && check_left_out(object, path, error) &&
           check_start(object, path, error) && read_numbers(object, path, out, error);
}

bool
mw_model_read_adapter_config(const char *path, struct mw_adapter_config *out, GError **error)
{
    return read_config(path, NULL, out, error);
}

bool
mw_model_check_adapter_config(const char *path, const struct mw_decoder *decoder, GError **error)
{
    struct mw_adapter_config config;

    return read_config(path, decoder->family, &config, error) &&
           check_numbers(&config, decoder, path, error) &&
           check_modules(&config, decoder, path, error);
}

bool
mw_model_refuse_adapter_config(const char *path, const struct mw_decoder *decoder, GError **error)
{
    struct mw_adapter_config config;

    if (!read_config(path, decoder->family, &config, error))
        return false;
    g_autofree char *fits = mw_model_adapter_config_text(&config);
    return mw_refuse(error, "%s: is of adapters, and none are trained; give {train=%s}", path,
                     fits);
}
