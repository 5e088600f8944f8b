/* Finds the placements and batches that are worth simulating. */
#include <glib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/error.h"
#include "planner/batches.h"
#include "planner/planner.h"
#include "planner/fits.h"
#include "planner/recompute_choice.h"
#include "planner/sizing/internal.h"
#include "planner/stage_split.h"

#define OPS_UNLIMITED (INT64_C(1) << 60)
#define LAYERS_MAX ((1 << 20) - 1)
/* Of more numbers of recomputed layers every n-th is tried. */
#define RECOMPUTED_MAX 16

static void
place_state(struct mw_settings *s, enum mw_state state, enum mw_tier tier)
{
    s->placement[state].count = 1;
    s->placement[state].part[0].tier = tier;
    s->placement[state].part[0].bytes = INT64_MAX;
    s->placement[state].part[0].share = 0;
}

/* --- placements ------------------------------------------------------------------------------ */

struct search {
    const struct mw_request *request;
    const struct mw_settings *asked;
    bool any;      /* one that fits is enough */
    bool blame;    /* nothing fits: look for the one that lacks least */
    int64_t guess; /* sequences to begin with */
    GPtrArray *found;
    GPtrArray *needless;       /* as mw_planner_candidates_beside has them */
    struct mw_sizing *nearest; /* of those that do not fit, the one that lacks least */
    GError *error;
};

/* Offload only when needed (Sec. 5.1): moving a state to a slower tier must allow a larger batch,
 * fewer tiles, or fewer recomputed layers.  Each batch of a placement is a candidate of its own. */
static bool
is_needless(const struct mw_sizing *deeper, const struct mw_sizing *other)
{
    const struct mw_settings *d = &deeper->settings, *o = &other->settings;
    bool moved = false;

    for (int state = 0; state < MW_STATE_COUNT; state++) {
        enum mw_tier there = d->placement[state].part[0].tier,
                     here = o->placement[state].part[0].tier;
        if (here > there)
            return false;
        moved = moved || there > here;
    }
    if (!moved)
        return d->micro_batch == o->micro_batch && d->grad_accum == o->grad_accum &&
               d->whole_checkpoints == o->whole_checkpoints &&
               d->logits_chunks == o->logits_chunks && d->recompute_layers == o->recompute_layers &&
               !memcmp(&d->recompute_set, &o->recompute_set, sizeof d->recompute_set);
    return d->micro_batch <= o->micro_batch &&
           d->micro_batch * d->grad_accum <= o->micro_batch * o->grad_accum &&
           d->tiles >= o->tiles &&
           mw_sizing_kept_of_model(deeper) <= mw_sizing_kept_of_model(other);
}

static void
pass_by(struct search *search, struct mw_sizing *sizing)
{
    if (search->needless)
        g_ptr_array_add(search->needless, sizing);
    else
        mw_sizing_free(sizing);
}

static void
keep_nearest(struct search *search, struct mw_sizing *sizing)
{
    if (!search->nearest || mw_sizing_is_nearer(sizing, search->nearest)) {
        mw_sizing_free(search->nearest);
        search->nearest = sizing;
    } else {
        mw_sizing_free(sizing);
    }
}

/* Takes ownership of the sizing; returns whether it fits. */
static bool
add_candidate(struct search *search, struct mw_sizing *sizing)
{
    if (!sizing->fits) {
        keep_nearest(search, sizing);
        return false;
    }
    for (guint i = 0; i < search->found->len; i++)
        if (is_needless(sizing, search->found->pdata[i])) {
            pass_by(search, sizing);
            return true;
        }
    g_ptr_array_add(search->found, sizing);
    return true;
}

struct tiers {
    enum mw_tier optimizer, gradients, params, activations;
};

/* Whether memory suffices, but only with more tiles or chunks than a plan's limit of ops allows. */
static bool
allows_more_ops(const struct mw_request *request, const struct mw_settings *settings,
                const struct mw_sizing *nearest, GError **error)
{
    struct mw_settings s = *settings;

    if (mw_fits_in_no_parts(nearest, settings))
        return false;
    s.ops_max = OPS_UNLIMITED;
    struct mw_sizing *sizing = mw_planner_size_placement(request, &s, NULL);
    bool fits = sizing && sizing->fits;
    if (fits) {
        s = sizing->settings;
        s.ops_max = settings->ops_max;
        mw_sizing_refuse_ops(request->model, request->hardware, &s, settings, NULL, error);
    }
    mw_sizing_free(sizing);
    return fits;
}

