/*
 * What other runs have left in the directories of a run.
 *
 * A directory is free if the new run would destroy nothing that is durable: no record in it holds a
 * step; no description in it is of a run whose record, there or in its first directory, holds one
 * or is missing; and no file has the name of a run's file without being one.  --overwrite frees it
 * if it is given all directories that have state of the run.
 */
#include "base/error.h"
#include "cli/run/drives_internal.h"

static const struct cli_run_options *
options_of(const struct cli_run_drives *drives)
{
    return cli_run_drives_options(drives);
}

/* --- a record --------------------------------------------------------------------------------- */

/* A run without a complete step cannot be resumed. */
static bool
refuse_run(const char *directory, const struct mw_run_files *files, GError **error)
{
    if (files->step < 0)
        return mw_refuse(error,
                         "%s: holds a run without a whole step (%s): `memwall verify %s` says what "
                         "is damaged, --overwrite deletes it, --nvme DIR names another directory",
                         directory, files->record, directory);
    return mw_refuse(error,
                     "%s: holds a run of %" G_GINT64_FORMAT
                     " step%s (%s): --resume continues it, --overwrite deletes it, --nvme DIR "
                     "names another directory",
                     directory, files->step + 1, files->step ? "s" : "", files->record);
}

static bool
refuse_lost(const struct cli_run_entry *entry, const char *directory, const char *first,
            GError **error)
{
    g_autofree char *what = cli_runs_lost_text(entry, first);

    return mw_refuse(error,
                     "%s: %s: put it back to continue with --resume; --overwrite deletes what is "
                     "left, --nvme DIR names another directory",
                     directory, what);
}

/* --- a description ---------------------------------------------------------------------------- */

static bool
refuse_held(const struct cli_run_entry *entry, const char *directory,
            const struct mw_run_files *files, GError **error)
{
    const char *first = entry->directories[0];

    if (files->step < 0)
        return mw_refuse(error,
                         "%s: has state of run %s, whose record in %s has no whole step: `memwall "
                         "verify %s` says what is damaged, `memwall rm %s` deletes it, --nvme DIR "
                         "names another directory",
                         directory, entry->name, first, first, first);
    return mw_refuse(error,
                     "%s: has state of run %s, whose record in %s holds %" G_GINT64_FORMAT
                     " step%s: --resume=%s continues it, `memwall rm %s` deletes it, --nvme DIR "
                     "names another directory",
                     directory, entry->name, first, files->step + 1, files->step ? "s" : "", first,
                     first);
}

static bool
refuse_away(const struct cli_run_entry *entry, const char *directory, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_IO,
                "%s: has state of run %s, whose record is in %s, which is not there, or empty: is "
                "the drive mounted? --overwrite deletes what is here, --nvme DIR names another "
                "directory",
                directory, entry->name, entry->directories[0]);
    return false;
}

/* State of a run whose record is gone. */
static bool
refuse_left(const struct cli_run_entry *entry, const char *directory, GError **error)
{
    return mw_refuse(error,
                     "%s: has state of run %s, whose record was in %s, where another run is now: "
                     "--overwrite deletes what is here, --nvme DIR names another directory",
                     directory, entry->name, entry->directories[0]);
}

/* For a run whose record is elsewhere.  --overwrite deletes a run if it is given all its
 * directories, or what is left of it. */
static bool
is_free_elsewhere(const struct cli_run_drives *drives, const char *directory, bool has_data,
                  const struct cli_run_entry *entry, GError **error)
{
    const char *first = entry->directories[0];
    bool overwrite = options_of(drives)->overwrite;
    struct mw_run_files files;

    if (cli_runs_has_another(entry, first))
        return overwrite || !has_data || !entry->durable || !entry->last_step ||
               refuse_left(entry, directory, error);
    bool good = mw_run_files_look(first, &files, error);
    if (good && files.record && !(overwrite && cli_runs_names(&drives->entry, first)))
        good = refuse_held(entry, directory, &files, error);
    else if (good && !overwrite && !files.names->len)
        good = refuse_away(entry, directory, error);
    else if (good && !overwrite && cli_runs_is_lost(entry, &files))
        good = refuse_lost(entry, directory, first, error);
    mw_run_files_clear(&files);
    return good;
}

/* Without its description nobody can say to which run the state belongs. */
static bool
refuse_unread(const char *directory, const GError *why, GError **error)
{
    return mw_refuse(error,
                     "%s: has state of a run, whose description cannot be read: %s: --overwrite "
                     "deletes it, --nvme DIR names another directory",
                     directory, why->message);
}

/* After an `rm` that was killed. */
static bool
refuse_deleting(const struct cli_run_entry *entry, const char *directory, GError **error)
{
    return mw_refuse(error,
                     "%s: has what is left of run %s, which is being deleted: `memwall rm %s` "
                     "finishes that, --nvme DIR names another directory",
                     directory, entry->name, entry->name);
}

/* Judges the run that a directory's description names; a copy of a directory counts as free. */
static bool
is_free_of_described(const struct cli_run_drives *drives, const char *directory,
                     const struct mw_run_files *files, GError **error)
{
    bool overwrite = options_of(drives)->overwrite;
    g_autoptr(GError) why = NULL;
    struct cli_run_entry entry;

    if (!cli_run_entry_read(directory, &entry, &why))
        return overwrite || !files->has_data ||
               g_error_matches(why, G_FILE_ERROR, G_FILE_ERROR_NOENT) ||
               refuse_unread(directory, why, error);
    bool good = true;
    if (!cli_runs_is_copy(&entry, directory)) {
        const char *first = entry.directories[0];
        if (!overwrite && cli_runs_is_deleting(&entry))
            good = refuse_deleting(&entry, directory, error);
        else if (entry.directories[1] && !cli_runs_same_directory(first, directory))
            good = is_free_elsewhere(drives, directory, files->has_data, &entry, error);
        else if (!overwrite && cli_runs_is_lost(&entry, files))
            good = refuse_lost(&entry, directory, directory, error);
    }
    cli_run_entry_clear(&entry);
    return good;
}

