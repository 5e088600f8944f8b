#include <glib.h>
#include <string.h>

#include "plan/optimizers.h"
#include "tests/comm_along.h"
#include "tests/two_ranks.h"

static struct mw_op *
op(struct mw_plan *plan, uint32_t rank, uint32_t index)
{
    return &plan->ops[rank * OPS + index];
}

static uint32_t *
dep(struct mw_plan *plan, uint32_t rank, uint32_t index)
{
    return &plan->deps[op(plan, rank, index)->dep_begin];
}

static struct mw_use *
use(struct mw_plan *plan, uint32_t index)
{
    return &plan->uses[op(plan, 0, index)->use_begin];
}

static void
test_good(void)
{
    struct mw_plan *plan = two_ranks_new();
    char why[256] = "unchanged";

    g_assert_true(mw_plan_check(plan, why, sizeof why));
    g_assert_cmpstr(why, ==, "unchanged");
    g_assert_true(plan->checked);
    g_assert_true(plan->barriered);
    g_assert_cmpint(plan->peak_bytes[MW_TIER_GPU], ==, 900);
    g_assert_cmpint(plan->peak_bytes[MW_TIER_CPU], ==, 0);
    mw_plan_free(plan);
}

static void
test_empty(void)
{
    struct mw_plan *plan = mw_plan_new("nothing");

    g_assert_true(mw_plan_check(plan, NULL, 0));
    g_assert_false(plan->barriered);
    mw_plan_free(plan);
}

/* One thing each that a good plan may not have, by the part of the check that finds it. */
/* clang-format off */

