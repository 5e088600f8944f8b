/* Ops and their edges: every op names the slots that it uses, and gets an edge for every hazard
 * that its lane does not order already. */
#include <glib.h>

#include "planner/build/internal.h"

/* No rank passes a commit before all ranks have reached it. */
static bool
is_met(enum mw_op_kind kind)
{
    enum mw_joins joins = mw_op_traits(kind)->joins;

    return joins == MW_JOINS_ALL || joins == MW_JOINS_GROUP;
}

/* The number of a meeting of programs: the n-th along an axis, in the group that begins with rank
 * `base`.  Each has at least two members, so numbers stay below the number of ops. */
static uint32_t
number_of(struct builder *b, int axis, uint32_t base, uint32_t n)
{
    uint64_t place = ((uint64_t)axis << 60) | ((uint64_t)base << 32) | n;
    gpointer number;

    if (g_hash_table_lookup_extended(b->matches, &place, NULL, &number))
        return GPOINTER_TO_UINT(number);
    number = GUINT_TO_POINTER(g_hash_table_size(b->matches));
    g_hash_table_insert(b->matches, g_memdup2(&place, sizeof place), number);
    return GPOINTER_TO_UINT(number);
}

/* Bases are multiples of a stage's ranks, and places count from 0: the upper bits of a product tell
 * them apart. */
guint
mw_build_hash_place(gconstpointer place)
{
    uint64_t mixed = *(const uint64_t *)place * UINT64_C(0x9e3779b97f4a7c15);

    return (guint)(mixed >> 32);
}

static bool
is_within_program(const struct builder *b, const struct mw_members *group)
{
    const struct mw_members *ranks = &b->plan->programs[b->program].ranks;

    for (uint32_t i = 0; i < mw_members_count(group); i++)
        if (!mw_members_have(ranks, mw_members_at(group, i)))
            return false;
    return true;
}

static struct met_group
find_group(const struct builder *b, uint32_t comm)
{
    struct mw_members group = mw_comm_group(&b->plan->comms[comm], b->rank);

    return (struct met_group){true, is_within_program(b, &group), group.base};
}

static struct met_group
group_of(struct builder *b, uint32_t comm)
{
    if (comm >= MET_GROUPS)
        return find_group(b, comm);
    if (!b->groups[comm].known)
        b->groups[comm] = find_group(b, comm);
    return b->groups[comm];
}

/* The number of the next collective of a group, or of all ranks. */
static uint32_t
next_match(struct builder *b, uint32_t comm)
{
    bool all = comm == MW_NONE || comm == b->world_comm;
    int axis = all                        ? MET_BY_ALL
               : comm == b->copies_comm   ? MET_BY_COPIES
               : comm == b->rp_comm       ? MW_AXIS_RP
               : comm == b->cp_comm       ? MW_AXIS_CP
               : comm == b->ep_comm       ? MW_AXIS_EP
               : comm == b->replicas_comm ? MET_BY_REPLICAS
               : comm == b->tp_comm       ? MW_AXIS_TP
                                          : MW_AXIS_DP;

    if (b->plan->program_count == 1)
        return MW_NONE;
    if (all)
        return number_of(b, axis, 0, b->met[axis]++);
    struct met_group group = group_of(b, comm);
    if (group.within_program)
        return MW_NONE;
    return number_of(b, axis, group.base, b->met[axis]++);
}

/* A boundary between stages is identified by the rank before it, and the stretch that ends there:
 * `layer` of the model is the first or the last one on this side. */
static uint32_t
hop_match(struct builder *b, const struct mw_work *work, uint32_t micro_batch, int64_t layer)
{
    bool forward = work->hop > 0, before = forward == (work->kind == MW_OP_SEND);
    uint32_t front = before ? b->rank : mw_work_peer(b->plan, work, b->rank);
    int64_t stretch = (layer - !before) * b->sizing->stretches / b->sizing->model->layers;

    return number_of(b, MW_AXIS_PP, front,
                     (uint32_t)((2 * micro_batch + !forward) * b->sizing->stretches + stretch));
}

uint32_t
mw_build_micro_batch(const struct builder *b, uint32_t n)
{
    return b->turn.index + b->turn.count * n;
}