/* --overwrite must be given all directories of a run: what stayed in the others would be useless,
 * and named after a run that is gone. */
static bool
is_given_whole(const struct cli_run_drives *drives, const char *directory, GError **error)
{
    g_autoptr(GString) others = g_string_new(NULL);
    struct cli_run_entry entry;

    if (!cli_run_entry_read(directory, &entry, NULL))
        return true;
    for (char **each = entry.directories; *each && cli_runs_names(&entry, directory); each++)
        if (!cli_runs_names(&drives->entry, *each) && cli_runs_has_state(&entry, *each))
            g_string_append_printf(others, " --nvme %s", *each);
    bool good = !others->len || mw_refuse(error,
                                          "%s: has state of run %s, and not all of it: give also%s "
                                          "to overwrite the run, or `memwall rm %s` deletes it",
                                          directory, entry.name, others->str, directory);
    cli_run_entry_clear(&entry);
    return good;
}

/* --- free ------------------------------------------------------------------------------------- */

/* Refuses files that no run of this user wrote.  They could be overwritten if this run uses the
 * same name; or they hide, where no record says it, whether there is a run. */
static bool
is_free_of_strangers(const struct cli_run_drives *drives, const char *directory,
                     const struct mw_run_files *files, GError **error)
{
    const char *name = files->stranger;

    if (!name)
        return true;
    bool in_way = files->stranger_is_plain ? cli_run_drives_trains(drives) ||
                                                 g_str_has_prefix(name, drives->training->stem)
                                           : !files->record && !options_of(drives)->overwrite;
    if (!in_way)
        return true;
    g_set_error(error, MW_ERROR, files->stranger_is_plain ? MW_ERROR_INVALID : MW_ERROR_IO,
                "%s/%s: has a run's name, and %s: nothing is touched: move it away or delete it, "
                "or --nvme DIR names another directory",
                directory, name, files->stranger_why);
    return false;
}

static bool
is_free(const struct cli_run_drives *drives, const char *directory, GError **error)
{
    struct mw_run_files files;
    bool good = mw_run_files_look(directory, &files, error) &&
                is_free_of_strangers(drives, directory, &files, error);

    if (good && cli_run_drives_trains(drives) && !files.record)
        good = is_free_of_described(drives, directory, &files, error);
    else if (good && cli_run_drives_trains(drives) && !options_of(drives)->overwrite)
        good = refuse_run(directory, &files, error);
    if (good && cli_run_drives_trains(drives) && options_of(drives)->overwrite)
        good = is_given_whole(drives, directory, error);
    mw_run_files_clear(&files);
    return good;
}

bool
cli_run_drives_are_free(const struct cli_run_drives *drives, GError **error)
{
    for (char **directory = drives->entry.directories; *directory; directory++)
        if (!is_free(drives, *directory, error))
            return false;
    return true;
}

/* --- a run to resume -------------------------------------------------------------------------- */

/* How to start anew, for a resume without --overwrite. */
static char *
anew_text(const struct cli_run_drives *drives)
{
    if (drives->entry.made)
        return g_strdup_printf("`memwall rm %s` deletes what is left", drives->entry.name);
    return g_strdup("with --overwrite instead of --resume a run starts anew");
}

/* Refuses a first directory whose records hold nothing. */
static bool
refuse_nothing(const struct cli_run_drives *drives, const struct mw_run_files *files,
               GError **error)
{
    const char *first = drives->entry.directories[0];
    g_autofree char *anew = anew_text(drives), *lost = NULL;
    struct cli_run_entry entry = {0};
    bool described = cli_run_entry_read(first, &entry, NULL);

    if (described && entry.directories[1] && cli_runs_names(&entry, first) &&
        !cli_runs_same_directory(entry.directories[0], first))
        mw_refuse(error,
                  "%s: the record of run %s is in %s: give --nvme in the order that the run "
                  "had, or --resume=%s",
                  first, entry.name, entry.directories[0], entry.directories[0]);
    else if (described && cli_runs_is_lost(&entry, files)) {
        lost = cli_runs_lost_text(&entry, first);
        g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s: put it back to continue; %s", first,
                    lost, anew);
    } else if (described || files->has_record)
        mw_refuse(error,
                  "%s: the run there ended before its first step was durable: there is nothing "
                  "to resume; without --resume a run starts anew",
                  first);
    else
        mw_refuse(error,
                  "%s: holds no run to resume: `memwall list runs` shows where runs are; without "
                  "--resume a run starts there",
                  first);
    cli_run_entry_clear(&entry);
    return false;
}

/* A record that cannot be examined (a link, for example) is reported by the code that opens it. */
bool
cli_run_drives_hold_run(const struct cli_run_drives *drives, GError **error)
{
    struct mw_run_files files;

    if (!cli_training_is_durable(drives->training))
        return true; /* opening it reports why */
    bool good = mw_run_files_look(drives->entry.directories[0], &files, error);
    if (good && !files.record && !files.stranger)
        good = refuse_nothing(drives, &files, error);
    mw_run_files_clear(&files);
    return good && cli_run_drives_are_together(drives, error);
}
