/* Remedies to buy or rent: more nodes, another machine. */
#include <glib.h>
#include <math.h>

#include "base/spell.h"
#include "hardware/priced.h"
#include "planner/remedy/internal.h"

/* Another machine comes before more nodes if those cost more by at least this factor. */
#define WORTH_ANOTHER 1.05
/* Another strategy comes first if the requested one costs more by at least this factor. */
#define FAR_CHEAPER 2
/* The most GPUs of another machine over which tensors are sliced. */
#define SLICED_MOST 64

/* GPUs that were left out, with another strategy if needed. */
char *
mw_remedy_gpus(const struct mw_unfit *unfit)
{
    struct mw_settings s = *unfit->asked;
    const struct mw_strategies others = mw_strategies_beyond(s.strategy);
    g_autoptr(GString) kept = g_string_new(NULL);

    if (s.gpus_per_node == MW_AUTO || s.gpus_per_node >= unfit->request->hardware->gpus_per_node)
        return NULL;
    s.gpus_per_node = unfit->request->hardware->gpus_per_node;
    if (mw_remedy_fits(unfit, &s))
        return mw_spelled_printf("{gpus=%" G_GINT64_FORMAT "} fits", s.gpus_per_node);
    for (int i = 0; i < others.count; i++)
        if (mw_remedy_fits_with(unfit->request, &s, others.one[i])) {
            mw_remedy_keep_software(unfit, others.one[i], s.tp, kept);
            return mw_spelled_printf("{strategy=%s} {gpus=%" G_GINT64_FORMAT "} %sfits",
                                     mw_strategy_name(others.one[i]), s.gpus_per_node, kept->str);
        }
    return NULL;
}

/* --- an offer --------------------------------------------------------------------------------- */

/* A number of nodes of a machine, with all options needed beside its name. */
struct offer {
    char *text; /* "hardware=dgx2 nodes=2 fits (798000 USD)"; NULL: none */
    double usd; /* for all nodes; without a known price the number of nodes */
    int64_t gpus;
    bool released; /* changes settings that were requested */
};

/* What an offer may change beside the machine. */
struct terms {
    bool released; /* everything that mw_relaxation_of_all opens, else nothing */
    int64_t tp;    /* MW_AUTO: as requested */
    struct mw_settings settings;
};

static struct terms
terms_kept(const struct mw_unfit *unfit, int64_t tp)
{
    struct mw_relaxation changes = mw_relaxation_none(unfit);

    changes.tp = tp;
    return (struct terms){false, tp, mw_relaxation_apply(unfit->asked, &changes)};
}

/* false: nothing can be released. */
static bool
terms_released(const struct mw_unfit *unfit, int64_t tp, struct terms *terms)
{
    struct mw_relaxation changes;
    bool any = mw_relaxation_of_all(unfit, &changes);

    changes.tp = tp;
    *terms = (struct terms){true, tp, mw_relaxation_apply(unfit->asked, &changes)};
    return any;
}

/* Fewer than so many nodes may do with those changes alone that are kept: others, such as settings
 * that go back to their usual value, may take memory. */
static int64_t
nodes_with(const struct mw_unfit *unfit, const struct mw_relaxation *changes, int64_t nodes)
{
    const struct mw_settings s = mw_relaxation_apply(unfit->asked, changes);
    int64_t fewest = mw_fewest_more_nodes(unfit, &s);

    return fewest ? MIN(fewest, nodes) : nodes;
}

/* The offer of `nodes` nodes of a machine that have room with these terms. */
static struct offer
offer_new(const struct mw_unfit *unfit, const struct mw_hardware *hardware, const char *name,
          const struct terms *terms, int64_t nodes)
{
    struct mw_request request = {unfit->request->model, hardware};
    struct mw_settings asked = *unfit->asked;
    struct mw_unfit there = {&request, &asked, unfit->sizing, NULL, NULL};
    enum mw_price_kind kind = mw_price_kind(hardware);
    g_autoptr(GString) options = g_string_new(NULL);
    struct mw_relaxation changes;

    asked.nodes = nodes;
    if (terms->released)
        mw_relaxation_of_all(&there, &changes);
    else
        changes = mw_relaxation_none(&there);
    changes.tp = terms->tp;
    if (!mw_relaxation_minimize(&there, &changes))
        return (struct offer){0};
    if (terms->released && !name)
        nodes = asked.nodes = nodes_with(unfit, &changes, nodes);
    double usd = (double)nodes * mw_price_usd(hardware, kind);
    if (name)
        mw_spelled_append(options, "{hardware=%s} ", name);
    if (nodes != unfit->asked->nodes)
        mw_spelled_append(options, "{nodes=%" G_GINT64_FORMAT "} ", nodes);
    g_autofree char *price = kind || name ? mw_price_text(usd, kind) : NULL;
    there.here = unfit->here;
    return (struct offer){
        mw_relaxation_text(&there, &changes, options->str, price), kind ? usd : (double)nodes,
        nodes * (asked.gpus_per_node == MW_AUTO ? hardware->gpus_per_node : asked.gpus_per_node),
        terms->released};
}

