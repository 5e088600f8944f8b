/* "Does not fit" is an answer: what would make it fit. */
#include <glib.h>

#include "planner/planner.h"

#define NODES_TRIED 4096

static bool
any_fits(const struct mw_request *request, const struct mw_settings *settings)
{
    struct mw_settings s;

    if (!mw_settings_resolve(request, settings, &s, NULL))
        return false;
    g_autoptr(GPtrArray) found = mw_planner_candidates(request, &s, NULL);
    return found && ((struct mw_sizing *)found->pdata[0])->fits;
}

static struct mw_settings
reopened(const struct mw_sizing *sizing)
{
    struct mw_settings s = sizing->settings;

    s.tiles = MW_AUTO;
    s.optimizer_chunk = MW_AUTO;
    s.partition = MW_PARTITION_AUTO;
    return s;
}

/* Where tiles were fixed: other numbers of them, and all else as it is. */
static char *
other_tiles(const struct mw_request *request, const struct mw_sizing *sizing)
{
    struct mw_settings s = sizing->settings;

    s.tiles = MW_AUTO;
    g_autoptr(GPtrArray) found = mw_planner_candidates(request, &s, NULL);
    const struct mw_sizing *first = found ? found->pdata[0] : NULL;

    if (!first || !first->fits)
        return NULL;
    return g_strdup_printf("--tiles %" G_GINT64_FORMAT " fits", first->settings.tiles);
}

static char *
smaller_batch(const struct mw_request *request, const struct mw_sizing *sizing)
{
    struct mw_settings s = reopened(sizing);
    double largest = mw_planner_largest_batch(request, &s);

    return largest > 0 && largest < sizing->settings.micro_batch
               ? g_strdup_printf("--batch %g fits", largest)
               : NULL;
}

static char *
another_strategy(const struct mw_request *request, const struct mw_sizing *sizing)
{
    struct mw_settings s = reopened(sizing);

    for (int strategy = sizing->settings.strategy + 1; strategy < MW_STRATEGY_COUNT; strategy++) {
        s.strategy = strategy;
        for (int state = 0; state < MW_STATE_COUNT; state++)
            s.placement[state].count = 0;
        s.dpu_start = MW_AUTO;
        if (any_fits(request, &s))
            return g_strdup_printf("-s %s fits", mw_strategy_name(strategy));
    }
    return NULL;
}

static char *
more_nodes(const struct mw_request *request, const struct mw_sizing *sizing)
{
    struct mw_settings s = reopened(sizing);

    s.global_batch = MW_AUTO;
    if (request->hardware->nic_bytes_per_s <= 0)
        return NULL;
    for (s.nodes = sizing->settings.nodes * 2; s.nodes <= NODES_TRIED; s.nodes *= 2)
        if (any_fits(request, &s))
            return g_strdup_printf("--nodes %" G_GINT64_FORMAT " fits", s.nodes);
    return NULL;
}

char *
mw_planner_remedy(const struct mw_request *request, const struct mw_sizing *sizing)
{
    char *(*const ways[])(const struct mw_request *, const struct mw_sizing *) = {
        other_tiles, smaller_batch, another_strategy, more_nodes};
    double gib = sizing->short_bytes / (double)(1 << 30);

    for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
        char *text = ways[i](request, sizing);
        if (text)
            return text;
    }
    return g_strdup_printf("%.3g GiB more %s memory a GPU would", gib,
                           mw_tier_name(sizing->limiting_tier));
}
