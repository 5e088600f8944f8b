/*
 * random_plan.h - small plans for property tests of the engine: any dependencies, windows, matches
 * and draws that cannot deadlock.  They have no slots and are marked as checked by hand.
 */
#ifndef MW_TESTS_RANDOM_PLAN_H
#define MW_TESTS_RANDOM_PLAN_H

#include <glib.h>

#include "sim/cost.h"

struct mw_plan *random_plan(GRand *random);

/* Durations and rates out of nowhere; an op alone is never slowed. */
void random_costs(GRand *random, const struct mw_plan *plan, struct mw_costs *costs);

#endif
