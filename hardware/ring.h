/*
 * ring.h - what a collective takes on the links of a machine.
 *
 * A ring passes each rank and each node once; its slower stretch sets the pace (Thakur,
 * Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005,
 * Sec. 4; NCCL's rings).  A broadcast is pipelined over a tree.  Bytes are those of the whole
 * tensor.  Equations 7.5 to 7.7 of docs/MODEL.md.
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
};

/* `groups_per_node` of them share the node's NIC at the same time. */
static inline struct mw_ring
mw_ring_of(const struct mw_hardware *hardware, double ranks, double ranks_per_node,
           double groups_per_node)
{
    return (struct mw_ring){
        .ranks = ranks,
        .nodes = ranks > ranks_per_node ? ceil(ranks / ranks_per_node) : 1,
        .ranks_per_node = ranks_per_node < ranks ? ranks_per_node : ranks,
        .fabric_bytes_per_s = hardware->fabric_bytes_per_s,
        .nic_bytes_per_s = hardware->nic_bytes_per_s / groups_per_node,
        .fabric_latency_s = hardware->fabric_latency_s,
        .nic_latency_s = hardware->nic_latency_s,
    };
}

/* What a rank sends in an all-gather, a reduce-scatter or an all-to-all of this many members: all
 * but its own part.  An all-reduce is two of them. */
static inline double
mw_ring_bytes(double bytes, double ranks)
{
    return bytes * (ranks - 1) / ranks;
}

/* Time of an all-gather, a reduce-scatter or an all-to-all; an all-reduce takes twice as long.  A
 * group with one rank per node has nothing to pass within it. */
static inline double
mw_ring_s(const struct mw_ring *ring, double bytes)
{
    double within_s =
        ring->ranks_per_node > 1 ? mw_ring_bytes(bytes, ring->ranks) / ring->fabric_bytes_per_s : 0;

    if (ring->nodes <= 1)
        return within_s + (ring->ranks - 1) * ring->fabric_latency_s;
    return fmax(within_s, mw_ring_bytes(bytes, ring->nodes) / ring->nic_bytes_per_s) +
           (ring->nodes - 1) * ring->nic_latency_s +
           (ring->ranks_per_node - 1) * ring->fabric_latency_s;
}

/* All bytes pass every link once; the latency counts the levels of the tree. */
static inline double
mw_ring_broadcast_s(const struct mw_ring *ring, double bytes)
{
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
    if (ring->nodes <= 1)
        return bytes / ring->fabric_bytes_per_s + ring->fabric_latency_s;
    return bytes / ring->nic_bytes_per_s + ring->nic_latency_s;
}

#endif
