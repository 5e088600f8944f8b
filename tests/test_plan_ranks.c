#include <glib.h>
#include <string.h>

#include "plan/plan.h"
#include "tests/comm_along.h"

/* What joins ranks: plans of several ranks with one serial lane each, and hardly any ops. */
enum { GATHER, GATHER_OTHER, SEND, RECV, COMMIT, COMPUTE };

static struct mw_plan *
make_plan(uint32_t ranks)
{
    struct mw_plan *plan = mw_plan_new("ranks");
    int32_t hop = (int32_t)ranks - 1; /* to the rank before, the first to the last */

    mw_plan_set_world(plan, ranks, ranks, false);
    for (uint32_t i = 0; i < ranks; i++)
        mw_plan_add_lane(plan, (struct mw_lane){.program = i, .window_ops = 1});
    mw_plan_add_comm(plan, comm_along(ranks, 1));
    mw_plan_add_comm(plan, comm_along(MIN(ranks, 2), 1));
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_ALL_GATHER}, NULL, 0);
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_ALL_GATHER, .comm = 1}, NULL, 0);
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_SEND, .hop = hop}, NULL, 0);
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_RECV, .hop = hop}, NULL, 0);
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_COMMIT, .comm = MW_NONE}, NULL, 0);
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_COMPUTE, .comm = MW_NONE}, NULL, 0);
    return plan;
}

static void
add(struct mw_plan *plan, uint32_t rank, uint32_t work, uint32_t match)
{
    mw_plan_add_op(plan, (struct mw_op){.lane = (uint16_t)rank, .work = work, .match = match});
}

static void
accept(struct mw_plan *plan, bool barriered)
{
    char why[512] = "";

    if (!mw_plan_check(plan, why, sizeof why))
        g_error("%s", why);
    g_assert_true(plan->barriered == barriered);
    mw_plan_free(plan);
}

static void
refuse(struct mw_plan *plan, const char *reason)
{
    char why[512] = "";

    g_assert_false(mw_plan_check(plan, why, sizeof why));
    if (!strstr(why, reason))
        g_error("expected '%s' in '%s'", reason, why);
    mw_plan_free(plan);
}

static void
test_collective(void)
{
    struct mw_plan *plan = make_plan(3);

    for (uint32_t rank = 0; rank < 3; rank++)
        add(plan, rank, GATHER, 4000000000u);
    accept(plan, false);
}

/* A member was forgotten. */
static void
test_sizes_differ(void)
{
    struct mw_plan *plan = make_plan(3);

    for (uint32_t rank = 0; rank < 3; rank++)
        add(plan, rank, GATHER, 0);
    for (uint32_t rank = 0; rank < 2; rank++)
        add(plan, rank, GATHER, 1);
    refuse(plan, "and others meet, but program 2 does not");
}

static void
test_sizes_of_communicators(void)
{
    struct mw_plan *plan = make_plan(3);

    for (uint32_t rank = 0; rank < 3; rank++)
        add(plan, rank, GATHER, 0);
    for (uint32_t rank = 0; rank < 2; rank++)
        add(plan, rank, GATHER_OTHER, 1);
    accept(plan, false);
}

static void
test_communicators_differ(void)
{
    struct mw_plan *plan = make_plan(2);

    add(plan, 0, GATHER, 0);
    add(plan, 1, GATHER_OTHER, 0);
    refuse(plan, "are not one collective");
}

/* The only kinds that differ within a match; other collectives of the communicator do not count. */
static void
test_send_and_recv(void)
{
    struct mw_plan *plan = make_plan(3);

    for (uint32_t rank = 0; rank < 3; rank++)
        add(plan, rank, GATHER, 0);
    add(plan, 2, RECV, 1);
    add(plan, 0, SEND, 1);
    accept(plan, false);
}

static void
test_send_to_two(void)
{
    struct mw_plan *plan = make_plan(3);

    add(plan, 0, SEND, 1);
    add(plan, 1, RECV, 1);
    add(plan, 2, RECV, 1);
    refuse(plan, "is one of 3, expected a send and a recv");
}

static void
test_send_alone(void)
{
    struct mw_plan *plan = make_plan(1);

    add(plan, 0, SEND, 1);
    refuse(plan, "has no other member");
}

