#include "base/input.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"

#define BLOCK_BYTES 65536

/* A file of that name is not there, cannot be, or is not for this user. */
static bool
is_wrong_name(int reason)
{
    return reason == ENOENT || reason == ENOTDIR || reason == ELOOP || reason == ENAMETOOLONG ||
           reason == EACCES;
}

static bool
fail(const char *path, const char *wanted, int reason, GError **error)
{
    if (is_wrong_name(reason))
        return mw_refuse(error, "%s: %s: must be %s", path, g_strerror(reason), wanted);
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s", path, g_strerror(reason));
    return false;
}

/* A name such as /dev/fd/63 may be of a pipe. */
static bool
check_kind(const char *path, const char *wanted, mode_t mode, bool regular, GError **error)
{
    if (S_ISDIR(mode))
        return mw_refuse(error, "%s: is a folder: must be %s", path, wanted);
    if (S_ISREG(mode) || (!regular && S_ISFIFO(mode)))
        return true;
    return mw_refuse(error, "%s: is not a regular file%s: must be %s", path,
                     regular ? "" : " or a pipe", wanted);
}

/* Files that the system makes when they are read call themselves regular files of 0 bytes; some
 * never end, or are gone once they have been read. */
static bool
check_made(const char *path, const char *wanted, const struct stat *status, GError **error)
{
    static const long made[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC};
    struct statfs system;

    if (!S_ISREG(status->st_mode) || status->st_size || statfs(path, &system))
        return true;
    for (size_t i = 0; i < G_N_ELEMENTS(made); i++)
        if ((long)system.f_type == made[i])
            return mw_refuse(error, "%s: is made by the system as it is read: must be %s", path,
                             wanted);
    return true;
}

/* A device is not opened to see that it is one, and a pipe not waited for. */
static int
open_at_once(const char *path, const char *wanted, bool regular, struct stat *status,
             GError **error)
{
    if (stat(path, status)) {
        fail(path, wanted, errno, error);
        return -1;
    }
    if (!check_kind(path, wanted, status->st_mode, regular, error) ||
        !check_made(path, wanted, status, error))
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
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
    return check_kind(path, wanted, status.st_mode, false, error) &&
           check_made(path, wanted, &status, error);
}

/* --- texts ----------------------------------------------------------------------------------- */

struct text {
    const char *path;
    const struct mw_input_kind *kind;
    GString *bytes;
    mode_t mode;
};

static bool
refuse_size(const struct text *text, int64_t bytes, GError **error)
{
    g_autofree char *has =
        bytes ? g_strdup_printf("has %" G_GINT64_FORMAT " bytes, ", bytes) : g_strdup("");

    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                "%s: %smore than %" G_GSIZE_FORMAT " bytes: must be %s", text->path, has,
                text->kind->most_bytes, text->kind->wanted);
    return false;
}

/* As far as it has been read. */
static bool
check_begin(const struct text *text, GError **error)
{
    const char *begin = text->kind->begin;
    gsize seen = begin ? MIN(text->bytes->len, strlen(begin)) : 0;

    if (!seen || !memcmp(text->bytes->str, begin, seen))
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "%s: line 1 does not begin with '%s': must be %s",
                text->path, begin, text->kind->wanted);
    return false;
}

/* Somebody has a pipe open to write, and has not yet. */
static bool
await(const struct text *text, int fd, int patience_ms, GError **error)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    int ready = poll(&wait, 1, patience_ms);

    if (ready > 0 || (ready < 0 && errno == EINTR))
        return true;
    if (ready < 0)
        return fail(text->path, text->kind->wanted, errno, error);
    return mw_refuse(error, "%s: nobody wrote to it for %g s: must be %s", text->path,
                     patience_ms * 1e-3, text->kind->wanted);
}

