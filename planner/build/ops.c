/* Ops and their edges: every op names the slots that it uses, and gets an edge for every hazard
 * that its lane does not order already. */
#include <glib.h>

#include "planner/build/internal.h"

/* No rank goes on from a commit before all have come to it. */
static bool
is_met(enum mw_op_kind kind)
{
    enum mw_joins joins = mw_op_traits(kind)->joins;

    return joins == MW_JOINS_ALL || joins == MW_JOINS_GROUP;
}

/* Members of a group meet in the same op of their programs; sibling groups in different ones.  Each
 * number has two members at least, so that numbers stay below the number of ops. */
static uint32_t
next_match(struct builder *b, uint32_t comm)
{
    const struct mw_sizing *s = b->sizing;
    uint32_t groups = comm == b->dp_comm ? s->tp : comm == b->tp_comm ? s->dp : 1;
    uint32_t group = comm == b->dp_comm   ? b->rank % s->tp
                     : comm == b->tp_comm ? b->rank / s->tp
                                          : 0;

    if (b->plan->program_count == 1 ||
        (comm != MW_NONE && mw_plan_comm_shape(b->plan, comm).size == 1))
        return MW_NONE;
    b->match_count += groups;
    return b->match_count - groups + group;
}

uint32_t
mw_build_op(struct builder *b, int lane, uint32_t work, struct identity id)
{
    const struct mw_work *done = &b->plan->works[work];
    struct mw_op op = {.work = work,
                       .lane = b->lane_base + lane,
                       .phase = id.phase,
                       .layer = id.layer,
                       .micro_batch = id.micro_batch,
                       .tile = id.tile,
                       .shard = id.shard,
                       .match = MW_NONE};

    if (is_met(done->kind))
        op.match = next_match(b, done->comm);
    uint32_t index = mw_plan_add_op(b->plan, op);
    if (b->lane_last[lane] == MW_NONE)
        mw_plan_add_dep(b->plan, b->begin_op);
    if (b->chain)
        mw_plan_add_dep(b->plan, b->newest);
    b->lane_last[lane] = index;
    b->newest = index;
    return index;
}

void
mw_build_after(struct builder *b, uint32_t op)
{
    const struct mw_op *ops = b->plan->ops;

    if (op == MW_NONE || op == b->newest)
        return;
    /* An earlier op of a lane with room for one is done anyway. */
    uint32_t lane = ops[b->newest].lane;
    if (ops[op].lane != lane || b->plan->lanes[lane].window_ops > 1)
        mw_plan_add_dep(b->plan, op);
}

static struct slot_state *
slot_state(struct builder *b, uint32_t slot)
{
    return &b->states[slot];
}

void
mw_build_use(struct builder *b, uint32_t slot, enum mw_use_mode mode, enum mw_role role)
{
    struct slot_state *state = slot_state(b, slot);
    int lane = b->plan->ops[b->newest].lane - b->lane_base;

    mw_plan_add_use(b->plan, slot, mode, role);
    mw_build_after(b, state->writer);
    if (mode == MW_USE_READ) {
        state->readers[lane] = b->newest;
        return;
    }
    for (int l = 0; l < LANES_PER_RANK; l++) {
        mw_build_after(b, state->readers[l]);
        state->readers[l] = MW_NONE;
    }
    state->writer = b->newest;
}

uint32_t
mw_build_ring_next(struct ring *ring)
{
    g_assert(ring->count);
    return ring->first + ring->next++ % ring->count;
}
