/* The end of a message about an unknown name: the nearest known one, or all of them. */
#include <string.h>

#include "base/nearest.h"
#include "profile/internal.h"

static void
append_name(GString *names, const char *name)
{
    g_string_append_printf(names, "%s%s", names->len ? ", " : "", name);
}

char *
mw_profile_suggest_group(const struct mw_profile_kind *kind, const char *group)
{
    g_autoptr(GString) names = g_string_new(NULL);
    const struct mw_profile_key *keys = kind->keys;

    for (const struct mw_profile_synonym *s = kind->synonyms; s && s->word; s++)
        if (!strcmp(group, s->word))
            return g_strdup_printf("did you mean [%s]?", s->group);
    for (size_t i = 0; i < kind->key_count; i++) {
        if (mw_name_is_near(group, keys[i].group))
            return g_strdup_printf("did you mean [%s]?", keys[i].group);
        if (mw_profile_begins_group(kind, i))
            append_name(names, keys[i].group);
    }
    return g_strdup_printf("known are %s", names->str);
}

static const struct mw_profile_key *
nearest_key(const struct mw_profile_kind *kind, const char *group, const char *key)
{
    const struct mw_profile_key *nearest = NULL;
    int best = 0;
    const struct mw_profile_key *keys = kind->keys;

    for (size_t i = 0; i < kind->key_count; i++) {
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

/* Whether the key has all words of the name, as gradient_sum_type those of sum_type. */
static bool
has_words(const char *key, const char *name)
{
    g_auto(GStrv) of_key = g_strsplit(key, "_", -1), words = g_strsplit(name, "_", -1);

    for (char **word = words; *word; word++)
        if (!g_strv_contains((const char *const *)of_key, *word))
            return false;
    return true;
}

static bool
begins_alike(const char *key, const char *name)
{
    size_t word = strcspn(name, "_");

    return word && name[word] && !strncmp(key, name, word + 1);
}

/* The keys of the group that are like the name, with `or` between them; NULL: none. */
static char *
keys_like(const struct mw_profile_kind *kind, const char *group, const char *name,
          bool (*is_like)(const char *key, const char *name))
{
    GString *names = g_string_new(NULL);

    for (size_t i = 0; i < kind->key_count && *name; i++) {
        const struct mw_profile_key *row = &kind->keys[i];
        bool unit = *row->unit;
        if (!strcmp(group, row->group) && is_like(row->key, name))
            g_string_append_printf(names, "%s%s%s%s%s", names->len ? " or " : "", row->key,
                                   unit ? " (" : "", row->unit, unit ? ")" : "");
    }
    return g_string_free(names, !names->len);
}

char *
mw_profile_suggest_key(const struct mw_profile_kind *kind, const char *group, const char *key)
{
    g_autoptr(GString) names = g_string_new(NULL);
    g_autofree char *like = keys_like(kind, group, key, has_words);
    const struct mw_profile_key *nearest = nearest_key(kind, group, key);
    const struct mw_profile_key *keys = kind->keys;

    if (nearest && mw_name_is_near(key, nearest->key))
        return g_strdup_printf("did you mean [%s] %s%s%s%s?", nearest->group, nearest->key,
                               *nearest->unit ? " (" : "", nearest->unit,
                               *nearest->unit ? ")" : "");
    if (!like)
        like = keys_like(kind, group, key, begins_alike);
    if (like)
        return g_strdup_printf("did you mean [%s] %s?", group, like);
    for (size_t i = 0; i < kind->key_count; i++)
        if (!strcmp(group, keys[i].group))
            append_name(names, keys[i].key);
    return g_strdup_printf("known are %s", names->str);
}

/* "h100x8", where a number of GPUs stands before their name; NULL: it is none such. */
static char *
count_behind(const char *name, char **all)
{
    const char *x = strrchr(name, 'x');

    if (!x || x == name || !x[1] || x[1 + strspn(x + 1, "0123456789")])
        return NULL;
    g_autofree char *machine = g_strndup(name, (gsize)(x - name));
    return g_strv_contains((const char *const *)all, machine)
               ? g_strdup_printf("%sx%s", x + 1, machine)
               : NULL;
}

char *
mw_profile_suggest_profile(const struct mw_profile_kind *kind, const char *name)
{
    g_auto(GStrv) all = mw_profile_list(kind);
    g_autofree char *like = mw_names_like(name, (const char *const *)all, "");

    if (strchr(name, ','))
        return g_strdup_printf("must be one %s: each has an answer, and a command, of its own",
                               kind->noun);
    g_autofree char *turned = count_behind(name, all);
    if (turned)
        return g_strdup_printf("did you mean %s?", turned);
    if (like)
        return g_strdup_printf("did you mean %s? `memwall list %s` lists all", like, kind->folder);
    return g_strdup_printf("`memwall list %s` lists them; or give a path ending in .ini",
                           kind->folder);
}
