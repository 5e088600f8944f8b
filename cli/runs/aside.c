#include "cli/runs/aside.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

#include "base/whole_file.h"
#include "cli/cli.h"
#include "cli/runs/runs.h"
#include "exec/commit/run_aside.h"
#include "exec/commit/run_files.h"
#include "exec/nvme/run_names.h"
#include "exec/trainer/trainer.h"

/* --- the list of runs ------------------------------------------------------------------------- */

static char *
listed_folder(const char *name)
{
    g_autofree char *base = cli_runs_base();

    return g_build_filename(base, name, NULL);
}

/* Whether the old run has state in a directory that the new one does not use. */
static bool
is_carried(const struct cli_run_entry *now, const struct cli_run_entry *listed)
{
    for (char **each = listed->directories; now && *each; each++)
        if (!cli_runs_names(now, *each) && cli_runs_has(listed, *each))
            return true;
    return false;
}

/* If a directory of the old run is missing or unchanged, something is left of that run: it stays in
 * the list, and no other run gets its name. */
void
cli_runs_unlist(const struct cli_run_entry *now, const char *described, const char *directory)
{
    struct cli_run_entry there, listed;

    if (!cli_run_entry_read(described, &there, NULL))
        return;
    bool own = cli_runs_names(&there, directory);
    g_autofree char *folder = listed_folder(there.name);
    if (own && !there.made && cli_run_entry_read(folder, &listed, NULL)) {
        bool same = g_strv_equal((const char *const *)listed.directories,
                                 (const char *const *)there.directories) &&
                    !g_strcmp0(listed.created, there.created) && !cli_runs_missing(&listed) &&
                    !is_carried(now, &listed);
        cli_run_entry_clear(&listed);
        if (same && mw_run_files_remove(folder, false, NULL))
            g_rmdir(folder);
    }
    cli_run_entry_clear(&there);
}

/* Removes the new run's own folder from the list, which it got with its name. */
static void
unlist_unbegun(const char *directory)
{
    struct cli_run_entry fresh, listed;

    if (!cli_run_entry_read(directory, &fresh, NULL))
        return;
    g_autofree char *folder = listed_folder(fresh.name);
    if (!fresh.made && !cli_runs_same_directory(folder, directory) &&
        cli_run_entry_read(folder, &listed, NULL)) {
        bool same = !g_strcmp0(listed.created, fresh.created);
        cli_run_entry_clear(&listed);
        if (same && mw_run_files_remove(folder, false, NULL))
            g_rmdir(folder);
    }
    cli_run_entry_clear(&fresh);
}

static bool
copy_description(const char *from, const char *to)
{
    g_autofree char *source = g_build_filename(from, MW_RUN_DESCRIPTION, NULL);
    g_autofree char *path = g_build_filename(to, MW_RUN_DESCRIPTION, NULL), *text = NULL;
    struct mw_file *file;
    gsize length;

    if (!g_file_get_contents(source, &text, &length, NULL) ||
        !(file = mw_file_open_own(path, NULL)))
        return false;
    fwrite(text, 1, length, file->stream);
    return mw_file_commit(file, NULL);
}

/* A new run in directories that were made for the old one has the old one's name and folder in the
 * list; this restores the old description there. */
static void
list_again(const char *directory)
{
    struct cli_run_entry back, listed;

    if (!cli_run_entry_read(directory, &back, NULL))
        return;
    g_autofree char *folder = listed_folder(back.name);
    if (!cli_runs_same_directory(folder, directory) && cli_run_entry_read(folder, &listed, NULL)) {
        bool is_its = g_strv_equal((const char *const *)listed.directories,
                                   (const char *const *)back.directories);
        if (is_its && g_strcmp0(listed.created, back.created))
            copy_description(directory, folder);
        cli_run_entry_clear(&listed);
    }
    cli_run_entry_clear(&back);
}

/* --- which of the two runs -------------------------------------------------------------------- */

enum verdict { UNBEGUN, BEGUN, UNKNOWN };

static bool
holds_unbegun(const char *directory)
{
    enum mw_run_aside aside = mw_run_aside_look(directory);

    return aside == MW_RUN_ASIDE_MOVING || aside == MW_RUN_ASIDE_REPLACED;
}

