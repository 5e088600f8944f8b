#include <glib.h>

#include "hardware/ring.h"

/* Round figures: bytes take as many seconds as they are GB. */
static const struct mw_hardware machine = {.fabric_bytes_per_s = 1e9,
                                           .nic_bytes_per_s = 1e9,
                                           .fabric_latency_s = 1e-3,
                                           .nic_latency_s = 1e-2};

static void
assert_near(double value, double expected)
{
    g_assert_cmpfloat_with_epsilon(value, expected, 1e-12);
}

static void
test_bytes(void)
{
    assert_near(mw_ring_bytes(8e9, 1), 0);
    assert_near(mw_ring_bytes(8e9, 2), 4e9);
    assert_near(mw_ring_bytes(8e9, 8), 7e9);
}

static void
test_alone(void)
{
    const struct mw_ring ring = mw_ring_of(&machine, 1, 1, 4);

    assert_near(mw_ring_s(&ring, 8e9), 0);
    assert_near(mw_ring_broadcast_s(&ring, 8e9), 0);
}

static void
test_one_node(void)
{
    const struct mw_ring ring = mw_ring_of(&machine, 8, 8, 1);

    g_assert_cmpfloat(ring.nodes, ==, 1);
    assert_near(mw_ring_s(&ring, 8e9), 7 + 7e-3);
    assert_near(mw_ring_broadcast_s(&ring, 8e9), 8 + 3e-3);
    assert_near(mw_ring_send_s(&ring, 8e9), 8 + 1e-3);
}

/* The slower stretch sets the pace: with siblings on the same NIC that between the nodes. */
static void
test_nodes(void)
{
    const struct mw_ring alone = mw_ring_of(&machine, 8, 4, 1);
    const struct mw_ring sibling = mw_ring_of(&machine, 8, 4, 4);

    g_assert_cmpfloat(alone.nodes, ==, 2);
    assert_near(mw_ring_s(&alone, 8e9), 7 + 1e-2 + 3e-3);
    assert_near(mw_ring_s(&sibling, 8e9), 16 + 1e-2 + 3e-3);
    assert_near(mw_ring_broadcast_s(&sibling, 8e9), 32 + 1e-2 + 2e-3);
    assert_near(mw_ring_send_s(&sibling, 8e9), 32 + 1e-2);
}

/* Without any fabric, as on machines of one GPU. */
static void
test_one_rank_per_node(void)
{
    struct mw_hardware apart = machine;

    apart.fabric_bytes_per_s = 0;
    const struct mw_ring ring = mw_ring_of(&apart, 4, 1, 1);
    assert_near(mw_ring_s(&ring, 8e9), 6 + 3e-2);
    assert_near(mw_ring_broadcast_s(&ring, 8e9), 8 + 2e-2);
}

/* The last node is not full. */
static void
test_uneven(void)
{
    const struct mw_ring ring = mw_ring_of(&machine, 6, 4, 1);

    g_assert_cmpfloat(ring.nodes, ==, 2);
    assert_near(mw_ring_s(&ring, 6e9), 5 + 1e-2 + 3e-3);
}

/* Each rank of a node sends its own bytes to the other nodes: four times what a ring passes. */
static void
test_all_to_all(void)
{
    const struct mw_ring ring = mw_ring_of(&machine, 8, 4, 1),
                         alone = mw_ring_of(&machine, 4, 4, 1);
    double latency_s = mw_ring_all_to_all_s(&ring, 0);

    assert_near(mw_ring_all_to_all_s(&ring, 8e9) - latency_s, 4 * 4e9 / machine.nic_bytes_per_s);
    assert_near(mw_ring_all_to_all_s(&alone, 8e9), mw_ring_s(&alone, 8e9));
}

/* --- by algorithm and protocol --------------------------------------------------------------- */

/* Messages so small that only hops count: 0.6 us a hop within a node, 2.7 between nodes. */
static const struct mw_hardware library = {.fabric_bytes_per_s = 1e11,
                                           .nic_bytes_per_s = 1e11,
                                           .fabric_latency_s = 0.6e-6,
                                           .nic_latency_s = 2.7e-6,
                                           .fabric_start_s = 6.6e-6,
                                           .nic_start_s = 6.6e-6};

static void
assert_us(double seconds, double us)
{
    g_assert_cmpfloat_with_epsilon(seconds * 1e6, us, 1e-6 * (1 + us));
}

static void
test_start(void)
{
    const struct mw_ring ring = mw_ring_of(&library, 8, 8, 1);

    assert_us(mw_ring_s(&ring, 0), 6.6 + 7 * 0.6);
    assert_us(mw_ring_all_reduce_s(&ring, 0), 6.6 + 14 * 0.6);
    assert_us(mw_ring_all_to_all_s(&ring, 0), 6.6 + 0.6);
    assert_us(mw_ring_send_s(&ring, 0), 6.6 + 0.6);
    assert_us(mw_ring_broadcast_s(&ring, 0), 6.6 + 7 * 0.6);
}

/* Each protocol has sizes at which it is the fastest. */
static void
test_protocols(void)
{
    const struct mw_ring ring = mw_ring_of(&library, 8, 8, 1);

    assert_us(mw_ring_s(&ring, 80e3), 6.6 + 7 * 0.6 + 70e3 / 0.38e5);
    assert_us(mw_ring_s(&ring, 2e6), 14 + 7 * 1.9 + 1.75e6 / 0.92e5);
    assert_us(mw_ring_s(&ring, 8e9), 8.4 + 7 * 3.4 + 7e9 / 1e5);
    assert_us(mw_ring_all_reduce_s(&ring, 8e9), 8.4 + 14 * 3.4 + 14e9 / 1e5);
}

