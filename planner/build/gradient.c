/*
 * Gradients leave after the backward pass of their part: reduce-scatter, D2H, accumulation, NVMe.
 * Replicated gradients (ddp, zero1) stay, and are reduced once, with the last micro-batch; or where
 * each rank's gradient is an update, its shards go to their owners then.
 *
 * If gradients are summed in fp32, backward still computes them in the type of the parameters, and
 * they are added where the sums live: so the sums have the same bits on every tier.  Layer by layer
 * a part's gradients of all micro-batches come one after the other: those that live off the GPU are
 * added there, in the same order, and the sum leaves once (L2L, arXiv 2002.05645).
 */
#include <glib.h>

#include "planner/build/internal.h"

static bool
last_micro_batch(const struct builder *b, const struct part *part)
{
    return part->visit->micro_batch == mw_sizing_micro_batches(b->sizing) - 1 ||
           mw_settings_stashes(&b->sizing->settings);
}

static uint32_t
home_of(const struct builder *b, const struct part *part)
{
    return b->gradient_home + part->number;
}

static bool
lives_on_gpu(const struct builder *b, const struct part *part)
{
    return b->sizing->gradient_home[part->number] == MW_TIER_GPU;
}

/* Whether the sum of all micro-batches comes to the gradient's home, and not each of them. */
static bool
comes_summed(const struct builder *b, const struct part *part)
{
    return mw_sizing_sums_passing(b->sizing) && !lives_on_gpu(b, part);
}

/* Whether its sum grows in host memory, and goes to its home on drives once. */
static bool
sums_on_host(const struct builder *b, const struct part *part)
{
    return b->sizing->sums_on_host && b->sizing->gradient_home[part->number] == MW_TIER_NVME;
}

/* The first part of a tensor's gradient starts the new content of where it goes. */
static enum mw_use_mode
mode_of(const struct part *part, bool first)
{
    return first && part->tile == part->tensor->tiles - 1 ? MW_USE_DEFINE : MW_USE_MODIFY;
}

static enum mw_use_mode
home_mode(const struct builder *b, const struct part *part)
{
    return mode_of(part, part->visit->micro_batch == 0 ||
                             mw_settings_stashes(&b->sizing->settings) || comes_summed(b, part) ||
                             sums_on_host(b, part));
}

/* Whether backward writes the gradient where it lives, so that there is nothing to send or to
 * add. */
static bool
made_at_home(const struct builder *b, const struct part *part)
{
    bool whole = !b->sizing->gradients_partitioned || part->tensor->ranks == 1;

    return whole && lives_on_gpu(b, part) && !b->sizing->gradients_summed;
}

/* Whether the gradient is the embedding's, which is added to that of tied logits, computed
 * earlier. */
static bool
adds_to_logits(const struct builder *b, const struct visit *v)
{
    return mw_sizing_tied(b->sizing) && v->class_ == MW_CLASS_HEAD;
}

static uint32_t
next_slot(struct builder *b, enum mw_buffer_kind kind, const struct part *part)
{
    return mw_build_ring_next(&b->slots[mw_buffer_of(kind, part->tiled)]);
}

uint32_t
mw_gradient_slot(struct builder *b, const struct part *part, enum mw_use_mode *mode)
{
    struct visit *v = part->visit;
    uint32_t begun =
        v->adds_to != MW_NONE ? b->visits[v->adds_to].gradient_slot[part->turn] : MW_NONE;
    uint32_t *slot = &v->gradient_slot[part->turn];
    bool adds = adds_to_logits(b, v), home = made_at_home(b, part);

    *mode = adds || begun != MW_NONE ? MW_USE_MODIFY : home ? home_mode(b, part) : MW_USE_DEFINE;
    if (begun != MW_NONE)
        *slot = begun;
    else if (home)
        *slot = home_of(b, part);
    else if (adds || v->tied == TIED_WEIGHT)
        *slot = b->tied_gradient + v->tile +
                (b->fetching
                     ? v->micro_batch * (uint32_t)b->sizing->classes[MW_CLASS_HEAD].tensors[0].tiles
                     : 0);
    else
        *slot = next_slot(b, MW_BUFFER_GRADIENTS_WHOLE, part);
    return *slot;
}

