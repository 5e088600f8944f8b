/* What would make it fit and has to be had: nodes, another machine. */
#include <glib.h>
#include <math.h>
#include <stddef.h>

#include "planner/priced.h"
#include "planner/remedy_internal.h"

#define NODES_MOST 4096
/* Another machine is said before more nodes where those cost so many times as much at least. */
#define WORTH_ANOTHER 1.05

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

/* --- how many -------------------------------------------------------------------------------- */

/* The first number from one to the other, both included, that machine, batch and slicing take; 0:
 * none. */
static int64_t
valid_nodes(const struct mw_plea *plea, const struct mw_settings *settings, int64_t from,
            int64_t to)
{
    struct mw_settings s = *settings;
    int64_t step = from <= to ? 1 : -1;

    for (s.nodes = from; s.nodes != to + step; s.nodes += step)
        if (mw_settings_check(plea->request, &s, NULL))
            return s.nodes;
    return 0;
}

/* The fewest nodes that have room, of more than `low` up to `high`; 0: the most of those that are
 * valid lack it. */
static int64_t
fewest_nodes(const struct mw_plea *plea, const struct mw_settings *settings, int64_t low,
             int64_t high)
{
    struct mw_settings s = *settings;
    int64_t found = s.nodes = valid_nodes(plea, settings, high, low + 1);

    if (!found || !mw_plea_fits(plea, &s))
        return 0;
    for (high = found; high - low > 1;) {
        int64_t middle = low + (high - low) / 2;
        s.nodes = valid_nodes(plea, settings, middle, high - 1);
        if (s.nodes && !mw_plea_fits(plea, &s)) {
            low = s.nodes;
            continue;
        }
        found = s.nodes ? s.nodes : found;
        high = middle;
    }
    return found;
}

static int64_t
most_nodes(const struct mw_hardware *hardware)
{
    if (hardware->nic_bytes_per_s <= 0)
        return 1;
    return hardware->nodes_max > 0 ? MIN(hardware->nodes_max, NODES_MOST) : NODES_MOST;
}

/* More than those asked for, the fewest; 0: none. */
static int64_t
enough_nodes(const struct mw_plea *plea, const struct mw_settings *settings)
{
    int64_t low = settings->nodes, most = most_nodes(plea->request->hardware), found = 0;

    for (; !found && low < most; low = MIN(2 * low, most))
        found = fewest_nodes(plea, settings, low, MIN(2 * low, most));
    return found;
}

/* --- another machine ------------------------------------------------------------------------- */

/* So many nodes of a machine, with all that has to be asked for beside its name. */
struct offer {
    char *text; /* "-H dgx2 --nodes 2 fits (798000 USD)"; NULL: none */
    double usd; /* of all nodes */
    int64_t gpus;
};

static struct mw_plea
plea_there(const struct mw_plea *plea, const struct mw_priced *priced, struct mw_request *there)
{
    *there = (struct mw_request){plea->request->model, &priced->hardware};
    return (struct mw_plea){there, plea->asked, plea->sizing, NULL};
}

/* The options that make it fit there, behind the machine's. */
static char *
options_there(const struct mw_plea *plea, const struct mw_priced *priced,
              const struct mw_settings *settings)
{
    struct mw_request there;
    struct mw_plea other = plea_there(plea, priced, &there);
    GString *text = g_string_new(NULL);

    if (settings->nodes != plea->asked->nodes)
        g_string_append_printf(text, " --nodes %" G_GINT64_FORMAT, settings->nodes);
    if (!mw_plea_fits(&other, settings))
        g_string_append_printf(text, " --batch %.15g", mw_plea_fewer_sequences(&other, settings));
    return g_string_free(text, FALSE);
}

static struct offer
offer_new(const struct mw_plea *plea, const struct mw_priced *priced, int64_t nodes)
{
    struct mw_settings s = *plea->asked;

    s.nodes = nodes;
    double usd = (double)nodes * priced->price_usd;
    g_autofree char *more = options_there(plea, priced, &s);
    g_autofree char *price = mw_price_text(usd, mw_price_kind(&priced->hardware));
    return (struct offer){
        g_strdup_printf("-H %s%s fits (%s)", mw_hwprofile_name(priced->profile), more, price), usd,
        nodes * (s.gpus_per_node == MW_AUTO ? priced->hardware.gpus_per_node : s.gpus_per_node)};
}

/* Of those that cost less than `usd` on more than half of `nodes` up to all of them the cheapest,
 * on `*count` of them; NULL: none. */
static const struct mw_priced *
cheapest(const struct mw_plea *plea, const GPtrArray *machines, const struct mw_settings *settings,
         int64_t nodes, double usd, int64_t *count)
{
    const struct mw_priced *found = NULL;

    for (guint i = 0; i < machines->len; i++) {
        const struct mw_priced *priced = machines->pdata[i];
        struct mw_request there;
        struct mw_plea other = plea_there(plea, priced, &there);
        int64_t low = nodes / 2, most = MIN(nodes, most_nodes(&priced->hardware));
        if ((double)(low + 1) * priced->price_usd >= usd)
            break; /* so does each that follows */
        int64_t fewest = low < most ? fewest_nodes(&other, settings, low, most) : 0;
        if (!fewest || (double)fewest * priced->price_usd >= usd)
            continue;
        usd = (double)fewest * priced->price_usd;
        *count = fewest;
        found = priced;
    }
    return found;
}

