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
    return g_test_run();
}
