/* Decides what is still open for one placement: tiles, chunks of the logits, commit. */
#include <glib.h>
#include <math.h>

#include "base/arithmetic.h"
#include "planner/known.h"

#define TILES_MAX 64
/* Tiles cut what is on its way, which each doubling halves: all that are left save no more than the
 * last doubling did, but for what is rounded up and buffers that more ops need. */
#define TILES_SAVE 2
/* A committed step needs the other extents and 10% to spare (docs/DESIGN.md). */
#define COMMIT_FILL 0.9

/* Only state on drives has a second extent to commit to. */
static struct mw_sizing *
size_with_commit(const struct mw_request *request, const struct mw_settings *settings,
                 GError **error)
{
    struct mw_settings s = *settings;

    if (s.commit == MW_AUTO && !mw_placement_has(&s.placement[MW_STATE_OPTIMIZER], MW_TIER_NVME))
        s.commit = 0;
    if (s.commit != MW_AUTO)
        return mw_sizing_new(request->model, request->hardware, &s, error);
    s.commit = 1;
    struct mw_sizing *sizing = mw_sizing_new(request->model, request->hardware, &s, error);
    if (!sizing ||
        (sizing->fits && sizing->ledger[MW_TIER_NVME][MW_PURPOSE_OPTIMIZER_STATE_OTHER] &&
         sizing->need_bytes[MW_TIER_NVME] <=
             COMMIT_FILL * sizing->tiers[MW_TIER_NVME].capacity_bytes))
        return sizing;
    mw_sizing_free(sizing);
    s.commit = 0;
    return mw_sizing_new(request->model, request->hardware, &s, error);
}

/* With V/h chunks the logits take 6·t·h bytes, three times their input, which is little compared
 * with a layer's activations. */
int64_t
mw_planner_most_chunks(const struct mw_sizing *sizing)
{
    int64_t bound = MIN(sizing->tokens, MW_LOGITS_CHUNKS_MAX), chunks = 1;

    bound = MIN(bound, 2 * mw_model_logits(sizing->model) / sizing->model->hidden);
    while (2 * chunks <= bound)
        chunks *= 2;
    return chunks;
}

/* The smallest power of two of chunks that saves at least as many bytes of logits as are short. */
static int64_t
fewest_chunks(const struct mw_sizing *sizing)
{
    const struct mw_tier_info *gpu = &sizing->tiers[MW_TIER_GPU];
    int64_t most = mw_planner_most_chunks(sizing), chunks = sizing->settings.logits_chunks;
    int64_t slot_bytes = sizing->buffers[MW_BUFFER_LOGITS].bytes;
    int64_t bytes = slot_bytes + sizing->beside_then[MW_BESIDE_LOGITS];
    int64_t need = mw_sizing_whole_need(sizing, MW_TIER_GPU), times = 1;
    int64_t most_bytes = bytes + gpu->capacity_bytes - need;

    while (times * chunks < most &&
           (slot_bytes / times > gpu->largest_request_bytes || bytes / times > most_bytes))
        times *= 2;
    return times * chunks;
}

/* Returns the sizing that fits, or lacks less, and frees the other.  `other` may be NULL. */
static struct mw_sizing *
nearer(struct mw_sizing *one, struct mw_sizing *other)
{
    if (!other)
        return one;
    bool better = mw_sizing_is_nearer(other, one);
    mw_sizing_free(better ? one : other);
    return better ? other : one;
}

/* Whether chunks of the logits could help what does not fit in one. */
static bool
may_chunk(const struct mw_settings *settings, const struct mw_sizing *sizing)
{
    return sizing && !sizing->fits && settings->logits_chunks == MW_AUTO &&
           mw_sizing_lack_of(sizing, MW_TIER_GPU) && mw_planner_most_chunks(sizing) > 1;
}

/* Computes logits in chunks only if they do not fit in one piece: chunks cost no traffic and almost
 * no time, so they come before tiles and before any state has to move.  Takes the sizing of one
 * piece. */
static struct mw_sizing *
chunk_logits(const struct mw_request *request, const struct mw_settings *settings,
             struct mw_sizing *nearest)
{
    struct mw_settings s = *settings;

    if (!may_chunk(settings, nearest))
        return nearest;
    for (s.logits_chunks = 2; s.logits_chunks;) {
        struct mw_sizing *sizing = size_with_commit(request, &s, NULL);
        int64_t more = sizing && !sizing->fits ? fewest_chunks(sizing) : 0;
        s.logits_chunks = more > s.logits_chunks ? more : 0;
        nearest = nearer(nearest, sizing);
    }
    return nearest;
}

