#include "cli/run/log.h"

#include <string.h>

#include "base/error.h"
#include "cli/run/drives.h"
#include "cli/runs/runs.h"
#include "exec/course/log.h"

/* The run in the same directories is the one that this run resumes, or that --overwrite deletes. */
static bool
is_here(const struct cli_run *run, char **directories)
{
    for (char **each = directories; each && *each; each++)
        if (cli_runs_names(&run->entry, *each))
            return true;
    return false;
}

/* A run that is unreachable or damaged may not be over: its drive may come back, its record may be
 * restored. */
static bool
is_over(const struct cli_run *run, const char *name)
{
    return g_strcmp0(run->entry.name, name) || run->state == CLI_RUN_EMPTY ||
           run->state == CLI_RUN_DELETING;
}

static bool
check_run(const struct cli_run_options *options, const char *name, GError **error)
{
    g_autoptr(GError) why = NULL;
    struct cli_run *run = cli_runs_find(name, &why);
    bool good = run ? is_over(run, name) || is_here(run, options->nvme) : !cli_runs_is_listed(name);

    if (!good && run)
        mw_refuse(error,
                  "log %s: belongs to run %s, which is %s: give another name, or delete the file",
                  options->log, name, cli_run_state_name(run->state));
    else if (!good)
        mw_refuse(
            error,
            "log %s: belongs to run %s, which cannot be read: %s: give another name, or delete "
            "the file",
            options->log, name, why->message);
    cli_run_free(run);
    return good;
}

bool
cli_run_log_check(const struct cli_training *training, GError **error)
{
    const struct cli_run_options *options = &training->options;
    const char *own = options->resume ? cli_run_drives_name(training->drives) : NULL;

    if (!options->log)
        return true;
    if (!cli_as_usage_error(mw_log_check(options->log, own, error), error))
        return false;
    g_auto(GStrv) runs = mw_log_runs(options->log);
    for (char **run = runs; *run; run++) /* another run may be listed under this run's name */
        if (g_strcmp0(*run, own) && !check_run(options, *run, error))
            return false;
    return true;
}
