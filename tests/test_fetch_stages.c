/* A depth for each stage of a fetch: how many slots each has, and how far ahead of the products it
 * is, in the order of the plan. */
#include <glib.h>

#include "tests/planned.h"

/* Slots of the stages, and their ops that stand before the first product. */
struct seen {
    int pinned, shards, gathered;
    int reads, copies, gathers;
};

static void
count_slots(const struct mw_plan *plan, struct seen *seen)
{
    for (uint32_t i = 0; i < plan->slot_count; i++) {
        const struct mw_slot *slot = &plan->slots[i];
        bool shard = slot->purpose == MW_PURPOSE_SHARD_BUFFERS;
        seen->pinned += shard && slot->tier == MW_TIER_CPU;
        seen->shards += shard && slot->tier == MW_TIER_GPU;
        seen->gathered += slot->purpose == MW_PURPOSE_PARAMETER_BUFFERS;
    }
}

static struct seen
look(const char *prefetch, int64_t gpus)
{
    struct mw_hardware hardware;
    struct mw_plan *plan = planned_new(
        (struct planned){.layers = 4, .gpus = gpus, .micro_batch = 1, .prefetch = prefetch},
        &hardware);
    struct seen seen = {0};

    g_assert_true(plan->checked);
    count_slots(plan, &seen);
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_work *work = &plan->works[plan->ops[i].work];
        if (work->kind == MW_OP_COMPUTE)
            break;
        seen.reads += work->kind == MW_OP_NVME_READ;
        seen.copies += work->kind == MW_OP_H2D;
        seen.gathers += work->kind == MW_OP_ALL_GATHER;
    }
    mw_plan_free(plan);
    return seen;
}

/* Each stage has one slot more than it is ahead of the next one, and its ops are ahead of the
 * product by its own depth and those of the stages behind it. */
static void
assert_depths(const char *prefetch, int nc, int cg, int gg)
{
    struct seen usual = look("1", 2), now = look(prefetch, 2);

    g_assert_cmpint(now.pinned - usual.pinned, ==, nc - 1);
    g_assert_cmpint(now.shards - usual.shards, ==, cg - 1);
    g_assert_cmpint(now.gathered - usual.gathered, ==, gg - 1);
    g_assert_cmpint(now.reads, ==, nc + cg + gg + 1);
    g_assert_cmpint(now.copies, ==, cg + gg + 1);
    g_assert_cmpint(now.gathers, ==, gg + 1);
}

static void
test_depths(void)
{
    assert_depths("2", 2, 2, 2);
    assert_depths("5:2:1", 5, 2, 1);
    assert_depths("0:0:3", 0, 0, 3);
    assert_depths("0:3:0", 0, 3, 0);
    assert_depths("3:0:0", 3, 0, 0);
    assert_depths("0:0:0", 0, 0, 0);
}

/* The copy is the last stage where there is nothing to gather. */
static void
test_one_gpu(void)
{
    struct seen usual = look("1", 1), now = look("4:2:7", 1);

    g_assert_cmpint(now.pinned - usual.pinned, ==, 3);
    g_assert_cmpint(now.gathered - usual.gathered, ==, 1);
    g_assert_cmpint(now.reads, ==, 4 + 2 + 1);
    g_assert_cmpint(now.copies, ==, 2 + 1);
}

/* One number is the same for all stages. */
static void
test_one_number(void)
{
    struct seen one = look("3", 2), three = look("3:3:3", 2);

    g_assert_cmpmem(&one, sizeof one, &three, sizeof three);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/fetch-stages/depths", test_depths);
    g_test_add_func("/fetch-stages/one-gpu", test_one_gpu);
    g_test_add_func("/fetch-stages/one-number", test_one_number);
    return g_test_run();
}
