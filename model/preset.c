/* Reads models/presets.ini: one section per preset, with keys named like the fields of struct
 * mw_model. */
#include <string.h>

#include "base/datadir.h"
#include "base/error.h"
#include "base/nearest.h"
#include "model/internal.h"

#define FLAG(field)                                                                                \
    {                                                                                              \
#field, offsetof(struct mw_model, field)                                                   \
    }

static const struct {
    const char *name;
    size_t offset;
} flags[] = {
    FLAG(tied_embedding), FLAG(attention_bias), FLAG(projection_bias), FLAG(mlp_bias),
    FLAG(norm_bias),      FLAG(qk_norm),        FLAG(final_norm),      FLAG(embedding_norm),
    FLAG(logits_bias),    FLAG(dropout),        FLAG(router_bias),     FLAG(paper_preset),
    FLAG(capped_logits),  FLAG(capped_scores),
};

static GKeyFile *
open_presets(char **path, GError **error)
{
    g_autoptr(GKeyFile) file = g_key_file_new();
    g_autoptr(GError) cause = NULL;

    *path = mw_datadir_find("models", "presets.ini");
    if (!*path) {
        g_set_error(error, MW_ERROR, MW_ERROR_IO,
                    "models/presets.ini: not found: MEMWALL_DATA must name the data folder");
        return NULL;
    }
    if (!g_key_file_load_from_file(file, *path, G_KEY_FILE_NONE, &cause)) {
        bool parse = cause->domain == G_KEY_FILE_ERROR;
        g_set_error(error, MW_ERROR, parse ? MW_ERROR_FORMAT : MW_ERROR_IO, "%s: %s", *path,
                    cause->message);
        return NULL;
    }
    return g_steal_pointer(&file);
}

static bool
read_flag(struct mw_model *model, const char *key, const char *value, const char *origin,
          GError **error, bool *found)
{
    for (size_t i = 0; i < G_N_ELEMENTS(flags); i++) {
        if (strcmp(flags[i].name, key))
            continue;
        *found = true;
        bool yes = !strcmp(value, "true");
        if (!yes && strcmp(value, "false")) {
            g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                        "%s: key \"%s\": value %s: must be true or false", origin, key, value);
            return false;
        }
        *(bool *)((char *)model + flags[i].offset) = yes;
    }
    return true;
}

static bool
read_dimension(struct mw_model *model, const char *key, const char *value, const char *origin,
               GError **error, bool *found)
{
    for (int i = 0; i < MW_DIMENSION_COUNT; i++) {
        const struct mw_dimension_info *info = &mw_dimensions[i];
        if (strcmp(info->name, key))
            continue;
        gint64 number;
        *found = true;
        if (!g_ascii_string_to_signed(value, 10, info->min, info->max, &number, NULL)) {
            g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                        "%s: key \"%s\": value %s: must be a whole number from %" G_GINT64_FORMAT
                        " to %" G_GINT64_FORMAT,
                        origin, key, value, info->min, info->max);
            return false;
        }
        *mw_dimension_in(model, i) = number;
    }
    return true;
}

static bool
read_key(GKeyFile *file, const char *name, const char *key, const char *origin,
         struct mw_model *model, GError **error)
{
    g_autofree char *value = g_key_file_get_value(file, name, key, NULL);
    bool found = !strcmp(key, "architecture") || !strcmp(key, "source") || !strcmp(key, "note");

    if (value)
        g_strstrip(value);
    if (!value || !read_flag(model, key, value, origin, error, &found) ||
        !read_dimension(model, key, value, origin, error, &found))
        return false;
    if (!found)
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "%s: key \"%s\": unknown: must be a dimension or a property of a model", origin,
                    key);
    return found;
}

static bool
read_section(GKeyFile *file, const char *name, const char *origin, struct mw_model *model,
             GError **error)
{
    g_autofree char *architecture = g_key_file_get_value(file, name, "architecture", NULL);
    g_auto(GStrv) keys = g_key_file_get_keys(file, name, NULL, NULL);

    if (!architecture || !mw_model_begin(model, architecture)) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "%s: key \"architecture\": value %s: must be one that config.json files name, "
                    "such as gpt2 or llama",
                    origin, architecture ? architecture : "missing");
        return false;
    }
    for (char **key = keys; *key; key++)
        if (!read_key(file, name, *key, origin, model, error))
            return false;
    return mw_model_complete(model, &mw_preset_names, origin, error);
}

static bool
refuse_name(GKeyFile *file, const char *asked, GError **error)
{
    g_auto(GStrv) names = g_key_file_get_groups(file, NULL);
    g_autofree char *like = mw_names_like(asked, (const char *const *)names, "");
    g_autofree char *shown = g_strescape(asked, NULL);

    if (strlen(shown) > 64)
        shown[64] = '\0';
    if (*asked && g_file_test(asked, G_FILE_TEST_EXISTS))
        return mw_refuse(error, "model \"%s\": no such preset; for what is here, ./%s", shown,
                         shown);
    return mw_refuse(error,
                     "model \"%s\": no such preset%s%s%s `memwall list models` lists all; or give "
                     "a path to a config.json",
                     shown, like ? "; did you mean " : ";", like ? like : "", like ? "?" : "");
}

