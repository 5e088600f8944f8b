/* A question: texts by name. */
#include "lib/question.h"

#include <string.h>

#include "base/error.h"
#include "base/nearest.h"

const char *const mw_lib_names[] = {
    "model",          "hardware",      "software",         "strategy",
    "outlook",        "deepspeed",     "deepspeed-notes",  "plan",
    "machines",       "prices",        "region",           "pay",
    "max-nodes",      "deadline",      "budget",           "max-power",
    "min-drive-life", "interruptions", "checkpoint-every", "over",
    "budget-of",      "include",       "search",           NULL};

struct memwall_question *
memwall_question_new(void)
{
    struct memwall_question *question = g_new0(struct memwall_question, 1);

    question->texts = g_string_chunk_new(256);
    question->keys = g_ptr_array_new();
    return question;
}

void
memwall_question_free(struct memwall_question *question)
{
    if (!question)
        return;
    g_ptr_array_unref(question->keys);
    mw_loaded_free(question->loaded);
    g_string_chunk_free(question->texts);
    g_free(question);
}

void
memwall_question_listen(struct memwall_question *question, memwall_listener listener, void *data)
{
    question->listener = listener;
    question->data = data;
}

/* --- by name --------------------------------------------------------------------------------- */

/* The place of the text for a name; NULL: there is no such name. */
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
        {"software", &question->software},
        {"strategy", &question->strategy},
        {"outlook", &question->outlook},
        {"deepspeed", &question->deepspeed},
        {"deepspeed-notes", &question->deepspeed_notes},
        {"plan", &question->plan},
        {"machines", &question->machines},
        {"prices", &question->prices},
        {"region", &question->region},
        {"pay", &question->pay},
        {"over", &question->over},
        {"budget-of", &question->budget_of},
        {"include", &question->include},
        {"search", &question->search},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        if (!strcmp(name, others[i].name))
            return others[i].text;
    for (int i = 0; i < MW_LIB_LIMITS; i++)
        if (!strcmp(name, mw_lib_limits[i].name))
            return &question->limits[i];
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

/* A copy that stays until the question is freed: `text` may be one that was handed out. */
static char *
keep_text(struct memwall_question *question, const char *text)
{
    return text ? g_string_chunk_insert_const(question->texts, text) : NULL;
}

static void
set_key(struct memwall_question *question, const char *name, const char *value)
{
    g_autofree char *assignment = value ? g_strdup_printf("%s=%s", name, value) : NULL;
    guint index = key_index(question, name);

    if (index < question->keys->len)
        g_ptr_array_remove_index(question->keys, index);
    if (assignment)
        g_ptr_array_add(question->keys, keep_text(question, assignment));
}

/* A fraction of a sequence may make whole ones with tp, which may be set later. */
static bool
check_setting(const struct memwall_question *question, const struct mw_setting *setting,
              const char *value, GError **error)
{
    struct mw_settings settings;

    mw_settings_init(&settings);
    return mw_setting_read(setting, value, true, &settings, NULL) ||
           mw_setting_read(setting, value, mw_lib_is_sliced(question), &settings, error);
}

static bool
check_switch(const char *name, const char *value, GError **error)
{
    return !strcmp(value, "on") || !strcmp(value, "off") ||
           mw_refuse(error, "%s=%s: must be on or off", name, value);
}

static bool
check_strategies(const char *value, GError **error)
{
    struct mw_question strategies = {.strategy_count = 0};

    return mw_lib_strategies(value, &strategies, error);
}

/* Checks what can be checked of a value alone. */
static bool
check_value(const struct memwall_question *question, const char *name, const char *value,
            GError **error)
{
    const struct mw_setting *setting = mw_setting_find(name);
    int outlook;

    if (is_key(name)) {
        g_autofree char *assignment = g_strdup_printf("%s=%s", name, value);
        const struct mw_profile_kind *kind;
        const char *key = mw_key_of(assignment, &kind);
        return mw_profile_set_check(kind, key, error);
    }
    if (setting)
        return check_setting(question, setting, value, error);
    for (int i = 0; i < MW_LIB_LIMITS; i++) {
        double number;
        if (!strcmp(name, mw_lib_limits[i].name))
            return mw_number_read(&mw_lib_limits[i], value, &number, error);
    }
    if (!strcmp(name, "strategy"))
        return check_strategies(value, error);
    if (!strcmp(name, "pay"))
        return !strcmp(value, "rent") || !strcmp(value, "spot") || !strcmp(value, "buy") ||
               !strcmp(value, "any") ||
               mw_refuse(error, "{pay=%s}: must be rent, spot, buy or any", value);
    if (!strcmp(name, "budget-of"))
        return !strcmp(value, "cash") || !strcmp(value, "share") ||
               mw_refuse(error, "{budget-of=%s}: must be cash or share", value);
    if (!strcmp(name, "search"))
        return !strcmp(value, "machines") || !strcmp(value, "parallel") ||
               mw_refuse(error, "{search=%s}: must be machines or parallel", value);
    if (!strcmp(name, "include"))
        return !strcmp(value, "discontinued") ||
               mw_refuse(error, "{include=%s}: must be discontinued", value);
    if (!strcmp(name, "deepspeed-notes"))
        return check_switch(name, value, error);
    return strcmp(name, "outlook") || mw_lib_outlook(value, &outlook, error);
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
    *text = keep_text(question, value);
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

struct memwall_question *
mw_lib_copy(const struct memwall_question *question)
{
    struct memwall_question *copy = memwall_question_new();
    g_auto(GStrv) names = memwall_names("settings");

    for (char **name = names; *name; name++)
        *text_of(copy, *name) = keep_text(copy, memwall_question_get(question, *name));
    copy->ranks = question->ranks;
    copy->loaded = mw_loaded_new();
    for (guint i = 0; i < question->keys->len; i++)
        g_ptr_array_add(copy->keys, keep_text(copy, question->keys->pdata[i]));
    return copy;
}

char **
mw_lib_texts(const struct memwall_question *question)
{
    g_auto(GStrv) names = memwall_names("settings");
    GPtrArray *texts = g_ptr_array_new();

    for (char **name = names; *name; name++) {
        const char *text = memwall_question_get(question, *name);
        if (text)
            g_ptr_array_add(texts, g_strdup_printf("%s=%s", *name, text));
    }
    for (guint i = 0; i < question->keys->len; i++)
        g_ptr_array_add(texts, g_strdup(question->keys->pdata[i]));
    g_ptr_array_add(texts, NULL);
    return (char **)g_ptr_array_free(texts, FALSE);
}