static struct identity
identify(const struct part *part)
{
    const struct visit *v = part->visit;

    return (struct identity){MW_PHASE_BACKWARD, v->layer, v->micro_batch, part->tile, 0};
}

static struct subject
gradients_of(const struct builder *b, const struct part *part)
{
    return (struct subject){MW_OBJECT_GRADIENTS,
                            mw_sizing_tensor_operator(b->sizing, part->number)};
}

/* Sums up a shard over the groups that hold replicas of it, where it lies on the GPU: the second
 * hop of hybrid sharding (PyTorch FSDP, arXiv 2304.11277, Sec. 3.2.2; MiCS, arXiv 2205.00119). */
static void
sum_replicas(struct builder *b, const struct part *part, uint32_t slot, int64_t element_bytes)
{
    if (b->sizing->replicas == 1)
        return;
    uint32_t work = mw_work_collective(b, MW_OP_ALL_REDUCE, gradients_of(b, part), b->rp_comm,
                                       mw_sizing_reduced_bytes(b->sizing, element_bytes) *
                                           part->tensor->shard_params);

    mw_build_op(b, LANE_REPLICAS, work, identify(part));
    mw_build_use(b, slot, MW_USE_MODIFY, MW_ROLE_GRADIENT);
}

static void
reduce_in_place(struct builder *b, const struct part *part)
{
    bool each = mw_settings_asynchronous(&b->sizing->settings);
    enum mw_op_kind kind = each                               ? MW_OP_ALL_TO_ALL
                           : b->sizing->optimizer_partitioned ? MW_OP_REDUCE_SCATTER
                                                              : MW_OP_ALL_REDUCE;
    int64_t element_bytes = b->sizing->gradient_element_bytes;
    uint32_t work = mw_work_collective(
        b, kind, gradients_of(b, part), mw_build_replicas(b, part->tensor->ranks),
        (each ? element_bytes : mw_sizing_reduced_bytes(b->sizing, element_bytes)) *
            part->tensor->tile_params);

    mw_build_op(b, LANE_COLLECTIVE, work, identify(part));
    mw_build_use(b, home_of(b, part), MW_USE_MODIFY, MW_ROLE_GRADIENT);
    sum_replicas(b, part, home_of(b, part), b->sizing->gradient_element_bytes);
}

/* Reduces into a slot of this rank's shard on the GPU: its home if nothing is added up. */
static uint32_t
reduce_scatter(struct builder *b, const struct part *part, uint32_t slot)
{
    bool arrives = lives_on_gpu(b, part) && !b->sizing->gradients_summed;
    uint32_t work = mw_work_collective(
        b, MW_OP_REDUCE_SCATTER, gradients_of(b, part), mw_build_replicas(b, part->tensor->ranks),
        mw_sizing_reduced_bytes(b->sizing, b->sizing->element_bytes) * part->tensor->tile_params);
    uint32_t target = arrives ? home_of(b, part) : next_slot(b, MW_BUFFER_GRADIENTS_SHARD, part);

    mw_build_op(b, LANE_COLLECTIVE, work, identify(part));
    mw_build_use(b, slot, MW_USE_READ, MW_ROLE_SOURCE);
    mw_build_use(b, target, arrives ? home_mode(b, part) : MW_USE_DEFINE, MW_ROLE_DESTINATION);
    /* Sums that grow in host memory do not come back: each micro-batch's shards are summed up. */
    if (arrives || !(lives_on_gpu(b, part) || comes_summed(b, part)))
        sum_replicas(b, part, target, b->sizing->element_bytes);
    return arrives ? MW_NONE : target;
}

