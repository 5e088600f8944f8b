/* `memwall rm RUN...`: deletes runs that have ended, by their exact names, with all that is ours in
 * their directories and nothing else. */
#include <stdio.h>
#include <string.h>

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

static bool
remove_run(const char *name, GError **error)
{
    struct cli_run *run = cli_runs_find(name, error);

    if (!run)
        return false;
    bool good = is_a_run(run, name, error);
    if (good && run->state == CLI_RUN_RUNNING)
        good = mw_refuse(error, "%s: is running: nothing is deleted", name);
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
    g_autoptr(GError) error = NULL;
    bool help = argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));

    if (argc < 2 || help) {
        FILE *out = help ? stdout : stderr;
        fprintf(out, "usage: memwall rm %s\n\n", cli_verb_rm.arguments);
        cli_words_wrap(out,
                       "Deletes runs that are not in progress. RUN is a name of `memwall list "
                       "runs`, whole, or one of the run's directories. What else is in its "
                       "directories stays.",
                       0);
        return help ? cli_flush() : CLI_USAGE;
    }
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--"))
            continue;
        else if (argv[i][0] == '-') {
            mw_refuse(&error, "%s: rm has no such option; a folder of that name is ./%s", argv[i],
                      argv[i]);
            return cli_fail(error);
        }
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--") && !remove_run(argv[i], &error))
            return cli_fail(error);
    return cli_flush();
}

const struct cli_verb cli_verb_rm = {"rm", "deletes the state that a run has left on drives",
                                     "RUN...", run};