/* --- another machine ------------------------------------------------------------------------- */

static struct mw_unfit
unfit_there(const struct mw_unfit *unfit, const struct mw_priced *priced, struct mw_request *there)
{
    *there = (struct mw_request){unfit->request->model, &priced->hardware};
    return (struct mw_unfit){there, unfit->asked, unfit->sizing, NULL, NULL};
}

/* The cheapest machine that costs less than `usd` and needs more than half of `nodes`, up to all of
 * them; *count: how many.  NULL: none. */
static const struct mw_priced *
cheapest(const struct mw_unfit *unfit, const GPtrArray *machines,
         const struct mw_settings *settings, int64_t nodes, double usd, int64_t *count)
{
    const struct mw_priced *found = NULL;

    for (guint i = 0; i < machines->len; i++) {
        const struct mw_priced *priced = machines->pdata[i];
        struct mw_request there;
        struct mw_unfit other = unfit_there(unfit, priced, &there);
        int64_t low = nodes / 2, most = MIN(nodes, mw_most_nodes(&priced->hardware));
        if ((double)(low + 1) * priced->price_usd >= usd)
            break; /* and so does each that follows */
        int64_t fewest = low < most ? mw_fewest_nodes(&other, settings, low, most) : 0;
        if (!fewest || (double)fewest * priced->price_usd >= usd)
            continue;
        usd = (double)fewest * priced->price_usd;
        *count = fewest;
        found = priced;
    }
    return found;
}

/* Removes machines whose largest number of nodes has no room for one sequence. */
static void
keep_possible(const struct mw_unfit *unfit, GPtrArray *machines, const struct mw_settings *least)
{
    for (guint i = machines->len; i > 0; i--) {
        const struct mw_priced *priced = machines->pdata[i - 1];
        struct mw_request there;
        struct mw_unfit other = unfit_there(unfit, priced, &there);
        struct mw_settings s = *least;
        s.nodes = mw_valid_nodes(&other, least, mw_most_nodes(&priced->hardware), 1);
        if (!s.nodes || !mw_remedy_fits(&other, &s))
            g_ptr_array_remove_index(machines, i - 1);
    }
}

/* Removes machines whose nodes do not have this number of GPUs. */
static void
keep_sliced(const struct mw_unfit *unfit, GPtrArray *machines, int64_t tp)
{
    for (guint i = machines->len; i > 0; i--) {
        struct mw_request there;
        struct mw_unfit other = unfit_there(unfit, machines->pdata[i - 1], &there);
        if (!mw_may_slice(&other, tp))
            g_ptr_array_remove_index(machines, i - 1);
    }
}

/* Machines of a kind of price, on which the software takes as much memory as here. */
static GPtrArray *
others_of_kind(const struct mw_unfit *unfit, enum mw_price_kind kind)
{
    GPtrArray *machines = mw_priced_new(kind, unfit->machine, MW_OUTLOOK_TYPICAL);

    for (guint i = 0; i < machines->len; i++)
        mw_remedy_take_software(&((struct mw_priced *)machines->pdata[i])->hardware,
                                unfit->request->hardware);
    return machines;
}

/* The cheapest offer below `usd` with the fewest nodes, to a power of two.  Prefers fewer sequences
 * to more nodes. */
