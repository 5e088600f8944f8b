/* Which placements and batches are worth simulating. */
#include <glib.h>
#include <math.h>

#include "planner/error.h"
#include "planner/planner.h"
#include "planner/sizing_internal.h"

#define GRAD_ACCUM_MAX 4096
#define SEQUENCES_MAX 65536
#define OPS_UNLIMITED (INT64_C(1) << 60)
#define LAYERS_MAX ((1 << 20) - 1)

static bool
is_infinity(enum mw_strategy strategy)
{
    return strategy == MW_STRATEGY_ZERO_INFINITY_CPU || strategy == MW_STRATEGY_ZERO_INFINITY_NVME;
}

static void
place(struct mw_settings *s, enum mw_state state, enum mw_tier tier)
{
    s->placement[state].count = 1;
    s->placement[state].part[0].tier = tier;
    s->placement[state].part[0].bytes = INT64_MAX;
}

/* --- what fits ------------------------------------------------------------------------------- */

/* What tiles and chunks cannot cut is more than there is. */
static bool
is_hopeless(const struct mw_sizing *sizing, const struct mw_settings *asked)
{
    static const enum mw_purpose cut[] = {MW_PURPOSE_PARAMETER_BUFFERS, MW_PURPOSE_SHARD_BUFFERS,
                                          MW_PURPOSE_GRADIENT_BUFFERS,
                                          MW_PURPOSE_OPTIMIZER_BUFFERS};

    for (int t = 0; t < MW_TIER_COUNT; t++) {
        int64_t rest = sizing->need_bytes[t];
        for (size_t p = 0; p < G_N_ELEMENTS(cut); p++)
            rest -= sizing->ledger[t][cut[p]];
        rest -= asked->logits_chunks == MW_AUTO ? sizing->ledger[t][MW_PURPOSE_LOGITS] : 0;
        if (rest > sizing->tiers[t].capacity_bytes)
            return true;
    }
    return false;
}

/* Whether mw_planner_size finds room, at less cost: a committed step never needs less, and most
 * placements that lack room do so in any number of tiles and chunks. */
static bool
fits(const struct mw_request *request, const struct mw_settings *settings)
{
    struct mw_settings s = *settings;

    if (s.commit == MW_AUTO)
        s.commit = 0;
    struct mw_sizing *sizing = mw_sizing_new(request->model, request->hardware, &s, NULL);
    bool found = sizing && sizing->fits;
    bool open = s.tiles == MW_AUTO || s.logits_chunks == MW_AUTO;
    bool hopeless = !sizing || !open || is_hopeless(sizing, &s);
    mw_sizing_free(sizing);
    if (found || hopeless)
        return found;
    sizing = mw_planner_size(request, &s, NULL);
    found = sizing && sizing->fits;
    mw_sizing_free(sizing);
    return found;
}

/* The largest number up to `most` that fits, searched upwards from a guess, which placements that
 * are much alike share; 0 if none does. */
static int64_t
largest(const struct mw_request *request, const struct mw_settings *settings,
        bool (*fit)(const struct mw_request *request, const struct mw_settings *settings,
                    int64_t number),
        int64_t guess, int64_t most)
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

/* --- batch ----------------------------------------------------------------------------------- */

static bool
fits_sequences(const struct mw_request *request, const struct mw_settings *settings,
               int64_t sequences)
{
    struct mw_settings s = *settings;

    s.micro_batch = (double)sequences / s.tp;
    return fits(request, &s);
}

static int64_t
largest_sequences(const struct mw_request *request, const struct mw_settings *settings,
                  int64_t guess)
{
    return largest(request, settings, fits_sequences, guess,
                   MIN(SEQUENCES_MAX, mw_most_sequences(settings)));
}

double
mw_planner_largest_batch(const struct mw_request *request, const struct mw_settings *settings)
{
    return (double)largest_sequences(request, settings, 1) / settings->tp;
}

/* With a global batch and an open micro-batch: the fewest micro-batches that fit, else the most. */
static void
split_global_batch(const struct mw_request *request, struct mw_settings *s)
{
    double gpus = (double)s->nodes * s->gpus_per_node;
    double per_gpu = s->global_batch / gpus;

    for (int64_t accum = 1; accum <= GRAD_ACCUM_MAX; accum++) {
        double sequences = per_gpu / accum * s->tp;
        if (sequences < 1)
            break;
        if (fabs(sequences - llround(sequences)) > 1e-9)
            continue;
        s->micro_batch = sequences / s->tp;
        s->grad_accum = accum;
        if (fits(request, s))
            return;
    }
}

static void
choose_batch(const struct mw_request *request, struct mw_settings *s, int64_t *guess)
{
    if (s->micro_batch != MW_AUTO)
        return;
    if (s->global_batch != MW_AUTO && s->grad_accum == MW_AUTO)
        split_global_batch(request, s);
    if (s->micro_batch == MW_AUTO) {
        int64_t largest = largest_sequences(request, s, *guess);
        s->micro_batch = (double)MAX(1, largest) / s->tp;
        *guess = MAX(1, largest);
    }
}

