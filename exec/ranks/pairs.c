/* Messages from one rank to another. */
#include "exec/ranks/internal.h"

static struct mw_ranks_lane *
lane_of(struct mw_ranks *ranks, int lane, int peer)
{
    g_assert(lane >= 0 && lane < ranks->lane_count);
    g_assert(peer >= 0 && peer < ranks->count && peer != ranks->index);
    return &ranks->lanes[lane];
}

bool
mw_ranks_send(struct mw_ranks *ranks, int index, const void *data, int64_t bytes, int to,
              GError **error)
{
    struct mw_ranks_lane *lane = lane_of(ranks, index, to);

    for (int64_t at = 0; at < bytes; at += MW_RANKS_MESSAGE_BYTES_MAX) {
        int64_t length = MIN(bytes - at, MW_RANKS_MESSAGE_BYTES_MAX);
        mw_ranks_link_send(lane, 0, to, (const char *)data + at, length);
        if (!mw_ranks_link_finish(lane, 0, true, error))
            return false;
    }
    return true;
}

bool
mw_ranks_receive(struct mw_ranks *ranks, int index, void *data, int64_t bytes, int from,
                 GError **error)
{
    struct mw_ranks_lane *lane = lane_of(ranks, index, from);

    for (int64_t at = 0; at < bytes; at += MW_RANKS_MESSAGE_BYTES_MAX) {
        int64_t length = MIN(bytes - at, MW_RANKS_MESSAGE_BYTES_MAX);
        mw_ranks_link_receive(lane, 0, from, (char *)data + at, length);
        if (!mw_ranks_link_finish(lane, 0, true, error))
            return false;
    }
    return true;
}
