/* The plans of a run whose steps are not all alike, and which step takes which. */
#include "planner/build/build.h"

#include "plan/variants.h"

/* The steps before --dpu-start update as if there were no delay, which takes no more room. */
static struct mw_plan *
build_undelayed(const struct mw_sizing *sizing)
{
    struct mw_settings settings = sizing->settings;

    settings.dpu_start = MW_AUTO;
    struct mw_sizing *undelayed = mw_sizing_new(sizing->model, sizing->hardware, &settings, NULL);
    struct mw_plan *plan = mw_build_plan(undelayed);
    mw_sizing_free(undelayed);
    return plan;
}

struct mw_variants *
mw_build_variants(const struct mw_sizing *sizing, struct mw_plan *plan)
{
    int64_t delayed_from = sizing->settings.dpu_start;

    if (delayed_from <= 0)
        return mw_variants_new(plan);
    struct mw_variants *variants = mw_variants_new(build_undelayed(sizing));
    uint32_t delayed = mw_variants_add(variants, plan);
    mw_variants_from(variants, delayed_from, &delayed, 1);
    return variants;
}