/* Tables. */
static void ranks_none(struct mw_plan *p) { mw_plan_clear_programs(p); }
static void world_small(struct mw_plan *p) { p->world_ranks = 1; }
static void tier_negative(struct mw_plan *p) { p->tiers[MW_TIER_NVME].reserve_bytes = -1; }
static void comm_none(struct mw_plan *p) { p->comms[0].spans[MW_AXIS_DP].count = 0; }
static void comm_node(struct mw_plan *p) { p->comms[0].spans[MW_AXIS_TP].stride = 2; }
static void lane_rank(struct mw_plan *p) { p->lanes[1].program = 2; }
static void lane_kind(struct mw_plan *p) { p->lanes[1].kind = MW_LANE_KIND_COUNT; }
static void lane_window(struct mw_plan *p) { p->lanes[1].window_ops = 0; }
static void lane_bytes(struct mw_plan *p) { p->lanes[1].window_bytes = -5; }
static void channel_kind(struct mw_plan *p) { p->channels[0].kind = MW_CHANNEL_KIND_COUNT; }
static void channel_users(struct mw_plan *p) { p->channels[0].users = 0; }
static void slot_rank(struct mw_plan *p) { p->slots[2].program = 9; }
static void slot_tier(struct mw_plan *p) { p->slots[2].tier = MW_TIER_COUNT; }
static void slot_size(struct mw_plan *p) { p->slots[2].size_bytes = -1; }
static void work_kind(struct mw_plan *p) { p->works[1].kind = MW_OP_KIND_COUNT; }
static void work_comm(struct mw_plan *p) { p->works[1].comm = 1; }
static void work_lonely(struct mw_plan *p) { p->works[WORK_GATHER].comm = MW_NONE; }
static void work_flops(struct mw_plan *p) { p->works[1].flops = -1; }
static void
set_product(struct mw_plan *p, struct mw_work_product product)
{
    p->works[WORK_COMPUTE].flops = 2 * 8 * 8 * 8;
    p->works[WORK_COMPUTE].products[0] = product;
    p->works[WORK_COMPUTE].product_count = 1;
}
static void
product_side(struct mw_plan *p)
{
    set_product(p, (struct mw_work_product){8, 0, 8, 1, MW_DTYPE_BF16, 0});
}
static void
product_dtype(struct mw_plan *p)
{
    set_product(p, (struct mw_work_product){8, 8, 8, 1, MW_DTYPE_NF4, 0});
}
static void
product_flops(struct mw_plan *p)
{
    set_product(p, (struct mw_work_product){8, 8, 8, 2, MW_DTYPE_BF16, 0});
}
static void
product_lacks(struct mw_plan *p)
{
    p->works[WORK_COMPUTE].flops = 1;
}
static void
product_count(struct mw_plan *p)
{
    p->works[WORK_COMPUTE].product_count = MW_WORK_PRODUCTS_MAX + 1;
}
static void
product_copied(struct mw_plan *p)
{
    p->works[WORK_GATHER].product_count = 1;
}
static void
attention_heads(struct mw_plan *p)
{
    set_product(p, (struct mw_work_product){8, 8, 8, 1, MW_DTYPE_BF16, 0});
    p->works[WORK_COMPUTE].attention = (struct mw_work_attention){8, 8, 3, 2, 8, 8, 0, 1};
}
static void draw_range(struct mw_plan *p) { p->works[0].draw_begin = MW_NONE; }
static void draw_channel(struct mw_plan *p) { p->draws[0].channel = 1; }
static void draw_amount(struct mw_plan *p) { p->draws[0].amount = -1; }
static void draw_nobody(struct mw_plan *p) { p->draws[0].ranks = 0; }
static void draw_ranks(struct mw_plan *p) { p->draws[0].ranks = 3; }
static void op_work(struct mw_plan *p) { op(p, 0, 1)->work = 7; }
static void op_lane(struct mw_plan *p) { op(p, 0, 1)->lane = 6; }
static void op_phase(struct mw_plan *p) { op(p, 0, 1)->phase = MW_PHASE_COUNT; }
static void op_layer(struct mw_plan *p) { op(p, 0, 1)->layer = -2; }
static void op_dep_range(struct mw_plan *p) { op(p, 0, 2)->dep_begin = p->dep_count; }
static void op_use_range(struct mw_plan *p) { op(p, 0, 2)->use_begin = MW_NONE; }
static void dep_index(struct mw_plan *p) { *dep(p, 0, OP_COMPUTE0) = 2 * OPS; }
static void dep_self(struct mw_plan *p) { *dep(p, 0, OP_COMPUTE0) = OP_COMPUTE0; }
static void dep_rank(struct mw_plan *p) { *dep(p, 0, OP_COMPUTE0) = OPS + OP_READ0; }
static void dep_rank_before(struct mw_plan *p) { *dep(p, 1, 0) = OP_COMMIT | MW_DEP_PREVIOUS_STEP; }
static void use_slot(struct mw_plan *p) { use(p, OP_COMPUTE0)->slot = 2 * SLOTS; }
static void use_mode(struct mw_plan *p) { use(p, OP_COMPUTE0)->mode = MW_USE_MODE_COUNT; }
static void use_rank(struct mw_plan *p) { use(p, OP_COMPUTE0)->slot = SLOTS + SLOT_STATE; }
static void use_twice(struct mw_plan *p) { use(p, OP_COMPUTE0)->slot = SLOT_STATE; }

/* Shape. */
static void in_place_narrow(struct mw_plan *p)
{
    p->shape.updates_in_place = p->shape.only_simulated = true;
    p->shape.dtype = MW_DTYPE_BF16;
}
static void in_place_run(struct mw_plan *p)
{
    p->shape.updates_in_place = true;
    p->shape.dtype = MW_DTYPE_FP32;
}
static void in_place_pure(struct mw_plan *p)
{
    p->shape.updates_in_place = p->shape.only_simulated = true;
    p->shape.dtype = MW_DTYPE_FP32;
    p->shape.optimizer = MW_OPTIMIZER_ADAMW_PURE;
}

/* Memory. */
static void slot_large(struct mw_plan *p) { p->slots[SLOT_STATE].size_bytes = 401; }
static void slot_overlap(struct mw_plan *p) { p->slots[SLOT_STATE].size_bytes = 201; }
static void slot_same(struct mw_plan *p) { p->slots[SLOT_STATE].offset_bytes = 0; }
static void slot_behind(struct mw_plan *p) { p->slots[SLOT_STATE].offset_bytes = 901; }
static void slot_far(struct mw_plan *p) { p->slots[SLOT_STATE].offset_bytes = INT64_MAX; }
static void tier_small(struct mw_plan *p) { p->tiers[MW_TIER_GPU].capacity_bytes = 999; }

