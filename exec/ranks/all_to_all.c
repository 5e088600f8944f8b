/* Blocks from each rank to each, and from each to the next; and shards that change places. */
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

/* Bytes of a place that a message takes: those that leave wait in the scratch until they are out,
 * as what comes takes their place. */
static int64_t
exchanged_at_once(const struct mw_ranks_lane *lane)
{
    int64_t each = lane->ranks->scratch_bytes / MAX(1, lane->count - 1) & -64;

    return MIN(each, MW_RANKS_MESSAGE_BYTES_MAX);
}

/* Bytes from `at` on, of a place with so many in all. */
static int64_t
bytes_left(int64_t elements, int64_t element_bytes, int64_t at, int64_t most)
{
    return CLAMP(elements * element_bytes - at, 0, most);
}

bool
mw_ranks_exchange_shards(struct mw_ranks *ranks, int index, void *whole,
                         const struct mw_ranks_part *part, int64_t element_bytes, bool back,
                         GError **error)
{
    struct mw_ranks_lane *lane = &ranks->lanes[index];
    int64_t most = exchanged_at_once(lane), first, longest = mw_ranks_range(part, 0, &first);
    int64_t own = mw_ranks_range(part, lane->index, &first);

    g_assert(index >= 0 && index < ranks->lane_count);
    if (!mw_ranks_arrive(lane,
                         (struct mw_ranks_arrival){.kind = MW_RANKS_EXCHANGE,
                                                   .elements = part->elements,
                                                   .shard_elements = part->shard_elements,
                                                   .detail = 2 * element_bytes + back},
                         error))
        return false;
    for (int64_t at = 0; lane->count > 1 && at < longest * element_bytes; at += most) {
        for (int step = 1; step < lane->count; step++) {
            int peer = (lane->index + step) % lane->count;
            int64_t theirs = mw_ranks_range(part, peer, &first);
            int64_t out = bytes_left(back ? own : theirs, element_bytes, at, most);
            int64_t in = bytes_left(back ? theirs : own, element_bytes, at, most);
            char *place = (char *)whole + at +
                          element_bytes * (peer * part->shard_elements + part->range_first);
            char *leaving = lane->scratch + (step - 1) * most;
            memcpy(leaving, place, (size_t)out);
            mw_ranks_link_receive(lane, 0, peer, place, in);
            mw_ranks_link_send(lane, 0, peer, leaving, out);
        }
        if (!mw_ranks_link_finish(lane, 0, false, error))
            return false;
    }
    return true;
}
