/* What would make it fit and has to be had: nodes, another machine. */
#include <glib.h>
#include <math.h>
#include <stddef.h>

#include "planner/priced.h"
#include "planner/remedy_internal.h"

#define NODES_MOST 4096

/* With another strategy, where it takes that. */
char *
mw_remedy_gpus(const struct mw_plea *plea)
{
    struct mw_settings s = *plea->asked;

    if (s.gpus_per_node == MW_AUTO || s.gpus_per_node >= plea->request->hardware->gpus_per_node)
        return NULL;
    s.gpus_per_node = plea->request->hardware->gpus_per_node;
    if (mw_plea_fits(plea, &s))
        return g_strdup_printf("--gpus %" G_GINT64_FORMAT " fits", s.gpus_per_node);
    for (int strategy = s.strategy + 1; s.strategy && strategy < MW_STRATEGY_COUNT; strategy++)
        if (mw_plea_fits_with(plea->request, &s, strategy))
            return g_strdup_printf("-s %s --gpus %" G_GINT64_FORMAT " fits",
                                   mw_strategy_name(strategy), s.gpus_per_node);
    return NULL;
}

/* Of a batch that was asked for the least. */
static struct mw_settings
with_least_batch(const struct mw_settings *settings)
{
    struct mw_settings s = *settings;

    if (s.micro_batch != MW_AUTO)
        s.micro_batch = fmin(s.micro_batch, 1.0 / s.tp);
    return s;
}

/* The fewest of the powers of two times those asked for; 0: none. */
static int64_t
enough_nodes(const struct mw_plea *plea, const struct mw_settings *settings)
{
    struct mw_settings s = *settings;

    if (plea->request->hardware->nic_bytes_per_s <= 0)
        return 0;
    for (s.nodes *= 2; s.nodes <= NODES_MOST; s.nodes *= 2)
        if (mw_plea_fits(plea, &s))
            return s.nodes;
    return 0;
}

char *
mw_remedy_nodes(const struct mw_plea *plea)
{
    struct mw_settings s = *plea->asked;

    s.nodes = enough_nodes(plea, plea->asked);
    if (s.nodes)
        return g_strdup_printf("--nodes %" G_GINT64_FORMAT " fits", s.nodes);
    struct mw_settings least = with_least_batch(plea->asked);
    s.nodes = enough_nodes(plea, &least);
    double batch = s.nodes ? mw_plea_fewer_sequences(plea, &s) : 0;
    return batch > 0
               ? g_strdup_printf("--nodes %" G_GINT64_FORMAT " --batch %.15g fits", s.nodes, batch)
               : NULL;
}

/* The strategy that takes the fewest; of several, the one that offloads least. */
char *
mw_remedy_nodes_and_strategy(const struct mw_plea *plea)
{
    struct mw_settings s = *plea->asked;
    int64_t fewest = 0;
    int best = MW_STRATEGY_AUTO;

    if (plea->asked->strategy == MW_STRATEGY_AUTO)
        return NULL;
    for (int strategy = plea->asked->strategy + 1; strategy < MW_STRATEGY_COUNT; strategy++) {
        s.strategy = strategy;
        int64_t nodes = enough_nodes(plea, &s);
        if (nodes && (!fewest || nodes < fewest)) {
            fewest = nodes;
            best = strategy;
        }
    }
    return fewest ? g_strdup_printf("-s %s --nodes %" G_GINT64_FORMAT " fits",
                                    mw_strategy_name(best), fewest)
                  : NULL;
}

/* The cheapest of `machines` that has room for the settings; NULL: none. */
static const struct mw_priced *
cheapest(const struct mw_plea *plea, const GPtrArray *machines, const struct mw_settings *settings)
{
    for (guint i = 0; i < machines->len; i++) {
        const struct mw_priced *priced = machines->pdata[i];
        struct mw_request there = {plea->request->model, &priced->hardware};
        struct mw_plea other = {&there, plea->asked, plea->sizing, NULL};
        if (mw_plea_fits(&other, settings))
            return priced;
    }
    return NULL;
}

/* The options that make it fit there, behind the machine's. */
static char *
options_there(const struct mw_plea *plea, const struct mw_priced *priced,
              const struct mw_settings *settings)
{
    struct mw_request there = {plea->request->model, &priced->hardware};
    struct mw_plea other = {&there, plea->asked, plea->sizing, NULL};
    GString *text = g_string_new(NULL);

    if (settings->nodes > plea->asked->nodes)
        g_string_append_printf(text, " --nodes %" G_GINT64_FORMAT, settings->nodes);
    if (!mw_plea_fits(&other, settings))
        g_string_append_printf(text, " --batch %.15g", mw_plea_fewer_sequences(&other, settings));
    return g_string_free(text, FALSE);
}

/* Fewer sequences before more nodes. */
static char *
machine_of_kind(const struct mw_plea *plea, enum mw_price_kind kind)
{
    g_autoptr(GPtrArray) machines = mw_priced_new(kind, plea->machine, MW_OUTLOOK_TYPICAL);
    struct mw_settings s = *plea->asked, least = with_least_batch(plea->asked);
    const struct mw_priced *found = NULL;

    for (; s.nodes <= NODES_MOST; s.nodes *= 2) {
        least.nodes = s.nodes;
        if ((found = cheapest(plea, machines, &s)) || (found = cheapest(plea, machines, &least)))
            break;
    }
    if (!found)
        return NULL;
    g_autofree char *price = mw_price_text(found->price_usd, kind);
    g_autofree char *more = options_there(plea, found, &s);
    return g_strdup_printf("-H %s%s fits (%s per node)", mw_hwprofile_name(found->profile), more,
                           price);
}

/* The fewest nodes, then the cheapest; rented or bought as this one is, else the other way.  Of a
 * machine without a price, to rent. */
char *
mw_remedy_machine(const struct mw_plea *plea)
{
    enum mw_price_kind kind = mw_price_kind(plea->request->hardware);

    if (!plea->machine)
        return NULL;
    kind = kind == MW_PRICE_NONE ? MW_PRICE_RENT : kind;
    char *text = machine_of_kind(plea, kind);
    return text ? text
                : machine_of_kind(plea, kind == MW_PRICE_RENT ? MW_PRICE_OWN : MW_PRICE_RENT);
}
