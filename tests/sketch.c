#include <string.h>

#include "tests/comm_along.h"
#include "tests/sketch_internal.h"

static uint32_t
number(GRand *random, uint32_t from, uint32_t to)
{
    return (uint32_t)g_rand_int_range(random, (gint32)from, (gint32)to + 1);
}

static void
add_rank(struct sketch *sketch, GRand *random, uint32_t rank)
{
    uint32_t lanes = number(random, 1, 4), slots = number(random, 1, 6);
    int64_t offset[MW_TIER_COUNT] = {0};

    sketch->lanes[sketch->lane_count++] = (struct mw_lane){
        .program = rank, .kind = MW_LANE_COLLECTIVE, .window_ops = number(random, 0, 3) ? 1 : 2};
    for (uint32_t i = 0; i < lanes; i++)
        sketch->lanes[sketch->lane_count++] =
            (struct mw_lane){.program = rank,
                             .kind = MW_LANE_COMPUTE,
                             .index = (uint8_t)i,
                             .window_ops = number(random, 0, 1) ? 1 : number(random, 2, 4),
                             .window_bytes = number(random, 0, 3) ? 0 : 64};
    for (uint32_t i = 0; i < slots; i++) {
        struct mw_slot slot = {.program = rank,
                               .tier = (uint8_t)number(random, 0, MW_TIER_COUNT - 1),
                               .purpose = (uint8_t)number(random, 0, MW_PURPOSE_COUNT - 1),
                               .persistent = number(random, 0, 2) == 0};

        slot.size_bytes = number(random, 1, 1000);
        slot.offset_bytes = offset[slot.tier] + (number(random, 0, 2) ? 0 : number(random, 0, 9));
        offset[slot.tier] = slot.offset_bytes + slot.size_bytes;
        if (offset[slot.tier] > sketch->tiers[slot.tier].capacity_bytes)
            sketch->tiers[slot.tier].capacity_bytes = offset[slot.tier];
        sketch->slots[sketch->slot_count++] = slot;
    }
}

static void
add_dep(struct sketch_op *op, uint32_t dep)
{
    for (uint32_t i = 0; i < op->dep_count; i++)
        if (op->deps[i] == dep)
            return;
    g_assert_cmpuint(op->dep_count, <, SKETCH_MAX_DEPS);
    op->deps[op->dep_count++] = dep;
}

static bool
is_defined(const struct sketch *sketch, uint32_t before, uint32_t slot)
{
    for (uint32_t i = 0; i < before; i++)
        if (sketch_mode_of(&sketch->ops[i], slot) == MW_USE_DEFINE)
            return true;
    return sketch->slots[slot].persistent;
}

static void
add_uses(struct sketch *sketch, GRand *random, uint32_t index)
{
    struct sketch_op *op = &sketch->ops[index];
    uint32_t wanted = number(random, 0, SKETCH_MAX_USES);

    for (uint32_t i = 0; i < wanted; i++) {
        uint32_t slot = number(random, 0, sketch->slot_count - 1);
        uint8_t mode = (uint8_t)number(random, 0, MW_USE_MODE_COUNT - 1);

        if (sketch->slots[slot].program != sketch_rank_of(sketch, index) ||
            sketch_mode_of(op, slot) >= 0)
            continue;
        if (!is_defined(sketch, index, slot))
            mode = MW_USE_DEFINE;
        op->uses[op->use_count++] = (struct mw_use){.slot = slot, .mode = mode};
    }
}

/* Makes `later` wait for `earlier`, if it does not yet; keeps `done` up to date. */
static void
require(struct sketch *sketch, struct sketch_set *done, uint32_t earlier, uint32_t later,
        uint32_t distance)
{
    if (done[later].step[!distance] & sketch_bit(earlier))
        return;
    add_dep(&sketch->ops[later], earlier | distance);
    sketch_close(sketch, done);
}

static bool
share_a_slot(const struct sketch_op *a, const struct sketch_op *b)
{
    for (uint32_t i = 0; i < b->use_count; i++)
        if (sketch_conflict(sketch_mode_of(a, b->uses[i].slot), b->uses[i].mode))
            return true;
    return false;
}

/* The latest first, as they may wait for the others. */
static void
order_uses(struct sketch *sketch, uint32_t index)
{
    struct sketch_set done[SKETCH_MAX_OPS];

    sketch_close(sketch, done);
    for (uint32_t earlier = index; earlier-- > 0;)
        if (share_a_slot(&sketch->ops[earlier], &sketch->ops[index]))
            require(sketch, done, earlier, index, 0);
}

static uint32_t
add_op(struct sketch *sketch, GRand *random, uint32_t lane, uint32_t work, uint32_t match)
{
    uint32_t index = sketch->op_count++;
    struct sketch_op *op = &sketch->ops[index];

    op->lane = lane;
    op->work = work;
    op->match = match;
    for (uint32_t i = number(random, 0, 2); i > 0 && index; i--) {
        uint32_t dep = number(random, 0, index - 1);
        if (sketch_rank_of(sketch, dep) == sketch_rank_of(sketch, index))
            add_dep(op, dep);
    }
    if (work != SKETCH_WORK_COMMIT)
        add_uses(sketch, random, index);
    order_uses(sketch, index);
    return index;
}

