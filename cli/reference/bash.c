/* Completion of bash: a case for each option that takes a value, one for each verb, and a function
 * that needs nothing but bash. */
#include <string.h>

#include "cli/reference/form.h"
#include "cli/reference/verb_options.h"

static const char head[] =
    "# Completion of memwall for bash; made from the tables of the command by\n"
    "# `memwall --reference bash`.\n"
    "\n"
    "_memwall()\n"
    "{\n"
    "    local verb=${COMP_WORDS[1]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]}\n"
    "    local options= words= names= paths= several= before= word\n"
    "    COMPREPLY=()\n"
    "    # --option=value is three words where = breaks words, as it does by default.\n"
    "    if [[ $cur == = ]]; then\n"
    "        cur=\n"
    "    elif [[ $prev == = ]]; then\n"
    "        prev=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    elif [[ $cur == --*=* ]]; then\n"
    "        prev=${cur%%=*} before=${cur%%=*}= cur=${cur#*=}\n"
    "    fi\n"
    "    ((COMP_CWORD > 1)) || verb=\n"
    "    case $verb:$prev in\n";

static const char tail[] =
    "    esac\n"
    "    [[ $cur == -* ]] && words=$options names= paths=\n"
    "    [[ $several && $cur == *,* ]] && before+=${cur%,*}, cur=${cur##*,}\n"
    "    if [[ $names ]]; then\n"
    "        words+=$'\\n'$(\"${COMP_WORDS[0]}\" --names \"$names\" 2>/dev/null)\n"
    "    fi\n"
    "    while IFS= read -r word; do\n"
    "        [[ $word && $word == \"$cur\"* ]] && COMPREPLY+=(\"$before$word\")\n"
    "    done <<<\"$words\"\n"
    "    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null # a value follows\n"
    "    if [[ $paths ]]; then\n"
    "        while IFS= read -r word; do\n"
    "            COMPREPLY+=(\"$before$word\")\n"
    "        done < <(compgen \"$paths\" -- \"$cur\")\n"
    "        compopt -o filenames 2>/dev/null # not there where a script calls this\n"
    "    fi\n"
    "}\n"
    "\n"
    "complete -F _memwall memwall\n";

/* Prints one word per line, quoted as $'...'. */
static void
print_words(FILE *out, const char *variable, const GPtrArray *words)
{
    fprintf(out, " %s=$'", variable);
    for (guint i = 0; i < words->len; i++)
        fprintf(out, "%s%s", i ? "\\n" : "", (const char *)g_ptr_array_index(words, i));
    fputc('\'', out);
}

static void
print_values(FILE *out, const struct cli_values *values)
{
    if (values->words->len)
        print_words(out, "words", values->words);
    if (values->names)
        fprintf(out, " names=%s", values->names);
    if (values->paths)
        fprintf(out, " paths=%s", values->paths == CLI_PATHS_FOLDERS ? "-d" : "-f");
    if (values->several)
        fputs(" several=1", out);
}

static void
print_option(FILE *out, const char *verb, const GOptionEntry *entry)
{
    struct cli_values values = cli_values_of_option(entry);

    fprintf(out, "    %s:--%s", verb, entry->long_name);
    if (entry->short_name)
        fprintf(out, " | %s:-%c", verb, entry->short_name);
    fputc(')', out);
    print_values(out, &values);
    fputs(" ;;\n", out);
    cli_values_clear(&values);
}

static void
add_options(GPtrArray *options, const GArray *entries)
{
    for (guint i = 0; i < entries->len; i++) {
        const GOptionEntry *entry = &g_array_index(entries, GOptionEntry, i);
        g_ptr_array_add(options, g_strdup_printf("--%s", entry->long_name));
        if (entry->short_name)
            g_ptr_array_add(options, g_strdup_printf("-%c", entry->short_name));
    }
}

static void
print_verb(FILE *out, const struct cli_verb_options *of_verb)
{
    const char *name = of_verb->verb->name;
    g_autoptr(GPtrArray) options = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) lists = cli_words_before_name(of_verb->verb);
    struct cli_values arguments = cli_values_of_arguments(of_verb->verb);

    for (guint g = 0; g < of_verb->groups->len; g++) {
        const struct cli_verb_group *group = g_ptr_array_index(of_verb->groups, g);
        add_options(options, group->entries);
        for (guint i = 0; i < group->entries->len; i++) {
            const GOptionEntry *entry = &g_array_index(group->entries, GOptionEntry, i);
            if (cli_takes_value(entry))
                print_option(out, name, entry);
        }
    }
    for (guint i = 0; i < lists->len; i++)
        fprintf(out, "    %s:%s) names=%s ;;\n", name, (const char *)g_ptr_array_index(lists, i),
                (const char *)g_ptr_array_index(lists, i));
    fprintf(out, "    %s:*)", name);
    print_words(out, "options", options);
    print_values(out, &arguments);
    fputs(" ;;\n", out);
    cli_values_clear(&arguments);
}

void
cli_bash_print(FILE *out, const GPtrArray *all)
{
    g_autoptr(GPtrArray) verbs = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < all->len; i++) {
        const struct cli_verb_options *each = g_ptr_array_index(all, i);
        g_ptr_array_add(verbs, g_strdup(each->verb->name));
    }
    g_ptr_array_add(verbs, g_strdup("help"));
    fputs(head, out);
    for (guint i = 0; i < all->len; i++)
        print_verb(out, g_ptr_array_index(all, i));
    fputs("    help:*)", out);
    print_words(out, "words", verbs);
    fputs(" ;;\n    :*)", out);
    print_words(out, "words", verbs);
    fputs(" options=$'--help\\n--version' ;;\n", out);
    fputs(tail, out);
}