/* Judges by the record: a step is durable, and not all were skipped.  The replaced run may still
 * lie beside it, if a kill or a drive's failure came in between. */
static bool
has_durable_step(const char *first)
{
    struct mw_run_files files;
    struct mw_run_record newest;
    uint64_t updates = 0;

    if (mw_run_files_look(first, &files, NULL) && files.step >= 0) {
        g_autofree char *stem =
            g_strndup(files.record, strlen(files.record) - strlen(MW_RUN_RECORD));
        if (mw_run_files_record(first, stem, false, &newest)) {
            mw_commit_find(&newest.record, MW_TRAINER_UPDATES, &updates);
            mw_commit_record_clear(&newest.record);
        }
    }
    mw_run_files_clear(&files);
    return updates > 0;
}

/* For a directory that has a run set aside. */
static enum verdict
verdict_of(const char *directory)
{
    struct cli_run_entry fresh;
    enum verdict verdict = UNBEGUN;
    g_autoptr(GError) why = NULL;

    /* A damaged record may be that of a run that has begun. */
    if (!cli_run_entry_read(directory, &fresh, &why))
        return g_error_matches(why, G_FILE_ERROR, G_FILE_ERROR_NOENT) ? UNBEGUN : UNKNOWN;
    const char *first = fresh.directories[0];
    if (mw_run_aside_look(first) == MW_RUN_ASIDE_REPLACED && cli_runs_has(&fresh, first) &&
        has_durable_step(first))
        verdict = BEGUN;
    else if (fresh.directories[1] && !cli_runs_same_directory(first, directory) &&
             !holds_unbegun(first))
        verdict = cli_runs_has(&fresh, first)           ? BEGUN
                  : cli_runs_has_another(&fresh, first) ? UNBEGUN
                                                        : UNKNOWN;
    cli_run_entry_clear(&fresh);
    return verdict;
}

/* --- deleting, or putting back ---------------------------------------------------------------- */

static bool
forget_replaced(const struct cli_run_entry *now, const char *directory, GError **error)
{
    g_autofree char *discarded = mw_run_aside_path(directory, MW_RUN_ASIDE_DISCARDED);

    cli_runs_unlist(now, discarded, directory);
    return mw_run_aside_delete(directory, error);
}

bool
cli_runs_discard(const struct cli_run_entry *now, const char *directory, GError **error)
{
    return mw_run_aside_discard(directory, error) && forget_replaced(now, directory, error);
}

static bool
put_back(const char *directory, GError **error)
{
    if (mw_run_aside_look(directory) == MW_RUN_ASIDE_REPLACED)
        unlist_unbegun(directory);
    if (!mw_run_aside_return(directory, error))
        return false;
    list_again(directory);
    cli_say("%s: the run that --overwrite had set aside is back: no step of the new one is kept",
            directory);
    return true;
}

/* The caller holds the lock. */
static bool
finish_replacing(const char *directory, GError **error)
{
    struct cli_run_entry now;
    bool good = true;

    if (holds_unbegun(directory)) {
        enum verdict verdict = verdict_of(directory);
        if (verdict != BEGUN)
            return verdict == UNKNOWN || put_back(directory, error);
    }
    bool described = cli_run_entry_read(directory, &now, NULL);
    if (mw_run_aside_look(directory))
        good = cli_runs_discard(described ? &now : NULL, directory, error);
    if (described)
        cli_run_entry_clear(&now);
    return good;
}

static bool
is_in_use(const char *directory)
{
    struct mw_run_files files;
    bool is = mw_run_files_look(directory, &files, NULL) && files.running;

    mw_run_files_clear(&files);
    return is;
}

bool
cli_runs_end_replacing(const char *directory, bool locked, GError **error)
{
    if (!mw_run_aside_look(directory))
        return true;
    if (locked)
        return finish_replacing(directory, error);
    if (is_in_use(directory))
        return true;
    struct mw_run_lock *lock = mw_run_lock_take(directory, error);
    bool good = lock && finish_replacing(directory, error);
    mw_run_lock_release(lock);
    return good;
}

bool
cli_runs_end_replacing_all(char **directories, bool locked, GError **error)
{
    for (guint i = g_strv_length(directories); i-- > 0;)
        if (!cli_runs_end_replacing(directories[i], locked, error))
            return false;
    return true;
}
