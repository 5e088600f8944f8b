/*
 * planned.h - what the planner makes of GPT-3 175B with a given number of layers and all state on
 * NVMe, on one DGX-2 with as much memory as that takes.
 */
#ifndef MW_TESTS_PLANNED_H
#define MW_TESTS_PLANNED_H

#include "planner/planner.h"

struct planned {
    int64_t layers;
    int64_t gpus;
    double micro_batch;
    bool unfold;
    bool no_latency;
    const char *prefetch; /* as the setting is written; NULL: the usual */
};

/* Also gives the hardware that it was planned for; g_error if anything goes wrong. */
struct mw_plan *planned_new(struct planned what, struct mw_hardware *hardware);

#endif
