#include "base/whole_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/whole_file.h"

bool
mw_folder_check(const char *path, bool (*replaces)(const char *name), GError **error)
{
    struct stat info;

    if (lstat(path, &info)) {
        if (errno == ENOENT)
            return true;
        mw_file_set_error(error, path, errno);
        return false;
    }
    if (!S_ISDIR(info.st_mode))
        return mw_refuse(error, "%s: must be a new or empty folder, and is no folder", path);
    g_autoptr(GDir) folder = g_dir_open(path, 0, NULL);
    if (!folder) {
        mw_file_set_error(error, path, errno);
        return false;
    }
    for (const char *name; (name = g_dir_read_name(folder));)
        if (!replaces || !replaces(name))
            return mw_refuse(error, "%s: must be a new or empty folder, and has %s", path, name);
    return true;
}

/* Only files that may go: what another process put there since stays, with the folder. */
static void
remove_folder(const char *path, bool (*goes)(const char *name))
{
    g_autoptr(GDir) folder = g_dir_open(path, 0, NULL);

    for (const char *name; folder && (name = g_dir_read_name(folder));) {
        g_autofree char *file = g_build_filename(path, name, NULL);
        if (!goes || goes(name))
            unlink(file);
    }
    rmdir(path);
}

static mode_t
allowed(mode_t mode)
{
    mode_t mask = umask(0);

    umask(mask);
    return mode & ~mask;
}

static bool
write_file(const char *folder, const struct mw_folder_file *file, GError **error)
{
    g_autofree char *path = g_build_filename(folder, file->name, NULL);

    if (!mw_file_write(path, file->text, strlen(file->text), error))
        return false;
    if (!file->runs || !chmod(path, allowed(0777)))
        return true;
    mw_file_set_error(error, path, errno);
    return false;
}

/* Names become durable with their folder. */
static bool
sync_folder(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = descriptor >= 0 && !fsync(descriptor);

    if (descriptor >= 0)
        close(descriptor);
    return good;
}

/* The new folder under the path, and under its temporary name what was there, if anything. What
 * another process put there since the check is replaced only by who replaces. */
static bool
take_place(const char *temporary, const char *path, bool replaces)
{
    if (!chmod(temporary, allowed(0777)) && sync_folder(temporary))
        return !rename(temporary, path) ||
               (replaces && (errno == ENOTEMPTY || errno == EEXIST) &&
                !renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_EXCHANGE));
    return false;
}

bool
mw_folder_write(const char *path, const struct mw_folder_file *files, size_t count,
                bool (*replaces)(const char *name), GError **error)
{
    g_autofree char *whole = g_canonicalize_filename(path, NULL);
    g_autofree char *temporary = g_strconcat(whole, ".XXXXXX", NULL);
    bool good = true;

    if (!mw_folder_check(whole, replaces, error))
        return false;
    if (!g_mkdtemp(temporary)) {
        mw_file_set_error(error, path, errno);
        return false;
    }
    for (size_t i = 0; good && i < count; i++)
        good = write_file(temporary, &files[i], error);
    if (good && !take_place(temporary, whole, replaces != NULL)) {
        mw_file_set_error(error, path, errno);
        good = false;
    }
    remove_folder(temporary, good ? replaces : NULL);
    return good;
}
