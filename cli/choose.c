#include "cli/choose.h"

#include <math.h>
#include <string.h>

#include "cli/evaluate.h"
#include "planner/error.h"

/* Only the candidates with the best estimates are simulated, and of those only what comes near. */
#define SIMULATED 3
#define NEAR 0.9
/* An open batch is the largest of those that are not slower than the fastest by more than this. */
#define WORTH_A_BATCH 0.95
/* A plan that offloads must be so much faster than one that does not. */
#define WORTH_OFFLOADING 1.02

void
cli_choice_clear(struct cli_choice *choice)
{
    mw_engine_result_clear(&choice->engine);
    mw_plan_free(choice->plan);
    mw_sizing_free(choice->sizing);
    memset(choice, 0, sizeof *choice);
}

double
cli_choice_rate(struct cli_choice *choice)
{
    if (!choice->plan)
        return 0;
    if (!choice->simulated) {
        choice->simulated = true;
        choice->step_s =
            cli_engine(choice->plan, choice->sizing->hardware, true, &choice->engine, NULL)
                ? choice->engine.step_ns * 1e-9
                : INFINITY;
    }
    return cli_tokens_per_step(choice->sizing) / choice->step_s;
}

/* --- among the candidates of one strategy ---------------------------------------------------- */

static double
estimated_rate(const struct mw_sizing *sizing)
{
    return cli_tokens_per_step(sizing) / cli_estimate_s(sizing, sizing->hardware);
}

