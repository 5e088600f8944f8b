/* The plans of a run whose steps are not all alike, and which step takes which. */
#include "planner/build/build.h"

#include <string.h>

#include "plan/variants.h"
#include "planner/settings/drops.h"

/* The steps before --dpu-start update as if there were no delay, which takes no more room. */
static struct mw_plan *
build_undelayed(const struct mw_sizing *sizing)
{
    struct mw_settings settings = sizing->settings;

    settings.dpu_start = MW_AUTO;
    if (settings.share_slots == MW_SHARE_ALL)
        settings.share_slots = MW_SHARE_BUFFERS; /* gradients that wait lie apart */
    struct mw_sizing *undelayed = mw_sizing_new(sizing->model, sizing->hardware, &settings, NULL);
    struct mw_plan *plan = mw_build_plan(undelayed);
    mw_sizing_free(undelayed);
    return plan;
}

static struct mw_variants *
build_delayed(const struct mw_sizing *sizing, struct mw_plan *plan)
{
    struct mw_variants *variants = mw_variants_new(build_undelayed(sizing));
    uint32_t delayed = mw_variants_add(variants, plan);

    mw_variants_from(variants, sizing->settings.dpu_start, &delayed, 1);
    return variants;
}

/* The earlier turn that leaves out the same layers; its own number where there is none. */
static uint32_t
same_turn(bool *const *dropped, uint32_t turn, int64_t layers)
{
    uint32_t same = 0;

    while (same < turn && (!dropped[same] != !dropped[turn] ||
                           (dropped[turn] && memcmp(dropped[same], dropped[turn], (size_t)layers))))
        same++;
    return same;
}

/* Variant 0 leaves out no layer; each other set of layers has a variant. */
static struct mw_variants *
build_drops(const struct mw_sizing *sizing, struct mw_plan *plan)
{
    const char *text = sizing->settings.drop_layers;
    int64_t layers = sizing->layers;
    uint32_t turns = mw_drops_turns(text), cycle[MW_DROPS_TURNS_MAX];
    bool *dropped[MW_DROPS_TURNS_MAX];
    struct mw_variants *variants = mw_variants_new(plan);

    for (uint32_t turn = 0; turn < turns; turn++) {
        dropped[turn] = mw_drops_of_turn(text, turn, layers);
        uint32_t same = same_turn(dropped, turn, layers);
        if (!dropped[turn])
            cycle[turn] = 0;
        else if (same < turn)
            cycle[turn] = cycle[same];
        else
            cycle[turn] = mw_variants_add(variants, mw_build_plan_without(sizing, dropped[turn]));
    }
    mw_variants_from(variants, mw_drops_first_step(text), cycle, turns);
    for (uint32_t turn = 0; turn < turns; turn++)
        g_free(dropped[turn]);
    return variants;
}

struct mw_variants *
mw_build_variants(const struct mw_sizing *sizing, struct mw_plan *plan)
{
    if (sizing->settings.drop_layers)
        return build_drops(sizing, plan);
    return sizing->settings.dpu_start > 0 ? build_delayed(sizing, plan) : mw_variants_new(plan);
}
