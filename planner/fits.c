#include "planner/fits.h"

#include <glib.h>

bool
mw_fits_in_no_parts(const struct mw_sizing *sizing, const struct mw_settings *asked)
{
    static const enum mw_purpose cut[] = {MW_PURPOSE_PARAMETER_BUFFERS, MW_PURPOSE_SHARD_BUFFERS,
                                          MW_PURPOSE_GRADIENT_BUFFERS,
                                          MW_PURPOSE_OPTIMIZER_BUFFERS};

    for (int t = 0; t < MW_TIER_COUNT; t++) {
        int64_t rest = mw_sizing_peak(sizing, t);
        for (size_t p = 0; p < G_N_ELEMENTS(cut); p++)
            rest -= sizing->ledger[t][cut[p]];
        rest -= asked->logits_chunks == MW_AUTO ? sizing->ledger[t][MW_PURPOSE_LOGITS] : 0;
        if (rest > sizing->tiers[t].capacity_bytes)
            return true;
    }
    return false;
}

/* More tiles and chunks take no more memory, but for what is rounded up: a lack of more than this
 * share of a tier's capacity is left by any fewer of them too. */
#define ROUNDING 0.001

/* Whether memory is short with as many tiles and chunks as there may be. */
static bool
lacks_in_smallest_parts(const struct mw_request *request, const struct mw_sizing *whole,
                        const struct mw_settings *settings)
{
    struct mw_settings s = *settings;

    if (s.logits_chunks == MW_AUTO)
        s.logits_chunks = mw_planner_most_chunks(whole);
    if (s.tiles == MW_AUTO && mw_planner_may_tile(request, whole))
        s.tiles = MW_TILES_MAX;
    struct mw_sizing *sizing = mw_sizing_new(request->model, request->hardware, &s, NULL);
    bool lacks = false;
    for (int t = 0; sizing && t < MW_TIER_COUNT; t++)
        lacks = lacks || (double)mw_sizing_lack_of(sizing, t) >
                             ROUNDING * (double)sizing->tiers[t].capacity_bytes;
    mw_sizing_free(sizing);
    return lacks;
}

bool
mw_fits_in_some_parts(const struct mw_request *request, const struct mw_settings *settings)
{
    struct mw_settings s = *settings;

    if (s.commit == MW_AUTO)
        s.commit = 0;
    struct mw_sizing *sizing = mw_sizing_new(request->model, request->hardware, &s, NULL);
    bool found = sizing && sizing->fits;
    bool open = s.tiles == MW_AUTO || s.logits_chunks == MW_AUTO;
    bool hopeless = !sizing || !open || mw_fits_in_no_parts(sizing, &s) ||
                    (!found && lacks_in_smallest_parts(request, sizing, &s));
    mw_sizing_free(sizing);
    if (found || hopeless)
        return found;
    sizing = mw_planner_size_placement(request, &s, NULL);
    found = sizing && sizing->fits;
    mw_sizing_free(sizing);
    return found;
}

int64_t
mw_fits_largest(const struct mw_request *request, const struct mw_settings *settings,
                mw_fits_number fit, int64_t guess, int64_t most)
{
    int64_t low = 0, high = MIN(MAX(1, guess), most), step = 1;

    while (high <= most && fit(request, settings, high)) {
        low = high;
        high = low == most ? most + 1 : MIN(high + step, most);
        step *= 2;
    }
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (fit(request, settings, middle))
            low = middle;
        else
            high = middle;
    }
    return low;
}
