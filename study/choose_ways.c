/* The best plan of one strategy. */
#include <math.h>

#include "study/choose_internal.h"
#include "study/lacks.h"

/* The same of candidates that recompute only some layers. */
#define SIMULATED_MIXED 2
/* The same of those with room for the parts of a layer on their way. */
#define SIMULATED_AHEAD 2

/* The fewest things that the software lacks for one of the candidates that fit, or `least`. */
static int
fewest_lacks(const struct mw_choose_search *search, GPtrArray *candidates, int least)
{
    for (guint i = 0; candidates && i < candidates->len; i++) {
        const struct mw_sizing *sizing = candidates->pdata[i];
        if (sizing->fits)
            least = MIN(least, mw_count_lacks(search->question, sizing));
    }
    return least;
}

/* Leaves out candidates for which the software lacks more than for others. */
static void
drop_lacking(const struct mw_choose_search *search, GPtrArray *candidates, int most)
{
    for (guint i = candidates ? candidates->len : 0; i-- > 0;) {
        const struct mw_sizing *sizing = candidates->pdata[i];
        if (sizing->fits && mw_count_lacks(search->question, sizing) > most)
            g_ptr_array_remove_index(candidates, i);
    }
}

/* The candidates of a strategy by how they treat activations. */
struct ways {
    GPtrArray *all, *all_needless;     /* recompute all layers; and move more off the GPU */
    GPtrArray *ahead, *ahead_needless; /* with room for a layer's parts */
    GPtrArray *none, *none_ahead;      /* keep all activations */
    GPtrArray *some, *some_ahead;      /* recompute no more layers than memory asks for */
    double alike;                      /* the best estimate of those that treat layers alike */
    double present;                    /* the rate that others have */
    bool on_gpu;                       /* nothing leaves the GPU */
};

static GPtrArray *
new_list(void)
{
    return g_ptr_array_new_with_free_func((GDestroyNotify)mw_sizing_free);
}

static void
clear_ways(struct ways *ways)
{
    GPtrArray **lists[] = {&ways->all,  &ways->all_needless, &ways->ahead, &ways->ahead_needless,
                           &ways->none, &ways->none_ahead,   &ways->some,  &ways->some_ahead};

    for (size_t i = 0; i < G_N_ELEMENTS(lists); i++)
        g_clear_pointer(lists[i], g_ptr_array_unref);
}

/* Without those for which the software lacks more than for the best ones. */
static int
find_alike(const struct mw_choose_search *search, const struct mw_settings *asked,
           struct mw_choose_present best, struct ways *ways)
{
    struct mw_settings keeping = mw_choose_keeping_all(asked);

    ways->all_needless = new_list();
    ways->ahead_needless = new_list();
    ways->all = mw_choose_find_with_needless(search->question, asked, ways->all_needless);
    ways->ahead = mw_choose_find_ahead(search->question, asked, ways->all, ways->ahead_needless);
    ways->none =
        mw_choose_may_keep_all(asked) ? mw_choose_find_fitting(search->question, &keeping) : NULL;
    ways->none_ahead =
        ways->none ? mw_choose_find_ahead(search->question, &keeping, ways->none, NULL) : NULL;
    int lacks = fewest_lacks(search, ways->none, fewest_lacks(search, ways->all, best.lacks));
    drop_lacking(search, ways->all, lacks);
    drop_lacking(search, ways->all_needless, lacks);
    drop_lacking(search, ways->ahead, lacks);
    drop_lacking(search, ways->ahead_needless, lacks);
    drop_lacking(search, ways->none, lacks);
    drop_lacking(search, ways->none_ahead, lacks);
    ways->alike = fmax(mw_choose_best_estimate(ways->all), mw_choose_best_estimate(ways->none));
    ways->present = lacks < best.lacks ? 0 : best.rate;
    ways->on_gpu = mw_choose_stay_on_gpu(ways->all) && mw_choose_stay_on_gpu(ways->none);
    return lacks;
}

static GPtrArray *
find_some(const struct mw_choose_search *search, const struct mw_settings *asked,
          const struct ways *ways, GPtrArray *all, GPtrArray *needless)
{
    return mw_choose_find_mixed(search->question, asked, all, needless, ways->alike,
                                NEAR * ways->present);
}

static void
find_ways(const struct mw_choose_search *search, const struct mw_settings *asked,
          struct mw_choose_present best, struct ways *ways)
{
    int lacks = find_alike(search, asked, best, ways);

    if (mw_choose_encodes_some(search->question, asked)) {
        ways->some = mw_choose_find_fewest(search->question, asked);
    } else if (mw_choose_may_recompute_some(search, asked)) {
        ways->some = find_some(search, asked, ways, ways->all, ways->all_needless);
        if (ways->ahead)
            ways->some_ahead = find_some(search, asked, ways, ways->ahead, ways->ahead_needless);
    }
    drop_lacking(search, ways->some, lacks);
    drop_lacking(search, ways->some_ahead, lacks);
}

/* If one of the candidates has this rate by its estimate. */
static void
take_from(struct mw_choose_search *search, struct mw_choice *choice, GPtrArray *candidates,
          int most, double floor)
{
    double best = mw_choose_best_estimate(candidates);

    if (best > 0 && best >= floor)
        mw_choose_take_fastest(search, choice, candidates, most, floor);
}

struct mw_choice
mw_choose_of_strategy(struct mw_choose_search *search, const struct mw_settings *asked,
                      struct mw_choose_present best)
{
    struct ways ways = {0};
    struct mw_choice choice = {0};

    find_ways(search, asked, best, &ways);
    double some = mw_choose_best_estimate(ways.some), most = fmax(ways.alike, some);
    if (most > 0 && most >= NEAR * ways.present) {
        double floor = ways.on_gpu ? NEAR * most : 0, all = mw_choose_best_estimate(ways.all);
        /* Transfers are worse than estimated where they wait for each other in backward. */
        double worth = (ways.on_gpu ? 1 : NEAR) * ways.alike;
        take_from(search, &choice, ways.all, SIMULATED, floor);
        take_from(search, &choice, ways.ahead, SIMULATED_AHEAD, NEAR * most);
        if (mw_choose_best_estimate(ways.none) > all) {
            take_from(search, &choice, ways.none, SIMULATED, floor);
            take_from(search, &choice, ways.none_ahead, SIMULATED_AHEAD, NEAR * most);
        }
        take_from(search, &choice, ways.some, SIMULATED_MIXED, worth);
        take_from(search, &choice, ways.some_ahead, SIMULATED_MIXED, worth);
    }
    clear_ways(&ways);
    return choice;
}

bool
mw_choose_nearest(const struct mw_choose_search *search, const struct mw_settings *asked,
                  struct mw_choice *choice, GError **error)
{
    struct mw_settings fewest = mw_choose_recomputing_fewest(asked);
    g_autoptr(GPtrArray) nearest = mw_choose_find_nearest(
        search->question, mw_choose_encodes_some(search->question, asked) ? &fewest : asked, error);

    *choice = (struct mw_choice){.keeps_plan = search->keeps_plan};
    if (nearest)
        choice->sizing = g_steal_pointer(&nearest->pdata[0]);
    return nearest != NULL;
}
