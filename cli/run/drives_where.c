/* Finds the directories of a run, and checks that no other run is in them. */
#include <glib/gstdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/run/drives_internal.h"
#include "cli/runs/aside.h"

static const struct cli_run_options *
options_of(const struct cli_run_drives *drives)
{
    return cli_run_drives_options(drives);
}

/* --- locks ----------------------------------------------------------------------------------- */

static bool
fail_missing(const struct cli_run_entry *entry, const char *directory, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_IO,
                "%s: the directory of %s%s is not there, or empty: is the drive mounted?",
                directory, entry->name ? "run " : "the run", entry->name ? entry->name : "");
    return false;
}

static struct mw_run_lock *
take_lock(const struct cli_run_drives *drives, const char *directory, GError **error)
{
    bool resume = options_of(drives)->resume;

    if (g_file_test(directory, resume ? G_FILE_TEST_IS_DIR : G_FILE_TEST_EXISTS))
        return mw_run_lock_take(directory, error);
    if (resume)
        fail_missing(&drives->entry, directory, error);
    else
        mw_refuse(error, "%s does not exist: make it first", directory);
    return NULL;
}

static bool
lock(struct cli_run_drives *drives, GError **error)
{
    const char *repeated = cli_runs_repeated(drives->entry.directories);

    if (repeated)
        return mw_refuse(error, "%s: is given twice: give one directory per drive", repeated);
    for (char **directory = drives->entry.directories; *directory; directory++) {
        struct mw_run_lock *taken = take_lock(drives, *directory, error);
        if (!taken) {
            g_ptr_array_set_size(drives->locks, 0);
            return false;
        }
        g_ptr_array_add(drives->locks, taken);
    }
    return cli_runs_end_replacing_all(drives->entry.directories, true, error);
}

/* --- where ----------------------------------------------------------------------------------- */

static bool
make_in(struct cli_run_drives *drives, char **where, GError **error)
{
    struct cli_run_entry *entry = &drives->entry;
    struct mw_run_lock *taken;

    entry->name = cli_runs_reserve(drives->training->request->model_name, where,
                                   &entry->directories, &taken, error);
    entry->made = entry->name != NULL;
    if (!entry->name)
        return false;
    if (where) {
        drives->listed = taken;
        return lock(drives, error);
    }
    g_ptr_array_add(drives->locks, taken); /* the list's folder is its directory */
    return true;
}

static bool
make_own(struct cli_run_drives *drives, GError **error)
{
    char **where;

    if (!cli_runs_drives(&where, error))
        return false;
    cli_runs_sweep();
    bool made = make_in(drives, where, error);
    g_strfreev(where);
    return made;
}

static bool
take_over(struct cli_run_drives *drives, struct cli_run *run, GError **error)
{
    cli_run_entry_clear(&drives->entry);
    drives->entry = run->entry;
    run->entry = (struct cli_run_entry){0};
    cli_run_free(run);
    return lock(drives, error);
}

void
cli_run_drives_say_continuing(const char *name, int64_t steps)
{
    cli_say("continuing run %s: %" G_GINT64_FORMAT " step%s durable", name, steps,
            steps == 1 ? " is" : "s are");
}

static bool
find_resumed(struct cli_run_drives *drives, GError **error)
{
    const char *name = options_of(drives)->resume_run;
    const char *newest = options_of(drives)->newest, *note = options_of(drives)->note;
    g_autofree char *unused = NULL;
    struct cli_run *run = name || newest ? cli_runs_find(name ? name : newest, error)
                                         : cli_runs_newest(&unused, error);

    if (!run)
        return false;
    if (note)
        cli_say("%s", note);
    if (run->state == CLI_RUN_DELETING) {
        mw_refuse(error, "run %s is being deleted: `memwall rm %s` finishes that", run->entry.name,
                  run->entry.name);
        cli_run_free(run);
        return false;
    }
    const bool away = run->state == CLI_RUN_AWAY;
    const char *missing = away ? cli_runs_missing(&run->entry) : NULL;
    const char *taken = away && !missing ? cli_runs_taken(&run->entry) : NULL;
    if (missing)
        fail_missing(&run->entry, missing, error);
    else if (taken)
        mw_refuse(error,
                  "%s: had state of run %s, and another run is there now: `memwall rm %s` deletes "
                  "what is left of that run",
                  taken, run->entry.name, run->entry.name);
    if (missing || taken) {
        cli_run_free(run);
        return false;
    }
    if (options_of(drives)->previous)
        drives->dropped = run->steps;
    else if (name)
        drives->named = run->steps;
    else
        cli_run_drives_say_continuing(run->entry.name, run->steps);
    return take_over(drives, run, error);
}

/* Keeps the directories that the user names.  A run that is resumed there keeps its name, unless
 * its description was copied from one that still exists. */
static bool
take_named(struct cli_run_drives *drives, GError **error)
{
    const struct cli_run_options *options = options_of(drives);
    struct cli_run_entry there;

    drives->entry.directories = g_strdupv(options->nvme);
    if (!lock(drives, error))
        return false;
    if (!options->resume || !cli_run_entry_read(options->nvme[0], &there, NULL))
        return true;
    if (cli_runs_is_copy(&there, options->nvme[0])) {
        cli_run_entry_clear(&there);
        return true;
    }
    there.made = there.made && cli_runs_names(&there, options->nvme[0]);
    g_strfreev(there.directories);
    there.directories = g_steal_pointer(&drives->entry.directories);
    drives->entry = there;
    return true;
}