/* What is not of a micro-batch has number 0. */
static uint32_t
micro_batch_of(const struct builder *b, enum mw_op_kind kind, struct identity id)
{
    bool passes = id.phase < MW_PHASE_OPTIMIZER && kind != MW_OP_BEGIN;
    bool own =
        passes || (id.phase == MW_PHASE_OPTIMIZER && mw_settings_stashes(&b->sizing->settings));

    return own ? mw_build_micro_batch(b, id.micro_batch) : id.micro_batch;
}

uint32_t
mw_build_op(struct builder *b, int lane, uint32_t work, struct identity id)
{
    const struct mw_work *done = &b->plan->works[work];
    struct mw_op op = {.work = work,
                       .lane = b->lanes[lane],
                       .phase = id.phase,
                       .layer =
                           id.layer < 0 ? -1 : (int32_t)mw_sizing_model_layer(b->sizing, id.layer),
                       .micro_batch = (uint16_t)micro_batch_of(b, done->kind, id),
                       .tile = id.tile,
                       .shard = id.shard,
                       .match = MW_NONE};

    bool alone = done->kind == MW_OP_COMMIT && mw_settings_no_flush(&b->sizing->settings);
    if (is_met(done->kind) && !alone)
        op.match = next_match(b, done->comm);
    else if (mw_op_traits(done->kind)->joins == MW_JOINS_PAIR)
        op.match = hop_match(b, done, op.micro_batch, op.layer);
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
    /* In a lane with room for one op, earlier ops are done anyway. */
    uint32_t lane = ops[b->newest].lane;
    if (ops[op].lane != lane || b->plan->lanes[lane].window_ops > 1)
        mw_plan_add_dep(b->plan, op);
}

static struct slot_state *
slot_state(struct builder *b, uint32_t slot)
{
    return &b->states[slot];
}

/* Whether the newest op waits for a later op of the lane, and so for this one. */
static bool
follows(const struct builder *b, uint32_t op)
{
    const struct mw_plan *plan = b->plan;
    const struct mw_op *newest = &plan->ops[b->newest];

    for (uint32_t d = newest->dep_begin; d < newest->dep_begin + newest->dep_count; d++)
        if (!(plan->deps[d] & MW_DEP_PREVIOUS_STEP) && plan->deps[d] >= op &&
            plan->ops[plan->deps[d]].lane == plan->ops[op].lane)
            return plan->lanes[plan->ops[op].lane].window_ops == 1;
    return false;
}

/* What was used before the slot's last content came before that one, and so before the next. */
static void
after_other(struct builder *b, uint32_t op, uint32_t last)
{
    if (op != MW_NONE && (last == MW_NONE || op > last) && !follows(b, op))
        mw_build_after(b, op);
}

/* A new content comes after all users of what lies in its bytes. */
static void
after_overlapped(struct builder *b, uint32_t slot)
{
    uint32_t last = slot_state(b, slot)->writer;

    for (uint32_t i = b->overlap_begin[slot]; i < b->overlap_begin[slot + 1]; i++) {
        const struct slot_state *other = slot_state(b, b->overlaps[i]);
        for (int l = 0; l < LANES_PER_RANK; l++)
            after_other(b, other->readers[l], last);
        after_other(b, other->writer, last);
    }
}

void
mw_build_use(struct builder *b, uint32_t slot, enum mw_use_mode mode, enum mw_role role)
{
    struct slot_state *state = slot_state(b, slot);
    int lane = b->lane_of[b->plan->ops[b->newest].lane];

    mw_plan_add_use(b->plan, slot, mode, role);
    mw_build_after(b, state->writer);
    if (mode == MW_USE_READ) {
        state->readers[lane] = b->newest;
        state->read_by |= 1u << lane;
        return;
    }
    for (; state->read_by; state->read_by &= state->read_by - 1) {
        uint32_t *reader = &state->readers[__builtin_ctz(state->read_by)];
        mw_build_after(b, *reader);
        *reader = MW_NONE;
    }
    if (mode == MW_USE_DEFINE)
        after_overlapped(b, slot);
    state->writer = b->newest;
}

uint32_t
mw_build_ring_next(struct ring *ring)
{
    g_assert(ring->count);
    return ring->first + ring->next++ % ring->count;
}
