/* Rows of a key table, and the values that stand for them. */
#include <string.h>

#include "profile/internal.h"

int
mw_profile_find_key(const struct mw_profile_kind *kind, const char *group, const char *key)
{
    /* Groups have many rows and few keys begin alike: most rows take no call. */
    for (size_t i = 0; i < kind->key_count; i++)
        if (kind->keys[i].key[0] == key[0] && !strcmp(kind->keys[i].key, key) &&
            !strcmp(kind->keys[i].group, group))
            return (int)i;
    return -1;
}

const struct mw_profile_key *
mw_profile_key(const struct mw_profile_kind *kind, const char *group, const char *key)
{
    int row = mw_profile_find_key(kind, group, key);

    return row < 0 ? NULL : &kind->keys[row];
}

bool
mw_profile_begins_group(const struct mw_profile_kind *kind, size_t key)
{
    for (size_t i = 0; i < key; i++)
        if (!strcmp(kind->keys[i].group, kind->keys[key].group))
            return false;
    return true;
}

bool
mw_profile_has_group(const struct mw_profile_kind *kind, const char *group)
{
    for (size_t i = 0; i < kind->key_count; i++)
        if (!strcmp(kind->keys[i].group, group))
            return true;
    return false;
}

const struct mw_profile_value *
mw_profile_value_of(const struct mw_profile *profile, const char *group, const char *key)
{
    return &profile->value[mw_profile_find_key(profile->kind, group, key)];
}

double
mw_profile_typical(const struct mw_profile *profile, const char *group, const char *key)
{
    const struct mw_profile_value *value = mw_profile_value_of(profile, group, key);

    return value->number[value->count == 3];
}

bool
mw_profile_gives_group(const struct mw_profile *profile, const char *group)
{
    for (size_t i = 0; i < profile->kind->key_count; i++)
        if (profile->value[i].given && !strcmp(profile->kind->keys[i].group, group))
            return true;
    return false;
}

char *
mw_profile_required(const struct mw_profile_kind *kind, const char *group)
{
    GString *text = g_string_new(NULL);

    for (size_t i = 0; i < kind->key_count; i++)
        if (kind->keys[i].required && !strcmp(kind->keys[i].group, group))
            g_string_append_printf(text, "%s%s.%s", text->len ? " and " : "", group,
                                   kind->keys[i].key);
    return g_string_free(text, FALSE);
}

size_t
mw_profile_key_count(const struct mw_profile *profile)
{
    return profile->kind->key_count;
}
