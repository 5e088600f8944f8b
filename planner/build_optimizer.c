/*
 * The optimizer step, in chunks: read state | update | write state and 16-bit parameters,
 * pipelined over a few buffer sets (ZeRO-Infinity Sec. 5.2.2).  It starts when the norm of all
 * gradients is known.  With delayed parameter update (ZeRO-Offload Sec. 5.2) the host updates with
 * the gradients of the step before while the GPU computes, and the parameters go back at the end.
 */
#include <glib.h>

#include "planner/build_internal.h"

static struct identity
identify(uint32_t chunk)
{
    return (struct identity){MW_PHASE_OPTIMIZER, -1, 0, 0, chunk};
}

static bool
on_host(const struct mw_chunk *chunk)
{
    return chunk->tier != MW_TIER_GPU;
}

static enum mw_tier
gradient_tier(const struct builder *b, const struct mw_chunk *chunk)
{
    return b->sizing->gradient_home[chunk->first_unit];
}

static enum mw_tier
param_tier(const struct builder *b, const struct mw_chunk *chunk)
{
    return b->sizing->param_home[chunk->first_unit];
}

/* A unit without parameters (a tied tail without a norm) has no content. */
static void
use_units(struct builder *b, const struct mw_chunk *chunk, uint32_t base, enum mw_use_mode mode)
{
    for (uint32_t u = chunk->first_unit; u < chunk->first_unit + chunk->unit_count; u++)
        if (mw_sizing_unit(b->sizing, u)->params)
            mw_build_use(b, base + u, mode);
}

/* Each rank sums its own gradients where they live, then all agree on one number. */
static uint32_t
check_norm(struct builder *b)
{
    const struct mw_sizing *s = b->sizing;
    int64_t bytes[MW_TIER_COUNT] = {0};
    uint32_t join[2] = {MW_NONE, MW_NONE};
    bool delayed = s->settings.dpu_start != MW_AUTO;

    for (uint32_t c = 0; c < s->chunk_count; c++)
        bytes[gradient_tier(b, &s->chunks[c])] += s->chunks[c].params * s->gradient_element_bytes;
    uint32_t sources[] = {b->lane_last[LANE_COMPUTE], b->lane_last[LANE_COLLECTIVE],
                          b->lane_last[LANE_D2H], b->lane_last[LANE_WRITE],
                          b->lane_last[LANE_HOST]};
    for (int host = 0; host < 2; host++) {
        int64_t sum = host ? bytes[MW_TIER_CPU] + bytes[MW_TIER_NVME] : bytes[MW_TIER_GPU];
        if (!sum)
            continue;
        join[host] = mw_build_op(b, host ? LANE_HOST : LANE_COMPUTE, mw_work_norm(b, host, sum),
                                 identify(0));
        for (size_t i = 0; !delayed && i < G_N_ELEMENTS(sources); i++)
            mw_build_after(b, sources[i]);
    }
    uint32_t last = mw_build_op(
        b, LANE_COLLECTIVE,
        mw_work_collective(b, MW_OP_ALL_REDUCE, MW_OPERATOR_OPTIMIZER, b->world_comm, 8),
        identify(0));
    mw_build_after(b, join[0]);
    mw_build_after(b, join[1]);
    return last;
}

static uint32_t
read_state(struct builder *b, const struct mw_chunk *chunk, uint32_t c)
{
    bool gradients = gradient_tier(b, chunk) == MW_TIER_NVME;
    int64_t bytes = chunk->params * (b->sizing->optimizer_element_bytes +
                                     (gradients ? b->sizing->gradient_element_bytes : 0));
    uint32_t set = mw_build_ring_next(&b->sets);

    mw_build_op(b, LANE_READ,
                mw_work_copy(b, MW_OP_NVME_READ, MW_OPERATOR_OPTIMIZER, bytes, false),
                identify(c));
    mw_build_use(b, b->state_home + c, MW_USE_READ);
    if (gradients)
        use_units(b, chunk, b->gradient_home, MW_USE_READ);
    mw_build_use(b, set, MW_USE_DEFINE);
    return set;
}

