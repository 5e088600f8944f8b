/* The page of the whole command, in any form: options that several verbs take are printed once. */
#include <string.h>

#include "cli/reference/form.h"
#include "cli/reference/verb_options.h"
#include "cli/reference/reference.h"

/* --- text ------------------------------------------------------------------------------------ */

/* Length of an option at the beginning of `text`; 0: there is none. */
static size_t
option_length(const char *text)
{
    size_t dashes = strspn(text, "-");
    size_t word = strspn(text + dashes, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                        "0123456789-");

    if ((dashes == 1 && word == 1 && g_ascii_isalpha(text[1])) ||
        (dashes == 2 && g_ascii_isalpha(text[2])))
        return dashes + word;
    return 0;
}

static void
append(GString *to, const char *text, size_t length, void (*escape)(GString *to, char c))
{
    for (size_t i = 0; i < length; i++)
        if (escape)
            escape(to, text[i]);
        else
            g_string_append_c(to, text[i]);
}

char *
cli_form_text(const char *text, const char *open, const char *close,
              void (*escape)(GString *to, char c))
{
    GString *to = g_string_new(NULL);

    for (const char *at = text; *at;) {
        const char *end = *at == '`' ? strchr(at + 1, '`') : NULL;
        bool begins = at == text || strchr(" (", at[-1]);
        size_t option = begins ? option_length(at) : 0, length = option ? option : 1;

        if (end || option)
            g_string_append(to, open);
        if (end)
            append(to, at + 1, (size_t)(end - at - 1), escape);
        else
            append(to, at, length, escape);
        if (end || option)
            g_string_append(to, close);
        at = end ? end + 1 : at + length;
    }
    return g_string_free(to, FALSE);
}

/* Prints the text as a sentence. */
void
cli_page_sentence(FILE *out, const struct cli_form *form, const char *text)
{
    g_autofree char *sentence = g_strdup_printf("%c%s.", g_ascii_toupper(*text), text + 1);

    form->paragraph(out, sentence);
}

void
cli_page_facts(FILE *out, const struct cli_form *form, const char *title,
               const struct cli_fact *facts)
{
    form->section(out, title);
    form->list(out);
    for (; facts->name; facts++)
        form->item(out, facts->name, facts->text);
}

/* --- options --------------------------------------------------------------------------------- */

/* The verbs that take `entry`, or that have a group of this title if `entry` is NULL. */
static GPtrArray *
find_takers(const GPtrArray *all, const char *title, const GOptionEntry *entry)
{
    GPtrArray *takers = g_ptr_array_new();

    for (guint i = 0; i < all->len; i++) {
        const struct cli_verb_options *each = g_ptr_array_index(all, i);
        if (entry ? cli_verb_takes(each, title, entry) : !!cli_verb_group(each, title))
            g_ptr_array_add(takers, g_ptr_array_index(all, i));
    }
    return takers;
}

static bool
is_shared(const GPtrArray *all, const char *title)
{
    g_autoptr(GPtrArray) takers = find_takers(all, title, NULL);

    return strcmp(title, CLI_WORDS_OWN) && takers->len > 1;
}

static char *
names_of(const GPtrArray *takers)
{
    GString *names = g_string_new(NULL);

    for (guint i = 0; i < takers->len; i++) {
        const struct cli_verb_options *taker = g_ptr_array_index(takers, i);
        g_string_append_printf(names, "%s%s", i ? ", " : "", taker->verb->name);
    }
    return g_string_free(names, FALSE);
}

/* Whether no earlier verb takes it: an earlier one has printed it. */
static bool
is_first_to_take(const GPtrArray *takers, const struct cli_verb_options *verb)
{
    return g_ptr_array_index(takers, 0) == verb;
}

static void
print_shared_options(FILE *out, const struct cli_form *form, const GPtrArray *all,
                     const struct cli_verb_options *verb, const char *title, guint verbs)
{
    const struct cli_verb_group *group = cli_verb_group(verb, title);

    for (guint i = 0; i < group->entries->len; i++) {
        const GOptionEntry *entry = &g_array_index(group->entries, GOptionEntry, i);
        g_autoptr(GPtrArray) takers = find_takers(all, title, entry);
        g_autofree char *names = names_of(takers);
        g_autofree char *text = takers->len < verbs
                                    ? g_strdup_printf("%s [%s]", entry->description, names)
                                    : g_strdup(entry->description);
        if (is_first_to_take(takers, verb))
            form->option(out, entry, text);
    }
}

