/*
 * numa.h - the host's update where a rank's pinned memory lies on one NUMA node.
 *
 * Linux takes the pages of pinned memory from the NUMA node of the thread that pins it, and they
 * stay there, whichever cores then read them.  So one rank's share of them has the rate of one
 * NUMA node alone; and of several ranks the step waits for those that share the fullest one.
 */
#ifndef MW_HARDWARE_NUMA_H
#define MW_HARDWARE_NUMA_H

#include "hardware/hwprofile.h"

/* Ranks on the fullest of `nodes` NUMA nodes: as few as can be if they are bound to them in turn,
 * else the mean over all ways in which chance puts each of them somewhere. */
double mw_numa_fullest(int64_t ranks, int64_t nodes, bool bound);

/* Parameters per second that the host of a node updates, of `ranks` ranks there. */
double mw_numa_update_params_per_s(const struct mw_hardware *hardware, int64_t ranks);

#endif
