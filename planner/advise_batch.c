/* Advises another micro-batch if a step has too many ops and another one has few enough. */
#include <glib.h>
#include <math.h>

#include "base/error.h"
#include "base/spell.h"
#include "planner/planner.h"
#include "planner/sizing/internal.h"

/* The same number of sequences per step, in fewer and larger micro-batches. */
static bool
fewer_micro_batches(const struct mw_request *request, struct mw_settings *s)
{
    int64_t sequences = llround(s->micro_batch * (double)mw_settings_sharers(s)) * s->grad_accum;

    while (--s->grad_accum >= 1) {
        if (sequences % s->grad_accum)
            continue;
        s->micro_batch = (double)(sequences / s->grad_accum) / (double)mw_settings_sharers(s);
        if (mw_planner_fits(request, s))
            return true;
    }
    return false;
}

/* Fewer sequences per step need fewer tiles and chunks. */
static bool
fewer_sequences(const struct mw_request *request, struct mw_settings *s)
{
    int64_t sequences = llround(s->micro_batch * (double)mw_settings_sharers(s));

    while ((sequences /= 2) >= 1) {
        s->micro_batch = (double)sequences / (double)mw_settings_sharers(s);
        if (mw_planner_fits(request, s))
            return true;
    }
    return false;
}

static char *
advice_text(const struct mw_request *request, const struct mw_settings *resolved)
{
    struct mw_settings s = *resolved;

    if (fewer_micro_batches(request, &s))
        return mw_spelled_printf("{batch=%.15g} {grad-accum=%" G_GINT64_FORMAT "}", s.micro_batch,
                                 s.grad_accum);
    s = *resolved;
    return s.global_batch == MW_AUTO && fewer_sequences(request, &s)
               ? mw_spelled_printf("{batch=%.15g}", s.micro_batch)
               : NULL;
}

void
mw_planner_advise_batch(const struct mw_request *request, const struct mw_settings *resolved,
                        GError **error)
{
    if (!g_error_matches(*error, MW_ERROR, MW_ERROR_LARGE) || resolved->micro_batch == MW_AUTO)
        return;
    g_autofree char *text = advice_text(request, resolved);
    if (!text)
        return;
    g_autoptr(GError) without = g_steal_pointer(error);
    g_set_error(error, MW_ERROR, MW_ERROR_LARGE, "%s, or %s", without->message, text);
}

int64_t
mw_planner_ops(const struct mw_sizing *sizing)
{
    return mw_sizing_built_ops(sizing);
}

int64_t
mw_planner_most_micro_batches(const struct mw_sizing *sizing)
{
    return mw_sizing_most_micro_batches(sizing->model, sizing->hardware, &sizing->settings);
}

void
mw_planner_refuse_ops(const struct mw_request *request, const struct mw_settings *asked,
                      const struct mw_sizing *chosen, const struct mw_nearest_batches *batches,
                      GError **error)
{
    struct mw_settings s = chosen->settings, resolved, of_strategy = *asked;
    GError *refused = NULL;

    if (!error || mw_sizing_built_ops(chosen) <= asked->ops_max)
        return;
    s.ops_max = asked->ops_max;
    of_strategy.strategy = s.strategy;
    mw_sizing_refuse_ops(request->model, request->hardware, &s, asked, batches, &refused);
    if (mw_settings_complete(request, &of_strategy, &resolved, NULL))
        mw_planner_advise_batch(request, &resolved, &refused);
    g_clear_error(error);
    *error = refused;
}