/* --- placements ------------------------------------------------------------------------------ */

struct gather {
    const struct mw_request *request;
    const struct mw_settings *asked;
    bool any;      /* one that fits is enough */
    bool blame;    /* nothing fits: look for what lacks least */
    int64_t guess; /* sequences */
    GPtrArray *found;
    struct mw_sizing *nearest; /* of those that do not fit */
    GError *error;
};

/* Offload only when needed (Sec. 5.1): a state that goes further down must make room for a larger
 * batch or for fewer tiles. */
static bool
is_needless(const struct mw_sizing *deeper, const struct mw_sizing *other)
{
    for (int state = 0; state < MW_STATE_COUNT; state++)
        if (other->settings.placement[state].part[0].tier >
            deeper->settings.placement[state].part[0].tier)
            return false;
    return deeper->settings.micro_batch <= other->settings.micro_batch &&
           deeper->settings.tiles >= other->settings.tiles;
}

static void
blame(struct gather *gather, struct mw_sizing *sizing)
{
    if (!gather->nearest || mw_sizing_is_nearer(sizing, gather->nearest)) {
        mw_sizing_free(gather->nearest);
        gather->nearest = sizing;
    } else {
        mw_sizing_free(sizing);
    }
}

/* Takes the sizing; whether it fits. */
static bool
keep(struct gather *gather, struct mw_sizing *sizing)
{
    if (!sizing->fits) {
        blame(gather, sizing);
        return false;
    }
    for (guint i = 0; i < gather->found->len; i++)
        if (is_needless(sizing, gather->found->pdata[i])) {
            mw_sizing_free(sizing);
            return true;
        }
    g_ptr_array_add(gather->found, sizing);
    return true;
}

struct tiers {
    enum mw_tier optimizer, gradients, params, activations;
};

/* Whether memory has room for more tiles or chunks than a plan may have ops: then it is not memory
 * that is short. */
static bool
has_room_for_more_ops(const struct mw_request *request, const struct mw_settings *settings,
                      const struct mw_sizing *nearest, GError **error)
{
    struct mw_settings s = *settings;

    if (is_hopeless(nearest, settings))
        return false;
    s.ops_max = OPS_UNLIMITED;
    struct mw_sizing *sizing = mw_planner_size(request, &s, NULL);
    bool fits = sizing && sizing->fits;
    if (fits) {
        s = sizing->settings;
        s.ops_max = settings->ops_max;
        mw_sizing_refuse_ops(request->model, request->hardware, &s, settings, error);
    }
    mw_sizing_free(sizing);
    return fits;
}

/* The sizing, or why there is none. */
static struct mw_sizing *
size_or_refuse(struct gather *gather, const struct mw_settings *settings, GError **error)
{
    struct mw_sizing *sizing = mw_planner_size(gather->request, settings, error);

    if (!gather->blame || !sizing || sizing->fits ||
        !has_room_for_more_ops(gather->request, settings, sizing, error))
        return sizing;
    mw_sizing_free(sizing);
    return NULL;
}

/* What the user fixed stays as it is; gradients follow an optimizer state that is fixed. */
static bool
try_exactly(struct gather *gather, const struct tiers *tiers)
{
    struct mw_settings s = *gather->asked;
    bool fixed = s.placement[MW_STATE_OPTIMIZER].count > 0;

    if (gather->any && gather->found->len)
        return true;
    if (!fixed)
        place(&s, MW_STATE_OPTIMIZER, tiers->optimizer);
    if (!s.placement[MW_STATE_GRADIENTS].count && fixed)
        s.placement[MW_STATE_GRADIENTS] = s.placement[MW_STATE_OPTIMIZER];
    else if (!s.placement[MW_STATE_GRADIENTS].count)
        place(&s, MW_STATE_GRADIENTS, tiers->gradients);
    if (!s.placement[MW_STATE_PARAMETERS].count)
        place(&s, MW_STATE_PARAMETERS, tiers->params);
    if (!s.placement[MW_STATE_ACTIVATIONS].count)
        place(&s, MW_STATE_ACTIVATIONS, tiers->activations);
    choose_batch(gather->request, &s, &gather->guess);
    if (!gather->blame && !fits(gather->request, &s))
        return false;
    GError *refused = NULL;
    struct mw_sizing *sizing = size_or_refuse(gather, &s, &refused);
    /* Of several refusals the last is kept: it is of the placement with most transfers, and what is
     * few enough for it is so for all. */
    if (refused) {
        g_clear_error(&gather->error);
        gather->error = refused;
    }
    return sizing && keep(gather, sizing);
}

/* Gradients stay in host memory while it has room. */
static bool
try_tiers(struct gather *gather, enum mw_tier optimizer, enum mw_tier params,
          enum mw_tier activations)
{
    struct tiers tiers = {optimizer, MIN(optimizer, MW_TIER_CPU), params, activations};
    bool kept = try_exactly(gather, &tiers);

    tiers.gradients = MW_TIER_NVME;
    return (optimizer == MW_TIER_NVME && try_exactly(gather, &tiers)) || kept;
}