/* Matches. */
static void match_kind(struct mw_plan *p) { op(p, 1, OP_GATHER0)->work = WORK_COMPUTE; }
static void match_bytes(struct mw_plan *p) { op(p, 1, OP_GATHER0)->work = WORK_GATHER_MORE; }
static void match_alone(struct mw_plan *p) { op(p, 1, OP_GATHER0)->match = MW_NONE; }
static void match_rank(struct mw_plan *p) { op(p, 0, OP_GATHER1)->match = 0; }
static void match_size(struct mw_plan *p) { p->comms[0] = comm_along(1, 0); }
static void match_order(struct mw_plan *p)
{
    op(p, 1, OP_GATHER0)->match = 1;
    op(p, 1, OP_GATHER1)->match = 0;
}
static void match_sends(struct mw_plan *p)
{
    op(p, 0, OP_GATHER0)->work = op(p, 1, OP_GATHER0)->work = WORK_SEND;
}

/* Order. */
static void cycle_dep(struct mw_plan *p) { *dep(p, 0, OP_COMPUTE0) = OP_READ2; }
static void cycle_lane(struct mw_plan *p) { *dep(p, 0, OP_COMPUTE0) = OP_COMPUTE2; }

/* Contents. */
static void nothing_yet(struct mw_plan *p) { p->slots[SLOT_STATE].persistent = false; }
static void read_early(struct mw_plan *p) { *dep(p, 0, OP_COMPUTE1) = OP_READ0; }
static void define_early(struct mw_plan *p) { *dep(p, 0, OP_READ2) = OP_COMPUTE0; }

/* clang-format on */

