/*
 * Gradients of an update beside backward (--update beside), which live on the GPU from the backward
 * of their operators until the update of their chunk (LOMO, arXiv 2306.09782, Sec. 3.1).
 *
 * Layers take turns in sets of homes: a layer's gradients lie over those of the layer that is as
 * many layers further up as there are sets.  The model's two ends have the room behind the sets,
 * one after the other; where they are tied, the embedding's gradient is begun with the logits, and
 * lives all the while.  That is a choice of places alone: the builder adds the edges that they
 * need, and the plan's check proves it (plan/check_content.c).
 */
#include <glib.h>

#include "base/arithmetic.h"
#include "planner/sizing/internal.h"

/* Each home of a set lies over those of all layers of the set, in each program of the plan.  Other
 * slots of it share bytes too, in fewer pairs. */
#define PAIRS_MAX (MW_PLAN_SHARED_PAIRS_MAX - 100000)

/* Nothing holds more. */
#define BYTES_MOST (INT64_MAX / 64)

/* A gradient that is kept over micro-batches is final with the last of them, and so is that of a
 * state that is elsewhere when the GPU could update it.  What the host updates may lag behind
 * backward as far as it likes, and homes of its own let it.  A layer that is left out has no
 * turn. */
static bool
may_take_turns(const struct mw_sizing *sizing)
{
    const struct mw_settings *settings = &sizing->settings;

    return mw_settings_update_beside(settings) && settings->grad_accum == 1 &&
           !settings->drop_layers && !settings->forward_only &&
           !mw_sizing_splits(sizing, MW_STATE_GRADIENTS) &&
           !mw_sizing_splits(sizing, MW_STATE_OPTIMIZER) && sizing->tensor_count &&
           sizing->gradient_home[0] == MW_TIER_GPU &&
           settings->placement[MW_STATE_OPTIMIZER].part[0].tier == MW_TIER_GPU;
}

static int64_t
layers_of_chunk(const struct mw_sizing *sizing, const struct mw_chunk *chunk)
{
    int64_t least = INT64_MAX, most = -1;

    for (uint32_t t = 0; t < chunk->tensor_count; t++) {
        int32_t layer;
        int index;
        mw_sizing_locate(sizing, chunk->first_tensor + t, &layer, &index);
        if (layer < 0)
            continue;
        least = MIN(least, layer);
        most = MAX(most, layer);
    }
    return most < 0 ? 0 : most - least + 1;
}

/* Those of the chunk that has most, and the one that backward computes before the GPU updates it;
 * and the next one, where a part that is reduced is added up behind the next part. */
static int64_t
layers_at_once(const struct mw_sizing *sizing)
{
    int64_t most = 1;

    for (uint32_t c = 0; c < sizing->run_chunk_count; c++)
        most = MAX(most, layers_of_chunk(sizing, &sizing->run_chunks[c]));
    return most + 1 + (sizing->gradients_summed && sizing->gradients_partitioned);
}

static int64_t
home_bytes(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor)
{
    return mw_round_up(mw_sizing_home_bytes(sizing, MW_BUFFER_GRADIENTS, tensor),
                       MW_SLOT_ALIGNMENT_BYTES);
}

/* Of the first so many tensors of a block. */
static int64_t
homes_bytes(const struct mw_sizing *sizing, const struct mw_class_info *class, int tensors)
{
    int64_t bytes = 0;

    for (int t = 0; class->blocks && t < tensors; t++)
        bytes += home_bytes(sizing, &class->tensors[t]);
    return bytes;
}

static int64_t
block_bytes(const struct mw_sizing *sizing, enum mw_class class)
{
    return homes_bytes(sizing, &sizing->classes[class], sizing->classes[class].tensor_count);
}

static int64_t
count_pairs(const struct mw_sizing *sizing, int64_t sets)
{
    int64_t programs = sizing->settings.unfold ? sizing->ranks : 1;

    return programs * sizing->tensor_count * mw_divide_up(sizing->tensor_count, sets);
}

static int64_t
sets_bytes(const struct mw_sizing *sizing, int64_t sets)
{
    int64_t bytes = 0;

    for (int64_t set = 0; set < sets; set++)
        bytes += sizing->gradient_set_bytes[set];
    return bytes;
}

int64_t
mw_sizing_gradient_sets_bytes(const struct mw_sizing *sizing)
{
    int64_t head = block_bytes(sizing, MW_CLASS_HEAD), tail = block_bytes(sizing, MW_CLASS_TAIL);

    return sets_bytes(sizing, sizing->gradient_sets) +
           (mw_sizing_tied(sizing) ? head + tail : MAX(head, tail));
}

int64_t
mw_sizing_gradient_set_place(const struct mw_sizing *sizing, uint32_t tensor)
{
    int32_t layer;
    int index;
    enum mw_class class = mw_sizing_locate(sizing, tensor, &layer, &index);
    int64_t begin =
        sets_bytes(sizing, layer < 0 ? sizing->gradient_sets : layer % sizing->gradient_sets);

    if (class == MW_CLASS_TAIL && mw_sizing_tied(sizing))
        begin += block_bytes(sizing, MW_CLASS_HEAD);
    return begin + homes_bytes(sizing, &sizing->classes[class], index);
}

void
mw_sizing_set_gradient_sets(struct mw_sizing *sizing)
{
    int64_t sets = may_take_turns(sizing) ? layers_at_once(sizing) : 0, bytes[MW_CLASS_COUNT];

    sizing->gradient_sets = 0;
    if (!sets || sets > MW_GRADIENT_SETS_MAX || sets >= sizing->layers ||
        count_pairs(sizing, sets) > PAIRS_MAX)
        return;
    sizing->gradient_sets = sets;
    for (int c = 0; c < MW_CLASS_COUNT; c++)
        bytes[c] = block_bytes(sizing, c);
    for (int64_t set = 0; set < sets; set++)
        sizing->gradient_set_bytes[set] = 0;
    for (int64_t layer = 0; layer < sizing->layers; layer++) {
        int64_t *set = &sizing->gradient_set_bytes[layer % sets];
        *set = MAX(*set, bytes[mw_sizing_layer_class(sizing, layer)]);
    }
    if (mw_sizing_gradient_sets_bytes(sizing) > BYTES_MOST)
        sizing->gradient_sets = 0;
}
