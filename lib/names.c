/* What there is, by name. */
#include <string.h>

#include "config.h"
#include "lib/question.h"

const char *
memwall_version(void)
{
    return MW_VERSION;
}

static char **
strategies(void)
{
    char **names = g_new0(char *, MW_STRATEGY_COUNT + 1);

    for (int i = 0; i < MW_STRATEGY_COUNT; i++)
        names[i] = g_strdup(mw_strategy_name(i));
    return names;
}

static char **
settings(void)
{
    GPtrArray *names = g_ptr_array_new();

    for (int i = 0; mw_lib_names[i]; i++)
        g_ptr_array_add(names, g_strdup(mw_lib_names[i]));
    for (int i = 0; i < MW_SETTINGS_COUNT; i++)
        g_ptr_array_add(names, g_strdup(mw_settings_table[i].name));
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(names, FALSE);
}

static char **
keys(void)
{
    GPtrArray *names = g_ptr_array_new();
    static const struct mw_profile_kind *const kinds[] = {&mw_hwprofile_kind, &mw_software_kind};

    for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++)
        for (size_t i = 0; i < kinds[k]->key_count; i++) {
            const struct mw_profile_key *row = &kinds[k]->keys[i];
            if (strcmp(row->group, "profile"))
                g_ptr_array_add(
                    names, g_strdup_printf("%s%s.%s", kinds[k]->set_prefix, row->group, row->key));
        }
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(names, FALSE);
}

static char **
software(void)
{
    return mw_profile_list(&mw_software_kind);
}

char **
memwall_names(const char *what)
{
    static const struct {
        const char *what;
        char **(*names)(void);
    } lists[] = {
        {"models", mw_model_list},  {"hardware", mw_hwprofile_list}, {"software", software},
        {"strategies", strategies}, {"settings", settings},          {"keys", keys},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(lists); i++)
        if (!strcmp(what, lists[i].what))
            return lists[i].names();
    return NULL;
}

void
memwall_names_free(char **names)
{
    g_strfreev(names);
}
