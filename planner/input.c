#include "planner/input.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "planner/error.h"

/* A file of that name is not there, or cannot be. */
static bool
is_absence(int reason)
{
    return reason == ENOENT || reason == ENOTDIR || reason == ELOOP || reason == ENAMETOOLONG;
}

static bool
fail(const char *path, const char *wanted, int reason, GError **error)
{
    if (is_absence(reason))
        return mw_refuse(error, "%s: %s: must be %s", path, g_strerror(reason), wanted);
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s", path, g_strerror(reason));
    return false;
}

static bool
check_kind(const char *path, const char *wanted, mode_t mode, bool regular, GError **error)
{
    if (S_ISDIR(mode))
        return mw_refuse(error, "%s: is a folder: must be %s", path, wanted);
    if (regular && !S_ISREG(mode))
        return mw_refuse(error, "%s: is no regular file: must be %s", path, wanted);
    return true;
}

/* Opening a pipe would wait for who writes to it. */
static int
open_at_once(const char *path, const char *wanted, bool regular, struct stat *status,
             GError **error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool good = fd >= 0 && !fstat(fd, status);

    good = good ? check_kind(path, wanted, status->st_mode, regular, error)
                : fail(path, wanted, errno, error);
    if (good)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int
mw_input_open(const char *path, const char *wanted, GError **error)
{
    struct stat status;

    return open_at_once(path, wanted, true, &status, error);
}

bool
mw_input_read_at(int fd, const char *path, int64_t offset_bytes, int64_t bytes, void *out,
                 GError **error)
{
    for (char *at = out; bytes > 0;) {
        ssize_t got = pread(fd, at, (size_t)bytes, offset_bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            g_autofree char *end = g_strdup_printf("ends at byte %" G_GINT64_FORMAT
                                                   ": it was cut short since it was opened",
                                                   offset_bytes);
            g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s", path,
                        got < 0 ? g_strerror(errno) : end);
            return false;
        }
        at += got;
        offset_bytes += got;
        bytes -= got;
    }
    return true;
}

bool
mw_input_is_there(const char *path, const char *wanted, GError **error)
{
    struct stat status;

    if (stat(path, &status) || access(path, R_OK))
        return fail(path, wanted, errno, error);
    return check_kind(path, wanted, status.st_mode, false, error);
}

/* 0, or errno.  EAGAIN: somebody has a pipe open to write, and has not yet. */
static int
read_all(int fd, gsize most_bytes, GString *text)
{
    char block[65536];
    ssize_t got = 1;

    while (got && text->len <= most_bytes) {
        got = read(fd, block, sizeof block);
        if (got > 0)
            g_string_append_len(text, block, got);
        else if (got < 0 && errno == EAGAIN && !fcntl(fd, F_SETFL, 0))
            continue;
        else if (got < 0 && errno != EINTR)
            return errno;
    }
    return 0;
}

static bool
check_text(const char *path, const char *wanted, gsize bytes, gsize most_bytes, mode_t mode,
           GError **error)
{
    if (bytes > most_bytes) {
        g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                    "%s: more than %" G_GSIZE_FORMAT " bytes: must be %s", path, most_bytes,
                    wanted);
        return false;
    }
    if (!bytes && S_ISFIFO(mode))
        return mw_refuse(error, "%s: is a pipe that nobody writes to: must be %s", path, wanted);
    return true;
}

char *
mw_input_read(const char *path, const char *wanted, gsize most_bytes, gsize *length, GError **error)
{
    struct stat status;
    int fd = open_at_once(path, wanted, false, &status, error);

    if (fd < 0)
        return NULL;
    g_autoptr(GString) text = g_string_new(NULL);
    int failure = read_all(fd, most_bytes, text);
    close(fd);
    if (failure ? !fail(path, wanted, failure, error)
                : !check_text(path, wanted, text->len, most_bytes, status.st_mode, error))
        return NULL;
    *length = text->len;
    return g_string_free(g_steal_pointer(&text), FALSE);
}
