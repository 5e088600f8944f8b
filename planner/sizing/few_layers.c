/*
 * The same sizing with few of its layers: the builder builds these, and what is left out follows
 * from them (plan/fold.c).
 *
 * As many layers are left out as leave all as it was: whole checkpoint groups, and whole rounds of
 * the optimizer step's chunks, which may run through several layers.
 */
#include <glib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "planner/sizing/internal.h"

/* A round of more layers is none. */
#define ROUND_LAYERS_MAX 1024

/* What is left out. */
struct gap {
    enum mw_class class;        /* of all layers */
    int64_t tensors;            /* of each */
    uint32_t first_tensor, count; /* that are left out */
    int64_t first_group, groups;
};

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

/* After how many layers chunks begin as they did, and how many chunks that takes. */
static bool
find_round(const struct mw_sizing *sizing, const struct gap *gap, struct mw_few_layers *few)
{
    g_autofree struct mw_chunk *chunks = mw_sizing_chunks(sizing);
    int64_t interval = MAX(1, sizing->settings.checkpoint_interval);
    int64_t blocks = sizing->classes[gap->class].blocks;
    uint32_t middle = mw_sizing_layer_tensor(sizing, blocks / 2);
    uint32_t first = find_chunk(sizing, chunks, middle);

    for (uint32_t c = first + 1; c < sizing->chunk_count; c++) {
        int64_t apart = chunks[c].first_tensor - chunks[first].first_tensor;
        if (apart > ROUND_LAYERS_MAX * gap->tensors)
            return false;
        if (!apart || apart % (gap->tensors * interval) || is_piece(chunks, c) ||
            chunks[c].params != chunks[first].params ||
            chunks[c].tensor_count != chunks[first].tensor_count)
            continue;
        few->layers_of_chunks = apart / gap->tensors;
        few->chunks_of_round = c - first;
        return true;
    }
    return false;
}

/* In the middle of the few that stay. */
static bool
find_gap(const struct mw_sizing *sizing, int64_t rounds, struct mw_few_layers *few, struct gap *gap)
{
    const struct mw_class_info *classes = sizing->classes;
    int64_t interval = MAX(1, sizing->settings.checkpoint_interval);

    gap->class = mw_sizing_layer_class(sizing, 0);
    gap->tensors = classes[gap->class].tensor_count;
    if (!find_round(sizing, gap, few))
        return false;
    int64_t blocks = classes[gap->class].blocks;
    int64_t kept = MAX(rounds * interval, rounds * 3 / 4 * few->layers_of_chunks);
    few->left_out = (blocks - kept) / few->layers_of_chunks * few->layers_of_chunks;
    kept = blocks - few->left_out;
    few->cut = mw_round_up(kept / 2, interval);
    if (few->left_out <= 0 || few->cut >= kept)
        return false;
    gap->first_tensor = mw_sizing_layer_tensor(sizing, few->cut);
    gap->count = (uint32_t)(few->left_out * gap->tensors);
    gap->first_group = few->cut / interval;
    gap->groups = sizing->checkpoint_count ? few->left_out / interval : 0;
    return true;
}

/* What is left out is as what is before and behind it, a round each. */
static bool
is_even(const uint8_t *homes, int64_t first, int64_t count, int64_t round, int64_t end)
{
    return first >= round && first + count + round <= end &&
           !memcmp(homes + first - round, homes + first, count + round);
}

static bool
has_even_homes(const struct mw_sizing *sizing, const struct mw_few_layers *few,
               const struct gap *gap)
{
    int64_t round = few->layers_of_chunks * gap->tensors;
    int64_t groups = few->layers_of_chunks / MAX(1, sizing->settings.checkpoint_interval);

    return is_even(sizing->param_home, gap->first_tensor, gap->count, round,
                   sizing->tensor_count) &&
           is_even(sizing->gradient_home, gap->first_tensor, gap->count, round,
                   sizing->tensor_count) &&
           (!gap->groups || is_even(sizing->checkpoint_home, gap->first_group, gap->groups, groups,
                                    sizing->checkpoint_count));
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
shrink(const struct mw_sizing *sizing, const struct mw_few_layers *few, const struct gap *gap)
{
    struct mw_sizing *small = g_memdup2(sizing, sizeof *sizing);
    uint32_t tensors = sizing->tensor_count;

    small->layers -= few->left_out;
    small->classes[gap->class].blocks -= few->left_out;
    small->tensor_count -= gap->count;
    small->param_home = without(sizing->param_home, tensors, gap->first_tensor, gap->count);
    small->gradient_home = without(sizing->gradient_home, tensors, gap->first_tensor, gap->count);
    small->checkpoint_home = without(sizing->checkpoint_home, sizing->checkpoint_count,
                                     gap->groups ? gap->first_group : 0, gap->groups);
    small->checkpoint_count -= gap->groups;
    small->checkpoint_slots = small->checkpoint_count;
    small->chunk_count = 0;
    mw_sizing_cut_chunks(small);
    mw_sizing_count_homes(small);
    return small;
}

/* Chunks around what is left out are cut as they were. */
static bool
cut_chunks_alike(const struct mw_sizing *sizing, struct mw_few_layers *few, const struct gap *gap)
{
    g_autofree struct mw_chunk *chunks = mw_sizing_chunks(few->sizing);

    few->chunk_cut = find_chunk(few->sizing, chunks, gap->first_tensor);
    few->chunks_left_out = (uint32_t)(few->left_out / few->layers_of_chunks * few->chunks_of_round);
    return few->sizing->chunk_count + few->chunks_left_out == sizing->chunk_count;
}

bool
mw_sizing_few_layers(const struct mw_sizing *sizing, int64_t rounds, struct mw_few_layers *few)
{
    const struct mw_settings *settings = &sizing->settings;
    struct gap gap;

    *few = (struct mw_few_layers){0};
    if (sizing->pp > 1 || settings->unfold || mw_settings_update_apart(settings) ||
        settings->drop_layers || mw_sizing_splits(sizing, MW_STATE_OPTIMIZER) ||
        !find_gap(sizing, rounds, few, &gap) || !has_even_homes(sizing, few, &gap))
        return false;
    few->sizing = shrink(sizing, few, &gap);
    if (cut_chunks_alike(sizing, few, &gap))
        return true;
    mw_sizing_free(few->sizing);
    few->sizing = NULL;
    return false;
}
