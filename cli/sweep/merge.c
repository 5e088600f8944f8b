/* `memwall sweep --merge`: the rows of all shards, in the order of the points. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/sweep/closed_form.h"
#include "cli/sweep/columns.h"
#include "cli/sweep/job.h"
#include "lib/question.h"
#include "report/plot_rows.h"

/* The shards' files by number. */
struct shards {
    struct cli_store_title title; /* of the first file */
    const char *first;            /* its path */
    char *names;
    struct cli_store **stores; /* [title.shards] */
    const char **paths;
    int next;                  /* whose row comes next */
    struct cli_checks *checks; /* NULL: rows are not estimated, or not checked yet */
};

static bool
take(struct shards *all, const char *path, struct cli_store *store,
     const struct cli_store_title *title, const char *names, GError **error)
{
    struct cli_store **place = &all->stores[title->shard - 1];

    if (strcmp(title->digest, all->title.digest) || title->points != all->title.points ||
        title->shards != all->title.shards || strcmp(names, all->names) != 0)
        return mw_refuse(error, "%s: is of another sweep than %s", path, all->first);
    if (*place)
        return mw_refuse(error, "%s: shard %d/%d is that of %s too", path, title->shard,
                         title->shards, all->paths[title->shard - 1]);
    *place = store;
    all->paths[title->shard - 1] = path;
    return true;
}

static bool
open_file(struct shards *all, const char *path, GError **error)
{
    struct cli_store_title title;
    g_autofree char *names = NULL;
    struct cli_store *store = cli_store_read(path, &title, &names, error);

    if (!store)
        return false;
    if (!all->stores) {
        all->title = title;
        all->first = path;
        all->names = g_strdup(names);
        all->stores = g_new0(struct cli_store *, title.shards);
        all->paths = g_new0(const char *, title.shards);
    }
    if (take(all, path, store, &title, names, error))
        return true;
    cli_store_close(store);
    return false;
}

/* Points of a shard. */
static int64_t
expected(const struct shards *all, int shard)
{
    return (all->title.points - shard + all->title.shards - 1) / all->title.shards;
}

static bool
check_shard(const struct shards *all, int shard, GError **error)
{
    struct cli_store *store = all->stores[shard];
    int64_t rows = 0;

    if (!store)
        return mw_refuse(error, "--merge: the file of shard %d/%d is missing", shard + 1,
                         all->title.shards);
    cli_store_rewind(store);
    for (char *row; (row = cli_store_next(store)); g_free(row))
        rows++;
    if (rows != expected(all, shard))
        return mw_refuse(error,
                         "%s: has %" PRId64 " of %" PRId64 " rows: it was cut; compute shard %d/%d "
                         "again",
                         all->paths[shard], rows, expected(all, shard), shard + 1,
                         all->title.shards);
    return cli_store_is_as_written(store) ||
           mw_refuse(error,
                     "%s: its lines are not those that were written: it was changed or cut; "
                     "compute shard %d/%d again",
                     all->paths[shard], shard + 1, all->title.shards);
}

static void
rewind_shards(void *data)
{
    struct shards *all = data;

    all->next = 0;
    for (int i = 0; i < all->title.shards; i++)
        cli_store_rewind(all->stores[i]);
    if (all->checks)
        cli_checks_rewind(all->checks);
}

static char *
next_row(void *data)
{
    struct shards *all = data;
    char *row = cli_store_next(all->stores[all->next]);

    all->next = (all->next + 1) % all->title.shards;
    return row && all->checks ? cli_checks_replace(all->checks, row) : row;
}

static void
clear(struct shards *all)
{
    for (int i = 0; all->stores && i < all->title.shards; i++)
        cli_store_close(all->stores[i]);
    g_free(all->stores);
    g_free(all->paths);
    g_free(all->names);
    cli_checks_free(all->checks);
}

static bool
open_all(struct shards *all, char **paths, GError **error)
{
    bool good = true;

    for (char **path = paths; good && *path; path++)
        good = open_file(all, *path, error);
    for (int shard = 0; good && shard < all->title.shards; shard++)
        good = check_shard(all, shard, error);
    return good;
}

int
cli_sweep_merge(const struct cli_sweep_wish *wish, char **paths)
{
    struct shards all = {.next = 0};
    g_autoptr(GError) error = NULL;
    bool good = open_all(&all, paths, &error);
    const struct mw_rows rows = {all.names, rewind_shards, next_row, &all, NULL};

    good = good && (!wish->columns || cli_columns_check(wish->columns, all.names, &error));
    for (char **plot = wish->plots; good && plot && *plot; plot++)
        good = mw_plot_rows_check_rows(*plot, &rows, &error);
    good = good && cli_sweep_write(wish, &rows, &error);
    clear(&all);
    return good ? cli_flush() : cli_fail(error);
}

/* --- estimated rows --------------------------------------------------------------------------- */

char **
cli_sweep_merge_asks(char **paths)
{
    struct cli_store_title title = {.command = NULL};
    g_autofree char *names = NULL;
    struct cli_store *store = cli_store_read(paths[0], &title, &names, NULL);
    char **words = store && title.command ? g_strsplit(title.command, "\t", -1) : NULL;

    for (char **word = words; word && *word; word++) {
        char *escaped = *word;
        *word = g_strcompress(escaped);
        g_free(escaped);
    }
    cli_store_close(store);
    return words;
}

static bool
check_digest(const struct shards *all, const struct cli_sweep *sweep, GError **error)
{
    g_autofree char *digest = mw_space_digest(sweep->space, sweep->base);

    return !strcmp(digest, all->title.digest) ||
           mw_refuse(error,
                     "%s: was computed by another version, or of other files of models and "
                     "machines than those that are here",
                     all->first);
}

/* A row's index is its point. */
static bool
check_rows(struct shards *all, const struct cli_sweep *sweep, const struct cli_sweep_wish *wish,
           struct mw_ranks *ranks, GError **error)
{
    g_auto(GStrv) asked = mw_lib_texts(sweep->base);
    const struct mw_rows rows = {all->names, rewind_shards, next_row, all, asked};
    g_autofree int64_t *points = g_new(int64_t, all->title.points);

    for (int64_t i = 0; i < all->title.points; i++)
        points[i] = i;
    if (mw_ranks_count(ranks) > 1)
        return mw_refuse(error, "--merge: one process merges: start it without mpirun");
    if (!cli_checks_compute(sweep, ranks, wish->threads ? wish->threads : mw_ranks_cores(ranks),
                            &rows, points, &all->checks, error))
        return false;
    cli_checks_tell(all->checks);
    return cli_sweep_write(wish, &rows, error);
}

int
cli_sweep_merge_checked(const struct cli_sweep_wish *wish, const struct memwall_question *base,
                        const struct mw_space *space, char **paths)
{
    const struct cli_sweep sweep = {base, space, true, NULL};
    struct shards all = {.next = 0};
    g_autoptr(GError) error = NULL;
    struct mw_ranks *ranks = mw_ranks_join(CLI_SWEEP_LANES, CLI_SWEEP_SCRATCH_BYTES, &error);
    bool good = ranks && open_all(&all, paths, &error) && check_digest(&all, &sweep, &error) &&
                check_rows(&all, &sweep, wish, ranks, &error);

    clear(&all);
    if (!ranks)
        mw_ranks_give_way();
    if (ranks && good)
        mw_ranks_leave(ranks);
    int status = good ? cli_flush() : cli_fail(error);
    if (ranks && !good)
        mw_ranks_abort(ranks, status);
    return status;
}
