/*
 * The same sizing with few of its layers: the builder builds these, and what is left out follows
 * from them (plan/fold.c).
 *
 * Layers whose parameters, gradients, checkpoints and optimizer state live in the same tiers are a
 * stretch, and each stretch leaves out some.  As many layers are left out as leave all as it was:
 * whole checkpoint groups, and whole rounds of the optimizer step's chunks, which may run through
 * several layers.
 */
#include <glib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "planner/sizing/internal.h"

/* A round of more layers is none. */
#define ROUND_LAYERS_MAX 1024

static int64_t
interval_of(const struct mw_sizing *sizing)
{
    return MAX(1, sizing->settings.checkpoint_interval);
}

/* Tensors of a layer: all are of one class. */
static int64_t
tensors_of_layer(const struct mw_sizing *sizing)
{
    return sizing->classes[mw_sizing_layer_class(sizing, 0)].tensor_count;
}

static bool
is_piece(const struct mw_chunk *chunks, uint32_t c)
{
    return c && chunks[c - 1].tensor_count == 1 &&
           chunks[c - 1].first_tensor == chunks[c].first_tensor;
}

/* The first chunk that begins with this tensor or behind it. */
static uint32_t
find_chunk(const struct mw_sizing *sizing, const struct mw_chunk *chunks, uint32_t tensor)
{
    uint32_t c = 0;

    while (c < sizing->chunk_count && (chunks[c].first_tensor < tensor || is_piece(chunks, c)))
        c++;
    return c;
}

/* --- stretches ------------------------------------------------------------------------------- */

#define SEVERAL MW_TIER_COUNT

/* The tier of each layer's optimizer state, or SEVERAL; NULL: all of it is in one.  A chunk is in
 * one tier, and may run through several layers. */
static uint8_t *
place_layers(const struct mw_sizing *sizing)
{
    if (!mw_sizing_splits(sizing, MW_STATE_OPTIMIZER))
        return NULL;
    g_autofree struct mw_chunk *chunks = mw_sizing_chunks(sizing);
    int64_t tensors = tensors_of_layer(sizing), first = mw_sizing_layer_tensor(sizing, 0);
    uint8_t *tiers = g_new(uint8_t, sizing->layers);
    g_autofree bool *placed = g_new0(bool, sizing->layers);

    memset(tiers, SEVERAL, (size_t)sizing->layers);
    for (uint32_t c = 0; c < sizing->chunk_count; c++) {
        int64_t last = chunks[c].first_tensor + chunks[c].tensor_count - 1 - first;
        for (int64_t layer = MAX(0, (chunks[c].first_tensor - first) / tensors);
             last >= 0 && layer <= MIN(last / tensors, sizing->layers - 1); layer++) {
            bool other = placed[layer] && tiers[layer] != chunks[c].tier;
            tiers[layer] = other ? SEVERAL : (uint8_t)chunks[c].tier;
            placed[layer] = true;
        }
    }
    return tiers;
}

/* Whether a layer, whose first tensor is `tensor`, lives as the one before it. */
static bool
lives_alike(const struct mw_sizing *sizing, const uint8_t *state, int64_t layer, int64_t tensor)
{
    int64_t tensors = tensors_of_layer(sizing), interval = interval_of(sizing);
    const uint8_t *params = sizing->param_home + tensor;
    const uint8_t *gradients = sizing->gradient_home + tensor;

    if (state && (state[layer] == SEVERAL || state[layer - 1] != state[layer]))
        return false;
    return !memcmp(params - tensors, params, (size_t)tensors) &&
           !memcmp(gradients - tensors, gradients, (size_t)tensors) &&
           (!sizing->checkpoint_count || sizing->checkpoint_home[(layer - 1) / interval] ==
                                             sizing->checkpoint_home[layer / interval]);
}

/* The first layer of the stretch that ends before layer `end`. */
static int64_t
find_stretch(const struct mw_sizing *sizing, const uint8_t *state, int64_t end)
{
    int64_t first = end - 1, tensor = mw_sizing_layer_tensor(sizing, first);

    for (; first > 0 && lives_alike(sizing, state, first, tensor); first--)
        tensor -= tensors_of_layer(sizing);
    return first;
}

/* --- a gap in a stretch ---------------------------------------------------------------------- */

