/* The end of a message about an unknown name: the nearest known one, or all of them. */
#include <string.h>

#include "base/nearest.h"
#include "hardware/internal.h"

static void
append_name(GString *names, const char *name)
{
    g_string_append_printf(names, "%s%s", names->len ? ", " : "", name);
}

char *
mw_hw_suggest_group(const char *group)
{
    g_autoptr(GString) names = g_string_new(NULL);
    size_t count;
    const struct mw_hw_key *keys = mw_hw_keys(&count);

    static const char *const of_host[] = {"cpu", "ram", "memory", NULL};
    if (g_strv_contains(of_host, group))
        return g_strdup("did you mean [host]?");
    for (size_t i = 0; i < count; i++) {
        if (mw_name_is_near(group, keys[i].group))
            return g_strdup_printf("did you mean [%s]?", keys[i].group);
        if (!i || strcmp(keys[i].group, keys[i - 1].group))
            append_name(names, keys[i].group);
    }
    return g_strdup_printf("known are %s", names->str);
}

static const struct mw_hw_key *
nearest_key(const char *group, const char *key)
{
    const struct mw_hw_key *nearest = NULL;
    int best = 0;
    size_t count;
    const struct mw_hw_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count; i++) {
        /* A key that exists in another group is nearer than a similar one of this group. */
        int found = mw_name_distance(key, keys[i].key) * 2 + (strcmp(group, keys[i].group) ? 1 : 0);
        if (strcmp(group, keys[i].group) && found > 1)
            continue;
        if (!nearest || found < best) {
            nearest = &keys[i];
            best = found;
        }
    }
    return nearest;
}

/* The keys of the group that are the name and a unit, with `or` between them; NULL: none. */
static char *
keys_with_unit(const char *group, const char *key)
{
    g_autofree char *begin = g_strconcat(key, "_", NULL);
    GString *names = g_string_new(NULL);
    size_t count;
    const struct mw_hw_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count && *key; i++)
        if (!strcmp(group, keys[i].group) && g_str_has_prefix(keys[i].key, begin) && *keys[i].unit)
            g_string_append_printf(names, "%s%s (%s)", names->len ? " or " : "", keys[i].key,
                                   keys[i].unit);
    return g_string_free(names, !names->len);
}

char *
mw_hw_suggest_key(const char *group, const char *key)
{
    g_autoptr(GString) names = g_string_new(NULL);
    g_autofree char *with_unit = keys_with_unit(group, key);
    const struct mw_hw_key *nearest = nearest_key(group, key);
    size_t count;
    const struct mw_hw_key *keys = mw_hw_keys(&count);

    if (nearest && mw_name_is_near(key, nearest->key))
        return g_strdup_printf("did you mean [%s] %s%s%s%s?", nearest->group, nearest->key,
                               *nearest->unit ? " (" : "", nearest->unit,
                               *nearest->unit ? ")" : "");
    if (with_unit)
        return g_strdup_printf("did you mean [%s] %s?", group, with_unit);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(group, keys[i].group))
            append_name(names, keys[i].key);
    return g_strdup_printf("known are %s", names->str);
}

char *
mw_hw_suggest_profile(const char *name)
{
    g_auto(GStrv) all = mw_hwprofile_list();
    g_autofree char *like = mw_names_like(name, (const char *const *)all, "");

    if (strchr(name, ','))
        return g_strdup("must be one machine: each has an answer, and a command, of its own");
    if (like)
        return g_strdup_printf("did you mean %s? `memwall list hwprofiles` lists all", like);
    return g_strdup("`memwall list hwprofiles` lists them; or give a path ending in .ini");
}
