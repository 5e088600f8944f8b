/* Writes the description of a run beside its files and into the list of runs, so that it can be
 * found. */
#include <glib/gstdio.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/run/drives_internal.h"
#include "cli/run/homes.h"
#include "cli/run/taken.h"
#include "cli/runs/aside.h"
#include "report/json_result.h"

/* --- what a description says ------------------------------------------------------------------ */

char *
cli_run_drives_now(void)
{
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();

    return g_date_time_format(now, "%Y-%m-%dT%H:%M:%SZ");
}

bool
cli_run_drives_have_names(const struct cli_run_drives *drives, GError **error)
{
    const bool wanted = cli_training_is_durable(drives->training);

    for (char **each = drives->entry.directories; wanted && *each; each++) {
        g_autofree char *whole = g_canonicalize_filename(*each, NULL);
        if (!g_utf8_validate(whole, -1, NULL))
            return mw_refuse(error,
                             "%s: is not UTF-8: the run would not be found there again: rename it, "
                             "or name another directory by --nvme",
                             whole);
    }
    return true;
}

static void
replace_text(char **text, char *by)
{
    g_free(*text);
    *text = by;
}

static void
set_entry(struct cli_run_drives *drives)
{
    const struct cli_training *training = drives->training;
    const struct mw_result *r = training->answer->result;
    struct cli_run_entry *entry = &drives->entry;
    char **relative = entry->directories;
    guint count = g_strv_length(relative);

    replace_text(&entry->updated, cli_run_drives_now());
    replace_text(&entry->host, g_strdup(g_get_host_name()));
    replace_text(&entry->model, g_strdup(training->request->model_name));
    replace_text(&entry->strategy, g_strdup(r->strategy));
    entry->ranks = mw_ranks_count(training->ranks);
    entry->ranks_here = mw_ranks_node_count(training->ranks);
    entry->steps = training->options.steps;
    entry->durable = cli_training_is_durable(training);
    entry->directories = g_new0(char *, count + 1);
    for (guint i = 0; i < count; i++)
        entry->directories[i] = g_canonicalize_filename(relative[i], NULL);
    g_strfreev(relative);
}

/* Files that a resume continues to write. */
static const struct {
    const char *key;
    size_t offset;
} outputs[] = {{"save", offsetof(struct cli_run_options, save)},
               {"log", offsetof(struct cli_run_options, log)}};

#define OUTPUTS G_N_ELEMENTS(outputs)

static const char *
output_of(const struct cli_run_options *options, size_t i)
{
    return *(char *const *)((const char *)options + outputs[i].offset);
}

/* Leaves out a name that JSON cannot hold: a resume needs it again. */
static void
write_path(struct mw_json_writer *json, const char *key, const char *path)
{
    g_autofree char *absolute = path ? g_canonicalize_filename(path, NULL) : NULL;

    if (absolute && g_utf8_validate(absolute, -1, NULL))
        mw_json_string(json, key, absolute);
}

