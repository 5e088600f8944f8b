/* Collectives by algorithm and protocol: docs/MODEL.md 7.7a. */
#include <glib.h>
#include <math.h>

#include "hardware/ring.h"

/* What NCCL's three protocols take, in units of what the profile says of a small message: of its
 * start, and of one hop of a ring within a node and between nodes.  Shares are of the links' rates.
 * Source: NVIDIA/nccl@5067397, src/graph/tuning.cc (rates/collectives.csv): baseLatencies, by the
 * 6.6 us of Ring LL; hwLatencies of NVLink by its 0.6, of the network by its 2.7; perChMax* and
 * llMaxBws.  LL reaches 87.7 of 235 GB/s (A100), 141 of 370 (H100) and 282 of 680 (B200) within a
 * node, and 19 to 22.5 of 190, 35 to 45 of 380 and 70 to 90 of 380 between nodes. */
static const struct protocol {
    double start;
    double ring_hop, ring_nic_hop;
    double tree_hop, tree_nic_hop;
    double share, nic_share;
} protocols[] = {
    {1, 1, 1, 1, 5.0 / 2.7, 0.38, 0.12},                                 /* LL */
    {14 / 6.6, 1.9 / 0.6, 4.0 / 2.7, 1.25 / 0.6, 8.5 / 2.7, 0.92, 0.92}, /* LL128 */
    {8.4 / 6.6, 3.4 / 0.6, 14 / 2.7, 4.0 / 0.6, 14 / 2.7, 1, 1},         /* Simple */
};

/* In the switch, by the third protocol: NVLS, and NVLSTree over nodes (same source). */
#define SWITCH_HOP (25 / 0.6)
#define SWITCH_NIC_HOP (20.9 / 2.7)

/* What trees reach of their links (same source). */
#define TREE_SHARE 0.92

static const struct protocol *const simple = &protocols[G_N_ELEMENTS(protocols) - 1];

/* The bytes that a link of a flat ring passes: every rank sends to the next, on whatever node. */
static double
ring_bytes(const struct mw_ring *ring, enum mw_ring_kind kind, double bytes)
{
    double once = mw_ring_bytes(bytes, ring->ranks);

    return kind == MW_RING_BROADCAST ? bytes : kind == MW_RING_ALL_REDUCE ? 2 * once : once;
}

/* The bytes that a node sends to others in two binary trees of half the tensor each.  A node is a
 * leaf of one and has up to two children in the other; of two nodes each is a root and a leaf
 * (Sanders, Speck and Traff, "Two-tree algorithms for full bandwidth broadcast, reduction and
 * scan", Parallel Computing 35(12), 2009; NCCL's double binary trees). */
static double
tree_nic_bytes(const struct mw_ring *ring, double bytes)
{
    return bytes * fmin(ring->nodes / 2, 2);
}

static double
within_s(const struct mw_ring *ring, double bytes, double bytes_per_s)
{
    return ring->ranks_per_node > 1 ? bytes / bytes_per_s : 0;
}

static double
ring_s(const struct mw_ring *ring, enum mw_ring_kind kind, double bytes, const struct protocol *p)
{
    double rounds = kind == MW_RING_ALL_REDUCE ? 2 : 1;
    double near_hops = ring->ranks - ring->nodes, far_hops = ring->nodes - 1;
    double passed = ring_bytes(ring, kind, bytes);
    double bytes_s = within_s(ring, passed, ring->fabric_bytes_per_s * p->share);

    if (ring->nodes > 1)
        bytes_s = fmax(bytes_s, passed / (ring->nic_bytes_per_s * p->nic_share));
    return p->start * ring->start_s + bytes_s +
           rounds * (near_hops * p->ring_hop * ring->fabric_latency_s +
                     far_hops * p->ring_nic_hop * ring->nic_latency_s);
}

