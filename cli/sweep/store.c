#include "cli/sweep/store.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/input.h"
#include "base/whole_file.h"

#define TITLE "memwall-sweep"
#define END "memwall-sweep ends "
#define WANTED "the rows of a shard, which memwall sweep with a shard wrote"

struct cli_store {
    const struct cli_sweep *sweep;
    FILE *file;
    char *path, *target; /* OUTPUT.partial and OUTPUT; NULL: it has no name */
    char *title;         /* of a file that is read: its first line */
    long rows_at;        /* offset of the first row */
};

static void
store_free(struct cli_store *store)
{
    if (store->file)
        fclose(store->file);
    g_free(store->path);
    g_free(store->target);
    g_free(store->title);
    g_free(store);
}

/* A line without its end; NULL: there is none, or its end is missing. */
static char *
read_line(FILE *file)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length = getline(&line, &room, file);
    bool whole = length > 0 && line[length - 1] == '\n' && !memchr(line, '\0', (size_t)length);
    char *text = whole ? g_strndup(line, (gsize)length - 1) : NULL;

    free(line);
    return text;
}

/* --- rows of the file ------------------------------------------------------------------------- */

/* A row has a digest of its own behind it, as a changed one must not be taken for what was
 * computed: ROW, a tab, DIGEST_LENGTH digits. */
#define DIGEST_LENGTH 16

static char *
row_digest(const char *row)
{
    char *digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, row, -1);

    digest[DIGEST_LENGTH] = '\0';
    return digest;
}

/* Cuts the digest off a line.  Whether it is the row's. */
static bool
cut_digest(char *line)
{
    size_t length = strlen(line);
    char *at = length > DIGEST_LENGTH ? line + length - DIGEST_LENGTH - 1 : NULL;

    if (!at || *at != '\t')
        return false;
    *at = '\0';
    g_autofree char *digest = row_digest(line);
    return !strcmp(at + 1, digest);
}

/* --- the end of a shard's file ---------------------------------------------------------------- */

/* A digest of all lines before the end. */
static char *
digest_of(FILE *file)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    char *line;

    rewind(file);
    for (; (line = read_line(file)) && !g_str_has_prefix(line, END); g_free(line)) {
        g_checksum_update(sum, (const guchar *)line, -1);
        g_checksum_update(sum, (const guchar *)"\n", 1);
    }
    g_free(line);
    return g_strdup(g_checksum_get_string(sum));
}

bool
cli_store_is_as_written(struct cli_store *store)
{
    g_autofree char *digest = digest_of(store->file);
    g_autofree char *found = NULL, *more = NULL;

    cli_store_rewind(store);
    while ((found = read_line(store->file)) && !g_str_has_prefix(found, END))
        g_free(found);
    more = read_line(store->file);
    return found && !strcmp(found + strlen(END), digest) && !more && feof(store->file);
}

/* --- the title ------------------------------------------------------------------------------- */

static char *
title_text(const struct cli_store_title *title)
{
    return g_strdup_printf(TITLE " %s points %" PRId64 " shard %d/%d", title->digest, title->points,
                           title->shard, title->shards);
}

/* The command may have been given otherwise, such as with another number of threads. */
static bool
is_title(const char *line, const char *text)
{
    size_t length = strlen(text);

    return !strncmp(line, text, length) && (!line[length] || line[length] == '\t');
}

static bool
read_title(const char *line, struct cli_store_title *title)
{
    int end = 0;

    if (sscanf(line, TITLE " %64s points %" SCNd64 " shard %d/%d%n", title->digest, &title->points,
               &title->shard, &title->shards, &end) != 4 ||
        (line[end] && line[end] != '\t'))
        return false;
    title->command = line[end] ? line + end + 1 : NULL;
    return title->shards >= 1 && title->shard >= 1 && title->shard <= title->shards;
}

/* --- a file that rows are added to ------------------------------------------------------------ */

static bool
fail(const struct cli_store *store, int reason, GError **error)
{
    mw_file_set_error(error, store->path ? store->path : "a temporary file", reason);
    return false;
}