static const struct {
    const char *name;
    void (*change)(struct mw_plan *plan);
    const char *why;
} cases[] = {
    {"ranks-none", ranks_none, "the plan has no program"},
    {"world-small", world_small, "a world of 1 ranks, 2 per node"},
    {"tier-negative", tier_negative, "tier nvme: negative"},
    {"comm-none", comm_none, "comm 0: expected spans that divide"},
    {"comm-node", comm_node, "comm 0: expected spans that divide"},
    {"lane-rank", lane_rank, "lane 1: is of program 2"},
    {"lane-kind", lane_kind, "lane 1: kind 7"},
    {"lane-window", lane_window, "lane 1: window of 0 ops"},
    {"lane-bytes", lane_bytes, "lane 1: window of 1 ops and -5 bytes"},
    {"channel-kind", channel_kind, "channel 0: kind "},
    {"channel-users", channel_users, ", 0 users: expected"},
    {"slot-rank", slot_rank, "slot 2: is of program 9"},
    {"slot-tier", slot_tier, "slot 2: tier 3"},
    {"slot-size", slot_size, "slot 2: negative"},
    {"work-kind", work_kind, "work 1: kind 19"},
    {"work-comm", work_comm, "work 1 (compute): expected one of the 1 communicators"},
    {"work-lonely", work_lonely, "work 2 (all-gather): expected one of the 1 communicators"},
    {"work-flops", work_flops, "work 1 (compute): negative"},
    {"product-side", product_side, "work 1 (compute): product 0: must have sides and a count"},
    {"product-dtype", product_dtype, "work 1 (compute): product 0: not of a type that products"},
    {"product-flops", product_flops, "work 1 (compute): 1024 FLOPs are not those of its products"},
    {"product-lacks", product_lacks, "work 1 (compute): 1 FLOPs are not those of its products"},
    {"product-count", product_count, "work 1 (compute): 9 products: at most 8"},
    {"product-copied", product_copied, "work 2 (all-gather): has no products"},
    {"attention-heads", attention_heads, "work 1 (compute): attention must have products"},
    {"draw-range", draw_range, "work 0: its draws"},
    {"draw-channel", draw_channel, "work 0: draws 100 from channel 1"},
    {"draw-amount", draw_amount, "work 0: draws -1 from channel 0"},
    {"draw-nobody", draw_nobody, "work 0: 0 ranks draw from channel 0: expected 1 to 2"},
    {"draw-ranks", draw_ranks, "work 0: 3 ranks draw from channel 0: expected 1 to 2"},
    {"op-work", op_work, "op 1: work 7"},
    {"op-lane", op_lane, "op 1: work 0 or lane 6"},
    {"op-phase", op_phase, "op 1: phase 5"},
    {"op-layer", op_layer, "op 1: phase 0 or layer -2"},
    {"op-dep-range", op_dep_range, "op 2: its dependencies"},
    {"op-use-range", op_use_range, "op 2: its dependencies or uses"},
    {"dep-index", dep_index, "op 2 (forward mb 0 layer 0 none tile 0 shard 0) depends on op 18"},
    {"dep-self", dep_self, "depends on itself"},
    {"dep-rank", dep_rank, "of program 0 depends on op 9 of program 1"},
    {"dep-rank-previous", dep_rank_before, "of program 1 depends on op 8 of program 0"},
    {"use-slot", use_slot, "use of slot 8 in mode 1"},
    {"use-mode", use_mode, "use of slot 0 in mode 3"},
    {"use-rank", use_rank, "of program 0 uses slot 6 of program 1"},
    {"use-twice", use_twice,
     "slot 2 (parameters): op 2 (forward mb 0 layer 0 none tile 0 shard 0) "
     "uses it twice"},
    {"in-place-narrow", in_place_narrow, "step: updates-in-place needs fp32 parameters"},
    {"in-place-run", in_place_run, "step: updates-in-place needs fp32 parameters"},
    {"in-place-pure", in_place_pure, "step: updates-in-place needs fp32 parameters"},
    {"slot-large", slot_large, "fragmentation: slot 2 (parameters) takes 401 bytes"},
    {"slot-overlap", slot_overlap, "slots 2 and 1 of program 0 overlap in tier gpu at offset 600"},
    {"slot-same", slot_same, "slots 0 and 2 of program 0 overlap in tier gpu at offset 0"},
    {"slot-behind", slot_behind,
     "over capacity: slot 2 (parameters) takes 100 bytes at offset 901"},
    {"slot-far", slot_far, "over capacity: slot 2"},
    {"tier-small", tier_small, "over capacity: slot 1"},
    {"match-kind", match_kind, "are not one collective"},
    {"match-bytes", match_bytes, "all-gather, comm 0, 8 bytes) are not one collective"},
    {"match-alone", match_alone,
     "match 0: op 6 (forward mb 0 layer 0 none tile 0 shard 0) has no "
     "other member"},
    {"match-rank", match_rank, "are both of program 0"},
    {"match-size", match_size, "and others are 2 programs, its group is of 1"},
    {"match-order", match_order, "cycle: op "},
    {"match-sends", match_sends, "are not one collective"},
    {"cycle-dep", cycle_dep, "cycle: op "},
    {"cycle-lane", cycle_lane,
     "cycle: op 2 (forward mb 0 layer 0 none tile 0 shard 0) of lane 1 "
     "waits for op 5"},
    {"nothing-yet", nothing_yet, "would modify it, but it holds nothing yet"},
    {"read-early", read_early,
     "slot 1 (parameters): op 3 (forward mb 0 layer 0 none tile 0 shard 0)"
     " uses it without waiting for op 1"},
    {"define-early", define_early, "without waiting for op 3"},
};

static void
test_refused(gconstpointer data)
{
    size_t i = GPOINTER_TO_SIZE(data);
    struct mw_plan *plan = two_ranks_new();
    char why[512] = "";

    cases[i].change(plan);
    g_assert_false(mw_plan_check(plan, why, sizeof why));
    if (!strstr(why, cases[i].why))
        g_error("expected '%s' in '%s'", cases[i].why, why);
    g_assert_null(strchr(why, '\n'));
    g_assert_false(plan->checked);
    g_assert_false(mw_plan_check(plan, NULL, 0));
    mw_plan_free(plan);
}

/* Two ops of a lane modify one slot: the order of the lane is enough if it has room for one. */
static void
test_lane_window(void)
{
    for (uint32_t window = 1; window <= 2; window++) {
        struct mw_plan *plan = two_ranks_new();
        char why[512] = "";

        plan->lanes[LANE_COMPUTE].window_ops = window;
        use(plan, OP_COMPUTE1)[1] = (struct mw_use){SLOT_STATE, MW_USE_MODIFY, MW_ROLE_NONE};
        g_assert_true(mw_plan_check(plan, why, sizeof why) == (window == 1));
        g_assert_true((strstr(why, "without waiting for op 2") != NULL) == (window == 2));
        mw_plan_free(plan);
    }
}

