#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "exec/course/log_internal.h"
#include "exec/nvme/run_names.h"

/* How every line begins: a log is known by it, and a line's step is found without parsing. */
#define LINE_START "{\"step\": "
#define LINE_BYTES 4096 /* longer than any of ours */
/* Of a log that is looked through for the runs that it names. */
#define LINES_MAX (1 << 22)
#define RUNS_MAX 64

static bool
fail(const struct mw_log_file *file, int reason, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "log %s: cannot be written: %s", file->path,
                reason == ENXIO       ? "a pipe that nobody reads"
                : reason == ETIMEDOUT ? "its reader takes nothing"
                                      : g_strerror(reason));
    return false;
}

/* Bytes up to the first line that is not whole, is longer than any of ours, or is of a step after
 * `last`. */
static off_t
length_to_keep(FILE *in, int64_t last)
{
    char line[LINE_BYTES];
    off_t kept = 0;

    while (fgets(line, sizeof line, in)) {
        size_t length = strlen(line);
        if (!length || line[length - 1] != '\n' || !g_str_has_prefix(line, LINE_START) ||
            g_ascii_strtoll(line + strlen(LINE_START), NULL, 10) > last)
            break;
        kept += (off_t)length;
    }
    return kept;
}

/* As far as it begins so: a log may have been cut short. */
static bool
begins_as_log(FILE *in)
{
    char begin[sizeof LINE_START - 1];
    size_t length = fread(begin, 1, sizeof begin, in);

    rewind(in);
    return !memcmp(begin, LINE_START, length);
}

static bool
is_no_log(const char *path, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "log %s: is a file that is not the log of a run: give another name",
                path);
    return false;
}

char *
mw_log_run_text(const char *name)
{
    char *text = g_strdup(name);

    for (char *at = text; *at; at++)
        if (*at == '"' || *at == '\\' || g_ascii_iscntrl(*at))
            *at = '?';
    return text;
}

/* Behind a mark and what may stand around it; NULL: it is not there. */
static const char *
behind(const char *at, char mark)
{
    at += strspn(at, " \t");
    return *at == mark ? at + 1 : NULL;
}

/* The run that a line names, whoever has written it; NULL: it does not.  g_free it. */
static char *
run_of(const char *line)
{
    const char *key = strstr(line, "\"run\"");
    const char *colon = key ? behind(key + strlen("\"run\""), ':') : NULL;
    const char *begin = colon ? behind(colon, '"') : NULL;
    const char *end = begin ? strchr(begin, '"') : NULL;

    return end ? g_strndup(begin, (gsize)(end - begin)) : NULL;
}

/* The runs of all lines, each once: a resume cuts off all lines after its first step, of any
 * run. */
static GPtrArray *
runs_of(FILE *in)
{
    GPtrArray *runs = g_ptr_array_new_with_free_func(g_free);
    char line[LINE_BYTES];

    for (int i = 0; i < LINES_MAX && runs->len < RUNS_MAX && fgets(line, sizeof line, in); i++) {
        g_autofree char *run = run_of(line);
        if (run && !g_ptr_array_find_with_equal_func(runs, run, g_str_equal, NULL))
            g_ptr_array_add(runs, g_steal_pointer(&run));
    }
    rewind(in);
    return runs;
}

/* Refuses another run's log: to continue it would cut it off after this run's first step. */
static bool
is_of_run(const char *path, FILE *in, const char *name, GError **error)
{
    g_autoptr(GPtrArray) runs = name ? runs_of(in) : g_ptr_array_new();
    g_autofree char *wanted = name ? mw_log_run_text(name) : NULL;

    for (guint i = 0; i < runs->len; i++) {
        const char *found = g_ptr_array_index(runs, i);
        if (!strcmp(found, wanted))
            continue;
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "log %s: belongs to run %s, and %s continues: give another name", path, found,
                    wanted);
        return false;
    }
    return true;
}

char **
mw_log_runs(const char *path)
{
    struct stat info;
    FILE *in = !stat(path, &info) && S_ISREG(info.st_mode) ? fopen(path, "re") : NULL;
    GPtrArray *runs = in ? runs_of(in) : g_ptr_array_new();

    if (in)
        fclose(in);
    g_ptr_array_add(runs, NULL);
    return (char **)g_ptr_array_free(runs, FALSE);
}

