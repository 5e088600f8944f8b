/* What a question does not say. */
#include "planner/settings/strategies.h"
#include "study/study.h"

/* Rates that memwall measured are those of its own kernels. */
const char *
mw_question_default_software(const struct mw_question *question)
{
    bool one = question->strategy_count == 1;
    enum mw_strategy strategy = one ? question->strategies[0] : MW_STRATEGY_AUTO;

    if (mw_hwprofile_calibrated(question->profile))
        return MW_SOFTWARE_OWN;
    if (question->settings.tp > 1 || question->settings.pp > 1)
        return MW_SOFTWARE_SLICED;
    return mw_strategy_traits(strategy)->software;
}

void
mw_question_sign(const struct mw_question *question, struct mw_plan *plan)
{
    mw_plan_set_machine(plan, mw_profile_name(question->profile));
    if (question->software)
        mw_plan_set_software(plan, mw_profile_name(question->software));
}
