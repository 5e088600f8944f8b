/* The bounds of parallel.h: of a point's time and memory, from what groups of points have in
 * common. */
#include "study/parallel_internal.h"

#include <math.h>

/* With all on the GPU and nothing partitioned: what activations and logits take does not depend on
 * it, but for software that casts parameters of fp32 where these are whole. */
bool
mw_parallel_room_of(const struct mw_parallel_space *space, const struct mw_parallel_block *block,
                    struct mw_parallel_room *out)
{
    const struct mw_parallel_variant plain = {.strategy = space->strategies.one[0],
                                              .shard_group = MW_SHARD_ALL};
    struct mw_settings settings;
    struct mw_hardware narrow = *space->hardware;

    narrow.memory_use.bytes_per_cast = narrow.memory_use.bytes_per_frozen = 0;
    struct mw_sizing *first = mw_parallel_settings(space, block, &plain, &settings)
                                  ? mw_sizing_new_distinct(space->model, &narrow, &settings, NULL)
                                  : NULL;

    *out = (struct mw_parallel_room){0};
    for (const struct mw_sizing *stage = first; stage; stage = stage->next_stage) {
        out->gpu_bytes[out->count] = stage->passes_bytes;
        out->checkpoint_bytes[out->count++] =
            stage->ledger[MW_TIER_GPU][MW_PURPOSE_ACTIVATION_CHECKPOINTS];
        for (int t = 0; t < MW_TIER_COUNT; t++)
            out->capacity[t] = stage->tiers[t].capacity_bytes;
    }
    mw_sizing_free(first);
    return out->count > 0;
}

int64_t
mw_parallel_need_bytes(const struct mw_parallel_room *room,
                       const struct mw_parallel_variant *variant,
                       const struct mw_parallel_state *state, int stage, int tier)
{
    int64_t passes =
        (tier == MW_TIER_GPU ? room->gpu_bytes[stage] : 0) +
        (tier == variant->tier[MW_STATE_ACTIVATIONS] ? room->checkpoint_bytes[stage] : 0);

    return state->of[stage].home_bytes[tier] + MAX(passes, state->of[stage].made_bytes[tier]);
}

bool
mw_parallel_has_room(const struct mw_parallel_room *room, const struct mw_parallel_variant *variant,
                     const struct mw_parallel_state *state)
{
    for (int i = 0; i < room->count; i++)
        for (int t = 0; t < MW_TIER_COUNT; t++)
            if (mw_parallel_need_bytes(room, variant, state, i, t) > room->capacity[t])
                return false;
    return true;
}

/* Time of other lanes is the longest of several lines, and so above the line through two of its
 * points, beyond them. */
static struct mw_pipeline_beside
beside_at(const struct mw_parallel_line *line, int64_t micro_batches)
{
    double more = micro_batches > 2 ? (double)(micro_batches - 2) : 0;

    return (struct mw_pipeline_beside){line->at.compute_s + more * line->more.compute_s,
                                       line->at.lanes_s + more * line->more.lanes_s,
                                       line->at.behind_s};
}

/* What sums up differs by the order of additions. */
#define ROUNDING (1 - 1e-9)

static double
bound_s(const struct mw_parallel_shape *shape, const struct mw_parallel_choice *choice,
        enum mw_tier away, const struct mw_parallel_state *state)
{
    struct mw_pipeline_beside beside[MW_PIPELINE_KINDS];
    int64_t all = INT64_MAX;

    for (int i = 0; state && i < shape->floor.count; i++)
        beside[i] = beside_at(&state->of[i], shape->micro_batches);
    return ROUNDING * mw_pipeline_floor_s(&shape->floor, shape->order,
                                          !choice->interval || choice->whole ? 0
                                          : choice->layers == MW_AUTO        ? all
                                                                             : choice->layers,
                                          away, state ? beside : NULL);
}

/* Of a whole block whose activations leave, the tier that takes least. */
double
mw_parallel_bound_s(const struct mw_parallel_shape *shape, const struct mw_parallel_choice *choice,
                    const struct mw_parallel_variant *variant,
                    const struct mw_parallel_state *state)
{
    if (!choice->whole)
        return bound_s(shape, choice, MW_TIER_GPU, state);
    if (variant)
        return bound_s(shape, choice, (enum mw_tier)variant->tier[MW_STATE_ACTIVATIONS], state);
    return fmin(bound_s(shape, choice, MW_TIER_CPU, state),
                bound_s(shape, choice, MW_TIER_NVME, state));
}
