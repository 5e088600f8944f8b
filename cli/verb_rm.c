/* `memwall rm RUN...`: deletes runs that have ended, by their exact names, with all that is ours in
 * their directories and nothing else. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/runs.h"
#include "exec/run_files.h"
#include "planner/error.h"

static bool
is_a_run(const struct cli_run *run, const char *name, GError **error)
{
    struct mw_run_files files;
    bool found = run->entry.name != NULL;

    for (char **directory = run->entry.directories; !found && *directory; directory++) {
        if (!mw_run_files_look(*directory, &files, error)) {
            mw_run_files_clear(&files);
            return false;
        }
        found = files.names->len > 0;
        mw_run_files_clear(&files);
    }
    return found || mw_refuse(error, "%s: holds no run: nothing is deleted", name);
}

/* What is left alone of it, and so stays. */
static void
say_others(const struct cli_run *run, const char *name)
{
    for (char **directory = run->entry.directories; *directory; directory++)
        if (!cli_runs_has(&run->entry, *directory))
            cli_say("%s: %s is not there, or of another run: nothing is deleted in it", name,
                    *directory);
}

static bool
remove_run(const char *name, GError **error)
{
    struct cli_run *run = cli_runs_find(name, error);

    if (!run)
        return false;
    bool good = is_a_run(run, name, error);
    if (good && run->state == CLI_RUN_RUNNING)
        good = mw_refuse(error, "%s: is running: nothing is deleted", name);
    if (good)
        say_others(run, name);
    int64_t bytes = run->bytes;
    good = good && cli_runs_remove(&run->entry, false, error);
    if (good)
        printf("deleted %s, %s\n", name, mw_format_bytes((double)bytes));
    cli_run_free(run);
    return good;
}

static int
run(int argc, char **argv)
{
    static gboolean help;
    static const GOptionEntry entries[] = {
        {"help", 'h', 0, G_OPTION_ARG_NONE, &help, "print this help", NULL}, G_OPTION_ENTRY_NULL};
    static const struct cli_words_group groups[] = {{"Options", entries}, {NULL, NULL}};
    const struct cli_words words = {.verb = "rm",
                                    .summary = cli_verb_rm.summary,
                                    .arguments = cli_verb_rm.arguments,
                                    .groups = groups};
    g_autoptr(GError) error = NULL;

    if (!cli_words_parse(&words, &argc, &argv, &error))
        return cli_fail(error);
    if (help) {
        cli_words_help(&words, stdout);
        printf("\n");
        cli_words_wrap(stdout,
                       "Delete runs that are not in progress. RUN is a name of `memwall list "
                       "runs`, whole, or one of the run's directories. What else is in its "
                       "directories stays.",
                       0);
        return cli_flush();
    }
    if (argc < 2)
        mw_refuse(&error, "rm takes at least one RUN: a name of `memwall list runs`, or a "
                          "directory");
    for (int i = 1; i < argc && !error; i++)
        remove_run(argv[i], &error);
    return error ? cli_fail(error) : cli_flush();
}

const struct cli_verb cli_verb_rm = {"rm", "delete the state that a run has left on drives",
                                     "RUN...", run};