static struct mw_sizing *
size_with_logits(const struct mw_request *request, const struct mw_settings *settings,
                 GError **error)
{
    return chunk_logits(request, settings, size_with_commit(request, settings, error));
}

static bool
may_tile(const struct mw_request *request, const struct mw_settings *settings,
         const struct mw_sizing *sizing)
{
    return settings->tiles == MW_AUTO && sizing->params_partitioned &&
           request->hardware->offers.tiled_operators;
}

/* Uses memory-centric tiling only if a buffer does not fit, whatever else does not, and if the
 * software has it.  If no number of tiles helps, takes the one that lacks least, so that neither
 * verdict nor remedy blames a buffer that tiling would have cut. */
static struct mw_sizing *
size_with_tiles(const struct mw_request *request, const struct mw_settings *settings,
                GError **error)
{
    struct mw_settings s = *settings;
    struct mw_sizing *nearest = size_with_logits(request, &s, error);

    if (!nearest || nearest->fits || !may_tile(request, &s, nearest))
        return nearest;
    for (s.tiles = 2; s.tiles <= TILES_MAX && !nearest->fits; s.tiles *= 2) {
        struct mw_sizing *sizing = size_with_logits(request, &s, NULL);
        nearest = nearer(nearest, sizing);
    }
    return nearest;
}

/* The same as chunk_logits where only that counts which fits or what is lacking: from two chunks on
 * more of them never take more memory, so the most fit if any do.  They may be too many ops, and
 * slots that share bytes find other places. */
static struct mw_sizing *
try_chunks(const struct mw_request *request, const struct mw_settings *settings,
           struct mw_sizing *nearest)
{
    struct mw_settings s = *settings;

    if (!may_chunk(settings, nearest) || s.share_slots != MW_SHARE_NONE)
        return chunk_logits(request, settings, nearest);
    s.logits_chunks = mw_planner_most_chunks(nearest);
    struct mw_sizing *most = size_with_commit(request, &s, NULL);
    return most ? nearer(nearest, most) : chunk_logits(request, settings, nearest);
}

bool
mw_planner_has_room(const struct mw_request *request, const struct mw_settings *settings,
                    struct mw_sizing *first)
{
    struct mw_settings s = *settings;
    struct mw_sizing *sizing = try_chunks(request, &s, first);
    bool open = sizing && !sizing->fits && may_tile(request, &s, sizing);
    double lack = sizing ? mw_sizing_lack(sizing) : 0, saved = INFINITY;

    for (s.tiles = 2; open && s.tiles <= TILES_MAX && lack <= TILES_SAVE * saved; s.tiles *= 2) {
        mw_sizing_free(sizing);
        sizing = try_chunks(request, &s, size_with_commit(request, &s, NULL));
        open = sizing && !sizing->fits;
        saved = sizing ? lack - mw_sizing_lack(sizing) : 0;
        lack -= saved;
    }
    bool fits = sizing && sizing->fits;
    mw_sizing_free(sizing);
    return fits;
}

/* Bytes of the GPU that a sizing leaves; less than 0: it lacks them. */
static double
left_on_gpu(const struct mw_sizing *sizing)
{
    return (double)sizing->tiers[MW_TIER_GPU].capacity_bytes -
           (double)mw_sizing_whole_need(sizing, MW_TIER_GPU);
}

/* A number of recomputed layers, and what it leaves. */
struct probe {
    int64_t layers;
    double left;
};

/* The number that is about to fit, between one that does not and one that does: kept layers take as
 * much each, so it is on a line through what both leave.  Memory that is not alike all along, as in
 * a pipeline, is halved from the third try on. */
static int64_t
likely_number(const struct probe *lacks, const struct probe *fits, int tries)
{
    bool line = tries < 3 && lacks->left < 0 && fits->left >= 0;
    double way = line ? lacks->left / (lacks->left - fits->left) : 0.5;
    double number = ceil((double)lacks->layers + way * (double)(fits->layers - lacks->layers));

    return CLAMP((int64_t)number, lacks->layers + 1, fits->layers - 1);
}

