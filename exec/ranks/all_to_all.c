/* Blocks from each rank to each, and from each to the next. */
#include <string.h>

#include "exec/ranks/internal.h"

bool
mw_ranks_all_to_all(struct mw_ranks *ranks, int index, void *to, const void *from,
                    int64_t block_bytes, GError **error)
{
    struct mw_ranks_lane *lane = &ranks->lanes[index];
    const char *out = from;
    char *in = to;

    g_assert(index >= 0 && index < ranks->lane_count);
    memcpy(in + lane->index * block_bytes, out + lane->index * block_bytes, (size_t)block_bytes);
    if (!mw_ranks_arrive(
            lane, (struct mw_ranks_arrival){.kind = MW_RANKS_ALL_TO_ALL, .elements = block_bytes},
            error))
        return false;
    for (int64_t at = 0; lane->count > 1 && at < block_bytes; at += MW_RANKS_MESSAGE_BYTES_MAX) {
        int64_t length = MIN(block_bytes - at, MW_RANKS_MESSAGE_BYTES_MAX);
        for (int step = 1; step < lane->count; step++) {
            int peer = (lane->index + step) % lane->count;
            mw_ranks_link_receive(lane, 0, peer, in + peer * block_bytes + at, length);
            mw_ranks_link_send(lane, 0, peer, out + peer * block_bytes + at, length);
        }
        if (!mw_ranks_link_finish(lane, 0, false, error))
            return false;
    }
    return true;
}

bool
mw_ranks_pass(struct mw_ranks *ranks, int index, void *to, const void *from, int64_t bytes,
              GError **error)
{
    struct mw_ranks_lane *lane = &ranks->lanes[index];
    int behind = (lane->index + 1) % lane->count;
    int before = (lane->index + lane->count - 1) % lane->count;

    g_assert(index >= 0 && index < ranks->lane_count);
    if (!mw_ranks_arrive(lane, (struct mw_ranks_arrival){.kind = MW_RANKS_PASS, .elements = bytes},
                         error))
        return false;
    if (lane->count == 1)
        memcpy(to, from, (size_t)bytes);
    for (int64_t at = 0; lane->count > 1 && at < bytes; at += MW_RANKS_MESSAGE_BYTES_MAX) {
        int64_t length = MIN(bytes - at, MW_RANKS_MESSAGE_BYTES_MAX);
        mw_ranks_link_receive(lane, 0, before, (char *)to + at, length);
        mw_ranks_link_send(lane, 0, behind, (const char *)from + at, length);
        if (!mw_ranks_link_finish(lane, 0, false, error))
            return false;
    }
    return true;
}
