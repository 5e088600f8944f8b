/* From a request to an answer: the best of a strategy's candidates, the best of the strategies. */
#include <math.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/evaluate.h"
#include "cli/fill.h"
#include "planner/error.h"

/* --- choosing among the candidates -------------------------------------------------------------- */

/* What the closed form says of a candidate, tokens a second: it ranks them at no cost. */
static double
estimated_rate(const struct mw_sizing *sizing, const struct mw_hardware *hw)
{
    struct mw_closed_form form;

    cli_closed_form(sizing, hw, &form);
    return cli_tokens_per_step(sizing) / form.plan_total_s;
}

/* Only the candidates with the best estimates are simulated. */
#define SIMULATED 2

/* Of `candidates`, the indices of those that fit with the best estimates; returns how many. */
static int
shortlist(GPtrArray *candidates, const struct mw_hardware *hw, guint list[SIMULATED])
{
    double rates[SIMULATED];
    int count = 0;

    for (guint i = 0; i < candidates->len; i++) {
        const struct mw_sizing *sizing = candidates->pdata[i];
        if (!sizing->fits)
            continue;
        double rate = candidates->len > 1 ? estimated_rate(sizing, hw) : 0;
        int place = count;
        while (place > 0 && rates[place - 1] < rate)
            place--;
        if (place == SIMULATED)
            continue;
        count = MIN(count + 1, SIMULATED);
        for (int j = count - 1; j > place; j--) {
            rates[j] = rates[j - 1];
            list[j] = list[j - 1];
        }
        rates[place] = rate;
        list[place] = i;
    }
    return count;
}

/* The candidate with the highest throughput, and its plan; one candidate needs no simulation. */
static guint
choose(GPtrArray *candidates, const struct mw_hardware *hw, struct mw_plan **plan)
{
    guint list[SIMULATED], best = 0;
    int count = shortlist(candidates, hw, list);
    double best_rate = -1;

    *plan = NULL;
    for (int i = 0; i < count; i++) {
        const struct mw_sizing *sizing = candidates->pdata[list[i]];
        struct mw_plan *built = mw_build_plan(sizing);
        double rate =
            count == 1 ? 0 : cli_tokens_per_step(sizing) / cli_step_s(built, hw, false);
        if (rate > best_rate) {
            best_rate = rate;
            best = list[i];
            mw_plan_free(*plan);
            *plan = built;
        } else {
            mw_plan_free(built);
        }
    }
    return best;
}

/* --- the whole -------------------------------------------------------------------------------------- */

struct cli_answer *
cli_answer_new(const struct cli_request *request, enum mw_strategy strategy, enum cli_depth depth,
               bool keep_timeline, GError **error)
{
    const struct mw_hardware *hw = &request->hardware[MW_OUTLOOK_TYPICAL];
    struct mw_request planned = {&request->model, hw};
    struct mw_settings asked = request->settings, resolved;

    asked.strategy = strategy;
    if (!mw_settings_resolve(&planned, &asked, &resolved, error))
        return NULL;
    g_autoptr(GPtrArray) candidates = mw_planner_candidates(&planned, &resolved, error);
    if (!candidates)
        return NULL;
    struct cli_answer *answer = g_new0(struct cli_answer, 1);
    guint best = choose(candidates, hw, &answer->plan);
    g_ptr_array_set_free_func(candidates, NULL);
    for (guint i = 0; i < candidates->len; i++)
        if (i == best)
            answer->sizing = candidates->pdata[i];
        else
            mw_sizing_free(candidates->pdata[i]);
    answer->result = g_new0(struct mw_result, 1);
    cli_fill_sizing(request, answer);
    if (!answer->plan || (depth > CLI_DEPTH_PLAN ? cli_fill_simulation(request, answer, depth,
                                                                       keep_timeline, error)
                                                 : cli_fill_layout(request, answer, error)))
        return answer;
    cli_answer_free(answer);
    return NULL;
}

void
cli_answer_free(struct cli_answer *answer)
{
    if (!answer)
        return;
    mw_result_free(answer->result);
    mw_plan_free(answer->plan);
    mw_sizing_free(answer->sizing);
    free(answer->timeline.rows);
    g_free(answer);
}

static bool
better(const struct cli_answer *a, const struct cli_answer *b)
{
    const struct mw_result *x = a->result, *y = b->result;

    if (x->feasible != y->feasible)
        return x->feasible;
    if (x->feasible)
        return x->tokens_per_s > y->tokens_per_s;
    return x->short_bytes < y->short_bytes;
}

static bool
asks_for_offload(const struct mw_settings *settings)
{
    for (int state = 0; state < MW_STATE_COUNT; state++)
        for (int i = 0; i < settings->placement[state].count; i++)
            if (settings->placement[state].part[i].tier != MW_TIER_GPU)
                return true;
    return false;
}

struct cli_answer *
cli_answer_auto(const struct cli_request *request, enum cli_depth depth, bool keep_timeline,
                GError **error)
{
    struct cli_answer *best = NULL;
    enum mw_strategy chosen = MW_STRATEGY_AUTO;
    g_autoptr(GError) refused = NULL;

    bool offloads = asks_for_offload(&request->settings);

    for (int s = MW_STRATEGY_DDP; s < MW_STRATEGY_COUNT; s++) {
        if (offloads && (s == MW_STRATEGY_ZERO2 || s == MW_STRATEGY_ZERO3))
            continue; /* the same plan goes by the name of an offloading strategy */
        g_clear_error(&refused);
        struct cli_answer *answer =
            cli_answer_new(request, s, CLI_DEPTH_ROW, false, &refused);
        if (answer && (!best || better(answer, best))) {
            cli_answer_free(best);
            best = answer;
            chosen = s;
        } else {
            cli_answer_free(answer);
        }
    }
    if (!best) {
        g_propagate_error(error, g_steal_pointer(&refused));
        return NULL;
    }
    cli_answer_free(best);
    return cli_answer_new(request, chosen, depth, keep_timeline, error);
}
