/*
 * Every collective is direct: a rank's message goes straight to the one that needs it.  Within a
 * machine that moves as few bytes as a ring does, in one step instead of one for each rank, and a
 * sum in the order of ranks needs every rank's own terms anyway.
 */
#include <string.h>

#include "exec/ranks/internal.h"

/* Messages of one collective, cut into blocks of elements: block b of a range. */
struct blocks {
    const struct mw_ranks_part *part;
    int64_t element_bytes, block_elements, count;
};

static struct mw_ranks_lane *
lane_of(struct mw_ranks *ranks, int lane)
{
    g_assert(lane >= 0 && lane < ranks->lane_count);
    return &ranks->lanes[lane];
}

static struct blocks
cut(const struct mw_ranks_part *part, int64_t element_bytes, int64_t block_bytes)
{
    struct blocks blocks = {part, element_bytes, block_bytes / element_bytes, 0};
    int64_t first, longest = mw_ranks_range(part, 0, &first);

    blocks.count = (longest + blocks.block_elements - 1) / blocks.block_elements;
    return blocks;
}

/* Elements of block `block` of a rank's range, 0 beyond its end; *first is in the part. */
static int64_t
block_of(const struct blocks *blocks, int rank, int64_t block, int64_t *first)
{
    int64_t elements = mw_ranks_range(blocks->part, rank, first);
    int64_t skipped = MIN(block * blocks->block_elements, elements);

    *first += skipped;
    return MIN(elements - skipped, blocks->block_elements);
}

static bool
arrive(struct mw_ranks_lane *lane, enum mw_ranks_kind kind, const struct mw_ranks_part *part,
       int64_t detail, GError **error)
{
    int64_t range = part->range_first * 31 + part->range_elements;

    g_assert(part->shard_elements * lane->count >= part->elements);
    return mw_ranks_arrive(lane,
                           (struct mw_ranks_arrival){.kind = kind,
                                                     .elements = part->elements,
                                                     .shard_elements = part->shard_elements,
                                                     .detail = range * 31 + detail},
                           error);
}

static int
peer_at(const struct mw_ranks_lane *lane, int step)
{
    return (lane->index + step) % lane->count;
}

/* --- all-gather --- */

static void
gather_block(struct mw_ranks_lane *lane, char *whole, const struct blocks *blocks, int64_t block)
{
    int64_t bytes = blocks->element_bytes, own_first, first;
    int64_t own = block_of(blocks, lane->index, block, &own_first);

    for (int step = 1; step < lane->count; step++) {
        int peer = peer_at(lane, step);
        int64_t elements = block_of(blocks, peer, block, &first);

        mw_ranks_link_receive(lane, 0, peer, whole + first * bytes, elements * bytes);
        mw_ranks_link_send(lane, 0, peer, whole + own_first * bytes, own * bytes);
    }
}

static void
place_own(const struct mw_ranks_lane *lane, char *whole, const char *shard,
          const struct mw_ranks_part *part, int64_t element_bytes)
{
    int64_t first, elements = mw_ranks_range(part, lane->index, &first);
    char *place = whole + first * element_bytes;
    const char *own = shard + part->range_first * element_bytes;

    if (elements && place != own)
        memcpy(place, own, elements * element_bytes);
}

bool
mw_ranks_all_gather(struct mw_ranks *ranks, int index, void *whole, const void *shard,
                    const struct mw_ranks_part *part, int64_t element_bytes, GError **error)
{
    struct mw_ranks_lane *lane = lane_of(ranks, index);
    struct blocks blocks = cut(part, element_bytes, MW_RANKS_MESSAGE_BYTES_MAX);

    place_own(lane, whole, shard, part, element_bytes);
    if (!arrive(lane, MW_RANKS_ALL_GATHER, part, element_bytes, error))
        return false;
    for (int64_t block = 0; lane->count > 1 && block < blocks.count; block++) {
        gather_block(lane, whole, &blocks, block);
        if (!mw_ranks_link_finish(lane, 0, false, error))
            return false;
    }
    return true;
}

/* --- reduce-scatter --- */

/* Where the block of `peer` arrives in the scratch, of which each set has one half. */
static char *
scratch_of(const struct mw_ranks_lane *lane, const struct blocks *blocks, int64_t block, int peer)
{
    int64_t place = peer < lane->index ? peer : peer - 1;
    int64_t half = (lane->count - 1) * (block & 1);

    return lane->scratch + (half + place) * blocks->block_elements * blocks->element_bytes;
}

