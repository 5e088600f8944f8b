#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/format.h"
#include "base/nearest.h"
#include "base/progress.h"
#include "cli/cli.h"
#include "cli/progress_line.h"
#include "cli/reference/reference.h"
#include "cli/spelling.h"
#include "cli/start.h"
#include "config.h"
#include "exec/device/backend.h"
#include "exec/device/cpu/kernels.h"
#include "lib/memwall.h"

#define SHOWN_CHARACTERS 1000 /* per message */

const struct cli_verb *const cli_verbs[] = {&cli_verb_list,     &cli_verb_plan,
                                            &cli_verb_simulate, &cli_verb_sweep,
                                            &cli_verb_advise,   &cli_verb_report,
                                            &cli_verb_run,      &cli_verb_compare,
                                            &cli_verb_check,    &cli_verb_calibrate,
                                            &cli_verb_export,   &cli_verb_rm,
                                            &cli_verb_verify,   NULL};

static void
print_help(FILE *out)
{
    cli_words_wrap(out, "memwall - " CLI_PURPOSE, 0);
    fputs("\nusage: memwall VERB [OPTION...]\n\n", out);
    for (const struct cli_verb *const *verb = cli_verbs; *verb; verb++) {
        fprintf(out, "  %-10s ", (*verb)->name);
        cli_words_wrap(out, (*verb)->summary, 13);
    }
    fprintf(out, "\n`memwall help VERB` explains a verb, `memwall --version` prints the version.\n"
                 "Examples:\n"
                 "  memwall simulate -m gpt3-175b -H dgx2 -s zero-infinity-nvme\n"
                 "  memwall simulate -m llama-3.1-8b -H rtx4090 --train lora:16  (fine-tune)\n"
                 "  memwall simulate -m llama-3.1-8b -H rtx4090 --serve 100  (generate)\n\n"
                 "Exit status:\n");
    for (const struct cli_fact *status = cli_exit_statuses; status->name; status++) {
        fprintf(out, "  %-3s  ", status->name);
        cli_words_wrap(out, status->text, 7);
    }
}

/* Typed or read text may be long; beginning and end of a message say what is wrong. */
static char *
shortened(const char *line)
{
    glong characters = g_utf8_strlen(line, -1);

    if (characters <= SHOWN_CHARACTERS)
        return g_strdup(line);
    const char *end = g_utf8_offset_to_pointer(line, SHOWN_CHARACTERS / 2);
    const char *tail = g_utf8_offset_to_pointer(line, characters - SHOWN_CHARACTERS / 2);
    return g_strdup_printf("%.*s ... %s", (int)(end - line), line, tail);
}

void
cli_say(const char *format, ...)
{
    va_list arguments;

    mw_progress_end();
    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_autofree char *line = mw_one_line(text);
    g_autofree char *shown = shortened(line);
    fprintf(stderr, "memwall: %s\n", shown);
}

bool
cli_as_usage_error(bool good, GError **error)
{
    if (!good && error && g_error_matches(*error, MW_ERROR, MW_ERROR_IO))
        (*error)->code = MW_ERROR_INVALID;
    return good;
}

int
cli_exit_of(const GError *error)
{
    if (error->domain == MW_ERROR && (error->code == MW_ERROR_IO || error->code == MW_ERROR_DEVICE))
        return CLI_FAILED;
    return CLI_USAGE;
}

int
cli_fail(const GError *error)
{
    cli_say("%s", error->message);
    return cli_exit_of(error);
}

int
cli_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return CLI_DONE;
    cli_say("standard output: cannot be written");
    return CLI_FAILED;
}

void
cli_outlive_readers(void)
{
    signal(SIGPIPE, SIG_IGN);
}

/* Words that other programs use for the same. */
static const char *
verb_meant(const char *word)
{
#define TUNED "simulate --train lora:16, or run with it"
    static const char *const known[][2] = {{"train", "run"},
                                           {"resume", "run"},
                                           {"predict", "simulate"},
                                           {"benchmark", "calibrate"},
                                           {"measure", "calibrate"},
                                           {"delete", "rm"},
                                           {"remove", "rm"},
                                           {"finetune", TUNED},
                                           {"fine-tune", TUNED},
                                           {"lora", TUNED},
                                           {"serve", "simulate --serve"},
                                           {"infer", "simulate --serve"},
                                           {"generate", "simulate --serve"}};
#undef TUNED

    for (size_t i = 0; i < G_N_ELEMENTS(known); i++)
        if (!strcmp(word, known[i][0]))
            return known[i][1];
    return NULL;
}

static int
refuse_verb(const char *word)
{
    g_autoptr(GString) all = g_string_new(NULL);
    const char *names[G_N_ELEMENTS(cli_verbs)] = {NULL};

    for (size_t i = 0; cli_verbs[i]; i++) {
        names[i] = cli_verbs[i]->name;
        g_string_append_printf(all, "%s%s", i ? ", " : "", names[i]);
    }
    const char *meant = verb_meant(word);
    g_autofree char *like = meant ? g_strdup(meant) : mw_names_like(word, names, "");
    if (*word == '-')
        cli_say("%s: a verb goes first, then its options; verbs are %s; try memwall help", word,
                all->str);
    else if (like)
        cli_say("unknown verb \"%s\"; did you mean %s?", word, like);
    else
        cli_say("unknown verb \"%s\"; known are %s; try memwall help", word, all->str);
    return CLI_USAGE;
}

static int
run_verb(int argc, char **argv)
{
    for (const struct cli_verb *const *verb = cli_verbs; *verb; verb++)
        if (!strcmp(argv[0], (*verb)->name))
            return (*verb)->run(argc, argv);
    return refuse_verb(argv[0]);
}

static bool
asks_help(const char *word)
{
    return !strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h");
}

/* `memwall help VERB` is `memwall VERB --help`. */
static int
help(int argc, char **argv)
{
    char *words[] = {argv[1], (char[]){"--help"}, NULL};

    if (argc > 2) {
        cli_say("help: takes one verb; unexpected argument \"%s\"", argv[2]);
        return CLI_USAGE;
    }
    if (argc == 2 && !asks_help(argv[1]))
        return run_verb(2, words);
    print_help(stdout);
    return cli_flush();
}

/* MPI may start CUDA, which then reads its environment. */
static void
set_environment(void)
{
    for (const struct mw_backend *const *backend = mw_backends; *backend; backend++)
        if ((*backend)->environment)
            (*backend)->environment();
}

static int
start(int argc, char **argv)
{
    set_environment();
    cli_progress_line_begin();
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit on file sizes then fails with an error */
    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C"); /* figures read the same in every locale */
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (asks_help(argv[1]))
        return help(argc - 1, argv + 1);
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V") || !strcmp(argv[1], "version")) {
        printf("memwall %s\n", memwall_version());
        return cli_flush();
    }
    if (!strcmp(argv[1], "--reference"))
        return cli_reference(argc - 2, argv + 2);
    if (!strcmp(argv[1], "--names"))
        return cli_reference_names(argc - 2, argv + 2);
    if (mw_cpu_isa_refusal()) {
        cli_say("%s", mw_cpu_isa_refusal());
        return CLI_USAGE;
    }
    return run_verb(argc - 1, argv + 1);
}

int
main(int argc, char **argv)
{
    mw_spell_as(&cli_spelling);
    cli_start_keeping_memory();
    return cli_start_descriptors() ? cli_start_with_stack(start, argc, argv) : CLI_FAILED;
}
