#include "planner/sizing/tiers.h"

#include <glib.h>
#include <math.h>

void
mw_tiers_begin(struct mw_tier_filler *filler, const struct mw_placement *placement,
               int64_t ranks_per_node, int64_t all)
{
    *filler = (struct mw_tier_filler){placement, ranks_per_node, all, -1, 0};
}

static int64_t
limit_of(const struct mw_tier_filler *filler, int part)
{
    int64_t bytes = filler->placement->part[part].bytes;
    double share = filler->placement->part[part].share;

    if (share > 0)
        return llround(share * (double)filler->all);
    return bytes == INT64_MAX ? bytes : bytes / filler->ranks_per_node;
}

enum mw_tier
mw_tiers_next(struct mw_tier_filler *filler, int64_t bytes)
{
    while (filler->part < 0 ||
           (filler->left < bytes && filler->part + 1 < filler->placement->count))
        filler->left = limit_of(filler, ++filler->part);
    if (filler->left != INT64_MAX)
        filler->left -= bytes;
    return filler->placement->part[filler->part].tier;
}

int64_t
mw_tiers_fill(struct mw_tier_filler *filler, int64_t block_bytes, int64_t blocks)
{
    bool last = filler->part + 1 >= filler->placement->count;

    if (filler->part < 0)
        return 0;
    if (!last && block_bytes)
        blocks = MIN(blocks, filler->left / block_bytes);
    if (filler->left != INT64_MAX)
        filler->left -= blocks * block_bytes;
    return blocks;
}
