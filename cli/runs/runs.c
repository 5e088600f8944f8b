#include "cli/runs/runs.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/cli.h"
#include "cli/runs/aside.h"
#include "exec/commit/run_aside.h"
#include "exec/commit/run_files.h"

const char *
cli_run_state_name(enum cli_run_state state)
{
    static const char *const names[] = {"running", "durable", "empty",
                                        "damaged", "away",    "being deleted"};

    return names[state];
}

void
cli_run_free(struct cli_run *run)
{
    if (!run)
        return;
    cli_run_entry_clear(&run->entry);
    g_free(run);
}

/* --- the state of a run ----------------------------------------------------------------------- */

bool
cli_runs_names(const struct cli_run_entry *entry, const char *directory)
{
    for (char **each = entry->directories; *each; each++)
        if (cli_runs_same_directory(*each, directory))
            return true;
    return false;
}

/* Compares more than the name: a name may have been given again, and directories change if a run is
 * moved. */
static bool
is_same(const struct cli_run_entry *one, const struct cli_run_entry *other)
{
    return !strcmp(one->name, other->name) && !g_strcmp0(one->created, other->created) &&
           g_strv_length(one->directories) == g_strv_length(other->directories);
}

bool
cli_runs_has(const struct cli_run_entry *entry, const char *directory)
{
    struct cli_run_entry other;
    bool its = !entry->name;

    if (!its && cli_run_entry_read(directory, &other, NULL)) {
        its = is_same(&other, entry);
        cli_run_entry_clear(&other);
    }
    return its;
}

bool
cli_runs_has_state(const struct cli_run_entry *entry, const char *directory)
{
    struct mw_run_files files;

    if (!cli_runs_has(entry, directory))
        return false;
    bool has = mw_run_files_look(directory, &files, NULL) && (files.record || files.has_data);
    mw_run_files_clear(&files);
    return has;
}

bool
cli_runs_has_another(const struct cli_run_entry *entry, const char *directory)
{
    struct cli_run_entry other;

    if (!entry->name || !cli_run_entry_read(directory, &other, NULL))
        return false;
    bool another = !is_same(&other, entry);
    cli_run_entry_clear(&other);
    return another;
}

const char *
cli_runs_taken(const struct cli_run_entry *entry)
{
    for (char **each = entry->directories; *each; each++)
        if (cli_runs_has_another(entry, *each))
            return *each;
    return NULL;
}

const char *
cli_runs_missing(const struct cli_run_entry *entry)
{
    struct cli_run_entry other;

    for (char **each = entry->directories; entry->name && *each; each++) {
        g_autoptr(GError) why = NULL;
        if (cli_run_entry_read(*each, &other, &why))
            cli_run_entry_clear(&other);
        else if (g_error_matches(why, G_FILE_ERROR, G_FILE_ERROR_NOENT))
            return *each;
    }
    return NULL;
}

bool
cli_runs_is_copy(const struct cli_run_entry *entry, const char *directory)
{
    bool is = !cli_runs_names(entry, directory);

    for (char **each = entry->directories; *each && is; each++)
        is = cli_runs_has(entry, *each);
    return is;
}

static bool
read_state(struct cli_run *run, GError **error)
{
    struct mw_run_files files;
    bool good = true, away = false, running = false;

    for (char **directory = run->entry.directories; good && *directory; directory++) {
        bool its = cli_runs_has(&run->entry, *directory);
        good = mw_run_files_look(*directory, &files, error);
        away |= !its;
        run->bytes += its ? files.bytes : 0;
        run->changed_ns = MAX(run->changed_ns, its ? files.changed_ns : 0);
        running |= its && files.running;
        if (directory == run->entry.directories) {
            run->steps = files.step + 1;
            run->state = files.step >= 0                        ? CLI_RUN_DURABLE
                         : files.record || run->entry.last_step ? CLI_RUN_DAMAGED
                                                                : CLI_RUN_EMPTY;
            if (files.step >= 0 && cli_runs_lacks_files(&run->entry, &files))
                run->state = CLI_RUN_DAMAGED;
        }
        mw_run_files_clear(&files);
    }
    if (away || run->entry.deleting)
        run->steps = 0;
    if (away)
        run->state = CLI_RUN_AWAY;
    if (run->entry.deleting)
        run->state = CLI_RUN_DELETING;
    if (running)
        run->state = CLI_RUN_RUNNING;
    return good;
}

static int64_t
written_ns(const char *folder)
{
    g_autofree char *path = g_build_filename(folder, MW_RUN_DESCRIPTION, NULL);
    struct stat info;

    if (lstat(path, &info))
        return 0;
    return info.st_mtim.tv_sec * INT64_C(1000000000) + info.st_mtim.tv_nsec;
}