/* A ring that passes all ranks carries nearly all of the tensor between any two of them. */
static void
test_flat_rings(void)
{
    const struct mw_ring ring = mw_ring_of(&library, 16, 8, 1);

    assert_us(mw_ring_s(&ring, 0), 6.6 + 14 * 0.6 + 2.7);
    assert_us(mw_ring_s(&ring, 16e9), 8.4 + 14 * 3.4 + 14 + 15e9 / 1e5);
    assert_us(mw_ring_crossing(&ring, MW_RING_GATHER) * 1e-6, 15.0 / 8);
}

/* Of two nodes, trees pass half as much; of many, as much as a ring, in fewer hops. */
static void
test_trees(void)
{
    struct mw_hardware slow = library;

    slow.nic_bytes_per_s = 1e10;
    const struct mw_ring two = mw_ring_of(&slow, 16, 8, 1), many = mw_ring_of(&library, 512, 8, 1);
    assert_us(mw_ring_all_reduce_s(&two, 16e9), 8.4 + 2 * (7 * 4 + 14) + 16e9 / 0.92e4);
    assert_us(mw_ring_all_reduce_s(&many, 0), 6.6 + 2 * (7 * 0.6 + 6 * 5));
    assert_us(mw_ring_crossing(&two, MW_RING_ALL_REDUCE) * 1e-6, 1);
    assert_us(mw_ring_crossing(&many, MW_RING_ALL_REDUCE) * 1e-6, 511.0 / 512 / (63.0 / 64));
}

static void
test_switch(void)
{
    struct mw_hardware adds = library;

    adds.fabric_all_reduce_bytes_per_s = 1.5e11;
    const struct mw_ring ring = mw_ring_of(&adds, 8, 8, 1);
    assert_us(mw_ring_all_reduce_s(&ring, 8e9), 8.4 + 25 + 14e9 / 1.5e5);
    assert_us(mw_ring_s(&ring, 8e9), 8.4 + 7 * 3.4 + 7e9 / 1e5);
}

/* Each rank of a node sends its own to the other node; one alone has its own adapter. */
static void
test_adapters(void)
{
    struct mw_hardware adapters = library;

    adapters.nic_gpu_bytes_per_s = 1e11 / 8;
    const struct mw_ring all = mw_ring_of(&adapters, 16, 8, 1),
                         one = mw_ring_of(&adapters, 2, 1, 1);
    assert_us(mw_ring_all_to_all_s(&all, 1e9), 8.4 + 14 + 8 * 0.5e9 / 1e5);
    assert_us(mw_ring_send_s(&one, 1e9), 8.4 + 14 + 8e9 / 1e5);
    assert_us(mw_ring_s(&one, 1e9), 8.4 + 14 + 8 * 0.5e9 / 1e5);
}

/* More ranks never make it faster, nor do more bytes. */
static void
test_rising(void)
{
    for (double ranks = 8; ranks <= 4096; ranks *= 2) {
        const struct mw_ring some = mw_ring_of(&library, ranks, 8, 1);
        const struct mw_ring more = mw_ring_of(&library, 2 * ranks, 8, 1);
        for (double bytes = 1; bytes < 1e10; bytes *= 3) {
            g_assert_cmpfloat(mw_ring_s(&some, bytes), <, mw_ring_s(&more, bytes));
            g_assert_cmpfloat(mw_ring_s(&some, bytes), <, mw_ring_s(&some, 3 * bytes));
            g_assert_cmpfloat(mw_ring_all_reduce_s(&some, bytes), <,
                              mw_ring_all_reduce_s(&some, 3 * bytes));
        }
    }
}

/* Eight blocks of a GB: seven rounds, in each the slower hop.  Between nodes one GPU sends to one,
 * whatever its node has of adapters. */
static void
test_passes(void)
{
    struct mw_hardware rails = machine;
    rails.nic_bytes_per_s = 8e9;
    rails.nic_gpu_bytes_per_s = 0.5e9;
    const struct mw_ring within = mw_ring_of_passes(&machine, 8, 8, 1);
    const struct mw_ring across = mw_ring_of_passes(&machine, 8, 4, 1);
    const struct mw_ring one_rail = mw_ring_of_passes(&rails, 8, 4, 1);

    assert_near(mw_ring_passes_s(&within, 8e9), 7 * (1 + 1e-3));
    assert_near(mw_ring_passes_s(&across, 8e9), 7 * (1 + 1e-2));
    assert_near(mw_ring_passes_s(&one_rail, 8e9), 7 * (2 + 1e-2));
    rails.nic_gpu_bytes_per_s = 4e9; /* the fabric is slower */
    const struct mw_ring many_rails = mw_ring_of_passes(&rails, 8, 4, 1);
    assert_near(mw_ring_passes_s(&many_rails, 8e9), 7 * (1 + 1e-3));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/ring/bytes", test_bytes);
    g_test_add_func("/ring/alone", test_alone);
    g_test_add_func("/ring/one-node", test_one_node);
    g_test_add_func("/ring/nodes", test_nodes);
    g_test_add_func("/ring/one-rank-per-node", test_one_rank_per_node);
    g_test_add_func("/ring/uneven", test_uneven);
    g_test_add_func("/ring/all-to-all", test_all_to_all);
    g_test_add_func("/ring/start", test_start);
    g_test_add_func("/ring/protocols", test_protocols);
    g_test_add_func("/ring/flat-rings", test_flat_rings);
    g_test_add_func("/ring/trees", test_trees);
    g_test_add_func("/ring/switch", test_switch);
    g_test_add_func("/ring/adapters", test_adapters);
    g_test_add_func("/ring/rising", test_rising);
    g_test_add_func("/ring/passes", test_passes);
    return g_test_run();
}