/* The sizing, or NULL with the reason. */
static struct mw_sizing *
size_or_refuse(struct search *search, const struct mw_settings *settings, GError **error)
{
    struct mw_sizing *sizing = mw_planner_size_placement(search->request, settings, error);

    if (!search->blame || !sizing || sizing->fits ||
        !allows_more_ops(search->request, settings, sizing, error))
        return sizing;
    mw_sizing_free(sizing);
    return NULL;
}

/* Where layers are unlike there are several ways to recompute as little as memory allows. */
static bool
add_candidates(struct search *search, const struct mw_settings *settings, struct mw_sizing *sizing)
{
    bool fewest = settings->recompute_layers == MW_RECOMPUTE_FEWEST && !search->any;

    if (!fewest || !sizing->fits)
        return add_candidate(search, sizing);
    g_autoptr(GPtrArray) choices = mw_planner_recompute_choices(search->request, settings, sizing);
    if (!choices->len)
        return add_candidate(search, sizing);
    mw_sizing_free(sizing);
    for (guint i = 0; i < choices->len; i++)
        add_candidate(search, g_steal_pointer(&choices->pdata[i]));
    return true;
}

static bool
try_split(struct search *search, const struct mw_settings *settings)
{
    if (!search->blame && !mw_fits_in_some_parts(search->request, settings))
        return false;
    GError *refused = NULL;
    struct mw_sizing *sizing = size_or_refuse(search, settings, &refused);
    /* Keeps the last of several refusals: it is that of the placement with the most transfers, and
     * what is few enough for that one is few enough for all. */
    if (refused) {
        g_clear_error(&search->error);
        search->error = refused;
    }
    return sizing && add_candidates(search, settings, sizing);
}

/* One placement with one batch. */
static bool
try_batch(struct search *search, const struct mw_settings *settings)
{
    const struct mw_request *request = search->request;
    struct mw_settings other = *settings;

    return try_split(search, settings) ||
           (settings->fit_stages && mw_stage_split_fit(request->model, request->hardware, &other) &&
            try_split(search, &other));
}

static bool
try_batches(struct search *search, struct mw_settings *s)
{
    struct mw_batches batches;
    bool kept = false;

    mw_batches_find(search->request, s, &search->guess, &batches);
    for (int i = 0; i < batches.count; i++) {
        if ((search->any && kept) || (search->blame && i))
            break;
        s->micro_batch = batches.one[i].micro_batch;
        s->grad_accum = batches.one[i].grad_accum;
        kept = try_batch(search, s) || kept;
    }
    return kept;
}

/* Where it is open how many layers are recomputed beside those whose activations leave.  With all
 * of them memory has most room. */
static bool
try_recomputed(struct search *search, struct mw_settings *s)
{
    int64_t layers = search->request->model->layers, step = mw_divide_up(layers, RECOMPUTED_MAX);
    bool kept = false;

    if (s->recompute_layers != MW_RECOMPUTE_FASTEST)
        return try_batches(search, s);
    for (int64_t again = layers; again > -step; again -= step) {
        struct mw_settings some = *s;
        if ((search->any && kept) || (search->blame && again < layers))
            break;
        if (mw_planner_recompute_evenly(&some, layers, MAX(0, again)))
            kept = try_batches(search, &some) || kept;
    }
    return kept;
}

/* Gradients that are not placed fill the GPU with optimizer state alone. */
static uint32_t
open_to_fill(const struct mw_settings *s)
{
    const struct mw_strategy_traits *strategy = mw_strategy_traits(s->strategy);
    uint32_t open = 0;

    for (int state = 0; state < MW_STATE_COUNT; state++)
        if (strategy->fills_gpu >> state & 1 && !s->placement[state].count)
            open |= UINT32_C(1) << state;
    return open;
}

/* Placements that the user fixed stay; gradients follow a fixed optimizer state. */
static bool
try_exactly(struct search *search, const struct tiers *tiers)
{
    struct mw_settings s = *search->asked;
    bool fixed = s.placement[MW_STATE_OPTIMIZER].count > 0;

    s.fills = open_to_fill(&s);
    if (search->any && search->found->len)
        return true;
    if (!fixed)
        place_state(&s, MW_STATE_OPTIMIZER, tiers->optimizer);
    if (!s.placement[MW_STATE_GRADIENTS].count && fixed)
        s.placement[MW_STATE_GRADIENTS] = s.placement[MW_STATE_OPTIMIZER];
    else if (!s.placement[MW_STATE_GRADIENTS].count)
        place_state(&s, MW_STATE_GRADIENTS, tiers->gradients);
    if (!s.placement[MW_STATE_PARAMETERS].count)
        place_state(&s, MW_STATE_PARAMETERS, tiers->params);
    if (!s.placement[MW_STATE_ACTIVATIONS].count)
        place_state(&s, MW_STATE_ACTIVATIONS, tiers->activations);
    return try_recomputed(search, &s);
}

