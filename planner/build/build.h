/*
 * build.h - from a sizing to a plan: the ops of one training step, in order.
 *
 * The order follows ZeRO-Infinity Sec. 5 and 6: parameters are fetched ahead of use through nc-,
 * cg- and gg-transfers, gradients leave after the backward pass of their part, and the optimizer
 * step runs in chunks over a few buffer sets.  Dependencies are not written by hand: every op names
 * the slots that it uses, and the builder adds an edge for every hazard (read after write, write
 * after read, write after write) that its lane does not order already.
 */
#ifndef MW_PLANNER_BUILD_BUILD_H
#define MW_PLANNER_BUILD_BUILD_H

#include "plan/variants.h"
#include "planner/sizing/sizing.h"

/* The checked plan of a sizing that fits, with sections if settings.folds asks for them;
 * mw_plan_free it.  Aborts, naming the reason, if the plan does not pass mw_plan_check: that is a
 * defect of the builder, never of the input. */
struct mw_plan *mw_build_plan(const struct mw_sizing *sizing);
/* The same, or NULL: its layers do not come in rounds, and it has more ops than the settings'
 * ops_max. */
struct mw_plan *mw_build_small_plan(const struct mw_sizing *sizing);

/* The same for a step that leaves out layers ([sizing->layers], NULL: none): it touches neither
 * their parameters nor their state.  settings.drop_layers must be set. */
struct mw_plan *mw_build_plan_without(const struct mw_sizing *sizing, const bool *dropped);

/* The plans of all steps: `plan`, the sizing's own, which it takes ownership of, and those of steps
 * that differ. */
struct mw_variants *mw_build_variants(const struct mw_sizing *sizing, struct mw_plan *plan);

/* The same step with sections: only a few of what `folds` says are built, and those in the middle
 * are compared.  NULL if the step has few of them, if they are not alike, or if ranks have programs
 * of their own. */
struct mw_plan *mw_build_plan_folded(const struct mw_sizing *sizing, struct mw_folds folds);

/* The same without slots and homes, which of many layers take most of the time and memory: the
 * engine needs only what orders ops. */
struct mw_plan *mw_build_order(const struct mw_sizing *sizing, struct mw_folds folds);

#endif