/* Two ranks send first, each to the other. */
static void
test_send_across(void)
{
    struct mw_plan *plan = make_plan(2);

    for (uint32_t rank = 0; rank < 2; rank++) {
        add(plan, rank, SEND, rank);
        add(plan, rank, RECV, 1 - rank);
    }
    refuse(plan, "cycle: op ");
}

/* Three ranks, of which each pair agrees on the order of its two ops, but not all three. */
static void
test_ring_of_matches(void)
{
    struct mw_plan *plan = make_plan(3);

    for (uint32_t rank = 0; rank < 3; rank++) {
        add(plan, rank, SEND, rank);
        add(plan, rank, RECV, (rank + 1) % 3);
    }
    refuse(plan, "cycle: op ");
}

/* In a folded plan the other members are folded away. */
static void
test_folded(void)
{
    struct mw_plan *plan = make_plan(1);

    add(plan, 0, GATHER, 7);
    add(plan, 0, GATHER, MW_NONE);
    accept(plan, false);
}

static void
test_commit_joins(void)
{
    struct mw_plan *plan = make_plan(4);

    for (uint32_t rank = 0; rank < 4; rank++)
        add(plan, rank, COMMIT, 3);
    accept(plan, true);
}

/* Commits of their own, and commits in pairs, do not hold all ranks together. */
static void
test_commits_apart(void)
{
    for (uint32_t size = 1; size <= 2; size++) {
        struct mw_plan *plan = make_plan(4);

        for (uint32_t rank = 0; rank < 4; rank++)
            add(plan, rank, COMMIT, size == 1 ? MW_NONE : rank / 2);
        accept(plan, false);
    }
}

static void
test_commit_is_missing(void)
{
    struct mw_plan *plan = make_plan(3);

    add(plan, 0, COMMIT, 3);
    add(plan, 1, COMMIT, 3);
    add(plan, 2, COMPUTE, MW_NONE);
    accept(plan, false);
}

/* --- programs -------------------------------------------------------------------------------- */

static struct mw_members
some_ranks(uint32_t base, uint32_t count, uint32_t stride)
{
    struct mw_members ranks = mw_members_of_one(base);

    if (count > 1)
        ranks.spans[MW_AXIS_DP] = (struct mw_axis_span){stride, count};
    return ranks;
}

/* Of four ranks, two programs; a communicator pairs rank r with r + 2. */
static struct mw_plan *
make_programs(struct mw_members first, struct mw_members second)
{
    struct mw_plan *plan = mw_plan_new("programs");

    mw_plan_set_world(plan, 4, 4, true);
    mw_plan_clear_programs(plan);
    mw_plan_add_program(plan, first);
    mw_plan_add_program(plan, second);
    for (uint32_t i = 0; i < 2; i++)
        mw_plan_add_lane(plan, (struct mw_lane){.program = i, .window_ops = 1});
    mw_plan_add_comm(plan, comm_along(4, 1));
    mw_plan_add_comm(plan, comm_along(2, 2));
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_ALL_GATHER}, NULL, 0);
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_ALL_GATHER, .comm = 1}, NULL, 0);
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_SEND, .comm = 1, .hop = 1}, NULL, 0);
    mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_RECV, .comm = 1, .hop = 1}, NULL, 0);
    return plan;
}

static void
test_programs_meet(void)
{
    struct mw_plan *plan = make_programs(some_ranks(0, 2, 1), some_ranks(2, 2, 1));

    for (uint32_t i = 0; i < 2; i++) {
        add(plan, i, GATHER, 0);
        add(plan, i, i ? RECV : SEND, 1);
    }
    accept(plan, false);
    plan = make_programs(some_ranks(0, 2, 1), some_ranks(2, 2, 1));
    add(plan, 0, GATHER, MW_NONE);
    refuse(plan, "meets program 1 and has no match");
}

