/* Which of two choices is better, and the best of many candidates. */
#include <limits.h>
#include <math.h>

#include "planner/settings/table.h"
#include "study/choose_internal.h"
#include "study/evaluate.h"
#include "study/lacks.h"

/* Share of the time that the GPU computes from which on it waits for parameters that come; own
 * estimate. */
#define FETCH_SHARE 0.25

static bool
comes_before(double rate, double tokens, double other, double other_tokens)
{
    bool same = rate < SAME_RATE * other && other < SAME_RATE * rate;

    return same && tokens != other_tokens ? tokens > other_tokens : rate > other;
}

/* Sets the indices of the candidates that fit and have the best estimates, close to the best one
 * and not below `floor`; returns their number. */
static int
shortlist(GPtrArray *candidates, int most, double floor, guint list[SIMULATED])
{
    double rates[SIMULATED], tokens[SIMULATED];
    int count = 0;

    for (guint i = 0; i < candidates->len; i++) {
        const struct mw_sizing *sizing = candidates->pdata[i];
        if (!sizing->fits)
            continue;
        double rate = mw_estimated_rate_of(sizing), step = mw_tokens_per_step(sizing);
        int place = count;
        while (place > 0 && comes_before(rate, step, rates[place - 1], tokens[place - 1]))
            place--;
        if (place == most)
            continue;
        count = MIN(count + 1, most);
        for (int j = count - 1; j > place; j--) {
            rates[j] = rates[j - 1];
            tokens[j] = tokens[j - 1];
            list[j] = list[j - 1];
        }
        rates[place] = rate;
        tokens[place] = step;
        list[place] = i;
    }
    while (count > 1 && rates[count - 1] < fmax(NEAR * rates[0], floor))
        count--;
    return count;
}

int
mw_choose_deepest_tier(const struct mw_sizing *sizing)
{
    int deepest = MW_TIER_GPU;

    for (int t = MW_TIER_CPU; t < MW_TIER_COUNT; t++)
        if (sizing->need_bytes[t] > 0)
            deepest = t;
    return deepest;
}

static bool
recomputes_some(const struct mw_choice *choice)
{
    return mw_sizing_kept_of_model(choice->sizing) > 0;
}

bool
mw_choice_is_simpler(const struct mw_choice *one, const struct mw_choice *other)
{
    bool one_offloads = mw_choose_deepest_tier(one->sizing) > MW_TIER_GPU;
    bool other_offloads = mw_choose_deepest_tier(other->sizing) > MW_TIER_GPU;
    enum mw_strategy strategy = one->sizing->settings.strategy;
    enum mw_strategy other_strategy = other->sizing->settings.strategy;

    if (one_offloads != other_offloads)
        return other_offloads;
    return mw_strategy_is_simpler(strategy, other_strategy) ||
           (strategy == other_strategy && !recomputes_some(one) && recomputes_some(other));
}

/* An open batch stays within the default, which is the intended step: of equally fast plans the one
 * closer to it is better. */
static bool
is_preferable(const struct mw_choice *one, const struct mw_choice *other)
{
    return mw_choice_is_simpler(one, other) ||
           (!mw_choice_is_simpler(other, one) &&
            mw_tokens_per_step(one->sizing) > mw_tokens_per_step(other->sizing));
}

/* Factor by which `one` must be faster than `other`. */
static double
handicap(const struct mw_choice *one, const struct mw_choice *other)
{
    if (!mw_choice_fits(one) || !mw_choice_fits(other))
        return 1;
    return is_preferable(other, one)   ? WORTH_COMPLEXITY
           : is_preferable(one, other) ? 1 / WORTH_COMPLEXITY
                                       : 1;
}

int
mw_choose_lacks(const struct mw_choose_search *search, const struct mw_choice *choice)
{
    return mw_choice_fits(choice) ? mw_count_lacks(search->question, choice->sizing) : INT_MAX;
}

bool
mw_choose_is_better(struct mw_choose_search *search, struct mw_choice *one, struct mw_choice *other)
{
    int lacks = mw_choose_lacks(search, one), others = mw_choose_lacks(search, other);

    return lacks != others && mw_choice_fits(one) && mw_choice_fits(other)
               ? lacks < others
               : mw_choose_rate(search, one) > mw_choose_rate(search, other) * handicap(one, other);
}

void
mw_choose_take_better(struct mw_choose_search *search, struct mw_choice *best,
                      struct mw_choice *other)
{
    if (mw_choose_is_better(search, other, best)) {
        mw_choice_clear(best);
        *best = *other;
    } else {
        mw_choice_clear(other);
    }
}

/* Where parameters take long to come, but not much longer than what is computed with them, the
 * unlike parts of a layer wait for each other. */
static bool
waits_for_parts(const struct mw_sizing *sizing)
{
    struct mw_closed_form form;

    mw_closed_form_of_slowest(sizing, sizing->hardware, &form);
    double come_s = mw_fetch_s(form.plan_s);
    double own_s = form.plan_s[MW_TERM_PRODUCTS] + form.plan_s[MW_TERM_MEMORY_BOUND];
    return come_s > FETCH_SHARE * own_s && own_s > FETCH_SHARE * come_s;
}

int64_t
mw_choose_most_ahead(const struct mw_question *question, const struct mw_sizing *one)
{
    const struct mw_settings *s = &one->settings;
    bool open = question->settings.prefetch == MW_AUTO && s->overlap && !s->serialize;

    if (!open || !one->fits || !one->params_partitioned || mw_settings_layer_order(s) ||
        !waits_for_parts(one))
        return 0;
    return MIN(mw_sizing_parts_of_layer(one), (int64_t)mw_setting_find("prefetch")->max);
}

/* Parts differ in how long they are computed with and how long they travel: with one ahead each
 * waits for the slower of both, and where those of a layer are on their way only the sums over it
 * count.  So where the number is open it is as large as memory allows, up to a layer's. */
static struct mw_sizing *
deepen_prefetch(const struct mw_question *question, struct mw_sizing *one)
{
    struct mw_settings s = one->settings;

    for (int64_t depth = mw_choose_most_ahead(question, one); depth > one->settings.prefetch;
         depth--) {
        mw_settings_set_prefetch(&s, depth);
        struct mw_sizing *ahead = mw_sizing_new(one->model, one->hardware, &s, NULL);
        bool fits = ahead && ahead->fits;
        mw_sizing_free(fits ? one : ahead);
        if (fits)
            return ahead;
    }
    return one;
}

static struct mw_choice
take_candidate(struct mw_choose_search *search, GPtrArray *candidates, guint number)
{
    struct mw_sizing *sizing = g_steal_pointer(&candidates->pdata[number]);

    return (struct mw_choice){.sizing = deepen_prefetch(search->question, sizing),
                              .keeps_plan = search->keeps_plan};
}

struct mw_choice
mw_choose_fastest(struct mw_choose_search *search, GPtrArray *candidates, int most, double floor)
{
    guint list[SIMULATED] = {0};
    int count = shortlist(candidates, most, floor, list);
    struct mw_choice best = take_candidate(search, candidates, list[0]);

    for (int i = 1; i < count; i++) {
        struct mw_choice other = take_candidate(search, candidates, list[i]);
        mw_choose_take_better(search, &best, &other);
    }
    return best;
}

void
mw_choose_take_fastest(struct mw_choose_search *search, struct mw_choice *choice,
                       GPtrArray *candidates, int most, double floor)
{
    struct mw_choice fastest = mw_choose_fastest(search, candidates, most, floor);

    if (choice->sizing)
        mw_choose_take_better(search, choice, &fastest);
    else
        *choice = fastest;
}