/* One op on each rank's first lane. */
static void
add_match(struct sketch *sketch, GRand *random, uint32_t work, uint32_t match)
{
    for (uint32_t lane = 0; lane < sketch->lane_count; lane++)
        if (sketch->lanes[lane].kind == MW_LANE_COLLECTIVE)
            add_op(sketch, random, lane, work, match);
}

static void
add_commit(struct sketch *sketch, GRand *random)
{
    struct sketch_set done[SKETCH_MAX_OPS];
    uint32_t first = sketch->op_count;

    add_match(sketch, random, SKETCH_WORK_COMMIT, sketch->ranks > 1 ? SKETCH_MAX_OPS : MW_NONE);
    sketch_close(sketch, done);
    for (uint32_t commit = first; commit < sketch->op_count; commit++)
        for (uint32_t i = first; i-- > 0;)
            if (sketch_rank_of(sketch, i) == sketch_rank_of(sketch, commit))
                require(sketch, done, i, commit, 0);
    for (uint32_t commit = first; commit < sketch->op_count; commit++)
        for (uint32_t i = 0; i < first; i++)
            if (sketch_rank_of(sketch, i) == sketch_rank_of(sketch, commit))
                require(sketch, done, commit, i, MW_DEP_PREVIOUS_STEP);
}

/* Over the end of the step. */
static void
order_steps(struct sketch *sketch)
{
    struct sketch_set done[SKETCH_MAX_OPS];

    sketch_close(sketch, done);
    for (uint32_t a = sketch->op_count; a-- > 0;)
        for (uint32_t b = 0; b < sketch->op_count; b++)
            if (share_a_slot(&sketch->ops[a], &sketch->ops[b]))
                require(sketch, done, a, b, MW_DEP_PREVIOUS_STEP);
}

void
sketch_random(struct sketch *sketch, GRand *random, bool barriered)
{
    uint32_t wanted;

    memset(sketch, 0, sizeof *sketch);
    sketch->ranks = number(random, 1, SKETCH_MAX_RANKS);
    for (uint32_t rank = 0; rank < sketch->ranks; rank++)
        add_rank(sketch, random, rank);
    for (int i = 0; i < MW_TIER_COUNT; i++)
        sketch->tiers[i].largest_request_bytes = sketch->tiers[i].capacity_bytes;
    wanted = number(random, 1, 40);
    for (uint32_t match = 0; sketch->op_count < wanted; match++)
        if (number(random, 0, 4))
            add_op(sketch, random, number(random, 0, sketch->lane_count - 1), SKETCH_WORK_COMPUTE,
                   MW_NONE);
        else
            add_match(sketch, random, SKETCH_WORK_GATHER, sketch->ranks > 1 ? match : MW_NONE);
    if (barriered)
        add_commit(sketch, random);
    else
        order_steps(sketch);
}

/* Plans. */

static void
add_works(struct mw_plan *plan, uint32_t comm)
{
    static const struct mw_work compute = {.kind = MW_OP_COMPUTE, .comm = MW_NONE, .bytes = 24};
    static const struct mw_work commit = {.kind = MW_OP_COMMIT, .comm = MW_NONE};
    struct mw_work gather = {.kind = MW_OP_ALL_GATHER, .comm = comm, .bytes = 8};
    struct mw_draw draw = {.channel = 0, .ranks = 1, .amount = 24};

    mw_plan_add_work(plan, compute, &draw, 1);
    mw_plan_add_work(plan, gather, NULL, 0);
    mw_plan_add_work(plan, commit, NULL, 0);
}

struct mw_plan *
sketch_build(const struct sketch *sketch)
{
    struct mw_plan *plan = mw_plan_new("a random plan");

    mw_plan_set_world(plan, sketch->ranks, 1, false);
    memcpy(plan->tiers, sketch->tiers, sizeof plan->tiers);
    mw_plan_add_channel(plan, (struct mw_channel){.kind = MW_CHANNEL_SM, .users = 1});
    add_works(plan, mw_plan_add_comm(plan, comm_along(sketch->ranks, 1)));
    for (uint32_t i = 0; i < sketch->lane_count; i++)
        mw_plan_add_lane(plan, sketch->lanes[i]);
    for (uint32_t i = 0; i < sketch->slot_count; i++)
        mw_plan_add_slot(plan, sketch->slots[i]);
    for (uint32_t i = 0; i < sketch->op_count; i++) {
        const struct sketch_op *op = &sketch->ops[i];

        mw_plan_add_op(plan, (struct mw_op){.work = op->work,
                                            .lane = (uint16_t)op->lane,
                                            .match = op->match,
                                            .layer = (int32_t)i - 1,
                                            .shard = i});
        for (uint32_t j = 0; j < op->dep_count; j++)
            mw_plan_add_dep(plan, op->deps[j]);
        for (uint32_t j = 0; j < op->use_count; j++)
            mw_plan_add_use(plan, op->uses[j].slot, op->uses[j].mode, MW_ROLE_NONE);
    }
    return plan;
}
