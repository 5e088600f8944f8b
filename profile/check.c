/* Nothing missing; the form of refusals. */
#include <string.h>

#include "base/error.h"
#include "profile/internal.h"

bool
mw_profile_refuse(const struct mw_profile *profile, const char *group, const char *key,
                  const char *rule, GError **error)
{
    const struct mw_profile_value *value = mw_profile_value_of(profile, group, key);
    const struct mw_profile_key *row = mw_profile_key(profile->kind, group, key);
    g_autofree char *text = value->given ? mw_profile_value_text(value, row) : g_strdup("");

    if (mw_profile_value_is_set(value))
        mw_refuse(error, "{key %s%s.%s=%s}: %s", profile->kind->set_prefix, group, key, text, rule);
    else
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "%s: [%s] %s%s%s: %s", profile->origin,
                    group, key, *text ? " = " : "", text, rule);
    return false;
}

bool
mw_profile_refuse_beside(const struct mw_profile *profile, const char *group, const char *key,
                         const char *rule, const char *other, GError **error)
{
    g_autofree char *text = mw_profile_value_numbers(mw_profile_value_of(profile, group, other));
    g_autofree char *whole = g_strdup_printf("%s %s, %s", rule, other, text);

    return mw_profile_refuse(profile, group, key, whole, error);
}

/* "; so are write_gb_per_s, latency_us": what else the group of a key, at `index`, lacks. */
static char *
others_missing(const struct mw_profile *profile, size_t index)
{
    const struct mw_profile_kind *kind = profile->kind;
    GString *text = g_string_new(NULL);

    for (size_t i = index + 1; i < kind->key_count; i++)
        if (kind->keys[i].required && !profile->value[i].given &&
            !strcmp(kind->keys[i].group, kind->keys[index].group))
            g_string_append_printf(text, "%s%s", text->len ? ", " : "", kind->keys[i].key);
    if (text->len)
        g_string_prepend(text, strchr(text->str, ',') ? "; so are " : "; so is ");
    return g_string_free(text, FALSE);
}

/* What a file that inherits nothing could do. */
static const char *
or_inherit(const struct mw_profile *profile)
{
    bool may = mw_profile_key(profile->kind, "profile", "inherits");

    return may && !mw_profile_value_of(profile, "profile", "inherits")->given
               ? "; give it, or inherit from a named profile ([profile] inherits = NAME)"
               : "";
}

static bool
check_required(const struct mw_profile *profile, GError **error)
{
    const struct mw_profile_kind *kind = profile->kind;

    for (size_t i = 0; i < kind->key_count; i++) {
        const struct mw_profile_key *row = &kind->keys[i];

        if (!row->required || profile->value[i].given)
            continue;
        if (kind->needs && !kind->needs(profile, row->group))
            continue;
        g_autofree char *others = others_missing(profile, i);
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "%s: [%s] %s is missing: %s%s%s%s%s%s",
                    profile->origin, row->group, row->key, row->help, *row->unit ? " (" : "",
                    row->unit, *row->unit ? ")" : "", others, or_inherit(profile));
        return false;
    }
    return true;
}

static bool
check_date(const struct mw_profile *profile, GError **error)
{
    static const struct mw_profile_text_rule date = {
        "date", mw_profile_is_date, "a year, a month or a day: YYYY, YYYY-MM or YYYY-MM-DD"};

    return !mw_profile_key(profile->kind, "profile", date.key) ||
           mw_profile_check_texts(profile, &date, 1, error);
}

bool
mw_profile_check(const struct mw_profile *profile, GError **error)
{
    return check_required(profile, error) && check_date(profile, error) &&
           (!profile->kind->check || profile->kind->check(profile, error));
}
