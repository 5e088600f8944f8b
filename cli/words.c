#include "cli/words.h"

#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/cli.h"
#include "report/wrap.h"

#define COLUMNS 80
#define HELP_COLUMN 30 /* where an option's help begins */

/* --- parsing --------------------------------------------------------------------------------- */

static GOptionContext *
new_context(const struct cli_words *words)
{
    GOptionContext *context = g_option_context_new(NULL);
    GOptionGroup *main_group = g_option_group_new(words->verb->name, "", "", words->data, NULL);

    for (const struct cli_words_group *group = words->groups; group->title; group++)
        g_option_group_add_entries(main_group, group->entries);
    g_option_context_set_main_group(context, main_group);
    g_option_context_set_help_enabled(context, FALSE);
    return context;
}

/* GLib's message names the option; argv has it as it was typed. */
static char *
options_like(const struct cli_words *words, const char *message, char **argv)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();

    for (const struct cli_words_group *group = words->groups; group->title; group++)
        for (const GOptionEntry *entry = group->entries; entry->long_name; entry++)
            g_ptr_array_add(names, (gpointer)(uintptr_t)entry->long_name);
    g_ptr_array_add(names, NULL);
    for (char **word = argv; *word; word++) {
        g_autofree char *name = g_strndup(*word, strcspn(*word, "="));
        if (g_str_has_prefix(name, "--") && g_str_has_suffix(message, *word))
            return mw_names_like(name + 2, (const char *const *)names->pdata, "--");
    }
    return NULL;
}