/* Gradients follow the optimizer state, and stay in host memory while it has room, unless the
 * software writes them to the drives anyway. */
static bool
try_gradients(struct search *search, struct tiers tiers)
{
    const struct mw_state_traits *gradients =
        &mw_strategy_traits(search->asked->strategy)->state[MW_STATE_GRADIENTS];
    enum mw_tier deepest = MIN(tiers.optimizer, gradients->deepest);

    tiers.gradients = mw_settings_updates_on_gpu(search->asked) ? gradients->nearest
                                                                : MIN(tiers.optimizer, MW_TIER_CPU);
    if (search->request->hardware->swaps_gradients && tiers.optimizer == MW_TIER_NVME)
        tiers.gradients = deepest;
    bool kept = try_exactly(search, &tiers);
    while (++tiers.gradients <= deepest)
        kept = try_exactly(search, &tiers) || kept;
    return kept;
}

/* Tries all placements of parameters and checkpoints with the optimizer state in this tier; the
 * optimizer state moves first. */
static bool
try_optimizer(struct search *search, enum mw_tier optimizer)
{
    const struct mw_strategy_traits *strategy = mw_strategy_traits(search->asked->strategy);
    const struct mw_state_traits *params = &strategy->state[MW_STATE_PARAMETERS];
    const struct mw_state_traits *activations = &strategy->state[MW_STATE_ACTIVATIONS];
    struct tiers tiers = {.optimizer = optimizer};
    bool kept = false;

    for (tiers.activations = activations->nearest; tiers.activations <= activations->deepest;
         tiers.activations++)
        for (tiers.params = params->nearest; tiers.params <= params->deepest; tiers.params++) {
            kept = try_gradients(search, tiers) || kept;
            if (optimizer == MW_TIER_GPU)
                return kept;
        }
    return kept;
}

/* Also tries the tier below the first one with room: it may allow a larger batch or fewer tiles.
 * The same placements are tried for an open batch and for the batch that is then chosen. */
static void
try_all(struct search *search)
{
    const struct mw_state_traits *optimizer =
        &mw_strategy_traits(search->asked->strategy)->state[MW_STATE_OPTIMIZER];
    int kept = 0;

    if (search->asked->placement[MW_STATE_OPTIMIZER].count) {
        try_optimizer(search, MW_TIER_CPU);
        return;
    }
    for (enum mw_tier tier = optimizer->nearest; tier <= optimizer->deepest && kept < 2; tier++)
        kept += try_optimizer(search, tier);
}

/* Where no size of batch is asked for, one sequence is what fits most easily. */
static void
take_least_batch(struct mw_settings *s)
{
    if (s->micro_batch == MW_AUTO && s->global_batch == MW_AUTO)
        s->micro_batch = 1.0 / (double)mw_settings_sharers(s);
}

bool
mw_planner_fits(const struct mw_request *request, const struct mw_settings *resolved)
{
    g_autoptr(GPtrArray) found = g_ptr_array_new_with_free_func((GDestroyNotify)mw_sizing_free);
    struct mw_settings least = *resolved;
    struct search search = {
        .request = request, .asked = &least, .any = true, .guess = 1, .found = found};

    take_least_batch(&least);
    try_all(&search);
    mw_sizing_free(search.nearest);
    g_clear_error(&search.error);
    return found->len > 0;
}

/* Returns the sizing that lacks least, or the reason why memory is not the problem. */
GPtrArray *
mw_planner_nearest_candidate(const struct mw_request *request, const struct mw_settings *resolved,
                             GError **error)
{
    struct search search = {.request = request, .asked = resolved, .blame = true, .guess = 1};

    search.found = g_ptr_array_new_with_free_func((GDestroyNotify)mw_sizing_free);
    try_all(&search);
    if (search.found->len || !search.error) {
        g_clear_error(&search.error);
        if (search.found->len)
            mw_sizing_free(search.nearest);
        else
            g_ptr_array_add(search.found, search.nearest);
        return search.found;
    }
    if (error)
        mw_planner_advise_batch(request, resolved, &search.error);
    g_propagate_error(error, search.error);
    g_ptr_array_unref(search.found);
    mw_sizing_free(search.nearest);
    return NULL;
}

GPtrArray *
mw_planner_candidates_beside(const struct mw_request *request, const struct mw_settings *resolved,
                             GPtrArray *needless)
{
    struct search search = {
        .request = request, .asked = resolved, .guess = 1, .needless = needless};

    search.found = g_ptr_array_new_with_free_func((GDestroyNotify)mw_sizing_free);
    try_all(&search);
    mw_sizing_free(search.nearest);
    g_clear_error(&search.error);
    return search.found;
}