/* Ranks 0 and 2 send to themselves or to the other program, as it is cut. */
static void
test_programs_pair(void)
{
    struct mw_plan *plan = make_programs(some_ranks(0, 2, 2), some_ranks(1, 2, 2));

    add(plan, 0, SEND, 0);
    add(plan, 1, RECV, 0);
    refuse(plan, "do not send to those of");
    plan = make_programs(some_ranks(0, 3, 1), some_ranks(3, 1, 1));
    add(plan, 0, SEND, 0);
    add(plan, 1, RECV, 0);
    refuse(plan, "do not send to those of");
}

/* Ranks 0, 1, 3 and 4, but of rank 3 a group that would begin before rank 0. */
static void
test_groups_overlap(void)
{
    struct mw_plan *plan = make_plan(6);

    plan->comms[0].spans[MW_AXIS_TP] = (struct mw_axis_span){1, 2};
    plan->comms[0].spans[MW_AXIS_DP] = (struct mw_axis_span){3, 2};
    add(plan, 3, GATHER, 0);
    add(plan, 4, GATHER, 0);
    refuse(plan, "comm 0: expected spans that divide the world's 6 ranks into groups");
}

static void
test_programs_overlap(void)
{
    refuse(make_programs(some_ranks(0, 2, 1), some_ranks(1, 2, 1)),
           "rank 1 is of program 0 and of program 1");
    refuse(make_programs(some_ranks(0, 2, 1), some_ranks(2, 3, 1)), "program 1: expected ranks");
}

/* One rank may take more than its share of a node's host memory where another takes less. */
static struct mw_plan *
make_sized(int64_t first_bytes, int64_t second_bytes)
{
    struct mw_plan *plan = make_programs(some_ranks(0, 3, 1), some_ranks(3, 1, 1));

    plan->tiers[MW_TIER_CPU] = (struct mw_tier_info){100, 0, 400};
    mw_plan_add_slot(plan, (struct mw_slot){.tier = MW_TIER_CPU, .size_bytes = first_bytes});
    mw_plan_add_slot(
        plan, (struct mw_slot){.program = 1, .tier = MW_TIER_CPU, .size_bytes = second_bytes});
    return plan;
}

static void
test_programs_share_nodes(void)
{
    accept(make_sized(90, 130), false);
    accept(make_sized(10, 370), false);
    refuse(make_sized(90, 131), "the ranks of node 0 together take more than the 400 bytes");
    refuse(make_sized(101, 98), "the ranks of node 0 together take more than the 400 bytes");
}

/* The window lets the next step's commit start beside the last one. */
static void
test_commit_in_wide_lane(void)
{
    struct mw_plan *plan = make_plan(1);

    plan->lanes[0].window_ops = 2;
    add(plan, 0, COMMIT, MW_NONE);
    accept(plan, false);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/plan-ranks/collective", test_collective);
    g_test_add_func("/plan-ranks/sizes-differ", test_sizes_differ);
    g_test_add_func("/plan-ranks/sizes-of-communicators", test_sizes_of_communicators);
    g_test_add_func("/plan-ranks/communicators-differ", test_communicators_differ);
    g_test_add_func("/plan-ranks/send-and-recv", test_send_and_recv);
    g_test_add_func("/plan-ranks/send-to-two", test_send_to_two);
    g_test_add_func("/plan-ranks/send-alone", test_send_alone);
    g_test_add_func("/plan-ranks/send-across", test_send_across);
    g_test_add_func("/plan-ranks/ring-of-matches", test_ring_of_matches);
    g_test_add_func("/plan-ranks/folded", test_folded);
    g_test_add_func("/plan-ranks/commit-joins", test_commit_joins);
    g_test_add_func("/plan-ranks/commits-apart", test_commits_apart);
    g_test_add_func("/plan-ranks/commit-is-missing", test_commit_is_missing);
    g_test_add_func("/plan-ranks/commit-in-wide-lane", test_commit_in_wide_lane);
    g_test_add_func("/plan-ranks/programs-meet", test_programs_meet);
    g_test_add_func("/plan-ranks/programs-pair", test_programs_pair);
    g_test_add_func("/plan-ranks/groups-overlap", test_groups_overlap);
    g_test_add_func("/plan-ranks/programs-overlap", test_programs_overlap);
    g_test_add_func("/plan-ranks/programs-share-nodes", test_programs_share_nodes);
    return g_test_run();
}
