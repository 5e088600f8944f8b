/*
 * ring.h - what a collective takes on the links of a machine.
 *
 * A ring passes each rank and each node once; its slower stretch sets the pace (Thakur,
 * Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005,
 * Sec. 4; NCCL's rings).  A broadcast is pipelined over a tree.  Bytes are those of the whole
 * tensor; of an all-to-all, those of one rank.  Equations 7.5 to 7.7 of docs/MODEL.md.
 *
 * Where the profile says what a collective takes before its first hop, NCCL's algorithms and
 * protocols take the place of the one ring: hardware/protocols.c, 7.7a.
 *
 * The functions are inline, because the closed form is asked millions of times per second.
 */
#ifndef MW_HARDWARE_RING_H
#define MW_HARDWARE_RING_H

#include <math.h>

#include "hardware/hwprofile.h"

/* A group of ranks, as it lies on the machine. */
struct mw_ring {
    double ranks, nodes, ranks_per_node;    /* 1 or more each */
    double fabric_bytes_per_s;              /* of a rank, within its node */
    double nic_bytes_per_s;                 /* of the group, between nodes */
    double fabric_latency_s, nic_latency_s; /* of a hop */
    bool by_protocol;                       /* protocols.c; else one ring, and the rest is unused */
    double start_s;                         /* before the first hop */
    double switch_bytes_per_s;              /* of all-reduces in the switch; 0: it has none */
};

/* Seconds of the fastest algorithm and protocol, for a group with by_protocol. */
enum mw_ring_kind {
    MW_RING_GATHER, /* all-gather, reduce-scatter */
    MW_RING_ALL_REDUCE,
    MW_RING_BROADCAST,
    MW_RING_ALL_TO_ALL,
    MW_RING_SEND, /* from one rank to another: on another node, if the group has several */
};
double mw_ring_by_protocol_s(const struct mw_ring *ring, enum mw_ring_kind kind, double bytes);
/* Of large messages, the bytes that pass a node's adapters, for each byte that one ring over nodes
 * would pass there (docs/MODEL.md 7.5); 1 without by_protocol, and of an all-to-all. */
double mw_ring_crossing(const struct mw_ring *ring, enum mw_ring_kind kind);

/* What the group's ranks have of the node's adapters.  `groups_per_node` groups share them. */
static inline double
mw_ring_nic_bytes_per_s(const struct mw_hardware *hardware, double ranks_per_node,
                        double groups_per_node)
{
    double shared = hardware->nic_bytes_per_s / groups_per_node;

    return hardware->nic_gpu_bytes_per_s > 0
               ? fmin(shared, ranks_per_node * hardware->nic_gpu_bytes_per_s)
               : shared;
}

/* `groups_per_node` of them share the node's NIC at the same time. */
static inline struct mw_ring
mw_ring_of(const struct mw_hardware *hardware, double ranks, double ranks_per_node,
           double groups_per_node)
{
    double nodes = ranks > ranks_per_node ? ceil(ranks / ranks_per_node) : 1;
    double start_s = nodes > 1 ? hardware->nic_start_s : hardware->fabric_start_s;

    return (struct mw_ring){
        .ranks = ranks,
        .nodes = nodes,
        .ranks_per_node = ranks_per_node < ranks ? ranks_per_node : ranks,
        .fabric_bytes_per_s = hardware->fabric_bytes_per_s,
        .nic_bytes_per_s = mw_ring_nic_bytes_per_s(hardware, ranks_per_node, groups_per_node),
        .fabric_latency_s = hardware->fabric_latency_s,
        .nic_latency_s = hardware->nic_latency_s,
        .by_protocol = start_s > 0,
        .start_s = start_s,
        .switch_bytes_per_s = hardware->fabric_all_reduce_bytes_per_s,
    };
}

/* The same for blocks that pass from each rank to the next: one rank of a node sends to another
 * node, by the adapters of one GPU. */
