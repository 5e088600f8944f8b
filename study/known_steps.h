/* known_steps.h - steps by the engine, and of those what is already known. */
#ifndef MW_STUDY_KNOWN_STEPS_H
#define MW_STUDY_KNOWN_STEPS_H

#include "planner/planner.h"
#include "sim/engine.h"

/* Runs the engine on a checked plan.  It refuses, with `result` empty, a plan that would take the
 * machine decades, or that needs something the machine lacks. */
bool mw_evaluate_plan(const struct mw_plan *plan, const struct mw_hardware *hardware,
                      bool keep_timeline, struct mw_engine_result *result, GError **error);
/* The step of a pipeline with many micro-batches, to the ns, by a plan with fewer and the time of
 * those that it lacks, which are alike; 0 if that cannot be said exactly. */
double mw_step_by_few_s(const struct mw_sizing *sizing);
/* Steady step time in seconds, INFINITY if the engine refuses; `uncontended` removes the limits of
 * all channels (the longest path). */
double mw_step_s(const struct mw_plan *plan, const struct mw_hardware *hardware, bool uncontended);

/* Steps that were simulated, by plan and costs: machines that cost a plan the same are simulated
 * once.  It borrows the plans.  As an argument of the functions below NULL is allowed: nothing is
 * known, or kept. */
struct mw_known_steps;
struct mw_known_steps *mw_known_steps_new(void);
void mw_known_steps_free(struct mw_known_steps *known); /* NULL is allowed */
/* As mw_evaluate_plan. */
bool mw_known_evaluate(struct mw_known_steps *known, const struct mw_plan *plan,
                       const struct mw_hardware *hardware, bool keep_timeline,
                       struct mw_engine_result *result, GError **error);
double mw_known_step_s(struct mw_known_steps *known, const struct mw_plan *plan,
                       const struct mw_hardware *hardware, bool uncontended);
/* The mean over the cycle of variants that goes on for ever. */
double mw_cycle_s(struct mw_known_steps *known, const struct mw_variants *variants,
                  const struct mw_hardware *hardware, bool uncontended);

#endif