/* Without the edge over the step's end the first buffer is filled while its last reader may run. */
static void
test_previous_step(void)
{
    struct mw_plan *plan = two_ranks_new();
    char why[512];

    op(plan, 0, OP_READ0)->dep_count = 0;
    g_assert_false(mw_plan_check(plan, why, sizeof why));
    g_assert_nonnull(strstr(why,
                            "without waiting for op 5 (forward mb 0 layer 0 none tile 0 shard 0)"
                            " of the step before"));
    mw_plan_free(plan);
}

/* Safe, but the next step's first op only waits for the last reader of its buffer. */
static void
test_no_barrier(void)
{
    struct mw_plan *plan = two_ranks_new();

    *dep(plan, 0, OP_READ0) = OP_COMPUTE2 | MW_DEP_PREVIOUS_STEP;
    g_assert_true(mw_plan_check(plan, NULL, 0));
    g_assert_false(plan->barriered);
    mw_plan_free(plan);
}

/* A commit that some op may outlast is none. */
static void
test_commit_too_early(void)
{
    struct mw_plan *plan = two_ranks_new();

    op(plan, 1, OP_COMMIT)->dep_count = 0;
    g_assert_true(mw_plan_check(plan, NULL, 0));
    g_assert_false(plan->barriered);
    mw_plan_free(plan);
}

static void
test_too_many_lanes(void)
{
    for (uint32_t extra = 0; extra < 2; extra++) {
        struct mw_plan *plan = mw_plan_new("lanes");
        char why[128] = "";

        mw_plan_add_work(plan, (struct mw_work){.comm = MW_NONE}, NULL, 0);
        for (uint32_t i = 0; i < MW_MAX_LANES_PER_RANK + extra; i++) {
            mw_plan_add_lane(plan, (struct mw_lane){.window_ops = 1});
            mw_plan_add_op(plan, (struct mw_op){.lane = (uint16_t)i, .match = MW_NONE});
        }
        g_assert_true(mw_plan_check(plan, why, sizeof why) == !extra);
        g_assert_true(!extra || strstr(why, "more than 64 lanes"));
        mw_plan_free(plan);
    }
}

/* Sums of sizes near the limits of int64. */
static void
test_huge_slots(void)
{
    struct mw_plan *plan = mw_plan_new("huge");
    char why[256];

    plan->tiers[MW_TIER_NVME] = (struct mw_tier_info){INT64_MAX, 0, INT64_MAX};
    mw_plan_add_slot(plan, (struct mw_slot){.tier = MW_TIER_NVME, .size_bytes = INT64_MAX - 1});
    mw_plan_add_slot(
        plan,
        (struct mw_slot){.tier = MW_TIER_NVME, .offset_bytes = INT64_MAX - 1, .size_bytes = 1});
    plan->slots[1].size_bytes = INT64_MAX;
    g_assert_false(mw_plan_check(plan, why, sizeof why));
    plan->slots[1].size_bytes = 1;
    g_assert_true(mw_plan_check(plan, why, sizeof why));
    g_assert_cmpint(plan->peak_bytes[MW_TIER_NVME], ==, INT64_MAX);
    mw_plan_free(plan);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/plan-check/good", test_good);
    g_test_add_func("/plan-check/empty", test_empty);
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *path = g_strconcat("/plan-check/refused/", cases[i].name, NULL);
        g_test_add_data_func(path, GSIZE_TO_POINTER(i), test_refused);
    }
    g_test_add_func("/plan-check/lane-window", test_lane_window);
    g_test_add_func("/plan-check/previous-step", test_previous_step);
    g_test_add_func("/plan-check/no-barrier", test_no_barrier);
    g_test_add_func("/plan-check/commit-too-early", test_commit_too_early);
    g_test_add_func("/plan-check/too-many-lanes", test_too_many_lanes);
    g_test_add_func("/plan-check/huge-slots", test_huge_slots);
    return g_test_run();
}
