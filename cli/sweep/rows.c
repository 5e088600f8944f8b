/* Ranks compute every n-th point each; the first one gets all rows and takes them in order. */
#include <string.h>

#include "cli/sweep/sweep.h"

#define LANE 0
#define ROWS_PER_MESSAGE 16

/* Rows that another rank sent, each with its NUL. */
struct inbox {
    char *bytes;
    int64_t length_bytes, at;
};

static bool
send_rows(struct mw_ranks *ranks, GString *rows, GError **error)
{
    int64_t length = (int64_t)rows->len;
    bool good = !length || (mw_ranks_send(ranks, LANE, &length, sizeof length, 0, error) &&
                            mw_ranks_send(ranks, LANE, rows->str, length, 0, error));

    g_string_truncate(rows, 0);
    return good;
}

/* All rows of this rank, which is not the first. */
static bool
send_all(struct mw_ranks *ranks, struct cli_pool *pool, int64_t count, GError **error)
{
    g_autoptr(GString) rows = g_string_new(NULL);
    bool good = true;

    for (int64_t i = 0; good && i < count; i++) {
        g_autofree char *row = cli_pool_take(pool);
        g_string_append_len(rows, row, (gssize)strlen(row) + 1);
        good = (i + 1) % ROWS_PER_MESSAGE || send_rows(ranks, rows, error);
    }
    return good && send_rows(ranks, rows, error);
}

static char *
receive_row(struct mw_ranks *ranks, int from, struct inbox *inbox, GError **error)
{
    if (inbox->at == inbox->length_bytes) {
        if (!mw_ranks_receive(ranks, LANE, &inbox->length_bytes, sizeof inbox->length_bytes, from,
                              error))
            return NULL;
        g_free(inbox->bytes);
        inbox->bytes = g_malloc((gsize)inbox->length_bytes);
        inbox->at = 0;
        if (!mw_ranks_receive(ranks, LANE, inbox->bytes, inbox->length_bytes, from, error))
            return NULL;
    }
    char *row = g_strdup(inbox->bytes + inbox->at);
    inbox->at += (int64_t)strlen(row) + 1;
    return row;
}

static bool
take_all(struct mw_ranks *ranks, struct cli_pool *pool, int64_t count, cli_sweep_taker take,
         void *data, GError **error)
{
    int rank_count = mw_ranks_count(ranks);
    g_autofree struct inbox *inboxes = g_new0(struct inbox, rank_count);
    bool good = true;

    for (int64_t i = 0; good && i < count; i++) {
        int from = (int)(i % rank_count);
        char *row = from ? receive_row(ranks, from, &inboxes[from], error) : cli_pool_take(pool);
        good = row && take(data, i, row, error);
    }
    for (int r = 0; r < rank_count; r++)
        g_free(inboxes[r].bytes);
    return good;
}

bool
cli_sweep_rows(const struct cli_sweep *sweep, struct mw_ranks *ranks, int threads,
               const int64_t *points, int64_t count, bool simulates, cli_sweep_taker take,
               void *data, GError **error)
{
    int rank_count = mw_ranks_count(ranks), rank = mw_ranks_index(ranks);
    g_autofree int64_t *own = g_new(int64_t, count / rank_count + 1);
    int64_t own_count = 0;

    for (int64_t i = rank; i < count; i += rank_count)
        own[own_count++] = points[i];
    struct cli_pool *pool = cli_pool_new(sweep, own, own_count, simulates, threads);
    bool good = rank ? send_all(ranks, pool, own_count, error)
                     : take_all(ranks, pool, count, take, data, error);
    cli_pool_free(pool);
    return good;
}
