/* Texts of a profile that mean something. */
#include <string.h>

#include "base/error.h"
#include "profile/internal.h"

bool
mw_profile_is_day(const char *text)
{
    g_autoptr(GDate) day = g_date_new();
    char back[16];

    g_date_set_parse(day, text);
    return g_date_valid(day) && g_date_strftime(back, sizeof back, "%Y-%m-%d", day) &&
           !strcmp(back, text);
}

bool
mw_profile_is_date(const char *text)
{
    static const char *const first[] = {"-01-01", "-01", ""};
    bool good = false;

    for (size_t i = 0; i < G_N_ELEMENTS(first) && !good; i++) {
        g_autofree char *day = g_strconcat(text, first[i], NULL);
        good = mw_profile_is_day(day);
    }
    return good;
}

bool
mw_profile_check_texts(const struct mw_profile *profile, const struct mw_profile_text_rule *rules,
                       size_t count, GError **error)
{
    for (size_t i = 0; i < count; i++) {
        const char *text = mw_profile_value_of(profile, "profile", rules[i].key)->text;
        if (!text || rules[i].is(text))
            continue;
        g_autofree char *shown = g_strescape(text, NULL);
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "%s: [profile] %s = %s: must be %s",
                    profile->origin, rules[i].key, shown, rules[i].must);
        return false;
    }
    return true;
}