struct mw_sizing *
mw_planner_size_fewest(const struct mw_request *request, const struct mw_sizing *all)
{
    struct mw_settings s = all->settings;
    struct probe fits = {mw_settings_most_layers(request->model, &s), left_on_gpu(all)};
    struct probe lacks = {0, 0};
    struct mw_sizing *best = NULL;

    for (int tries = 0; fits.layers - lacks.layers > 1; tries++) {
        s.recompute_layers = tries ? likely_number(&lacks, &fits, tries) : 1;
        struct mw_sizing *sizing = mw_sizing_new(request->model, request->hardware, &s, NULL);
        bool fit = sizing && sizing->fits;
        *(fit ? &fits : &lacks) =
            (struct probe){s.recompute_layers, sizing ? left_on_gpu(sizing) : 0};
        mw_sizing_free(fit ? best : sizing);
        best = fit ? sizing : best;
    }
    return best;
}

/* Of the layers, or of each pipeline stage's, the fewest first ones that must be recomputed, where
 * that is open.  Those of a kind cost alike and free as many bytes, so which of them are recomputed
 * makes no difference, and more than must are never faster.  planner/recompute_choice.c chooses
 * among layers that are unlike. */
static struct mw_sizing *
size_with_fewest(const struct mw_request *request, const struct mw_settings *settings,
                 GError **error)
{
    struct mw_sizing *all = size_with_tiles(request, settings, error);

    if (!all || !all->fits || settings->recompute_layers != MW_RECOMPUTE_FEWEST ||
        !all->settings.checkpoint_interval)
        return all;
    struct mw_sizing *fewer = mw_planner_size_fewest(request, all);
    if (fewer)
        mw_sizing_free(all);
    return fewer ? fewer : all;
}

/* Keeps a share of a state on the GPU, in hundredths of it, and the rest where it is. */
static void
keep_on_gpu(struct mw_settings *s, enum mw_state state, int share, enum mw_tier rest)
{
    s->placement[state] = (struct mw_placement){
        .count = 1, .part = {{share < 100 ? rest : MW_TIER_GPU, INT64_MAX, 0}}};
    if (share > 0 && share < 100)
        s->placement[state] = (struct mw_placement){
            .count = 2, .part = {{MW_TIER_GPU, 0, share / 100.0}, {rest, INT64_MAX, 0}}};
}

/* By what a byte saves on the way: parameters come twice for each micro-batch, activations leave
 * and come once, and the update passes once per step. */
static const enum mw_state filled_first[] = {MW_STATE_PARAMETERS, MW_STATE_ACTIVATIONS,
                                             MW_STATE_OPTIMIZER};

/* The largest share of a state that fits on the GPU; of optimizer state with its gradients.  Takes
 * the sizing, and returns it or a better one. */
static struct mw_sizing *
fill_gpu(const struct mw_request *request, struct mw_sizing *best, enum mw_state state,
         bool gradients)
{
    struct mw_settings s = best->settings;
    const struct mw_placement *from = &s.placement[state];
    enum mw_tier rest = from->part[from->count - 1].tier;
    enum mw_tier below = s.placement[MW_STATE_GRADIENTS].part[0].tier;

    if (rest == MW_TIER_GPU || from->count > 1)
        return best;
    for (int least = 0, most = 100; least < most;) {
        int share = least + (most - least + 1) / 2;
        keep_on_gpu(&s, state, share, rest);
        if (gradients && below != MW_TIER_GPU)
            keep_on_gpu(&s, MW_STATE_GRADIENTS, share, below);
        struct mw_sizing *sizing = mw_sizing_new(request->model, request->hardware, &s, NULL);
        bool fits = sizing && sizing->fits;
        least = fits ? share : least;
        most = fits ? most : share - 1;
        mw_sizing_free(fits ? best : sizing);
        best = fits ? sizing : best;
    }
    return best;
}

static struct mw_sizing *
size_filled(const struct mw_request *request, const struct mw_settings *settings, GError **error)
{
    struct mw_sizing *best = size_with_fewest(request, settings, error);

    for (size_t i = 0; best && best->fits && i < G_N_ELEMENTS(filled_first); i++)
        if (settings->fills >> filled_first[i] & 1)
            best = fill_gpu(request, best, filled_first[i],
                            filled_first[i] == MW_STATE_OPTIMIZER &&
                                settings->fills >> MW_STATE_GRADIENTS & 1);
    return best;
}

struct mw_sizing *
mw_planner_size_placement(const struct mw_request *request, const struct mw_settings *settings,
                          GError **error)
{
    struct mw_known_key key;
    struct mw_settings s;

    mw_known_key_init(&key, request, settings);
    if (mw_known_placed(&key, &s)) {
        s.strategy = settings->strategy;
        return mw_sizing_new(request->model, request->hardware, &s, error);
    }
    struct mw_sizing *best = size_filled(request, settings, error);
    if (best && best->fits)
        mw_known_keep_placed(&key, best);
    return best;
}
