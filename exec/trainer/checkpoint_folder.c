/* A folder that is whole at any time: it is written beside its place and then renamed. */
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/own_file.h"
#include "exec/trainer/checkpoint_internal.h"

static const char *const files[] = {
    MW_CHECKPOINT_MODEL,         MW_CHECKPOINT_OPTIMIZER,         MW_CHECKPOINT_CONFIG,
    MW_CHECKPOINT_MODEL ".part", MW_CHECKPOINT_OPTIMIZER ".part", MW_CHECKPOINT_CONFIG ".part",
    MW_CHECKPOINT_ADAPTERS,      MW_CHECKPOINT_ADAPTERS ".part",  MW_CHECKPOINT_ADAPTER_CONFIG,
};

bool
mw_checkpoint_folder_fail(const char *path, const char *what, GError **error)
{
    int number = errno;

    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s: %s", path, what, g_strerror(number));
    return false;
}

static bool
is_ours(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++)
        if (!strcmp(files[i], name))
            return true;
    return false;
}

/* Whether it is a file of this user, or a link, which is removed and not followed. */
static bool
is_own(int folder, const char *name)
{
    struct stat info;

    return !fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) && info.st_uid == geteuid() &&
           (S_ISREG(info.st_mode) || S_ISLNK(info.st_mode));
}

static bool
is_to_go(const char *path, const char *name)
{
    g_autofree char *file = g_build_filename(path, name, NULL);

    return is_ours(name) && is_own(AT_FDCWD, file);
}

/* What others publish, a model or adapters, has no state of an optimizer as a checkpoint has: then
 * one of its files, else NULL. */
static const char *
published_file(const char *path)
{
    static const char *const published[] = {MW_CHECKPOINT_MODEL, MW_CHECKPOINT_ADAPTERS,
                                            MW_CHECKPOINT_CONFIG, MW_CHECKPOINT_ADAPTER_CONFIG};
    g_autofree char *optimizer = g_build_filename(path, MW_CHECKPOINT_OPTIMIZER, NULL);

    for (size_t i = 0; !g_file_test(optimizer, G_FILE_TEST_EXISTS) && i < G_N_ELEMENTS(published);
         i++) {
        g_autofree char *file = g_build_filename(path, published[i], NULL);
        if (g_file_test(file, G_FILE_TEST_EXISTS))
            return published[i];
    }
    return NULL;
}

static bool
has_regular(const char *folder, const char *name)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);

    return g_file_test(path, G_FILE_TEST_IS_REGULAR);
}

bool
mw_checkpoint_has_file(const char *folder, const char *name)
{
    return is_ours(name) && has_regular(folder, MW_CHECKPOINT_MODEL) &&
           has_regular(folder, MW_CHECKPOINT_OPTIMIZER);
}

bool
mw_checkpoint_folder_is_there(const char *path)
{
    return g_file_test(path, G_FILE_TEST_EXISTS) || g_file_test(path, G_FILE_TEST_IS_SYMLINK);
}

/* Whether it is the mount point of a drive or of a container's volume.  A mount point cannot be
 * renamed, and nothing can be renamed to its name. */
