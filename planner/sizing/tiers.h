/* tiers.h - fills the tiers of a placement, the faster one first. */
#ifndef MW_PLANNER_SIZING_TIERS_H
#define MW_PLANNER_SIZING_TIERS_H

#include "planner/settings/settings.h"

struct mw_tier_filler {
    const struct mw_placement *placement;
    int64_t ranks_per_node;
    int64_t all; /* bytes of a rank, for shares of them */
    int part;
    int64_t left;
};

/* It borrows the placement. */
void mw_tiers_begin(struct mw_tier_filler *filler, const struct mw_placement *placement,
                    int64_t ranks_per_node, int64_t all);
/* The tier into which so many bytes go, and takes them. */
enum mw_tier mw_tiers_next(struct mw_tier_filler *filler, int64_t bytes);
/* How many blocks of so many bytes go into the tier that is being filled, and takes their bytes;
 * the next tensor finds its own. */
int64_t mw_tiers_fill(struct mw_tier_filler *filler, int64_t block_bytes, int64_t blocks);

#endif
