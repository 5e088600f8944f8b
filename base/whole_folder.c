#include "base/whole_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/whole_file.h"

#define TEMPORARY ".memwall-"
#define TEMPLATE TEMPORARY "XXXXXX"
#define MARK ".being-written" /* a file in it */
#define TITLE                                                                                      \
    "# What memwall wrote: `sha256sum -c " MW_FOLDER_LIST "` shows what has changed since.\n"
#define FILE_BYTES_MAX (16 << 20) /* what is larger, nobody wrote so */

/* --- what was written ------------------------------------------------------------------------- */

static char *
digest_of(const char *text, size_t length)
{
    return g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)text, length);
}

static char *
list_of(const struct mw_folder_file *files, size_t count)
{
    GString *list = g_string_new(TITLE);

    for (size_t i = 0; i < count; i++) {
        g_autofree char *digest = digest_of(files[i].text, strlen(files[i].text));
        g_string_append_printf(list, "%s  %s\n", digest, files[i].name);
    }
    return g_string_free(list, FALSE);
}

/* A plain file of that folder; NULL: there is none.  g_free it. */
static char *
read_plain(const char *folder, const char *name, gsize *length)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    struct stat info;
    char *text = NULL;

    if (!lstat(path, &info) && S_ISREG(info.st_mode) && info.st_size <= FILE_BYTES_MAX)
        g_file_get_contents(path, &text, length, NULL);
    return text;
}

/* NULL: the folder has no list.  g_free it. */
static char *
read_list(const char *folder)
{
    gsize length;
    char *list = read_plain(folder, MW_FOLDER_LIST, &length);

    if (list && g_str_has_prefix(list, TITLE))
        return list;
    g_free(list);
    return NULL;
}

/* Whether a file is as the list has it; the list itself is not in it. */
static bool
is_as_written(const char *folder, const char *name, const char *list)
{
    gsize length;
    g_autofree char *text = list ? read_plain(folder, name, &length) : NULL;
    g_autofree char *digest = text ? digest_of(text, length) : NULL;
    g_autofree char *line = digest ? g_strdup_printf("\n%s  %s\n", digest, name) : NULL;

    return line && !strchr(name, '\n') && strstr(list, line);
}

static bool
is_list(const char *name)
{
    return !strcmp(name, MW_FOLDER_LIST);
}

/* The first name that may not be replaced, g_free it; NULL: there is none. */
static char *
kept_name(const char *path, bool replace, GDir *folder)
{
    g_autofree char *list = replace ? read_list(path) : NULL;

    for (const char *name; (name = g_dir_read_name(folder));)
        if (!(list && is_list(name)) && !is_as_written(path, name, list))
            return g_strdup(name);
    return NULL;
}

bool
mw_folder_check(const char *path, bool replace, GError **error)
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
    g_autofree char *kept = kept_name(path, replace, folder);
    if (!kept)
        return true;
    return replace
               ? mw_refuse(error,
                           "%s: must be a new or empty folder, or as memwall wrote it, and %s in "
                           "it is not; move what you want to keep",
                           path, kept)
               : mw_refuse(error, "%s: must be a new or empty folder, and has %s", path, kept);
}

/* --- temporary folders ------------------------------------------------------------------------ */

/* Only what was written so: what another process put there since stays, with the folder.  `own`: of
 * a folder that has no list yet nobody else knows. */
static void
remove_folder(const char *path, bool own)
{
    g_autofree char *list = read_list(path);
    g_autofree char *last = list ? g_build_filename(path, MW_FOLDER_LIST, NULL) : NULL;
    g_autofree char *mark = g_build_filename(path, MARK, NULL);
    g_autoptr(GDir) folder = g_dir_open(path, 0, NULL);
    bool empty = true;

    for (const char *name; folder && (name = g_dir_read_name(folder));) {
        g_autofree char *file = g_build_filename(path, name, NULL);
        if (!(list && is_list(name)) && !(own && !strcmp(name, MARK)))
            empty = (list ? is_as_written(path, name, list) : own) && !unlink(file) && empty;
    }
    if (empty && last)
        unlink(last);
    if (empty && own)
        unlink(mark);
    rmdir(path);
}

