/* The question that a plan answers: into its text, and out of it. */
#include "study/planned.h"

#include <string.h>

#include "base/error.h"
#include "planner/settings/table.h"

#define MODEL "model="
#define STRATEGY "strategy="
#define OUTLOOK "outlook="

static const char *const outlooks[MW_OUTLOOK_COUNT] = {"low", "typical", "high"};

/* --- into a plan ------------------------------------------------------------------------------ */

static void
add(GPtrArray *words, const char *name, const char *text)
{
    g_ptr_array_add(words, g_strconcat(name, text, NULL));
}

static void
add_settings(GPtrArray *words, enum mw_strategy strategy, const struct mw_settings *settings)
{
    add(words, STRATEGY, mw_strategy_name((int)strategy));
    for (size_t i = 0; i < MW_SETTINGS_COUNT; i++) {
        g_autofree char *text = mw_setting_text(&mw_settings_table[i], settings);
        if (text)
            g_ptr_array_add(words, g_strdup_printf("%s=%s", mw_settings_table[i].name, text));
    }
}

/* A line of words; NULL: one of them is several. */
static char *
line_of(GPtrArray *words)
{
    for (guint i = 0; i < words->len; i++)
        if (strpbrk(words->pdata[i], " \t\n\r"))
            return NULL;
    g_ptr_array_add(words, NULL);
    return g_strjoinv(" ", (char **)words->pdata);
}

static bool
is_file(const char *model)
{
    return strchr(model, '/') || g_str_has_suffix(model, ".json");
}

void
mw_planned_sign(const struct mw_question *question, enum mw_strategy strategy,
                const struct mw_settings *chosen, struct mw_plan *plan)
{
    g_autoptr(GPtrArray) asked = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) made = g_ptr_array_new_with_free_func(g_free);
    const char *model = question->model_called ? question->model_called : question->model.name;

    if (is_file(model))
        return;
    add(asked, MODEL, model);
    if (question->outlook != MW_OUTLOOK_TYPICAL)
        add(asked, OUTLOOK, outlooks[question->outlook]);
    add_settings(asked, strategy, &question->settings);
    add_settings(made, chosen->strategy, chosen);
    g_autofree char *of_asked = line_of(asked), *of_made = line_of(made);
    if (!of_asked || !of_made)
        return;
    mw_plan_set_asked(plan, of_asked);
    mw_plan_set_chosen(plan, of_made);
}

/* --- out of a plan ---------------------------------------------------------------------------- */

static char **
words_of(const char *line)
{
    return g_strsplit(line ? line : "", " ", -1);
}

/* What follows the name in the word that begins with it, or NULL. */
static char *
text_after(const char *line, const char *name)
{
    g_auto(GStrv) words = words_of(line);

    for (char **word = words; *word; word++)
        if (g_str_has_prefix(*word, name))
            return g_strdup(*word + strlen(name));
    return NULL;
}

bool
mw_planned_model(const struct mw_plan *plan, struct mw_model *model)
{
    g_autofree char *name = plan->chosen ? text_after(plan->asked, MODEL) : NULL;

    return name && !is_file(name) && mw_model_load(name, model, NULL);
}

enum mw_outlook
mw_planned_outlook(const struct mw_plan *plan)
{
    g_autofree char *name = text_after(plan->asked, OUTLOOK);

    for (int o = 0; name && o < MW_OUTLOOK_COUNT; o++)
        if (!strcmp(name, outlooks[o]))
            return (enum mw_outlook)o;
    return MW_OUTLOOK_TYPICAL;
}

static bool
read_word(char *word, struct mw_settings *settings, GError **error)
{
    char *text = strchr(word, '=');

    if (g_str_has_prefix(word, MODEL) || g_str_has_prefix(word, OUTLOOK))
        return true;
    if (g_str_has_prefix(word, STRATEGY))
        return mw_strategy_parse(word + strlen(STRATEGY), &settings->strategy, error);
    if (!text)
        return mw_refuse(error, "%s: must be NAME=VALUE", word);
    *text++ = '\0';
    const struct mw_setting *setting = mw_setting_find(word);
    if (!setting)
        return mw_refuse(error, "%s: no setting of this name", word);
    return mw_setting_read(setting, text, true, settings, error);
}

bool
mw_planned_read(const char *line, struct mw_settings *settings, GError **error)
{
    g_auto(GStrv) words = words_of(line);
    bool good = true;

    mw_settings_init(settings);
    for (char **word = words; good && *word; word++)
        good = !**word || read_word(*word, settings, error);
    return good;
}