static void
print_shared_group(FILE *out, const struct cli_form *form, const GPtrArray *all, const char *title)
{
    g_autoptr(GPtrArray) takers = find_takers(all, title, NULL);
    g_autofree char *names = names_of(takers);
    g_autofree char *of = g_strdup_printf("Verbs: %s.", names);

    form->subsection(out, title);
    form->paragraph(out, of);
    form->list(out);
    for (guint i = 0; i < takers->len; i++)
        print_shared_options(out, form, all, g_ptr_array_index(takers, i), title, takers->len);
}

static void
print_shared_groups(FILE *out, const struct cli_form *form, const GPtrArray *all)
{
    form->section(out, "Options of several verbs");
    form->paragraph(out, "Brackets name the verbs that take an option where not all verbs of its "
                         "group do.");
    for (guint v = 0; v < all->len; v++) {
        const struct cli_verb_options *verb = g_ptr_array_index(all, v);
        for (guint i = 0; i < verb->groups->len; i++) {
            const struct cli_verb_group *group = g_ptr_array_index(verb->groups, i);
            g_autoptr(GPtrArray) takers = find_takers(all, group->title, NULL);
            if (is_shared(all, group->title) && is_first_to_take(takers, verb))
                print_shared_group(out, form, all, group->title);
        }
    }
}

/* --- verbs ----------------------------------------------------------------------------------- */

char *
cli_page_usage(const struct cli_verb *verb)
{
    return g_strdup_printf("memwall %s %s%s[OPTION...]", verb->name, verb->arguments,
                           *verb->arguments ? " " : "");
}

void
cli_page_group(FILE *out, const struct cli_form *form, const struct cli_verb_group *group)
{
    form->list(out);
    for (guint i = 0; i < group->entries->len; i++) {
        const GOptionEntry *entry = &g_array_index(group->entries, GOptionEntry, i);
        form->option(out, entry, entry->description);
    }
}

static void
print_groups(FILE *out, const struct cli_form *form, const GPtrArray *all,
             const struct cli_verb_options *verb)
{
    g_autoptr(GString) shared = g_string_new(NULL);

    for (guint i = 0; i < verb->groups->len; i++) {
        const struct cli_verb_group *group = g_ptr_array_index(verb->groups, i);
        if (is_shared(all, group->title)) {
            g_string_append_printf(shared, "%s\"%s\"", shared->len ? ", " : "", group->title);
            continue;
        }
        g_autofree char *title = g_strdup_printf("%s:", group->title);
        form->paragraph(out, title);
        cli_page_group(out, form, group);
    }
    if (shared->len) {
        g_autofree char *text = g_strdup_printf("Options of several verbs: %s.", shared->str);
        form->paragraph(out, text);
    }
}

static void
print_verb(FILE *out, const struct cli_form *form, const GPtrArray *all,
           const struct cli_verb_options *of_verb)
{
    const struct cli_verb *verb = of_verb->verb;
    g_autofree char *usage = cli_page_usage(verb);
    g_auto(GStrv) details = g_strsplit(verb->details ? verb->details : "", "\n", -1);

    form->subsection(out, verb->name);
    form->commands(out, usage);
    cli_page_sentence(out, form, verb->summary);
    for (char **line = details; *line; line++)
        form->paragraph(out, *line);
    print_groups(out, form, all, of_verb);
    form->paragraph(out, strchr(verb->examples, '\n') ? "Examples:" : "Example:");
    form->commands(out, verb->examples);
}

void
cli_page_print(FILE *out, const struct cli_form *form, const GPtrArray *all)
{
    form->begin(out, NULL);
    form->section(out, "Synopsis");
    form->commands(out, CLI_PAGE_SYNOPSIS);
    form->section(out, "Description");
    cli_page_sentence(out, form, CLI_PURPOSE);
    form->section(out, "Verbs");
    for (guint i = 0; i < all->len; i++)
        print_verb(out, form, all, g_ptr_array_index(all, i));
    print_shared_groups(out, form, all);
    cli_page_facts(out, form, "Exit status", cli_exit_statuses);
    cli_page_facts(out, form, "Environment", cli_environment);
    cli_page_facts(out, form, "Files", cli_files);
}
