/* Reads the Hugging Face config.json of a decoder. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "base/json.h"
#include "base/nearest.h"
#include "model/described.h"
#include "model/description.h"

static const char *
first_class(const struct mw_config *config)
{
    JsonNode *node = json_object_get_member(config->object, "architectures");

    if (!node || !JSON_NODE_HOLDS_ARRAY(node) || !json_array_get_length(json_node_get_array(node)))
        return NULL;
    JsonNode *first = json_array_get_element(json_node_get_array(node), 0);
    return json_node_get_value_type(first) == G_TYPE_STRING ? json_node_get_string(first) : NULL;
}

/* The list is long: what the name most likely meant, and where it stands. */
static const struct mw_family *
refuse_family(const struct mw_config *config, const char *key, const char *value)
{
    static const char *const other =
        "; of any other, the Python module memwall.describe writes a description";
    g_autoptr(GPtrArray) known = g_ptr_array_new();
    g_autofree char *shown = value ? g_strescape(value, NULL) : NULL;

    for (int i = 0; mw_family_at(i); i++)
        g_ptr_array_add(known, (gpointer)mw_family_at(i)->name);
    g_ptr_array_add(known, NULL);
    g_autofree char *like =
        value ? mw_names_like(value, (const char *const *)known->pdata, "") : NULL;
    if (shown && strlen(shown) > 48)
        shown[48] = '\0';
    if (!shown)
        mw_refuse(config->error, "%s: key \"%s\": missing: must be one of `memwall list types`",
                  config->origin, key);
    else
        mw_refuse(config->error,
                  "%s: key \"%s\": value \"%s\": must be one of `memwall list types`%s%s%s",
                  config->origin, key, shown, like ? ", such as " : "", like ? like : "", other);
    return NULL;
}

static const struct mw_family *
find_family(const struct mw_config *config)
{
    const char *type = NULL, *class_name = first_class(config);

    if (!mw_json_get_string(config->object, "model_type", config->origin, &type, config->error))
        return NULL;
    for (int i = 0; mw_family_at(i); i++) {
        const struct mw_family *family = mw_family_at(i);
        if (type ? !strcmp(type, family->name)
                 : class_name && family->class_prefix &&
                       g_str_has_prefix(class_name, family->class_prefix))
            return family;
    }
    if (type || !class_name)
        return refuse_family(config, "model_type", type);
    return refuse_family(config, "architectures", class_name);
}

static bool
refuse_missing(const struct mw_config *config, const char *key, int dimension)
{
    g_set_error(config->error, MW_ERROR, MW_ERROR_INVALID,
                "%s: key \"%s\": missing: must be a whole number from 1 to %" G_GINT64_FORMAT,
                config->origin, key, mw_dimensions[dimension].max);
    return false;
}

/* Keys that a file can leave out: mw_model_complete has their defaults. */
static bool
may_be_absent(const struct mw_config *config, int dimension)
{
    switch (dimension) {
    case MW_DIMENSION_KV_HEADS:
    case MW_DIMENSION_HEAD_DIM:
    case MW_DIMENSION_VALUE_DIM:
    case MW_DIMENSION_EMBEDDING_DIM:
    case MW_DIMENSION_DENSE_LAYERS:
    case MW_DIMENSION_Q_LORA:
    case MW_DIMENSION_KV_LORA:
    case MW_DIMENSION_ROPE_DIM:
    case MW_DIMENSION_WINDOW:
    case MW_DIMENSION_WINDOW_PERIOD:
        return true;
    case MW_DIMENSION_FFN:
        return config->model->family->traits.derived_ffn;
    default:
        return false;
    }
}

static bool
read_dimension(const struct mw_config *config, const struct mw_dimension_names *names,
               int dimension)
{
    const char *key = names->of[dimension];
    int64_t *value = mw_dimension_in(config->model, dimension);
    int64_t min = dimension == MW_DIMENSION_DENSE_LAYERS ? 0 : 1;

    if (!mw_json_get_int(config->object, key, min, mw_dimensions[dimension].max, config->origin,
                         value, config->error))
        return false;
    if (*value || may_be_absent(config, dimension))
        return true;
    return refuse_missing(config, key, dimension);
}

/* Other names of the same keys, in older files and in Hugging Face's attribute maps. */
static const char *const aliases[][2] = {
    {"n_positions", "n_ctx"},          {"n_layer", "num_hidden_layers"},
    {"n_head", "num_attention_heads"}, {"n_embd", "hidden_size"},
    {"hidden_size", "n_embed"},        {"sliding_window_pattern", "_sliding_window_pattern"},
    {"ffn_dim", "intermediate_size"},
};