GPtrArray *
mw_planner_fitting_candidates(const struct mw_request *request, const struct mw_settings *resolved)
{
    return mw_planner_candidates_beside(request, resolved, NULL);
}

/* Of two sizings the one that keeps more layers, or the first; frees the other.  Either may be
 * NULL. */
static struct mw_sizing *
that_keeps_more(struct mw_sizing *one, struct mw_sizing *other)
{
    bool more = other && (!one || mw_sizing_kept_of_model(other) > mw_sizing_kept_of_model(one));

    mw_sizing_free(more ? one : other);
    return more ? other : one;
}

/* Where layers are alike.  More chunks of the logits, where their number is open, leave room for
 * more layers that are kept; two may take as much as one, for the weights that they share. */
static struct mw_sizing *
size_fewest_alike(const struct mw_request *request, const struct mw_settings *resolved,
                  const struct mw_sizing *all)
{
    struct mw_settings s = all->settings;
    struct mw_sizing *best = mw_planner_size_fewest(request, all);
    int64_t most = resolved->logits_chunks == MW_AUTO ? mw_planner_most_chunks(all) : 0;
    bool more = true;

    for (s.logits_chunks *= 2; s.logits_chunks <= most && more; s.logits_chunks *= 2) {
        struct mw_sizing *chunked = mw_sizing_new(all->model, all->hardware, &s, NULL);
        struct mw_sizing *before = best;
        if (chunked && chunked->fits)
            best = that_keeps_more(best, mw_planner_size_fewest(request, chunked));
        more = best != before || s.logits_chunks == 2;
        mw_sizing_free(chunked);
    }
    return best;
}

void
mw_planner_add_fewest(const struct mw_request *request, const struct mw_settings *resolved,
                      const struct mw_sizing *all, GPtrArray *found)
{
    struct search search = {.request = request, .asked = resolved, .found = found};
    struct mw_settings settings = all->settings;

    settings.logits_chunks = resolved->logits_chunks;
    g_autoptr(GPtrArray) choices = mw_planner_recompute_choices(request, &settings, all);
    struct mw_sizing *fewer = choices->len ? NULL : size_fewest_alike(request, resolved, all);
    if (fewer)
        add_candidate(&search, fewer);
    for (guint i = 0; i < choices->len; i++)
        add_candidate(&search, g_steal_pointer(&choices->pdata[i]));
}

GPtrArray *
mw_planner_candidates(const struct mw_request *request, const struct mw_settings *resolved,
                      GError **error)
{
    GPtrArray *found = mw_planner_fitting_candidates(request, resolved);

    if (found->len)
        return found;
    g_ptr_array_unref(found);
    return mw_planner_nearest_candidate(request, resolved, error);
}

/* --- the most layers ------------------------------------------------------------------------- */

/* Interleaved stages have as many stretches each, of as many layers. */
static int64_t
layers_step(const struct mw_settings *resolved)
{
    return resolved->virtual_stages > 1 ? resolved->pp * resolved->virtual_stages : 1;
}

static bool
layers_fit(const struct mw_request *request, const struct mw_settings *resolved, int64_t steps)
{
    struct mw_model model = *request->model;
    struct mw_request smaller = {&model, request->hardware};

    /* In a mixture of experts the leading dense layers come first. */
    model.layers = steps * layers_step(resolved);
    model.dense_layers = MIN(model.dense_layers, model.layers);
    if (!mw_model_validate(&model, model.name, NULL))
        return false;
    return mw_planner_fits(&smaller, resolved);
}

int64_t
mw_planner_largest_layers(const struct mw_request *request, const struct mw_settings *resolved,
                          bool *more, GError **error)
{
    struct mw_settings probe = *resolved;

    *more = false;
    take_least_batch(&probe);
    g_autoptr(GError) refused = NULL;
    g_autoptr(GPtrArray) valid = mw_planner_candidates(request, &probe, &refused);
    if (!valid && !g_error_matches(refused, MW_ERROR, MW_ERROR_LARGE)) {
        g_propagate_error(error, g_steal_pointer(&refused));
        return -1;
    }
    int64_t step = layers_step(resolved), fewest = step > 1 ? 1 : resolved->pp;
    int64_t steps = mw_fits_largest(request, resolved, layers_fit, fewest, LAYERS_MAX / step);
    probe = *resolved;
    probe.ops_max = OPS_UNLIMITED;
    *more = layers_fit(request, &probe, MAX(fewest, steps + 1));
    return steps * step;
}