static void
scatter_block(struct mw_ranks_lane *lane, const char *whole, const struct blocks *blocks,
              int64_t block)
{
    int64_t bytes = blocks->element_bytes, first;
    int64_t own = block_of(blocks, lane->index, block, &first);

    for (int step = 1; step < lane->count; step++) {
        int peer = peer_at(lane, step);
        int64_t theirs = block_of(blocks, peer, block, &first);

        mw_ranks_link_receive(lane, block & 1, peer, scratch_of(lane, blocks, block, peer),
                              own * bytes);
        mw_ranks_link_send(lane, block & 1, peer, whole + first * bytes, theirs * bytes);
    }
}

static void
sum_block(struct mw_ranks_lane *lane, char *shard, const char *whole, const struct blocks *blocks,
          int64_t block, struct mw_ranks_sum sum)
{
    int64_t first, own = block_of(blocks, lane->index, block, &first);
    int64_t in_shard = blocks->part->range_first + block * blocks->block_elements;

    for (int rank = 0; rank < lane->count; rank++)
        lane->sources[rank] = rank == lane->index ? whole + first * blocks->element_bytes
                                                  : scratch_of(lane, blocks, block, rank);
    mw_ranks_sum_sources(shard + in_shard * mw_ranks_element_bytes(sum.shard), lane->sources,
                         lane->count, own, sum);
}

static void
sum_alone(char *shard, const char *whole, const struct mw_ranks_part *part, struct mw_ranks_sum sum)
{
    int64_t first, elements = mw_ranks_range(part, 0, &first);
    const void *source = whole + first * mw_ranks_element_bytes(sum.whole);

    mw_ranks_sum_sources(shard + part->range_first * mw_ranks_element_bytes(sum.shard), &source, 1,
                         elements, sum);
}

/* As large as two of them fit in the scratch from every peer. */
static struct blocks
cut_for_sums(const struct mw_ranks_lane *lane, const struct mw_ranks_part *part,
             int64_t element_bytes)
{
    int64_t block_bytes = lane->ranks->scratch_bytes / (2 * (lane->count - 1)) & -64;

    return cut(part, element_bytes, MIN(block_bytes, MW_RANKS_MESSAGE_BYTES_MAX));
}

/* Sends block `block` and the one behind it, and waits for the former: one is on its way while
 * another is summed. */
static bool
next_block(struct mw_ranks_lane *lane, const char *whole, const struct blocks *blocks,
           int64_t block, GError **error)
{
    if (block == 0)
        scatter_block(lane, whole, blocks, 0);
    if (block + 1 < blocks->count)
        scatter_block(lane, whole, blocks, block + 1);
    return mw_ranks_link_finish(lane, block & 1, false, error);
}

bool
mw_ranks_reduce_scatter(struct mw_ranks *ranks, int index, void *shard, const void *whole,
                        const struct mw_ranks_part *part, struct mw_ranks_sum sum, GError **error)
{
    struct mw_ranks_lane *lane = lane_of(ranks, index);

    if (lane->count == 1) {
        sum_alone(shard, whole, part, sum);
        return true;
    }
    struct blocks blocks = cut_for_sums(lane, part, mw_ranks_element_bytes(sum.whole));
    if (!arrive(lane, MW_RANKS_REDUCE_SCATTER, part, blocks.block_elements, error))
        return false;
    for (int64_t block = 0; block < blocks.count; block++) {
        if (!next_block(lane, whole, &blocks, block, error))
            return false;
        sum_block(lane, shard, whole, &blocks, block, sum);
    }
    return true;
}

/* --- all-reduce --- */

bool
mw_ranks_all_reduce(struct mw_ranks *ranks, int index, void *data, enum mw_dtype dtype,
                    int64_t elements, float scale, GError **error)
{
    struct mw_ranks_lane *lane = lane_of(ranks, index);
    struct mw_ranks_part part = {elements, (elements + lane->count - 1) / lane->count, 0, 0};
    struct mw_ranks_sum sum = {dtype, dtype, false, scale};
    int64_t first, element_bytes = mw_ranks_element_bytes(dtype);

    mw_ranks_range(&part, lane->index, &first);
    char *own = (char *)data + first * element_bytes;
    return mw_ranks_reduce_scatter(ranks, index, own, data, &part, sum, error) &&
           mw_ranks_all_gather(ranks, index, data, own, &part, element_bytes, error);
}

static void
fold_block(const struct mw_ranks_lane *lane, char *whole, const struct blocks *blocks,
           int64_t block, mw_ranks_fold fold)
{
    int64_t first, own = block_of(blocks, lane->index, block, &first);

    for (int step = 1; step < lane->count; step++)
        fold(whole + first * blocks->element_bytes,
             scratch_of(lane, blocks, block, peer_at(lane, step)), own);
}

