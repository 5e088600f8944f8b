/* The candidates of one strategy: what keeps all activations, what recomputes, and what has room
 * for parts on their way. */
#include <math.h>
#include <string.h>

#include "planner/settings/table.h"
#include "study/choose_internal.h"
#include "study/evaluate.h"

#define REFUSED_MICRO_BATCHES 64

/* Whether logits in one piece load the weights of their product twice, which they need on the GPU
 * for forward and again for backward.  In two or more pieces these follow each other. */
static bool
loads_logits_twice(const struct mw_sizing *sizing)
{
    const struct mw_settings *s = &sizing->settings;
    const struct mw_placement *params = &s->placement[MW_STATE_PARAMETERS];
    bool apart = sizing->params_partitioned && sizing->shards > 1;
    bool away = mw_placement_has(params, MW_TIER_CPU) || mw_placement_has(params, MW_TIER_NVME);

    return sizing->fits && s->logits_chunks == 1 && (apart || away) && s->pp == 1 &&
           !mw_settings_layer_order(s);
}

void
mw_choose_halve_logits(const struct mw_question *question, const struct mw_settings *resolved,
                       GPtrArray *candidates)
{
    const char *software = question->software ? mw_profile_name(question->software) : "";

    if (!strcmp(software, MW_SOFTWARE_OWN))
        return;
    for (guint i = 0; resolved->logits_chunks == MW_AUTO && i < candidates->len; i++) {
        struct mw_sizing *whole = candidates->pdata[i];
        struct mw_settings s = whole->settings;
        if (!loads_logits_twice(whole))
            continue;
        double worth = whole->hardware->memory_use.bytes_per_logit > 0 ? WORTH_COMPLEXITY : 1;
        s.logits_chunks = 2;
        struct mw_sizing *halves = mw_sizing_new(whole->model, whole->hardware, &s, NULL);
        bool faster = halves && halves->fits &&
                      worth * mw_estimate_s(halves, whole->hardware) <
                          mw_estimate_s(whole, whole->hardware) + mw_choose_fetch_s(whole) -
                              mw_choose_fetch_s(halves);
        mw_sizing_free(faster ? whole : halves);
        candidates->pdata[i] = faster ? halves : whole;
    }
}

GPtrArray *
mw_choose_find_nearest(const struct mw_question *question, const struct mw_settings *asked,
                       GError **error)
{
    struct mw_request planned = {&question->model, &question->hardware[MW_OUTLOOK_TYPICAL]};
    struct mw_settings resolved;

    return mw_settings_complete(&planned, asked, &resolved, error)
               ? mw_planner_nearest_candidate(&planned, &resolved, error)
               : NULL;
}

GPtrArray *
mw_choose_find_with_needless(const struct mw_question *question, const struct mw_settings *asked,
                             GPtrArray *needless)
{
    struct mw_request planned = {&question->model, &question->hardware[MW_OUTLOOK_TYPICAL]};
    struct mw_settings resolved;

    GPtrArray *found = mw_settings_complete(&planned, asked, &resolved, NULL)
                           ? mw_planner_candidates_beside(&planned, &resolved, needless)
                           : NULL;
    if (found)
        mw_choose_halve_logits(question, &resolved, found);
    return found;
}

GPtrArray *
mw_choose_find_fitting(const struct mw_question *question, const struct mw_settings *asked)
{
    return mw_choose_find_with_needless(question, asked, NULL);
}

GPtrArray *
mw_choose_find_ahead(const struct mw_question *question, const struct mw_settings *asked,
                     GPtrArray *candidates, GPtrArray *needless)
{
    struct mw_settings settings = *asked;
    int64_t most = 0;

    for (guint i = 0; candidates && i < candidates->len; i++)
        most = MAX(most, mw_choose_most_ahead(question, candidates->pdata[i]));
    if (most < 2)
        return NULL;
    mw_settings_set_prefetch(&settings, most);
    return mw_choose_find_with_needless(question, &settings, needless);
}

double
mw_choose_best_estimate(GPtrArray *candidates)
{
    double best = 0;

    for (guint i = 0; candidates && i < candidates->len; i++) {
        const struct mw_sizing *sizing = candidates->pdata[i];
        best = fmax(best, sizing->fits ? mw_estimated_rate_of(sizing) : 0);
    }
    return best;
}

bool
mw_choose_stay_on_gpu(GPtrArray *candidates)
{
    bool stay = true;

    for (guint i = 0; candidates && i < candidates->len; i++)
        stay = stay && mw_choose_deepest_tier(candidates->pdata[i]) == MW_TIER_GPU;
    return stay;
}

