#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "config.h"
#include "planner/error.h"

static const struct cli_verb *const verbs[] = {&cli_verb_list,     &cli_verb_plan,
                                               &cli_verb_simulate, &cli_verb_run,
                                               &cli_verb_compare,  &cli_verb_calibrate};

static void
print_help(FILE *out)
{
    fprintf(out, "memwall - plan, simulate and run the training of models that do not fit in GPU "
                 "memory\n\n"
                 "usage: memwall VERB [OPTION...]\n\n");
    for (size_t i = 0; i < G_N_ELEMENTS(verbs); i++)
        fprintf(out, "  %-10s %s\n", verbs[i]->name, verbs[i]->summary);
    fprintf(out, "\n`memwall VERB --help` explains a verb.  Example:\n"
                 "  memwall simulate -m gpt3-175b -H dgx2 -s zero-infinity-nvme\n\n"
                 "exit status: 0 done, 1 failed, 2 wrong usage or input, 3 the plan does not "
                 "fit\n");
}

/* What was typed or read may hold line ends and terminal codes; a message stays one plain line. */
static char *
one_line(const char *text)
{
    GString *line = g_string_new(NULL);

    for (const char *at = text; *at;) {
        gunichar c = g_utf8_get_char_validated(at, -1);
        bool whole = (gint32)c >= 0;
        const char *next = whole ? g_utf8_next_char(at) : at + 1;

        if (whole && !g_unichar_iscntrl(c))
            g_string_append_len(line, at, next - at);
        else if (c == '\n')
            g_string_append(line, "\\n");
        else
            g_string_append_printf(line, "\\x%02x", whole ? c : (unsigned char)*at);
        at = next;
    }
    return g_string_free(line, FALSE);
}

void
cli_say(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_autofree char *line = one_line(text);
    fprintf(stderr, "memwall: %s\n", line);
}

int
cli_fail(const GError *error)
{
    cli_say("%s", error->message);
    if (error->domain == MW_ERROR && (error->code == MW_ERROR_IO || error->code == MW_ERROR_DEVICE))
        return CLI_FAILED;
    return CLI_USAGE;
}

int
cli_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return CLI_DONE;
    cli_say("standard output: cannot be written");
    return CLI_FAILED;
}

int
main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* a write beyond a limit on files then fails and is told */
    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C"); /* figures read the same everywhere */
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help(stdout);
        return cli_flush();
    }
    if (!strcmp(argv[1], "--version")) {
        printf("memwall %s\n", MW_VERSION);
        return cli_flush();
    }
    for (size_t i = 0; i < G_N_ELEMENTS(verbs); i++)
        if (!strcmp(argv[1], verbs[i]->name))
            return verbs[i]->run(argc - 1, argv + 1);
    cli_say("unknown verb \"%s\"; try list, plan, simulate, run, compare or calibrate, or --help",
            argv[1]);
    return CLI_USAGE;
}