static bool
find_first(struct cli_run_drives *drives, GError **error)
{
    if (options_of(drives)->nvme)
        return take_named(drives, error);
    return options_of(drives)->resume ? find_resumed(drives, error) : make_own(drives, error);
}

/* --- the same for all ranks ------------------------------------------------------------------ */

/* Whether the directories that were made for a run are in the list's folder rather than in folders
 * on drives. */
static bool
are_in_list(const struct cli_run_entry *entry)
{
    g_autofree char *base = cli_runs_base();
    g_autofree char *parent = g_path_get_dirname(entry->directories[0]);

    return cli_runs_same_directory(base, parent);
}

/* Words, each with its terminating zero: the name (may be empty); "1" if the directories were made
 * for it, "2" if they are in folders on drives; the time of creation; the directories. */
static GString *
as_text(const struct cli_run_entry *entry)
{
    GString *text = g_string_new(entry->name);

    g_string_append_c(text, '\0');
    g_string_append_len(text, !entry->made ? "0" : are_in_list(entry) ? "1" : "2", 2);
    g_string_append_len(text, entry->created, (gssize)strlen(entry->created) + 1);
    for (char **directory = entry->directories; *directory; directory++)
        g_string_append_len(text, *directory, (gssize)strlen(*directory) + 1);
    return text;
}

/* *listed: the value of are_in_list. */
static void
from_text(struct cli_run_entry *entry, bool *listed, const GString *text)
{
    const char *end = text->str + text->len, *at = text->str;
    g_autoptr(GPtrArray) words = g_ptr_array_new();

    for (; at < end; at += strlen(at) + 1)
        g_ptr_array_add(words, g_strdup(at));
    g_ptr_array_add(words, NULL);
    entry->name = g_ptr_array_steal_index(words, 0);
    g_autofree char *made = g_ptr_array_steal_index(words, 0);
    entry->made = strcmp(made, "0") != 0;
    *listed = !strcmp(made, "1");
    entry->created = g_ptr_array_steal_index(words, 0);
    entry->directories = (char **)g_ptr_array_steal(words, NULL);
    if (!*entry->name)
        g_clear_pointer(&entry->name, g_free);
}

/* Makes the directories on this machine, which may have its own.  If one is missing, its drive may
 * not be mounted. */
static bool
make_here(const struct cli_run_entry *entry, bool listed, GError **error)
{
    for (char **each = entry->directories; entry->made && *each; each++) {
        g_autofree char *parent = g_path_get_dirname(*each);
        if (listed)
            g_mkdir_with_parents(parent, 0700);
        else if (!g_file_test(parent, G_FILE_TEST_IS_DIR))
            return mw_refuse(error,
                             "MEMWALL_NVME: %s does not exist on %s: mount its drive, or make it "
                             "first",
                             parent, g_get_host_name());
        g_mkdir(*each, 0700);
    }
    return true;
}

static bool
share_entry(struct cli_run_drives *drives, GError **error)
{
    bool listed = true;
    struct mw_ranks *ranks = drives->training->ranks;
    GString *text = drives->first ? as_text(&drives->entry) : g_string_new(NULL);
    int64_t bytes = (int64_t)text->len;

    if (drives->alone) {
        g_string_free(text, TRUE);
        return true;
    }
    bool good = mw_ranks_broadcast(ranks, 0, &bytes, sizeof bytes, 0, error);
    if (good)
        g_string_set_size(text, (gsize)bytes);
    good = good && mw_ranks_broadcast(ranks, 0, text->str, bytes, 0, error);
    if (good && !drives->first)
        from_text(&drives->entry, &listed, text);
    g_string_free(text, TRUE);
    return good && (drives->first || make_here(&drives->entry, listed, error));
}

/* The time of creation distinguishes a run from the one that it replaces, which may have the same
 * name. */
static char *
first_time_of(const struct cli_run_drives *drives)
{
    char *now = cli_run_drives_now();
    struct cli_run_entry there;

    if (!cli_run_entry_read(drives->entry.directories[0], &there, NULL))
        return now;
    for (; !g_strcmp0(there.created, now); now = cli_run_drives_now()) {
        g_free(now);
        g_usleep(G_USEC_PER_SEC / 10);
    }
    cli_run_entry_clear(&there);
    return now;
}

bool
cli_run_drives_find(struct cli_run_drives *drives, GError **error)
{
    bool resume = options_of(drives)->resume;

    if (drives->first &&
        (!find_first(drives, error) || (resume && !cli_run_drives_hold_run(drives, error))))
        return false;
    if (drives->first && !drives->entry.created) /* descriptions on all machines have one time */
        drives->entry.created = first_time_of(drives);
    return share_entry(drives, error) &&
           (drives->first || !drives->leader || !drives->entry.directories ||
            cli_runs_end_replacing_all(drives->entry.directories, true, error));
}
