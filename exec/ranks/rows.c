/*
 * Rows of tokens go to experts on other ranks, and come back (GShard, arXiv 2006.16668, Sec. 3.2).
 *
 * What goes from one rank to one expert is a piece.  Each is a message of its own, which arrives
 * where its expert's rows are: so nothing has to be sorted before or behind.
 */
#include <string.h>

#include "exec/ranks/internal.h"

static int64_t
count(const struct mw_ranks_rows *rows, int members, int member, int expert)
{
    return rows->counts[(int64_t)member * members * rows->experts + expert];
}

static struct mw_ranks_piece
piece_at(const struct mw_ranks_rows *rows, int members, int member, int expert, int64_t before)
{
    return (struct mw_ranks_piece){before * rows->row_bytes,
                                   count(rows, members, member, expert) * rows->row_bytes};
}

struct mw_ranks_piece
mw_ranks_rows_go(const struct mw_ranks_rows *rows, int members, int member, int expert)
{
    int64_t before = 0;

    for (int e = 0; e < expert; e++)
        before += count(rows, members, member, e);
    return piece_at(rows, members, member, expert, before);
}

struct mw_ranks_piece
mw_ranks_rows_come(const struct mw_ranks_rows *rows, int members, int member, int expert)
{
    int first = expert / rows->experts * rows->experts;
    int64_t before = 0;

    for (int e = first; e < expert; e++)
        for (int m = 0; m < members; m++)
            before += count(rows, members, m, e);
    for (int m = 0; m < member; m++)
        before += count(rows, members, m, expert);
    return piece_at(rows, members, member, expert, before);
}

struct exchange {
    struct mw_ranks_lane *lane;
    const struct mw_ranks_rows *rows;
    char *to;
    const char *from;
    int posted; /* messages that are on their way, at most, each way for every peer */
};

/* Of this rank's own expert number `e`, or its rows for that one of a peer. */
static struct mw_ranks_piece
own_piece(const struct exchange *x, int peer, int e)
{
    int index = x->lane->index;

    return mw_ranks_rows_come(x->rows, x->lane->count, peer, index * x->rows->experts + e);
}

static struct mw_ranks_piece
peer_piece(const struct exchange *x, int peer, int e)
{
    return mw_ranks_rows_go(x->rows, x->lane->count, x->lane->index, peer * x->rows->experts + e);
}

static bool
finish(struct exchange *x, GError **error)
{
    x->posted = 0;
    return mw_ranks_link_finish(x->lane, 0, false, error);
}

/* Of what is left of a piece from `at` on. */
static int64_t
message_bytes(struct mw_ranks_piece piece, int64_t at)
{
    return CLAMP(piece.bytes - at, 0, MW_RANKS_MESSAGE_BYTES_MAX);
}

/* Sends and receives blocks of the pieces of one expert number with all peers; *more says whether
 * any piece goes on behind it. */
static void
post_blocks(struct exchange *x, int e, int64_t at, bool *more)
{
    *more = false;
    for (int step = 1; step < x->lane->count; step++) {
        int peer = (x->lane->index + step) % x->lane->count;
        struct mw_ranks_piece own = own_piece(x, peer, e), theirs = peer_piece(x, peer, e);
        struct mw_ranks_piece in = x->rows->back ? theirs : own;
        struct mw_ranks_piece out = x->rows->back ? own : theirs;

        mw_ranks_link_receive(x->lane, 0, peer, x->to + in.at + at, message_bytes(in, at));
        mw_ranks_link_send(x->lane, 0, peer, x->from + out.at + at, message_bytes(out, at));
        *more |= MAX(in.bytes, out.bytes) > at + MW_RANKS_MESSAGE_BYTES_MAX;
    }
    x->posted++;
}

static bool
exchange_expert(struct exchange *x, int e, GError **error)
{
    bool more = true;

    for (int64_t at = 0; more; at += MW_RANKS_MESSAGE_BYTES_MAX) {
        post_blocks(x, e, at, &more);
        if (x->posted == MW_RANKS_SET_MESSAGES && !finish(x, error))
            return false;
    }
    return true;
}

static void
keep_own(const struct exchange *x, int e)
{
    struct mw_ranks_piece come = own_piece(x, x->lane->index, e);
    struct mw_ranks_piece go = peer_piece(x, x->lane->index, e);
    int64_t to = x->rows->back ? go.at : come.at, from = x->rows->back ? come.at : go.at;

    if (go.bytes)
        memcpy(x->to + to, x->from + from, (size_t)go.bytes);
}

bool
mw_ranks_exchange_rows(struct mw_ranks *ranks, int index, void *to, const void *from,
                       const struct mw_ranks_rows *rows, GError **error)
{
    g_assert(index >= 0 && index < ranks->lane_count);
    struct mw_ranks_lane *lane = &ranks->lanes[index];
    struct exchange x = {lane, rows, to, from, 0};

    if (!mw_ranks_arrive(lane,
                         (struct mw_ranks_arrival){.kind = MW_RANKS_ROWS,
                                                   .elements = rows->experts,
                                                   .shard_elements = rows->row_bytes,
                                                   .detail = rows->back},
                         error))
        return false;
    for (int e = 0; e < rows->experts; e++) {
        keep_own(&x, e);
        if (lane->count > 1 && !exchange_expert(&x, e, error))
            return false;
    }
    return lane->count == 1 || finish(&x, error);
}