/* All moves of parameters and checkpoints with the optimizer state there, which goes first. */
static bool
try_optimizer(struct gather *gather, enum mw_tier optimizer, enum mw_tier deepest)
{
    bool kept = try_tiers(gather, optimizer, MW_TIER_GPU, MW_TIER_GPU);

    if (optimizer == MW_TIER_GPU)
        return kept;
    for (enum mw_tier params = MW_TIER_CPU; params <= deepest; params++)
        kept = try_tiers(gather, optimizer, params, MW_TIER_GPU) || kept;
    for (enum mw_tier params = MW_TIER_GPU; params <= deepest; params++)
        kept = try_tiers(gather, optimizer, params, MW_TIER_CPU) || kept;
    return kept;
}

/* A tier below the first with room is tried too: it may leave room for a larger batch or for fewer
 * tiles.  The batch that an open one comes to finds the same placements again. */
static void
try_infinity(struct gather *gather)
{
    enum mw_tier deepest =
        gather->asked->strategy == MW_STRATEGY_ZERO_INFINITY_NVME ? MW_TIER_NVME : MW_TIER_CPU;
    int kept = 0;

    if (gather->asked->placement[MW_STATE_OPTIMIZER].count) {
        try_optimizer(gather, MW_TIER_CPU, deepest);
        return;
    }
    for (enum mw_tier tier = MW_TIER_GPU; tier <= deepest && kept < 2; tier++)
        kept += try_optimizer(gather, tier, deepest);
}

static void
try_all(struct gather *gather)
{
    if (is_infinity(gather->asked->strategy))
        try_infinity(gather);
    else
        try_tiers(gather,
                  gather->asked->strategy == MW_STRATEGY_ZERO_OFFLOAD ? MW_TIER_CPU : MW_TIER_GPU,
                  MW_TIER_GPU, MW_TIER_GPU);
}

bool
mw_planner_fits(const struct mw_request *request, const struct mw_settings *resolved)
{
    g_autoptr(GPtrArray) found = g_ptr_array_new_with_free_func((GDestroyNotify)mw_sizing_free);
    struct mw_settings least = *resolved;
    struct gather gather = {
        .request = request, .asked = &least, .any = true, .guess = 1, .found = found};

    if (least.micro_batch == MW_AUTO && least.global_batch == MW_AUTO)
        least.micro_batch = 1.0 / least.tp;
    try_all(&gather);
    mw_sizing_free(gather.nearest);
    g_clear_error(&gather.error);
    return found->len > 0;
}

GPtrArray *
mw_planner_candidates(const struct mw_request *request, const struct mw_settings *resolved,
                      GError **error)
{
    struct gather gather = {.request = request, .asked = resolved, .guess = 1};

    gather.found = g_ptr_array_new_with_free_func((GDestroyNotify)mw_sizing_free);
    try_all(&gather);
    if (gather.found->len)
        return gather.found;
    g_clear_error(&gather.error);
    gather.blame = true;
    try_all(&gather);
    if (gather.found->len || !gather.error) {
        g_clear_error(&gather.error);
        if (gather.found->len)
            mw_sizing_free(gather.nearest);
        else
            g_ptr_array_add(gather.found, gather.nearest);
        return gather.found;
    }
    if (error)
        mw_planner_advise_batch(request, resolved, &gather.error);
    g_propagate_error(error, gather.error);
    g_ptr_array_unref(gather.found);
    mw_sizing_free(gather.nearest);
    return NULL;
}

/* --- the most layers ------------------------------------------------------------------------- */

static bool
layers_fit(const struct mw_request *request, const struct mw_settings *resolved, int64_t layers)
{
    struct mw_model model = *request->model;
    struct mw_request smaller = {&model, request->hardware};
    struct mw_settings s = *resolved;

    /* Of a mixture the leading dense layers come first, as many as there are. */
    model.layers = layers;
    model.dense_layers = MIN(model.dense_layers, layers);
    if (!mw_model_validate(&model, model.name, NULL))
        return false;
    if (s.micro_batch == MW_AUTO)
        s.micro_batch = 1.0 / s.tp;
    g_autoptr(GPtrArray) found = mw_planner_candidates(&smaller, &s, NULL);
    return found && ((struct mw_sizing *)found->pdata[0])->fits;
}

int64_t
mw_planner_largest_layers(const struct mw_request *request, const struct mw_settings *resolved,
                          bool *more, GError **error)
{
    struct mw_settings probe = *resolved;

    *more = false;
    if (probe.micro_batch == MW_AUTO)
        probe.micro_batch = 1.0 / probe.tp;
    g_autoptr(GError) refused = NULL;
    g_autoptr(GPtrArray) valid = mw_planner_candidates(request, &probe, &refused);
    if (!valid && !g_error_matches(refused, MW_ERROR, MW_ERROR_LARGE)) {
        g_propagate_error(error, g_steal_pointer(&refused));
        return -1;
    }
    int64_t layers = largest(request, resolved, layers_fit, 1, LAYERS_MAX);
    probe = *resolved;
    probe.ops_max = OPS_UNLIMITED;
    *more = layers_fit(request, &probe, layers + 1);
    return layers;
}