double
mw_estimated_rate(const struct mw_question *question, const struct mw_settings *asked)
{
    g_autoptr(GPtrArray) candidates = mw_choose_find_fitting(question, asked);

    return mw_choose_best_estimate(candidates);
}

bool
mw_choose_may_keep_all(const struct mw_settings *asked)
{
    const struct mw_placement *checkpoints = &asked->placement[MW_STATE_ACTIVATIONS];
    bool moved = false;

    for (int i = 0; i < checkpoints->count; i++)
        moved = moved || checkpoints->part[i].tier != MW_TIER_GPU;
    return asked->checkpoint_interval == MW_AUTO && asked->param_loads != 2 && !moved &&
           asked->checkpoint_dtype == MW_DTYPE_NONE && !mw_kept_encodings(&asked->kept_as) &&
           asked->recompute_layers < 1 && mw_layer_set_is_empty(&asked->recompute_set);
}

bool
mw_choose_encodes_some(const struct mw_question *question, const struct mw_settings *asked)
{
    return mw_kept_encodings(&asked->kept_as) && asked->checkpoint_interval == MW_AUTO &&
           asked->recompute_layers == MW_AUTO && mw_layer_set_is_empty(&asked->recompute_set) &&
           asked->whole_checkpoints != 1 &&
           !mw_strategy_traits(asked->strategy)->whole_checkpoints &&
           !mw_settings_no_flush(asked) && !mw_settings_weights_later(asked) &&
           asked->layer_order != 1 &&
           question->hardware[MW_OUTLOOK_TYPICAL].offers.recomputed_layers;
}

struct mw_settings
mw_choose_with_many_ops(const struct mw_settings *asked)
{
    struct mw_settings settings = *asked;

    if (!asked->folds && (asked->grad_accum > 1 || asked->global_batch != MW_AUTO))
        settings.ops_max *= REFUSED_OPS * REFUSED_MICRO_BATCHES;
    return settings;
}

bool
mw_recomputes_for_eager(const struct mw_question *question, const struct mw_sizing *sizing)
{
    struct mw_settings asked = question->settings;
    struct mw_question once = *question;
    double chosen = mw_estimated_rate_of(sizing);

    if (!mw_choose_may_keep_all(&asked) || !sizing->settings.checkpoint_interval ||
        mw_settings_keeps_whole(&sizing->settings))
        return false;
    asked.strategy = sizing->settings.strategy;
    asked.checkpoint_interval = 0;
    once.hardware[MW_OUTLOOK_TYPICAL].memory_use.activations_kept = 1;
    if (!(mw_estimated_rate(&once, &asked) > chosen))
        return false;
    asked = mw_choose_with_many_ops(&asked);
    return !(mw_estimated_rate(question, &asked) > chosen);
}

bool
mw_fits_if_kept_once(const struct mw_sizing *sizing)
{
    struct mw_hardware once = *sizing->hardware;

    once.memory_use.activations_kept = 1;
    struct mw_sizing *other = mw_sizing_new(sizing->model, &once, &sizing->settings, NULL);
    bool fits = other && other->fits;
    mw_sizing_free(other);
    return fits;
}

struct mw_settings
mw_choose_keeping_all(const struct mw_settings *asked)
{
    struct mw_settings settings = *asked;

    settings.checkpoint_interval = 0;
    settings.fit_stages = false; /* more even stages for it are no gain */
    /* Of activations that would leave.  Without them it is refused. */
    if (settings.recompute_layers == MW_RECOMPUTE_FASTEST && settings.whole_checkpoints == 1)
        settings.recompute_layers = MW_AUTO;
    return settings;
}

struct mw_settings
mw_choose_recomputing_fewest(const struct mw_settings *asked)
{
    struct mw_settings settings = *asked;

    settings.recompute_layers = MW_RECOMPUTE_FEWEST;
    return settings;
}

GPtrArray *
mw_choose_find_fewest(const struct mw_question *question, const struct mw_settings *asked)
{
    struct mw_settings settings = mw_choose_recomputing_fewest(asked);

    return mw_choose_find_fitting(question, &settings);
}

bool
mw_choose_may_recompute_some(const struct mw_choose_search *search, const struct mw_settings *asked)
{
    return mw_choose_may_keep_all(asked) && asked->recompute_layers == MW_AUTO &&
           search->question->hardware[MW_OUTLOOK_TYPICAL].offers.recomputed_layers;
}
