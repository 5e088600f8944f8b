/* Which layers of a stage are recomputed, and what the others keep. */
#include <glib.h>

#include "planner/sizing/internal.h"

/* Where no layer is named all are recomputed, or none if checkpoints are of activations. */
struct mw_recomputed
mw_sizing_recomputed_in(const struct mw_sizing *sizing, int64_t stretch)
{
    const struct mw_settings *s = &sizing->settings;
    int64_t begin = sizing->stretch[stretch].begin, again = s->recompute_layers;
    int64_t layers = mw_sizing_stretch_layers(sizing, stretch);

    if (again < 1)
        again = mw_settings_keeps_whole(s) ? 0 : layers;
    return (struct mw_recomputed){
        .begin = begin,
        .end = begin + layers,
        .interval = s->checkpoint_interval,
        .kept = MAX(0, layers - again),
        .set = sizing->names_recomputed ? &s->recompute_set : NULL,
    };
}

bool
mw_sizing_recomputes(const struct mw_sizing *sizing, int64_t layer)
{
    int64_t stretch = mw_sizing_stretch_of(sizing, layer);
    struct mw_recomputed recomputed = mw_sizing_recomputed_in(sizing, stretch);

    return mw_recomputed_has(&recomputed, mw_sizing_model_layer(sizing, layer));
}

int64_t
mw_sizing_kept_layers(const struct mw_sizing *sizing)
{
    int64_t kept = 0;

    if (!sizing->settings.checkpoint_interval)
        return 0;
    for (int64_t stretch = 0; stretch < sizing->stretches; stretch++) {
        struct mw_recomputed recomputed = mw_sizing_recomputed_in(sizing, stretch);
        kept += mw_recomputed_kept(&recomputed);
    }
    return kept;
}

/* In the stretch that has most. */
static int64_t
most_of(const struct mw_sizing *sizing, int64_t count(const struct mw_recomputed *))
{
    int64_t most = 0;

    for (int64_t stretch = 0; stretch < sizing->stretches; stretch++) {
        struct mw_recomputed recomputed = mw_sizing_recomputed_in(sizing, stretch);
        most = MAX(most, count(&recomputed));
    }
    return most;
}

int64_t
mw_sizing_kept_in_pass(const struct mw_sizing *sizing)
{
    return most_of(sizing, mw_recomputed_kept);
}

int64_t
mw_sizing_groups_in_pass(const struct mw_sizing *sizing)
{
    return most_of(sizing, mw_recomputed_groups);
}

int64_t
mw_sizing_largest_group(const struct mw_sizing *sizing)
{
    return most_of(sizing, mw_recomputed_largest);
}

bool
mw_sizing_recomputes_some(const struct mw_sizing *sizing)
{
    int64_t kept = mw_sizing_kept_layers(sizing);

    return kept > 0 && kept < sizing->layers;
}

bool
mw_sizing_mixes_checkpoints(const struct mw_sizing *sizing)
{
    return mw_settings_keeps_whole(&sizing->settings) && mw_sizing_recomputes_some(sizing);
}

bool
mw_sizing_leaves_whole(const struct mw_sizing *sizing, int64_t layer)
{
    return mw_settings_keeps_whole(&sizing->settings) && !mw_sizing_recomputes(sizing, layer);
}

bool
mw_sizing_leaves_any_whole(const struct mw_sizing *first)
{
    bool any = false;

    for (const struct mw_sizing *stage = first; stage; stage = stage->next_stage)
        any |= mw_settings_keeps_whole(&stage->settings) && mw_sizing_kept_layers(stage);
    return any;
}

int64_t
mw_sizing_kept_of_model(const struct mw_sizing *first)
{
    int64_t kept = 0;

    for (const struct mw_sizing *stage = first; stage; stage = stage->next_stage)
        kept += mw_sizing_kept_layers(stage);
    return mw_settings_keeps_whole(&first->settings) && kept == first->model->layers ? 0 : kept;
}

int64_t
mw_sizing_kept_coded_bytes(const struct mw_sizing *sizing, int64_t layer)
{
    return mw_sizing_recomputes(sizing, layer)
               ? 0
               : sizing->classes[mw_sizing_layer_class(sizing, layer)].coded_bytes;
}

/* Of the blocks of a class those that keep their activations beside recomputed ones. */
static int64_t
kept_blocks(const struct mw_sizing *sizing, enum mw_class class)
{
    int64_t kept = 0;

    if (!mw_sizing_kept_layers(sizing))
        return 0;
    for (int64_t k = 0; k < sizing->stretches; k++) {
        const struct mw_recomputed recomputed = mw_sizing_recomputed_in(sizing, k);
        int64_t first = sizing->stretch[k].first;
        for (int64_t layer = first; layer < sizing->stretch[k + 1].first; layer++)
            kept += mw_sizing_layer_class(sizing, layer) == class &&
                    !mw_recomputed_has(&recomputed, recomputed.begin + layer - first);
    }
    return kept;
}

int64_t
mw_sizing_recomputed_blocks(const struct mw_sizing *sizing, enum mw_class class)
{
    int64_t blocks = mw_class_is_of_layers(class) ? sizing->classes[class].blocks : 0;

    if (!blocks || !sizing->settings.checkpoint_interval)
        return 0;
    return blocks - kept_blocks(sizing, class);
}

