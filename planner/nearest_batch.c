/* Finds the nearest global batch that can be planned, if the requested one has too many ops. */
#include <glib.h>
#include <math.h>

#include "planner/planner.h"
#include "planner/sizing/internal.h"

#define GRAD_ACCUM_MAX 65536
/* How many numbers of micro-batches are tried to come close to the request. */
#define SPLITS_LOOKED_AT 64

/* The most sequences per data-parallel group, at most `below`, in at most `accum` micro-batches
 * that fit, as `largest` sequences do. */
static int64_t
most_sequences(int64_t below, int64_t largest, int64_t accum, bool open)
{
    int64_t fewest = (below + largest - 1) / largest, best = 0;

    if (below < 1)
        return 0;
    if (accum < fewest || !open)
        return largest * MIN(accum, below / largest);
    for (int64_t a = fewest; a <= MIN(accum, fewest + SPLITS_LOOKED_AT); a++)
        best = MAX(best, below / a * a);
    return best;
}

/* The same for one placement and micro-batch, with at most `ops_max` ops. */
static int64_t
nearest_of(const struct mw_sizing *sizing, const struct mw_settings *asked, int64_t ops_max)
{
    struct mw_settings s = sizing->settings;
    int64_t below = (asked->global_batch - 1) / sizing->dp;

    s.ops_max = ops_max;
    s.grad_accum = MIN(MAX(below, 2), GRAD_ACCUM_MAX);
    int64_t accum = mw_sizing_most_micro_batches(sizing->model, sizing->hardware, &s);
    return sizing->dp *
           most_sequences(below, sizing->sequences, accum, asked->micro_batch == MW_AUTO);
}

void
mw_planner_nearest_batches(const struct mw_request *request, const struct mw_settings *asked,
                           struct mw_nearest_batches *batches)
{
    struct mw_settings two = *asked, resolved;

    /* Two or more micro-batches need the same memory. */
    two.global_batch = MW_AUTO;
    two.grad_accum = 2;
    two.step_tokens_max = 0;
    if (!mw_settings_complete(request, &two, &resolved, NULL))
        return;
    g_autoptr(GPtrArray) found = mw_planner_fitting_candidates(request, &resolved);
    for (guint i = 0; i < found->len; i++) {
        int64_t quick = nearest_of(found->pdata[i], asked, MIN(MW_OPS_QUICK, asked->ops_max));
        int64_t most = nearest_of(found->pdata[i], asked, asked->ops_max);
        batches->quick = MAX(batches->quick, quick);
        batches->most = MAX(batches->most, most);
    }
}
