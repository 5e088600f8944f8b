#include "cli/runs.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/run_files.h"
#include "planner/error.h"

#define NUMBERS 10000 /* of runs of one model and day */

const char *
cli_run_state_name(enum cli_run_state state)
{
    static const char *const names[] = {"running", "durable", "empty", "damaged", "away"};

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

char *
cli_runs_base(void)
{
    return g_build_filename(g_get_user_state_dir(), "memwall", "runs", NULL);
}

/* --- what there is --------------------------------------------------------------------------- */

/* Whether the directory is the run's still: a description of another says that it is not. */
static bool
is_its(const char *directory, const struct cli_run_entry *entry)
{
    struct cli_run_entry other;
    bool its = !entry->name;

    if (!its && cli_run_entry_read(directory, &other, NULL)) {
        its = !strcmp(other.name, entry->name);
        cli_run_entry_clear(&other);
    }
    return its;
}

static bool
look(struct cli_run *run, GError **error)
{
    struct mw_run_files files;
    bool good = true, away = false, running = false;

    for (char **directory = run->entry.directories; good && *directory; directory++) {
        good = mw_run_files_look(*directory, &files, error);
        away |= !is_its(*directory, &run->entry);
        run->bytes += files.bytes;
        run->changed_ns = MAX(run->changed_ns, files.changed_ns);
        running |= files.running;
        if (directory == run->entry.directories) {
            run->steps = files.step + 1;
            run->state = files.step >= 0 ? CLI_RUN_DURABLE
                         : files.record  ? CLI_RUN_DAMAGED
                                         : CLI_RUN_EMPTY;
        }
        mw_run_files_clear(&files);
    }
    if (running)
        run->state = CLI_RUN_RUNNING;
    if (!away)
        return good;
    run->state = CLI_RUN_AWAY;
    run->steps = run->bytes = run->changed_ns = 0;
    return good;
}

/* Of a folder under the base; NULL where it holds no description. */
static struct cli_run *
run_in(const char *folder, GError **error)
{
    struct cli_run *run = g_new0(struct cli_run, 1);

    if (cli_run_entry_read(folder, &run->entry, error) && look(run, error))
        return run;
    cli_run_free(run);
    return NULL;
}

static int
compare_runs(const void *a, const void *b)
{
    const struct cli_run *x = *(struct cli_run *const *)a, *y = *(struct cli_run *const *)b;

    if (x->changed_ns != y->changed_ns)
        return x->changed_ns < y->changed_ns ? 1 : -1;
    return strcmp(y->entry.name, x->entry.name);
}

static GPtrArray *
folders(void)
{
    g_autofree char *base = cli_runs_base();
    GPtrArray *list = g_ptr_array_new_with_free_func(g_free);
    GDir *dir = g_dir_open(base, 0, NULL);

    for (const char *name; dir && (name = g_dir_read_name(dir));)
        g_ptr_array_add(list, g_build_filename(base, name, NULL));
    if (dir)
        g_dir_close(dir);
    return list;
}

/* One that cannot be looked at does not hide the others. */
GPtrArray *
cli_runs_list(void)
{
    GPtrArray *runs = g_ptr_array_new_with_free_func((GDestroyNotify)cli_run_free);
    g_autoptr(GPtrArray) list = folders();

    for (guint i = 0; i < list->len; i++) {
        struct cli_run *run = run_in(g_ptr_array_index(list, i), NULL);
        if (run)
            g_ptr_array_add(runs, run);
    }
    g_ptr_array_sort(runs, compare_runs);
    return runs;
}

/* --- one of them ----------------------------------------------------------------------------- */

/* One that was carried to another place says where it was. */
static void
take_place(struct cli_run_entry *entry, const char *path)
{
    struct mw_run_files files;

    if (g_strv_length(entry->directories) == 1 && mw_run_files_look(path, &files, NULL)) {
        if (files.record) {
            g_free(entry->directories[0]);
            entry->directories[0] = g_canonicalize_filename(path, NULL);
        }
        mw_run_files_clear(&files);
    }
}

static struct cli_run *
run_of_directory(const char *path, GError **error)
{
    struct cli_run *run = g_new0(struct cli_run, 1);
    g_autoptr(GError) why = NULL;

    if (!cli_run_entry_read(path, &run->entry, &why)) {
        if (!g_error_matches(why, G_FILE_ERROR, G_FILE_ERROR_NOENT)) {
            g_propagate_error(error, g_steal_pointer(&why));
            g_free(run);
            return NULL;
        }
        run->entry.directories = g_new0(char *, 2);
        run->entry.directories[0] = g_canonicalize_filename(path, NULL);
    } else
        take_place(&run->entry, path);
    if (look(run, error))
        return run;
    cli_run_free(run);
    return NULL;
}

struct cli_run *
cli_runs_find(const char *name, GError **error)
{
    g_autofree char *base = cli_runs_base();
    g_autofree char *folder = g_build_filename(base, name, NULL);
    bool plain = *name && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..");

    if (plain && g_file_test(folder, G_FILE_TEST_IS_DIR))
        return run_of_directory(folder, error);
    if (g_file_test(name, G_FILE_TEST_IS_DIR))
        return run_of_directory(name, error);
    mw_refuse(error, "%s: no run of this name, and no directory: `memwall list runs` has the names",
              name);
    return NULL;
}

struct cli_run *
cli_runs_newest(GError **error)
{
    g_autoptr(GPtrArray) runs = cli_runs_list();

    for (guint i = 0; i < runs->len; i++) {
        struct cli_run *run = g_ptr_array_index(runs, i);
        if (run->state == CLI_RUN_DURABLE)
            return g_ptr_array_steal_index(runs, i);
    }
    mw_refuse(error, "--resume: no run can be resumed: `memwall list runs` shows all; "
                     "--nvme DIR names its directory");
    return NULL;
}

/* --- a new one ------------------------------------------------------------------------------- */

/* 1: made; 0: the name is taken; -1: errno. */
static int
make_folder(const char *path)
{
    if (!g_mkdir(path, 0700))
        return 1;
    return errno == EEXIST ? 0 : -1;
}

static int
try_name(const char *base, const char *where, const char *name, char **directory)
{
    g_autofree char *folder = g_build_filename(base, name, NULL);
    g_autofree char *other = where ? g_build_filename(where, name, NULL) : NULL;
    int made = make_folder(folder);

    if (made == 1 && other && (made = make_folder(other)) != 1) {
        int reason = errno;
        g_rmdir(folder);
        errno = reason;
    }
    if (made == 1)
        *directory = other ? g_steal_pointer(&other) : g_steal_pointer(&folder);
    return made;
}

char *
cli_runs_reserve(const char *model, const char *where, char **directory, GError **error)
{
    g_autofree char *base = cli_runs_base();
    g_autofree char *word = cli_run_entry_model_word(model);
    g_autoptr(GDateTime) now = g_date_time_new_now_local();
    g_autofree char *day = g_date_time_format(now, "%Y-%m-%d");
    int made = g_mkdir_with_parents(base, 0700) || (where && g_mkdir_with_parents(where, 0700));

    for (int number = 1; !made && number < NUMBERS; number++) {
        g_autofree char *name = g_strdup_printf("%s-%s-%d", word, day, number);
        made = try_name(base, where, name, directory);
        if (made == 1)
            return g_steal_pointer(&name);
    }
    g_set_error(error, MW_ERROR, MW_ERROR_IO,
                "%s: a folder for the run cannot be made there: %s: --nvme DIR names another",
                where ? where : base, g_strerror(errno));
    return NULL;
}

/* --- removal --------------------------------------------------------------------------------- */

bool
cli_runs_remove(const struct cli_run_entry *entry, bool locked, GError **error)
{
    g_autofree char *base = cli_runs_base();
    g_autofree char *folder = entry->name ? g_build_filename(base, entry->name, NULL) : NULL;
    struct cli_run_entry listed;

    for (char **directory = entry->directories; *directory; directory++) {
        if (!is_its(*directory, entry))
            continue;
        if (!mw_run_files_remove(*directory, locked, error))
            return false;
        if (entry->made)
            g_rmdir(*directory);
    }
    /* A name may have been given anew, where a directory was carried to another place. */
    if (!folder || !cli_run_entry_read(folder, &listed, NULL))
        return true;
    bool same = g_strv_equal((const char *const *)listed.directories,
                             (const char *const *)entry->directories);
    cli_run_entry_clear(&listed);
    if (same && !mw_run_files_remove(folder, locked, error))
        return false;
    if (same)
        g_rmdir(folder);
    return true;
}

/* A folder without a description was being made when its run was killed.  One whose description or
 * directories cannot be read now is somebody's all the same. */
static void
sweep(const char *folder)
{
    g_autoptr(GError) why = NULL;
    struct mw_run_files files;
    struct cli_run *run = run_in(folder, &why);
    bool unmade = !run && g_error_matches(why, G_FILE_ERROR, G_FILE_ERROR_NOENT);

    if (run && run->entry.made && run->state == CLI_RUN_EMPTY)
        cli_runs_remove(&run->entry, false, NULL);
    if (unmade && mw_run_files_look(folder, &files, NULL)) {
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
