/*
 * Rings of gradients as long as memory has room for.  Parts differ in how long they compute and how
 * long they travel.  With two slots each waits for the slower of both; where those of a whole layer
 * may be on their way while the next one's are computed, only the sums over a layer count.
 */
#include <glib.h>
#include <math.h>

#include "base/arithmetic.h"
#include "planner/sizing/internal.h"

static const enum mw_buffer_kind rings[] = {
    MW_BUFFER_GRADIENTS_WHOLE,  MW_BUFFER_GRADIENTS_WHOLE_SMALL,
    MW_BUFFER_GRADIENTS_SHARD,  MW_BUFFER_GRADIENTS_SHARD_SMALL,
    MW_BUFFER_GRADIENTS_PINNED, MW_BUFFER_GRADIENTS_PINNED_SMALL,
};

int64_t
mw_sizing_parts_of_layer(const struct mw_sizing *sizing)
{
    int64_t most = 0;

    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++) {
        const struct mw_class_info *class = &sizing->classes[c];
        int64_t parts = 0;
        for (int u = 0; u < class->unit_count; u++)
            parts += class->units[u].tiles;
        most = MAX(most, parts);
    }
    return most;
}

/* Of one more part of each ring in this tier. */
static int64_t
part_bytes(const struct mw_sizing *sizing, enum mw_tier tier)
{
    int64_t sum = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(rings); i++) {
        const struct mw_buffer *ring = &sizing->buffers[rings[i]];
        if (ring->tier == tier && !ring->shares)
            sum += ring->part_slots * mw_round_up(ring->bytes, MW_SLOT_ALIGNMENT_BYTES);
    }
    return sum;
}

/* Parts for which the software's buckets of gradients have room, beside those that every ring has;
 * software without buckets takes as many as help. */
static double
parts_of_buckets(const struct mw_sizing *sizing)
{
    const struct mw_memory_use *use = &sizing->hardware->memory_use;
    double elements = sizing->optimizer_partitioned ? use->buckets * use->bucket_elements : 0;
    int64_t bytes = part_bytes(sizing, MW_TIER_GPU);

    return elements > 0 && bytes > 0
               ? floor(elements * (double)sizing->element_bytes / (double)bytes)
               : INFINITY;
}

/* Parts for which the tier has room besides; what the software's allocator loses grows with what
 * it holds. */
static double
parts_with_room(const struct mw_sizing *sizing, enum mw_tier tier)
{
    int64_t left = sizing->tiers[tier].capacity_bytes - mw_sizing_whole_need(sizing, tier);
    double loss = tier == MW_TIER_GPU ? sizing->hardware->memory_use.allocator_loss : 0;

    return floor((double)left * (1 - loss) / (double)part_bytes(sizing, tier));
}

/* Behind them lies the room for what shares bytes. */
static void
lengthen(struct mw_sizing *sizing, enum mw_tier tier, int64_t parts)
{
    int64_t bytes = parts * part_bytes(sizing, tier);

    for (size_t i = 0; i < G_N_ELEMENTS(rings); i++) {
        const struct mw_buffer *ring = &sizing->buffers[rings[i]];
        if (ring->tier == tier && !ring->shares)
            mw_sizing_add_slots(sizing, rings[i], parts * ring->part_slots);
    }
    sizing->more_parts[tier] = parts;
    sizing->shared[tier].begin += bytes;
    sizing->shared[tier].end += bytes;
}

void
mw_sizing_lengthen_rings(struct mw_sizing *sizing)
{
    static const enum mw_tier tiers[] = {MW_TIER_GPU, MW_TIER_CPU};
    double helps = (double)(mw_sizing_parts_of_layer(sizing) + 1 - MW_GRADIENT_RING);

    helps = fmin(helps, parts_of_buckets(sizing));
    for (size_t t = 0; sizing->fits && t < G_N_ELEMENTS(tiers); t++)
        if (part_bytes(sizing, tiers[t])) {
            double parts = fmin(helps, parts_with_room(sizing, tiers[t]));
            lengthen(sizing, tiers[t], (int64_t)fmax(0, parts));
        }
    if (sizing->more_parts[MW_TIER_GPU] || sizing->more_parts[MW_TIER_CPU])
        mw_sizing_judge(sizing);
}

int64_t
mw_sizing_bucket_bytes_in_rings(const struct mw_sizing *sizing)
{
    bool buckets = isfinite(parts_of_buckets(sizing));

    return buckets ? sizing->more_parts[MW_TIER_GPU] * part_bytes(sizing, MW_TIER_GPU) : 0;
}