bool
mw_config_is_alias(const struct mw_family *family, const char *key)
{
    for (size_t i = 0; i < G_N_ELEMENTS(aliases); i++)
        if (!strcmp(aliases[i][1], key))
            for (const struct mw_family_key *row = family->keys; row && row->name; row++)
                if (!strcmp(row->name, aliases[i][0]))
                    return true;
    return !strcmp(key, "tie_word_embeddings");
}

static bool
present(const struct mw_config *config, const char *key)
{
    JsonNode *node = json_object_get_member(config->object, key);

    return node && !JSON_NODE_HOLDS_NULL(node);
}

static const char *
name_in(const struct mw_family *family, int dimension)
{
    const struct mw_family_key *key = family->keys;

    while (key && key->name && (int)key->meaning != dimension)
        key++;
    return key ? key->name : NULL; /* rows of formulas have no keys */
}

static struct mw_dimension_names
names_in(const struct mw_config *config)
{
    struct mw_dimension_names used;

    for (int i = 0; i < MW_DIMENSION_COUNT; i++) {
        const char *name = name_in(config->model->family, i);
        used.of[i] = name;
        for (size_t j = 0; j < G_N_ELEMENTS(aliases) && name; j++)
            if (!strcmp(name, aliases[j][0]) && !present(config, name) &&
                present(config, aliases[j][1]))
                used.of[i] = aliases[j][1];
    }
    return used;
}

static bool
read_dimensions(const struct mw_config *config, const struct mw_dimension_names *names)
{
    for (int i = 0; i < MW_DIMENSION_COUNT; i++)
        if (names->of[i] && !read_dimension(config, names, i))
            return false;
    return true;
}

static bool
read_tied(const struct mw_config *config)
{
    return mw_json_get_bool(config->object, "tie_word_embeddings", config->origin,
                            &config->model->tied_embedding, config->error);
}

/* Hugging Face's activation functions that read and write every element once.  The walk over the
 * operators counts the same cost for all of them. */
static const char *const activations[] = {"gelu",
                                          "gelu_10",
                                          "gelu_accurate",
                                          "gelu_fast",
                                          "gelu_new",
                                          "gelu_python",
                                          "gelu_pytorch_tanh",
                                          "leaky_relu",
                                          "mish",
                                          "quick_gelu",
                                          "relu",
                                          "relu2",
                                          "relu6",
                                          "sigmoid",
                                          "silu",
                                          "swish",
                                          "tanh",
                                          "xielu"};

static bool
is_activation(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(activations); i++)
        if (!strcmp(name, activations[i]))
            return true;
    return false;
}

static bool
refuse_activation(const struct mw_config *config, const char *key)
{
    g_autofree char *shown = mw_json_text(json_object_get_member(config->object, key));
    g_autoptr(GString) known = g_string_new(NULL);

    for (size_t i = 0; i < G_N_ELEMENTS(activations); i++)
        g_string_append_printf(known, "%s%s", i ? ", " : "", activations[i]);
    g_set_error(config->error, MW_ERROR, MW_ERROR_INVALID,
                "%s: key \"%s\": value %s: must be one of %s", config->origin, key, shown,
                known->str);
    return false;
}

/* The name of the key depends on the family, and Gemma's files have two such keys. */
static bool
check_activation(const struct mw_config *config)
{
    static const char *const keys[] = {"hidden_act", "hidden_activation", "activation_function"};

    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        const char *name = NULL;
        if (!mw_json_get_string(config->object, keys[i], config->origin, &name, config->error))
            return false;
        if (name && !is_activation(name))
            return refuse_activation(config, keys[i]);
    }
    return true;
}

/* A row of keys with meanings. */
static bool
read_by_keys(const struct mw_config *config)
{
    if (!read_tied(config))
        return false;
    struct mw_dimension_names names = names_in(config);
    return check_activation(config) && read_dimensions(config, &names) &&
           mw_config_read_keys(config);
}

static bool
read_row(const struct mw_config *config, const struct mw_formula_scope *scope)
{
    if (!mw_model_begin(config->model, scope->family->name))
        return false;
    if (!scope->family->lets)
        return read_by_keys(config) && mw_description_sort(config, scope);
    return check_activation(config) && mw_description_read(config, scope) &&
           mw_description_add(config, scope);
}

