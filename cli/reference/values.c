/* The values that completion offers, read from the help: lower case and digits are typed as they
 * are, upper case stands for something. */
#include <string.h>

#include "cli/reference/verb_options.h"
#include "lib/launch.h"

/* What an upper-case word stands for, if completion can offer values for it. */
static const struct placeholder {
    const char *word, *names, *words[4];
    char *(*list)(void); /* "A|B"; what is in brackets stays open */
    enum cli_paths_kind paths;
    bool several;
} placeholders[] = {
    {.word = "MODEL", .names = "models", .paths = CLI_PATHS_FILES},
    {.word = "HW", .names = "hwprofiles", .paths = CLI_PATHS_FILES},
    {.word = "SOFTWARE", .names = "software", .paths = CLI_PATHS_FILES},
    {.word = "STRATEGY", .names = "strategies", .several = true},
    {.word = "RUN", .names = "runs", .paths = CLI_PATHS_FOLDERS},
    {.word = "SECTION.KEY=VALUE", .names = "keys"},
    {.word = "WHERE", .words = {"gpu", "cpu", "nvme"}},
    {.word = "FILE", .paths = CLI_PATHS_FILES},
    {.word = "PATH", .paths = CLI_PATHS_FILES},
    {.word = "PLANFILE", .paths = CLI_PATHS_FILES},
    {.word = "RUNFILE", .paths = CLI_PATHS_FILES},
    {.word = "CURRENT", .paths = CLI_PATHS_FILES},
    {.word = "TARGET", .list = mw_launch_names},
    {.word = "PICK", .words = {"cheapest", "fastest", "least-risk"}},
    {.word = "DIR", .paths = CLI_PATHS_FOLDERS},
    {.word = "FOLDER", .paths = CLI_PATHS_FOLDERS},
};

static void
take_list(struct cli_values *values, const char *list)
{
    g_auto(GStrv) words = g_strsplit(list, "|", -1);

    for (char **word = words; *word; word++)
        g_ptr_array_add(values->words, g_strndup(*word, strcspn(*word, "[")));
}

static void
take_word(struct cli_values *values, const char *word)
{
    const struct placeholder *row = NULL;

    for (size_t i = 0; i < G_N_ELEMENTS(placeholders); i++)
        if (!strcmp(placeholders[i].word, word))
            row = &placeholders[i];
    if (!row) {
        if (!g_ascii_isupper(*word))
            g_ptr_array_add(values->words, g_strdup(word));
        return;
    }
    g_autofree char *list = row->list ? row->list() : NULL;
    if (list)
        take_list(values, list);
    for (const char *const *known = row->words; *known; known++)
        g_ptr_array_add(values->words, g_strdup(*known));
    values->names = row->names ? row->names : values->names;
    values->paths = row->paths ? row->paths : values->paths;
    values->several = values->several || row->several;
}

bool
cli_takes_value(const GOptionEntry *entry)
{
    return entry->arg_description != NULL;
}

struct cli_values
cli_values_of_option(const GOptionEntry *entry)
{
    struct cli_values values = {.words = g_ptr_array_new_with_free_func(g_free)};
    g_auto(GStrv) words = g_strsplit(entry->arg_description, "|", -1);

    for (char **word = words; *word; word++)
        take_word(&values, *word);
    return values;
}

/* The words in "models [NAME] | runs"; without those of options and those after them. */
static char **
argument_words(const struct cli_verb *verb)
{
    g_auto(GStrv) words = g_strsplit_set(verb->arguments, " |[]", -1);
    GPtrArray *kept = g_ptr_array_new();
    bool of_option = false;

    for (char **word = words; *word; word++) {
        size_t length = g_str_has_suffix(*word, "...") ? strlen(*word) - 3 : strlen(*word);
        if (!length)
            continue;
        if (**word != '-' && !of_option)
            g_ptr_array_add(kept, g_strndup(*word, length));
        of_option = **word == '-';
    }
    g_ptr_array_add(kept, NULL);
    return (char **)g_ptr_array_free(kept, FALSE);
}

struct cli_values
cli_values_of_arguments(const struct cli_verb *verb)
{
    struct cli_values values = {.words = g_ptr_array_new_with_free_func(g_free)};
    g_auto(GStrv) words = argument_words(verb);

    for (char **word = words; *word; word++)
        take_word(&values, *word);
    return values;
}

GPtrArray *
cli_words_before_name(const struct cli_verb *verb)
{
    GPtrArray *before = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) words = argument_words(verb);

    for (char **word = words; *word; word++)
        if (!strcmp(*word, "NAME") && word > words)
            g_ptr_array_add(before, g_strdup(word[-1]));
    return before;
}

void
cli_values_clear(struct cli_values *values)
{
    g_ptr_array_unref(values->words);
}

char *
cli_brief_help(const char *help)
{
    GString *brief = g_string_new(NULL);
    int depth = 0;

    for (const char *at = help; *at && !(depth == 0 && strchr(";.", *at) && at[1] == ' '); at++) {
        if (g_str_has_prefix(at, " ("))
            depth++;
        if (depth == 0)
            g_string_append_c(brief, *at);
        if (*at == ')' && depth > 0)
            depth--;
    }
    return g_string_free(brief, FALSE);
}
