#include "cli/paths_kept.h"

#include <string.h>

#include "cli/run/entry.h"
#include "exec/commit/run_files.h"
#include "exec/trainer/checkpoint.h"

static bool
stands_beside(const struct mw_run_files *files, const char *base)
{
    for (guint i = 0; i < files->names->len; i++)
        if (strcmp(g_ptr_array_index(files->names, i), base))
            return true;
    return files->stranger && !files->stranger_is_plain;
}

/* The name alone proves nothing: the folder must hold another file of a run, or the file itself
 * must be a run's. */
static bool
is_of_run(const char *folder, const char *base)
{
    struct cli_run_entry entry;
    struct mw_run_files files;

    if (!mw_run_files_is_name(base))
        return false;
    bool is = !mw_run_files_look(folder, &files, NULL) || files.step >= 0 || files.running ||
              stands_beside(&files, base);
    mw_run_files_clear(&files);
    if (is || !cli_run_entry_read(folder, &entry, NULL))
        return is;
    cli_run_entry_clear(&entry);
    return true;
}

const char *
cli_path_part_of(const char *path)
{
    g_autofree char *folder = g_path_get_dirname(path), *base = g_path_get_basename(path);

    if (is_of_run(folder, base))
        return "a run";
    return mw_checkpoint_has_file(folder, base) ? "a checkpoint" : NULL;
}