/* Chains within nodes, trees between them: up to the root, and down again. */
static double
tree_s(const struct mw_ring *ring, double bytes, const struct protocol *p)
{
    double near_s = within_s(ring, ring_bytes(ring, MW_RING_ALL_REDUCE, bytes),
                             ring->fabric_bytes_per_s * p->share);
    double far_s = tree_nic_bytes(ring, bytes) / (ring->nic_bytes_per_s * p->nic_share);

    return p->start * ring->start_s + fmax(near_s, far_s) / TREE_SHARE +
           2 * ((ring->ranks_per_node - 1) * p->tree_hop * ring->fabric_latency_s +
                ceil(log2(ring->nodes)) * p->tree_nic_hop * ring->nic_latency_s);
}

/* The switch of each node adds up; trees between nodes. */
static double
switch_s(const struct mw_ring *ring, double bytes)
{
    double bytes_s = ring_bytes(ring, MW_RING_ALL_REDUCE, bytes) / ring->switch_bytes_per_s;
    double latency_s = SWITCH_HOP * ring->fabric_latency_s;

    if (ring->nodes > 1) {
        bytes_s = fmax(bytes_s, tree_nic_bytes(ring, bytes) / ring->nic_bytes_per_s);
        latency_s += 2 * ceil(log2(ring->nodes)) * SWITCH_NIC_HOP * ring->nic_latency_s;
    }
    return simple->start * ring->start_s + latency_s + bytes_s;
}

static double
all_reduce_s(const struct mw_ring *ring, double bytes)
{
    double best_s = INFINITY;

    for (size_t i = 0; i < G_N_ELEMENTS(protocols); i++) {
        best_s = fmin(best_s, ring_s(ring, MW_RING_ALL_REDUCE, bytes, &protocols[i]));
        if (ring->nodes > 1)
            best_s = fmin(best_s, tree_s(ring, bytes, &protocols[i]));
    }
    if (ring->switch_bytes_per_s > 0 && ring->ranks_per_node > 1)
        best_s = fmin(best_s, switch_s(ring, bytes));
    return best_s;
}

/* Messages to all others at once, or to one: a hop.  Each rank of a node sends its own to all on
 * other nodes. */
static double
direct_s(const struct mw_ring *ring, enum mw_ring_kind kind, double bytes, const struct protocol *p)
{
    bool far = ring->nodes > 1;
    double hop_s =
        far ? p->ring_nic_hop * ring->nic_latency_s : p->ring_hop * ring->fabric_latency_s;
    double near_rate = ring->fabric_bytes_per_s * p->share;
    double far_rate = ring->nic_bytes_per_s * p->nic_share;
    double bytes_s;

    if (kind == MW_RING_SEND)
        bytes_s = bytes / (far ? far_rate : near_rate);
    else
        bytes_s =
            fmax(within_s(ring, mw_ring_bytes(bytes, ring->ranks), near_rate),
                 far ? ring->ranks_per_node * mw_ring_bytes(bytes, ring->nodes) / far_rate : 0);
    return p->start * ring->start_s + hop_s + bytes_s;
}

double
mw_ring_by_protocol_s(const struct mw_ring *ring, enum mw_ring_kind kind, double bytes)
{
    bool direct = kind == MW_RING_SEND || kind == MW_RING_ALL_TO_ALL;
    double best_s = INFINITY;

    if (ring->ranks <= 1)
        return 0;
    if (kind == MW_RING_ALL_REDUCE)
        return all_reduce_s(ring, bytes);
    for (size_t i = 0; i < G_N_ELEMENTS(protocols); i++)
        best_s = fmin(best_s, direct ? direct_s(ring, kind, bytes, &protocols[i])
                                     : ring_s(ring, kind, bytes, &protocols[i]));
    return best_s;
}

double
mw_ring_crossing(const struct mw_ring *ring, enum mw_ring_kind kind)
{
    double planned = mw_ring_bytes(1, ring->nodes);

    if (!ring->by_protocol || ring->nodes <= 1)
        return 1;
    switch (kind) {
    case MW_RING_GATHER:
        return mw_ring_bytes(1, ring->ranks) / planned;
    case MW_RING_ALL_REDUCE:
        return fmin(tree_nic_bytes(ring, 1), 2 * mw_ring_bytes(1, ring->ranks)) / (2 * planned);
    case MW_RING_ALL_TO_ALL: /* plans state what each rank of a node sends */
    case MW_RING_BROADCAST:
    case MW_RING_SEND:
        break;
    }
    return 1;
}