bool
mw_model_load_preset(const char *name, struct mw_model *model, GError **error)
{
    g_autofree char *path = NULL;
    g_autoptr(GKeyFile) file = open_presets(&path, error);
    g_autofree char *lower = g_ascii_strdown(name, -1);
    struct mw_model read;

    if (!file)
        return false;
    if (!g_key_file_has_group(file, lower))
        return refuse_name(file, name, error);
    g_autofree char *origin = g_strdup_printf("%s: [%s]", path, lower);
    if (!read_section(file, lower, origin, &read, error))
        return false;
    mw_model_set_name(&read, lower);
    mw_model_find_decoder(&read, NULL, origin);
    *model = read;
    return true;
}

/* Whether it is ORGANIZATION/MODEL, as model hubs name models, and no folder has that name. */
static bool
is_hub_name(const char *name)
{
    const char *slash = strchr(name, '/');

    return slash && slash > name && slash[1] && !strchr(slash + 1, '/') && *name != '.' &&
           *name != '~' && !g_str_has_suffix(name, ".json") &&
           !g_file_test(name, G_FILE_TEST_EXISTS);
}

static bool
refuse_hub_name(const char *asked, GError **error)
{
    g_autofree char *path = NULL;
    g_autofree char *lower = g_ascii_strdown(strchr(asked, '/') + 1, -1);
    g_autoptr(GKeyFile) file = open_presets(&path, NULL);
    g_auto(GStrv) names = file ? g_key_file_get_groups(file, NULL) : g_new0(char *, 1);
    bool same = g_strv_contains((const char *const *)names, lower);
    g_autofree char *like =
        same ? g_strdup(lower) : mw_names_like(lower, (const char *const *)names, "");

    return mw_refuse(error,
                     "model %s: no such folder, and nothing is downloaded: give the folder or "
                     "config.json of the model, or a preset%s%s",
                     asked, like ? ": " : " of `memwall list models`", like ? like : "");
}

/* --- dimensions ------------------------------------------------------------------------------ */

/* GPT-2's block; what is not given is as in GPT-3: an MLP of 4 * hidden, a head for every 128 of
 * hidden, its vocabulary, 2048 positions. */
static bool
complete_dimensions(struct mw_model *model, const char *origin, GError **error)
{
    if (!model->heads && model->hidden)
        model->heads = model->hidden % 128 ? 1 : model->hidden / 128;
    if (!model->vocab)
        model->vocab = 50257;
    if (!model->seq)
        model->seq = 2048;
    return mw_model_complete(model, &mw_preset_names, origin, error);
}

static bool
read_assignment(const char *assignment, const char *origin, struct mw_model *model, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(assignment, "=", 2);
    bool found = false;

    if (!parts[0] || !parts[1])
        return mw_refuse(error, "%s: %s: must be KEY=VALUE", origin, assignment);
    g_strstrip(parts[0]);
    g_strstrip(parts[1]);
    if (!strcmp(parts[0], "architecture"))
        return true;
    if (!read_flag(model, parts[0], parts[1], origin, error, &found) ||
        !read_dimension(model, parts[0], parts[1], origin, error, &found))
        return false;
    return found ||
           mw_refuse(error,
                     "%s: key \"%s\": unknown: must be a dimension such as layers, hidden, "
                     "heads, kv_heads, ffn, vocab or seq, a property, or architecture",
                     origin, parts[0]);
}

static const char *
architecture_in(char **assignments)
{
    for (; *assignments; assignments++)
        if (g_str_has_prefix(*assignments, "architecture="))
            return *assignments + strlen("architecture=");
    return "gpt2";
}

/* "layers=96,hidden=12288,heads=96", of GPT-2's block or that of an `architecture`. */
static bool
load_dimensions(const char *text, struct mw_model *model, GError **error)
{
    g_auto(GStrv) assignments = g_strsplit(text, ",", -1);
    const char *architecture = architecture_in(assignments);
    g_autofree char *shown = g_strescape(text, NULL);
    g_autofree char *origin = g_strdup_printf("model %.64s", shown);
    struct mw_model read;

    if (!mw_model_begin(&read, architecture))
        return mw_refuse(error,
                         "%s: key \"architecture\": must be a type that config.json files name, "
                         "such as gpt2 or llama",
                         origin);
    for (char **assignment = assignments; *assignment; assignment++)
        if (!read_assignment(*assignment, origin, &read, error))
            return false;
    if (!complete_dimensions(&read, origin, error))
        return false;
    mw_model_set_name(&read, text);
    mw_model_find_decoder(&read, NULL, origin);
    *model = read;
    return true;
}

bool
mw_model_load(const char *name_or_path, struct mw_model *model, GError **error)
{
    if (strchr(name_or_path, '=') && !g_file_test(name_or_path, G_FILE_TEST_EXISTS))
        return load_dimensions(name_or_path, model, error);
    if (is_hub_name(name_or_path))
        return refuse_hub_name(name_or_path, error);
    if (strchr(name_or_path, '/') || g_str_has_suffix(name_or_path, ".json"))
        return mw_model_load_config(name_or_path, model, error);
    return mw_model_load_preset(name_or_path, model, error);
}

char **
mw_model_list(void)
{
    g_autofree char *path = NULL;
    g_autoptr(GKeyFile) file = open_presets(&path, NULL);

    return file ? g_key_file_get_groups(file, NULL) : g_new0(char *, 1);
}
