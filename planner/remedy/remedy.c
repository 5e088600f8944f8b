/* "Does not fit" is an answer: says what change of the request would make it fit. */
#include <glib.h>

#include "planner/remedy/internal.h"

bool
mw_remedy_fits_with(const struct mw_request *request, const struct mw_settings *settings,
                    enum mw_strategy strategy)
{
    struct mw_settings asked = *settings, s;

    asked.strategy = strategy;
    return mw_settings_complete(request, &asked, &s, NULL) && mw_planner_fits(request, &s);
}

/* With the strategy of the settings; for auto with any, beginning with the most complex, which fits
 * most often. */
bool
mw_remedy_fits(const struct mw_unfit *unfit, const struct mw_settings *settings)
{
    const struct mw_strategies strategies = mw_strategies_of(settings->strategy);

    for (int i = strategies.count - 1; i >= 0; i--)
        if (mw_remedy_fits_with(unfit->request, settings, strategies.one[i]))
            return true;
    return false;
}

/* The smallest change first. */
static char *(*const ways[])(const struct mw_unfit *) = {
    mw_remedy_shared_slots,
    mw_remedy_chunks,
    mw_remedy_tiles,
    mw_remedy_usual_setting,
    mw_remedy_smaller_chunk,
    mw_remedy_buffer_sets,
    mw_remedy_accumulation,
    mw_remedy_checkpoints,
    mw_remedy_smaller_batch,
    mw_remedy_strategy,
    mw_remedy_strategy_and_accumulation,
    mw_remedy_free_devices,
    mw_remedy_several_settings,
    mw_remedy_one_micro_batch,
    mw_remedy_slicing,
    mw_remedy_slicing_and_settings,
    mw_remedy_software,
    mw_remedy_gpus,
    mw_remedy_nodes,
    mw_remedy_upgrade,
    mw_remedy_upgrade_and_strategy,
    mw_remedy_machine,
    mw_remedy_rebuild,
    mw_remedy_rebuild_and_strategy,
    mw_remedy_memory,
};

char *
mw_planner_remedy(const struct mw_request *request, const struct mw_settings *asked,
                  const struct mw_sizing *sizing, const struct mw_remedy_here *here)
{
    struct mw_unfit unfit = {request, asked, sizing,
                             here && here->replaceable ? mw_profile_name(here->profile) : NULL,
                             here};
    char *text = NULL;

    for (size_t i = 0; i < G_N_ELEMENTS(ways) && !text; i++)
        text = ways[i](&unfit);
    return text;
}
