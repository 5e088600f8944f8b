#include "cli/run_log.h"

#include <string.h>

#include "cli/run_drives.h"
#include "cli/runs.h"
#include "exec/log.h"
#include "planner/error.h"

/* A run whose directories this one has got goes on as this one, or ends with --overwrite. */
static bool
is_here(const struct cli_run *run, char **directories)
{
    for (char **each = directories; each && *each; each++)
        if (cli_runs_names(&run->entry, *each))
            return true;
    return false;
}

static bool
is_kept(const struct cli_run *run)
{
    return run->state == CLI_RUN_DURABLE || run->state == CLI_RUN_RUNNING;
}

static bool
check_run(const struct cli_run_options *options, const char *name, GError **error)
{
    struct cli_run *run = cli_runs_find(name, NULL);
    bool kept =
        run && !g_strcmp0(run->entry.name, name) && is_kept(run) && !is_here(run, options->nvme);
    bool good = !kept || mw_refuse(error,
                                   "log %s: is of run %s, which is %s: give another name, or "
                                   "delete the file",
                                   options->log, name, cli_run_state_name(run->state));

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
    if (!mw_log_check(options->log, own, error))
        return false;
    g_auto(GStrv) runs = mw_log_runs(options->log);
    for (char **run = runs; *run; run++)
        if (!check_run(options, *run, error))
            return false;
    return true;
}
