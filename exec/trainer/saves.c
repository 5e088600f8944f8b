/*
 * Saves of state that no extent holds: one stream of bytes in one of two places.  The state in
 * memory comes first, chunk after chunk, then the vectors of rows and columns.  Then, from a whole
 * page on, come the gradients that a
 * delayed update has yet to use, home after home, wherever they are.  Where all ranks have the same
 * state, each saves its share of the stream.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "exec/trainer/internal.h"

#define BLOCK_BYTES MW_TRAINER_SAVE_BYTES

bool
mw_trainer_saves_shared(const struct mw_plan *plan, uint32_t ranks)
{
    return ranks > 1 && plan->tensor_count && plan->tensors[0].state_whole &&
           mw_plan_spread(plan) == 1;
}

/* --- the stream ------------------------------------------------------------------------------ */

/* The part of the stream that a slot has, or the vectors. */
struct segment {
    uint32_t next; /* the next chunk, then the next tensor; 0 before the first */
    uint32_t slot; /* MW_NONE: vectors */
    int64_t at, bytes;
    bool after_vectors;
};

static bool
next_segment(const struct mw_plan *plan, bool pending, struct segment *it)
{
    uint32_t end = plan->chunk_count + (pending ? plan->tensor_count : 0);

    it->at += it->bytes;
    while (it->next < plan->chunk_count) {
        uint32_t chunk = it->next++;
        if (mw_trainer_on_drives(plan, chunk))
            continue;
        it->slot = plan->chunks[chunk].slot;
        it->bytes = mw_trainer_state_bytes(plan, chunk);
        return true;
    }
    it->bytes = it->after_vectors ? 0 : mw_vectors_saved_bytes(plan);
    it->after_vectors = true;
    it->slot = MW_NONE;
    if (it->bytes)
        return true;
    while (it->next < end && !plan->tensors[it->next - plan->chunk_count].trainable)
        it->next++;
    if (it->next == end)
        return false;
    it->slot = plan->tensors[it->next++ - plan->chunk_count].gradient_slot;
    it->at = mw_in_pages(it->at);
    it->bytes = plan->slots[it->slot].size_bytes;
    return true;
}

static int64_t
stream_bytes(const struct mw_plan *plan, bool pending)
{
    struct segment segment = {0};

    while (next_segment(plan, pending, &segment))
        continue;
    return segment.at;
}

int64_t
mw_trainer_chunks_in_memory_bytes(const struct mw_plan *plan)
{
    int64_t bytes = 0;

    for (uint32_t c = 0; c < plan->chunk_count; c++)
        bytes += mw_trainer_on_drives(plan, c) ? 0 : mw_trainer_state_bytes(plan, c);
    return bytes;
}

struct mw_range
mw_trainer_save_range(const struct mw_plan *plan, bool pending, uint32_t rank, uint32_t ranks)
{
    int64_t all = stream_bytes(plan, pending);
    int64_t share = mw_in_pages((all + ranks - 1) / ranks);

    if (!mw_trainer_saves_shared(plan, ranks))
        return (struct mw_range){0, all};
    int64_t first = MIN(all, rank * share);
    return (struct mw_range){first, MIN(share, all - first)};
}

static struct mw_range
range_of(const struct mw_trainer *trainer, uint32_t rank)
{
    return mw_trainer_save_range(trainer->plan, trainer->pending, rank, trainer->ranks);
}

static struct mw_range
own_range(const struct mw_trainer *trainer)
{
    return range_of(trainer, trainer->rank);
}

static int64_t
blocks_of(int64_t bytes)
{
    return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
}

int64_t
mw_trainer_save_extents(const struct mw_trainer *trainer)
{
    return blocks_of(own_range(trainer).elements);
}

/* --- its places ------------------------------------------------------------------------------ */

static bool
check_save_fits(int64_t buffer_bytes, int64_t need, GError **error)
{
    if (need <= buffer_bytes)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "the plan has %" G_GINT64_FORMAT " bytes for a save of the state that is not on "
                "NVMe, this rank has %" G_GINT64_FORMAT " of it",
                buffer_bytes, need);
    return false;
}

