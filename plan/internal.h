/*
 * internal.h - what the files of the plan library share with each other.
 */
#ifndef MW_PLAN_INTERNAL_H
#define MW_PLAN_INTERNAL_H

#include "plan/plan.h"

/* Op indices share a word with MW_DEP_PREVIOUS_STEP. */
#define MW_PLAN_MAX_OPS 0x7fffffffu

/* Zeroed; aborts when memory is out.  free() it. */
void *mw_plan_allocate(size_t count, size_t size);

/* Whether an op of the kind may use a slot in the role; both in range. */
bool mw_plan_may_have(int kind, int role);

#endif