/* The first micro-batch reads an element and writes a sum; later ones also read the sum. */
static uint32_t
work_accumulate(struct builder *b, const struct part *part, bool host, int64_t params)
{
    int64_t passes = part->visit->micro_batch > 0 ? 2 : 1;
    int64_t element_bytes = b->sizing->element_bytes + passes * b->sizing->sum_element_bytes;

    return mw_work_accumulate(b, mw_sizing_tensor_operator(b->sizing, part->number), host,
                              element_bytes * params, params);
}

static void
accumulate(struct builder *b, const struct part *part, uint32_t pinned, int64_t params)
{
    bool nvme = b->sizing->gradient_home[part->number] == MW_TIER_NVME;
    bool adds = part->visit->micro_batch > 0, apart = sums_on_host(b, part);

    if (nvme && adds && !apart) {
        mw_build_op(b, LANE_READ,
                    mw_work_copy(b, MW_OP_NVME_READ, gradients_of(b, part), 4 * params, false),
                    identify(part));
        mw_build_use(b, home_of(b, part), MW_USE_READ, MW_ROLE_SOURCE);
        mw_build_use(b, pinned, MW_USE_MODIFY, MW_ROLE_DESTINATION);
    }
    mw_build_op(b, LANE_HOST, work_accumulate(b, part, true, params), identify(part));
    mw_build_use(b, pinned, MW_USE_MODIFY, MW_ROLE_GRADIENT);
    if (apart)
        mw_build_use(b, b->sum_home + part->number, mode_of(part, !adds), MW_ROLE_SUM);
    else if (!nvme)
        mw_build_use(b, home_of(b, part), home_mode(b, part), MW_ROLE_SUM);
}

/* Writes a gradient to the drives from a slot in host memory, after its part of the norm has been
 * computed: otherwise it would have to be read back for that. */
static void
to_nvme(struct builder *b, const struct part *part, uint32_t pinned, int64_t params)
{
    struct subject gradients = gradients_of(b, part);
    int64_t bytes = b->sizing->gradient_element_bytes * params;

    if (last_micro_batch(b, part) && !mw_settings_update_beside(&b->sizing->settings)) {
        mw_build_op(b, LANE_HOST, mw_work_norm(b, gradients, true, params), identify(part));
        mw_build_use(b, pinned, MW_USE_READ, MW_ROLE_GRADIENT);
        /* Each part adds to the norm in one place, where a delayed update finds the previous
         * step's. */
        mw_build_after(b, b->norm_agreed);
    }
    mw_build_op(b, LANE_WRITE, mw_work_copy(b, MW_OP_NVME_WRITE, gradients, bytes, false),
                identify(part));
    mw_build_use(b, pinned, MW_USE_READ, MW_ROLE_SOURCE);
    mw_build_use(b, home_of(b, part), home_mode(b, part), MW_ROLE_DESTINATION);
}

/* A gradient of one micro-batch, or the sum of all. */
static void
to_host(struct builder *b, const struct part *part, uint32_t slot)
{
    enum mw_tier tier = b->sizing->gradient_home[part->number];
    bool summed = comes_summed(b, part), sums = b->sizing->gradients_summed && !summed;
    bool direct = tier == MW_TIER_CPU && !sums;
    int64_t shard = part->tensor->shard_params;
    int64_t bytes = (summed ? b->sizing->gradient_element_bytes : b->sizing->element_bytes) *
                    mw_sizing_carried_params(b->sizing, part->tensor);
    uint32_t target = direct ? home_of(b, part) : next_slot(b, MW_BUFFER_GRADIENTS_PINNED, part);

    mw_build_op(b, LANE_D2H,
                mw_work_copy(b, MW_OP_D2H, gradients_of(b, part), bytes,
                             mw_sizing_owners_broadcast(b->sizing)),
                identify(part));
    mw_build_use(b, slot, MW_USE_READ, MW_ROLE_SOURCE);
    mw_build_use(b, target, direct ? home_mode(b, part) : MW_USE_DEFINE, MW_ROLE_DESTINATION);
    if (sums)
        accumulate(b, part, target, shard);
    if (tier == MW_TIER_NVME && !sums_on_host(b, part))
        to_nvme(b, part, target, shard);
    else if (tier == MW_TIER_NVME && last_micro_batch(b, part))
        to_nvme(b, part, b->sum_home + part->number, shard);
}