/* Finds the places in the variant whose places have room for all steps. */
bool
mw_trainer_find_saves(struct mw_trainer *trainer, GError **error)
{
    const struct mw_variants *variants = trainer->options.variants;
    const struct mw_plan *plan = mw_variants_saver(variants);
    struct mw_trainer_durable *it = &trainer->durable;
    int64_t buffer_bytes = 0;
    int found = 0;

    it->stream_bytes = mw_trainer_chunks_in_memory_bytes(trainer->plan);
    for (uint32_t s = 0; s < plan->slot_count && found < 2; s++) {
        if (plan->slots[s].purpose != MW_PURPOSE_SAVES)
            continue;
        it->saves_at[found++] = plan->slots[s].offset_bytes;
        buffer_bytes = plan->slots[s].size_bytes;
    }
    bool pending = mw_variants_delayed_from(variants) >= 0;
    int64_t most =
        mw_trainer_save_range(trainer->plan, pending, trainer->rank, trainer->ranks).elements;
    it->extents_max += blocks_of(most);
    if (!most)
        return true;
    void *block = NULL;
    if (posix_memalign(&block, MW_PAGE_BYTES, BLOCK_BYTES))
        g_error("out of memory");
    it->block = block;
    return check_save_fits(buffer_bytes, most, error);
}

/* The next step's norm sees a segment of gradients. */
static bool
check_part(struct mw_trainer *trainer, const struct segment *segment, int64_t at, int64_t bytes,
           const char *block, bool saves, GError **error)
{
    uint32_t chunk = segment->next - 1;

    if (segment->slot == MW_NONE)
        return mw_trainer_are_squares((const float *)(const void *)block, bytes / 4) ||
               mw_vectors_check(trainer->vectors.places, trainer->vectors.now, error);
    if (chunk >= trainer->plan->chunk_count)
        return true;
    if (!saves)
        return mw_trainer_check_state(trainer, chunk, at, bytes, block, error);
    return mw_trainer_is_finite(trainer, chunk, at, bytes, block) ||
           mw_trainer_refuse_state(trainer, chunk, error);
}

static bool
copy_part(struct mw_trainer *trainer, const struct segment *segment, int64_t at, int64_t bytes,
          char *block, bool saves, GError **error)
{
    const struct mw_storage *storage = &trainer->storage;

    if (segment->slot == MW_NONE) {
        char *vectors = (char *)trainer->vectors.now + at;
        memcpy(saves ? block : vectors, saves ? vectors : block, (size_t)bytes);
        return true;
    }
    const struct mw_slot *slot = &trainer->plan->slots[segment->slot];
    if (slot->tier == MW_TIER_NVME)
        return mw_nvme_transfer(storage->nvme, saves ? MW_NVME_READ : MW_NVME_WRITE,
                                slot->offset_bytes + at, bytes, block, error);
    void *home = mw_storage_address(storage, segment->slot, at);
    return storage->backend->copy(storage->device, saves ? block : home, saves ? home : block,
                                  bytes, error);
}

/* Copies between the homes and the block. */
static bool
copy_block(struct mw_trainer *trainer, int64_t begin, int64_t bytes, bool saves, GError **error)
{
    struct segment segment = {0};

    while (next_segment(trainer->plan, trainer->pending, &segment)) {
        int64_t first = MAX(begin, segment.at);
        int64_t end = MIN(begin + bytes, segment.at + segment.bytes);
        char *block = trainer->durable.block + (first - begin);
        if (first >= end)
            continue;
        if (!copy_part(trainer, &segment, first - segment.at, end - first, block, saves, error) ||
            !check_part(trainer, &segment, first - segment.at, end - first, block, saves, error))
            return false;
    }
    return true;
}

static struct mw_commit_extent
extent_of(const struct mw_trainer *trainer, int64_t block, int which)
{
    int64_t begin = block * BLOCK_BYTES;

    return (struct mw_commit_extent){
        .id = trainer->plan->chunk_count + block,
        .offset_bytes = trainer->durable.saves_at[which] + begin,
        .bytes = MIN(BLOCK_BYTES, own_range(trainer).elements - begin),
        .which = which,
    };
}

