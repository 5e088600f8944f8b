#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/log_internal.h"
#include "planner/error.h"

/* How every line begins: a log is known by it, and a line's step is found without parsing. */
#define LINE_START "{\"step\": "

static bool
fail(const struct mw_log_file *file, int reason, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "log %s: cannot be written: %s", file->path,
                reason == ENXIO ? "a pipe that nobody reads" : g_strerror(reason));
    return false;
}

/* Bytes of `text` up to the first line that is not whole or is of a step after `last`. */
static gsize
length_to_keep(const char *text, gsize length, int64_t last)
{
    gsize kept = 0;

    while (kept < length) {
        const char *line = text + kept, *end = memchr(line, '\n', length - kept);
        if (!end || !g_str_has_prefix(line, LINE_START) ||
            g_ascii_strtoll(line + strlen(LINE_START), NULL, 10) > last)
            break;
        kept = (gsize)(end + 1 - text);
    }
    return kept;
}

static bool
prepare(struct mw_log_file *file, const struct mw_log_options *options, GError **error)
{
    g_autofree char *text = NULL;
    g_autoptr(GError) problem = NULL;
    gsize length, kept;

    if (!g_file_get_contents(file->path, &text, &length, &problem)) {
        g_set_error(error, MW_ERROR, MW_ERROR_IO, "log: %s", problem->message);
        return false;
    }
    if (memcmp(text, LINE_START, MIN(length, strlen(LINE_START)))) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "log %s: there is a file of this name that is no log of a run: give another "
                    "name",
                    file->path);
        return false;
    }
    kept = options->resume ? length_to_keep(text, length, options->first_step) : 0;
    return (kept == length || !ftruncate(file->fd, (off_t)kept)) || fail(file, errno, error);
}

bool
mw_log_file_open(struct mw_log_file *file, const struct mw_log_options *options, GError **error)
{
    struct stat info;

    file->fd = -1;
    if (!options->path)
        return true;
    file->path = g_strdup(options->path);
    /* A pipe is not waited for: whoever is to read it has it open. */
    file->fd = open(file->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (file->fd < 0 || fstat(file->fd, &info) || fcntl(file->fd, F_SETFL, O_APPEND))
        return fail(file, errno, error);
    return !S_ISREG(info.st_mode) || prepare(file, options, error);
}

void
mw_log_file_close(struct mw_log_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    g_free(file->path);
}

/* One call of the system appends the line; a part of it that got through is taken back, so that
 * what reads the file meets whole lines only. */
bool
mw_log_file_write(struct mw_log_file *file, const GString *line, GError **error)
{
    off_t start = file->fd < 0 ? 0 : lseek(file->fd, 0, SEEK_END);
    gsize written = 0;

    while (file->fd >= 0 && written < line->len) {
        ssize_t n = write(file->fd, line->str + written, line->len - written);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int reason = n ? errno : ENOSPC;
            if (written && start >= 0 && ftruncate(file->fd, start))
                reason = errno;
            return fail(file, reason, error);
        }
        written += (gsize)n;
    }
    return true;
}
