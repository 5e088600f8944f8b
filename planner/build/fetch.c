/*
 * The fetch path of a part of a fetch unit (ZeRO-Infinity Sec. 6.2): nc-transfer NVMe -> pinned
 * slot, cg-transfer pinned -> GPU, gg-transfer all-gather.  While part i computes, gg runs for i+D,
 * cg for i+2D, nc for i+3D, or each stage runs its own depth ahead of the next one; the number of
 * slots limits how far ahead each stage can be.
 */
#include <glib.h>

#include "planner/build/internal.h"

static enum mw_tier
home_tier(const struct builder *b, const struct visit *v)
{
    return b->sizing->param_home[v->fetched_unit];
}

/* Whether this visit starts a transfer of its own. */
static bool
fetches(const struct builder *b, const struct visit *v)
{
    return b->sizing->params_partitioned && v->fetched_unit != MW_NONE && v->reuses == MW_NONE &&
           (home_tier(b, v) != MW_TIER_GPU || b->sizing->dp > 1);
}

static int64_t
part_bytes(const struct builder *b, const struct visit *v)
{
    const struct mw_unit *unit = mw_sizing_unit(b->sizing, v->fetched_unit);
    return mw_sizing_param_bytes(unit, mw_sizing_carried_params(b->sizing, unit));
}

/* The operator for which the part is fetched: an embedding serves tied logits too. */
static struct subject
fetched(const struct builder *b, const struct visit *v)
{
    return (struct subject){MW_OBJECT_PARAMETERS,
                            v->tied == TIED_WEIGHT
                                ? MW_OPERATOR_LOGITS
                                : mw_sizing_unit_operator(b->sizing, v->fetched_unit)};
}

static struct identity
identify(const struct visit *v)
{
    return (struct identity){v->phase, v->layer, v->micro_batch, v->fetched_tile, 0};
}

/* Number of parts that a stage fetches ahead of their use: the sum of its depth and those of all
 * later stages. */
static int64_t
ahead_of_use(const struct builder *b, enum mw_fetch_stage stage)
{
    const struct mw_settings *settings = &b->sizing->settings;
    int64_t ahead = 0;

    for (enum mw_fetch_stage s = stage; s < MW_FETCH_STAGES; s++)
        if (s != MW_FETCH_GG || b->sizing->dp > 1)
            ahead += mw_settings_fetch_depth(settings, s);
    return ahead;
}

/* The first transfer of a part waits for the previous compute when nothing is fetched ahead. */
static void
hold_back(struct builder *b, enum mw_fetch_stage first)
{
    if (ahead_of_use(b, first) == 0)
        mw_build_after(b, b->lane_last[LANE_COMPUTE]);
}

static void
fetch_from_nvme(struct builder *b, struct visit *v)
{
    uint32_t work = mw_work_copy(b, MW_OP_NVME_READ, fetched(b, v), part_bytes(b, v),
                                 mw_sizing_owners_broadcast(b->sizing));

    mw_build_op(b, LANE_READ, work, identify(v));
    hold_back(b, MW_FETCH_NC);
    v->pinned_slot = mw_build_ring_next(&b->slots[MW_BUFFER_PARAMETERS_PINNED]);
    mw_build_use(b, b->param_home + v->fetched_unit, MW_USE_READ, MW_ROLE_SOURCE);
    mw_build_use(b, v->pinned_slot, MW_USE_DEFINE, MW_ROLE_DESTINATION);
}

/* Takes a free slot of the gathered parts: the one that was released first. */
static uint32_t
take_param_slot(struct builder *b)
{
    struct ring *gathered = &b->slots[MW_BUFFER_PARAMETERS_GATHERED];

    for (uint32_t i = 0; i < gathered->count; i++) {
        uint32_t turn = (gathered->next + i) % gathered->count;
        if (b->param_slot_held[turn])
            continue;
        gathered->next = turn + 1;
        b->param_slot_held[turn] = true;
        return gathered->first + turn;
    }
    g_error("planner: no free parameter slot");
}