/* Of `candidates`, the indices of those that fit with the best estimates; returns how many. */
static int
shortlist(GPtrArray *candidates, guint list[SIMULATED])
{
    double rates[SIMULATED];
    int count = 0;

    for (guint i = 0; i < candidates->len; i++) {
        const struct mw_sizing *sizing = candidates->pdata[i];
        if (!sizing->fits)
            continue;
        double rate = estimated_rate(sizing);
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
    while (count > 1 && rates[count - 1] < NEAR * rates[0])
        count--;
    return count;
}

static bool
same_plan(const struct mw_settings *a, const struct mw_settings *b)
{
    for (int state = 0; state < MW_STATE_COUNT; state++) {
        const struct mw_placement *p = &a->placement[state], *q = &b->placement[state];
        if (p->count != q->count)
            return false;
        for (int i = 0; i < p->count; i++)
            if (p->part[i].tier != q->part[i].tier || p->part[i].bytes != q->part[i].bytes)
                return false;
    }
    return a->strategy == b->strategy && a->micro_batch == b->micro_batch &&
           a->grad_accum == b->grad_accum && a->tiles == b->tiles &&
           a->logits_chunks == b->logits_chunks && a->commit == b->commit &&
           a->checkpoint_interval == b->checkpoint_interval;
}

/* Takes the sizing, and plan and times from `known` if that is the same. */
static struct cli_choice
plan_of(struct mw_sizing *sizing, struct cli_choice *known)
{
    struct cli_choice choice = {0};

    if (known && known->plan && same_plan(&known->sizing->settings, &sizing->settings)) {
        choice = *known;
        memset(known, 0, sizeof *known);
        mw_sizing_free(choice.sizing);
    } else if (sizing->fits) {
        choice.plan = mw_build_plan(sizing);
    }
    choice.sizing = sizing;
    return choice;
}

static int
deepest_tier(const struct mw_sizing *sizing)
{
    int deepest = MW_TIER_GPU;

    for (int t = MW_TIER_CPU; t < MW_TIER_COUNT; t++)
        if (sizing->need_bytes[t] > 0)
            deepest = t;
    return deepest;
}

/* How much faster it must be: what moves nothing off the GPU has less that can go wrong. */
static double
handicap(const struct cli_choice *one, const struct cli_choice *other)
{
    if (!one->plan || !other->plan)
        return 1;
    bool one_offloads = deepest_tier(one->sizing) > MW_TIER_GPU;
    bool other_offloads = deepest_tier(other->sizing) > MW_TIER_GPU;

    return one_offloads == other_offloads ? 1
           : one_offloads                 ? WORTH_OFFLOADING
                                          : 1 / WORTH_OFFLOADING;
}

/* Takes `other`, unless `best` is as good. */
static void
take_better(struct cli_choice *best, struct cli_choice *other)
{
    if (cli_choice_rate(other) > cli_choice_rate(best) * handicap(other, best)) {
        cli_choice_clear(best);
        *best = *other;
    } else {
        cli_choice_clear(other);
    }
}

/* The fastest of the candidates, or the one that there is. */
static struct cli_choice
pick(GPtrArray *candidates, struct cli_choice *known)
{
    guint list[SIMULATED] = {0};
    int count = shortlist(candidates, list);
    struct cli_choice best = plan_of(g_steal_pointer(&candidates->pdata[list[0]]), known);

    for (int i = 1; i < count; i++) {
        struct cli_choice other = plan_of(g_steal_pointer(&candidates->pdata[list[i]]), known);
        take_better(&best, &other);
    }
    return best;
}

/* Each candidate has the largest batch of its placement. */
static double
largest_batch(GPtrArray *candidates)
{
    double fastest = 0, largest = MW_AUTO;

    for (guint i = 0; i < candidates->len; i++)
        fastest = fmax(fastest, estimated_rate(candidates->pdata[i]));
    for (guint i = 0; i < candidates->len; i++) {
        const struct mw_sizing *sizing = candidates->pdata[i];
        if (sizing->fits && estimated_rate(sizing) >= WORTH_A_BATCH * fastest)
            largest = fmax(largest, sizing->settings.micro_batch);
    }
    return largest;
}

static GPtrArray *
find_candidates(const struct cli_request *request, const struct mw_settings *asked, GError **error)
{
    struct mw_request planned = {&request->model, &request->hardware[MW_OUTLOOK_TYPICAL]};
    struct mw_settings resolved;

    return mw_settings_resolve(&planned, asked, &resolved, error)
               ? mw_planner_candidates(&planned, &resolved, error)
               : NULL;
}

static double
best_estimate(GPtrArray *candidates)
{
    double best = 0;

    for (guint i = 0; candidates && i < candidates->len; i++) {
        const struct mw_sizing *sizing = candidates->pdata[i];
        if (sizing->fits)
            best = fmax(best, estimated_rate(sizing));
    }
    return best;
}

double
cli_estimated_rate(const struct cli_request *request, const struct mw_settings *asked)
{
    g_autoptr(GPtrArray) candidates = find_candidates(request, asked, NULL);

    return best_estimate(candidates);
}

/* An open batch is found first, then planned as if it had been asked for. */
static GPtrArray *
find_batch(const struct cli_request *request, const struct mw_settings *asked, GError **error)
{
    struct mw_settings settings = *asked;
    GPtrArray *candidates = find_candidates(request, asked, error);

    if (!candidates || settings.micro_batch != MW_AUTO)
        return candidates;
    settings.micro_batch = largest_batch(candidates);
    if (settings.micro_batch == MW_AUTO)
        return candidates;
    g_ptr_array_unref(candidates);
    return find_candidates(request, &settings, error);
}

/* Recomputation is open, and nothing that was asked for speaks of it. */
static bool
may_keep_all(const struct mw_settings *asked)
{
    return asked->checkpoint_interval == MW_AUTO && asked->param_loads != 2 &&
           !asked->placement[MW_STATE_ACTIVATIONS].count;
}

bool
cli_recomputes_for_eager(const struct cli_request *request, const struct mw_sizing *sizing)
{
    struct mw_settings asked = request->settings;
    double chosen = estimated_rate(sizing);

    if (!may_keep_all(&asked) || !sizing->settings.checkpoint_interval)
        return false;
    asked.strategy = sizing->settings.strategy;
    asked.checkpoint_interval = 0;
    if (!(cli_estimated_rate(request, &asked) > chosen))
        return false;
    asked.eager = true;
    return !(cli_estimated_rate(request, &asked) > chosen);
}

/* Every block recomputed, or none where that is faster and fits even as eager frameworks would. */
static bool
choose_of_strategy(const struct cli_request *request, const struct mw_settings *asked,
                   struct cli_choice *known, struct cli_choice *choice, GError **error)
{
    struct mw_settings settings = *asked;
    g_autoptr(GPtrArray) candidates = find_batch(request, asked, error);

    if (!candidates)
        return false;
    double recomputed = best_estimate(candidates);
    *choice = pick(candidates, known);
    if (!may_keep_all(asked))
        return true;
    settings.checkpoint_interval = 0;
    settings.eager = true;
    g_autoptr(GPtrArray) kept = find_batch(request, &settings, NULL);
    if (best_estimate(kept) > recomputed) {
        struct cli_choice other = pick(kept, known);
        take_better(choice, &other);
    }
    return true;
}

/* --- among the strategies
 * ------------------------------------------------------------------------- */

static bool
asks_for_offload(const struct mw_settings *settings)
{
    for (int state = 0; state < MW_STATE_COUNT; state++)
        for (int i = 0; i < settings->placement[state].count; i++)
            if (settings->placement[state].part[i].tier != MW_TIER_GPU)
                return true;
    return false;
}

/* What fits before what does not; of those that do not, the one that lacks least. */
static void
take_better_strategy(struct cli_choice *best, struct cli_choice *other)
{
    if (best->plan || (other->sizing && other->plan)) {
        take_better(best, other);
    } else if (!best->sizing || other->sizing->short_bytes < best->sizing->short_bytes) {
        cli_choice_clear(best);
        *best = *other;
    } else {
        cli_choice_clear(other);
    }
}

static bool
choose_strategy(const struct cli_request *request, const struct mw_settings *asked,
                struct cli_choice *known, struct cli_choice *choice, GError **error)
{
    struct mw_settings settings = *asked;
    bool offloads = asks_for_offload(asked);
    g_autoptr(GError) refused = NULL, large = NULL;
    struct cli_choice best = {0};

    for (int s = MW_STRATEGY_DDP; s < MW_STRATEGY_COUNT; s++) {
        struct cli_choice other;
        if (offloads && (s == MW_STRATEGY_ZERO2 || s == MW_STRATEGY_ZERO3))
            continue; /* the same plan goes by the name of an offloading strategy */
        settings.strategy = s;
        g_clear_error(&refused);
        if (choose_of_strategy(request, &settings, known, &other, &refused)) {
            take_better_strategy(&best, &other);
        } else if (g_error_matches(refused, MW_ERROR, MW_ERROR_LARGE)) {
            g_clear_error(&large);
            large = g_error_copy(refused);
        }
    }
    /* Memory is not what is short where a strategy fits in too many ops. */
    if (large && !best.plan)
        cli_choice_clear(&best);
    *choice = best;
    if (!best.sizing)
        g_propagate_error(error, large ? g_steal_pointer(&large) : g_steal_pointer(&refused));
    return best.sizing != NULL;
}

/* --- the whole
 * -------------------------------------------------------------------------------------- */

static bool
choose(const struct cli_request *request, const struct mw_settings *asked, struct cli_choice *known,
       struct cli_choice *choice, GError **error)
{
    return asked->strategy == MW_STRATEGY_AUTO
               ? choose_strategy(request, asked, known, choice, error)
               : choose_of_strategy(request, asked, known, choice, error);
}

bool
cli_choose(const struct cli_request *request, enum mw_strategy strategy, struct cli_choice *choice,
           GError **error)
{
    struct mw_settings asked = request->settings;
    struct cli_choice again;

    asked.strategy = strategy;
    if (!choose(request, &asked, NULL, choice, error))
        return false;
    if (strategy != MW_STRATEGY_AUTO || asked.micro_batch != MW_AUTO || !choice->plan)
        return true;
    asked.micro_batch = choice->sizing->settings.micro_batch;
    if (choose(request, &asked, choice, &again, NULL)) {
        cli_choice_clear(choice);
        *choice = again;
    }
    return true;
}
