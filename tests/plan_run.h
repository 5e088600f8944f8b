/*
 * plan_run.h - lets a checked plan run for some steps in a random timing, and watches its slots.
 */
#ifndef MW_TESTS_PLAN_RUN_H
#define MW_TESTS_PLAN_RUN_H

#include <glib.h>

#include "plan/plan.h"

/* Ops start as early as the rule in plan.h lets them and end in a random order within it.  Fails
 * the test if an op finds another content in a slot than it would in order of the indices, or
 * writes to a slot in use, or if the plan blocks.  The indices have to obey all edges. */
void plan_run(const struct mw_plan *plan, GRand *random, uint32_t steps);

#endif
