/* Activation checkpoints: kept on the GPU, or sent to CPU or NVMe in forward and brought back ahead
 * of their recompute (ZeRO-Infinity Sec. 5.1.2).  Tensor slices may keep a part each, which they
 * gather then (ZeRO-R, Sec. 6.1: Pa, and Pa+cpu). */
#include <glib.h>

#include "planner/build/internal.h"

static enum mw_tier
home_tier(const struct builder *b, int64_t checkpoint)
{
    return b->sizing->checkpoint_home[checkpoint];
}

int64_t
mw_checkpoint_at(const struct builder *b, int64_t group, uint32_t mb)
{
    int64_t of_pass = b->sizing->checkpoint_count / b->sizing->stretches;

    return mw_place_of(b, mb, group / of_pass) * of_pass + group % of_pass;
}

static const struct subject of_checkpoint = {MW_OBJECT_CHECKPOINT, MW_OPERATOR_NONE};

/* The slot that forward writes a checkpoint to. */
uint32_t
mw_checkpoint_slot(struct builder *b, int64_t checkpoint)
{
    uint32_t slot = home_tier(b, checkpoint) == MW_TIER_GPU
                        ? b->checkpoint_home + checkpoint
                        : mw_build_ring_next(&b->slots[MW_BUFFER_CHECKPOINTS_STAGED]);

    b->checkpoint_loaded[checkpoint] = slot;
    return slot;
}

void
mw_checkpoint_store(struct builder *b, int64_t group, uint32_t slot, uint32_t mb)
{
    int64_t checkpoint = mw_checkpoint_at(b, group, mb), bytes = b->sizing->checkpoint_bytes;
    enum mw_tier tier = home_tier(b, checkpoint);
    struct identity id = {MW_PHASE_FORWARD, (int32_t)mw_first_of_group(b, group), mb,
                          b->checkpoint_tile[checkpoint], 0};

    if (tier == MW_TIER_GPU)
        return;
    uint32_t home = b->checkpoint_home + checkpoint;
    uint32_t target =
        tier == MW_TIER_CPU ? home : mw_build_ring_next(&b->slots[MW_BUFFER_CHECKPOINTS_PINNED]);
    mw_build_op(b, LANE_D2H, mw_work_copy(b, MW_OP_D2H, of_checkpoint, bytes, false), id);
    mw_build_use(b, slot, MW_USE_READ, MW_ROLE_SOURCE);
    mw_build_use(b, target, MW_USE_DEFINE, MW_ROLE_DESTINATION);
    if (tier != MW_TIER_NVME)
        return;
    mw_build_op(b, LANE_WRITE, mw_work_copy(b, MW_OP_NVME_WRITE, of_checkpoint, bytes, false), id);
    mw_build_use(b, target, MW_USE_READ, MW_ROLE_SOURCE);
    mw_build_use(b, home, MW_USE_DEFINE, MW_ROLE_DESTINATION);
}

static uint32_t
load_from_nvme(struct builder *b, int64_t checkpoint, struct identity id)
{
    uint32_t pinned = mw_build_ring_next(&b->slots[MW_BUFFER_CHECKPOINTS_PINNED]);

    mw_build_op(b, LANE_READ,
                mw_work_copy(b, MW_OP_NVME_READ, of_checkpoint, b->sizing->checkpoint_bytes, false),
                id);
    mw_build_use(b, b->checkpoint_home + checkpoint, MW_USE_READ, MW_ROLE_SOURCE);
    mw_build_use(b, pinned, MW_USE_DEFINE, MW_ROLE_DESTINATION);
    return pinned;
}

static struct identity
identity_back(const struct builder *b, int64_t group, uint32_t mb)
{
    bool whole = mw_settings_keeps_whole(&b->sizing->settings);

    return (struct identity){whole ? MW_PHASE_BACKWARD : MW_PHASE_RECOMPUTE,
                             (int32_t)mw_first_of_group(b, group), mb,
                             b->checkpoint_tile[mw_checkpoint_at(b, group, mb)], 0};
}

void
mw_checkpoint_load(struct builder *b, int64_t group, uint32_t mb)
{
    int64_t checkpoint = mw_checkpoint_at(b, group, mb);
    enum mw_tier tier = home_tier(b, checkpoint);
    struct identity id = identity_back(b, group, mb);
    uint32_t loaded = b->checkpoint_home + checkpoint;
    if (tier != MW_TIER_GPU) {
        uint32_t source = tier == MW_TIER_NVME ? load_from_nvme(b, checkpoint, id) : loaded;
        mw_build_op(b, LANE_H2D,
                    mw_work_copy(b, MW_OP_H2D, of_checkpoint, b->sizing->checkpoint_bytes, false),
                    id);
        if (tier == MW_TIER_CPU && mw_settings_fetch_depth(&b->sizing->settings, MW_FETCH_CG) == 0)
            mw_build_after(b, b->lane_last[LANE_COMPUTE]);
        loaded = mw_build_ring_next(&b->slots[MW_BUFFER_CHECKPOINTS_STAGED]);
        mw_build_use(b, source, MW_USE_READ, MW_ROLE_SOURCE);
        mw_build_use(b, loaded, MW_USE_DEFINE, MW_ROLE_DESTINATION);
    }
    b->checkpoint_loaded[checkpoint] = loaded;
}

void
mw_checkpoint_gather(struct builder *b, int64_t group, uint32_t mb)
{
    uint32_t *loaded = &b->checkpoint_loaded[mw_checkpoint_at(b, group, mb)];
    uint32_t whole = b->slots[MW_BUFFER_CHECKPOINTS_GATHERED].first;

    if (!mw_sizing_gathers_checkpoints(b->sizing))
        return;
    mw_build_op(b, LANE_SLICING,
                mw_work_collective(b, MW_OP_ALL_GATHER, of_checkpoint, b->tp_comm,
                                   b->sizing->checkpoint_whole_bytes),
                identity_back(b, group, mb));
    mw_build_use(b, *loaded, MW_USE_READ, MW_ROLE_SOURCE);
    mw_build_use(b, whole, MW_USE_DEFINE, MW_ROLE_DESTINATION);
    *loaded = whole;
}