static struct offer
offer_of_kind(const struct mw_unfit *unfit, const struct terms *terms, enum mw_price_kind kind,
              double usd)
{
    g_autoptr(GPtrArray) machines = others_of_kind(unfit, kind);
    struct mw_settings least = mw_remedy_least_batch(&terms->settings);
    const struct mw_priced *found = NULL;
    int64_t count = 0;

    if (terms->tp != MW_AUTO)
        keep_sliced(unfit, machines, terms->tp);
    for (int64_t nodes = 1; !found && machines->len && nodes <= MW_NODES_MOST; nodes *= 2) {
        if (nodes == 2)
            keep_possible(unfit, machines, &least);
        found = cheapest(unfit, machines, &terms->settings, nodes, usd, &count);
        if (!found && least.micro_batch != terms->settings.micro_batch)
            found = cheapest(unfit, machines, &least, nodes, usd, &count);
    }
    return found ? offer_new(unfit, &found->hardware, mw_profile_name(found->profile), terms, count)
                 : (struct offer){0};
}

/* --- several offers --------------------------------------------------------------------------- */

#define OFFERS_MAX 4

struct offers {
    struct offer offer[OFFERS_MAX];
    int count;
};

static void
offers_clear(struct offers *offers)
{
    for (int i = 0; i < offers->count; i++)
        g_free(offers->offer[i].text);
}

/* Takes ownership of the offer. */
static void
offers_add(struct offers *offers, struct offer offer)
{
    if (offer.text)
        offers->offer[offers->count++] = offer;
}

/* The first `most` offers in one line; NULL: there are none. */
static char *
offers_text(const struct offers *offers, int most)
{
    g_autoptr(GString) text = g_string_new(NULL);

    for (int i = 0; i < MIN(offers->count, most); i++)
        g_string_append_printf(text, "%s%s", i ? ", " : "", offers->offer[i].text);
    return offers->count ? g_strdup(text->str) : NULL;
}

static int
compare_gpus(const void *a, const void *b, void *unused)
{
    const struct offer *one = a, *other = b;

    (void)unused;
    return (one->gpus > other->gpus) - (one->gpus < other->gpus);
}

static int
compare_usd(const void *a, const void *b, void *unused)
{
    const struct offer *one = a, *other = b;

    (void)unused;
    return (one->usd > other->usd) - (one->usd < other->usd);
}

/* Stable: equal offers keep their order. */
static void
offers_sort(struct offers *offers, GCompareDataFunc compare)
{
    g_qsort_with_data(offers->offer, offers->count, sizeof offers->offer[0], compare, NULL);
}

/* The cheapest offer below `usd` whose GPUs slice the tensors, with all other settings as
 * requested, or released. */
static struct offer
offer_sliced(const struct mw_unfit *unfit, bool release, enum mw_price_kind kind, double usd)
{
    struct offer best = {.usd = usd};

    for (int64_t tp = 2; tp <= SLICED_MOST; tp *= 2) {
        struct terms terms = terms_kept(unfit, tp);
        if (release && !terms_released(unfit, tp, &terms))
            break;
        struct offer offer = offer_of_kind(unfit, &terms, kind, best.usd);
        if (!offer.text)
            continue;
        g_free(best.text);
        best = offer;
    }
    return best;
}

/* The offer with the requested slicing, or with another one if that is far cheaper. */
static struct offer
offer_of_slicings(const struct mw_unfit *unfit, const struct terms *terms, enum mw_price_kind kind,
                  double usd)
{
    struct offer offer = offer_of_kind(unfit, terms, kind, usd);
    struct offer sliced =
        offer_sliced(unfit, terms->released, kind, offer.text ? offer.usd / FAR_CHEAPER : usd);

    if (!sliced.text)
        return offer;
    g_free(offer.text);
    return sliced;
}

/* Offers with all settings as requested, below `usd`; with other settings where those are far
 * cheaper, and below `released_usd`. */
static void
offers_of_kind(const struct mw_unfit *unfit, enum mw_price_kind kind, double usd,
               double released_usd, struct offers *offers)
{
    struct terms kept = terms_kept(unfit, MW_AUTO), released;
    struct offer offer = offer_of_slicings(unfit, &kept, kind, usd);

    if (offer.text)
        released_usd = fmin(released_usd, offer.usd / FAR_CHEAPER);
    offers_add(offers, offer);
    if (terms_released(unfit, MW_AUTO, &released))
        offers_add(offers, offer_of_slicings(unfit, &released, kind, released_usd));
}

