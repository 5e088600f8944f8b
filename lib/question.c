/* A question: texts by name, and what they come to. */
#include "lib/question.h"

#include <string.h>

#include "base/error.h"
#include "base/homedir.h"
#include "base/nearest.h"

static const char *const outlook_names[MW_OUTLOOK_COUNT] = {"low", "typical", "high"};

struct memwall_question *
memwall_question_new(void)
{
    struct memwall_question *question = g_new0(struct memwall_question, 1);

    question->keys = g_ptr_array_new_with_free_func(g_free);
    return question;
}

void
memwall_question_free(struct memwall_question *question)
{
    if (!question)
        return;
    g_free(question->model);
    g_free(question->hardware);
    g_free(question->strategy);
    g_free(question->outlook);
    for (int i = 0; i < MW_SETTINGS_COUNT; i++)
        g_free(question->settings[i]);
    g_ptr_array_unref(question->keys);
    g_free(question);
}

void
memwall_question_listen(struct memwall_question *question, memwall_listener listener, void *data)
{
    question->listener = listener;
    question->data = data;
}

/* --- by name --------------------------------------------------------------------------------- */

/* Where the text of a name is kept; NULL: none of this name. */
static char **
text_of(struct memwall_question *question, const char *name)
{
    const struct mw_setting *setting = mw_setting_find(name);
    const struct {
        const char *name;
        char **text;
    } others[] = {
        {"model", &question->model},
        {"hardware", &question->hardware},
        {"strategy", &question->strategy},
        {"outlook", &question->outlook},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        if (!strcmp(name, others[i].name))
            return others[i].text;
    return setting ? &question->settings[setting - mw_settings_table] : NULL;
}

static bool
is_key(const char *name)
{
    return strchr(name, '.') != NULL;
}

/* Index of "name=...", or the number of keys. */
static guint
key_index(const struct memwall_question *question, const char *name)
{
    size_t length = strlen(name);
    guint i = 0;

    for (; i < question->keys->len; i++) {
        const char *key = question->keys->pdata[i];
        if (!strncmp(key, name, length) && key[length] == '=')
            break;
    }
    return i;
}

static void
set_key(struct memwall_question *question, const char *name, const char *value)
{
    guint index = key_index(question, name);

    if (index < question->keys->len)
        g_ptr_array_remove_index(question->keys, index);
    if (value)
        g_ptr_array_add(question->keys, g_strdup_printf("%s=%s", name, value));
}

static bool
parse_outlook(const char *text, int *outlook, GError **error)
{
    for (*outlook = 0; *outlook < MW_OUTLOOK_COUNT; ++*outlook)
        if (!strcmp(text, outlook_names[*outlook]))
            return true;
    return mw_refuse(error, "{outlook=%s}: must be low, typical or high", text);
}

static bool
is_sliced(const struct memwall_question *question)
{
    return question->settings[mw_setting_find("tp") - mw_settings_table] != NULL;
}

/* A part of a sequence may come to whole ones with tp, which may be set later. */
static bool
check_setting(const struct memwall_question *question, const struct mw_setting *setting,
              const char *value, GError **error)
{
    struct mw_settings settings;

    mw_settings_init(&settings);
    return mw_setting_read(setting, value, true, &settings, NULL) ||
           mw_setting_read(setting, value, is_sliced(question), &settings, error);
}

/* What can be said of a value alone. */
static bool
check_value(const struct memwall_question *question, const char *name, const char *value,
            GError **error)
{
    const struct mw_setting *setting = mw_setting_find(name);
    enum mw_strategy strategy;
    int outlook;

    if (is_key(name)) {
        g_autofree char *assignment = g_strdup_printf("%s=%s", name, value);
        return mw_hwprofile_set_check(assignment, error);
    }
    if (setting)
        return check_setting(question, setting, value, error);
    if (!strcmp(name, "strategy"))
        return mw_strategy_parse(value, &strategy, error);
    return strcmp(name, "outlook") || parse_outlook(value, &outlook, error);
}

static bool
refuse_name(const char *name, GError **error)
{
    g_auto(GStrv) names = memwall_names("settings");
    g_autofree char *like = mw_names_like(name, (const char *const *)names, "");

    return mw_refuse(error, "%s: no setting of this name%s%s%s", name,
                     like ? "; did you mean " : "", like ? like : "", like ? "?" : "");
}

bool
memwall_question_set(struct memwall_question *question, const char *name, const char *value,
                     struct memwall_error **error)
{
    char **text = text_of(question, name);
    GError *failed = NULL;

    if ((!text && !is_key(name)) ? !refuse_name(name, &failed)
                                 : value && !check_value(question, name, value, &failed))
        return mw_lib_fail(failed, text || is_key(name) ? name : NULL, error);
    if (!text) {
        set_key(question, name, value);
        return true;
    }
    g_free(*text);
    *text = g_strdup(value);
    return true;
}

const char *
memwall_question_get(const struct memwall_question *question, const char *name)
{
    char **text = text_of((struct memwall_question *)question, name);
    guint index = key_index(question, name);

    if (text)
        return *text;
    return index < question->keys->len
               ? (const char *)question->keys->pdata[index] + strlen(name) + 1
               : NULL;
}

/* --- what it comes to ------------------------------------------------------------------------ */

/* This machine's, which the command measures and the library does not. */
static struct mw_hwprofile *
load_here(GError **error)
{
    g_autofree char *config = mw_homedir_path(MW_HOMEDIR_CONFIG);
    g_autofree char *path = g_build_filename(config, "hwprofiles", "here.ini", NULL);

    if (g_file_test(path, G_FILE_TEST_EXISTS))
        return mw_hwprofile_load(path, error);
    mw_refuse(error,
              "{hardware=here}: this machine was not measured (there is no %s): "
              "`memwall calibrate` does that, or name another profile",
              path);
    return NULL;
}

bool
mw_lib_profile(const struct memwall_question *question, struct mw_question *out, GError **error)
{
    bool here = !question->hardware || !strcmp(question->hardware, "here");
    int only = -1;

    if (question->outlook && !parse_outlook(question->outlook, &only, error))
        return false;
    out->profile = here ? load_here(error) : mw_hwprofile_load(question->hardware, error);
    if (!out->profile)
        return false;
    for (guint i = 0; i < question->keys->len; i++)
        if (!mw_hwprofile_set(out->profile, question->keys->pdata[i], error))
            return false;
    out->modified = question->keys->len > 0;
    if (!mw_hwprofile_check(out->profile, error))
        return false;
    for (int outlook = 0; outlook < MW_OUTLOOK_COUNT; outlook++)
        out->hardware[outlook] = mw_hwprofile_read(out->profile, only < 0 ? outlook : only);
    out->outlook = only < 0 ? MW_OUTLOOK_TYPICAL : (enum mw_outlook)only;
    return true;
}

bool
mw_lib_settings(const struct memwall_question *question, struct mw_settings *settings,
                GError **error)
{
    bool sliced = is_sliced(question);

    for (int i = 0; i < MW_SETTINGS_COUNT; i++)
        if (question->settings[i] &&
            !mw_setting_read(&mw_settings_table[i], question->settings[i], sliced, settings, error))
            return false;
    return true;
}

bool
mw_lib_read(const struct memwall_question *question, struct mw_question *out, const char **blamed,
            GError **error)
{
    *out = (struct mw_question){.strategy_count = 1, .ends = true};
    *blamed = "model";
    if (!question->model)
        return mw_refuse(error, "{model}: is missing; give the name of a preset or the path of a "
                                "config.json");
    if (!mw_model_load(question->model, &out->model, error))
        return false;
    *blamed = "hardware";
    if (!mw_lib_profile(question, out, error))
        return false;
    *blamed = "strategy";
    mw_settings_init(&out->settings);
    if (question->strategy &&
        !mw_strategy_parse(question->strategy, &out->settings.strategy, error))
        return false;
    *blamed = NULL;
    out->strategies[0] = out->settings.strategy;
    return mw_lib_settings(question, &out->settings, error);
}

void
mw_lib_clear(struct mw_question *question)
{
    mw_hwprofile_free(question->profile);
    mw_deepspeed_said_clear(&question->deepspeed);
    question->profile = NULL;
}