static bool
transfer(struct mw_trainer *trainer, enum mw_nvme_direction direction,
         const struct mw_commit_extent *extent, GError **error)
{
    return mw_nvme_transfer(trainer->storage.nvme, direction, extent->offset_bytes,
                            mw_in_pages(extent->bytes), trainer->durable.block, error);
}

bool
mw_trainer_save(struct mw_trainer *trainer, int64_t *extent_count, GError **error)
{
    struct mw_trainer_durable *it = &trainer->durable;

    struct mw_range range = own_range(trainer);

    it->save_which = !it->save_which;
    for (int64_t b = 0; b < blocks_of(range.elements); b++) {
        struct mw_commit_extent extent = extent_of(trainer, b, it->save_which);
        if (!copy_block(trainer, range.first + b * BLOCK_BYTES, extent.bytes, true, error))
            return false;
        extent.checksum = mw_commit_checksum(it->block, extent.bytes);
        if (!transfer(trainer, MW_NVME_WRITE, &extent, error))
            return false;
        it->extents[(*extent_count)++] = extent;
    }
    return true;
}

/* Finds the piece that a byte of the stream belongs to.  Returns false for padding, and for vectors
 * of rows and columns. */
static bool
piece_at(const struct mw_trainer *trainer, int64_t byte, bool last, struct mw_piece *piece)
{
    const struct mw_plan *plan = trainer->plan;
    struct segment segment = {0};

    while (next_segment(plan, trainer->pending, &segment) && segment.at + segment.bytes <= byte)
        continue;
    if (segment.slot == MW_NONE)
        return false;
    if (segment.next > plan->chunk_count) {
        uint32_t index = segment.next - 1 - plan->chunk_count;
        uint32_t tile = last ? plan->tensors[index].tiles - 1 : 0;
        struct mw_range state = mw_trainer_state_of(trainer, index, tile);
        *piece = (struct mw_piece){index, tile, state.first, MAX(state.elements, 1), 0};
        return true;
    }
    const struct mw_trainer_chunk *chunk = &trainer->chunks[segment.next - 1];
    if (chunk->piece_count)
        *piece = chunk->pieces[last ? chunk->piece_count - 1 : 0];
    return chunk->piece_count > 0;
}

static bool
read_block(struct mw_trainer *trainer, int64_t block, const struct mw_commit_extent *extent,
           GError **error)
{
    struct mw_trainer_durable *it = &trainer->durable;
    struct mw_commit_extent wanted = extent_of(trainer, block, extent->which);
    int64_t begin = own_range(trainer).first + block * BLOCK_BYTES;
    struct mw_piece first, last;
    bool first_is = piece_at(trainer, begin, false, &first);
    bool last_is = piece_at(trainer, begin + wanted.bytes - 1, true, &last);

    it->save_which = extent->which;
    return mw_trainer_same_extent(extent, &wanted, error) &&
           transfer(trainer, MW_NVME_READ, extent, error) &&
           mw_trainer_check_extent(trainer, extent, it->block, first_is ? &first : NULL,
                                   last_is ? &last : NULL, error);
}

/* Loads a rank's range: reads this rank's own, and receives another rank's from it. */
static bool
load_range(struct mw_trainer *trainer, uint32_t rank, const struct mw_commit_extent *extents,
           GError **error)
{
    struct mw_range range = range_of(trainer, rank);

    for (int64_t b = 0; b < blocks_of(range.elements); b++) {
        int64_t begin = b * BLOCK_BYTES, bytes = MIN(BLOCK_BYTES, range.elements - begin);
        if (rank == trainer->rank && !read_block(trainer, b, &extents[b], error))
            return false;
        if (mw_trainer_saves_shared(trainer->plan, trainer->ranks) &&
            !mw_ranks_broadcast(trainer->options.ranks, mw_trainer_data_stream(trainer, 0),
                                trainer->durable.block, bytes, (int)rank, error))
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
    if (!mw_trainer_saves_shared(trainer->plan, trainer->ranks))
        return load_range(trainer, trainer->rank, extents, error);
    for (uint32_t rank = 0; rank < trainer->ranks; rank++)
        if (!load_range(trainer, rank, extents, error))
            return false;
    return true;
}
