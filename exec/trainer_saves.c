/* Saves of state that is in memory: one stream of bytes, chunk after chunk, in one of two places.
 */
#include <stdlib.h>

#include "exec/trainer_internal.h"
#include "planner/error.h"

#define BLOCK_BYTES ((int64_t)4 << 20)
#define PAGE_BYTES MW_SLOT_ALIGNMENT_BYTES

bool
mw_trainer_find_saves(struct mw_trainer *trainer, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    struct mw_trainer_durable *it = &trainer->durable;
    void *block = NULL;
    int found = 0;

    for (uint32_t c = 0; c < plan->chunk_count; c++)
        it->save_bytes += mw_trainer_on_drives(plan, c) ? 0 : mw_trainer_state_bytes(trainer, c);
    for (uint32_t s = 0; s < plan->slot_count && found < 2; s++)
        if (plan->slots[s].purpose == MW_PURPOSE_SAVES)
            it->saves[found++] = s;
    if (it->save_bytes && it->save_bytes > plan->slots[it->saves[0]].size_bytes) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "the plan has %" G_GINT64_FORMAT " bytes for a save of the state that is not "
                    "on NVMe, this rank has %" G_GINT64_FORMAT " of it",
                    plan->slots[it->saves[0]].size_bytes, it->save_bytes);
        return false;
    }
    it->save_blocks = (it->save_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    if (it->save_blocks && posix_memalign(&block, PAGE_BYTES, BLOCK_BYTES))
        g_error("out of memory");
    it->block = block;
    return true;
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
    int64_t pages = (extent->bytes + PAGE_BYTES - 1) / PAGE_BYTES;

    return mw_nvme_transfer(trainer->places.nvme, direction, extent->offset_bytes,
                            pages * PAGE_BYTES, trainer->durable.block, error);
}

bool
mw_trainer_save(struct mw_trainer *trainer, int64_t *extent_count, GError **error)
{
    struct mw_trainer_durable *it = &trainer->durable;

    it->save_which = !it->save_which;
    for (int64_t b = 0; b < it->save_blocks; b++) {
        struct mw_commit_extent extent = extent_of(trainer, b, it->save_which);
        if (!copy_block(trainer, b * BLOCK_BYTES, extent.bytes, true, error))
            return false;
        extent.checksum = mw_commit_checksum(it->block, extent.bytes);
        if (!transfer(trainer, MW_NVME_WRITE, &extent, error))
            return false;
        it->extents[(*extent_count)++] = extent;
    }
    return true;
}

bool
mw_trainer_load_save(struct mw_trainer *trainer, const struct mw_commit_extent *extents,
                     GError **error)
{
    struct mw_trainer_durable *it = &trainer->durable;

    for (int64_t b = 0; b < it->save_blocks; b++) {
        struct mw_commit_extent wanted = extent_of(trainer, b, extents[b].which);
        if (!mw_trainer_same_extent(&extents[b], &wanted, error) ||
            !transfer(trainer, MW_NVME_READ, &wanted, error) ||
            !mw_commit_check(&extents[b], it->block, error) ||
            !copy_block(trainer, b * BLOCK_BYTES, wanted.bytes, false, error))
            return false;
        it->save_which = wanted.which;
    }
    return true;
}
