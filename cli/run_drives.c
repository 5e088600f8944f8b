#include "cli/run_drives.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "cli/run_homes.h"
#include "cli/runs.h"
#include "exec/run_files.h"
#include "planner/error.h"
#include "report/json_parts.h"

#define ATTEMPTS 8 /* a folder that was just made may be taken for what a killed run left */

struct cli_run_drives {
    struct cli_training *training; /* borrowed */
    struct cli_run_entry entry;    /* no directories: a plan without drives */
    GPtrArray *locks;              /* of the first rank */
    bool first, leader, alone;     /* this rank: of all, of a machine, without others */
    bool fresh;                    /* no step of it was committed before */
    bool described;
    bool forgotten; /* its directories go with it */
    char *anew;
    int64_t dropped; /* step, from 1, that the newest run is gone on with without; 0: none */
};

static const struct cli_run_options *
options_of(const struct cli_run_drives *drives)
{
    return &drives->training->options;
}

/* Of a run that trains nothing the files have other names. */
static bool
trains(const struct cli_run_drives *drives)
{
    return options_of(drives)->backend != &mw_backend_null;
}

/* --- where ----------------------------------------------------------------------------------- */

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
    if (!options_of(drives)->resume || g_file_test(directory, G_FILE_TEST_IS_DIR))
        return mw_run_lock_take(directory, error);
    fail_missing(&drives->entry, directory, error);
    return NULL;
}

static bool
lock(struct cli_run_drives *drives, GError **error)
{
    for (char **directory = drives->entry.directories; *directory; directory++) {
        struct mw_run_lock *taken = take_lock(drives, *directory, error);
        if (!taken) {
            g_ptr_array_set_size(drives->locks, 0);
            return false;
        }
        g_ptr_array_add(drives->locks, taken);
    }
    return true;
}

