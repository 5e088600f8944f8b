/*
 * Checks that the directories which a resume is given are those of one run.
 *
 * To resume with a copy of one directory beside the run's other originals would make the original
 * of that copy worthless.  So would a mix of two runs: if they were trained alike their bits agree,
 * and no checksum shows it.  A copy is recognised by its original, which is still there with the
 * run's state; a run that was moved left nothing in the old places.  The content of a directory
 * without a description is compared with the record.
 */
#include "base/error.h"
#include "cli/run/drives_internal.h"

/* "--nvme A --nvme B", without the directories of `without`, which may be NULL. */
static char *
options_text(char **directories, const struct cli_run_entry *without)
{
    GString *text = g_string_new(NULL);

    for (; *directories; directories++)
        if (!without || !cli_runs_names(without, *directories))
            g_string_append_printf(text, "%s--nvme %s", text->len ? " " : "", *directories);
    return g_string_free(text, FALSE);
}

/* Path of the first description found; NULL: there is none. */
static const char *
read_first(char **given, struct cli_run_entry *run)
{
    for (; *given; given++)
        if (cli_run_entry_read(*given, run, NULL))
            return *given;
    return NULL;
}

static bool
has_all(const struct cli_run_drives *drives, const struct cli_run_entry *run, const char *where,
        GError **error)
{
    char **given = drives->entry.directories;
    const guint wanted = g_strv_length(run->directories), count = g_strv_length(given);
    guint own = 0;

    if (count == wanted)
        return true;
    for (char **each = given; *each; each++)
        own += cli_runs_names(run, *each);
    g_autofree char *others = options_text(run->directories, &drives->entry);
    g_autofree char *all = options_text(run->directories, NULL);
    if (own == count)
        return mw_refuse(error, "%s: run %s has %u directories: give also %s, in the order %s",
                         where, run->name, wanted, others, all);
    return mw_refuse(error,
                     "%s: run %s has %u director%s, and --nvme names %u: give one for each of %s, "
                     "in this order",
                     where, run->name, wanted, wanted == 1 ? "y" : "ies", count, all);
}

static bool
are_of_one(const struct cli_run_drives *drives, const struct cli_run_entry *run, const char *where,
           GError **error)
{
    struct cli_run_entry other;

    for (char **each = drives->entry.directories; *each; each++) {
        if (!cli_runs_has_another(run, *each) || !cli_run_entry_read(*each, &other, NULL))
            continue;
        g_autofree char *all = options_text(run->directories, NULL);
        g_autofree char *others = options_text(other.directories, NULL);
        mw_refuse(error,
                  "%s: has state of run %s, which is in %s, and %s of run %s, which is in %s: give "
                  "the directories of one of them",
                  *each, other.name, others, where, run->name, all);
        cli_run_entry_clear(&other);
        return false;
    }
    return true;
}

static bool
refuse_copy(const struct cli_run_entry *run, const char *copy, const char *original,
            const char *own, GError **error)
{
    g_autofree char *all = options_text(run->directories, NULL);

    return mw_refuse(
        error,
        "%s: is a copy of %s, which still has its state of run %s, and %s is not a copy: "
        "to continue with both would ruin that run: give %s, or copies of all; or move %s away, "
        "for the copy to take its place",
        copy, original, run->name, own, all, original);
}

static bool
are_no_mixture(const struct cli_run_drives *drives, const struct cli_run_entry *run, GError **error)
{
    char **given = drives->entry.directories, **named = run->directories;
    const char *copy = NULL, *original = NULL, *own = NULL;

    for (guint i = 0; given[i]; i++) {
        if (cli_runs_same_directory(named[i], given[i]) || !cli_runs_has_state(run, named[i])) {
            own = given[i];
            continue;
        }
        if (cli_runs_names(&drives->entry, named[i])) {
            g_autofree char *all = options_text(named, NULL);
            return mw_refuse(error, "%s: is not in the place that it had in run %s: give %s",
                             named[i], run->name, all);
        }
        copy = given[i];
        original = named[i];
    }
    return !copy || !own || refuse_copy(run, copy, original, own, error);
}

bool
cli_run_drives_are_together(const struct cli_run_drives *drives, GError **error)
{
    struct cli_run_entry run;
    const char *where = read_first(drives->entry.directories, &run);

    if (!where)
        return true;
    bool good = has_all(drives, &run, where, error) && are_of_one(drives, &run, where, error) &&
                are_no_mixture(drives, &run, error);
    cli_run_entry_clear(&run);
    return good;
}
