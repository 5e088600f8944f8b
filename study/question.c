/* What a question does not say. */
#include "planner/settings/strategies.h"
#include "study/study.h"

const char *
mw_default_software(enum mw_strategy strategy, int64_t tp, int64_t pp)
{
    return tp > 1 || pp > 1 ? MW_SOFTWARE_SLICED : mw_strategy_traits(strategy)->software;
}

/* Rates that memwall measured are those of its own kernels. */
const char *
mw_question_default_software(const struct mw_question *question)
{
    bool one = question->strategy_count == 1;
    enum mw_strategy strategy = one ? question->strategies[0] : MW_STRATEGY_AUTO;

    if (mw_hwprofile_calibrated(question->profile))
        return MW_SOFTWARE_OWN;
    return mw_default_software(strategy, question->settings.tp, question->settings.pp);
}

void
mw_question_sign(const struct mw_question *question, struct mw_plan *plan)
{
    mw_plan_set_machine(plan, mw_profile_name(question->profile));
    if (question->software)
        mw_plan_set_software(plan, mw_profile_name(question->software));
}
