/* A remedy: more nodes. */
#include <glib.h>

#include "planner/remedy/internal.h"

/* The first number from one to the other, both included, that machine, batch and slicing allow; 0:
 * none. */
int64_t
mw_valid_nodes(const struct mw_unfit *unfit, const struct mw_settings *settings, int64_t from,
               int64_t to)
{
    struct mw_settings s = *settings;
    int64_t step = from <= to ? 1 : -1;

    mw_settings_complete_tokens(unfit->request->model, &s); /* once, for it counts parameters */
    for (s.nodes = from; s.nodes != to + step; s.nodes += step)
        if (mw_settings_check(unfit->request, &s, NULL))
            return s.nodes;
    return 0;
}

/* The fewest nodes with room, more than `low` and up to `high`; 0: the largest valid number has no
 * room. */
int64_t
mw_fewest_nodes(const struct mw_unfit *unfit, const struct mw_settings *settings, int64_t low,
                int64_t high)
{
    struct mw_settings s = *settings;
    int64_t found = s.nodes = mw_valid_nodes(unfit, settings, high, low + 1);

    if (!found || !mw_remedy_fits(unfit, &s))
        return 0;
    for (high = found; high - low > 1;) {
        int64_t middle = low + (high - low) / 2;
        s.nodes = mw_valid_nodes(unfit, settings, middle, high - 1);
        if (s.nodes && !mw_remedy_fits(unfit, &s)) {
            low = s.nodes;
            continue;
        }
        found = s.nodes ? s.nodes : found;
        high = middle;
    }
    return found;
}

int64_t
mw_most_nodes(const struct mw_hardware *hardware)
{
    if (hardware->nic_bytes_per_s <= 0)
        return 1;
    return hardware->nodes_max > 0 ? MIN(hardware->nodes_max, MW_NODES_MOST) : MW_NODES_MOST;
}

/* The smallest number above the requested one; 0: none. */
int64_t
mw_fewest_more_nodes(const struct mw_unfit *unfit, const struct mw_settings *settings)
{
    int64_t low = settings->nodes, most = mw_most_nodes(unfit->request->hardware), found = 0;

    for (; !found && low < most; low = MIN(2 * low, most))
        found = mw_fewest_nodes(unfit, settings, low, MIN(2 * low, most));
    return found;
}
