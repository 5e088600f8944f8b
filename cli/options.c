#include "cli/options.h"

#include <string.h>

#include "cli/question.h"
#include "planner/settings/table.h"

static char *option_texts[MW_SETTINGS_COUNT];
static bool option_found[MW_SETTINGS_COUNT]; /* chosen by the plan of a resumed run */

bool
cli_options_is_given(const char *name)
{
    return cli_options_text(name) != NULL;
}

const char *
cli_options_text(const char *name)
{
    for (size_t i = 0; i < MW_SETTINGS_COUNT; i++)
        if (!strcmp(mw_settings_table[i].name, name))
            return option_texts[i];
    return NULL;
}

/* The entry lives as long as the process. */
static GOptionEntry
entry_of(size_t i, const char *const *hidden)
{
    const struct mw_setting *setting = &mw_settings_table[i];
    g_autofree char *help = mw_setting_help(setting);

    return (GOptionEntry){setting->name,
                          0,
                          g_strv_contains(hidden, setting->name) ? G_OPTION_FLAG_HIDDEN : 0,
                          G_OPTION_ARG_STRING,
                          &option_texts[i],
                          g_intern_string(help),
                          setting->argument};
}

const struct cli_words_group *
cli_options_groups(const char *const *hidden)
{
    static GOptionEntry entries[MW_SETTINGS_COUNT + MW_SETTINGS_GROUPS];
    static struct cli_words_group groups[MW_SETTINGS_GROUPS + 1];
    size_t count = 0;

    for (int group = 0; group < MW_SETTINGS_GROUPS; group++) {
        groups[group] = (struct cli_words_group){mw_settings_group_titles[group], &entries[count]};
        for (size_t i = 0; i < MW_SETTINGS_COUNT; i++) {
            if ((int)mw_settings_table[i].group != group)
                continue;
            g_clear_pointer(&option_texts[i], g_free);
            entries[count++] = entry_of(i, hidden);
        }
        entries[count++] = (GOptionEntry)G_OPTION_ENTRY_NULL;
    }
    return groups;
}

bool
cli_options_ask(struct memwall_question *question, GError **error)
{
    const char *tp = option_texts[mw_setting_find("tp") - mw_settings_table];
    /* The range of the batch depends on it. */
    bool good = !tp || cli_question_set(question, "tp", tp, error);

    for (size_t i = 0; good && i < MW_SETTINGS_COUNT; i++)
        good = !option_texts[i] ||
               cli_question_set(question, mw_settings_table[i].name, option_texts[i], error);
    return good;
}

const char *
cli_options_given(void)
{
    for (size_t i = 0; i < MW_SETTINGS_COUNT; i++)
        if (option_texts[i])
            return mw_settings_table[i].name;
    return NULL;
}

void
cli_options_each(void (*put)(void *data, const char *name, const char *text), void *data)
{
    for (size_t i = 0; i < MW_SETTINGS_COUNT; i++)
        if (option_texts[i] && !option_found[i])
            put(data, mw_settings_table[i].name, option_texts[i]);
}

bool
cli_options_take(const char *name, const char *text, bool found)
{
    for (size_t i = 0; i < MW_SETTINGS_COUNT; i++)
        if (!option_texts[i] && !strcmp(mw_settings_table[i].name, name)) {
            option_texts[i] = g_strdup(text);
            option_found[i] = found;
            return true;
        }
    return false;
}