/* Where the sum of a part grows until it leaves: each micro-batch adds to what the first began. */
static uint32_t
passing_sum(struct builder *b, const struct part *part)
{
    if (!b->passing_sum) {
        b->passing_tiles = 1;
        for (int c = 0; c < MW_CLASS_COUNT; c++)
            for (int t = 0; t < b->sizing->classes[c].tensor_count; t++)
                b->passing_tiles =
                    MAX(b->passing_tiles, (uint32_t)b->sizing->classes[c].tensors[t].tiles);
        b->passing_sum = g_new(uint32_t, (size_t)b->sizing->tensor_count * b->passing_tiles);
    }
    uint32_t *sum = &b->passing_sum[(size_t)part->number * b->passing_tiles + part->tile];
    if (part->visit->micro_batch == 0)
        *sum = next_slot(b, MW_BUFFER_GRADIENTS_SUMMED, part);
    return *sum;
}

static void
accumulate_on_gpu(struct builder *b, const struct part *part, uint32_t slot, int64_t params)
{
    bool passing = comes_summed(b, part);
    uint32_t sum = passing ? passing_sum(b, part) : home_of(b, part);
    enum mw_use_mode mode = !passing                        ? home_mode(b, part)
                            : part->visit->micro_batch == 0 ? MW_USE_DEFINE
                                                            : MW_USE_MODIFY;

    mw_build_op(b, LANE_COMPUTE, work_accumulate(b, part, false, params), identify(part));
    mw_build_use(b, slot, MW_USE_READ, MW_ROLE_GRADIENT);
    mw_build_use(b, sum, mode, MW_ROLE_SUM);
    if (b->sizing->gradients_partitioned && last_micro_batch(b, part))
        sum_replicas(b, part, sum, b->sizing->gradient_element_bytes);
    if (passing && last_micro_batch(b, part))
        to_host(b, part, sum);
}

/* Compute continues while a part is reduced: a part is accumulated when the next one has been
 * computed. */
void
mw_gradient_flush(struct builder *b)
{
    if (b->reduced_slot == MW_NONE)
        return;
    accumulate_on_gpu(b, &b->reduced, b->reduced_slot, b->reduced.tensor->shard_params);
    b->reduced_slot = MW_NONE;
}

/* For gradients that all ranks hold whole. */
static void
keep_whole(struct builder *b, const struct part *part, uint32_t slot)
{
    bool copied = part->number == mw_sizing_copied_tensor(b->sizing);

    if (!made_at_home(b, part))
        accumulate_on_gpu(b, part, slot, part->tensor->tile_params);
    if (part->tensor->ranks > 1 && last_micro_batch(b, part) && !b->sizing->reduced_at_end &&
        !copied)
        reduce_in_place(b, part);
}

/* Adds it up on the GPU.  A part that is still being reduced is accumulated later. */
static void
keep_shard(struct builder *b, const struct part *part, uint32_t slot)
{
    if (made_at_home(b, part))
        return;
    if (part->tensor->ranks == 1) {
        accumulate_on_gpu(b, part, slot, part->tensor->shard_params);
        return;
    }
    b->reduced_slot = reduce_scatter(b, part, slot);
    b->reduced = *part;
}