/* Words that other programs use, and what says the same here. */
static const char *
option_meant(const char *message)
{
    static const char *const known[][2] = {
        {"--lora", "--train lora:16"},
        {"--qlora", "--train lora:16 --weight-bits 4"},
        {"--lora-r", "--train lora:16"},
        {"--lora-rank", "--train lora:16"},
        {"--load-in-4bit", "--weight-bits 4"},
        {"--load-in-8bit", "--weight-bits 8"},
        {"--gpu", "-H"},
        {"--num-gpus", "--gpus"},
        {"--sequence-length", "--seq"},
        {"--max-length", "--seq"},
        {"--max-seq-length", "--seq"},
        {"--cutoff-len", "--seq"},
        {"--zero", "-s zero3"},
        {"--fsdp", "-s zero3"},
        {"--gradient-checkpointing", "--activation-checkpoint-interval 1"},
        {"--micro-batch-size", "--batch"},
        {"--per-device-train-batch-size", "--batch"},
        {"--gradient-accumulation-steps", "--grad-accum"},
        {"--cpu-offload", "--optimizer-device cpu"},
        {"--offload-optimizer", "--optimizer-device cpu"},
        {"--offload-param", "--param-device cpu"},
        {"--tensor-parallel", "--tp"},
        {"--pipeline-parallel", "--pp"},
        {"--precision", "--dtype bf16"},
        {"--mixed-precision", "--dtype bf16"},
        {"--bf16", "--dtype bf16"},
        {"--fp16", "--dtype fp16"},
        {"--fp8", "--matmul-dtype fp8"},
        {"--days", "--deadline of advise"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
        const char *at = strstr(message, known[i][0]);
        const char *end = at ? at + strlen(known[i][0]) : NULL;
        if (at && !g_ascii_isalnum(*end) && *end != '-')
            return known[i][1];
    }
    return NULL;
}

/* GLib leaves the "--" before an argument that begins with a dash. */
static void
drop_separator(int *argc, char **argv)
{
    int at = 1;

    while (at < *argc && strcmp(argv[at], "--"))
        at++;
    if (at == *argc)
        return;
    for (; at < *argc; at++)
        argv[at] = argv[at + 1];
    --*argc;
}

/* Refuses --overwrite=no, which GLib takes for --overwrite. */
static bool
check_flag(const struct cli_words *words, const char *word, GError **error)
{
    const char *equals = strchr(word, '=');

    for (const struct cli_words_group *group = words->groups; equals && group->title; group++)
        for (const GOptionEntry *entry = group->entries; entry->long_name; entry++)
            if (entry->arg == G_OPTION_ARG_NONE &&
                strlen(entry->long_name) == (size_t)(equals - word) - 2 &&
                !strncmp(word + 2, entry->long_name, (size_t)(equals - word) - 2))
                return mw_refuse(error, "%s: takes no value: give --%s, or leave it out", word,
                                 entry->long_name);
    return true;
}

static bool
check_flags(const struct cli_words *words, char **argv, GError **error)
{
    for (char **word = argv; *word && strcmp(*word, "--"); word++)
        if (g_str_has_prefix(*word, "--") && !check_flag(words, *word, error))
            return false;
    return true;
}

bool
cli_words_parse(const struct cli_words *words, int *argc, char ***argv, GError **error)
{
    g_autoptr(GOptionContext) context = new_context(words);
    g_auto(GStrv) typed = g_strdupv(*argv);
    g_autoptr(GError) wrong = NULL;

    if (!check_flags(words, *argv, error))
        return false;
    if (g_option_context_parse(context, argc, argv, &wrong)) {
        drop_separator(argc, *argv);
        return true;
    }
    bool unknown = g_error_matches(wrong, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION);
    const char *meant = unknown ? option_meant(wrong->message) : NULL;
    g_autofree char *like = unknown ? options_like(words, wrong->message, typed) : NULL;
    if (meant)
        return mw_refuse(error, "%s: %s says that here", wrong->message, meant);
    if (like)
        return mw_refuse(error, "%s: did you mean %s?", wrong->message, like);
    return mw_refuse(error, "%s; see memwall %s --help", wrong->message, words->verb->name);
}

/* --- help ------------------------------------------------------------------------------------ */

void
cli_words_wrap(FILE *out, const char *text, int column)
{
    mw_wrap_text(out, text, column, column, COLUMNS);
}

static void
print_entry(FILE *out, const GOptionEntry *entry)
{
    g_autoptr(GString) left = g_string_new("  ");
    bool optional = entry->flags & G_OPTION_FLAG_OPTIONAL_ARG;

    if (entry->flags & G_OPTION_FLAG_HIDDEN)
        return;
    if (entry->short_name)
        g_string_append_printf(left, "-%c, ", entry->short_name);
    g_string_append_printf(left, "--%s", entry->long_name);
    if (entry->arg_description)
        g_string_append_printf(left, "%s=%s%s", optional ? "[" : "", entry->arg_description,
                               optional ? "]" : "");
    fputs(left->str, out);
    if (left->len + 2 > HELP_COLUMN)
        fprintf(out, "\n%*s", HELP_COLUMN, "");
    else
        fprintf(out, "%*s", (int)(HELP_COLUMN - left->len), "");
    cli_words_wrap(out, entry->description, HELP_COLUMN);
}

static void
print_examples(FILE *out, const char *examples)
{
    g_auto(GStrv) lines = g_strsplit(examples, "\n", -1);

    fprintf(out, "\nExample%s:\n", lines[1] ? "s" : "");
    for (char **line = lines; *line; line++)
        fprintf(out, "  %s\n", *line);
}

static void
print_details(FILE *out, const char *details)
{
    g_auto(GStrv) lines = g_strsplit(details, "\n", -1);

    fputc('\n', out);
    for (char **line = lines; *line; line++)
        cli_words_wrap(out, *line, 0);
}

static bool
shows_any(const struct cli_words_group *group)
{
    for (const GOptionEntry *entry = group->entries; entry->long_name; entry++)
        if (!(entry->flags & G_OPTION_FLAG_HIDDEN))
            return true;
    return false;
}

static void
print_borrowed(const struct cli_words *words, FILE *out)
{
    for (const struct cli_words_group *group = words->groups; group->title; group++)
        for (const GOptionEntry *entry = group->entries; entry->long_name; entry++)
            if (strcmp(group->title, CLI_WORDS_OWN) && !strcmp(entry->long_name, "help"))
                print_entry(out, entry);
    print_details(out, words->verb->borrows);
}

static struct {
    void (*take)(const struct cli_words *words, void *data);
    void *data;
} diverted;

void
cli_words_divert(void (*take)(const struct cli_words *words, void *data), void *data)
{
    diverted.take = take;
    diverted.data = data;
}

void
cli_words_help(const struct cli_words *words, FILE *out)
{
    const struct cli_verb *verb = words->verb;

    if (diverted.take) {
        diverted.take(words, diverted.data);
        return;
    }
    g_autofree char *usage = g_strdup_printf("memwall %s %s%s[OPTION...]", verb->name,
                                             verb->arguments, *verb->arguments ? " " : "");

    fputs("usage: ", out);
    cli_words_wrap(out, usage, 7);
    fputc('\n', out);
    cli_words_wrap(out, verb->summary, 0);
    print_examples(out, verb->examples);
    for (const struct cli_words_group *group = words->groups; group->title; group++) {
        if (!shows_any(group) || (verb->borrows && strcmp(group->title, CLI_WORDS_OWN)))
            continue;
        fprintf(out, "\n%s:\n", group->title);
        for (const GOptionEntry *entry = group->entries; entry->long_name; entry++)
            print_entry(out, entry);
    }
    if (verb->borrows)
        print_borrowed(words, out);
    if (verb->details)
        print_details(out, verb->details);
}
