/*
 * Saves of state that is in memory: one stream of bytes, chunk after chunk, in one of two places.
 * Where all ranks have the same state, each saves its share of the stream.
 */
#include <stdlib.h>

#include "exec/trainer_internal.h"
#include "planner/error.h"

#define BLOCK_BYTES ((int64_t)4 << 20)
#define PAGE_BYTES MW_SLOT_ALIGNMENT_BYTES

static int64_t
in_pages(int64_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static bool
is_shared(const struct mw_trainer *trainer)
{
    return trainer->ranks > 1 && trainer->plan->tensors[0].state_whole;
}

/* A rank's range of the stream. */
static struct mw_range
range_of(const struct mw_trainer *trainer, uint32_t rank)
{
    int64_t all = trainer->durable.stream_bytes;
    int64_t share = in_pages((all + trainer->ranks - 1) / trainer->ranks);

    if (!is_shared(trainer))
        return (struct mw_range){0, all};
    int64_t first = MIN(all, rank * share);
    return (struct mw_range){first, MIN(share, all - first)};
}

static int64_t
blocks_of(int64_t bytes)
{
    return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
}

static bool
check_room(const struct mw_trainer *trainer, GError **error)
{
    const struct mw_trainer_durable *it = &trainer->durable;
    int64_t room = trainer->plan->slots[it->saves[0]].size_bytes;

    if (it->save_bytes <= room)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "the plan has %" G_GINT64_FORMAT " bytes for a save of the state that is not on "
                "NVMe, this rank has %" G_GINT64_FORMAT " of it",
                room, it->save_bytes);
    return false;
}

bool
mw_trainer_find_saves(struct mw_trainer *trainer, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    struct mw_trainer_durable *it = &trainer->durable;
    void *block = NULL;
    int found = 0;

    for (uint32_t c = 0; c < plan->chunk_count; c++)
        it->stream_bytes += mw_trainer_on_drives(plan, c) ? 0 : mw_trainer_state_bytes(trainer, c);
    for (uint32_t s = 0; s < plan->slot_count && found < 2; s++)
        if (plan->slots[s].purpose == MW_PURPOSE_SAVES)
            it->saves[found++] = s;
    if (!it->stream_bytes)
        return true;
    it->save_begin = range_of(trainer, trainer->rank).first;
    it->save_bytes = range_of(trainer, trainer->rank).elements;
    it->save_blocks = blocks_of(it->save_bytes);
    if (posix_memalign(&block, PAGE_BYTES, BLOCK_BYTES))
        g_error("out of memory");
    it->block = block;
    return check_room(trainer, error);
}

static bool
copy_block(struct mw_trainer *trainer, int64_t begin, int64_t bytes, bool saves, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    const struct mw_places *places = &trainer->places;
    int64_t at = 0;

    for (uint32_t c = 0; c < plan->chunk_count; c++) {
        if (mw_trainer_on_drives(plan, c))
            continue;
        int64_t first = MAX(begin, at),
                end = MIN(begin + bytes, at + mw_trainer_state_bytes(trainer, c));
        if (first < end) {
            void *home = mw_places_at(places, plan->chunks[c].slot, first - at);
            void *block = trainer->durable.block + (first - begin);
            if (!places->backend->copy(places->device, saves ? block : home, saves ? home : block,
                                       end - first, error))
                return false;
        }
        at += mw_trainer_state_bytes(trainer, c);
    }
    return true;
}

static struct mw_commit_extent
extent_of(const struct mw_trainer *trainer, int64_t block, int which)
{
    const struct mw_trainer_durable *it = &trainer->durable;
    int64_t begin = block * BLOCK_BYTES;

    return (struct mw_commit_extent){
        .id = trainer->plan->chunk_count + block,
        .offset_bytes = trainer->plan->slots[it->saves[which]].offset_bytes + begin,
        .bytes = MIN(BLOCK_BYTES, it->save_bytes - begin),
        .which = which,
    };
}

static bool
transfer(struct mw_trainer *trainer, enum mw_nvme_direction direction,
         const struct mw_commit_extent *extent, GError **error)
{
    return mw_nvme_transfer(trainer->places.nvme, direction, extent->offset_bytes,
                            in_pages(extent->bytes), trainer->durable.block, error);
}

bool
mw_trainer_save(struct mw_trainer *trainer, int64_t *extent_count, GError **error)
{
    struct mw_trainer_durable *it = &trainer->durable;

    it->save_which = !it->save_which;
    for (int64_t b = 0; b < it->save_blocks; b++) {
        struct mw_commit_extent extent = extent_of(trainer, b, it->save_which);
        if (!copy_block(trainer, it->save_begin + b * BLOCK_BYTES, extent.bytes, true, error))
            return false;
        extent.checksum = mw_commit_checksum(it->block, extent.bytes);
        if (!transfer(trainer, MW_NVME_WRITE, &extent, error))
            return false;
        it->extents[(*extent_count)++] = extent;
    }
    return true;
}

/* Whose state a byte of the stream is of. */
static uint32_t
chunk_at(const struct mw_trainer *trainer, int64_t byte)
{
    uint32_t last = 0;
    int64_t at = 0;

    for (uint32_t c = 0; c < trainer->plan->chunk_count && at <= byte; c++) {
        if (mw_trainer_on_drives(trainer->plan, c))
            continue;
        at += mw_trainer_state_bytes(trainer, c);
        last = c;
    }
    return last;
}

static bool
read_block(struct mw_trainer *trainer, int64_t block, const struct mw_commit_extent *extent,
           GError **error)
{
    struct mw_trainer_durable *it = &trainer->durable;
    struct mw_commit_extent wanted = extent_of(trainer, block, extent->which);
    int64_t begin = it->save_begin + block * BLOCK_BYTES;

    it->save_which = extent->which;
    return mw_trainer_same_extent(extent, &wanted, error) &&
           transfer(trainer, MW_NVME_READ, extent, error) &&
           mw_trainer_check_extent(trainer, extent, it->block, chunk_at(trainer, begin),
                                   chunk_at(trainer, begin + extent->bytes - 1), error);
}

/* A rank's range: its own is read, that of another comes from there. */
static bool
load_range(struct mw_trainer *trainer, uint32_t rank, const struct mw_commit_extent *extents,
           GError **error)
{
    struct mw_range range = range_of(trainer, rank);

    for (int64_t b = 0; b < blocks_of(range.elements); b++) {
        int64_t begin = b * BLOCK_BYTES, bytes = MIN(BLOCK_BYTES, range.elements - begin);
        if (rank == trainer->rank && !read_block(trainer, b, &extents[b], error))
            return false;
        if (is_shared(trainer) && !mw_ranks_broadcast(trainer->options.ranks, 0,
                                                      trainer->durable.block, bytes, rank, error))
            return false;
        if (!copy_block(trainer, range.first + begin, bytes, false, error))
            return false;
    }
    return true;
}

bool
mw_trainer_load_save(struct mw_trainer *trainer, const struct mw_commit_extent *extents,
                     GError **error)
{
    if (!is_shared(trainer))
        return load_range(trainer, trainer->rank, extents, error);
    for (uint32_t rank = 0; rank < trainer->ranks; rank++)
        if (!load_range(trainer, rank, extents, error))
            return false;
    return true;
}