static bool
lock(const struct cli_store *store, GError **error)
{
    if (!store->path || !flock(fileno(store->file), LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
        return true;
    return mw_refuse(error, "%s: another memwall is writing it", store->path);
}

static bool
cut_here(struct cli_store *store, GError **error)
{
    long at = ftell(store->file);

    return (at >= 0 && !fflush(store->file) && !ftruncate(fileno(store->file), at) &&
            !fseek(store->file, at, SEEK_SET)) ||
           fail(store, errno, error);
}

static bool
begin(struct cli_store *store, const char *title, const char *command, const char *names,
      GError **error)
{
    rewind(store->file);
    if (!cut_here(store, error))
        return false;
    fprintf(store->file, "%s%s%s\n%s\n", title, command ? "\t" : "", command ? command : "", names);
    return !fflush(store->file) || fail(store, errno, error);
}

/* Begins anew, unless the same sweep has begun before. */
static bool
take_up(struct cli_store *store, const struct cli_store_title *title, GError **error)
{
    g_autofree char *text = title_text(title), *names = cli_sweep_names(store->sweep);
    g_autofree char *found = read_line(store->file), *found_names = read_line(store->file);
    struct cli_store_title other;
    struct stat info = {.st_size = 0};

    if (!found && !fstat(fileno(store->file), &info) && info.st_size)
        return mw_refuse(error,
                         "%s: is no file of an interrupted sweep; delete it, or give -o "
                         "another name",
                         store->path);
    if (found && (!is_title(found, text) || (found_names && strcmp(found_names, names))))
        return mw_refuse(error, "%s: %s; delete it, or give -o another name", store->path,
                         read_title(found, &other)
                             ? "is of a sweep of other points or settings, or "
                               "of another version"
                             : "is no file of an interrupted sweep");
    if ((!found || !found_names) && !begin(store, text, title->command, names, error))
        return false;
    store->rows_at = ftell(store->file);
    return true;
}

/* A pipe would hang, and a folder or a link is nothing of a sweep's. */
static bool
check_plain(const char *path, GError **error)
{
    struct stat info;

    return lstat(path, &info) || S_ISREG(info.st_mode) ||
           mw_refuse(error, "%s: is no plain file; remove it, or give -o another name", path);
}

static FILE *
open_named(const char *path)
{
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "r+");

    if (descriptor >= 0 && !file)
        close(descriptor);
    return file;
}

/* A device, such as /dev/null, has no file beside it. */
static bool
has_folder(const char *output)
{
    struct stat info;

    return output && (stat(output, &info) || S_ISREG(info.st_mode));
}

struct cli_store *
cli_store_open(const char *output, const struct cli_sweep *sweep,
               const struct cli_store_title *title, GError **error)
{
    struct cli_store *store = g_new0(struct cli_store, 1);

    store->sweep = sweep;
    if (has_folder(output)) {
        g_autofree char *end = mw_file_end_of_links(output);
        store->target = g_strdup(end ? end : output);
        store->path = g_strconcat(store->target, ".partial", NULL);
    }
    bool good = !store->path || check_plain(store->path, error);
    if (good) {
        store->file = store->path ? open_named(store->path) : tmpfile();
        good = store->file ? lock(store, error) && take_up(store, title, error)
                           : fail(store, errno, error);
    }
    if (good)
        return store;
    store_free(store);
    return NULL;
}

int64_t
cli_store_kept(struct cli_store *store, const int64_t *points, int64_t count)
{
    int64_t kept = 0;
    long end = store->rows_at;

    cli_store_rewind(store);
    while (kept < count) {
        g_autofree char *row = read_line(store->file);
        if (!row || !cut_digest(row) || !cli_sweep_is_row(store->sweep, points[kept], row))
            break;
        end = ftell(store->file);
        kept++;
    }
    fseek(store->file, end, SEEK_SET);
    cut_here(store, NULL);
    return kept;
}

bool
cli_store_add(struct cli_store *store, const char *row, GError **error)
{
    g_autofree char *digest = row_digest(row);

    return (fprintf(store->file, "%s\t%s\n", row, digest) > 0 && !fflush(store->file)) ||
           fail(store, errno, error);
}

/* --- reading --------------------------------------------------------------------------------- */

void
cli_store_rewind(struct cli_store *store)
{
    fseek(store->file, store->rows_at, SEEK_SET);
}

char *
cli_store_next(struct cli_store *store)
{
    char *row = read_line(store->file);

    if (row && g_str_has_prefix(row, END))
        g_clear_pointer(&row, g_free);
    if (row)
        cut_digest(row); /* a shard's are checked with the digest of all */
    return row;
}

struct cli_store *
cli_store_read(const char *path, struct cli_store_title *title, char **names, GError **error)
{
    int descriptor = mw_input_open(path, WANTED, error);

    if (descriptor < 0)
        return NULL;
    struct cli_store *store = g_new0(struct cli_store, 1);
    store->file = fdopen(descriptor, "r");
    store->title = read_line(store->file);
    *names = read_line(store->file);
    if (store->title && *names && read_title(store->title, title)) {
        store->rows_at = ftell(store->file);
        return store;
    }
    mw_refuse(error, "%s: must be " WANTED, path);
    g_clear_pointer(names, g_free);
    store_free(store);
    return NULL;
}

/* --- the end --------------------------------------------------------------------------------- */

bool
cli_store_finish(struct cli_store *store, GError **error)
{
    g_autofree char *digest = digest_of(store->file);
    bool good = (!fseek(store->file, 0, SEEK_END) && fprintf(store->file, END "%s\n", digest) > 0 &&
                 !fflush(store->file) && !fsync(fileno(store->file)) &&
                 !rename(store->path, store->target)) ||
                fail(store, errno, error);

    store_free(store);
    return good;
}

void
cli_store_remove(struct cli_store *store)
{
    if (store->path)
        g_unlink(store->path);
    store_free(store);
}

void
cli_store_close(struct cli_store *store)
{
    if (store)
        store_free(store);
}