/* A lock that ends with the process; -1: there is none to have.  close() it. */
static int
lock_folder(const char *path, int how)
{
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (descriptor < 0 || !flock(descriptor, how))
        return descriptor;
    close(descriptor);
    return -1;
}

static void
unlock(int descriptor)
{
    if (descriptor >= 0)
        close(descriptor);
}

static bool
is_temporary_of(const char *name, const char *base)
{
    size_t length = strlen(base);

    return !strncmp(name, base, length) && g_str_has_prefix(name + length, TEMPORARY) &&
           strlen(name + length) == strlen(TEMPLATE);
}

/* Those of writers that were killed: a mark says that it is one, whatever its name is. */
static void
remove_left(const char *parent, const char *base)
{
    g_autoptr(GDir) folder = g_dir_open(parent, 0, NULL);

    for (const char *name; folder && (name = g_dir_read_name(folder));) {
        g_autofree char *path = g_build_filename(parent, name, NULL);
        g_autofree char *mark = g_build_filename(path, MARK, NULL);
        bool left = is_temporary_of(name, base) && g_file_test(mark, G_FILE_TEST_IS_REGULAR);
        int lock = left ? lock_folder(path, LOCK_EX | LOCK_NB) : -1;
        if (lock >= 0)
            remove_folder(path, true);
        unlock(lock);
    }
}

/* A new one beside `path`, and the lock on it, which it has before its mark. */
static char *
make_temporary(const char *path, int *lock)
{
    g_autofree char *parent = g_path_get_dirname(path), *base = g_path_get_basename(path);
    g_autofree char *temporary = g_strconcat(path, TEMPLATE, NULL);

    remove_left(parent, base);
    if (!g_mkdtemp(temporary))
        return NULL;
    *lock = lock_folder(temporary, LOCK_EX | LOCK_NB);
    g_autofree char *mark = g_build_filename(temporary, MARK, NULL);
    int descriptor = open(mark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int reason = errno;
    unlock(descriptor);
    if (descriptor >= 0)
        return g_steal_pointer(&temporary);
    rmdir(temporary);
    unlock(*lock);
    errno = reason;
    return NULL;
}

static bool
remove_mark(const char *folder)
{
    g_autofree char *mark = g_build_filename(folder, MARK, NULL);

    return !unlink(mark);
}

/* --- writing ---------------------------------------------------------------------------------- */

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

/* The new folder under the path, and under its temporary name what was there, if anything: then it
 * was exchanged.  What another process put there since the check is replaced only by who replaces.
 */
static bool
take_place(const char *temporary, const char *path, bool replaces, bool *exchanged)
{
    *exchanged = false;
    if (chmod(temporary, allowed(0777)) || !sync_folder(temporary))
        return false;
    if (!rename(temporary, path))
        return true;
    *exchanged = replaces && (errno == ENOTEMPTY || errno == EEXIST) &&
                 !renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_EXCHANGE);
    return *exchanged;
}

static bool
write_files(const char *folder, const struct mw_folder_file *files, size_t count,
            bool (*stops)(void), GError **error)
{
    g_autofree char *list = list_of(files, count);
    const struct mw_folder_file last = {MW_FOLDER_LIST, list, false};
    bool good = true;

    for (size_t i = 0; good && i <= count; i++)
        good =
            ((!stops || !stops()) || mw_fail(error, MW_ERROR_IO, "stopped; nothing is written")) &&
            write_file(folder, i < count ? &files[i] : &last, error);
    return good;
}

bool
mw_folder_write(const char *path, const struct mw_folder_file *files, size_t count, bool replace,
                bool (*stops)(void), GError **error)
{
    g_autofree char *whole = g_canonicalize_filename(path, NULL);
    int lock = -1;

    if (!mw_folder_check(whole, replace, error))
        return false;
    g_autofree char *temporary = make_temporary(whole, &lock);
    if (!temporary) {
        mw_file_set_error(error, path, errno);
        return false;
    }
    bool exchanged = false, good = write_files(temporary, files, count, stops, error);
    if (good && (!remove_mark(temporary) || !take_place(temporary, whole, replace, &exchanged))) {
        mw_file_set_error(error, path, errno);
        good = false;
    }
    remove_folder(temporary, !exchanged);
    unlock(lock);
    return good;
}