/* After how many layers chunks begin as they did, and how many chunks that takes. */
static bool
find_round(const struct mw_sizing *sizing, struct mw_layer_gap *gap)
{
    g_autofree struct mw_chunk *chunks = mw_sizing_chunks(sizing);
    int64_t tensors = tensors_of_layer(sizing);
    uint32_t end = mw_sizing_layer_tensor(sizing, gap->end - 1) + (uint32_t)tensors;
    uint32_t first =
        find_chunk(sizing, chunks, mw_sizing_layer_tensor(sizing, (gap->first + gap->end) / 2));

    for (uint32_t c = first + 1; c < sizing->chunk_count && chunks[c].first_tensor < end; c++) {
        int64_t apart = chunks[c].first_tensor - chunks[first].first_tensor;
        if (apart > ROUND_LAYERS_MAX * tensors)
            return false;
        if (!apart || apart % (tensors * interval_of(sizing)) || is_piece(chunks, c) ||
            chunks[c].params != chunks[first].params ||
            chunks[c].tensor_count != chunks[first].tensor_count)
            continue;
        gap->layers_of_chunks = apart / tensors;
        gap->chunks_of_round = c - first;
        return true;
    }
    return false;
}

/* In the middle of the few that stay; false: the stretch has no more. */
static bool
find_gap(const struct mw_sizing *sizing, int64_t rounds, struct mw_layer_gap *gap)
{
    int64_t interval = interval_of(sizing), layers = gap->end - gap->first;

    if (!find_round(sizing, gap))
        return false;
    int64_t kept = MAX(rounds * interval, rounds * 3 / 4 * gap->layers_of_chunks);
    gap->left_out = (layers - kept) / gap->layers_of_chunks * gap->layers_of_chunks;
    kept = layers - gap->left_out;
    gap->cut = mw_round_up(gap->first + kept / 2, interval);
    return gap->left_out > 0 && gap->cut < gap->first + kept;
}

/* What is left out is as what is before and behind it, a round each. */
static bool
is_even(const uint8_t *homes, int64_t first, int64_t count, int64_t round, int64_t end)
{
    return first >= round && first + count + round <= end &&
           !memcmp(homes + first - round, homes + first, count + round);
}

static bool
has_even_homes(const struct mw_sizing *sizing, const struct mw_layer_gap *gap)
{
    int64_t tensors = tensors_of_layer(sizing), interval = interval_of(sizing);
    int64_t round = gap->layers_of_chunks * tensors, count = gap->left_out * tensors;
    uint32_t first = mw_sizing_layer_tensor(sizing, gap->cut);

    return is_even(sizing->param_home, first, count, round, sizing->tensor_count) &&
           is_even(sizing->gradient_home, first, count, round, sizing->tensor_count) &&
           (!sizing->checkpoint_count ||
            is_even(sizing->checkpoint_home, gap->cut / interval, gap->left_out / interval,
                    gap->layers_of_chunks / interval, sizing->checkpoint_count));
}

static uint8_t *
without(const uint8_t *homes, int64_t all, int64_t first, int64_t count)
{
    uint8_t *kept = g_new0(uint8_t, all - count + 1);

    memcpy(kept, homes, first);
    memcpy(kept + first, homes + first + count, all - first - count);
    return kept;
}

static struct mw_sizing *
shrink(const struct mw_sizing *sizing, const struct mw_layer_gap *gap)
{
    struct mw_sizing *small = g_memdup2(sizing, sizeof *sizing);
    uint32_t tensors = sizing->tensor_count, first = mw_sizing_layer_tensor(sizing, gap->cut);
    int64_t count = gap->left_out * tensors_of_layer(sizing), interval = interval_of(sizing);
    int64_t groups = sizing->checkpoint_count ? gap->left_out / interval : 0;

    small->layers -= gap->left_out;
    small->stretch[1].first = small->layers; /* there is one stretch */
    small->classes[mw_sizing_layer_class(sizing, 0)].blocks -= gap->left_out;
    small->tensor_count -= (uint32_t)count;
    small->param_home = without(sizing->param_home, tensors, first, count);
    small->gradient_home = without(sizing->gradient_home, tensors, first, count);
    small->checkpoint_home = without(sizing->checkpoint_home, sizing->checkpoint_count,
                                     groups ? gap->cut / interval : 0, groups);
    small->checkpoint_count -= groups;
    small->checkpoint_slots = small->checkpoint_count;
    small->chunk_count = 0;
    mw_sizing_cut_chunks(small);
    return small;
}

