/* stages.h - the stages of a pipeline, in an answer. */
#ifndef MW_STUDY_STAGES_H
#define MW_STUDY_STAGES_H

#include "plan/plan.h"
#include "study/result.h"

/* Of a checked plan; one that is no pipeline has no stages in its answer. */
void mw_result_set_stages(const struct mw_plan *plan, struct mw_result *result);
/* Once it is simulated. */
void mw_result_set_stage_times(const struct mw_plan *plan, const struct mw_timeline *timeline,
                               struct mw_result *result);

#endif