/* Each rank folds its share of the elements, which then goes to all. */
bool
mw_ranks_all_fold(struct mw_ranks *ranks, int index, void *data, int64_t elements,
                  int64_t element_bytes, mw_ranks_fold fold, GError **error)
{
    struct mw_ranks_lane *lane = lane_of(ranks, index);
    struct mw_ranks_part part = {elements, (elements + lane->count - 1) / lane->count, 0, 0};

    if (lane->count == 1)
        return true;
    struct blocks blocks = cut_for_sums(lane, &part, element_bytes);
    if (!arrive(lane, MW_RANKS_FOLD, &part, blocks.block_elements, error))
        return false;
    for (int64_t block = 0; block < blocks.count; block++) {
        if (!next_block(lane, data, &blocks, block, error))
            return false;
        fold_block(lane, data, &blocks, block, fold);
    }
    int64_t first;
    mw_ranks_range(&part, lane->index, &first);
    return mw_ranks_all_gather(ranks, index, data, (char *)data + first * element_bytes, &part,
                               element_bytes, error);
}

static bool
sum_fp64(struct mw_ranks_lane *lane, double *data, int64_t elements, GError **error)
{
    double *terms = (double *)(void *)lane->scratch;

    for (int step = 1; step < lane->count; step++) {
        int peer = peer_at(lane, step), place = peer < lane->index ? peer : peer - 1;
        mw_ranks_link_receive(lane, 0, peer, terms + place * elements, elements * 8);
        mw_ranks_link_send(lane, 0, peer, data, elements * 8);
    }
    if (!mw_ranks_link_finish(lane, 0, false, error))
        return false;
    for (int64_t i = 0; i < elements; i++) {
        double own = data[i], sum = 0;
        for (int rank = 0; rank < lane->count; rank++) {
            int place = rank < lane->index ? rank : rank - 1;
            double term = rank == lane->index ? own : terms[place * elements + i];
            sum = rank ? sum + term : term;
        }
        data[i] = sum;
    }
    return true;
}

bool
mw_ranks_all_reduce_fp64(struct mw_ranks *ranks, int index, double *data, int64_t elements,
                         GError **error)
{
    struct mw_ranks_lane *lane = lane_of(ranks, index);
    struct mw_ranks_part part = {elements, elements, 0, 0};

    if (lane->count == 1)
        return true;
    if (!arrive(lane, MW_RANKS_ALL_REDUCE_FP64, &part, 8, error))
        return false;
    int64_t most = ranks->scratch_bytes / (lane->count - 1) / 8;
    for (int64_t at = 0; at < elements; at += most)
        if (!sum_fp64(lane, data + at, MIN(most, elements - at), error))
            return false;
    return true;
}

/* --- broadcast, barrier --- */

bool
mw_ranks_broadcast(struct mw_ranks *ranks, int index, void *data, int64_t bytes, int root,
                   GError **error)
{
    struct mw_ranks_lane *lane = lane_of(ranks, index);
    struct mw_ranks_part part = {bytes, bytes, 0, 0};

    g_assert(root >= 0 && root < lane->count);
    if (!arrive(lane, MW_RANKS_BROADCAST, &part, root, error))
        return false;
    for (int64_t at = 0; lane->count > 1 && at < bytes; at += MW_RANKS_MESSAGE_BYTES_MAX) {
        int64_t length = MIN(bytes - at, MW_RANKS_MESSAGE_BYTES_MAX);
        char *place = (char *)data + at;

        if (lane->index != root)
            mw_ranks_link_receive(lane, 0, root, place, length);
        for (int step = 1; lane->index == root && step < lane->count; step++)
            mw_ranks_link_send(lane, 0, peer_at(lane, step), place, length);
        if (!mw_ranks_link_finish(lane, 0, false, error))
            return false;
    }
    return true;
}

bool
mw_ranks_worst(struct mw_ranks *ranks, int index, int status, int *worst, int *rank, GError **error)
{
    struct mw_ranks_lane *lane = lane_of(ranks, index);
    int at = lane->index;

    *worst = status;
    if (!mw_ranks_arrive(
            lane, (struct mw_ranks_arrival){.kind = MW_RANKS_BARRIER, .status = status}, error))
        return false;
    for (int other = lane->count - 1; lane->count > 1 && other >= 0; other--) {
        if (lane->arrivals[other].status < *worst)
            continue;
        *worst = (int)lane->arrivals[other].status;
        at = other;
    }
    if (rank)
        *rank = at;
    return true;
}

bool
mw_ranks_barrier(struct mw_ranks *ranks, int index, GError **error)
{
    int worst;

    return mw_ranks_worst(ranks, index, 0, &worst, NULL, error);
}
