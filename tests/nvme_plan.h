/*
 * nvme_plan.h - a made-up plan in the shape of ZeRO-Infinity with state on NVMe, in any size: for
 * measuring the engine alone.  It has no slots and is marked as checked by hand.
 */
#ifndef MW_TESTS_NVME_PLAN_H
#define MW_TESTS_NVME_PLAN_H

#include "hardware/hwprofile.h"
#include "plan/plan.h"

/* At least `ops` ops, to the next whole layer. */
struct mw_plan *mw_nvme_plan(uint32_t ops);

/* A node in the range of a DGX-2 on which its drives, links and DRAM are all short. */
struct mw_hardware mw_nvme_hardware(void);

#endif