static bool
make_own(struct cli_run_drives *drives, GError **error)
{
    struct cli_run_entry *entry = &drives->entry;
    g_auto(GStrv) where = cli_runs_drives();

    cli_runs_sweep();
    for (int attempt = 1;; attempt++) {
        entry->name = cli_runs_reserve(drives->training->request->model_name, where,
                                       &entry->directories, error);
        if (!entry->name)
            return false;
        entry->made = true;
        if (lock(drives, attempt < ATTEMPTS ? NULL : error))
            return true;
        if (attempt == ATTEMPTS)
            return false;
        g_clear_pointer(&entry->name, g_free);
        g_clear_pointer(&entry->directories, g_strfreev);
        entry->made = false;
    }
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

static bool
find_resumed(struct cli_run_drives *drives, GError **error)
{
    const char *name = options_of(drives)->resume_run;
    struct cli_run *run = name ? cli_runs_find(name, error) : cli_runs_newest(error);

    if (!run)
        return false;
    const char *missing = run->state == CLI_RUN_AWAY ? cli_runs_missing(&run->entry) : NULL;
    if (missing) {
        fail_missing(&run->entry, missing, error);
        cli_run_free(run);
        return false;
    }
    if (!name && options_of(drives)->previous)
        drives->dropped = run->steps;
    else if (!name)
        cli_say("going on with %s: %" G_GINT64_FORMAT " step%s durable", run->entry.name,
                run->steps, run->steps == 1 ? " is" : "s are");
    return take_over(drives, run, error);
}

/* What the user names stays as it is; a run that is gone on with there keeps its name, unless its
 * description was copied from one that is still there. */
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

/* Words, each with its zero: the name (may be empty), "1" where it was made, the directories. */
static GString *
as_text(const struct cli_run_entry *entry)
{
    GString *text = g_string_new(entry->name);

    g_string_append_c(text, '\0');
    g_string_append_len(text, entry->made ? "1" : "0", 2);
    for (char **directory = entry->directories; *directory; directory++)
        g_string_append_len(text, *directory, (gssize)strlen(*directory) + 1);
    return text;
}

static void
from_text(struct cli_run_entry *entry, const GString *text)
{
    const char *end = text->str + text->len, *at = text->str;
    g_autoptr(GPtrArray) words = g_ptr_array_new();

    for (; at < end; at += strlen(at) + 1)
        g_ptr_array_add(words, g_strdup(at));
    g_ptr_array_add(words, NULL);
    entry->name = g_ptr_array_steal_index(words, 0);
    g_autofree char *made = g_ptr_array_steal_index(words, 0);
    entry->made = !strcmp(made, "1");
    entry->directories = (char **)g_ptr_array_steal(words, NULL);
    if (!*entry->name)
        g_clear_pointer(&entry->name, g_free);
}

static bool
share(struct cli_run_drives *drives, GError **error)
{
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
        from_text(&drives->entry, text);
    g_string_free(text, TRUE);
    /* Each machine may have its own. */
    for (char **each = drives->entry.directories; good && drives->entry.made && *each; each++)
        g_mkdir_with_parents(*each, 0700);
    return good;
}

/* --- what other runs have left there --------------------------------------------------------- */

/* What holds no whole step cannot be gone on with. */
static bool
refuse_run(const char *directory, const struct mw_run_files *files, GError **error)
{
    if (files->step < 0)
        return mw_refuse(error,
                         "%s: holds a run without a whole step (%s): `memwall verify %s` says what "
                         "is damaged, --overwrite deletes it, --nvme DIR names another directory",
                         directory, files->record, directory);
    return mw_refuse(error,
                     "%s: holds a run of %" G_GINT64_FORMAT " step%s (%s): --resume goes on with "
                     "it, --overwrite deletes it, --nvme DIR names another directory",
                     directory, files->step + 1, files->step ? "s" : "", files->record);
}

/* Neither a run that nobody has given up, nor a file that no run has left. */
static bool
is_free(const struct cli_run_drives *drives, const char *directory, GError **error)
{
    struct mw_run_files files;
    bool good = mw_run_files_look(directory, &files, error);

    bool ours = trains(drives) ||
                (files.unclaimed && g_str_has_prefix(files.unclaimed, drives->training->stem));
    if (good && files.unclaimed && ours)
        good = mw_refuse(error,
                         "%s/%s: would be overwritten, and nothing beside it says that a run has "
                         "left it: move it away or delete it, or --nvme DIR names another "
                         "directory",
                         directory, files.unclaimed);
    if (good && files.foreign && !files.record && !options_of(drives)->overwrite) {
        g_set_error(error, MW_ERROR, MW_ERROR_IO,
                    "%s/%s: nobody can tell whether a run is there, and nothing is touched: move "
                    "it away, or --nvme DIR names another directory",
                    directory, files.foreign);
        good = false;
    }
    if (good && files.record && !options_of(drives)->overwrite && trains(drives))
        good = refuse_run(directory, &files, error);
    mw_run_files_clear(&files);
    return good;
}

static bool
all_free(const struct cli_run_drives *drives, GError **error)
{
    if (options_of(drives)->resume)
        return true;
    for (char **directory = drives->entry.directories; *directory; directory++)
        if (!is_free(drives, *directory, error))
            return false;
    return true;
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
    if (!training->answer->plan->peak_bytes[MW_TIER_NVME])
        return drives;
    if ((!drives->first || find_first(drives, error)) && share(drives, error) &&
        all_free(drives, error)) {
        g_strfreev(training->options.nvme);
        training->options.nvme = g_strdupv(drives->entry.directories);
        return drives;
    }
    cli_run_drives_close(drives, false);
    return NULL;
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

/* --- overwriting ----------------------------------------------------------------------------- */

/* What the description of another run in this directory says of the list holds no more. */
static void
take_from_list(const char *directory)
{
    g_autofree char *base = cli_runs_base();
    struct cli_run_entry there, listed;

    if (!cli_run_entry_read(directory, &there, NULL))
        return;
    bool own = cli_runs_names(&there, directory);
    g_autofree char *folder = g_build_filename(base, there.name, NULL);
    if (own && !there.made && cli_run_entry_read(folder, &listed, NULL)) {
        bool same = g_strv_equal((const char *const *)listed.directories,
                                 (const char *const *)there.directories);
        cli_run_entry_clear(&listed);
        if (same && mw_run_files_remove(folder, false, NULL))
            g_rmdir(folder);
    }
    cli_run_entry_clear(&there);
}

static bool
overwrite(const char *directory, GError **error)
{
    take_from_list(directory);
    return mw_run_files_remove(directory, true, error);
}

/* At the least: other directories may be on the same drive. */
static int64_t
needed_bytes(const struct cli_run_drives *drives)
{
    const struct cli_training *training = drives->training;
    int64_t bytes = training->answer->plan->peak_bytes[MW_TIER_NVME];

    return bytes / (int64_t)g_strv_length(drives->entry.directories) *
           mw_ranks_node_count(training->ranks);
}

/* With what is about to go. */
static bool
has_room(const struct cli_run_drives *drives, const char *directory, GError **error)
{
    struct mw_run_files files;
    struct statvfs system;
    bool good = mw_run_files_look(directory, &files, error);
    int64_t need = needed_bytes(drives), have = files.bytes;

    mw_run_files_clear(&files);
    if (!good || statvfs(directory, &system))
        return good;
    have += (int64_t)system.f_bavail * (int64_t)system.f_frsize;
    if (have >= need)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_IO,
                "%s: the run needs %" G_GINT64_FORMAT " bytes there, and %" G_GINT64_FORMAT
                " would be free without the run that it holds: nothing is deleted",
                directory, need, have);
    return false;
}

/* Ranks that come here have checked all that they could refuse: where all do, none has. */
static bool
all_have_room(const struct cli_run_drives *drives, GError **error)
{
    int worst;

    for (char **directory = drives->entry.directories; *directory; directory++)
        if (!has_room(drives, *directory, error))
            return false;
    return mw_ranks_worst(drives->training->ranks, 0, 0, &worst, NULL, error);
}

/* One after the other: ranks may see the same directories, or each machine its own. */
static bool
clear(struct cli_run_drives *drives, GError **error)
{
    struct mw_ranks *ranks = drives->training->ranks;
    int worst;

    if (!options_of(drives)->overwrite || !trains(drives))
        return true;
    if (!all_have_room(drives, error))
        return false;
    for (int turn = 0; turn < mw_ranks_count(ranks); turn++) {
        bool mine = turn == mw_ranks_index(ranks);
        for (char **directory = drives->entry.directories; mine && *directory; directory++)
            if (!overwrite(*directory, error))
                return false;
        if (!mw_ranks_worst(ranks, 0, 0, &worst, NULL, error))
            return false;
    }
    return true;
}

/* --- description ----------------------------------------------------------------------------- */

static char *
now_text(void)
{
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();

    return g_date_time_format(now, "%Y-%m-%dT%H:%M:%SZ");
}

static void
replace_text(char **text, char *by)
{
    g_free(*text);
    *text = by;
}

static void
fill_in(struct cli_run_drives *drives)
{
    const struct cli_training *training = drives->training;
    const struct mw_result *r = training->answer->result;
    struct cli_run_entry *entry = &drives->entry;
    char **relative = entry->directories;
    guint count = g_strv_length(relative);

    if (!entry->created)
        entry->created = now_text();
    replace_text(&entry->updated, now_text());
    replace_text(&entry->host, g_strdup(g_get_host_name()));
    replace_text(&entry->model, g_strdup(training->request->model_name));
    replace_text(&entry->strategy, g_strdup(r->strategy));
    entry->ranks = mw_ranks_count(training->ranks);
    entry->steps = training->options.steps;
    entry->directories = g_new0(char *, count + 1);
    for (guint i = 0; i < count; i++)
        entry->directories[i] = g_canonicalize_filename(relative[i], NULL);
    g_strfreev(relative);
}

/* Of the plan and of what a resume has to be given again. */
static void
write_settings(struct mw_json_writer *json, const void *data)
{
    const struct cli_training *training = data;
    const struct cli_run_options *o = &training->options;
    g_autofree char *path = g_canonicalize_filename(o->data, NULL);

    mw_json_settings(json, training->answer->result);
    mw_json_begin(json, "training", '{', false);
    mw_json_string(json, "data", path);
    mw_json_integer(json, "seed", (int64_t)o->seed);
    mw_json_boolean(json, "shuffle", o->shuffle);
    mw_json_number(json, "lr", o->schedule.lr);
    mw_json_integer(json, "warmup", o->schedule.warmup_steps);
    mw_json_number(json, "beta1", o->optimizer.beta1);
    mw_json_number(json, "beta2", o->optimizer.beta2);
    mw_json_number(json, "epsilon", o->optimizer.epsilon);
    mw_json_number(json, "weight_decay", o->optimizer.weight_decay);
    mw_json_number(json, "clip", o->optimizer.clip_norm);
    mw_json_end(json, '}');
    if (cli_training_is_durable(training))
        cli_run_homes_write(json, training);
}

static bool
write_all(struct cli_run_drives *drives, GError **error)
{
    const struct cli_run_entry *entry = &drives->entry;

    for (char **directory = entry->directories; *directory; directory++)
        if (!cli_run_entry_write(*directory, entry, write_settings, drives->training, error))
            return false;
    drives->described = true;
    return true;
}

/* The run is listed, unless this user has no place for lists. */
static void
write_listed(const struct cli_run_drives *drives)
{
    g_autofree char *base = cli_runs_base();
    g_autofree char *folder = g_build_filename(base, drives->entry.name, NULL);
    g_autoptr(GError) why = NULL;

    if (g_strv_contains((const char *const *)drives->entry.directories, folder))
        return;
    g_mkdir_with_parents(folder, 0700);
    if (!cli_run_entry_write(folder, &drives->entry, write_settings, drives->training, &why))
        cli_say("`memwall list runs` will not have this run: %s", why->message);
}

/* A run in directories of the user's gets a name here. */
static void
name_it(struct cli_run_drives *drives)
{
    g_autoptr(GError) why = NULL;

    if (drives->entry.name)
        return;
    drives->entry.name = cli_runs_reserve(drives->training->request->model_name, NULL, NULL, &why);
    if (!drives->entry.name)
        drives->entry.name = cli_run_entry_model_word(drives->training->request->model_name);
}

static bool
describe(struct cli_run_drives *drives, GError **error)
{
    bool wanted = drives->entry.made || cli_training_is_durable(drives->training);

    if (!drives->entry.directories || !wanted || !drives->leader)
        return true;
    for (char **each = drives->entry.directories; drives->fresh && *each; each++)
        take_from_list(*each);
    name_it(drives);
    fill_in(drives);
    if (!write_all(drives, error))
        return false;
    write_listed(drives);
    return true;
}

/* Of the run that was made these directories: they are its successor's under its name. */
static char *
made_name(const struct cli_run_drives *drives)
{
    char **directories = drives->entry.directories;
    struct cli_run_entry there;
    char *name = NULL;

    if (!cli_run_entry_read(directories[0], &there, NULL))
        return NULL;
    bool same = there.made && g_strv_length(there.directories) == g_strv_length(directories);
    for (char **each = directories; same && *each; each++)
        same = cli_runs_names(&there, *each);
    if (same)
        name = g_strdup(there.name);
    cli_run_entry_clear(&there);
    return name;
}

bool
cli_run_drives_begin(struct cli_run_drives *drives, GError **error)
{
    struct cli_run_entry *entry = &drives->entry;

    if (!entry->directories)
        return true;
    g_autofree char *name = drives->fresh && !entry->name ? made_name(drives) : NULL;
    if (!clear(drives, error))
        return false;
    if (name) {
        entry->name = g_steal_pointer(&name);
        entry->made = true;
    }
    return !drives->fresh || describe(drives, error);
}

static bool
is_described(const struct cli_run_drives *drives)
{
    struct cli_run_entry there;
    bool is = cli_run_entry_read(drives->entry.directories[0], &there, NULL);

    if (is)
        cli_run_entry_clear(&there);
    return is;
}

/* What is there still holds, and a full drive does not keep it from going on. */
bool
cli_run_drives_resumed(struct cli_run_drives *drives, bool changed, GError **error)
{
    g_autoptr(GError) why = NULL;

    if (drives->fresh)
        return true;
    if (drives->dropped)
        cli_say("going on with %s from step %" G_GINT64_FORMAT "; step %" G_GINT64_FORMAT
                " is dropped",
                drives->entry.name, mw_trainer_next_step(drives->training->trainer),
                drives->dropped);
    if (!drives->leader || !drives->entry.name || !is_described(drives))
        return describe(drives, error);
    fill_in(drives);
    drives->described = true;
    if (changed && !write_all(drives, &why))
        cli_say("the run's description stays as it was: %s", why->message);
    return true;
}

/* --- the end --------------------------------------------------------------------------------- */

/* Of a run that ends well without a durable step nothing stays. */
static void
settle(struct cli_run_drives *drives)
{
    struct cli_run_entry *entry = &drives->entry;
    struct mw_run_files files;
    bool good = mw_run_files_look(entry->directories[0], &files, NULL) && !files.foreign;
    bool durable = files.record != NULL;

    entry->last_step = files.step + 1;
    mw_run_files_clear(&files);
    if (!good || (!durable && !drives->fresh))
        return;
    if (!durable) {
        drives->forgotten = cli_runs_remove(entry, true, NULL);
        return;
    }
    replace_text(&entry->updated, now_text());
    write_all(drives, NULL);
    write_listed(drives);
}

/* Folders that a lock was in until now. */
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
say_kept(const struct cli_run_drives *drives)
{
    const char *name = drives->entry.name;

    if (!drives->first || !drives->entry.made || !drives->entry.last_step)
        return;
    if (drives->training->diverged) /* what to go on from has been said */
        cli_say("kept as run %s: `memwall rm %s` deletes it", name, name);
    else
        cli_say("kept as run %s: --resume %s goes on with it, `memwall rm %s` deletes it",
                name, name, name);
}

void
cli_run_drives_close(struct cli_run_drives *drives, bool together)
{
    if (!drives)
        return;
    together = together && mw_ranks_barrier(drives->training->ranks, 0, NULL);
    if (drives->described && (together || drives->alone)) {
        settle(drives);
        say_kept(drives);
    } else if (drives->entry.made && !drives->described && drives->alone && drives->fresh)
        drives->forgotten = cli_runs_remove(&drives->entry, true, NULL);
    g_ptr_array_unref(drives->locks);
    if (drives->forgotten && drives->entry.made)
        remove_empty(&drives->entry);
    cli_run_entry_clear(&drives->entry);
    g_free(drives->anew);
    g_free(drives);
}