/* Settings of the plan, and options that a resume would otherwise need again. */
static void
write_settings(struct mw_json_writer *json, const void *data)
{
    const struct cli_training *training = data;
    const struct cli_run_options *o = &training->options;

    mw_json_integer(json, "slices", training->slices);
    mw_json_integer(json, "stages", training->stages);
    mw_json_integer(json, "sharding_groups", mw_plan_degree(training->answer->plan, MW_AXIS_RP));
    cli_run_taken_write(json, training);
    mw_json_settings(json, training->answer->result);
    mw_json_begin(json, "training", '{', false);
    write_path(json, "data", o->data);
    if (cli_training_has_frozen(training)) /* a resume reads them again */
        write_path(json, "weights", o->from ? o->from : o->weights);
    for (size_t i = 0; i < OUTPUTS; i++)
        write_path(json, outputs[i].key, output_of(o, i));
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

/* --- where it goes ---------------------------------------------------------------------------- */

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

/* Whether a listed run is another than this one, or than the one that these directories held
 * before. */
static bool
is_anothers(const struct cli_run_drives *drives, const struct cli_run_entry *listed)
{
    bool another = g_strcmp0(listed->created, drives->entry.created) != 0, successor = true;

    for (char **each = listed->directories; *each && successor; each++)
        successor = cli_runs_names(&drives->entry, *each);
    return another && !successor;
}

/* Names belong to a machine and a user.  Where a run was moved here from another machine, a run of
 * this one may have its name, and even its state in the list's folder. */
static bool
is_name_free(const struct cli_run_drives *drives, const char *folder, GError **error)
{
    struct mw_run_files files;
    struct cli_run_entry listed;
    bool held = mw_run_files_look(folder, &files, NULL) && (files.record || files.has_data);

    mw_run_files_clear(&files);
    if (!held && cli_run_entry_read(folder, &listed, NULL)) {
        held = is_anothers(drives, &listed);
        cli_run_entry_clear(&listed);
    }
    return !held || mw_refuse(error,
                              "%s is the name of another run there: --resume %s "
                              "continues this one",
                              drives->entry.name, drives->entry.directories[0]);
}

/* Lists the run, unless this user has no place for lists. */
static void
write_listed(struct cli_run_drives *drives)
{
    g_autofree char *base = cli_runs_base();
    g_autofree char *folder = g_build_filename(base, drives->entry.name, NULL);
    g_autoptr(GError) why = NULL;

    if (drives->unlisted || cli_runs_names(&drives->entry, folder))
        return;
    if (cli_runs_make_base(&why))
        g_mkdir(folder, 0700);
    drives->unlisted =
        why || !is_name_free(drives, folder, &why) ||
        !cli_run_entry_write(folder, &drives->entry, write_settings, drives->training, &why);
    if (drives->unlisted)
        cli_say("`memwall list runs` will not show this run: %s", why->message);
}

/* Gives the run a name if the user chose its directories. */
static void
name_it(struct cli_run_drives *drives)
{
    g_autoptr(GError) why = NULL;

    if (drives->entry.name)
        return;
    drives->entry.name =
        cli_runs_reserve(drives->training->request->model_name, NULL, NULL, &drives->listed, &why);
    if (!drives->entry.name)
        drives->entry.name = cli_run_entry_model_word(drives->training->request->model_name);
}

bool
cli_run_drives_describe(struct cli_run_drives *drives, GError **error)
{
    bool wanted = drives->entry.made || cli_training_is_durable(drives->training);

    if (!drives->entry.directories || !wanted || !drives->leader)
        return true;
    for (char **each = drives->entry.directories; drives->fresh && *each; each++)
        cli_runs_unlist(&drives->entry, *each, *each);
    name_it(drives);
    set_entry(drives);
    if (!write_all(drives, error))
        return false;
    write_listed(drives);
    mw_run_lock_release(g_steal_pointer(&drives->listed)); /* the description has it now */
    return true;
}

/* --- runs that have a description already ----------------------------------------------------- */

char *
cli_run_drives_made_name(const struct cli_run_drives *drives)
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

static bool
is_described(const struct cli_run_drives *drives)
{
    struct cli_run_entry there;
    bool is = cli_run_entry_read(drives->entry.directories[0], &there, NULL);

    if (is)
        cli_run_entry_clear(&there);
    return is;
}

/* Whether other files are written than those of the description. */
static bool
has_other_outputs(const struct cli_run_drives *drives)
{
    JsonNode *root = cli_run_entry_parse(drives->entry.directories[0], NULL);
    JsonObject *described = cli_run_entry_part(root, "training");
    bool other = false;

    for (size_t i = 0; i < OUTPUTS && described; i++) {
        const char *was = NULL, *path = output_of(&drives->training->options, i);
        g_autofree char *now = path ? g_canonicalize_filename(path, NULL) : NULL;
        mw_json_get_string(described, outputs[i].key, "", &was, NULL);
        other |= g_strcmp0(was, now) != 0;
    }
    if (root)
        json_node_unref(root);
    return other;
}

/* An outdated description does no harm, so a full drive does not end the run. */
bool
cli_run_drives_describe_again(struct cli_run_drives *drives, bool changed, GError **error)
{
    g_autoptr(GError) why = NULL;

    if (!drives->leader || !drives->entry.name || !is_described(drives))
        return cli_run_drives_describe(drives, error);
    set_entry(drives);
    drives->described = true;
    if ((changed || has_other_outputs(drives)) && !write_all(drives, &why))
        cli_say("the run's description stays as it was: %s", why->message);
    return true;
}

/* --- the last durable step -------------------------------------------------------------------- */

/* False: this is not known. */
static bool
look_at_steps(struct cli_run_drives *drives, bool *durable)
{
    struct cli_run_entry *entry = &drives->entry;
    struct mw_run_files files;
    bool good = mw_run_files_look(entry->directories[0], &files, NULL) && !files.stranger;

    *durable = files.record != NULL;
    entry->last_step = files.step + 1;
    mw_run_files_clear(&files);
    return good;
}

/* The directories may be another run's since: moved, linked or mounted. */
static bool
are_in_place(const struct cli_run_drives *drives)
{
    bool are = true;

    for (char **each = drives->entry.directories; *each && are; each++) {
        struct cli_run_entry there;
        if (!cli_run_entry_read(*each, &there, NULL))
            continue;
        are = !g_strcmp0(there.created, drives->entry.created) &&
              !g_strcmp0(there.name, drives->entry.name);
        cli_run_entry_clear(&there);
    }
    return are;
}

static void
write_anew(struct cli_run_drives *drives)
{
    if (!are_in_place(drives))
        return;
    replace_text(&drives->entry.updated, cli_run_drives_now());
    write_all(drives, NULL);
    write_listed(drives);
}

void
cli_run_drives_note_step(struct cli_run_drives *drives)
{
    bool durable;

    if (drives->described && drives->leader && !drives->entry.last_step &&
        look_at_steps(drives, &durable) && drives->entry.last_step)
        write_anew(drives);
}

void
cli_run_drives_describe_end(struct cli_run_drives *drives)
{
    bool durable, good = look_at_steps(drives, &durable);

    if (!good || (!durable && !drives->fresh))
        return;
    if (durable)
        write_anew(drives);
    else
        drives->forgotten = cli_runs_remove(&drives->entry, true, NULL);
}
