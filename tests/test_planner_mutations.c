/* Plans that the planner made, spoiled in one place: each must be refused, for the right reason. */
#include <stdio.h>
#include <string.h>

#include "tests/cases.h"
#include "tests/random_request.h"

#define PLANS MW_CASES(300)

/* Spoils an unchecked plan; false where it has nothing to spoil in this way. */
typedef bool spoil_fn(struct mw_plan *plan, GRand *random);

/* NULL where the request makes no plan. */
static struct mw_plan *
plan_of_seed(guint32 seed, bool unfold)
{
    struct random_request request;
    struct mw_plan *plan = NULL;

    random_request_init(&request, seed);
    request.settings.unfold = unfold;
    g_autoptr(GPtrArray) candidates = random_request_candidates(&request, NULL);
    struct mw_sizing *sizing = candidates ? candidates->pdata[0] : NULL;
    if (!sizing || !sizing->fits || (unfold && sizing->ranks == 1))
        return NULL;
    struct mw_plan *made = mw_build_plan(sizing);
    plan = unchecked_plan_copy(made);
    mw_plan_free(made);
    return plan;
}

static void
expect_refusals(spoil_fn *spoil, bool unfold, const char *reason)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(1);
    int spoiled = 0;

    for (guint32 seed = 100000; spoiled < PLANS; seed++) {
        struct mw_plan *plan = plan_of_seed(seed, unfold);
        char why[256] = "";

        if (plan && spoil(plan, random)) {
            spoiled++;
            g_assert_false(mw_plan_check(plan, why, sizeof why));
            g_assert_false(plan->checked);
            if (!g_regex_match_simple(reason, why, 0, 0))
                g_error("refused for another reason: %s", why);
        }
        mw_plan_free(plan);
    }
}

static uint32_t
any(GRand *random, uint32_t count)
{
    return g_rand_int(random) % count;
}

/* --- memory ---------------------------------------------------------------------------------- */

static bool
overlap(struct mw_plan *plan, GRand *random)
{
    uint32_t first = any(random, plan->slot_count);

    for (uint32_t i = 0; i < plan->slot_count; i++) {
        struct mw_slot *a = &plan->slots[(first + i) % plan->slot_count];
        if (a->offset_bytes > 0 && a->size_bytes > 0 && !a->shares) {
            a->offset_bytes--; /* into the slot before it: they lie side by side */
            return true;
        }
    }
    return false;
}

static void
test_overlapping_buffers(void)
{
    expect_refusals(overlap, false, "^slots \\d+ and \\d+ of program 0 overlap in tier");
}

static bool
take_one_byte(struct mw_plan *plan, GRand *random)
{
    int64_t bytes[MW_TIER_COUNT][MW_PURPOSE_COUNT], need_bytes = 0;
    int tier = (int)any(random, MW_TIER_COUNT);

    mw_plan_count_bytes(plan, 0, bytes);
    for (int p = 0; p < MW_PURPOSE_COUNT; p++)
        need_bytes += bytes[tier][p];
    if (!need_bytes)
        return false;
    if (tier == MW_TIER_GPU)
        need_bytes -= plan->programs[0].apart_bytes;
    plan->tiers[tier].capacity_bytes = need_bytes - 1;
    return true;
}

static void
test_over_capacity(void)
{
    expect_refusals(take_one_byte, false, "^over capacity: slot \\d+ .* tier (gpu|cpu|nvme)");
}

static bool
cut_largest_request(struct mw_plan *plan, GRand *random)
{
    const struct mw_slot *slot = &plan->slots[any(random, plan->slot_count)];

    if (slot->size_bytes < 1)
        return false;
    plan->tiers[slot->tier].largest_request_bytes = slot->size_bytes - 1;
    return true;
}

static void
test_fragmentation(void)
{
    expect_refusals(cut_largest_request, false, "^fragmentation: slot \\d+ .* as one slot");
}

/* --- order ----------------------------------------------------------------------------------- */

/* The writer of a slot waits for its reader, which waits for the writer. */
static bool
turn_edge(struct mw_plan *plan, GRand *random)
{
    uint32_t first = any(random, plan->op_count);

    for (uint32_t i = 0; i < plan->op_count; i++) {
        uint32_t later = (first + i) % plan->op_count;
        const struct mw_op *op = &plan->ops[later];
        uint32_t dep = op->dep_count ? plan->deps[op->dep_begin] : MW_DEP_PREVIOUS_STEP;
        if (dep & MW_DEP_PREVIOUS_STEP || !plan->ops[dep].dep_count)
            continue;
        plan->deps[plan->ops[dep].dep_begin] = later;
        return true;
    }
    return false;
}

static void
test_cycle(void)
{
    expect_refusals(turn_edge, false, "^(cycle: op \\d+ |match \\d+: .*does not$)");
}

/* Each of two transfers waits for the other's slot to be read: a cycle that no two ops show. */
static bool
close_ring(struct mw_plan *plan, GRand *random)
{
    uint32_t first = any(random, plan->op_count);

    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[(first + i) % plan->op_count];
        uint32_t chain = (first + i) % plan->op_count, length = 0;
        while (op->dep_count && !(plan->deps[op->dep_begin] & MW_DEP_PREVIOUS_STEP)) {
            chain = plan->deps[op->dep_begin];
            op = &plan->ops[chain];
            length++;
        }
        if (length < 3 || !op->dep_count)
            continue;
        plan->deps[op->dep_begin] = (first + i) % plan->op_count;
        return true;
    }
    return false;
}

static void
test_cycle_through_slots(void)
{
    expect_refusals(close_ring, false, "^(cycle: op \\d+ |match \\d+: .*does not$)");
}

