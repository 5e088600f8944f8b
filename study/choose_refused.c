/* What is said where the best plan has too many ops. */
#include <limits.h>

#include "base/error.h"
#include "study/choose_internal.h"
#include "study/lacks.h"

/* The time to examine a strategy grows with the layers: for models with more layers not all
 * strategies are examined. */
#define REFUSED_LAYERS 10000

/* Whether a strategy need not be examined: a fitting plan without it is enough for the message, and
 * each home of the parameters would have to be examined. */
static bool
is_spared(const struct mw_question *question, enum mw_strategy strategy)
{
    const struct mw_state_traits *params =
        &mw_strategy_traits(strategy)->state[MW_STATE_PARAMETERS];

    return question->model.layers > REFUSED_LAYERS && params->deepest > params->nearest;
}

/* By estimate, of two sizings that fit; `best` may be NULL. */
static bool
beats(const struct mw_question *question, const struct mw_sizing *one, const struct mw_sizing *best)
{
    int lacks = mw_count_lacks(question, one);
    int others = best ? mw_count_lacks(question, best) : INT_MAX;

    return lacks != others ? lacks < others
                           : mw_estimated_rate_of(one) > mw_estimated_rate_of(best);
}

/* The candidate with the best estimate, with any number of ops; NULL if none fits. */
static struct mw_sizing *
best_of_all(const struct mw_question *question, const struct mw_settings *asked)
{
    const struct mw_strategies strategies = mw_choose_strategies_to_try(asked);
    struct mw_sizing *best = NULL;

    for (int way = 0; way < (mw_choose_may_keep_all(asked) ? 2 : 1); way++)
        for (int s = 0; s < strategies.count; s++) {
            struct mw_settings settings = way ? mw_choose_keeping_all(asked) : *asked;
            settings.strategy = strategies.one[s];
            g_autoptr(GPtrArray) found = best && is_spared(question, settings.strategy)
                                             ? NULL
                                             : mw_choose_find_fitting(question, &settings);
            for (guint i = 0; found && i < found->len; i++) {
                struct mw_sizing *sizing = found->pdata[i];
                if (!sizing->fits || !beats(question, sizing, best))
                    continue;
                mw_sizing_free(best);
                best = g_steal_pointer(&found->pdata[i]);
            }
        }
    return best;
}

/* Whether some candidate has few enough ops. */
static bool
is_answered(const struct mw_question *question, const struct mw_settings *asked, int64_t batch)
{
    struct mw_settings settings = *asked;

    settings.global_batch = batch;
    struct mw_sizing *any = best_of_all(question, &settings);
    mw_sizing_free(any);
    return any != NULL;
}

/* For all open strategies, with and without recomputation; false: none was found. */
static bool
find_nearest_batches(const struct mw_question *question, const struct mw_settings *asked,
                     struct mw_nearest_batches *batches)
{
    struct mw_request planned = {&question->model, &question->hardware[MW_OUTLOOK_TYPICAL]};
    const struct mw_strategies strategies = mw_choose_strategies_to_try(asked);

    if (asked->global_batch == MW_AUTO || asked->grad_accum != MW_AUTO ||
        question->model.layers > REFUSED_LAYERS)
        return false;
    for (int way = 0; way < (mw_choose_may_keep_all(asked) ? 2 : 1); way++)
        for (int s = 0; s < strategies.count; s++) {
            struct mw_settings settings = way ? mw_choose_keeping_all(asked) : *asked;
            settings.strategy = strategies.one[s];
            mw_planner_nearest_batches(&planned, &settings, batches);
        }
    if (batches->quick && !is_answered(question, asked, batches->quick))
        batches->quick = 0;
    return batches->most && is_answered(question, asked, batches->most);
}

void
mw_choose_refuse(const struct mw_question *question, const struct mw_settings *asked,
                 GError **error)
{
    struct mw_request planned = {&question->model, &question->hardware[MW_OUTLOOK_TYPICAL]};
    struct mw_settings settings = mw_choose_with_many_ops(asked);

    if (!error || !g_error_matches(*error, MW_ERROR, MW_ERROR_LARGE))
        return;
    settings.ops_max = MAX(settings.ops_max, asked->ops_max * REFUSED_OPS);
    struct mw_sizing *chosen = best_of_all(question, &settings);
    struct mw_nearest_batches batches = {0};
    if (chosen)
        mw_planner_refuse_ops(&planned, asked, chosen,
                              find_nearest_batches(question, asked, &batches) ? &batches : NULL,
                              error);
    mw_sizing_free(chosen);
}

/* Simulates a few micro-batches if that is quick, else estimates. */
static double
times_as_fast(const struct mw_sizing *one, const struct mw_sizing *other)
{
    double rate = mw_choose_rate_by_few(one), other_rate = mw_choose_rate_by_few(other);

    return rate > 0 && other_rate > 0 ? rate / other_rate
                                      : mw_estimated_rate_of(one) / mw_estimated_rate_of(other);
}

struct mw_sizing *
mw_choice_left_out(const struct mw_question *question, enum mw_strategy strategy,
                   const struct mw_sizing *chosen, double *times)
{
    struct mw_settings asked = question->settings;

    asked.strategy = strategy;
    struct mw_settings many = mw_choose_with_many_ops(&asked);
    if (!chosen->fits || many.ops_max == asked.ops_max)
        return NULL;
    struct mw_sizing *best = best_of_all(question, &many);
    bool lacks = best && mw_count_lacks(question, best) > mw_count_lacks(question, chosen);
    if (best && !lacks && mw_planner_ops(best) > asked.ops_max) {
        best->settings.ops_max = asked.ops_max;
        *times = times_as_fast(best, chosen);
        if (*times > WORTH_COMPLEXITY)
            return best;
    }
    mw_sizing_free(best);
    return NULL;
}
