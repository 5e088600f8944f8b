/*
 * Software that gathers parameters and reduces gradients block by block, as FSDP does, where a plan
 * has buffers for parts of products (docs/MODEL.md 12.12a).
 *
 * In backward of a block there are its parameters and those of the next one, which are gathered
 * meanwhile; its gradients as they are made; and those of the block before it in the type in which
 * they are reduced.  The embedding and the logits' weight are blocks of their own, or with what
 * else is in no layer one that stays whole from forward until backward has ended.
 */
#include <glib.h>
#include <math.h>

#include "planner/sizing/internal.h"

bool
mw_sizing_has_blocks(const struct mw_sizing *sizing)
{
    return sizing->hardware->memory_use.whole_blocks > 0 && sizing->shards > 1 &&
           sizing->gradients_partitioned;
}

/* Of tensors that ranks divide. */
static double
params_of(const struct mw_sizing *sizing, enum mw_class class)
{
    const struct mw_class_info *info = &sizing->classes[class];
    int64_t bytes = 0;

    for (int t = 0; sizing->params_partitioned && info->blocks && t < info->tensor_count; t++)
        if (info->tensors[t].ranks > 1)
            bytes += info->tensors[t].tiles *
                     mw_sizing_param_bytes(&info->tensors[t], info->tensors[t].tile_params);
    return (double)bytes;
}

static double
gradients_of(const struct mw_sizing *sizing, enum mw_class class)
{
    const struct mw_class_info *info = &sizing->classes[class];
    int64_t elements = 0;

    for (int t = 0; info->blocks && t < info->tensor_count; t++)
        if (info->tensors[t].trained && info->tensors[t].ranks > 1)
            elements += info->tensors[t].tiles * info->tensors[t].tile_params;
    return (double)(sizing->element_bytes * elements);
}

static double
largest_layer(const struct mw_sizing *sizing,
              double of(const struct mw_sizing *sizing, enum mw_class class))
{
    double largest = 0;

    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++)
        largest = fmax(largest, of(sizing, c));
    return largest;
}

/* Shared parameters belong to one block. */
static bool
ends_stay(const struct mw_sizing *sizing)
{
    return sizing->hardware->memory_use.ends_stay || mw_sizing_tied(sizing);
}

struct mw_blocks
mw_sizing_blocks(const struct mw_sizing *sizing, enum mw_block_moment moment)
{
    double head = params_of(sizing, MW_CLASS_HEAD), tail = params_of(sizing, MW_CLASS_TAIL);
    double of_head = gradients_of(sizing, MW_CLASS_HEAD);
    double of_tail = gradients_of(sizing, MW_CLASS_TAIL);
    double layer = largest_layer(sizing, params_of), of_layer = largest_layer(sizing, gradients_of);
    double reduced = (double)mw_sizing_reduced_bytes(sizing, sizing->gradient_element_bytes) /
                     (double)sizing->element_bytes;
    double blocks = sizing->params_partitioned ? sizing->hardware->memory_use.whole_blocks : 0;
    bool stay = ends_stay(sizing);
    double staying = stay ? head + tail : 0;
    double logits = mw_sizing_tied(sizing) ? of_head + of_tail : of_tail;
    double before = stay                             ? of_layer
                    : moment == MW_BLOCKS_LAST_LAYER ? fmax(of_layer, of_tail)
                                                     : of_layer;

    switch (moment) {
    case MW_BLOCKS_LOSS:
        return (struct mw_blocks){stay ? staying : tail,
                                  sizing->settings.logits_chunks > 1 ? logits : 0};
    case MW_BLOCKS_LOGITS:
        return (struct mw_blocks){(stay ? staying : tail) + layer, logits};
    case MW_BLOCKS_LAST_LAYER:
    case MW_BLOCKS_LAYER:
        return (struct mw_blocks){staying + blocks * layer,
                                  of_layer + reduced * before + (stay ? logits : 0)};
    case MW_BLOCKS_HEAD:
        return stay ? (struct mw_blocks){staying, (1 + reduced) * (of_head + of_tail)}
                    : (struct mw_blocks){head, of_head + reduced * fmax(of_layer, of_head)};
    default:
        return (struct mw_blocks){0, 0};
    }
}

static double
planned(const struct mw_sizing *sizing, const enum mw_buffer_kind *kinds, size_t count)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += mw_sizing_buffer_bytes(sizing, kinds[i]);
    return (double)bytes;
}

struct mw_blocks
mw_sizing_planned_blocks(const struct mw_sizing *sizing)
{
    static const enum mw_buffer_kind params[] = {MW_BUFFER_PARAMETERS_GATHERED,
                                                 MW_BUFFER_PARAMETERS_GATHERED_SMALL};
    static const enum mw_buffer_kind gradients[] = {
        MW_BUFFER_GRADIENTS_WHOLE, MW_BUFFER_GRADIENTS_WHOLE_SMALL, MW_BUFFER_GRADIENTS_TIED};

    return (struct mw_blocks){planned(sizing, params, G_N_ELEMENTS(params)),
                              planned(sizing, gradients, G_N_ELEMENTS(gradients))};
}

double
mw_sizing_more_blocks(const struct mw_sizing *sizing)
{
    struct mw_blocks plan = mw_sizing_planned_blocks(sizing);
    double most = 0;

    for (int moment = 0; mw_sizing_has_blocks(sizing) && moment < MW_BLOCK_MOMENT_COUNT; moment++) {
        struct mw_blocks blocks = mw_sizing_blocks(sizing, moment);
        most = fmax(most, fmax(0, blocks.params - plan.params) +
                              fmax(0, blocks.gradients - plan.gradients));
    }
    return most;
}