/* False with *error; else *over says whether that was all. */
static bool
read_block(const struct text *text, int fd, int patience_ms, char *block, bool *over,
           GError **error)
{
    ssize_t got = read(fd, block, BLOCK_BYTES);

    *over = !got;
    if (got > 0) {
        g_string_append_len(text->bytes, block, got);
        return text->bytes->len > text->kind->most_bytes ? refuse_size(text, 0, error)
                                                         : check_begin(text, error);
    }
    if (got < 0 && errno == EAGAIN)
        return await(text, fd, patience_ms, error);
    return !got || errno == EINTR || fail(text->path, text->kind->wanted, errno, error);
}

static bool
read_all(const struct text *text, int fd, int patience_ms, GError **error)
{
    g_autofree char *block = g_malloc(BLOCK_BYTES);

    for (bool over = false; !over;)
        if (!read_block(text, fd, patience_ms, block, &over, error))
            return false;
    if (!text->bytes->len && S_ISFIFO(text->mode))
        return mw_refuse(error, "%s: is a pipe that nobody writes to: must be %s", text->path,
                         text->kind->wanted);
    if (!text->bytes->len && text->kind->begin)
        return mw_refuse(error, "%s: is empty: must be %s", text->path, text->kind->wanted);
    return true;
}

/* --- pipes ----------------------------------------------------------------------------------- */

/* A pipe can be read once, and what is asked of it may be asked again: its text stays, by what it
 * is and how it was named. */
static GHashTable *pipes; /* char * -> GBytes * */
G_LOCK_DEFINE_STATIC(pipes);

static char *
pipe_key(const char *path, const struct stat *status)
{
    return g_strdup_printf("%ju:%ju:%s", (uintmax_t)status->st_dev, (uintmax_t)status->st_ino,
                           path);
}

static void
keep_pipe(const char *path, const struct stat *status, const GString *bytes)
{
    G_LOCK(pipes);
    if (!pipes)
        pipes =
            g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_bytes_unref);
    g_hash_table_replace(pipes, pipe_key(path, status), g_bytes_new(bytes->str, bytes->len));
    G_UNLOCK(pipes);
}

/* False: it was not read yet. */
static bool
recall_pipe(const char *path, const struct stat *status, GString *bytes)
{
    g_autofree char *key = pipe_key(path, status);
    gsize length = 0;

    G_LOCK(pipes);
    GBytes *kept = pipes ? g_hash_table_lookup(pipes, key) : NULL;
    const char *text = kept ? g_bytes_get_data(kept, &length) : NULL;
    if (kept)
        g_string_append_len(bytes, text, (gssize)length);
    G_UNLOCK(pipes);
    return kept;
}

/* --- the whole ------------------------------------------------------------------------------- */

static bool
read_pipe(const struct text *text, const struct stat *status, int fd, int patience_ms,
          GError **error)
{
    if (recall_pipe(text->path, status, text->bytes))
        return text->bytes->len > text->kind->most_bytes ? refuse_size(text, 0, error)
                                                         : check_begin(text, error);
    if (!read_all(text, fd, patience_ms, error))
        return false;
    keep_pipe(text->path, status, text->bytes);
    return true;
}

char *
mw_input_read_patiently(const char *path, const struct mw_input_kind *kind, int patience_ms,
                        gsize *length, GError **error)
{
    struct stat status;
    int fd = open_at_once(path, kind->wanted, false, &status, error);

    if (fd < 0)
        return NULL;
    bool fits = (guint64)status.st_size <= kind->most_bytes;
    g_autoptr(GString) bytes = g_string_sized_new(fits ? (gsize)status.st_size + 1 : 0);
    struct text text = {path, kind, bytes, status.st_mode};
    bool good = !fits                      ? refuse_size(&text, status.st_size, error)
                : S_ISFIFO(status.st_mode) ? read_pipe(&text, &status, fd, patience_ms, error)
                                           : read_all(&text, fd, patience_ms, error);
    close(fd);
    if (!good)
        return NULL;
    *length = bytes->len;
    return g_string_free(g_steal_pointer(&bytes), FALSE);
}

char *
mw_input_read(const char *path, const struct mw_input_kind *kind, gsize *length, GError **error)
{
    return mw_input_read_patiently(path, kind, MW_INPUT_PATIENCE_MS, length, error);
}
