/* Candidates that recompute as few layers as memory allows. */
#include <math.h>

#include "planner/settings/table.h"
#include "study/choose_internal.h"
#include "study/evaluate.h"

/* Factor by which estimates must be better for recomputing fewer layers to be sought. */
#define WORTH_SIZING 1.01

/* Of the layers that `all` recomputes the share that the GPU has room to keep, and one more; `none`
 * keeps all.  Logits may be cut into so many chunks that they take nothing.  Of layers that are
 * unlike some may save more than their share. */
static double
share_with_room(const struct mw_sizing *all, const struct mw_sizing *none, bool chunks)
{
    double need = (double)mw_sizing_whole_need(all, MW_TIER_GPU);
    double more = (double)mw_sizing_whole_need(none, MW_TIER_GPU) - need;
    double left = (double)all->tiers[MW_TIER_GPU].capacity_bytes - need;
    int kinds = 0;

    left += chunks ? (double)all->ledger[MW_TIER_GPU][MW_PURPOSE_LOGITS] : 0;
    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++)
        kinds += all->classes[c].blocks > 0;
    return more > 0 && kinds == 1 ? fmin(1, left / more + 1.0 / (double)all->layers) : 1;
}

/* Whether keeping more activations than `all`, which recomputes all layers, is worth a search: what
 * fits would be faster than `floor`, and not those of all layers, for then another candidate keeps
 * them. */
static bool
may_gain(const struct mw_sizing *all, bool chunks, double floor)
{
    struct mw_settings settings = mw_choose_keeping_all(&all->settings);
    struct mw_sizing *none = mw_sizing_new(all->model, all->hardware, &settings, NULL);
    bool gains = false;

    if (none && !none->fits) {
        double all_s = mw_estimate_s(all, all->hardware);
        double saved_s = all_s - mw_estimate_s(none, all->hardware);
        double some_s = all_s - saved_s * share_with_room(all, none, chunks);
        gains = saved_s > 0 && mw_tokens_per_step(all) / some_s > floor;
    }
    mw_sizing_free(none);
    return gains;
}

/* What candidates with as few recomputed layers as fit are sought for. */
struct mix {
    struct mw_request planned;
    struct mw_settings resolved;
    bool on_gpu;  /* no candidate that treats all layers alike moves anything off the GPU */
    double alike; /* the best rate of those */
    double present;
    GPtrArray *found;
};

/* They have to be faster than what is there, and enough faster than what treats all layers alike,
 * where they are not simpler. */
static void
mix_in(struct mix *mix, const struct mw_sizing *all)
{
    double worth = mix->on_gpu ? WORTH_SIZING : WORTH_COMPLEXITY;
    double floor = fmax(worth * mix->alike, mix->present);

    if (all->fits && may_gain(all, mix->resolved.logits_chunks == MW_AUTO, floor))
        mw_planner_add_fewest(&mix->planned, &mix->resolved, all, mix->found);
}

/* Whether the same batch takes as little of the GPU in a placement that comes before. */
static bool
frees_nothing(GPtrArray *needless, guint number)
{
    const struct mw_sizing *one = needless->pdata[number];

    for (guint i = 0; i < number; i++) {
        const struct mw_sizing *other = needless->pdata[i];
        if (one->settings.micro_batch == other->settings.micro_batch &&
            one->settings.grad_accum == other->settings.grad_accum &&
            mw_sizing_whole_need(one, MW_TIER_GPU) >= mw_sizing_whole_need(other, MW_TIER_GPU))
            return true;
    }
    return false;
}

static void
mix_all(struct mix *mix, GPtrArray *candidates, bool needless)
{
    for (guint i = 0; candidates && i < candidates->len; i++) {
        if (!needless || !frees_nothing(candidates, i))
            mix_in(mix, candidates->pdata[i]);
    }
}

GPtrArray *
mw_choose_find_mixed(const struct mw_question *question, const struct mw_settings *asked,
                     GPtrArray *candidates, GPtrArray *needless, double alike, double present)
{
    struct mix mix = {.planned = {&question->model, &question->hardware[MW_OUTLOOK_TYPICAL]},
                      .on_gpu = mw_choose_stay_on_gpu(candidates),
                      .alike = alike,
                      .present = present};
    struct mw_settings settings = mw_choose_recomputing_fewest(asked);

    if (mw_strategy_traits(asked->strategy)->fills_gpu) /* with what the kept ones leave */
        return mw_choose_find_fitting(question, &settings);
    mix.found = g_ptr_array_new_with_free_func((GDestroyNotify)mw_sizing_free);
    if (!mw_settings_complete(&mix.planned, &settings, &mix.resolved, NULL))
        return mix.found;
    mix_all(&mix, candidates, false);
    mix_all(&mix, needless, true);
    mw_choose_halve_logits(question, &mix.resolved, mix.found);
    return mix.found;
}