/* Of the stretch whose layers keep most. */
static int64_t
kept_of_stretch(const struct mw_sizing *sizing, bool stored)
{
    int64_t most = 0;

    for (int64_t k = 0; k < sizing->stretches; k++) {
        const struct mw_recomputed recomputed = mw_sizing_recomputed_in(sizing, k);
        int64_t first = sizing->stretch[k].first, behind = sizing->stretch[k + 1].first, bytes = 0;
        for (int64_t layer = first; layer < behind; layer++) {
            if (mw_recomputed_has(&recomputed, recomputed.begin + layer - first))
                continue;
            const struct mw_class_info *class =
                &sizing->classes[mw_sizing_layer_class(sizing, layer)];
            bytes += stored ? class->kept_bytes : class->saved_bytes;
        }
        most = MAX(most, bytes);
    }
    return most;
}

static int64_t
kept_bytes(const struct mw_sizing *sizing, bool stored)
{
    if (mw_settings_keeps_whole(&sizing->settings))
        return 0;
    if (sizing->stretches > 1)
        return kept_of_stretch(sizing, stored);
    bool interval = sizing->settings.checkpoint_interval > 0;
    int64_t bytes = 0;

    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++) {
        const struct mw_class_info *class = &sizing->classes[c];
        int64_t kept = interval ? kept_blocks(sizing, (enum mw_class)c) : class->blocks;
        bytes += kept * (stored ? class->kept_bytes : class->saved_bytes);
    }
    return bytes;
}

void
mw_sizing_set_kept(struct mw_sizing *sizing)
{
    sizing->kept_bytes = kept_bytes(sizing, false);
    sizing->stored_bytes = mw_kept_encodings(&sizing->settings.kept_as) ? kept_bytes(sizing, true)
                                                                        : sizing->kept_bytes;
}

int64_t
mw_sizing_kept_scores(const struct mw_sizing *sizing)
{
    bool interval = sizing->settings.checkpoint_interval > 0;
    int64_t most = 0, elements = 0;

    if (mw_settings_keeps_whole(&sizing->settings))
        return 0;
    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++) {
        const struct mw_class_info *class = &sizing->classes[c];
        int64_t kept = interval ? kept_blocks(sizing, (enum mw_class)c) : class->blocks;
        elements += kept * class->kept_scores;
        most = MAX(most, class->kept_scores);
    }
    /* A pass has one stretch's: at most as many layers of the kind with most. */
    if (sizing->stretches > 1)
        elements = MIN(elements, mw_sizing_kept_in_pass(sizing) * most);
    return elements + mw_sizing_largest_group(sizing) * most;
}

double
mw_sizing_forward_s(const struct mw_sizing *sizing, enum mw_class class)
{
    const struct mw_class_info *info = &sizing->classes[class];
    double seconds = 0;

    for (int i = 0; i < info->operator_count; i++)
        seconds +=
            (double)info->operators[i].forward_flops / sizing->hardware->gpu_achievable_flops +
            (double)info->operators[i].forward_bytes / sizing->hardware->gpu_memory_bytes_per_s;
    return seconds;
}

int64_t
mw_sizing_activation_sets(const struct mw_sizing *sizing)
{
    bool leave = sizing->settings.checkpoint_interval &&
                 (!mw_sizing_kept_layers(sizing) || mw_settings_keeps_whole(&sizing->settings));

    return leave ? 1 : sizing->micro_batches_in_flight;
}

bool
mw_sizing_waits_for_logits(const struct mw_sizing *sizing)
{
    return sizing->classes[MW_CLASS_TAIL].blocks && sizing->layers &&
           sizing->micro_batches_in_flight > 1 && sizing->stretches == 1 &&
           mw_sizing_activation_sets(sizing) == 1 && !mw_settings_layer_order(&sizing->settings);
}

static int64_t
largest_group_bytes(const struct mw_sizing *sizing, int64_t stretch)
{
    const struct mw_recomputed recomputed = mw_sizing_recomputed_in(sizing, stretch);
    int64_t first = sizing->stretch[stretch].first, begin = recomputed.begin, most = 0;

    for (int64_t layer = begin, behind; layer < recomputed.end; layer = behind) {
        int64_t bytes = 0;
        behind = layer + 1;
        if (!mw_recomputed_has(&recomputed, layer))
            continue;
        mw_recomputed_group(&recomputed, layer, &behind);
        for (int64_t l = layer; l < behind; l++)
            bytes += sizing->classes[mw_sizing_layer_class(sizing, first + l - begin)].saved_bytes;
        most = MAX(most, bytes);
    }
    return most;
}

/* Where all layers are alike, or each is a group, any group of the most layers is the largest, or
 * has the largest layer. */
int64_t
mw_sizing_group_bytes(const struct mw_sizing *sizing)
{
    int64_t most = 0;

    bool alone = sizing->settings.checkpoint_interval == 1 && !mw_sizing_kept_layers(sizing);
    if (mw_sizing_has_equal_layers(sizing) || alone)
        return mw_sizing_largest_group(sizing) * mw_sizing_layer_bytes(sizing);
    for (int64_t stretch = 0; stretch < sizing->stretches; stretch++)
        most = MAX(most, largest_group_bytes(sizing, stretch));
    return most;
}
