/* Completion for fish: one line per option, for all verbs that take it. */
#include <string.h>

#include "cli/reference/form.h"
#include "cli/reference/verb_options.h"

static void
print_quoted(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text; text++) {
        if (strchr("'\\", *text))
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('\'', out);
}

static void
print_values(FILE *out, const struct cli_values *values)
{
    g_autoptr(GString) words = g_string_new(NULL);

    for (guint i = 0; i < values->words->len; i++)
        g_string_append_printf(words, "%s ", (const char *)g_ptr_array_index(values->words, i));
    if (values->names)
        g_string_append_printf(words, "(memwall --names %s) ", values->names);
    if (values->paths == CLI_PATHS_FOLDERS)
        g_string_append(words, "(__fish_complete_directories (commandline -ct))");
    g_strchomp(words->str);
    if (*words->str) {
        fputs(" -a ", out);
        print_quoted(out, words->str);
    }
}

/* The condition that a verb which takes the option is typed.  NULL: this is not the first such
 * verb. */
static char *
condition(const GPtrArray *all, const struct cli_verb_options *verb, const char *title,
          const GOptionEntry *entry)
{
    g_autoptr(GString) verbs = g_string_new("__fish_seen_subcommand_from");
    bool first = true;

    for (guint i = 0; i < all->len; i++) {
        const struct cli_verb_options *each = g_ptr_array_index(all, i);
        if (!cli_verb_takes(each, title, entry))
            continue;
        if (first && each != verb)
            return NULL;
        first = false;
        g_string_append_printf(verbs, " %s", each->verb->name);
    }
    return g_strdup(verbs->str);
}

static void
print_option(FILE *out, const char *when, const GOptionEntry *entry)
{
    g_autofree char *brief = cli_brief_help(entry->description);

    fputs("complete -c memwall -n ", out);
    print_quoted(out, when);
    if (entry->short_name)
        fprintf(out, " -s %c", entry->short_name);
    fprintf(out, " -l %s", entry->long_name);
    if (cli_takes_value(entry)) {
        struct cli_values values = cli_values_of_option(entry);
        bool optional = entry->flags & G_OPTION_FLAG_OPTIONAL_ARG;
        fputs(values.paths == CLI_PATHS_FILES ? " -F" : " -f", out);
        fputs(optional ? "" : " -r", out);
        print_values(out, &values);
        cli_values_clear(&values);
    }
    fputs(" -d ", out);
    print_quoted(out, brief);
    fputc('\n', out);
}

static void
print_options(FILE *out, const GPtrArray *all, const struct cli_verb_options *of_verb)
{
    for (guint g = 0; g < of_verb->groups->len; g++) {
        const struct cli_verb_group *group = g_ptr_array_index(of_verb->groups, g);
        for (guint i = 0; i < group->entries->len; i++) {
            const GOptionEntry *entry = &g_array_index(group->entries, GOptionEntry, i);
            g_autofree char *when = condition(all, of_verb, group->title, entry);
            if (when)
                print_option(out, when, entry);
        }
    }
}

/* The arguments of a verb. */
static void
print_arguments(FILE *out, const struct cli_verb *verb)
{
    struct cli_values values = cli_values_of_arguments(verb);
    g_autoptr(GPtrArray) lists = cli_words_before_name(verb);
    g_autoptr(GString) when = g_string_new("__fish_seen_subcommand_from ");

    g_string_append(when, verb->name);
    if (values.words->len)
        g_string_append(when, "; and not __fish_seen_subcommand_from");
    for (guint i = 0; i < values.words->len; i++)
        g_string_append_printf(when, " %s", (const char *)g_ptr_array_index(values.words, i));
    if (values.words->len || values.names || values.paths) {
        fputs("complete -c memwall -n ", out);
        print_quoted(out, when->str);
        if (values.paths == CLI_PATHS_FILES)
            fputs(" -F", out);
        print_values(out, &values);
        fputc('\n', out);
    }
    for (guint i = 0; i < lists->len; i++) {
        const char *list = g_ptr_array_index(lists, i);
        fprintf(out,
                "complete -c memwall -n '__fish_seen_subcommand_from %s; and "
                "__fish_seen_subcommand_from %s' -a '(memwall --names %s)'\n",
                verb->name, list, list);
    }
    cli_values_clear(&values);
}

void
cli_fish_print(FILE *out, const GPtrArray *all)
{
    fputs("# Completion of memwall for fish; made from the tables of the command by\n"
          "# `memwall --reference fish`.\n"
          "\n"
          "complete -c memwall -f\n",
          out);
    for (guint i = 0; i < all->len; i++) {
        const struct cli_verb_options *each = g_ptr_array_index(all, i);
        fprintf(out, "complete -c memwall -n __fish_use_subcommand -a %s -d ", each->verb->name);
        print_quoted(out, each->verb->summary);
        fputc('\n', out);
    }
    fputs("complete -c memwall -n __fish_use_subcommand -a help -d 'explain a verb'\n"
          "complete -c memwall -n __fish_use_subcommand -l version -d 'print the version'\n\n",
          out);
    for (guint i = 0; i < all->len; i++) {
        const struct cli_verb_options *each = g_ptr_array_index(all, i);
        print_arguments(out, each->verb);
        print_options(out, all, each);
    }
}
