/*
 * The fetch path of a part of a fetch unit (ZeRO-Infinity Sec. 6.2): nc-transfer NVMe -> pinned
 * slot, cg-transfer pinned -> GPU, gg-transfer all-gather.  While part i computes, gg runs for i+D,
 * cg for i+2D, nc for i+3D, or each stage runs its own depth ahead of the next one; the number of
 * slots limits how far ahead each stage can be.
 */
#include <glib.h>
#include <string.h>

#include "planner/build/internal.h"

static enum mw_tier
home_tier(const struct builder *b, const struct part *part)
{
    return b->sizing->param_home[part->number];
}

static uint32_t
home_of(const struct builder *b, const struct part *part)
{
    return b->param_home + part->number;
}

/* Whether the part has transfers of its own. */
static bool
travels(const struct builder *b, const struct part *part)
{
    return b->sizing->params_partitioned &&
           (home_tier(b, part) != MW_TIER_GPU || part->tensor->ranks > 1);
}

static int64_t
part_bytes(const struct builder *b, const struct part *part)
{
    return mw_sizing_param_bytes(part->tensor, mw_sizing_carried_params(b->sizing, part->tensor));
}

/* The operator for which the part is fetched: an embedding serves tied logits too. */
static struct subject
fetched(const struct builder *b, const struct part *part)
{
    return (struct subject){MW_OBJECT_PARAMETERS,
                            part->visit->tied == TIED_WEIGHT
                                ? MW_OPERATOR_LOGITS
                                : mw_sizing_tensor_operator(b->sizing, part->number)};
}

static struct identity
identify(const struct part *part)
{
    const struct visit *v = part->visit;

    return (struct identity){v->phase, v->layer, v->micro_batch, part->tile, 0};
}

static uint32_t
next_slot(struct builder *b, enum mw_buffer_kind kind, const struct part *part)
{
    return mw_build_ring_next(&b->slots[mw_buffer_of(kind, part->tiled)]);
}

/* Number of parts that a stage fetches ahead of their use: the sum of its depth and those of all
 * later stages. */