/* Leaves out what has no room for one sequence with the most nodes. */
static void
keep_possible(const struct mw_plea *plea, GPtrArray *machines, const struct mw_settings *least)
{
    for (guint i = machines->len; i > 0; i--) {
        const struct mw_priced *priced = machines->pdata[i - 1];
        struct mw_request there;
        struct mw_plea other = plea_there(plea, priced, &there);
        struct mw_settings s = *least;
        s.nodes = valid_nodes(&other, least, most_nodes(&priced->hardware), 1);
        if (!s.nodes || !mw_plea_fits(&other, &s))
            g_ptr_array_remove_index(machines, i - 1);
    }
}

/* For less than `usd`: on the fewest nodes, to a power of two, and of those the cheapest.  Fewer
 * sequences before more nodes. */
static struct offer
offer_of_kind(const struct mw_plea *plea, enum mw_price_kind kind, double usd)
{
    g_autoptr(GPtrArray) machines = mw_priced_new(kind, plea->machine, MW_OUTLOOK_TYPICAL);
    struct mw_settings least = with_least_batch(plea->asked);
    const struct mw_priced *found = NULL;
    int64_t count = 0;

    for (int64_t nodes = 1; !found && machines->len && nodes <= NODES_MOST; nodes *= 2) {
        if (nodes == 2)
            keep_possible(plea, machines, &least);
        found = cheapest(plea, machines, plea->asked, nodes, usd, &count);
        if (!found && least.micro_batch != plea->asked->micro_batch)
            found = cheapest(plea, machines, &least, nodes, usd, &count);
    }
    return found ? offer_new(plea, found, count) : (struct offer){0};
}

/* Of each kind of price one; that of fewer GPUs first, of as many the one that is had as this
 * machine is (rented, where this one has no price).  One without a price where none that has one
 * will do. */
char *
mw_remedy_machine(const struct mw_plea *plea)
{
    bool owned = mw_price_kind(plea->request->hardware) == MW_PRICE_OWN;

    if (!plea->machine)
        return NULL;
    struct offer rent = offer_of_kind(plea, MW_PRICE_RENT, INFINITY);
    struct offer own = offer_of_kind(plea, MW_PRICE_OWN, INFINITY);
    if (!rent.text && !own.text)
        return offer_of_kind(plea, MW_PRICE_NONE, INFINITY).text;
    if (!rent.text || !own.text)
        return rent.text ? rent.text : own.text;
    bool own_first = own.gpus < rent.gpus || (own.gpus == rent.gpus && owned);
    const struct offer *first = own_first ? &own : &rent, *second = own_first ? &rent : &own;
    char *text = g_strdup_printf("%s, %s", first->text, second->text);
    g_free(own.text);
    g_free(rent.text);
    return text;
}

/* --- more nodes ------------------------------------------------------------------------------ */

/* What they cost, behind another machine that is had in the same way and costs clearly less. */
static char *
beside_machine(const struct mw_plea *plea, int64_t nodes, const char *options)
{
    enum mw_price_kind kind = mw_price_kind(plea->request->hardware);
    double usd = (double)nodes * mw_price_usd(plea->request->hardware, kind);

    if (kind == MW_PRICE_NONE)
        return g_strdup_printf("%s fits", options);
    g_autofree char *price = mw_price_text(usd, kind);
    struct offer other =
        plea->machine ? offer_of_kind(plea, kind, usd / WORTH_ANOTHER) : (struct offer){0};
    char *text = g_strdup_printf("%s%s%s fits (%s)", other.text ? other.text : "",
                                 other.text ? ", " : "", options, price);
    g_free(other.text);
    return text;
}

char *
mw_remedy_nodes(const struct mw_plea *plea)
{
    struct mw_settings s = *plea->asked;

    s.nodes = enough_nodes(plea, plea->asked);
    if (s.nodes) {
        g_autofree char *options = g_strdup_printf("--nodes %" G_GINT64_FORMAT, s.nodes);
        return beside_machine(plea, s.nodes, options);
    }
    struct mw_settings least = with_least_batch(plea->asked);
    s.nodes = enough_nodes(plea, &least);
    double batch = s.nodes ? mw_plea_fewer_sequences(plea, &s) : 0;
    if (batch <= 0)
        return NULL;
    g_autofree char *options =
        g_strdup_printf("--nodes %" G_GINT64_FORMAT " --batch %.15g", s.nodes, batch);
    return beside_machine(plea, s.nodes, options);
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
    if (!fewest)
        return NULL;
    g_autofree char *options =
        g_strdup_printf("-s %s --nodes %" G_GINT64_FORMAT, mw_strategy_name(best), fewest);
    return beside_machine(plea, fewest, options);
}
