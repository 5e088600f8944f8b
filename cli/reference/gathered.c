#include "cli/reference/gathered.h"

#include <string.h>

static void
free_group(gpointer data)
{
    struct cli_gathered_group *group = data;

    g_array_unref(group->entries);
    g_free(group);
}

static void
free_gathered(gpointer data)
{
    struct cli_gathered *gathered = data;

    g_ptr_array_unref(gathered->groups);
    g_free(gathered);
}

/* Groups and entries are the verb's, until it returns. */
static void
take(const struct cli_words *words, void *data)
{
    struct cli_gathered *gathered = g_new(struct cli_gathered, 1);

    gathered->verb = words->verb;
    gathered->groups = g_ptr_array_new_with_free_func(free_group);
    for (const struct cli_words_group *from = words->groups; from->title; from++) {
        struct cli_gathered_group *group = g_new(struct cli_gathered_group, 1);
        group->title = from->title;
        group->entries = g_array_new(FALSE, FALSE, sizeof(GOptionEntry));
        for (const GOptionEntry *entry = from->entries; entry->long_name; entry++)
            if (!(entry->flags & G_OPTION_FLAG_HIDDEN))
                g_array_append_vals(group->entries, entry, 1);
        if (group->entries->len)
            g_ptr_array_add(gathered->groups, group);
        else
            free_group(group);
    }
    g_ptr_array_add(data, gathered);
}

GPtrArray *
cli_gather(void)
{
    GPtrArray *all = g_ptr_array_new_with_free_func(free_gathered);

    cli_words_divert(take, all);
    for (const struct cli_verb *const *verb = cli_verbs; *verb; verb++) {
        g_autofree char *name = g_strdup((*verb)->name);
        char *words[] = {name, (char[]){"--help"}, NULL};
        (*verb)->run(2, words);
    }
    cli_words_divert(NULL, NULL);
    return all;
}

const struct cli_gathered_group *
cli_gathered_group(const struct cli_gathered *gathered, const char *title)
{
    for (guint i = 0; i < gathered->groups->len; i++) {
        const struct cli_gathered_group *group = g_ptr_array_index(gathered->groups, i);
        if (!strcmp(group->title, title))
            return group;
    }
    return NULL;
}

bool
cli_gathered_takes(const struct cli_gathered *gathered, const char *title,
                   const GOptionEntry *entry)
{
    const struct cli_gathered_group *group = cli_gathered_group(gathered, title);

    for (guint i = 0; group && i < group->entries->len; i++) {
        const GOptionEntry *other = &g_array_index(group->entries, GOptionEntry, i);
        if (!strcmp(other->long_name, entry->long_name) &&
            !strcmp(other->description, entry->description))
            return true;
    }
    return false;
}