static JsonObject *
member_object(JsonObject *object, const char *key)
{
    JsonNode *node = json_object_get_member(object, key);

    return node && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
}

/* The object with what its class has by default, as files leave that out. */
static JsonObject *
with_defaults(JsonObject *object, const char *defaults)
{
    g_autoptr(JsonNode) node = defaults ? json_from_string(defaults, NULL) : NULL;
    JsonObject *full = node ? json_object_ref(json_node_get_object(node)) : json_object_new();
    g_autoptr(GList) members = object ? json_object_get_members(object) : NULL;

    for (GList *member = members; member; member = member->next)
        json_object_set_member(full, member->data,
                               json_node_copy(json_object_get_member(object, member->data)));
    return full;
}

/* The decoder of a model of several towers, in an object of its own; in older files its keys stand
 * beside those of the towers. */
static bool
read_text(const struct mw_config *config, const struct mw_formula_scope *scope,
          const struct mw_family_tower *tower)
{
    bool flat = !json_object_has_member(config->object, tower->key);
    JsonObject *object = flat ? config->object : member_object(config->object, tower->key);
    struct mw_config text = *config;
    struct mw_formula_scope inner = *scope;

    if (!object) {
        g_set_error(config->error, MW_ERROR, MW_ERROR_INVALID, "%s: key \"%s\": must be an object",
                    config->origin, tower->key);
        return false;
    }
    inner.type = tower->family;
    if (!flat &&
        !mw_json_get_string(object, "model_type", config->origin, &inner.type, config->error))
        return false;
    inner.family = mw_family_find(inner.type);
    if (!inner.family || !inner.family->keys) {
        g_autofree char *shown = g_strescape(inner.type, NULL);
        return mw_refuse(config->error, "%s: key \"%s\": model type %.48s is not supported there",
                         config->origin, tower->key, shown);
    }
    g_autoptr(JsonObject) full = with_defaults(object, flat ? NULL : inner.family->nested);
    inner.object = text.object = full;
    return read_row(&text, &inner) && read_tied(config);
}

static const struct mw_family_tower *
text_of(const struct mw_family *family)
{
    for (const struct mw_family_tower *tower = family->towers; tower && tower->key; tower++)
        if (tower->is_text)
            return tower;
    return NULL;
}

static int64_t
labels_of(const struct mw_config *config)
{
    JsonObject *names = member_object(config->object, "id2label");
    JsonNode *number = json_object_get_member(config->object, "num_labels");

    if (names)
        return json_object_get_size(names);
    return number && json_node_get_value_type(number) == G_TYPE_INT64
               ? CLAMP(json_node_get_int(number), 1, 1 << 26)
               : 2;
}

/* Keys that change what a framework computes and not the parameters that it trains. */
static void
note_keys(const struct mw_config *config)
{
    static const struct {
        const char *key, *note;
    } noted[] = {
        {"num_nextn_predict_layers", "num_nextn_predict_layers is not followed: transformers "
                                     "has no multi-token heads, and none are counted"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(noted); i++) {
        JsonNode *node = json_object_get_member(config->object, noted[i].key);
        if (node && !JSON_NODE_HOLDS_NULL(node) &&
            (JSON_NODE_HOLDS_OBJECT(node) || json_node_get_int(node)))
            mw_model_note(config->model, "%s", noted[i].note);
    }
}

/* Early files have "torch." before a type. */
void
mw_model_set_stored_type(struct mw_model *model, const char *name)
{
    static const struct {
        const char *name;
        enum mw_dtype dtype;
    } types[] = {{"float32", MW_DTYPE_FP32},
                 {"float", MW_DTYPE_FP32},
                 {"bfloat16", MW_DTYPE_BF16},
                 {"float16", MW_DTYPE_FP16},
                 {"half", MW_DTYPE_FP16}};

    if (!name || *model->stored_as || !strcmp(name, "auto"))
        return;
    if (g_str_has_prefix(name, "torch."))
        name += strlen("torch.");
    g_autofree char *shown = g_strescape(name, NULL);
    g_strlcpy(model->stored_as, shown, sizeof model->stored_as);
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++)
        if (!strcmp(name, types[i].name))
            model->stored_dtype = types[i].dtype;
}

