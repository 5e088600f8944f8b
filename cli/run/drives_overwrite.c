/*
 * --overwrite: the old run in the directories is set aside once all checks have passed that need no
 * room on its drives.  It is deleted when the new run has a first step to keep instead.  That step
 * must not have been skipped, and must be durable if the run makes steps durable.  A run that ends
 * earlier puts the old one back.
 */
#include <sys/statvfs.h>

#include "base/error.h"
#include "cli/run/drives_internal.h"
#include "cli/run/stop.h"
#include "cli/runs/aside.h"
#include "exec/commit/run_aside.h"

/* Descriptions and records of the new run are written before its drives are reserved. */
#define SMALL_FILES_BYTES (INT64_C(4) << 20)

/* --- room ------------------------------------------------------------------------------------ */

/* A lower bound: several directories may be on one drive. */
static int64_t
needed_bytes(const struct cli_run_drives *drives)
{
    const struct cli_training *training = drives->training;
    int64_t bytes = training->answer->plan->peak_bytes[MW_TIER_NVME];

    return bytes / (int64_t)g_strv_length(drives->entry.directories) *
           mw_ranks_node_count(training->ranks);
}

/* INT64_MAX: unknown, because the file system does not say. */
static int64_t
free_bytes(const char *directory)
{
    struct statvfs system;

    if (statvfs(directory, &system) || !system.f_blocks)
        return INT64_MAX;
    return (int64_t)MIN((double)system.f_bavail * (double)system.f_frsize, 0x1p62);
}

/* Counts the old run's bytes as free. */
static bool
has_space(const struct cli_run_drives *drives, const char *directory, GError **error)
{
    struct mw_run_files files;
    bool good = mw_run_files_look(directory, &files, error);
    int64_t need = needed_bytes(drives), have = files.bytes, unused = free_bytes(directory);

    mw_run_files_clear(&files);
    if (!good || unused == INT64_MAX)
        return good;
    have += unused;
    if (have >= need)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_IO,
                "%s: the run needs %" G_GINT64_FORMAT " bytes there, and %" G_GINT64_FORMAT
                " would be free without the run that it holds: nothing is deleted",
                directory, need, have);
    return false;
}

/* A rank that gets here has checked all that it could refuse, so if all ranks get here none will
 * refuse.  After this the old run's files move; a signal that arrived before ends the run with them
 * as they were. */
static bool
all_are_ready(const struct cli_run_drives *drives, GError **error)
{
    struct cli_training *training = drives->training;

    for (char **directory = drives->entry.directories; *directory; directory++)
        if (!has_space(drives, *directory, error))
            return false;
    if (!mw_ranks_worst(training->ranks, 0, cli_run_stop_wish(), &training->unstarted, NULL, error))
        return false;
    if (training->unstarted)
        g_set_error_literal(error, MW_ERROR, MW_ERROR_IO,
                            "stopped by a signal: nothing is deleted");
    return !training->unstarted;
}

/* --- setting aside ---------------------------------------------------------------------------- */

static bool
set_aside(struct cli_run_drives *drives, GError **error)
{
    for (char **directory = drives->entry.directories; *directory; directory++) {
        bool good = mw_run_aside_begin(*directory, error);
        drives->aside |= mw_run_aside_look(*directory) != MW_RUN_ASIDE_NONE;
        if (!good)
            return false;
    }
    return true;
}

/* A drive may not even have room for a description beside the old run. */
static bool
has_space_for_records(const struct cli_run_drives *drives)
{
    for (char **directory = drives->entry.directories; *directory; directory++)
        if (free_bytes(*directory) < SMALL_FILES_BYTES)
            return false;
    return true;
}

/* Machines take turns: they may see the same directories, or each its own. */
bool
cli_run_drives_overwrite(struct cli_run_drives *drives, GError **error)
{
    struct mw_ranks *ranks = drives->training->ranks;
    int worst;

    if (!cli_run_drives_options(drives)->overwrite || !cli_run_drives_trains(drives))
        return true;
    if (!all_are_ready(drives, error))
        return false;
    for (int turn = 0; turn < mw_ranks_count(ranks); turn++) {
        bool mine = drives->leader && turn == mw_ranks_index(ranks);
        if (mine && !set_aside(drives, error))
            return false;
        if (!mw_ranks_worst(ranks, 0, 0, &worst, NULL, error))
            return false;
    }
    if (drives->aside && !has_space_for_records(drives))
        cli_run_drives_delete_set_aside(drives);
    return true;
}

/* Looks at the directories: where a drive has no room for both runs, any rank deletes the old
 * one. */
bool
cli_run_drives_spare(const struct cli_run_drives *drives)
{
    bool any = false;

    for (char **each = drives->entry.directories; drives->aside && *each; each++) {
        enum mw_run_aside aside = mw_run_aside_look(*each);
        any |= aside == MW_RUN_ASIDE_MOVING || aside == MW_RUN_ASIDE_REPLACED;
    }
    return any;
}

/* --- deleting, or putting back ---------------------------------------------------------------- */

/* Deletes in the order of the directories, because the first one says for all that the new run has
 * begun.  If it stops at one, the next step tries again from there. */
static void
discard(struct cli_run_drives *drives)
{
    g_autoptr(GError) why = NULL;
    bool good = true;

    for (char **each = drives->entry.directories; *each && good; each++)
        good = cli_runs_discard(&drives->entry, *each, &why);
    if (!good && !drives->told_left)
        cli_say("the run that --overwrite deletes is left until later: %s", why->message);
    drives->told_left |= !good;
    drives->aside = !good;
}

bool
cli_run_drives_delete_set_aside(struct cli_run_drives *drives)
{
    char **directories = drives->entry.directories;
    bool any = false;

    for (char **each = directories; each && *each; each++)
        any |= mw_run_aside_look(*each) == MW_RUN_ASIDE_REPLACED;
    if (!any)
        return false;
    cli_say("%s: has no room for two runs: the old one is deleted before the first step of the new "
            "one",
            directories[0]);
    discard(drives);
    return true;
}

/* Until a step is durable and has changed something, a kill would leave nothing of the new run. */
void
cli_run_drives_begun(struct cli_run_drives *drives, bool committed, bool skipped)
{
    drives->begun |= !skipped && (committed || !cli_training_is_durable(drives->training));
    if (drives->aside && drives->begun)
        discard(drives);
}

void
cli_run_drives_ended(struct cli_run_drives *drives, bool kept)
{
    drives->begun |= kept;
    if (drives->aside && drives->begun)
        discard(drives);
}

/* What the new run left in directories that were empty is deleted too.  Before it has a name it has
 * left nothing, and the files there are the old run's. */
bool
cli_run_drives_put_back(struct cli_run_drives *drives)
{
    g_autoptr(GError) why = NULL;

    if (drives->begun || !cli_run_drives_spare(drives))
        return false;
    for (char **each = drives->entry.directories; drives->entry.name && *each; each++)
        if (!mw_run_aside_look(*each) && cli_runs_has(&drives->entry, *each))
            mw_run_files_remove(*each, true, NULL);
    if (!cli_runs_end_replacing_all(drives->entry.directories, true, &why))
        cli_say("what --overwrite had set aside will be put back by the next command that uses the "
                "directory: %s",
                why->message);
    drives->aside = false;
    return true;
}