void
mw_gradient_leave(struct builder *b, const struct part *part, uint32_t slot)
{
    if (part->visit->gradient_stays)
        return;
    mw_gradient_flush(b);
    if (!b->sizing->gradients_partitioned)
        keep_whole(b, part, slot);
    else if (lives_on_gpu(b, part) || comes_summed(b, part))
        keep_shard(b, part, slot);
    else
        to_host(b, part, part->tensor->ranks > 1 ? reduce_scatter(b, part, slot) : slot);
}

/* A visit that stands for all parts of the tensor whose gradient the copies sum up. */
static struct part
part_of_copies(struct builder *b, struct visit *visit, uint32_t number)
{
    int32_t layer;
    int index;
    enum mw_class class = mw_sizing_locate(b->sizing, number, &layer, &index);

    *visit = (struct visit){.phase = MW_PHASE_BACKWARD,
                            .class_ = class,
                            .layer = layer,
                            .micro_batch = (uint16_t)(mw_sizing_micro_batches(b->sizing) - 1)};
    return (struct part){
        .visit = visit, .tensor = &b->sizing->classes[class].tensors[index], .number = number};
}

/* Once per step, behind backward: before the data-parallel ranks reduce it, as shards of the copies
 * are of other elements (Megatron-LM's distributed optimizer has this order; its plain one the
 * other, which takes as long). */
void
mw_gradient_sum_copies(struct builder *b)
{
    uint32_t number = mw_sizing_copied_tensor(b->sizing);
    struct visit visit;

    if (number == MW_NONE || b->sizing->settings.forward_only)
        return;
    struct part part = part_of_copies(b, &visit, number);
    uint32_t work =
        mw_work_collective(b, MW_OP_ALL_REDUCE, gradients_of(b, &part), b->copies_comm,
                           mw_sizing_reduced_bytes(b->sizing, b->sizing->gradient_element_bytes) *
                               b->sizing->copied_params);
    mw_build_op(b, LANE_COLLECTIVE, work, identify(&part));
    mw_build_use(b, home_of(b, &part), MW_USE_MODIFY, MW_ROLE_GRADIENT);
    bool reduces = b->sizing->shards > 1 && !b->sizing->reduced_at_end;
    for (part.tile = 0; reduces && part.tile < part.tensor->tiles; part.tile++)
        reduce_in_place(b, &part);
}

/* All gradients in one collective that waits for the end of backward (huggingface/nanotron,
 * optim/gradient_accumulator.py, sync_gradients_across_dp).  What reads them waits for it; it names
 * no home, as there may be more than an op has uses. */
void
mw_gradient_reduce_all(struct builder *b)
{
    const struct mw_sizing *s = b->sizing;
    struct subject gradients = {MW_OBJECT_GRADIENTS, MW_OPERATOR_NONE};

    if (!s->reduced_at_end)
        return;
    uint32_t computed = b->lane_last[LANE_COMPUTE], before = b->lane_last[LANE_COLLECTIVE];
    int64_t element_bytes = mw_sizing_reduced_bytes(s, s->gradient_element_bytes);
    uint32_t work = mw_work_collective(b, MW_OP_ALL_REDUCE, gradients, b->dp_comm,
                                       element_bytes * (s->trained_params - s->spread_params));
    b->reduced_all =
        mw_build_op(b, LANE_COLLECTIVE, work, (struct identity){MW_PHASE_BACKWARD, -1, 0, 0, 0});
    mw_build_after(b, computed);
    if (mw_sizing_copied_tensor(s) != MW_NONE) /* the copies' sum */
        mw_build_after(b, before);
    if (!s->spread_params || s->dp == s->spread)
        return;
    work = mw_work_collective(b, MW_OP_ALL_REDUCE, gradients, b->replicas_comm,
                              element_bytes * s->spread_params);
    b->reduced_all =
        mw_build_op(b, LANE_COLLECTIVE, work, (struct identity){MW_PHASE_BACKWARD, -1, 0, 1, 0});
}