/* Chunks stay in their tiers, though those of the few would all go into the first. */
static void
keep_tiers(const struct mw_sizing *sizing, struct mw_sizing *small, const struct mw_layer_gap *gap)
{
    g_autofree struct mw_chunk *all = mw_sizing_chunks(sizing);
    struct mw_chunk *few = mw_sizing_chunks(small);

    for (uint32_t c = 0; c < small->chunk_count; c++)
        few[c].tier = all[c < gap->chunk_cut ? c : c + gap->chunks_left_out].tier;
    mw_sizing_take_chunks(small, few);
}

/* Chunks around what is left out are cut as they were. */
static bool
cut_chunks_alike(const struct mw_sizing *sizing, struct mw_sizing *small, struct mw_layer_gap *gap)
{
    g_autofree struct mw_chunk *chunks = mw_sizing_chunks(small);

    gap->chunk_cut = find_chunk(small, chunks, mw_sizing_layer_tensor(small, gap->cut));
    gap->chunks_left_out = (uint32_t)(gap->left_out / gap->layers_of_chunks * gap->chunks_of_round);
    if (small->chunk_count + gap->chunks_left_out != sizing->chunk_count)
        return false;
    if (mw_sizing_splits(sizing, MW_STATE_OPTIMIZER))
        keep_tiers(sizing, small, gap);
    mw_sizing_count_homes(small);
    return true;
}

/* --- all stretches --------------------------------------------------------------------------- */

/* Puts the gap in front of those found before, which lie behind it and move up. */
static void
add_gap(struct mw_few_layers *few, struct mw_layer_gap gap)
{
    gap.end -= gap.left_out;
    for (int g = few->gap_count++; g > 0; g--) {
        struct mw_layer_gap *later = &few->gaps[g];
        *later = few->gaps[g - 1];
        later->first -= gap.left_out;
        later->end -= gap.left_out;
        later->cut -= gap.left_out;
        later->chunk_cut -= gap.chunks_left_out;
    }
    few->gaps[0] = gap;
}

/* Leaves out what one stretch has too many of. */
static void
leave_out(const struct mw_sizing *sizing, int64_t rounds, struct mw_layer_gap gap,
          struct mw_few_layers *few)
{
    const struct mw_sizing *before = few->sizing ? few->sizing : sizing;

    if (few->gap_count == MW_LAYER_GAPS_MAX || !find_gap(before, rounds, &gap) ||
        !has_even_homes(before, &gap))
        return;
    struct mw_sizing *small = shrink(before, &gap);
    if (!cut_chunks_alike(before, small, &gap)) {
        mw_sizing_free(small);
        return;
    }
    mw_sizing_free(few->sizing);
    few->sizing = small;
    add_gap(few, gap);
}

static void
find_chunks_of_stretches(struct mw_few_layers *few)
{
    g_autofree struct mw_chunk *chunks = mw_sizing_chunks(few->sizing);
    uint32_t tensors = (uint32_t)tensors_of_layer(few->sizing);

    for (int g = 0; g < few->gap_count; g++) {
        struct mw_layer_gap *gap = &few->gaps[g];
        uint32_t end = mw_sizing_layer_tensor(few->sizing, gap->end - 1) + tensors;
        gap->first_chunk =
            find_chunk(few->sizing, chunks, mw_sizing_layer_tensor(few->sizing, gap->first));
        uint32_t c = gap->first_chunk;
        while (c < few->sizing->chunk_count &&
               chunks[c].first_tensor + chunks[c].tensor_count <= end)
            c++;
        gap->chunks_until = c;
    }
}

bool
mw_sizing_few_layers(const struct mw_sizing *sizing, int64_t rounds, struct mw_few_layers *few)
{
    const struct mw_settings *settings = &sizing->settings;

    *few = (struct mw_few_layers){0};
    if (sizing->pp > 1 || settings->unfold || mw_settings_update_apart(settings) ||
        settings->drop_layers || mw_sizing_recomputes_some(sizing) ||
        !mw_sizing_has_equal_layers(sizing))
        return false;
    g_autofree uint8_t *state = place_layers(sizing);
    /* From the last on: what is left out behind a stretch does not move it. */
    for (int64_t end = sizing->layers, first; end > 0; end = first) {
        first = find_stretch(sizing, state, end);
        leave_out(sizing, rounds, (struct mw_layer_gap){.first = first, .end = end}, few);
    }
    if (!few->sizing)
        return false;
    find_chunks_of_stretches(few);
    return true;
}
