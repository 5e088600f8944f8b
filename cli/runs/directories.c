/* Where runs have their directories; makes those of a new run. */
#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/homedir.h"
#include "cli/local_time.h"
#include "cli/paths.h"
#include "cli/runs/runs.h"
#include "exec/commit/run_files.h"
#include "exec/nvme/nvme.h"

#define NUMBERS 10000 /* for runs of one model on one day */
#define ATTEMPTS 8    /* a new folder may be mistaken for one that a killed run left */

char *
cli_runs_base(void)
{
    g_autofree char *state = mw_homedir_path(MW_HOMEDIR_STATE);

    return g_build_filename(state, "runs", NULL);
}

bool
cli_runs_make_base(GError **error)
{
    g_autofree char *base = cli_runs_base();

    return mw_homedir_make(MW_HOMEDIR_STATE, base, "--nvme DIR", error);
}

/* --- drives ---------------------------------------------------------------------------------- */

bool
cli_runs_same_directory(const char *one, const char *other)
{
    struct stat a, b;

    return !stat(one, &a) && !stat(other, &b) && cli_path_is_same(&a, &b);
}

/* Compares directories that do not exist yet by name. */
static bool
are_one(const char *one, const char *other)
{
    g_autofree char *a = g_canonicalize_filename(one, NULL);
    g_autofree char *b = g_canonicalize_filename(other, NULL);

    return !strcmp(a, b) || cli_runs_same_directory(a, b);
}

const char *
cli_runs_repeated(char **directories)
{
    for (char **each = directories; *each; each++)
        for (char **before = directories; before < each; before++)
            if (are_one(*each, *before))
                return *each;
    return NULL;
}

static bool
refuse_repeated(char **directories, GError **error)
{
    const char *repeated = cli_runs_repeated(directories);

    return !repeated || mw_refuse(error,
                                  "MEMWALL_NVME: names %s twice: name one directory per drive, "
                                  "with \":\" between them",
                                  repeated);
}

