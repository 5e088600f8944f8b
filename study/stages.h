/* stages.h - the stages of a pipeline, in an answer. */
#ifndef MW_STUDY_STAGES_H
#define MW_STUDY_STAGES_H

#include "plan/plan.h"
#include "study/result.h"

/* Sets the stages of a checked plan; a plan that is no pipeline has none. */
void mw_result_set_stages(const struct mw_plan *plan, struct mw_result *result);
/* Sets their times, once the plan is simulated. */
void mw_result_set_stage_times(const struct mw_plan *plan, const struct mw_timeline *timeline,
                               struct mw_result *result);

#endif
