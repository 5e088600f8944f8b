#include "study/asked.h"

#include "planner/settings/table.h"

static void
add(GPtrArray *texts, const char *name, const char *text)
{
    g_ptr_array_add(texts, g_strdup_printf("%s=%s", name, text));
}

/* What was set of a profile. */
static void
add_keys(GPtrArray *texts, const struct mw_profile *profile, const struct mw_profile_kind *kind)
{
    g_auto(GStrv) keys = mw_profile_assignments(profile);

    for (char **key = keys; *key; key++)
        g_ptr_array_add(texts, g_strconcat(kind->set_prefix, *key, NULL));
}

static void
add_settings(GPtrArray *texts, const struct mw_settings *settings)
{
    for (size_t i = 0; i < MW_SETTINGS_COUNT; i++) {
        g_autofree char *text = mw_setting_text(&mw_settings_table[i], settings);
        if (text)
            add(texts, mw_settings_table[i].name, text);
    }
}

char **
mw_asked_texts(const struct mw_question *question, const struct mw_settings *settings)
{
    static const char *const outlooks[MW_OUTLOOK_COUNT] = {"low", NULL, "high"};
    GPtrArray *texts = g_ptr_array_new();

    add(texts, "model", question->model_called ? question->model_called : question->model.name);
    add(texts, "hardware",
        question->hardware_called ? question->hardware_called
                                  : mw_machine_called(question->profile));
    if (question->software)
        add(texts, "software", mw_profile_called(question->software));
    add(texts, "strategy", mw_strategy_name((int)settings->strategy));
    if (outlooks[question->outlook])
        add(texts, "outlook", outlooks[question->outlook]);
    add_settings(texts, settings);
    add_keys(texts, question->profile, &mw_hwprofile_kind);
    if (question->software)
        add_keys(texts, question->software, &mw_software_kind);
    g_ptr_array_add(texts, NULL);
    return (char **)g_ptr_array_free(texts, FALSE);
}