static bool
is_mount_point(const char *path)
{
    struct statx info;

    return !statx(AT_FDCWD, path, AT_NO_AUTOMOUNT, 0, &info) &&
           info.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

/* A folder that is replaced is removed, so it must be a checkpoint of this user and nothing
 * else. */
char *
mw_checkpoint_folder_keeps(const char *path, const char **advice)
{
    g_autoptr(GDir) folder = mw_checkpoint_folder_is_there(path) ? g_dir_open(path, 0, NULL) : NULL;

    *advice = "give a folder in it";
    if (folder && is_mount_point(path))
        return g_strdup("is where a file system is mounted, and a checkpoint replaces its folder");
    *advice = "give a checkpoint, which is replaced, or an empty or a new folder";
    for (const char *name; folder && (name = g_dir_read_name(folder));)
        if (!is_to_go(path, name))
            return g_strdup_printf("holds %s, which no checkpoint has", name);
    *advice = "give another folder";
    const char *published = folder ? published_file(path) : NULL;
    if (published)
        return g_strdup_printf("holds %s without " MW_CHECKPOINT_OPTIMIZER
                               ": it is not a checkpoint of memwall, and is not replaced",
                               published);
    if (folder)
        return NULL;
    *advice = "give another path";
    return mw_checkpoint_folder_is_there(path) ? g_strdup("is not a folder, as a checkpoint is")
                                               : NULL;
}

bool
mw_checkpoint_folder_check(const char *path, GError **error)
{
    const char *advice;
    g_autofree char *why = mw_checkpoint_folder_keeps(path, &advice);

    if (why)
        g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s: %s", path, why, advice);
    return !why;
}

/* A rename would replace a link, but the user means the folder that it names. */
char *
mw_checkpoint_folder_place(const char *path)
{
    char *real = realpath(path, NULL), *here = getcwd(NULL, 0);
    /* If the current folder is gone, a relative path names nothing. */
    char *place = real                               ? g_strdup(real)
                  : here || g_path_is_absolute(path) ? g_canonicalize_filename(path, here)
                                                     : g_strdup(path);

    free(here);
    free(real);
    return place;
}

char *
mw_checkpoint_beside(const char *path, int64_t steps, int number)
{
    g_autofree char *place = mw_checkpoint_folder_place(path);
    g_autofree char *again = number > 1 ? g_strdup_printf("-%d", number) : NULL;

    return g_strdup_printf("%s-step%" PRId64 "%s", place, steps, again ? again : "");
}

/* Files that are not this user's stay, and so does the folder. */
static void
remove_in(int folder)
{
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++)
        if (is_own(folder, files[i]))
            unlinkat(folder, files[i], 0);
    mw_own_sweep(folder, MW_CHECKPOINT_CONFIG);
    mw_own_sweep(folder, MW_CHECKPOINT_ADAPTER_CONFIG);
}

