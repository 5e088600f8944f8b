/* Deletes a run so that what is left after a kill can be recognised. */
#include <glib/gstdio.h>

#include "cli/runs/runs.h"
#include "exec/commit/run_files.h"

static bool
is_in_base(const char *directory)
{
    g_autofree char *base = cli_runs_base(), *parent = g_path_get_dirname(directory);

    return cli_runs_same_directory(base, parent);
}

static guint
count_files(const char *directory)
{
    struct mw_run_files files;
    guint count = mw_run_files_look(directory, &files, NULL) ? files.names->len : 0;

    mw_run_files_clear(&files);
    return count;
}

/* The lock is deleted last from a directory that was made for a run. */
static bool
is_emptied(const struct cli_run_entry *entry, const char *directory)
{
    g_autofree char *path = g_build_filename(directory, MW_RUN_DESCRIPTION, NULL);
    struct mw_run_files files;

    if (!entry->deleting || !entry->made || g_file_test(path, G_FILE_TEST_EXISTS))
        return false;
    bool is = mw_run_files_look(directory, &files, NULL) && !files.record && !files.has_data;
    mw_run_files_clear(&files);
    return is;
}

/* *begun: something has been deleted. */
static bool
remove_directories(const struct cli_run_entry *entry, bool locked, bool *begun, GError **error)
{
    for (char **directory = entry->directories; *directory; directory++) {
        if (!cli_runs_has(entry, *directory) && !is_emptied(entry, *directory))
            continue;
        guint count = count_files(*directory);
        bool good = mw_run_files_remove(*directory, locked, error);
        *begun |= good || count_files(*directory) < count;
        if (!good)
            return false;
        if (entry->made || is_in_base(*directory))
            g_rmdir(*directory);
    }
    return true;
}

bool
cli_runs_remove(const struct cli_run_entry *entry, bool locked, GError **error)
{
    g_autofree char *folder = cli_runs_own_folder(entry);
    g_autofree char *text = folder ? cli_run_entry_mark_deleting(folder) : NULL;
    bool begun = false;

    if (!remove_directories(entry, locked, &begun, error)) {
        if (text && !begun)
            cli_run_entry_restore(folder, text);
        return false;
    }
    if (folder && !mw_run_files_remove(folder, locked, error))
        return false;
    if (folder)
        g_rmdir(folder);
    return true;
}
