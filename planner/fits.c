#include "planner/fits.h"

#include <glib.h>

#include "planner/known.h"

/* Bytes that no number of tiles changes. */
static int64_t
uncut_bytes(const struct mw_sizing *sizing, enum mw_tier tier)
{
    static const enum mw_purpose cut[] = {MW_PURPOSE_PARAMETER_BUFFERS, MW_PURPOSE_SHARD_BUFFERS,
                                          MW_PURPOSE_GRADIENT_BUFFERS,
                                          MW_PURPOSE_OPTIMIZER_BUFFERS};
    int64_t bytes = mw_sizing_peak(sizing, tier);

    for (size_t p = 0; p < G_N_ELEMENTS(cut); p++)
        bytes -= sizing->ledger[tier][cut[p]];
    return bytes;
}

bool
mw_fits_in_no_parts(const struct mw_sizing *sizing, const struct mw_settings *asked)
{
    for (int t = 0; t < MW_TIER_COUNT; t++) {
        int64_t rest = uncut_bytes(sizing, t);
        rest -= asked->logits_chunks == MW_AUTO ? sizing->ledger[t][MW_PURPOSE_LOGITS] : 0;
        if (rest > sizing->tiers[t].capacity_bytes)
            return true;
    }
    return false;
}

static bool
fits_in_some_parts(const struct mw_request *request, const struct mw_settings *settings)
{
    struct mw_sizing *sizing = mw_sizing_new(request->model, request->hardware, settings, NULL);
    bool found = sizing && sizing->fits;
    bool open = settings->tiles == MW_AUTO || settings->logits_chunks == MW_AUTO;

    if (sizing && !found && open && !mw_fits_in_no_parts(sizing, settings))
        return mw_planner_has_room(request, settings, sizing);
    mw_sizing_free(sizing);
    return found;
}

bool
mw_fits_in_some_parts(const struct mw_request *request, const struct mw_settings *settings)
{
    struct mw_settings s = *settings;

    if (s.commit == MW_AUTO)
        s.commit = 0;
    struct mw_known_key key;
    bool fits;
    mw_known_key_init(&key, request, &s);
    if (!mw_known_fits(&key, &fits)) {
        fits = fits_in_some_parts(request, &s);
        mw_known_keep_fits(&key, fits);
    }
    return fits;
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