/* Two runs would cut off each other's lines.  Where there are no such locks, nobody knows. */
static bool
is_free(int fd, int kind, const char *path, GError **error)
{
    if (mw_run_lock_file(fd, kind) || errno != EWOULDBLOCK)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "log %s: another run is writing it: give another name, or wait for that run", path);
    return false;
}

static bool
prepare(struct mw_log_file *file, const struct mw_log_options *options, off_t bytes, GError **error)
{
    FILE *in = fopen(file->path, "re");

    if (!in) {
        g_set_error(error, MW_ERROR, MW_ERROR_IO, "log %s: cannot be read: %s", file->path,
                    g_strerror(errno));
        return false;
    }
    const char *run = options->resume ? options->run : NULL;
    bool is_good = (begins_as_log(in) || is_no_log(file->path, error)) &&
                   is_of_run(file->path, in, run, error);
    off_t kept = is_good && options->resume ? length_to_keep(in, options->first_step) : 0;
    fclose(in);
    file->empties = is_good && !options->resume && bytes > 0;
    return is_good && (file->empties || kept == bytes || !ftruncate(file->fd, kept) ||
                       fail(file, errno, error));
}

static bool
check_begin(const struct mw_log_file *file, const char *run, GError **error)
{
    FILE *in = fopen(file->path, "re");

    if (!in)
        return fail(file, errno, error);
    bool is_good = (begins_as_log(in) || is_no_log(file->path, error)) &&
                   is_of_run(file->path, in, run, error) &&
                   is_free(fileno(in), LOCK_SH, file->path, error);
    fclose(in);
    return is_good;
}

/* A pipe's reader takes its being closed for the end: only a file is opened here. */
bool
mw_log_check(const char *path, const char *run, GError **error)
{
    const struct mw_log_file file = {.path = (char *)path};
    g_autofree char *folder = g_path_get_dirname(path);
    struct stat info;
    bool there = !stat(path, &info);

    if (!there && errno != ENOENT)
        return fail(&file, errno, error);
    if (there && S_ISDIR(info.st_mode))
        return fail(&file, EISDIR, error);
    if (there ? access(path, W_OK) : access(folder, W_OK | X_OK))
        return fail(&file, errno, error);
    return !there || !S_ISREG(info.st_mode) || check_begin(&file, run, error);
}

bool
mw_log_file_open(struct mw_log_file *file, const struct mw_log_options *options, GError **error)
{
    struct stat info;

    file->fd = -1;
    file->empties = false;
    if (!options->path)
        return true;
    file->path = g_strdup(options->path);
    /* A pipe is not waited for: whoever is to read it has it open. */
    file->fd = open(file->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (file->fd < 0 || fstat(file->fd, &info) || fcntl(file->fd, F_SETFL, O_APPEND))
        return fail(file, errno, error);
    return !S_ISREG(info.st_mode) || (is_free(file->fd, LOCK_EX, file->path, error) &&
                                      prepare(file, options, info.st_size, error));
}

void
mw_log_file_close(struct mw_log_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    g_free(file->path);
}

#define LOOK_MS 100

bool
mw_log_takes(int fd, int wait_ms)
{
    struct pollfd way = {fd, POLLOUT, 0};

    return fd < 0 || poll(&way, 1, wait_ms) > 0;
}

bool
mw_log_file_awaits(int fd, const struct mw_log_options *options)
{
    while (!mw_log_takes(fd, LOOK_MS))
        if (options->gives_up && options->gives_up(options->data))
            return false;
    return true;
}

static bool
give_up(struct mw_log_file *file, int reason, GError **error)
{
    close(file->fd);
    file->fd = -1;
    return fail(file, reason, error);
}

/* One call of the system appends the line; a part of it that got through is taken back, so that
 * what reads the file meets whole lines only.  Behind one that is lost there are none. */
bool
mw_log_file_write(struct mw_log_file *file, const struct mw_log_options *options,
                  const GString *line, GError **error)
{
    if (!mw_log_file_awaits(file->fd, options))
        return give_up(file, ETIMEDOUT, error);
    if (file->empties && file->fd >= 0 && ftruncate(file->fd, 0))
        return give_up(file, errno, error);
    file->empties = false;
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
            return give_up(file, reason, error);
        }
        written += (gsize)n;
    }
    return true;
}
