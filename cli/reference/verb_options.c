#include "cli/reference/verb_options.h"

#include <string.h>

static void
free_group(gpointer data)
{
    struct cli_verb_group *group = data;

    g_array_unref(group->entries);
    g_free(group);
}

static void
free_options(gpointer data)
{
    struct cli_verb_options *of_verb = data;

    g_ptr_array_unref(of_verb->groups);
    g_free(of_verb);
}

/* Groups and entries belong to the verb until it returns. */
static void
take(const struct cli_words *words, void *data)
{
    struct cli_verb_options *of_verb = g_new(struct cli_verb_options, 1);

    of_verb->verb = words->verb;
    of_verb->groups = g_ptr_array_new_with_free_func(free_group);
    for (const struct cli_words_group *from = words->groups; from->title; from++) {
        struct cli_verb_group *group = g_new(struct cli_verb_group, 1);
        group->title = from->title;
        group->entries = g_array_new(FALSE, FALSE, sizeof(GOptionEntry));
        for (const GOptionEntry *entry = from->entries; entry->long_name; entry++)
            if (!(entry->flags & G_OPTION_FLAG_HIDDEN))
                g_array_append_vals(group->entries, entry, 1);
        if (group->entries->len)
            g_ptr_array_add(of_verb->groups, group);
        else
            free_group(group);
    }
    g_ptr_array_add(data, of_verb);
}

GPtrArray *
cli_verbs_with_options(void)
{
    GPtrArray *all = g_ptr_array_new_with_free_func(free_options);

    cli_words_divert(take, all);
    for (const struct cli_verb *const *verb = cli_verbs; *verb; verb++) {
        g_autofree char *name = g_strdup((*verb)->name);
        char *words[] = {name, (char[]){"--help"}, NULL};
        (*verb)->run(2, words);
    }
    cli_words_divert(NULL, NULL);
    return all;
}

const struct cli_verb_group *
cli_verb_group(const struct cli_verb_options *of_verb, const char *title)
{
    for (guint i = 0; i < of_verb->groups->len; i++) {
        const struct cli_verb_group *group = g_ptr_array_index(of_verb->groups, i);
        if (!strcmp(group->title, title))
            return group;
    }
    return NULL;
}

bool
cli_verb_takes(const struct cli_verb_options *of_verb, const char *title,
                   const GOptionEntry *entry)
{
    const struct cli_verb_group *group = cli_verb_group(of_verb, title);

    for (guint i = 0; group && i < group->entries->len; i++) {
        const GOptionEntry *other = &g_array_index(group->entries, GOptionEntry, i);
        if (!strcmp(other->long_name, entry->long_name) &&
            !strcmp(other->description, entry->description))
            return true;
    }
    return false;
}