/* A run locks its folder, then checks its options, and only then writes its description. */
static bool
is_starting(struct cli_run *run, const char *folder)
{
    struct mw_run_files files;
    bool is = mw_run_files_look(folder, &files, NULL) && files.running;

    mw_run_files_clear(&files);
    if (!is)
        return false;
    run->entry.name = g_path_get_basename(folder);
    run->entry.directories = g_strsplit(folder, "\n", 1);
    run->state = CLI_RUN_RUNNING;
    run->used_ns = INT64_MAX; /* counts as used now */
    return true;
}

/* Reads a folder whose description and directories no longer change. */
static bool
read_at_rest(const char *folder, struct cli_run_entry *entry, GError **error)
{
    g_autoptr(GError) why = NULL;

    if (!cli_runs_end_replacing(folder, false, error))
        return false;
    if (!cli_run_entry_read(folder, entry, error))
        return false;
    if (!cli_runs_end_replacing_all(entry->directories, false,
                                    &why)) /* an unreadable one counts as missing */
        cli_say("%s", why->message);
    cli_run_entry_clear(entry);
    return cli_run_entry_read(folder, entry, error);
}

/* Reads a folder under the base; NULL with *error if it has no description, or another run's. */
static struct cli_run *
run_in(const char *folder, GError **error)
{
    struct cli_run *run = g_new0(struct cli_run, 1);
    g_autofree char *name = g_path_get_basename(folder);
    g_autoptr(GError) why = NULL;

    bool good = read_at_rest(folder, &run->entry, &why);
    if (g_error_matches(why, G_FILE_ERROR, G_FILE_ERROR_NOENT) && is_starting(run, folder))
        return run;
    if (why)
        g_propagate_error(error, g_steal_pointer(&why));
    if (good && strcmp(run->entry.name, name))
        good =
            mw_refuse(error, "%s/" MW_RUN_DESCRIPTION ": belongs to run %s, not to this folder's",
                      folder, run->entry.name);
    if (good && read_state(run, error)) {
        run->used_ns = MAX(run->changed_ns, written_ns(folder));
        return run;
    }
    cli_run_free(run);
    return NULL;
}

static int
compare_runs(const void *a, const void *b)
{
    const struct cli_run *x = *(struct cli_run *const *)a, *y = *(struct cli_run *const *)b;

    if (x->used_ns != y->used_ns)
        return x->used_ns < y->used_ns ? 1 : -1;
    return strcmp(y->entry.name, x->entry.name);
}

static GPtrArray *
folders(void)
{
    g_autofree char *base = cli_runs_base();
    GPtrArray *list = g_ptr_array_new_with_free_func(g_free);
    GDir *dir = g_dir_open(base, 0, NULL);

    for (const char *name; dir && (name = g_dir_read_name(dir));) {
        char *path = g_build_filename(base, name, NULL);
        if (g_file_test(path, G_FILE_TEST_IS_DIR))
            g_ptr_array_add(list, path);
        else
            g_free(path);
    }
    if (dir)
        g_dir_close(dir);
    return list;
}

/* Says which run cannot be read, and continues with the others. */
GPtrArray *
cli_runs_list(void)
{
    GPtrArray *runs = g_ptr_array_new_with_free_func((GDestroyNotify)cli_run_free);
    g_autoptr(GPtrArray) list = folders();

    for (guint i = 0; i < list->len; i++) {
        g_autoptr(GError) why = NULL;
        struct cli_run *run = run_in(g_ptr_array_index(list, i), &why);
        if (run)
            g_ptr_array_add(runs, run);
        else if (!g_error_matches(why, G_FILE_ERROR, G_FILE_ERROR_NOENT))
            cli_say("not listed: %s", why->message);
    }
    g_ptr_array_sort(runs, compare_runs);
    return runs;
}

/* --- one run ---------------------------------------------------------------------------------- */

/* NULL: no run can have this name.  g_free it. */
static char *
listed_folder(const char *name)
{
    g_autofree char *base = cli_runs_base();
    bool plain = *name && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..");

    return plain ? g_build_filename(base, name, NULL) : NULL;
}

char *
cli_runs_own_folder(const struct cli_run_entry *entry)
{
    g_autofree char *folder = entry->name ? listed_folder(entry->name) : NULL;
    struct cli_run_entry listed;

    if (!folder || !cli_run_entry_read(folder, &listed, NULL))
        return NULL;
    bool same = g_strv_equal((const char *const *)listed.directories,
                             (const char *const *)entry->directories);
    cli_run_entry_clear(&listed);
    return same ? g_steal_pointer(&folder) : NULL;
}

