/*
 * simulated.h - plans simulated by tests that want the step and no refusal.
 */
#ifndef MW_TESTS_SIMULATED_H
#define MW_TESTS_SIMULATED_H

#include "planner/planner.h"
#include "sim/engine.h"

/* Aborts where the engine refuses the plan.  mw_engine_result_clear the result. */
struct mw_engine_result mw_test_simulate(const struct mw_plan *plan,
                                         const struct mw_hardware *hardware, bool keep_timeline);
int64_t mw_test_step_ns(const struct mw_plan *plan, const struct mw_hardware *hardware);

/* Invariant 9: ranks folded into `folded_programs` programs take the step that a program for every
 * rank takes, with the same peaks. */
void mw_test_folded_as_unfolded(const struct mw_sizing *sizing, const struct mw_hardware *hardware,
                                int64_t folded_programs);

#endif
