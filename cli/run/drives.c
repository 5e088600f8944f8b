#include "cli/run/drives.h"

#include <glib/gstdio.h>
#include <string.h>

#include "cli/options.h"
#include "cli/run/drives_internal.h"

/* --- the beginning --------------------------------------------------------------------------- */

static void
find_commit(void *data, const char *name, const char *text)
{
    bool *given = data;

    *given = *given || (!strcmp(name, "commit") && !strcmp(text, "step"));
}

struct cli_run_drives *
cli_run_drives_open(struct cli_training *training, GError **error)
{
    struct cli_run_drives *drives = g_new0(struct cli_run_drives, 1);

    drives->training = training;
    drives->first = mw_ranks_index(training->ranks) == 0;
    drives->leader = mw_ranks_node_index(training->ranks) == 0;
    drives->alone = mw_ranks_count(training->ranks) == 1;
    drives->locks = g_ptr_array_new_with_free_func((GDestroyNotify)mw_run_lock_release);
    drives->fresh = !training->options.resume;
    if (!training->answer->plan->peak_bytes[MW_TIER_NVME]) {
        bool commits = false;
        cli_options_each(find_commit, &commits);
        if (training->options.nvme && drives->first)
            cli_say("--nvme %s: is not used: %s keeps nothing on NVMe here",
                    training->options.nvme[0], training->answer->result->strategy);
        if (commits && drives->first)
            cli_say("--commit step: has no effect: %s keeps nothing on NVMe here; --save-every K "
                    "makes every K-th step durable",
                    training->answer->result->strategy);
        return drives;
    }
    if (cli_run_drives_find(drives, error) && cli_run_drives_have_names(drives, error) &&
        (!drives->fresh || cli_run_drives_are_free(drives, error))) {
        g_strfreev(training->options.nvme);
        training->options.nvme = g_strdupv(drives->entry.directories);
        return drives;
    }
    cli_run_drives_close(drives, false);
    return NULL;
}

bool
cli_run_drives_begin(struct cli_run_drives *drives, GError **error)
{
    struct cli_run_entry *entry = &drives->entry;

    if (!entry->directories)
        return true;
    g_autofree char *name = drives->fresh && !entry->name ? cli_run_drives_made_name(drives) : NULL;
    if (!cli_run_drives_overwrite(drives, error))
        return false;
    if (name) {
        entry->name = g_steal_pointer(&name);
        entry->made = true;
    }
    return !drives->fresh || cli_run_drives_describe(drives, error);
}

bool
cli_run_drives_resumed(struct cli_run_drives *drives, bool changed, GError **error)
{
    if (drives->fresh)
        return true;
    const char *name = drives->entry.name ? drives->entry.name : drives->entry.directories[0];
    if (drives->named)
        cli_run_drives_say_continuing(name, drives->named);
    if (drives->dropped)
        cli_say("continuing run %s from step %" G_GINT64_FORMAT "; step %" G_GINT64_FORMAT
                " is dropped",
                name, mw_trainer_next_step(drives->training->trainer), drives->dropped);
    const bool previous = drives->training->options.previous;
    if (previous) /* the dropped step is no longer durable; the first commit notes its own */
        drives->entry.last_step = 0;
    else if (drives->first)
        cli_runs_tell_lost_step(cli_runs_noted_step(drives->entry.directories[0]),
                                mw_trainer_next_step(drives->training->trainer), "continuing from");
    return cli_run_drives_describe_again(drives, changed || previous, error);
}

const char *
cli_run_drives_name(const struct cli_run_drives *drives)
{
    return drives->entry.name;
}

bool
cli_run_drives_are_own(const struct cli_run_drives *drives)
{
    return drives->entry.made && !drives->unlisted;
}

char *
cli_run_drives_called(const struct cli_run_drives *drives)
{
    char **directories = drives->training->options.nvme;
    struct cli_run_entry there;
    bool moved = false;

    if (cli_run_drives_are_own(drives))
        return g_strdup(drives->entry.name);
    if (directories[1] && cli_run_entry_read(directories[0], &there, NULL)) {
        moved = !cli_runs_names(&there, directories[0]);
        cli_run_entry_clear(&there);
    }
    return moved ? g_strjoinv(" ", directories) : g_strdup(directories[0]);
}

char *
cli_run_drives_kept_text(const struct cli_run_drives *drives)
{
    const char *name = drives->entry.name;
    g_autofree char *way = drives->training->diverged /* what to continue from has been said */
                               ? g_strdup("")
                               : g_strdup_printf("--resume %s continues it, ", name);

    return g_strdup_printf("kept as run %s: %s`memwall rm %s` deletes it", name, way, name);
}

const char *
cli_run_drives_anew(struct cli_run_drives *drives)
{
    const struct cli_run_entry *entry = &drives->entry;

    if (!drives->anew && entry->made)
        drives->anew =
            g_strdup_printf("start anew (`memwall rm %s` deletes this run)", entry->name);
    return drives->anew;
}

/* --- the end --------------------------------------------------------------------------------- */

/* Removes folders that held a lock until now. */
static void
remove_empty(const struct cli_run_entry *entry)
{
    g_autofree char *base = cli_runs_base();
    g_autofree char *folder = g_build_filename(base, entry->name, NULL);

    for (char **directory = entry->directories; *directory; directory++)
        g_rmdir(*directory);
    g_rmdir(folder);
}

static void
say_kept(const struct cli_run_drives *drives, bool finished)
{
    if (!drives->first || !drives->entry.last_step || drives->training->stopped)
        return;
    const char *directory = drives->training->options.nvme[0]; /* as it was typed */
    bool own = cli_run_drives_are_own(drives);
    if (!own && finished)
        cli_say("durable in %s: --resume %s continues it; `memwall rm %s` deletes it", directory,
                directory, directory);
    if (!own)
        return;
    g_autofree char *kept = cli_run_drives_kept_text(drives);
    cli_say("%s", kept);
}

void
cli_run_drives_close(struct cli_run_drives *drives, bool together)
{
    if (!drives)
        return;
    together = together && mw_ranks_barrier(drives->training->ranks, 0, NULL);
    bool spared = (together || drives->alone) && cli_run_drives_put_back(drives);
    if (spared)
        cli_run_entry_clear(&drives->entry);
    else if (drives->described && (together || drives->alone)) {
        cli_run_drives_describe_end(drives);
        say_kept(drives, together);
    } else if (drives->entry.made && !drives->described && drives->fresh && drives->leader &&
               (together || drives->alone)) /* no rank has created anything */
        drives->forgotten = cli_runs_remove(&drives->entry, true, NULL);
    mw_run_lock_release(drives->listed);
    g_ptr_array_unref(drives->locks);
    if (drives->forgotten && drives->entry.made)
        remove_empty(&drives->entry);
    cli_run_entry_clear(&drives->entry);
    g_free(drives->anew);
    g_free(drives);
}