/* The description of a run that was moved or copied still names the old place. */
static bool
was_carried(const struct cli_run_entry *entry, const char *path)
{
    struct mw_run_files files;
    bool holds = mw_run_files_look(path, &files, NULL) && files.record;

    mw_run_files_clear(&files);
    return holds && g_strv_length(entry->directories) == 1;
}

static bool
is_listed_in(const struct cli_run_entry *entry, const char *path)
{
    g_autofree char *base = cli_runs_base();
    g_autofree char *folder = g_build_filename(base, entry->name, NULL);

    return cli_runs_same_directory(folder, path);
}

/* A description in `path` gives no right to change other directories that it names. */
static bool
take_place(struct cli_run_entry *entry, const char *path, GError **error)
{
    if (cli_runs_names(entry, path) || is_listed_in(entry, path))
        return true;
    if (!was_carried(entry, path)) {
        bool there = g_file_test(entry->directories[0], G_FILE_TEST_IS_DIR);
        return mw_refuse(
            error, "%s/" MW_RUN_DESCRIPTION ": belongs to run %s in %s, not to this directory: %s",
            path, entry->name, entry->directories[0],
            there ? "name that one, or delete the file"
                  : "where all directories of the run were moved, name all of them in "
                    "their order: `memwall verify DIR DIR`, `memwall export DIR DIR "
                    "-o FOLDER`, `memwall run --nvme DIR --nvme DIR --resume`");
    }
    g_free(entry->directories[0]);
    entry->directories[0] = g_canonicalize_filename(path, NULL);
    entry->made = false;
    return true;
}

/* Says what to do about a description that cannot be read, with or without state beside it. */
static void
explain_unread(const char *path, const GError *why, GError **error)
{
    struct mw_run_files files;
    bool holds = mw_run_files_look(path, &files, NULL) && (files.record || files.has_data);
    g_autofree char *way =
        files.stranger
            ? g_strdup_printf("%s beside it %s: it must belong to this user alone; copy "
                              "the files to a directory of your own (cp -r) and name that",
                              files.stranger, files.stranger_why)
        : holds
            ? g_strdup_printf("move that file away to verify, resume or delete the state in %s "
                              "without it; `memwall run --nvme %s --overwrite` starts anew there",
                              path, path)
            : g_strdup("no state is beside it: name a directory of the run, or delete that file");

    mw_run_files_clear(&files);
    g_propagate_error(error, g_error_new(why->domain, why->code, "%s: %s", why->message, way));
}

bool
cli_runs_is_deleting(const struct cli_run_entry *entry)
{
    g_autofree char *folder = cli_runs_own_folder(entry);
    struct cli_run_entry listed;

    if (!folder || !cli_run_entry_read(folder, &listed, NULL))
        return false;
    bool is = listed.deleting;
    cli_run_entry_clear(&listed);
    return is;
}

static struct cli_run *
run_of_directory(const char *path, GError **error)
{
    struct cli_run *run = g_new0(struct cli_run, 1);
    g_autoptr(GError) why = NULL;
    bool good = read_at_rest(path, &run->entry, &why);

    if (good) {
        good = take_place(&run->entry, path, error);
        run->entry.deleting = cli_runs_is_deleting(&run->entry);
    } else if (g_error_matches(why, G_FILE_ERROR, G_FILE_ERROR_NOENT)) {
        run->entry.directories = g_new0(char *, 2);
        run->entry.directories[0] = g_canonicalize_filename(path, NULL);
        good = true;
    } else
        explain_unread(path, why, error);
    if (good && read_state(run, error))
        return run;
    cli_run_free(run);
    return NULL;
}

static void
refuse_name(const char *name, GError **error)
{
    g_autoptr(GPtrArray) all = folders(), names = g_ptr_array_new_with_free_func(g_free);

    if (!*name) {
        mw_refuse(error, "a run's name is missing: `memwall list runs` has the names");
        return;
    }
    for (guint i = 0; i < all->len; i++)
        g_ptr_array_add(names, g_path_get_basename(g_ptr_array_index(all, i)));
    g_ptr_array_add(names, NULL);
    g_autofree char *like = mw_names_like(name, (const char *const *)names->pdata, "");
    mw_refuse(error,
              "%s: there is no run and no directory of this name;%s%s%s `memwall list runs` "
              "has the names of runs",
              name, like ? " did you mean " : "", like ? like : "", like ? "?" : "");
}

bool
cli_runs_is_listed(const char *name)
{
    g_autofree char *folder = listed_folder(name);

    return folder && g_file_test(folder, G_FILE_TEST_IS_DIR);
}