static int
open_folder(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void
mw_checkpoint_folder_remove(const char *path)
{
    int folder = open_folder(path);

    if (folder < 0)
        return;
    remove_in(folder);
    close(folder);
    rmdir(path);
}

/* --- beside its place ------------------------------------------------------------------------ */

#define PART ".part-"
#define DIGITS 10
#define ATTEMPTS 100

char *
mw_checkpoint_folder_part(const char *path, uint64_t number)
{
    return g_strdup_printf("%s" PART "%0*" PRIx64, path, DIGITS, number);
}

bool
mw_checkpoint_folder_is_part(const char *name, const char *base)
{
    if (!g_str_has_prefix(name, base) || !g_str_has_prefix(name + strlen(base), PART))
        return false;
    const char *digits = name + strlen(base) + strlen(PART);
    return strlen(digits) == DIGITS && strspn(digits, "0123456789abcdef") == DIGITS;
}

/* A save holds the lock of the folder that it writes to, where the file system has such locks. */
int
mw_checkpoint_folder_lock(const char *path)
{
    int folder = open_folder(path), reason = EACCES;
    struct stat info;

    if (folder < 0)
        return -1;
    if (!fstat(folder, &info) && info.st_uid == geteuid()) {
        if (!flock(folder, LOCK_EX | LOCK_NB))
            return folder;
        reason = errno;
    }
    close(folder);
    errno = reason;
    return -1;
}

/* A whole checkpoint that was to replace another stays until there is a newer one. */
static void
sweep_part(const char *path)
{
    int folder = mw_checkpoint_replace_awaits(path) ? -1 : mw_checkpoint_folder_lock(path);

    if (folder < 0)
        return;
    remove_in(folder);
    rmdir(path);
    close(folder);
}

static void
sweep_parts(const char *path)
{
    g_autofree char *parent = g_path_get_dirname(path), *base = g_path_get_basename(path);
    g_autoptr(GDir) folder = g_dir_open(parent, 0, NULL);

    for (const char *name; folder && (name = g_dir_read_name(folder));) {
        g_autofree char *part =
            mw_checkpoint_folder_is_part(name, base) ? g_build_filename(parent, name, NULL) : NULL;
        if (part)
            sweep_part(part);
    }
}

/* Returns the lock's descriptor; -1 if another process takes the folder for a leftover, and removes
 * it. */
static int
lock_part(const char *part)
{
    int folder = open_folder(part);

    if (folder < 0 || !flock(folder, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
        return folder;
    close(folder);
    return -1;
}

/* Less than 2^53, so that ranks can send it as a real number. */
static uint64_t
draw(void)
{
    uint64_t number = 0;

    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number = (uint64_t)g_get_real_time() ^ (uint64_t)getpid() << 20;
    return number & ((UINT64_C(1) << 4 * DIGITS) - 1);
}

static char *
make_part(const char *path, uint64_t *number, int *lock, GError **error)
{
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        *number = draw();
        g_autofree char *part = mw_checkpoint_folder_part(path, *number);
        bool made = !g_mkdir(part, 0777);
        if (made && (*lock = lock_part(part)) >= 0)
            return g_steal_pointer(&part);
        if (made || errno == EEXIST)
            continue;
        mw_checkpoint_folder_fail(part, "cannot be made", error);
        return NULL;
    }
    mw_checkpoint_folder_fail(path, "no folder can be made beside it", error);
    return NULL;
}

char *
mw_checkpoint_folder_begin(const char *path, uint64_t *number, int *lock, GError **error)
{
    g_autofree char *said = NULL, *parent = g_path_get_dirname(path);

    if (mw_checkpoint_recover(path, &said, NULL) && has_regular(path, MW_CHECKPOINT_MODEL) &&
        has_regular(path, MW_CHECKPOINT_OPTIMIZER) && mw_checkpoint_folder_sync(parent, NULL))
        mw_checkpoint_replace_sweep(path, false);
    sweep_parts(path);
    return make_part(path, number, lock, error);
}

/* Permissions alone say too little: as root, a file system of the kernel's looks writable. */
bool
mw_checkpoint_check(const char *path, GError **error)
{
    g_autofree char *whole = mw_checkpoint_folder_place(path);
    g_autofree char *parent = g_path_get_dirname(whole);
    uint64_t number;
    int lock = -1;

    if (!mw_checkpoint_folder_check(whole, error))
        return false;
    if (access(parent, W_OK | X_OK))
        return mw_checkpoint_folder_fail(parent, "a checkpoint cannot be written", error);
    g_autofree char *part = make_part(whole, &number, &lock, error);
    if (part)
        mw_checkpoint_folder_remove(part);
    if (lock >= 0)
        close(lock);
    return part != NULL;
}

bool
mw_checkpoint_folder_make_above(const char *path, GError **error)
{
    g_autofree char *parent = g_path_get_dirname(path);

    return !g_mkdir_with_parents(parent, 0777) ||
           mw_checkpoint_folder_fail(parent, "cannot be made", error);
}

bool
mw_checkpoint_folder_sync(const char *path, GError **error)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems have no fsync of a folder; they return EINVAL. */
    bool good = fd >= 0 && (!fsync(fd) || errno == EINVAL);

    if (!good)
        mw_checkpoint_folder_fail(path, "fsync", error);
    if (fd >= 0)
        close(fd);
    return good;
}

bool
mw_checkpoint_folder_commit(const char *path, const char *part, GError **error)
{
    g_autofree char *parent = g_path_get_dirname(path);

    if (!mw_checkpoint_folder_sync(part, error))
        return false;
    if (g_file_test(path, G_FILE_TEST_EXISTS)) {
        if (!mw_checkpoint_replace(path, part, error))
            return false;
    } else if (rename(part, path)) {
        return mw_checkpoint_folder_fail(path, "cannot be renamed into place", error);
    } else if (!mw_checkpoint_folder_sync(parent, error)) {
        return false;
    }
    mw_checkpoint_replace_sweep(path, true);
    return true;
}

bool
mw_checkpoint_folder_rename_to_new(const char *part, const char *path)
{
    if (!renameat2(AT_FDCWD, part, AT_FDCWD, path, RENAME_NOREPLACE))
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    if (!mw_checkpoint_folder_is_there(path)) /* a file system without that flag */
        return !rename(part, path);
    errno = EEXIST;
    return false;
}

char *
mw_checkpoint_folder_commit_beside(const char *path, const char *part, int64_t steps,
                                   GError **error)
{
    g_autofree char *parent = g_path_get_dirname(path);

    if (!mw_checkpoint_folder_sync(part, error))
        return NULL;
    for (int number = 1;; number++) {
        g_autofree char *place = mw_checkpoint_beside(path, steps, number);
        if (mw_checkpoint_folder_rename_to_new(part, place))
            return mw_checkpoint_folder_sync(parent, error) ? g_steal_pointer(&place) : NULL;
        if (errno != EEXIST) {
            mw_checkpoint_folder_fail(place, "cannot be made", error);
            return NULL;
        }
    }
}