/* The type of the weights in the file; transformers 4 calls it torch_dtype. */
static void
read_stored_type(const struct mw_config *config, JsonObject *object)
{
    static const char *const keys[] = {"dtype", "torch_dtype"};
    const char *name = NULL;

    for (size_t i = 0; i < G_N_ELEMENTS(keys) && !name; i++) {
        JsonNode *node = json_object_get_member(object, keys[i]);
        if (node && json_node_get_value_type(node) == G_TYPE_STRING)
            name = json_node_get_string(node);
    }
    mw_model_set_stored_type(config->model, name);
}

/* Of members of a quantization_config, every method has a key of its own for the bits of a weight,
 * and some a flag. */
#define BITS_MAX 64
#define CAP_MAX 1e9
static const char *const bit_keys[] = {"bits", "w_bit", "nbits", "num_bits", "weight_bits"};
static const struct {
    const char *key;
    int64_t bits;
} bit_flags[] = {{"load_in_4bit", 4}, {"load_in_8bit", 8}},
  bit_methods[] = {{"mxfp4", 4}, {"fp8", 8}, {"fbgemm_fp8", 8}, {"bitnet", 2}};

/* Sets what the first of the keys says, which all have to be in order; 0: none says it. */
static bool
read_bits(JsonObject *object, const char *method, const char *origin, int64_t *bits, GError **error)
{
    int64_t flagged = 0, said = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(bit_keys); i++) {
        double value = 0;
        if (!mw_json_get_number(object, bit_keys[i], 1, BITS_MAX, origin, &value, error))
            return false;
        /* the mean of several widths, as ExLlamaV2 has them, is none that is known here */
        said = said || value != floor(value) ? said : (int64_t)value;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(bit_flags); i++) {
        bool flag = false;
        if (!mw_json_get_bool(object, bit_flags[i].key, origin, &flag, error))
            return false;
        flagged = flagged || !flag ? flagged : bit_flags[i].bits;
    }
    said = said ? said : flagged;
    for (size_t i = 0; i < G_N_ELEMENTS(bit_methods); i++)
        if (!said && !strcmp(method, bit_methods[i].key))
            said = bit_methods[i].bits;
    *bits = said;
    return true;
}

static bool
refuse_quantization(const struct mw_config *config, const char *key)
{
    g_autofree char *shown = mw_json_text(json_object_get_member(config->object, key));

    return mw_refuse(config->error,
                     "%s: key \"%s\": value %s: must be an object with the method and its bits, "
                     "such as {\"quant_method\": \"gptq\", \"bits\": 4}, or null",
                     config->origin, key, shown);
}

static bool
read_quantization(const struct mw_config *config)
{
    static const char key[] = "quantization_config";
    JsonObject *object = member_object(config->object, key);
    struct mw_model *model = config->model;
    const char *method = "";

    if (!present(config, key))
        return true;
    if (!object)
        return refuse_quantization(config, key);
    g_autofree char *origin = g_strdup_printf("%s: \"%s\"", config->origin, key);
    if (!mw_json_get_string(object, "quant_method", origin, &method, config->error) ||
        !read_bits(object, method, origin, &model->quantized_bits, config->error))
        return false;
    g_autofree char *shown = g_strescape(method, NULL);
    g_strlcpy(model->quantized_by, shown, sizeof model->quantized_by);
    model->quantized = true;
    return true;
}

/* Soft caps; null is none, and without a key what the class of the family has. */
static bool
read_caps(const struct mw_config *config, JsonObject *object)
{
    struct mw_model *model = config->model;
    const struct {
        const char *key;
        bool *capped;
    } caps[] = {{"final_logit_softcapping", &model->capped_logits},
                {"logits_soft_cap", &model->capped_logits},
                {"attn_logit_softcapping", &model->capped_scores}};

    for (size_t i = 0; object && i < G_N_ELEMENTS(caps); i++) {
        double cap = 0;
        if (!mw_json_get_number(object, caps[i].key, 0, CAP_MAX, config->origin, &cap,
                                config->error))
            return false;
        if (json_object_has_member(object, caps[i].key))
            *caps[i].capped = cap > 0;
    }
    return true;
}

