/* Completion for zsh, by its _arguments. */
#include <string.h>

#include "cli/reference/form.h"
#include "cli/reference/verb_options.h"

static const char head[] =
    "#compdef memwall\n"
    "# Completion of memwall for zsh; made from the tables of the command by\n"
    "# `memwall --reference zsh`.\n"
    "\n"
    "_memwall_names() {\n"
    "    local -a names\n"
    "    names=(${(f)\"$(_call_program names memwall --names $1)\"})\n"
    "    local -a end\n"
    "    [[ $names[1] == *= ]] && end=(-S '') # a value follows\n"
    "    compadd \"$end[@]\" -a names\n"
    "}\n"
    "\n"
    "_memwall_several_names() {\n"
    "    compset -P '*,'\n"
    "    _memwall_names $1\n"
    "}\n"
    "\n"
    "_memwall() {\n"
    "    local curcontext=$curcontext state line\n"
    "    typeset -A opt_args\n"
    "    local -a verbs\n"
    "    verbs=(\n";

/* Prints it within single quotes; `special` characters get a backslash. */
static void
print_quoted(FILE *out, const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\'", out);
        else if (strchr(special, *text))
            fputc('\\', out);
        fputc(*text, out);
    }
}

static bool
offers(const struct cli_values *values)
{
    return values->words->len || values->names || values->paths;
}

/* Prints all values that can be offered, or nothing. */
static void
print_action(FILE *out, const struct cli_values *values)
{
    fputs(offers(values) ? "{" : " ", out);
    if (values->words->len)
        fputs("compadd --", out);
    for (guint i = 0; i < values->words->len; i++)
        fprintf(out, " %s", (const char *)g_ptr_array_index(values->words, i));
    if (values->names)
        fprintf(out, "%s_memwall_%snames %s", values->words->len ? "; " : "",
                values->several ? "several_" : "", values->names);
    if (values->paths)
        fprintf(out, "%s_files%s", values->words->len || values->names ? "; " : "",
                values->paths == CLI_PATHS_FOLDERS ? " -/" : "");
    fputs(offers(values) ? "}" : "", out);
}

static void
print_names(FILE *out, const GOptionEntry *entry)
{
    bool repeats =
        entry->arg == G_OPTION_ARG_STRING_ARRAY || entry->arg == G_OPTION_ARG_FILENAME_ARRAY;
    bool optional = entry->flags & G_OPTION_FLAG_OPTIONAL_ARG, value = cli_takes_value(entry);
    const char *equals = !value ? "" : optional ? "=-" : "=";

    if (entry->short_name)
        fprintf(out, "'(-%c --%s)'{-%c%s,--%s%s}'", entry->short_name, entry->long_name,
                entry->short_name, value ? "+" : "", entry->long_name, equals);
    else
        fprintf(out, "'%s--%s%s", repeats ? "*" : "", entry->long_name, equals);
}

static void
print_option(FILE *out, const GOptionEntry *entry)
{
    g_autofree char *brief = cli_brief_help(entry->description);

    fputs(" \\\n            ", out);
    print_names(out, entry);
    fputc('[', out);
    print_quoted(out, brief, "[]\\");
    fputc(']', out);
    if (cli_takes_value(entry)) {
        struct cli_values values = cli_values_of_option(entry);
        fprintf(out, "%s%s:", entry->flags & G_OPTION_FLAG_OPTIONAL_ARG ? "::" : ":",
                entry->arg_description);
        print_action(out, &values);
        cli_values_clear(&values);
    }
    fputc('\'', out);
}

static void
print_verb(FILE *out, const struct cli_verb_options *of_verb)
{
    g_autoptr(GPtrArray) lists = cli_words_before_name(of_verb->verb);
    struct cli_values arguments = cli_values_of_arguments(of_verb->verb);

    fprintf(out, "    %s)\n        _arguments -s", of_verb->verb->name);
    for (guint g = 0; g < of_verb->groups->len; g++) {
        const struct cli_verb_group *group = g_ptr_array_index(of_verb->groups, g);
        for (guint i = 0; i < group->entries->len; i++)
            print_option(out, &g_array_index(group->entries, GOptionEntry, i));
    }
    if (offers(&arguments)) { /* an empty action would hide the options */
        fprintf(out, " \\\n            '%s:argument:", lists->len ? "1" : "*");
        print_action(out, &arguments);
        fputc('\'', out);
    }
    if (lists->len)
        fputs(" \\\n            '2:name:{_memwall_names ${(M)line[1]:#(", out);
    for (guint i = 0; i < lists->len; i++)
        fprintf(out, "%s%s", i ? "|" : "", (const char *)g_ptr_array_index(lists, i));
    fputs(lists->len ? ")}}'\n        ;;\n" : "\n        ;;\n", out);
    cli_values_clear(&arguments);
}

void
cli_zsh_print(FILE *out, const GPtrArray *all)
{
    fputs(head, out);
    for (guint i = 0; i < all->len; i++) {
        const struct cli_verb_options *each = g_ptr_array_index(all, i);
        fprintf(out, "        '%s:", each->verb->name);
        print_quoted(out, each->verb->summary, ":\\");
        fputs("'\n", out);
    }
    fputs("        'help:explain a verb'\n"
          "    )\n"
          "    if ((CURRENT == 2)); then\n"
          "        _describe -t verbs verb verbs\n"
          "        return\n"
          "    fi\n"
          "    shift words\n"
          "    ((CURRENT--))\n"
          "    case $words[1] in\n"
          "    help) _describe -t verbs verb verbs ;;\n",
          out);
    for (guint i = 0; i < all->len; i++)
        print_verb(out, g_ptr_array_index(all, i));
    fputs("    esac\n"
          "}\n"
          "\n"
          "_memwall \"$@\"\n",
          out);
}
