/*
 * reference_engine.h - the engine's semantics in the plainest way: every op in flight on its own,
 * everything recomputed at every event.  For comparing, on small plans.
 */
#ifndef MW_TESTS_REFERENCE_ENGINE_H
#define MW_TESTS_REFERENCE_ENGINE_H

#include "sim/engine.h"

struct reference_result {
    int64_t *start_ns, *end_ns; /* [steps * op_count] */
    int64_t *step_end_ns;       /* [steps] */
    bool converged;             /* false: some levels did not converge, so times are not exact */
};

void reference_run(const struct mw_plan *plan, const struct mw_costs *costs, uint32_t steps,
                   struct reference_result *result);
void reference_clear(struct reference_result *result);

#endif
