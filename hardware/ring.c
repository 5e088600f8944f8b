#include "hardware/ring.h"

#include <math.h>

struct mw_ring
mw_ring_of(const struct mw_hardware *hardware, double ranks, double ranks_per_node,
           double groups_per_node)
{
    struct mw_ring ring = {
        .ranks = fmax(ranks, 1),
        .fabric_bytes_per_s = hardware->fabric_bytes_per_s,
        .nic_bytes_per_s = hardware->nic_bytes_per_s / fmax(groups_per_node, 1),
        .fabric_latency_s = hardware->fabric_latency_s,
        .nic_latency_s = hardware->nic_latency_s,
    };

    ring.ranks_per_node = fmin(fmax(ranks_per_node, 1), ring.ranks);
    ring.nodes = ceil(ring.ranks / ring.ranks_per_node);
    return ring;
}

double
mw_ring_bytes(double bytes, double ranks)
{
    return bytes * (ranks - 1) / ranks;
}

/* A group with one rank per node has nothing to pass within it. */
static double
within_s(const struct mw_ring *ring, double bytes)
{
    return ring->ranks_per_node > 1 ? bytes / ring->fabric_bytes_per_s : 0;
}

double
mw_ring_s(const struct mw_ring *ring, double bytes)
{
    double within = within_s(ring, mw_ring_bytes(bytes, ring->ranks));

    if (ring->nodes <= 1)
        return within + (ring->ranks - 1) * ring->fabric_latency_s;
    return fmax(within, mw_ring_bytes(bytes, ring->nodes) / ring->nic_bytes_per_s) +
           (ring->nodes - 1) * ring->nic_latency_s +
           (ring->ranks_per_node - 1) * ring->fabric_latency_s;
}

double
mw_ring_broadcast_s(const struct mw_ring *ring, double bytes)
{
    double within = within_s(ring, bytes);
    double latency_s = ceil(log2(ring->ranks_per_node)) * ring->fabric_latency_s;

    if (ring->nodes <= 1)
        return within + latency_s;
    return fmax(within, bytes / ring->nic_bytes_per_s) + latency_s +
           ceil(log2(ring->nodes)) * ring->nic_latency_s;
}

double
mw_ring_send_s(const struct mw_ring *ring, double bytes)
{
    if (ring->nodes <= 1)
        return bytes / ring->fabric_bytes_per_s + ring->fabric_latency_s;
    return bytes / ring->nic_bytes_per_s + ring->nic_latency_s;
}