static void
write_state(struct builder *b, const struct mw_chunk *chunk, uint32_t c, uint32_t set)
{
    int64_t bytes = chunk->params * b->sizing->optimizer_element_bytes;
    bool committed = b->chunk_other[c] != MW_NONE;

    mw_build_op(b, LANE_WRITE,
                mw_work_copy(b, MW_OP_NVME_WRITE, MW_OPERATOR_OPTIMIZER, bytes, false),
                identify(c));
    mw_build_use(b, set, MW_USE_READ);
    mw_build_use(b, committed ? b->chunk_other[c] : b->state_home + c,
                 committed ? MW_USE_DEFINE : MW_USE_MODIFY);
}

/* Updated parameters travel from the host to where they live. */
static void
send_params(struct builder *b, const struct mw_chunk *chunk, uint32_t c, uint32_t slot)
{
    bool nvme = param_tier(b, chunk) == MW_TIER_NVME;
    uint32_t work = mw_work_copy(b, nvme ? MW_OP_NVME_WRITE : MW_OP_H2D, MW_OPERATOR_OPTIMIZER,
                                 2 * chunk->params, false);

    mw_build_op(b, nvme ? LANE_WRITE : LANE_H2D, work, identify(c));
    mw_build_use(b, slot, MW_USE_READ);
    use_units(b, chunk, b->param_home, MW_USE_MODIFY);
}

/* Replicated parameters: every rank updated its shard, all gather the rest. */
static void
gather_params(struct builder *b, const struct mw_chunk *chunk, uint32_t c)
{
    const struct mw_sizing *s = b->sizing;

    if (s->params_partitioned || !s->optimizer_partitioned || s->dp == 1)
        return;
    mw_build_op(b, LANE_COLLECTIVE,
                mw_work_collective(b, MW_OP_ALL_GATHER, MW_OPERATOR_OPTIMIZER, b->dp_comm,
                                   2 * chunk->params * s->dp),
                identify(c));
    use_units(b, chunk, b->param_home, MW_USE_MODIFY);
}

static void
update_chunk(struct builder *b, uint32_t c, uint32_t norm)
{
    const struct mw_chunk *chunk = &b->sizing->chunks[c];
    bool host = on_host(chunk), delayed = b->sizing->settings.dpu_start != MW_AUTO;
    bool nvme = chunk->tier == MW_TIER_NVME;
    bool sends = host && param_tier(b, chunk) != MW_TIER_CPU;
    uint32_t set = nvme ? read_state(b, chunk, c) : MW_NONE;
    uint32_t out = !sends ? MW_NONE : delayed ? b->gathers.first + c
                                              : mw_build_ring_next(&b->gathers);

    mw_build_op(b, host ? LANE_HOST : LANE_COMPUTE, mw_work_update(b, chunk->params, host),
                identify(c));
    mw_build_after(b, norm);
    mw_build_use(b, nvme ? set : b->state_home + c, MW_USE_MODIFY);
    if (gradient_tier(b, chunk) != MW_TIER_NVME)
        use_units(b, chunk, b->gradient_home, MW_USE_READ);
    if (sends)
        mw_build_use(b, out, MW_USE_DEFINE);
    else
        use_units(b, chunk, b->param_home, MW_USE_MODIFY);
    if (nvme)
        write_state(b, chunk, c, set);
    if (sends && !delayed)
        send_params(b, chunk, c, out);
    if (!delayed)
        gather_params(b, chunk, c);
}

void
mw_optimizer_step(struct builder *b)
{
    uint32_t norm = check_norm(b);

    for (uint32_t c = 0; c < b->sizing->chunk_count; c++)
        update_chunk(b, c, norm);
}

void
mw_optimizer_return(struct builder *b)
{
    for (uint32_t c = 0; c < b->sizing->chunk_count; c++) {
        const struct mw_chunk *chunk = &b->sizing->chunks[c];
        if (on_host(chunk) && param_tier(b, chunk) != MW_TIER_CPU)
            send_params(b, chunk, c, b->gathers.first + c);
        gather_params(b, chunk, c);
    }
}