struct cli_run *
cli_runs_find(const char *name, GError **error)
{
    g_autofree char *folder = listed_folder(name);

    if (cli_runs_is_listed(name))
        return run_of_directory(folder, error);
    if (g_file_test(name, G_FILE_TEST_IS_DIR))
        return run_of_directory(name, error);
    refuse_name(name, error);
    return NULL;
}

/* The newest run is the one that was meant.  An older one is not resumed unasked: its name must be
 * given. */
static char *
instead_text(const GPtrArray *runs, guint behind)
{
    for (guint i = behind; i < runs->len; i++) {
        const struct cli_run *run = g_ptr_array_index(runs, i);
        if (run->state == CLI_RUN_DURABLE)
            return g_strdup_printf("--resume %s continues the newest that can be resumed",
                                   run->entry.name);
    }
    return g_strdup("no other run of `memwall list runs` can be resumed");
}

static bool
check_newest(const GPtrArray *runs, guint index, GError **error)
{
    const struct cli_run *run = g_ptr_array_index(runs, index);
    const char *name = run->entry.name;
    g_autofree char *instead = instead_text(runs, index + 1);

    if (run->state == CLI_RUN_RUNNING)
        return mw_refuse(error, "--resume: the newest run, %s, is running: %s", name, instead);
    if (run->state == CLI_RUN_DAMAGED)
        return mw_refuse(error,
                         "--resume: the newest run, %s, cannot be resumed: `memwall verify "
                         "%s` says what is damaged; %s",
                         name, name, instead);
    return true;
}

/* Runs that cannot be resumed now: a drive is not mounted, files were deleted by hand, or the run
 * is being deleted.  Names the newest of them. */
static void
note_passed(GString *text, const struct cli_run *run)
{
    const char *name = run->entry.name;

    if (text->len)
        return;
    if (run->state == CLI_RUN_DELETING) {
        g_string_append_printf(text, "run %s is being deleted (`memwall rm %s` finishes that)",
                               name, name);
        return;
    }
    const char *missing = cli_runs_missing(&run->entry), *taken = cli_runs_taken(&run->entry);
    const char *place = missing ? missing : taken;

    g_string_append_printf(text, "of run %s %s %s (is the drive mounted?)", name,
                           place ? place : "a directory",
                           missing ? "is not there, or empty" : "has another run now");
}

struct cli_run *
cli_runs_newest(char **note, GError **error)
{
    g_autoptr(GPtrArray) runs = cli_runs_list();
    g_autoptr(GString) passed = g_string_new(NULL);

    *note = NULL;
    for (guint i = 0; i < runs->len; i++) {
        struct cli_run *run = g_ptr_array_index(runs, i);
        if (run->state == CLI_RUN_AWAY || run->state == CLI_RUN_DELETING)
            note_passed(passed, run);
        if (run->state != CLI_RUN_DURABLE && run->state != CLI_RUN_RUNNING &&
            run->state != CLI_RUN_DAMAGED)
            continue;
        if (!check_newest(runs, i, error))
            return NULL;
        if (passed->len)
            *note = g_strdup_printf("--resume: skipped newer runs: %s", passed->str);
        return g_ptr_array_steal_index(runs, i);
    }
    mw_refuse(error,
              "--resume: no run can be resumed%s%s: `memwall list runs` shows all; --nvme DIR "
              "finds one that is not listed",
              passed->len ? ": " : "", passed->str);
    return NULL;
}

char *
cli_runs_described(const struct cli_run_entry *entry)
{
    for (char **each = entry->directories; *each; each++)
        if (cli_runs_has(entry, *each))
            return g_strdup(*each);
    return entry->name ? listed_folder(entry->name) : g_strdup(entry->directories[0]);
}

/* --- removal ---------------------------------------------------------------------------------- */

/* A folder without a description was being made when its run was killed.  A folder whose
 * description or directories cannot be read now still belongs to a run. */
static void
sweep(const char *folder)
{
    g_autoptr(GError) why = NULL;
    struct mw_run_files files;
    struct cli_run *run = run_in(folder, &why);
    bool unmade = !run && g_error_matches(why, G_FILE_ERROR, G_FILE_ERROR_NOENT);

    if (run && run->entry.made && (run->state == CLI_RUN_EMPTY || run->state == CLI_RUN_DELETING))
        cli_runs_remove(&run->entry, false, NULL);
    if (unmade && !mw_run_aside_look(folder) && mw_run_files_look(folder, &files, NULL)) {
        if (!files.running && !files.record && mw_run_files_remove(folder, false, NULL))
            g_rmdir(folder);
        mw_run_files_clear(&files);
    }
    cli_run_free(run);
}

void
cli_runs_sweep(void)
{
    g_autoptr(GPtrArray) list = folders();

    for (guint i = 0; i < list->len; i++)
        sweep(g_ptr_array_index(list, i));
}
