/*
 * Gradients leave after the backward pass of their part: reduce-scatter, D2H, accumulation, NVMe.
 * Replicated gradients (ddp, zero1) stay, and are reduced once, with the last micro-batch.
 *
 * If gradients are summed in fp32, backward still computes them in the type of the parameters, and
 * they are added where the sums live: so the sums have the same bits on every tier.
 */
#include <glib.h>

#include "planner/build/internal.h"

static bool
last_micro_batch(const struct builder *b, const struct visit *v)
{
    return v->micro_batch == b->sizing->settings.grad_accum - 1;
}

/* The first part of a unit's gradient starts the new content of its home. */
static enum mw_use_mode
home_mode(const struct builder *b, const struct visit *v)
{
    const struct mw_unit *unit = mw_sizing_unit(b->sizing, v->global_unit);
    return v->micro_batch == 0 && v->tile == unit->tiles - 1 ? MW_USE_DEFINE : MW_USE_MODIFY;
}

static bool
lives_on_gpu(const struct builder *b, const struct visit *v)
{
    return b->sizing->gradient_home[v->global_unit] == MW_TIER_GPU;
}

/* Whether backward writes the gradient where it lives, so that there is nothing to send or to
 * add. */
static bool
made_at_home(const struct builder *b, const struct visit *v)
{
    bool whole = !b->sizing->gradients_partitioned || b->sizing->dp == 1;

    return whole && lives_on_gpu(b, v) && !b->sizing->gradients_summed;
}

/* Whether the gradient is the embedding's, which is added to that of tied logits, computed
 * earlier. */
static bool
adds_to_logits(const struct builder *b, const struct visit *v)
{
    return mw_sizing_tied(b->sizing) && v->class_ == MW_CLASS_HEAD;
}

uint32_t
mw_gradient_slot(struct builder *b, struct visit *v, enum mw_use_mode *mode)
{
    uint32_t begun = v->adds_to != MW_NONE ? b->visits[v->adds_to].gradient_slot : MW_NONE;
    bool adds = adds_to_logits(b, v), home = made_at_home(b, v);

    *mode = adds || begun != MW_NONE ? MW_USE_MODIFY : home ? home_mode(b, v) : MW_USE_DEFINE;
    if (begun != MW_NONE)
        v->gradient_slot = begun;
    else if (home)
        v->gradient_slot = b->gradient_home + v->global_unit;
    else if (adds || v->tied == TIED_WEIGHT)
        v->gradient_slot = b->tied_gradient + v->tile;
    else
        v->gradient_slot = mw_build_ring_next(&b->slots[MW_BUFFER_GRADIENTS_WHOLE]);
    return v->gradient_slot;
}

static struct identity
identify(const struct visit *v)
{
    return (struct identity){MW_PHASE_BACKWARD, v->layer, v->micro_batch, v->tile, 0};
}

static struct subject
gradients_of(const struct builder *b, const struct visit *v)
{
    return (struct subject){MW_OBJECT_GRADIENTS,
                            mw_sizing_unit_operator(b->sizing, v->global_unit)};
}

static void
reduce_in_place(struct builder *b, const struct visit *v, const struct mw_unit *unit)
{
    enum mw_op_kind kind =
        b->sizing->optimizer_partitioned ? MW_OP_REDUCE_SCATTER : MW_OP_ALL_REDUCE;
    uint32_t work = mw_work_collective(b, kind, gradients_of(b, v), b->dp_comm,
                                       b->sizing->gradient_element_bytes * unit->tile_params);

    mw_build_op(b, LANE_COLLECTIVE, work, identify(v));
    mw_build_use(b, b->gradient_home + v->global_unit, MW_USE_MODIFY, MW_ROLE_GRADIENT);
}

/* Reduces into a slot of this rank's shard on the GPU: its home if nothing is added up. */
static uint32_t
reduce_scatter(struct builder *b, const struct visit *v, const struct mw_unit *unit, uint32_t slot)
{
    bool arrives = lives_on_gpu(b, v) && !b->sizing->gradients_summed;
    uint32_t work = mw_work_collective(b, MW_OP_REDUCE_SCATTER, gradients_of(b, v), b->dp_comm,
                                       b->sizing->element_bytes * unit->tile_params);
    uint32_t target = arrives ? b->gradient_home + v->global_unit
                              : mw_build_ring_next(&b->slots[MW_BUFFER_GRADIENTS_SHARD]);

    mw_build_op(b, LANE_COLLECTIVE, work, identify(v));
    mw_build_use(b, slot, MW_USE_READ, MW_ROLE_SOURCE);
    mw_build_use(b, target, arrives ? home_mode(b, v) : MW_USE_DEFINE, MW_ROLE_DESTINATION);
    return arrives ? MW_NONE : target;
}

/* The first micro-batch reads an element and writes a 4-byte sum; later ones also read the sum. */
static uint32_t
work_accumulate(struct builder *b, const struct visit *v, bool host, int64_t params)
{
    int64_t element_bytes = b->sizing->element_bytes + (v->micro_batch > 0 ? 8 : 4);

    return mw_work_accumulate(b, mw_sizing_unit_operator(b->sizing, v->global_unit), host,
                              element_bytes * params, params);
}

static void
accumulate_on_gpu(struct builder *b, const struct visit *v, uint32_t slot, int64_t params)
{
    mw_build_op(b, LANE_COMPUTE, work_accumulate(b, v, false, params), identify(v));
    mw_build_use(b, slot, MW_USE_READ, MW_ROLE_GRADIENT);
    mw_build_use(b, b->gradient_home + v->global_unit, home_mode(b, v), MW_ROLE_SUM);
}