/* Offers of each kind of price, fewer GPUs first; with equal GPUs, the one that is had as this
 * machine is (rented, if this one has no price).  An offer without a price only if none with a
 * price will do. */
char *
mw_remedy_machine(const struct mw_unfit *unfit)
{
    bool owned = mw_price_kind(unfit->request->hardware) == MW_PRICE_OWN;
    const enum mw_price_kind kinds[] = {owned ? MW_PRICE_OWN : MW_PRICE_RENT,
                                        owned ? MW_PRICE_RENT : MW_PRICE_OWN, MW_PRICE_NONE};
    struct offers offers = {.count = 0};

    if (!unfit->machine)
        return NULL;
    for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++)
        if (kinds[k] != MW_PRICE_NONE || !offers.count)
            offers_of_kind(unfit, kinds[k], INFINITY, INFINITY, &offers);
    offers_sort(&offers, compare_gpus);
    char *text = offers_text(&offers, OFFERS_MAX);
    offers_clear(&offers);
    return text;
}

/* --- more nodes ------------------------------------------------------------------------------- */

/* Tries fewer sequences if no number of nodes is enough. */
static struct offer
offer_of_nodes(const struct mw_unfit *unfit, const struct terms *terms)
{
    struct mw_settings least = mw_remedy_least_batch(&terms->settings);
    int64_t nodes = mw_fewest_more_nodes(unfit, &terms->settings);

    if (!nodes && least.micro_batch != terms->settings.micro_batch)
        nodes = mw_fewest_more_nodes(unfit, &least);
    return nodes ? offer_new(unfit, unfit->request->hardware, NULL, terms, nodes)
                 : (struct offer){0};
}

/* Keeps the cheapest offer, and the one that keeps all settings if it is another, else the next
 * cheapest. */
static void
offers_choose(struct offers *offers)
{
    offers_sort(offers, compare_usd);
    for (int i = 2; i < offers->count && offers->offer[0].released && offers->offer[1].released;
         i++)
        if (!offers->offer[i].released) {
            struct offer kept = offers->offer[i];
            offers->offer[i] = offers->offer[1];
            offers->offer[1] = kept;
        }
}

/* Tries another slicing if no number of nodes is enough with the requested one. */
static struct offer
offer_of_sliced_nodes(const struct mw_unfit *unfit)
{
    int64_t tp[MW_SLICINGS_MAX];
    int count = mw_slicings(unfit, tp);
    struct offer offer = {0};

    for (int i = 0; i < count && !offer.text; i++) {
        struct terms kept = terms_kept(unfit, tp[i]), released;
        offer = offer_of_nodes(unfit, &kept);
        if (!offer.text && terms_released(unfit, tp[i], &released))
            offer = offer_of_nodes(unfit, &released);
    }
    return offer;
}

/* Nodes of this machine, and what costs clearly less: another machine that is had in the same way,
 * or far less with other settings. */
char *
mw_remedy_nodes(const struct mw_unfit *unfit)
{
    enum mw_price_kind kind = mw_price_kind(unfit->request->hardware);
    struct terms kept = terms_kept(unfit, MW_AUTO), released;
    bool open = terms_released(unfit, MW_AUTO, &released);
    struct offers offers = {.count = 0};
    struct offer nodes = offer_of_nodes(unfit, &kept);
    struct offer other = open ? offer_of_nodes(unfit, &released) : (struct offer){0};
    if (!nodes.text && !other.text)
        nodes = offer_of_sliced_nodes(unfit);
    double usd = nodes.text ? nodes.usd / WORTH_ANOTHER : INFINITY, released_usd = INFINITY;

    if (nodes.text && other.text && other.usd * FAR_CHEAPER > nodes.usd)
        g_clear_pointer(&other.text, g_free);
    if (other.text)
        released_usd = usd = fmin(usd, other.usd / WORTH_ANOTHER);
    else if (nodes.text)
        released_usd = nodes.usd / FAR_CHEAPER;
    offers_add(&offers, nodes);
    offers_add(&offers, other);
    if (offers.count && kind != MW_PRICE_NONE && unfit->machine)
        offers_of_kind(unfit, kind, usd, released_usd, &offers);
    offers_choose(&offers);
    char *text = offers_text(&offers, 2);
    offers_clear(&offers);
    return text;
}