static void
fetch_to_gpu(struct builder *b, struct visit *v)
{
    bool gathers = b->sizing->dp > 1;
    bool from_nvme = v->pinned_slot != MW_NONE;
    uint32_t source = from_nvme ? v->pinned_slot : b->param_home + v->fetched_unit;
    uint32_t work = mw_work_copy(b, MW_OP_H2D, fetched(b, v), part_bytes(b, v),
                                 mw_sizing_owners_broadcast(b->sizing));

    mw_build_op(b, LANE_H2D, work, identify(v));
    if (!from_nvme)
        hold_back(b, MW_FETCH_CG);
    mw_build_use(b, source, MW_USE_READ, MW_ROLE_SOURCE);
    if (gathers)
        v->shard_slot = mw_build_ring_next(&b->slots[MW_BUFFER_PARAMETERS_SHARD]);
    else
        v->param_slot = take_param_slot(b);
    mw_build_use(b, gathers ? v->shard_slot : v->param_slot, MW_USE_DEFINE, MW_ROLE_DESTINATION);
}

static void
fetch_from_peers(struct builder *b, struct visit *v)
{
    const struct mw_unit *unit = mw_sizing_unit(b->sizing, v->fetched_unit);
    bool from_shard = v->shard_slot != MW_NONE;
    uint32_t source = from_shard ? v->shard_slot : b->param_home + v->fetched_unit;
    enum mw_op_kind kind =
        mw_sizing_owners_broadcast(b->sizing) ? MW_OP_BROADCAST : MW_OP_ALL_GATHER;
    uint32_t work = mw_work_collective(b, kind, fetched(b, v), b->dp_comm,
                                       mw_sizing_param_bytes(unit, unit->tile_params));

    mw_build_op(b, LANE_COLLECTIVE, work, identify(v));
    if (!from_shard)
        hold_back(b, MW_FETCH_GG);
    v->param_slot = take_param_slot(b);
    mw_build_use(b, source, MW_USE_READ, MW_ROLE_SOURCE);
    mw_build_use(b, v->param_slot, MW_USE_DEFINE, MW_ROLE_DESTINATION);
}

static struct visit *
visit_at(struct builder *b, int64_t visit)
{
    if (visit < 0 || visit >= b->visit_count || !fetches(b, &b->visits[visit]))
        return NULL;
    return &b->visits[visit];
}

/* Advances every stage by one part, as far ahead of `visit` as it may be. */
static void
advance_stages(struct builder *b, int64_t visit)
{
    bool gathers = b->sizing->dp > 1;
    struct visit *nc = visit_at(b, visit + ahead_of_use(b, MW_FETCH_NC));
    struct visit *cg = visit_at(b, visit + ahead_of_use(b, MW_FETCH_CG));
    struct visit *gg = gathers ? visit_at(b, visit + ahead_of_use(b, MW_FETCH_GG)) : NULL;

    if (nc && home_tier(b, nc) == MW_TIER_NVME)
        fetch_from_nvme(b, nc);
    if (cg && home_tier(b, cg) != MW_TIER_GPU)
        fetch_to_gpu(b, cg);
    if (gg)
        fetch_from_peers(b, gg);
}

/* Called once before each visit is computed.  The first call fills the pipeline, stage by stage in
 * turns: a slot of a stage is free for the next part when the following stage has taken the
 * previous part. */
void
mw_fetch_ahead(struct builder *b, uint32_t visit)
{
    int64_t first = visit ? (int64_t)visit : -ahead_of_use(b, MW_FETCH_NC);

    for (int64_t at = first; at <= visit; at++)
        advance_stages(b, at);
    struct visit *now = &b->visits[visit];
    if (now->reuses != MW_NONE)
        now->param_slot = b->visits[now->reuses].param_slot;
    else if (now->fetched_unit != MW_NONE && !fetches(b, now))
        now->param_slot = b->param_home + now->fetched_unit;
}

void
mw_fetch_release(struct builder *b, uint32_t visit)
{
    const struct visit *v = &b->visits[visit];
    const struct ring *gathered = &b->slots[MW_BUFFER_PARAMETERS_GATHERED];
    uint32_t turn = v->param_slot - gathered->first;

    if (v->param_slot != MW_NONE && !v->keeps && v->param_slot >= gathered->first &&
        turn < gathered->count)
        b->param_slot_held[turn] = false;
}