/* Compute continues while a part is reduced: a part is accumulated when the next one has been
 * computed. */
void
mw_gradient_flush(struct builder *b)
{
    const struct visit *v = &b->visits[b->reduced_visit];

    if (b->reduced_slot == MW_NONE)
        return;
    accumulate_on_gpu(b, v, b->reduced_slot,
                      mw_sizing_unit(b->sizing, v->global_unit)->shard_params);
    b->reduced_slot = MW_NONE;
}

static void
accumulate(struct builder *b, const struct visit *v, uint32_t pinned, int64_t params)
{
    uint32_t home = b->gradient_home + v->global_unit;
    bool nvme = b->sizing->gradient_home[v->global_unit] == MW_TIER_NVME;
    bool adds = v->micro_batch > 0;

    if (nvme && adds) {
        mw_build_op(b, LANE_READ,
                    mw_work_copy(b, MW_OP_NVME_READ, gradients_of(b, v), 4 * params, false),
                    identify(v));
        mw_build_use(b, home, MW_USE_READ, MW_ROLE_SOURCE);
        mw_build_use(b, pinned, MW_USE_MODIFY, MW_ROLE_DESTINATION);
    }
    mw_build_op(b, LANE_HOST, work_accumulate(b, v, true, params), identify(v));
    mw_build_use(b, pinned, MW_USE_MODIFY, MW_ROLE_GRADIENT);
    if (!nvme)
        mw_build_use(b, home, home_mode(b, v), MW_ROLE_SUM);
}

/* Writes a gradient to the drives, after its part of the norm has been computed: otherwise it would
 * have to be read back for that. */
static void
to_nvme(struct builder *b, const struct visit *v, uint32_t pinned, int64_t params)
{
    struct subject gradients = gradients_of(b, v);
    int64_t bytes = b->sizing->gradient_element_bytes * params;

    if (last_micro_batch(b, v)) {
        mw_build_op(b, LANE_HOST, mw_work_norm(b, gradients, true, params), identify(v));
        mw_build_use(b, pinned, MW_USE_READ, MW_ROLE_GRADIENT);
        /* Each part adds to the norm in one place, where a delayed update finds the previous
         * step's. */
        mw_build_after(b, b->norm_agreed);
    }
    mw_build_op(b, LANE_WRITE, mw_work_copy(b, MW_OP_NVME_WRITE, gradients, bytes, false),
                identify(v));
    mw_build_use(b, pinned, MW_USE_READ, MW_ROLE_SOURCE);
    mw_build_use(b, b->gradient_home + v->global_unit, home_mode(b, v), MW_ROLE_DESTINATION);
}

static void
to_host(struct builder *b, const struct visit *v, uint32_t slot, int64_t bytes, bool alone)
{
    enum mw_tier tier = b->sizing->gradient_home[v->global_unit];
    bool sums = b->sizing->gradients_summed;
    int64_t shard = mw_sizing_unit(b->sizing, v->global_unit)->shard_params;
    uint32_t home = b->gradient_home + v->global_unit;
    bool direct = tier == MW_TIER_CPU && !sums;
    uint32_t target = direct ? home : mw_build_ring_next(&b->slots[MW_BUFFER_GRADIENTS_PINNED]);

    mw_build_op(b, LANE_D2H, mw_work_copy(b, MW_OP_D2H, gradients_of(b, v), bytes, alone),
                identify(v));
    mw_build_use(b, slot, MW_USE_READ, MW_ROLE_SOURCE);
    mw_build_use(b, target, direct ? home_mode(b, v) : MW_USE_DEFINE, MW_ROLE_DESTINATION);
    if (sums)
        accumulate(b, v, target, shard);
    if (tier == MW_TIER_NVME)
        to_nvme(b, v, target, shard);
}

/* For gradients that all ranks hold whole. */
static void
keep_whole(struct builder *b, const struct visit *v, const struct mw_unit *unit, uint32_t slot)
{
    if (!made_at_home(b, v))
        accumulate_on_gpu(b, v, slot, unit->tile_params);
    if (b->sizing->dp > 1 && last_micro_batch(b, v))
        reduce_in_place(b, v, unit);
}

/* A part that is still being reduced is accumulated later. */
static void
keep_shard(struct builder *b, const struct visit *v, const struct mw_unit *unit, uint32_t slot)
{
    if (made_at_home(b, v))
        return;
    if (b->sizing->dp == 1) {
        accumulate_on_gpu(b, v, slot, unit->shard_params);
        return;
    }
    b->reduced_slot = reduce_scatter(b, v, unit, slot);
    b->reduced_visit = v - b->visits;
}

static void
send_shard(struct builder *b, const struct visit *v, const struct mw_unit *unit, uint32_t slot)
{
    if (b->sizing->dp > 1)
        slot = reduce_scatter(b, v, unit, slot);
    to_host(b, v, slot, b->sizing->element_bytes * mw_sizing_carried_params(b->sizing, unit),
            mw_sizing_owners_broadcast(b->sizing));
}

void
mw_gradient_leave(struct builder *b, const struct visit *v, uint32_t slot)
{
    const struct mw_unit *unit = &b->sizing->classes[v->class_].units[v->unit];

    if (v->gradient_stays)
        return;
    mw_gradient_flush(b);
    if (!b->sizing->gradients_partitioned)
        keep_whole(b, v, unit, slot);
    else if (lives_on_gpu(b, v))
        keep_shard(b, v, unit, slot);
    else
        send_shard(b, v, unit, slot);
}
