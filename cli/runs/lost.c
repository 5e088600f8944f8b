/* Runs whose files are gone, and what their descriptions say about them. */
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/runs/runs.h"
#include "exec/commit/run_files.h"
#include "exec/nvme/run_names.h"

/* A description says that a step is durable soon after the first one is.  A run that was killed
 * earlier has an empty record, or none. */
bool
cli_runs_is_lost(const struct cli_run_entry *entry, const struct mw_run_files *files)
{
    return entry->durable && !files->record &&
           (entry->last_step > 0 || (files->has_data && !files->has_record));
}

char *
cli_runs_lost_text(const struct cli_run_entry *entry, const char *directory)
{
    g_autofree char *stem = mw_run_stem(MW_RUN_BASE, 0, (int)entry->ranks);
    g_autofree char *path = mw_run_record_path(directory, stem);

    if (entry->last_step)
        return g_strdup_printf("%s, the record of run %s, is gone or empty, and its last durable "
                               "step was %" G_GINT64_FORMAT,
                               path, entry->name, entry->last_step);
    return g_strdup_printf("%s, the record of run %s, is missing, but there is state: the run was "
                           "killed as it started, or its record is lost",
                           path, entry->name);
}

static bool
has_file(const char *path)
{
    struct stat info;

    return !lstat(path, &info) && S_ISREG(info.st_mode);
}

/* Checks every rank whose record is here, on each of its drives. */
bool
cli_runs_lacks_files(const struct cli_run_entry *entry, const struct mw_run_files *first)
{
    const int drives = (int)g_strv_length(entry->directories);

    if (first->records < MIN(entry->ranks_here, entry->ranks))
        return true;
    for (int r = 0; r < first->ranks; r++) {
        g_autofree char *stem = mw_run_stem(MW_RUN_BASE, r, first->ranks);
        g_autofree char *record = mw_run_record_path(entry->directories[0], stem);
        for (int d = 0; d < drives && has_file(record); d++) {
            g_autofree char *data = mw_run_data_path(entry->directories[d], stem, d, drives);
            if (!has_file(data))
                return true;
        }
    }
    return false;
}

int64_t
cli_runs_noted_step(const char *directory)
{
    struct cli_run_entry entry;

    if (!cli_run_entry_read(directory, &entry, NULL))
        return 0;
    int64_t noted = cli_runs_names(&entry, directory) ? entry.last_step : 0;
    cli_run_entry_clear(&entry);
    return noted;
}

void
cli_runs_tell_lost_step(int64_t noted_step, int64_t step, const char *what_follows)
{
    if (noted_step > step)
        cli_say("step %" G_GINT64_FORMAT " was durable, and no whole record of it is left: %s step "
                "%" G_GINT64_FORMAT,
                noted_step, what_follows, step);
}