static inline struct mw_ring
mw_ring_of_passes(const struct mw_hardware *hardware, double ranks, double ranks_per_node,
                  double groups_per_node)
{
    struct mw_ring ring = mw_ring_of(hardware, ranks, ranks_per_node, groups_per_node);

    ring.nic_bytes_per_s = mw_ring_nic_bytes_per_s(hardware, 1, groups_per_node);
    return ring;
}

/* What a rank sends in an all-gather, a reduce-scatter or an all-to-all of this many members: all
 * but its own part.  An all-reduce is two of them. */
static inline double
mw_ring_bytes(double bytes, double ranks)
{
    return bytes * (ranks - 1) / ranks;
}

/* Time of an all-gather or a reduce-scatter.  A group with one rank per node has nothing to pass
 * within it. */
static inline double
mw_ring_s(const struct mw_ring *ring, double bytes)
{
    if (ring->by_protocol)
        return mw_ring_by_protocol_s(ring, MW_RING_GATHER, bytes);
    double within_s =
        ring->ranks_per_node > 1 ? mw_ring_bytes(bytes, ring->ranks) / ring->fabric_bytes_per_s : 0;

    if (ring->nodes <= 1)
        return within_s + (ring->ranks - 1) * ring->fabric_latency_s;
    return fmax(within_s, mw_ring_bytes(bytes, ring->nodes) / ring->nic_bytes_per_s) +
           (ring->nodes - 1) * ring->nic_latency_s +
           (ring->ranks_per_node - 1) * ring->fabric_latency_s;
}

/* A reduce-scatter and an all-gather, unless the library has something faster. */
static inline double
mw_ring_all_reduce_s(const struct mw_ring *ring, double bytes)
{
    return ring->by_protocol ? mw_ring_by_protocol_s(ring, MW_RING_ALL_REDUCE, bytes)
                             : 2 * mw_ring_s(ring, bytes);
}

/* Each rank of a node sends its own bytes to the other nodes, which a ring passes once for all. */
static inline double
mw_ring_all_to_all_s(const struct mw_ring *ring, double bytes)
{
    struct mw_ring of_node = *ring;

    if (ring->by_protocol)
        return mw_ring_by_protocol_s(ring, MW_RING_ALL_TO_ALL, bytes);
    of_node.nic_bytes_per_s /= ring->ranks_per_node;
    return mw_ring_s(&of_node, bytes);
}

/* All bytes pass every link once; the latency counts the levels of the tree. */
static inline double
mw_ring_broadcast_s(const struct mw_ring *ring, double bytes)
{
    if (ring->by_protocol)
        return mw_ring_by_protocol_s(ring, MW_RING_BROADCAST, bytes);
    double within_s = ring->ranks_per_node > 1 ? bytes / ring->fabric_bytes_per_s : 0;
    double latency_s = ceil(log2(ring->ranks_per_node)) * ring->fabric_latency_s;

    if (ring->nodes <= 1)
        return within_s + latency_s;
    return fmax(within_s, bytes / ring->nic_bytes_per_s) + latency_s +
           ceil(log2(ring->nodes)) * ring->nic_latency_s;
}

/* From one rank to another: on another node, if the group has several. */
static inline double
mw_ring_send_s(const struct mw_ring *ring, double bytes)
{
    if (ring->by_protocol)
        return mw_ring_by_protocol_s(ring, MW_RING_SEND, bytes);
    if (ring->nodes <= 1)
        return bytes / ring->fabric_bytes_per_s + ring->fabric_latency_s;
    return bytes / ring->nic_bytes_per_s + ring->nic_latency_s;
}

/* Each member's block visits all others: in every round all blocks hop at once, within nodes and
 * between them, and the slower hop sets the pace. */
static inline double
mw_ring_passes_s(const struct mw_ring *ring, double bytes)
{
    double block = bytes / ring->ranks, hop_s = mw_ring_send_s(ring, block);
    struct mw_ring within = *ring;

    within.nodes = 1;
    if (ring->ranks_per_node > 1)
        hop_s = fmax(hop_s, mw_ring_send_s(&within, block));
    return (ring->ranks - 1) * hop_s;
}

#endif