static bool
uses(const struct mw_plan *plan, uint32_t op, uint32_t slot, enum mw_use_mode mode)
{
    const struct mw_op *by = &plan->ops[op];

    for (uint32_t u = by->use_begin; u < by->use_begin + by->use_count; u++)
        if (plan->uses[u].slot == slot && plan->uses[u].mode == mode)
            return true;
    return false;
}

/* Whether `reader` reads what `writer` put into a slot. */
static bool
reads_of(const struct mw_plan *plan, uint32_t reader, uint32_t writer)
{
    const struct mw_op *by = &plan->ops[writer];

    for (uint32_t u = by->use_begin; u < by->use_begin + by->use_count; u++) {
        uint32_t slot = plan->uses[u].slot, later = writer + 1;
        if (plan->uses[u].mode != MW_USE_DEFINE || !uses(plan, reader, slot, MW_USE_READ))
            continue;
        while (later < reader && !uses(plan, later, slot, MW_USE_DEFINE))
            later++;
        if (later == reader)
            return true;
    }
    return false;
}

/* Whether ops earlier in the lane make `op` wait for `target` anyway. */
static bool
lane_waits(const struct mw_plan *plan, uint32_t op, uint32_t target)
{
    for (uint32_t i = target; i < op; i++)
        if (plan->ops[i].lane == plan->ops[op].lane)
            return true;
    return false;
}

/* A reader that no longer waits for what it reads. */
static bool
forget_writer(struct mw_plan *plan, GRand *random)
{
    uint32_t first = any(random, plan->op_count);

    for (uint32_t i = 0; i < plan->op_count; i++) {
        uint32_t reader = (first + i) % plan->op_count;
        struct mw_op *op = &plan->ops[reader];
        uint32_t dep = op->dep_count ? plan->deps[op->dep_begin] : MW_DEP_PREVIOUS_STEP;
        if (dep & MW_DEP_PREVIOUS_STEP || !reads_of(plan, reader, dep) ||
            lane_waits(plan, reader, dep))
            continue;
        op->dep_count = 0;
        return true;
    }
    return false;
}

static void
test_missing_slot_edge(void)
{
    expect_refusals(forget_writer, false,
                    "^slot \\d+ \\(.*\\): op .*(holds nothing yet|without waiting for)");
}

/* --- collectives ----------------------------------------------------------------------------- */

static bool
alike(const struct mw_plan *plan, const struct mw_op *a, const struct mw_op *b)
{
    const struct mw_work *x = &plan->works[a->work], *y = &plan->works[b->work];

    return x->kind == y->kind && x->comm == y->comm && x->bytes == y->bytes;
}

/* Two collectives of one rank's lane, with different works where `differ`. */
static bool
find_collectives(const struct mw_plan *plan, GRand *random, bool differ, uint32_t pair[2])
{
    uint32_t first = any(random, plan->op_count);

    for (uint32_t i = 0; i < plan->op_count; i++) {
        pair[0] = (first + i) % plan->op_count;
        const struct mw_op *a = &plan->ops[pair[0]];
        if (a->match == MW_NONE)
            continue;
        for (pair[1] = pair[0] + 1; pair[1] < plan->op_count; pair[1]++) {
            const struct mw_op *b = &plan->ops[pair[1]];
            if (b->lane == a->lane && b->match != MW_NONE && alike(plan, a, b) != differ)
                return true;
        }
    }
    return false;
}

static void
swap_matches(struct mw_plan *plan, const uint32_t pair[2])
{
    uint32_t match = plan->ops[pair[0]].match;

    plan->ops[pair[0]].match = plan->ops[pair[1]].match;
    plan->ops[pair[1]].match = match;
}

static bool
swap_unlike(struct mw_plan *plan, GRand *random)
{
    uint32_t pair[2];

    if (!find_collectives(plan, random, true, pair))
        return false;
    swap_matches(plan, pair);
    return true;
}

static void
test_mismatched_collectives(void)
{
    expect_refusals(swap_unlike, true, "^match \\d+: .*( are not one collective|does not$)");
}

/* One rank calls two collectives of equal size in another order than its peers: it would hang. */
static bool
swap_alike(struct mw_plan *plan, GRand *random)
{
    uint32_t pair[2];

    if (!find_collectives(plan, random, false, pair))
        return false;
    swap_matches(plan, pair);
    return true;
}

static void
test_collectives_in_another_order(void)
{
    expect_refusals(swap_alike, true, "^(cycle: op \\d+ |match \\d+: .*does not$)");
}

static bool
leave_alone(struct mw_plan *plan, GRand *random)
{
    uint32_t pair[2];

    if (!find_collectives(plan, random, false, pair))
        return false;
    plan->ops[pair[0]].match = MW_NONE;
    return true;
}

static void
test_absent_from_collective(void)
{
    expect_refusals(
        leave_alone, true,
        "^(match \\d+|op \\d+ ).*(no other member|and others are|does not$|has no match)");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/planner-mutations/overlapping-buffers", test_overlapping_buffers);
    g_test_add_func("/planner-mutations/over-capacity", test_over_capacity);
    g_test_add_func("/planner-mutations/fragmentation", test_fragmentation);
    g_test_add_func("/planner-mutations/cycle", test_cycle);
    g_test_add_func("/planner-mutations/cycle-through-slots", test_cycle_through_slots);
    g_test_add_func("/planner-mutations/missing-slot-edge", test_missing_slot_edge);
    g_test_add_func("/planner-mutations/mismatched-collectives", test_mismatched_collectives);
    g_test_add_func("/planner-mutations/collectives-in-another-order",
                    test_collectives_in_another_order);
    g_test_add_func("/planner-mutations/absent-from-collective", test_absent_from_collective);
    return g_test_run();
}