static bool
read_model(struct mw_config *config)
{
    const struct mw_family *row = find_family(config);

    if (!row)
        return false;
    const struct mw_family *family = mw_family_find(row->name);
    const struct mw_family_tower *text = text_of(family);
    struct mw_model *model = config->model;
    g_autoptr(GHashTable) lists = mw_formula_lists();
    struct mw_formula_scope scope = {.object = config->object,
                                     .lists = lists,
                                     .family = family,
                                     .type = row->name,
                                     .task = mw_task_of(family, first_class(config)),
                                     .origin = config->origin};
    if (text) {
        if (!read_text(config, &scope, text) || !mw_description_read(config, &scope) ||
            !mw_description_add(config, &scope))
            return false;
    } else if (!read_row(config, &scope)) {
        return false;
    }
    mw_task_set_logits(model, scope.task, labels_of(config));
    note_keys(config);
    mw_config_note_unread(config, family);
    if (!read_quantization(config) || !read_caps(config, config->object) ||
        (text && !read_caps(config, member_object(config->object, text->key))))
        return false;
    read_stored_type(config, config->object);
    if (text && member_object(config->object, text->key))
        read_stored_type(config, member_object(config->object, text->key));
    struct mw_dimension_names names = names_in(config);
    return mw_description_mix(config) &&
           mw_model_complete(model, &names, config->origin, config->error);
}

/* gpt3-175b/config.json and gpt3-175b.json both name the model gpt3-175b. */
static void
name_after(struct mw_model *model, const char *origin)
{
    g_autofree char *base = g_path_get_basename(origin);
    g_autofree char *folder = g_path_get_dirname(origin);
    g_autofree char *parent = g_path_get_basename(folder);

    if (strcmp(base, "config.json") == 0 && g_ascii_isalnum(*parent)) {
        mw_model_set_name(model, parent);
        return;
    }
    if (g_str_has_suffix(base, ".json"))
        base[strlen(base) - strlen(".json")] = '\0';
    mw_model_set_name(model, base);
}

/* The word in quotes before `at`, which may be the key of what stands there; g_free it. */
static char *
key_before(const char *text, gsize at)
{
    gsize end = at;

    while (end && text[end - 1] != '"')
        end--;
    gsize begin = end ? end - 1 : 0;
    while (begin && text[begin - 1] != '"')
        begin--;
    g_autofree char *key = g_strndup(text + begin, end && begin < end ? end - 1 - begin : 0);
    return g_strescape(key, NULL);
}

bool
mw_model_parse_config(const char *text, gssize length, const char *origin, struct mw_model *model,
                      GError **error)
{
    gsize bytes = length < 0 ? strlen(text) : (gsize)length;
    const char *nan;
    /* Mamba's limit of time steps is infinite; no number that is read can be. */
    g_autofree char *finite = mw_json_from_python(text, bytes, &nan);
    if (nan) {
        g_autofree char *key = key_before(text, (gsize)(nan - text));
        return mw_refuse(error, "%s: key \"%.48s\": value NaN: must be a number", origin, key);
    }
    g_autoptr(JsonNode) root = mw_json_parse(finite, (gssize)bytes, origin, error);
    struct mw_model read = {0};

    if (!root)
        return false;
    if (json_object_has_member(json_node_get_object(root), "schema")) {
        if (!mw_described_read(json_node_get_object(root), origin, &read, error))
            return false;
        name_after(&read, origin);
        mw_model_find_decoder(&read, NULL, origin);
        *model = read;
        return true;
    }
    struct mw_config config = {json_node_get_object(root), origin, &read, error};
    if (!read_model(&config) || !mw_model_check_losses(&read, config.object, origin, error))
        return false;
    name_after(&read, origin);
    mw_model_find_decoder(&read, json_node_get_object(root), origin);
    *model = read;
    return true;
}

char *
mw_model_read_config(const char *path, char **file, gsize *length, GError **error)
{
    static const struct mw_input_kind kind = {
        "a model's config.json, or a name that `memwall list models` has", MW_JSON_BYTES_MAX, NULL};

    bool folder = g_file_test(path, G_FILE_TEST_IS_DIR);

    *file = folder ? g_build_filename(path, "config.json", NULL) : g_strdup(path);
    if (folder && !g_file_test(*file, G_FILE_TEST_EXISTS)) {
        mw_refuse(error, "%s: holds no config.json: must be %s", path, kind.wanted);
        return NULL;
    }
    return mw_input_read(*file, &kind, length, error);
}

bool
mw_model_load_config(const char *path, struct mw_model *model, GError **error)
{
    g_autofree char *file = NULL;
    gsize length = 0;
    g_autofree char *text = mw_model_read_config(path, &file, &length, error);

    return text && mw_model_parse_config(text, (gssize)length, file, model, error);
}
