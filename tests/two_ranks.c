#include "tests/two_ranks.h"

#include "tests/comm_along.h"

static void
add_tables(struct mw_plan *plan)
{
    static const struct mw_draw draws[] = {{0, 1, 100}};

    mw_plan_set_world(plan, 2, 2, false);
    plan->tiers[MW_TIER_GPU] = (struct mw_tier_info){1000, 24, 400};
    mw_plan_add_comm(plan, comm_along(2, 1));
    mw_plan_add_channel(plan, (struct mw_channel){MW_CHANNEL_DRIVE, 0, 1});
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_NVME_READ, .comm = MW_NONE, .bytes = 100},
                     draws, 1);
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_COMPUTE, .comm = MW_NONE}, NULL, 0);
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_ALL_GATHER}, NULL, 0);
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_COMMIT, .comm = MW_NONE}, NULL, 0);
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_SEND}, NULL, 0);
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_RECV}, NULL, 0);
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_ALL_GATHER, .bytes = 8}, NULL, 0);
}

static void
add_rank(struct mw_plan *plan, uint32_t rank)
{
    mw_plan_add_lane(plan,
                     (struct mw_lane){.program = rank, .kind = MW_LANE_NVME_READ, .window_ops = 4});
    mw_plan_add_lane(plan,
                     (struct mw_lane){.program = rank, .kind = MW_LANE_COMPUTE, .window_ops = 1});
    mw_plan_add_lane(
        plan, (struct mw_lane){.program = rank, .kind = MW_LANE_COLLECTIVE, .window_ops = 1});
    mw_plan_add_slot(plan, (struct mw_slot){.program = rank, .size_bytes = 400});
    mw_plan_add_slot(plan,
                     (struct mw_slot){.program = rank, .offset_bytes = 600, .size_bytes = 400});
    mw_plan_add_slot(
        plan, (struct mw_slot){
                  .program = rank, .offset_bytes = 400, .size_bytes = 100, .persistent = true});
    mw_plan_add_slot(plan, (struct mw_slot){.program = rank, .offset_bytes = 100});
}

static uint32_t
add_op(struct mw_plan *plan, uint32_t rank, uint32_t lane, uint32_t work, uint32_t match)
{
    return mw_plan_add_op(
        plan,
        (struct mw_op){.lane = (uint16_t)(rank * LANES + lane), .work = work, .match = match});
}

static void
add_transfers(struct mw_plan *plan, uint32_t rank)
{
    uint32_t op = rank * OPS, slot = rank * SLOTS;

    add_op(plan, rank, LANE_READ, WORK_READ, MW_NONE);
    mw_plan_add_dep(plan, (op + OP_COMMIT) | MW_DEP_PREVIOUS_STEP);
    mw_plan_add_use(plan, slot + SLOT_BUFFER0, MW_USE_DEFINE, MW_ROLE_NONE);
    add_op(plan, rank, LANE_READ, WORK_READ, MW_NONE);
    mw_plan_add_use(plan, slot + SLOT_BUFFER1, MW_USE_DEFINE, MW_ROLE_NONE);
    add_op(plan, rank, LANE_COMPUTE, WORK_COMPUTE, MW_NONE);
    mw_plan_add_dep(plan, op + OP_READ0);
    mw_plan_add_use(plan, slot + SLOT_BUFFER0, MW_USE_READ, MW_ROLE_NONE);
    mw_plan_add_use(plan, slot + SLOT_STATE, MW_USE_MODIFY, MW_ROLE_NONE);
    add_op(plan, rank, LANE_COMPUTE, WORK_COMPUTE, MW_NONE);
    mw_plan_add_dep(plan, op + OP_READ1);
    mw_plan_add_use(plan, slot + SLOT_BUFFER0, MW_USE_READ, MW_ROLE_NONE);
    mw_plan_add_use(plan, slot + SLOT_BUFFER1, MW_USE_READ, MW_ROLE_NONE);
    add_op(plan, rank, LANE_READ, WORK_READ, MW_NONE);
    mw_plan_add_dep(plan, op + OP_COMPUTE1);
    mw_plan_add_use(plan, slot + SLOT_BUFFER0, MW_USE_DEFINE, MW_ROLE_NONE);
    add_op(plan, rank, LANE_COMPUTE, WORK_COMPUTE, MW_NONE);
    mw_plan_add_dep(plan, op + OP_READ2);
    mw_plan_add_use(plan, slot + SLOT_BUFFER0, MW_USE_READ, MW_ROLE_NONE);
    mw_plan_add_use(plan, slot + SLOT_STATE, MW_USE_MODIFY, MW_ROLE_NONE);
}

struct mw_plan *
two_ranks_new(void)
{
    struct mw_plan *plan = mw_plan_new("two ranks");

    add_tables(plan);
    for (uint32_t rank = 0; rank < 2; rank++)
        add_rank(plan, rank);
    for (uint32_t rank = 0; rank < 2; rank++) {
        add_transfers(plan, rank);
        add_op(plan, rank, LANE_COLLECTIVE, WORK_GATHER, 0);
        mw_plan_add_dep(plan, rank * OPS + OP_COMPUTE0);
        add_op(plan, rank, LANE_COLLECTIVE, WORK_GATHER, 1);
        add_op(plan, rank, LANE_COMPUTE, WORK_COMMIT, 2);
        mw_plan_add_dep(plan, rank * OPS + OP_GATHER1);
    }
    return plan;
}