static int64_t
ahead_of_use(const struct builder *b, enum mw_fetch_stage stage)
{
    const struct mw_settings *settings = &b->sizing->settings;
    int64_t ahead = 0;

    for (enum mw_fetch_stage s = stage; s < MW_FETCH_STAGES; s++)
        if (s != MW_FETCH_GG || b->sizing->shards > 1)
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
fetch_from_nvme(struct builder *b, const struct part *part)
{
    uint32_t *pinned = &part->visit->pinned_slot[part->turn];
    uint32_t work = mw_work_copy(b, MW_OP_NVME_READ, fetched(b, part), part_bytes(b, part),
                                 mw_sizing_owners_broadcast(b->sizing));

    mw_build_op(b, LANE_READ, work, identify(part));
    hold_back(b, MW_FETCH_NC);
    *pinned = next_slot(b, MW_BUFFER_PARAMETERS_PINNED, part);
    mw_build_use(b, home_of(b, part), MW_USE_READ, MW_ROLE_SOURCE);
    mw_build_use(b, *pinned, MW_USE_DEFINE, MW_ROLE_DESTINATION);
}

/* The slots of gathered tensors that are not cut follow those of tiled ones. */
static bool *
find_held(struct builder *b, uint32_t slot)
{
    uint32_t first = b->slots[MW_BUFFER_PARAMETERS_GATHERED].first;
    uint32_t count = b->slots[MW_BUFFER_PARAMETERS_GATHERED].count +
                     b->slots[MW_BUFFER_PARAMETERS_GATHERED_SMALL].count;

    return slot >= first && slot - first < count ? &b->param_slot_held[slot - first] : NULL;
}

/* Takes a free slot of the gathered parts: the one that was released first. */
static uint32_t
take_param_slot(struct builder *b, const struct part *part)
{
    struct ring *gathered = &b->slots[mw_buffer_of(MW_BUFFER_PARAMETERS_GATHERED, part->tiled)];

    for (uint32_t i = 0; i < gathered->count; i++) {
        uint32_t turn = (gathered->next + i) % gathered->count;
        bool *held = find_held(b, gathered->first + turn);
        if (*held)
            continue;
        gathered->next = turn + 1;
        *held = true;
        return gathered->first + turn;
    }
    g_error("planner: no free parameter slot");
}

static void
fetch_to_gpu(struct builder *b, const struct part *part)
{
    bool gathers = part->tensor->ranks > 1;
    uint32_t pinned = part->visit->pinned_slot[part->turn];
    uint32_t source = pinned != MW_NONE ? pinned : home_of(b, part), target;
    uint32_t work = mw_work_copy(b, MW_OP_H2D, fetched(b, part), part_bytes(b, part),
                                 mw_sizing_owners_broadcast(b->sizing));

    mw_build_op(b, LANE_H2D, work, identify(part));
    if (pinned == MW_NONE)
        hold_back(b, MW_FETCH_CG);
    mw_build_use(b, source, MW_USE_READ, MW_ROLE_SOURCE);
    if (gathers)
        target = part->visit->shard_slot[part->turn] =
            next_slot(b, MW_BUFFER_PARAMETERS_SHARD, part);
    else
        target = part->visit->param_slot[part->turn] = take_param_slot(b, part);
    mw_build_use(b, target, MW_USE_DEFINE, MW_ROLE_DESTINATION);
}

static void
fetch_from_peers(struct builder *b, const struct part *part)
{
    uint32_t shard = part->visit->shard_slot[part->turn];
    uint32_t source = shard != MW_NONE ? shard : home_of(b, part);
    enum mw_op_kind kind =
        mw_sizing_owners_broadcast(b->sizing) ? MW_OP_BROADCAST : MW_OP_ALL_GATHER;
    uint32_t work =
        mw_work_collective(b, kind, fetched(b, part), mw_build_replicas(b, part->tensor->ranks),
                           mw_sizing_param_bytes(part->tensor, part->tensor->tile_params));

    mw_build_op(b, LANE_COLLECTIVE, work, identify(part));
    if (shard == MW_NONE)
        hold_back(b, MW_FETCH_GG);
    uint32_t target = part->visit->param_slot[part->turn] = take_param_slot(b, part);
    mw_build_use(b, source, MW_USE_READ, MW_ROLE_SOURCE);
    mw_build_use(b, target, MW_USE_DEFINE, MW_ROLE_DESTINATION);
}

/* The stage's transfer of a part, if it has one. */
static void
fetch_part(struct builder *b, enum mw_fetch_stage stage, const struct part *part)
{
    enum mw_tier home = home_tier(b, part);

    if (stage == MW_FETCH_NC && home == MW_TIER_NVME)
        fetch_from_nvme(b, part);
    else if (stage == MW_FETCH_CG && home != MW_TIER_GPU)
        fetch_to_gpu(b, part);
    else if (stage == MW_FETCH_GG && part->tensor->ranks > 1)
        fetch_from_peers(b, part);
}

static void
fetch_visit(struct builder *b, enum mw_fetch_stage stage, uint32_t visit)
{
    struct part part;

    for (int turn = 0; turn < mw_visit_tensors(b, &b->visits[visit]); turn++)
        if (mw_visit_fetches(b, &b->visits[visit], turn, &part) && travels(b, &part))
            fetch_part(b, stage, &part);
}

/* Advances every stage by one part of a unit, as far ahead of `visit` as it may be. */
static void
advance_stages(struct builder *b, int64_t visit)
{
    for (enum mw_fetch_stage stage = 0; stage < MW_FETCH_STAGES; stage++) {
        int64_t at = visit + ahead_of_use(b, stage);
        if (at >= 0 && at < b->visit_count && b->visits[at].reuses == MW_NONE)
            fetch_visit(b, stage, (uint32_t)at);
    }
}

/* Layer by layer: the last stage brings all that may have begun by now, and each stage before it is
 * ahead of the next one by its own depth.  The first call fills the pipeline in turns. */
static void
fetch_layers(struct builder *b, uint32_t visit)
{
    int64_t last = ahead_of_use(b, b->sizing->shards > 1 ? MW_FETCH_GG : MW_FETCH_CG);
    int64_t next = b->fetched ? (int64_t)b->fetched : last - ahead_of_use(b, MW_FETCH_NC);

    for (; next < (int64_t)b->fetches_by[visit]; next++)
        for (enum mw_fetch_stage stage = 0; stage < MW_FETCH_STAGES; stage++) {
            int64_t at = next + MAX(0, ahead_of_use(b, stage) - last);
            if (at >= 0 && at < b->fetching_count)
                fetch_visit(b, stage, b->fetching[at]);
        }
    b->fetched = b->fetches_by[visit];
}

uint32_t
mw_version_slot(const struct builder *b, uint32_t place, uint32_t tensor)
{
    return place ? b->slots[MW_BUFFER_VERSIONS].first + place - 1 : b->param_home + tensor;
}

/* Parameters that are there as a whole, in the version that the visit takes. */
static uint32_t
version_of(const struct builder *b, const struct visit *v, const struct part *part)
{
    if (mw_settings_stashes(&b->sizing->settings))
        return mw_version_slot(b, mw_sizing_version_taken(b->sizing, v->micro_batch), part->number);
    return mw_version_slot(b, v->next, part->number);
}

/* Called once before each visit is computed.  The first call fills the pipeline, stage by stage in
 * turns: a slot of a stage is free for the next part when the following stage has taken the
 * previous part. */
void
mw_fetch_ahead(struct builder *b, uint32_t visit)
{
    int64_t first = visit ? (int64_t)visit : -ahead_of_use(b, MW_FETCH_NC);
    struct visit *now = &b->visits[visit];
    struct part part;

    if (b->fetching)
        fetch_layers(b, visit);
    bool travel = b->sizing->params_partitioned && !b->fetching; /* else none of them does */
    for (int64_t at = first; travel && at <= visit; at++)
        advance_stages(b, at);
    if (now->reuses != MW_NONE)
        memcpy(now->param_slot, b->visits[now->reuses].param_slot, sizeof now->param_slot);
    for (int turn = 0; now->reuses == MW_NONE && turn < mw_visit_tensors(b, now); turn++)
        if (mw_visit_fetches(b, now, turn, &part) && !travels(b, &part))
            now->param_slot[turn] = version_of(b, now, &part);
}

void
mw_fetch_release(struct builder *b, uint32_t visit)
{
    const struct visit *v = &b->visits[visit];

    for (int turn = 0; !v->keeps && turn < MW_UNIT_TENSORS_MAX; turn++) {
        bool *held = v->param_slot[turn] != MW_NONE ? find_held(b, v->param_slot[turn]) : NULL;
        if (held)
            *held = false;
    }
}