/* Two colons in a row, or one at an end, name no directory. */
bool
cli_runs_drives(char ***drives, GError **error)
{
    const char *text = g_getenv("MEMWALL_NVME");
    g_auto(GStrv) parts = g_strsplit(text ? text : "", ":", -1);
    g_autoptr(GPtrArray) named = g_ptr_array_new_with_free_func(g_free);

    *drives = NULL;
    for (char **part = parts; *part; part++)
        if (**part)
            g_ptr_array_add(named, g_strdup(*part));
    if (named->len > MW_NVME_DRIVES_MAX)
        return mw_refuse(error, "MEMWALL_NVME: names %u directories: must be at most %d",
                         named->len, MW_NVME_DRIVES_MAX);
    if (!named->len)
        return true;
    g_ptr_array_add(named, NULL);
    *drives = (char **)g_ptr_array_steal(named, NULL);
    if (refuse_repeated(*drives, error))
        return true;
    g_clear_pointer(drives, g_strfreev);
    return false;
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

/* 1: every folder of `where` now has a folder of this name; else none of them was left behind, and
 * the result is that of make_folder. */
static int
make_folders(char **where, const char *name, GPtrArray *folders)
{
    for (; *where; where++) {
        char *folder = g_build_filename(*where, name, NULL);
        int made = make_folder(folder), reason = errno;
        if (made == 1) {
            g_ptr_array_add(folders, folder);
            continue;
        }
        g_free(folder);
        for (guint i = 0; i < folders->len; i++)
            g_rmdir(g_ptr_array_index(folders, i));
        g_ptr_array_set_size(folders, 0);
        errno = reason;
        return made;
    }
    return 1;
}

/* A name to try, and the folders that were made for it. */
struct attempt {
    char *folder;     /* in the list */
    GPtrArray *found; /* char *, folders in `where` */
    struct mw_run_lock *lock;
    bool lost; /* the folder in the list was made, and now belongs to another run: *why says more */
    GError *why;
};

static void
clear_attempt(struct attempt *attempt)
{
    mw_run_lock_release(attempt->lock);
    g_free(attempt->folder);
    g_ptr_array_unref(attempt->found);
    g_clear_error(&attempt->why);
}

/* Makes and locks the list's folder first: that reserves the name for this run, and keeps the
 * folder from being removed as the remains of a killed run. */
static int
try_name(char *base, char **where, const char *name, struct attempt *attempt)
{
    *attempt = (struct attempt){.folder = g_build_filename(base, name, NULL),
                                .found = g_ptr_array_new_with_free_func(g_free)};
    int made = make_folder(attempt->folder);

    if (made != 1)
        return made;
    attempt->lock = mw_run_lock_take(attempt->folder, &attempt->why);
    attempt->lost = !attempt->lock;
    if (attempt->lock && where)
        made = make_folders(where, name, attempt->found);
    if (made == 1 && attempt->lock)
        return 1;
    int reason = errno;
    mw_run_lock_release(g_steal_pointer(&attempt->lock));
    g_rmdir(attempt->folder);
    errno = reason;
    return attempt->lost ? 0 : made;
}

static char **
directories_of(const struct attempt *attempt)
{
    GPtrArray *found = attempt->found;
    char **directories = g_new0(char *, MAX(found->len, 1) + 1);

    for (guint i = 0; i < found->len; i++)
        directories[i] = g_canonicalize_filename(g_ptr_array_index(found, i), NULL);
    if (!found->len)
        directories[0] = g_canonicalize_filename(attempt->folder, NULL);
    return directories;
}

/* Never makes folders of drives: if one is missing, its drive may not be mounted, and a new folder
 * would lie on another drive. */
static bool
are_there(char **where, GError **error)
{
    for (char **each = where; *each; each++)
        if (!g_file_test(*each, G_FILE_TEST_IS_DIR))
            return mw_refuse(error, "MEMWALL_NVME: %s %s", *each,
                             g_file_test(*each, G_FILE_TEST_EXISTS)
                                 ? "is not a directory: name one per drive"
                                 : "does not exist: mount its drive, or make it first");
    return refuse_repeated(where, error);
}

/* The error of the last attempt. */
static void
refuse_names(int made, int reason, const char *places, const char *names, GError **error)
{
    if (made)
        g_set_error(error, MW_ERROR, MW_ERROR_IO,
                    "%s: a folder for the run cannot be made there: %s: --nvme DIR names another",
                    places, g_strerror(reason));
    else
        g_set_error(error, MW_ERROR, MW_ERROR_IO,
                    "%s: all names from %s-1 to %d are taken: delete some of them, or --nvme DIR "
                    "names another directory",
                    places, names, NUMBERS - 1);
}

char *
cli_runs_reserve(const char *model, char **where, char ***directories, struct mw_run_lock **lock,
                 GError **error)
{
    g_autofree char *base = cli_runs_base();
    g_autofree char *word = cli_run_entry_model_word(model);
    g_autofree char *day = cli_local_time(g_get_real_time() / G_USEC_PER_SEC, "%Y-%m-%d");
    g_autofree char *names = g_strdup_printf("%s-%s", word, day);
    int made = 0, reason = 0, lost = 0;

    if (!cli_runs_make_base(error) || (where && !are_there(where, error)))
        return NULL;
    for (int number = 1; !made && number < NUMBERS; number++) {
        g_autofree char *name = g_strdup_printf("%s-%d", names, number);
        struct attempt attempt;
        made = try_name(base, where, name, &attempt);
        reason = errno;
        if (made == 1 && directories)
            *directories = directories_of(&attempt);
        *lock = g_steal_pointer(&attempt.lock);
        lost += attempt.lost;
        bool given_up = lost == ATTEMPTS;
        if (given_up)
            g_propagate_error(error, g_steal_pointer(&attempt.why));
        clear_attempt(&attempt);
        if (made == 1)
            return g_steal_pointer(&name);
        if (given_up)
            return NULL;
    }
    g_autofree char *places = where ? g_strjoinv(", ", where) : g_strdup(base);
    refuse_names(made, reason, places, names, error);
    return NULL;
}
