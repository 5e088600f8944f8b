/* The best plan among those of several strategies. */
#include <limits.h>
#include <math.h>

#include "base/error.h"
#include "planner/settings/table.h"
#include "study/choose_internal.h"

static bool
asks_for_offload(const struct mw_settings *settings)
{
    for (int state = 0; state < MW_STATE_COUNT; state++)
        for (int i = 0; i < settings->placement[state].count; i++)
            if (settings->placement[state].part[i].tier != MW_TIER_GPU)
                return true;
    return false;
}

/* Chooses among the best plans of several strategies. */
struct field {
    struct mw_choice choices[MW_STRATEGY_COUNT];
    double rates[MW_STRATEGY_COUNT];
    int lacks; /* of the software, for each of them, which fit */
    int best;  /* MW_STRATEGY_AUTO: none */
};

static double
fastest_of(const struct field *field)
{
    double rate = 0;

    for (int s = 0; s < MW_STRATEGY_COUNT; s++)
        rate = fmax(rate, field->rates[s]);
    return rate;
}

/* The simplest plan that is nearly as fast as the fastest; if none fits, the one that lacks least
 * memory. */
static bool
is_preferred(const struct field *field, int strategy, int to, double fastest)
{
    const struct mw_choice *one = &field->choices[strategy], *other = &field->choices[to];

    if (!other->sizing || !mw_choice_fits(one) || !mw_choice_fits(other))
        return !other->sizing ||
               (!mw_choice_fits(other) &&
                (mw_choice_fits(one) || mw_sizing_is_nearer(one->sizing, other->sizing)));
    return field->rates[strategy] * WORTH_COMPLEXITY >= fastest &&
           (field->rates[to] * WORTH_COMPLEXITY < fastest || mw_choice_is_simpler(one, other));
}

/* Only those stay in the field for which the software lacks least. */
static void
field_clear(struct field *field)
{
    for (int s = 0; s < MW_STRATEGY_COUNT; s++)
        mw_choice_clear(&field->choices[s]);
    *field = (struct field){.lacks = INT_MAX};
}

/* Takes ownership of the choice. */
static void
field_add(struct mw_choose_search *search, struct field *field, int strategy,
          struct mw_choice *choice)
{
    const struct mw_strategies all = mw_strategies_of(MW_STRATEGY_AUTO);
    int lacks = mw_choose_lacks(search, choice);

    if (lacks > field->lacks) {
        mw_choice_clear(choice);
        return;
    }
    if (lacks < field->lacks)
        field_clear(field);
    field->lacks = lacks;
    field->rates[strategy] = mw_choose_rate(search, choice);
    field->choices[strategy] = *choice;
    double fastest = fastest_of(field);

    field->best = MW_STRATEGY_AUTO;
    for (int i = 0; i < all.count; i++)
        if (field->choices[all.one[i]].sizing &&
            is_preferred(field, all.one[i], field->best, fastest))
            field->best = all.one[i];
    for (int s = 0; s < MW_STRATEGY_COUNT; s++)
        if (s != field->best) {
            mw_choice_free_plan(&field->choices[s]);
            field->choices[s].simulated = false;
        }
}

/* The best choice, moved out of the field. */
static struct mw_choice
field_take_best(struct field *field)
{
    struct mw_choice best = field->choices[field->best];

    field->choices[field->best] = (struct mw_choice){0};
    field_clear(field);
    return best;
}

struct mw_strategies
mw_choose_strategies_to_try(const struct mw_settings *asked)
{
    struct mw_strategies all = mw_strategies_of(asked->strategy), some = {.count = 0};
    bool renames = asked->strategy == MW_STRATEGY_AUTO && asks_for_offload(asked);

    for (int i = 0; i < all.count; i++)
        if (!renames || !mw_strategy_traits(all.one[i])->offloads_by_another_name)
            some.one[some.count++] = all.one[i];
    return some;
}

static struct mw_choice
choose_strategy(struct mw_choose_search *search, const struct mw_settings *asked)
{
    const struct mw_strategies strategies = mw_choose_strategies_to_try(asked);
    struct mw_settings settings = *asked;
    struct field field = {.lacks = INT_MAX};

    for (int i = 0; i < strategies.count; i++) {
        settings.strategy = strategies.one[i];
        struct mw_choice other = mw_choose_of_strategy(
            search, &settings, (struct mw_choose_present){fastest_of(&field), field.lacks});
        if (other.sizing)
            field_add(search, &field, settings.strategy, &other);
    }
    return field_take_best(&field);
}

/* Whether the strategy goes with all else that is asked. */
static bool
takes_settings(const struct mw_question *question, const struct mw_settings *asked)
{
    struct mw_request planned = {&question->model, &question->hardware[MW_OUTLOOK_TYPICAL]};
    struct mw_settings resolved;

    return mw_settings_complete(&planned, asked, &resolved, NULL);
}

/* Of all strategies, of which nothing fits, what lacks least; or why those do not go that the
 * settings themselves go with, if there are such. */
static bool
choose_nearest_strategy(struct mw_choose_search *search, const struct mw_settings *asked,
                        struct mw_choice *choice, GError **error)
{
    const struct mw_strategies strategies = mw_choose_strategies_to_try(asked);
    struct mw_settings settings = *asked;
    g_autoptr(GError) refused = NULL, large = NULL, of_taken = NULL;
    struct field field = {.lacks = INT_MAX};

    for (int i = 0; i < strategies.count; i++) {
        struct mw_choice other;
        settings.strategy = strategies.one[i];
        g_clear_error(&refused);
        if (mw_choose_nearest(search, &settings, &other, &refused)) {
            field_add(search, &field, settings.strategy, &other);
        } else if (g_error_matches(refused, MW_ERROR, MW_ERROR_LARGE)) {
            g_clear_error(&large);
            large = g_error_copy(refused);
        } else if (takes_settings(search->question, &settings)) {
            g_clear_error(&of_taken);
            of_taken = g_error_copy(refused);
        }
    }
    *choice = field_take_best(&field);
    /* Memory is not short if a strategy fits with too many ops. */
    if (large)
        mw_choice_clear(choice);
    if (!choice->sizing)
        g_propagate_error(error, large      ? g_steal_pointer(&large)
                                 : of_taken ? g_steal_pointer(&of_taken)
                                            : g_steal_pointer(&refused));
    return choice->sizing != NULL;
}

/* The best plan that fits, of the strategy that is asked for or of any. */
static struct mw_choice
choose_best(struct mw_choose_search *search, const struct mw_settings *asked)
{
    return asked->strategy == MW_STRATEGY_AUTO
               ? choose_strategy(search, asked)
               : mw_choose_of_strategy(search, asked, (struct mw_choose_present){0, INT_MAX});
}

bool
mw_choose_among(struct mw_choose_search *search, const struct mw_settings *asked,
                struct mw_choice *choice, GError **error)
{
    *choice = choose_best(search, asked);
    if (!choice->sizing && mw_settings_balances_stages(asked)) {
        struct mw_settings fit = *asked;
        fit.fit_stages = true;
        *choice = choose_best(search, &fit);
    }
    if (choice->sizing)
        return true;
    return asked->strategy == MW_STRATEGY_AUTO
               ? choose_nearest_strategy(search, asked, choice, error)
               : mw_choose_nearest(search, asked, choice, error);
}
