/*
 * ring.h - what a collective takes on the links of a machine.
 *
 * A ring passes each rank and each node once; its slower stretch sets the pace (Thakur,
 * Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005,
 * Sec. 4; NCCL's rings).  A broadcast is pipelined over a tree.  Bytes are those of the whole
 * tensor.  Equations 7.5 to 7.8 of docs/MODEL.md.
 */
#ifndef MW_HARDWARE_RING_H
#define MW_HARDWARE_RING_H

#include "hardware/hwprofile.h"

/* A group of ranks, as it lies on the machine. */
struct mw_ring {
    double ranks, nodes, ranks_per_node;
    double fabric_bytes_per_s;              /* of a rank, within its node */
    double nic_bytes_per_s;                 /* of the group, between nodes */
    double fabric_latency_s, nic_latency_s; /* of a hop */
};

/* `groups_per_node` of them share the node's NIC at the same time. */
struct mw_ring mw_ring_of(const struct mw_hardware *hardware, double ranks, double ranks_per_node,
                          double groups_per_node);

/* What a rank passes on of an all-gather, a reduce-scatter or an all-to-all among so many: all but
 * its own part.  An all-reduce is two of them. */
double mw_ring_bytes(double bytes, double ranks);

/* Time of an all-gather, a reduce-scatter or an all-to-all; an all-reduce takes twice as long.  Of
 * one rank none. */
double mw_ring_s(const struct mw_ring *ring, double bytes);

/* All bytes pass every link once; the latency counts the levels of the tree. */
double mw_ring_broadcast_s(const struct mw_ring *ring, double bytes);

/* From one rank to another: on another node, if the group has several. */
double mw_ring_send_s(const struct mw_ring *ring, double bytes);

#endif
