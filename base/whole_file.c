#include "base/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/own_file.h"

/* The number of links that the system follows. */
#define LINKS_MAX 40

void
mw_file_set_error(GError **error, const char *path, int error_number)
{
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "cannot write %s: %s", path,
                error_number == ENXIO ? "a pipe that nobody reads" : g_strerror(error_number));
}

static void
file_free(struct mw_file *file)
{
    g_free(file->path);
    g_free(file->target);
    g_free(file->temporary);
    g_free(file);
}

char *
mw_file_end_of_links(const char *path)
{
    g_autofree char *at = g_strdup(path);
    int links = 0;

    for (char *text; links < LINKS_MAX && (text = g_file_read_link(at, NULL)); links++) {
        g_autofree char *folder = g_path_get_dirname(at);
        g_free(at);
        at = g_path_is_absolute(text) ? g_strdup(text) : g_build_filename(folder, text, NULL);
        g_free(text);
    }
    return links && links < LINKS_MAX ? g_steal_pointer(&at) : NULL;
}

/* A rename replaces a symbolic link, but the user means its target, whether or not it exists. A
 * link that the system does not follow (a loop, or another user's in a folder for all) is not
 * followed here. */
static char *
follow_links(const char *path)
{
    struct stat info;
    bool exists = stat(path, &info) == 0;
    char *real = exists ? realpath(path, NULL) : NULL;
    char *end = real                         ? g_strdup(real)
                : !exists && errno == ENOENT ? mw_file_end_of_links(path)
                                             : NULL;

    free(real);
    return end ? end : g_strdup(path);
}

/* Opens the temporary file with the mode that the target has, or would get. */
static int
open_temporary(struct mw_file *file, const struct stat *old)
{
    g_autofree char *folder = g_path_get_dirname(file->target);
    g_autofree char *base = g_path_get_basename(file->target);
    g_autofree char *name = g_strdup_printf(".%s.XXXXXX", base);
    int descriptor;

    file->temporary = g_build_filename(folder, name, NULL);
    descriptor = g_mkstemp_full(file->temporary, O_WRONLY | O_CLOEXEC, 0666);
    if (descriptor >= 0 && old && fchmod(descriptor, old->st_mode & 07777) < 0) {
        int saved = errno;
        close(descriptor);
        g_unlink(file->temporary);
        errno = saved;
        return -1;
    }
    return descriptor;
}

/* Does not wait for a pipe's reader, which must already have it open. */
static int
open_special(const char *path)
{
    int descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);

    if (descriptor >= 0)
        fcntl(descriptor, F_SETFL, 0);
    return descriptor;
}

static int
open_target(struct mw_file *file)
{
    struct stat old;
    bool exists = stat(file->target, &old) == 0;

    if (!exists && errno != ENOENT)
        return -1;
    if (exists && S_ISDIR(old.st_mode)) {
        errno = EISDIR;
        return -1;
    }
    if (exists && !S_ISREG(old.st_mode))
        return open_special(file->target);
    if (exists && access(file->target, W_OK) < 0)
        return -1;
    return open_temporary(file, exists ? &old : NULL);
}

/* A stream remembers that a write failed, but not why, and ENOSPC would be reported as another
 * error. */
static ssize_t
write_through(void *cookie, const char *bytes, size_t count)
{
    struct mw_file *file = cookie;
    size_t done = 0;

    while (done < count) {
        ssize_t put = write(file->descriptor, bytes + done, count - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put > 0) {
            done += (size_t)put;
            continue;
        }
        if (!file->failure)
            file->failure = put ? errno : ENOSPC;
        errno = file->failure;
        return 0;
    }
    return (ssize_t)done;
}

static int
close_through(void *cookie)
{
    struct mw_file *file = cookie;
    int result = close(file->descriptor);

    if (result && !file->failure)
        file->failure = errno;
    return result;
}

static FILE *
open_stream(struct mw_file *file)
{
    cookie_io_functions_t calls = {.write = write_through, .close = close_through};
    FILE *stream = fopencookie(file, "w", calls);
    int reason = errno;

    if (!stream)
        close(file->descriptor);
    errno = reason;
    return stream;
}

/* Takes over the descriptor; if it is -1, errno says why. */
static struct mw_file *
begin(struct mw_file *file, int descriptor, GError **error)
{
    file->descriptor = descriptor;
    if (descriptor >= 0)
        file->stream = open_stream(file);
    if (file->stream)
        return file;
    mw_file_set_error(error, file->path, errno);
    if (descriptor >= 0 && file->temporary)
        g_unlink(file->temporary);
    file_free(file);
    return NULL;
}

struct mw_file *
mw_file_open(const char *path, GError **error)
{
    struct mw_file *file = g_new0(struct mw_file, 1);

    file->path = g_strdup(path);
    file->target = follow_links(path);
    return begin(file, open_target(file), error);
}

struct mw_file *
mw_file_open_own(const char *path, GError **error)
{
    struct mw_file *file = g_new0(struct mw_file, 1);
    struct stat old;
    bool exists = mw_own_is_file(AT_FDCWD, path, &old);

    file->path = g_strdup(path);
    file->target = g_strdup(path);
    if (!exists && errno != ENOENT) {
        g_set_error(error, MW_ERROR, MW_ERROR_IO,
                    "cannot write %s: what is there is not a regular file of this user's", path);
        file_free(file);
        return NULL;
    }
    return begin(file, open_temporary(file, exists ? &old : NULL), error);
}

/* Returns 0 or an errno.  fsync has no meaning for a pipe or a terminal. */
static int
flush_and_close(struct mw_file *file)
{
    bool good = !fflush(file->stream) && !ferror(file->stream);

    if (good && file->temporary && fsync(file->descriptor) < 0)
        file->failure = errno;
    good &= !fclose(file->stream);
    return good || file->failure ? file->failure : EIO;
}

bool
mw_file_commit(struct mw_file *file, GError **error)
{
    int result = flush_and_close(file);

    if (!result && file->temporary && rename(file->temporary, file->target) < 0)
        result = errno;
    if (result) {
        mw_file_set_error(error, file->path, result);
        if (file->temporary)
            g_unlink(file->temporary);
    }
    file_free(file);
    return result == 0;
}

void
mw_file_abort(struct mw_file *file)
{
    fclose(file->stream);
    if (file->temporary)
        g_unlink(file->temporary);
    file_free(file);
}

bool
mw_file_check(const char *path, GError **error)
{
    struct stat info;

    if (!stat(path, &info) && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
        bool may = !access(path, W_OK);
        if (!may)
            mw_file_set_error(error, path, errno);
        return may;
    }
    struct mw_file *file = mw_file_open(path, error);
    if (file)
        mw_file_abort(file);
    return file != NULL;
}

bool
mw_file_hold(const char *path, int *held, GError **error)
{
    struct stat info;

    *held = -1;
    if (stat(path, &info) || !S_ISFIFO(info.st_mode))
        return mw_file_check(path, error);
    *held = open_special(path);
    if (*held < 0)
        mw_file_set_error(error, path, errno);
    return *held >= 0;
}

bool
mw_file_write(const char *path, const char *text, size_t length, GError **error)
{
    struct mw_file *file = mw_file_open(path, error);

    if (!file)
        return false;
    fwrite(text, 1, length, file->stream);
    return mw_file_commit(file, error);
}
