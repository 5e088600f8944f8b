/*
 * A checkpoint that takes another's place.
 *
 * Where a file system exchanges two folders at once, PATH is a whole checkpoint at any time.  Where
 * it does not (NFS, FAT, many of FUSE), the old one first steps aside, under its successor's name:
 *
 *     PATH, PATH.part-NUMBER                    the old one, and the new one as it is written
 *     PATH.part-NUMBER.old, PATH.part-NUMBER    the same, and the new one is whole and durable
 *     PATH.part-NUMBER.old, PATH                the old one on its way out, and the new one
 *
 * So the next command after a kill knows which is which, and finishes the replacement.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "exec/trainer/checkpoint_internal.h"

#define OLD ".old"

static char *
old_of(const char *part)
{
    return g_strconcat(part, OLD, NULL);
}

/* Follows no link, and accepts no other user's folder. */
static bool
is_own_folder(const char *path)
{
    struct stat info;

    return !lstat(path, &info) && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

/* char *: PATH.part-NUMBER of each old checkpoint that was renamed to make way. */
static GPtrArray *
parts_with_old(const char *path)
{
    g_autofree char *parent = g_path_get_dirname(path), *base = g_path_get_basename(path);
    GPtrArray *parts = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GDir) folder = g_dir_open(parent, 0, NULL);

    for (const char *name; folder && (name = g_dir_read_name(folder));) {
        if (!g_str_has_suffix(name, OLD))
            continue;
        g_autofree char *old = g_build_filename(parent, name, NULL);
        char *part = g_strndup(name, strlen(name) - strlen(OLD));
        if (mw_checkpoint_folder_is_part(part, base) && is_own_folder(old))
            g_ptr_array_add(parts, g_build_filename(parent, part, NULL));
        g_free(part);
    }
    return parts;
}

bool
mw_checkpoint_replace_awaits(const char *part)
{
    g_autofree char *old = old_of(part);

    return is_own_folder(old);
}

/* --- replacement ----------------------------------------------------------------------------- */

/* It is unknown which of the two the drive keeps at the name, so both stay, and the next save
 * sweeps. */
static bool
keep_both(const char *path, const char *part, bool exchanged, GError **error)
{
    g_autofree char *old = old_of(part);

    if (exchanged)
        (void)!rename(part, old);
    g_prefix_error(error,
                   "%s: is replaced, but perhaps not durably; the one before is kept in %s: ", path,
                   old);
    return false;
}

bool
mw_checkpoint_replace(const char *path, const char *part, GError **error)
{
    g_autofree char *old = old_of(part), *parent = g_path_get_dirname(path);

    bool exchanged = !renameat2(AT_FDCWD, part, AT_FDCWD, path, RENAME_EXCHANGE);
    if (!exchanged && rename(path, old))
        return mw_checkpoint_folder_fail(path, "cannot be replaced", error);
    if (!exchanged && rename(part, path)) {
        mw_checkpoint_folder_fail(path, "cannot be replaced", error);
        (void)!rename(old, path);
        return false;
    }
    if (!mw_checkpoint_folder_sync(parent, error))
        return keep_both(path, part, exchanged, error);
    mw_checkpoint_folder_remove(exchanged ? part : old);
    return true;
}

/* --- after a kill ---------------------------------------------------------------------------- */

#define LOOKS 100
#define LOOK_US 10000

/* Returns the descriptor.  Returns -1 if PATH exists by now, or with errno, which is EWOULDBLOCK if
 * a save uses the folder. */
static int
lock_between(const char *folder, const char *path)
{
    int lock = -1;

    for (int i = 0; i < LOOKS && !mw_checkpoint_folder_is_there(path); i++) {
        lock = mw_checkpoint_folder_lock(folder);
        if (lock >= 0 || errno != EWOULDBLOCK)
            break;
        g_usleep(LOOK_US);
    }
    return lock;
}

static bool
refuse(const char *path, const char *part, bool newer, int reason, GError **error)
{
    g_autofree char *old = old_of(part);

    g_set_error(error, MW_ERROR, MW_ERROR_IO,
                "%s: is not there: a save was to replace it and has not come to its end (%s): %s "
                "has what was there%s%s: rename the one to be used to %s",
                path, reason == EWOULDBLOCK ? "it is at it still" : g_strerror(reason), old,
                newer ? ", and the new one is whole in " : "", newer ? part : "", path);
    return false;
}

/* Puts the new checkpoint in place if it exists, since it is whole; otherwise puts the old one
 * back. */
static bool
put_in_place(const char *path, const char *part, char **said, GError **error)
{
    const bool newer = is_own_folder(part);
    g_autofree char *old = old_of(part), *parent = g_path_get_dirname(path);
    const char *which = newer ? part : old;
    int lock = lock_between(which, path);

    bool good = lock >= 0 && mw_checkpoint_folder_rename_to_new(which, path);
    int reason = errno;
    const bool was_ours = good;
    good = good ? mw_checkpoint_folder_sync(parent, error)
                : mw_checkpoint_folder_is_there(path) || refuse(path, part, newer, reason, error);
    if (was_ours && good && newer)
        mw_checkpoint_folder_remove(old);
    if (was_ours && good)
        *said = g_strdup_printf("%s: a save was killed as it replaced this checkpoint: %s is in "
                                "place now",
                                path, newer ? "the new one" : "the one before");
    if (lock >= 0)
        close(lock);
    return good;
}

/* Between the two renames a link names a folder that does not exist. */
static char *
place_of(const char *path)
{
    g_autofree char *to = g_file_read_link(path, NULL), *folder = g_path_get_dirname(path);
    g_autofree char *named =
        to && !g_path_is_absolute(to) ? g_build_filename(folder, to, NULL) : g_strdup(to);
    bool dangles = named && !g_file_test(path, G_FILE_TEST_EXISTS);

    return mw_checkpoint_folder_place(dangles ? named : path);
}

bool
mw_checkpoint_recover(const char *path, char **said, GError **error)
{
    g_autofree char *place = place_of(path);
    bool good = true;

    *said = NULL;
    if (mw_checkpoint_folder_is_there(place))
        return true;
    g_autoptr(GPtrArray) parts = parts_with_old(place);
    for (int newer = 1; newer >= 0; newer--)
        for (guint i = 0; i < parts->len && !mw_checkpoint_folder_is_there(place); i++) {
            const char *part = g_ptr_array_index(parts, i);
            if (is_own_folder(part) == newer)
                good = put_in_place(place, part, said, good ? error : NULL) && good;
        }
    return good || mw_checkpoint_folder_is_there(place);
}

/* A save in progress holds the lock of the new folder, wherever that is. */
static bool
is_at_rest(const char *folder)
{
    int lock = mw_checkpoint_folder_lock(folder);

    if (lock >= 0)
        close(lock);
    return lock >= 0;
}

void
mw_checkpoint_replace_sweep(const char *path, bool replaced)
{
    g_autoptr(GPtrArray) parts = parts_with_old(path);

    for (guint i = 0; i < parts->len; i++) {
        const char *part = g_ptr_array_index(parts, i);
        const bool newer = is_own_folder(part);
        g_autofree char *old = old_of(part);
        if (newer ? !replaced || !is_at_rest(part) : !replaced && !is_at_rest(path))
            continue;
        mw_checkpoint_folder_remove(old);
        if (newer)
            mw_checkpoint_folder_remove(part);
    }
}
