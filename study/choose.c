#include "study/choose.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/progress.h"
#include "base/thread_memory.h"
#include "planner/known.h"
#include "planner/settings/table.h"
#include "study/evaluate.h"
#include "study/known_steps.h"
#include "study/lacks.h"

/* Only candidates with the best estimates are simulated, and only those close to the best. */
#define SIMULATED 4
/* The same of candidates that recompute only some layers. */
#define SIMULATED_MIXED 2
/* The same of those with room for the parts of a layer on their way. */
#define SIMULATED_AHEAD 2
#define NEAR 0.9
/* Rates that differ by less are the same: the larger step, nearer to the default, comes first. */
#define SAME_RATE 1.001
/* Factor by which a plan must be faster than a simpler one, which does not offload or partitions
 * less. */
#define WORTH_COMPLEXITY 1.02
/* Factor by which estimates must be better for recomputing fewer layers to be sought. */
#define WORTH_SIZING 1.01
/* Share of the time that the GPU computes from which on it waits for parameters that come; own
 * estimate. */
#define FETCH_SHARE 0.25
/* If a plan has more micro-batches, this number and one less are simulated; each further
 * micro-batch takes the difference of the two. */
#define SIMULATED_MICRO_BATCHES 3
/* Steps with up to this many times the allowed ops are examined before they are refused, to name
 * the plan: counting micro-batches costs nothing, counting layers and tiles does. */
#define REFUSED_OPS 64
#define REFUSED_MICRO_BATCHES 64
/* The time to examine a strategy grows with the layers: for models with more layers not all
 * strategies are examined. */
#define REFUSED_LAYERS 10000

/* --- a choice -------------------------------------------------------------------------------- */

void
mw_choice_clear(struct mw_choice *choice)
{
    mw_engine_result_clear(&choice->engine);
    mw_known_steps_free(choice->known);
    mw_plan_free(choice->plan);
    mw_sizing_free(choice->sizing);
    memset(choice, 0, sizeof *choice);
}

static bool
fits(const struct mw_choice *choice)
{
    return choice->sizing && choice->sizing->fits;
}

/* Builds the plan of a choice that fits, unless it has been built.  One that is rated alone is not
 * worth as many ops as layers that do not come in rounds make. */
static void
build_plan(struct mw_choice *choice)
{
    if (!choice->plan && fits(choice))
        choice->plan = choice->keeps_plan ? mw_build_plan(choice->sizing)
                                          : mw_build_small_plan(choice->sizing);
}

/* It may have half a million ops. */
static void
free_plan(struct mw_choice *choice)
{
    mw_engine_result_clear(&choice->engine);
    g_clear_pointer(&choice->known, mw_known_steps_free);
    g_clear_pointer(&choice->plan, mw_plan_free);
}

static double
find_folded_step_s(const struct mw_sizing *sizing)
{
    struct mw_folds folds = mw_sizing_most_folds(sizing);
    struct mw_plan *plan =
        folds.micro_batches || folds.layers ? mw_build_order(sizing, folds) : NULL;
    struct mw_engine_result engine = {0};
    bool exact = plan && mw_evaluate_plan(plan, sizing->hardware, false, &engine, NULL) &&
                 !engine.rounds_by_mean;
    double step_s = exact ? engine.step_ns * 1e-9 : 0;

    mw_engine_result_clear(&engine);
    mw_plan_free(plan);
    return step_s;
}

static double
find_flat_step_s(const struct mw_sizing *sizing)
{
    struct mw_plan *plan = mw_build_small_plan(sizing);
    double step_s = plan ? mw_step_s(plan, sizing->hardware, false) : INFINITY;

    mw_plan_free(plan);
    return step_s;
}

static struct mw_thread_memory folded_steps =
    MW_THREAD_MEMORY(struct mw_known_key, double, 64, 1, NULL);
static struct mw_thread_memory flat_steps =
    MW_THREAD_MEMORY(struct mw_known_key, double, 64, 1, NULL);

/* As `find` finds it, unless the thread knows it. */
static double
remembered_step_s(struct mw_thread_memory *memory, const struct mw_sizing *sizing,
                  double (*find)(const struct mw_sizing *sizing))
{
    const struct mw_request request = {sizing->model, sizing->hardware};
    struct mw_known_key key;

    mw_known_key_init(&key, &request, &sizing->settings);
    const double *known = mw_thread_memory_find(memory, &key, sizeof key);
    if (known)
        return *known;
    double step_s = find(sizing);
    *(double *)mw_thread_memory_keep(memory, &key, sizeof key) = step_s;
    return step_s;
}

/* Steady step time, by a plan that says once what repeats; 0 if nothing repeats, or not exactly. */
static double
folded_step_s(const struct mw_sizing *sizing)
{
    return remembered_step_s(&folded_steps, sizing, find_folded_step_s);
}

/* The same by a plan that says all; INFINITY if the engine refuses it. */
static double
flat_step_s(const struct mw_sizing *sizing)
{
    return remembered_step_s(&flat_steps, sizing, find_flat_step_s);
}

double
mw_choice_rate(struct mw_choice *choice)
{
    if (!choice->simulated && !choice->keeps_plan && fits(choice)) {
        choice->step_s = folded_step_s(choice->sizing);
        if (choice->step_s <= 0)
            choice->step_s = mw_step_by_few_s(choice->sizing);
        choice->simulated = choice->step_s > 0;
    }
    if (!choice->simulated) {
        build_plan(choice);
        if (!choice->plan)
            return 0;
        choice->simulated = true;
        if (choice->keeps_plan)
            choice->known = mw_known_steps_new();
        choice->step_s = mw_known_evaluate(choice->known, choice->plan, choice->sizing->hardware,
                                           choice->keeps_plan, &choice->engine, NULL)
                             ? choice->engine.step_ns * 1e-9
                             : INFINITY;
    }
    return mw_tokens_per_step(choice->sizing) / choice->step_s;
}

/* --- a search --------------------------------------------------------------------------------- */

/* Simulated plans and their rates: a search meets the same plan again and again. */
struct known {
    struct mw_settings settings;
    double rate;
};

struct search {
    const struct mw_question *question;
    bool keeps_plan; /* of the choice; else plans are freed once they are rated */
    bool estimates;  /* rates are estimated, and no plan is built */
    GArray *known;   /* struct known */
};

static bool
same_plan(const struct mw_settings *a, const struct mw_settings *b)
{
    for (int state = 0; state < MW_STATE_COUNT; state++) {
        const struct mw_placement *p = &a->placement[state], *q = &b->placement[state];
        if (p->count != q->count)
            return false;
        for (int i = 0; i < p->count; i++)
            if (p->part[i].tier != q->part[i].tier || p->part[i].bytes != q->part[i].bytes ||
                p->part[i].share != q->part[i].share)
                return false;
    }
    return a->strategy == b->strategy && a->micro_batch == b->micro_batch &&
           a->grad_accum == b->grad_accum && a->tiles == b->tiles &&
           a->logits_chunks == b->logits_chunks && a->prefetch == b->prefetch &&
           a->commit == b->commit && a->checkpoint_interval == b->checkpoint_interval &&
           a->whole_checkpoints == b->whole_checkpoints &&
           a->recompute_layers == b->recompute_layers &&
           !memcmp(&a->recompute_set, &b->recompute_set, sizeof a->recompute_set);
}

/* Step time with this number of micro-batches; INFINITY if the engine refuses the plan. */
static double
step_with(const struct mw_sizing *sizing, int64_t micro_batches)
{
    struct mw_settings s = sizing->settings;

    s.grad_accum = micro_batches;
    struct mw_sizing *other = mw_sizing_new(sizing->model, sizing->hardware, &s, NULL);
    double step_s = other && other->fits ? folded_step_s(other) : INFINITY;
    if (step_s <= 0)
        step_s = flat_step_s(other);
    mw_sizing_free(other);
    return step_s;
}

static double
fetch_s(const struct mw_sizing *sizing)
{
    struct mw_closed_form form;

    mw_closed_form_of_slowest(sizing, sizing->hardware, &form);
    return mw_fetch_s(form.plan_s);
}

/* Layer by layer parameters come once for all micro-batches.  As long as these are few they wait
 * for them, and one more takes no time.  Twice as many, as forward and backward compute for unlike
 * times while as much comes. */
static int64_t
while_waiting(const struct mw_sizing *sizing)
{
    struct mw_closed_form form;

    if (!mw_settings_layer_order(&sizing->settings))
        return 0;
    mw_closed_form_of_slowest(sizing, sizing->hardware, &form);
    double each_s = (form.plan_s[MW_TERM_PRODUCTS] + form.plan_s[MW_TERM_MEMORY_BOUND]) /
                    (double)sizing->settings.grad_accum;
    return (int64_t)fmin(2 * mw_fetch_s(form.plan_s) / each_s, (double)sizing->settings.grad_accum);
}

/* A multiple of what a step has at a time. */
static int64_t
simulated_micro_batches(const struct mw_sizing *sizing)
{
    int64_t grain = mw_settings_batch_grain(&sizing->settings);

    return SIMULATED_MICRO_BATCHES * grain + while_waiting(sizing) / grain * grain;
}

/* All micro-batches except the first and the last are alike. */
static double
rate_by_few(const struct mw_sizing *sizing)
{
    int64_t few = simulated_micro_batches(sizing);
    int64_t grain = mw_settings_batch_grain(&sizing->settings);
    double few_s = step_with(sizing, few), fewer_s = step_with(sizing, few - grain);
    double missing = (double)(sizing->settings.grad_accum - few) / (double)grain;

    return isfinite(few_s) && isfinite(fewer_s)
               ? mw_tokens_per_step(sizing) / (few_s + missing * (few_s - fewer_s))
               : 0;
}

/* Tokens per second, accurate enough to choose by; 0 if it does not fit. */
static double
rate_of(struct search *search, struct mw_choice *choice)
{
    if (!fits(choice))
        return 0;
    if (search->estimates)
        return mw_estimated_rate_of(choice->sizing);
    for (guint i = 0; i < search->known->len; i++) {
        const struct known *known = &g_array_index(search->known, struct known, i);
        if (same_plan(&known->settings, &choice->sizing->settings))
            return known->rate;
    }
    mw_progress("choosing among strategies and batches: %s, plan %u",
                mw_strategy_name(choice->sizing->settings.strategy), search->known->len + 1);
    struct known new = {choice->sizing->settings, 0};
    new.rate = choice->sizing->settings.grad_accum > simulated_micro_batches(choice->sizing)
                   ? rate_by_few(choice->sizing)
                   : mw_choice_rate(choice);
    if (!search->keeps_plan)
        free_plan(choice);
    g_array_append_val(search->known, new);
    return new.rate;
}

/* --- among the candidates of one strategy ---------------------------------------------------- */

double
mw_estimated_rate_of(const struct mw_sizing *sizing)
{
    return mw_tokens_per_step(sizing) / mw_estimate_s(sizing, sizing->hardware);
}

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

static int
deepest_tier(const struct mw_sizing *sizing)
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

/* Of two plans, the one that offloads nothing is simpler; if both do or neither does, the one with
 * the simpler strategy is; of one strategy, the one that treats all layers alike. */
static bool
is_simpler(const struct mw_choice *one, const struct mw_choice *other)
{
    bool one_offloads = deepest_tier(one->sizing) > MW_TIER_GPU;
    bool other_offloads = deepest_tier(other->sizing) > MW_TIER_GPU;
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
    return is_simpler(one, other) ||
           (!is_simpler(other, one) &&
            mw_tokens_per_step(one->sizing) > mw_tokens_per_step(other->sizing));
}

/* Factor by which `one` must be faster than `other`. */
static double
handicap(const struct mw_choice *one, const struct mw_choice *other)
{
    if (!fits(one) || !fits(other))
        return 1;
    return is_preferable(other, one)   ? WORTH_COMPLEXITY
           : is_preferable(one, other) ? 1 / WORTH_COMPLEXITY
                                       : 1;
}

static int
lacks_of(const struct search *search, const struct mw_choice *choice)
{
    return fits(choice) ? mw_count_lacks(search->question, choice->sizing) : INT_MAX;
}

static bool
is_better(struct search *search, struct mw_choice *one, struct mw_choice *other)
{
    int lacks = lacks_of(search, one), others = lacks_of(search, other);

    return lacks != others && fits(one) && fits(other)
               ? lacks < others
               : rate_of(search, one) > rate_of(search, other) * handicap(one, other);
}

/* Takes `other`, unless `best` is as good.  What the software can run comes before what is fast. */
static void
take_better(struct search *search, struct mw_choice *best, struct mw_choice *other)
{
    if (is_better(search, other, best)) {
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

/* How many parts come ahead at most where the number is open: those of a layer.  0: the number is
 * given, or nothing waits for parts. */
static int64_t
most_ahead(const struct mw_question *question, const struct mw_sizing *one)
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

    for (int64_t depth = most_ahead(question, one); depth > one->settings.prefetch; depth--) {
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
take_candidate(struct search *search, GPtrArray *candidates, guint number)
{
    struct mw_sizing *sizing = g_steal_pointer(&candidates->pdata[number]);

    return (struct mw_choice){.sizing = deepen_prefetch(search->question, sizing),
                              .keeps_plan = search->keeps_plan};
}

/* The fastest candidate; a single candidate is not simulated.  Estimates below `floor` are far from
 * the best of others. */
static struct mw_choice
fastest_candidate(struct search *search, GPtrArray *candidates, int most, double floor)
{
    guint list[SIMULATED] = {0};
    int count = shortlist(candidates, most, floor, list);
    struct mw_choice best = take_candidate(search, candidates, list[0]);

    for (int i = 1; i < count; i++) {
        struct mw_choice other = take_candidate(search, candidates, list[i]);
        take_better(search, &best, &other);
    }
    return best;
}

/* The fastest candidate, unless there is a choice that is as good. */
static void
take_fastest(struct search *search, struct mw_choice *choice, GPtrArray *candidates, int most,
             double floor)
{
    struct mw_choice fastest = fastest_candidate(search, candidates, most, floor);

    if (choice->sizing)
        take_better(search, choice, &fastest);
    else
        *choice = fastest;
}

/* Whether logits in one piece load the weights of their product twice, which they need on the GPU
 * for forward and again for backward.  In two or more pieces these follow each other. */
static bool
loads_logits_twice(const struct mw_sizing *sizing)
{
    const struct mw_settings *s = &sizing->settings;
    const struct mw_placement *params = &s->placement[MW_STATE_PARAMETERS];
    bool apart = sizing->params_partitioned && sizing->shards > 1;
    bool away = mw_placement_has(params, MW_TIER_CPU) || mw_placement_has(params, MW_TIER_NVME);

    return sizing->fits && s->logits_chunks == 1 && (apart || away) && s->pp == 1 &&
           !mw_settings_layer_order(s);
}

/* Memory that has room for logits in one piece has room for two, which are faster where transfers
 * of those weights take longer than smaller products lose.  Estimates have all loads beside the
 * passes, but for the second one backward waits.  A framework needs another loss for it.
 * memwall's own runs keep one chunk: another number changes the bits, which must not depend on
 * where parameters are. */
static void
halve_logits(const struct mw_question *question, const struct mw_settings *resolved,
             GPtrArray *candidates)
{
    const char *software = question->software ? mw_profile_name(question->software) : "";

    if (!strcmp(software, MW_SOFTWARE_OWN))
        return;
    for (guint i = 0; resolved->logits_chunks == MW_AUTO && i < candidates->len; i++) {
        struct mw_sizing *whole = candidates->pdata[i];
        struct mw_settings s = whole->settings;
        if (!loads_logits_twice(whole))
            continue;
        double worth = whole->hardware->memory_use.bytes_per_logit > 0 ? WORTH_COMPLEXITY : 1;
        s.logits_chunks = 2;
        struct mw_sizing *halves = mw_sizing_new(whole->model, whole->hardware, &s, NULL);
        bool faster = halves && halves->fits &&
                      worth * mw_estimate_s(halves, whole->hardware) <
                          mw_estimate_s(whole, whole->hardware) + fetch_s(whole) - fetch_s(halves);
        mw_sizing_free(faster ? whole : halves);
        candidates->pdata[i] = faster ? halves : whole;
    }
}

/* Where none fits: the one that lacks least, or NULL and the reason. */
static GPtrArray *
find_nearest(const struct mw_question *question, const struct mw_settings *asked, GError **error)
{
    struct mw_request planned = {&question->model, &question->hardware[MW_OUTLOOK_TYPICAL]};
    struct mw_settings resolved;

    return mw_settings_complete(&planned, asked, &resolved, error)
               ? mw_planner_nearest_candidate(&planned, &resolved, error)
               : NULL;
}

/* The candidates that fit, perhaps none; NULL: the question is refused.  `needless`: to which those
 * are added that move more off the GPU than others, or NULL. */
static GPtrArray *
find_with_needless(const struct mw_question *question, const struct mw_settings *asked,
                   GPtrArray *needless)
{
    struct mw_request planned = {&question->model, &question->hardware[MW_OUTLOOK_TYPICAL]};
    struct mw_settings resolved;

    GPtrArray *found = mw_settings_complete(&planned, asked, &resolved, NULL)
                           ? mw_planner_candidates_beside(&planned, &resolved, needless)
                           : NULL;
    if (found)
        halve_logits(question, &resolved, found);
    return found;
}

static GPtrArray *
find_fitting(const struct mw_question *question, const struct mw_settings *asked)
{
    return find_with_needless(question, asked, NULL);
}

/* Candidates that have room for the parts of a layer on their way: what is placed with one of them
 * ahead leaves the others none.  NULL: no candidate waits for parts. */
static GPtrArray *
find_ahead(const struct mw_question *question, const struct mw_settings *asked,
           GPtrArray *candidates, GPtrArray *needless)
{
    struct mw_settings settings = *asked;
    int64_t most = 0;

    for (guint i = 0; candidates && i < candidates->len; i++)
        most = MAX(most, most_ahead(question, candidates->pdata[i]));
    if (most < 2)
        return NULL;
    mw_settings_set_prefetch(&settings, most);
    return find_with_needless(question, &settings, needless);
}

static double
best_estimate(GPtrArray *candidates)
{
    double best = 0;

    for (guint i = 0; candidates && i < candidates->len; i++) {
        const struct mw_sizing *sizing = candidates->pdata[i];
        best = fmax(best, sizing->fits ? mw_estimated_rate_of(sizing) : 0);
    }
    return best;
}

/* Whether no candidate moves anything off the GPU: estimates are close where only the GPU works. */
static bool
stay_on_gpu(GPtrArray *candidates)
{
    bool stay = true;

    for (guint i = 0; candidates && i < candidates->len; i++)
        stay = stay && deepest_tier(candidates->pdata[i]) == MW_TIER_GPU;
    return stay;
}

double
mw_estimated_rate(const struct mw_question *question, const struct mw_settings *asked)
{
    g_autoptr(GPtrArray) candidates = find_fitting(question, asked);

    return best_estimate(candidates);
}

/* Whether recomputation is open, and no other setting decides it; checkpoints on the GPU do not. */
static bool
may_keep_all(const struct mw_settings *asked)
{
    const struct mw_placement *checkpoints = &asked->placement[MW_STATE_ACTIVATIONS];
    bool moved = false;

    for (int i = 0; i < checkpoints->count; i++)
        moved = moved || checkpoints->part[i].tier != MW_TIER_GPU;
    return asked->checkpoint_interval == MW_AUTO && asked->param_loads != 2 && !moved &&
           asked->checkpoint_dtype == MW_DTYPE_NONE && !mw_kept_encodings(&asked->kept_as) &&
           asked->recompute_layers < 1 && mw_layer_set_is_empty(&asked->recompute_set);
}

/* Whether activations that layers keep are encoded, and which layers keep any is open: all of them,
 * or as many as there is room for. */
static bool
encodes_some(const struct mw_question *question, const struct mw_settings *asked)
{
    return mw_kept_encodings(&asked->kept_as) && asked->checkpoint_interval == MW_AUTO &&
           asked->recompute_layers == MW_AUTO && mw_layer_set_is_empty(&asked->recompute_set) &&
           asked->whole_checkpoints != 1 &&
           !mw_strategy_traits(asked->strategy)->whole_checkpoints &&
           !mw_settings_no_flush(asked) && !mw_settings_weights_later(asked) &&
           asked->layer_order != 1 &&
           question->hardware[MW_OUTLOOK_TYPICAL].offers.recomputed_layers;
}

/* The settings with a higher limit of ops, so that more micro-batches than may be planned can still
 * be examined. */
static struct mw_settings
with_many_ops(const struct mw_settings *asked)
{
    struct mw_settings settings = *asked;

    if (!asked->folds && (asked->grad_accum > 1 || asked->global_batch != MW_AUTO))
        settings.ops_max *= REFUSED_OPS * REFUSED_MICRO_BATCHES;
    return settings;
}

bool
mw_recomputes_for_eager(const struct mw_question *question, const struct mw_sizing *sizing)
{
    struct mw_settings asked = question->settings;
    struct mw_question once = *question;
    double chosen = mw_estimated_rate_of(sizing);

    if (!may_keep_all(&asked) || !sizing->settings.checkpoint_interval ||
        mw_settings_keeps_whole(&sizing->settings))
        return false;
    asked.strategy = sizing->settings.strategy;
    asked.checkpoint_interval = 0;
    once.hardware[MW_OUTLOOK_TYPICAL].memory_use.activations_kept = 1;
    if (!(mw_estimated_rate(&once, &asked) > chosen))
        return false;
    asked = with_many_ops(&asked);
    return !(mw_estimated_rate(question, &asked) > chosen);
}

bool
mw_fits_if_kept_once(const struct mw_sizing *sizing)
{
    struct mw_hardware once = *sizing->hardware;

    once.memory_use.activations_kept = 1;
    struct mw_sizing *other = mw_sizing_new(sizing->model, &once, &sizing->settings, NULL);
    bool fits = other && other->fits;
    mw_sizing_free(other);
    return fits;
}

/* Recomputes nothing. */
static struct mw_settings
keeping_all(const struct mw_settings *asked)
{
    struct mw_settings settings = *asked;

    settings.checkpoint_interval = 0;
    settings.fit_stages = false; /* more even stages for it are no gain */
    /* Of activations that would leave.  Without them it is refused. */
    if (settings.recompute_layers == MW_RECOMPUTE_FASTEST && settings.whole_checkpoints == 1)
        settings.recompute_layers = MW_AUTO;
    return settings;
}

/* Recomputes no more layers than memory asks for, which is the least time for any memory: where
 * layers are unlike, each choice to which none can be added is a candidate. */
static struct mw_settings
recomputing_fewest(const struct mw_settings *asked)
{
    struct mw_settings settings = *asked;

    settings.recompute_layers = MW_RECOMPUTE_FEWEST;
    return settings;
}

/* As many layers as there is room for keep their activations. */
static GPtrArray *
find_fewest(const struct mw_question *question, const struct mw_settings *asked)
{
    struct mw_settings settings = recomputing_fewest(asked);

    return find_fitting(question, &settings);
}

static bool
may_recompute_some(const struct search *search, const struct mw_settings *asked)
{
    return may_keep_all(asked) && asked->recompute_layers == MW_AUTO &&
           search->question->hardware[MW_OUTLOOK_TYPICAL].offers.recomputed_layers;
}

/* Of the layers that `all` recomputes the share that the GPU has room to keep, and one more; `none`
 * keeps all.  Logits may be cut into so many chunks that they take nothing.  Of layers that are
 * unlike some may save more than their share. */
static double
share_with_room(const struct mw_sizing *all, const struct mw_sizing *none, bool chunks)
{
    double need = (double)mw_sizing_whole_need(all, MW_TIER_GPU);
    double more = (double)mw_sizing_whole_need(none, MW_TIER_GPU) - need;
    double left = (double)all->tiers[MW_TIER_GPU].capacity_bytes - need;
    int kinds = 0;

    left += chunks ? (double)all->ledger[MW_TIER_GPU][MW_PURPOSE_LOGITS] : 0;
    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++)
        kinds += all->classes[c].blocks > 0;
    return more > 0 && kinds == 1 ? fmin(1, left / more + 1.0 / (double)all->layers) : 1;
}

/* Whether keeping more activations than `all`, which recomputes all layers, is worth a search: what
 * fits would be faster than `floor`, and not those of all layers, for then another candidate keeps
 * them. */
static bool
may_gain(const struct mw_sizing *all, bool chunks, double floor)
{
    struct mw_settings settings = keeping_all(&all->settings);
    struct mw_sizing *none = mw_sizing_new(all->model, all->hardware, &settings, NULL);
    bool gains = false;

    if (none && !none->fits) {
        double all_s = mw_estimate_s(all, all->hardware);
        double saved_s = all_s - mw_estimate_s(none, all->hardware);
        double some_s = all_s - saved_s * share_with_room(all, none, chunks);
        gains = saved_s > 0 && mw_tokens_per_step(all) / some_s > floor;
    }
    mw_sizing_free(none);
    return gains;
}

/* What candidates with as few recomputed layers as fit are sought for. */
struct mix {
    struct mw_request planned;
    struct mw_settings resolved;
    bool on_gpu;  /* no candidate that treats all layers alike moves anything off the GPU */
    double alike; /* the best rate of those */
    double present;
    GPtrArray *found;
};

/* They have to be faster than what is there, and enough faster than what treats all layers alike,
 * where they are not simpler. */
static void
mix_in(struct mix *mix, const struct mw_sizing *all)
{
    double worth = mix->on_gpu ? WORTH_SIZING : WORTH_COMPLEXITY;
    double floor = fmax(worth * mix->alike, mix->present);

    if (all->fits && may_gain(all, mix->resolved.logits_chunks == MW_AUTO, floor))
        mw_planner_add_fewest(&mix->planned, &mix->resolved, all, mix->found);
}

/* Whether the same batch takes as little of the GPU in a placement that comes before. */
static bool
frees_nothing(GPtrArray *needless, guint number)
{
    const struct mw_sizing *one = needless->pdata[number];

    for (guint i = 0; i < number; i++) {
        const struct mw_sizing *other = needless->pdata[i];
        if (one->settings.micro_batch == other->settings.micro_batch &&
            one->settings.grad_accum == other->settings.grad_accum &&
            mw_sizing_whole_need(one, MW_TIER_GPU) >= mw_sizing_whole_need(other, MW_TIER_GPU))
            return true;
    }
    return false;
}

static void
mix_all(struct mix *mix, GPtrArray *candidates, bool needless)
{
    for (guint i = 0; candidates && i < candidates->len; i++) {
        if (!needless || !frees_nothing(candidates, i))
            mix_in(mix, candidates->pdata[i]);
    }
}

/* The candidates with as few recomputed layers as fit that may be faster than `present`, and enough
 * faster than `alike`, which treats all layers alike. */
static GPtrArray *
find_mixed(const struct mw_question *question, const struct mw_settings *asked,
           GPtrArray *candidates, GPtrArray *needless, double alike, double present)
{
    struct mix mix = {.planned = {&question->model, &question->hardware[MW_OUTLOOK_TYPICAL]},
                      .on_gpu = stay_on_gpu(candidates),
                      .alike = alike,
                      .present = present};
    struct mw_settings settings = recomputing_fewest(asked);

    if (mw_strategy_traits(asked->strategy)->fills_gpu) /* with what the kept ones leave */
        return find_fitting(question, &settings);
    mix.found = g_ptr_array_new_with_free_func((GDestroyNotify)mw_sizing_free);
    if (!mw_settings_complete(&mix.planned, &settings, &mix.resolved, NULL))
        return mix.found;
    mix_all(&mix, candidates, false);
    mix_all(&mix, needless, true);
    halve_logits(question, &mix.resolved, mix.found);
    return mix.found;
}

/* The fewest things that the software lacks for one of the candidates that fit, or `least`. */
static int
fewest_lacks(const struct search *search, GPtrArray *candidates, int least)
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
drop_lacking(const struct search *search, GPtrArray *candidates, int most)
{
    for (guint i = candidates ? candidates->len : 0; i-- > 0;) {
        const struct mw_sizing *sizing = candidates->pdata[i];
        if (sizing->fits && mw_count_lacks(search->question, sizing) > most)
            g_ptr_array_remove_index(candidates, i);
    }
}

/* The best of other strategies so far. */
struct present {
    double rate; /* 0: none */
    int lacks;   /* of its software, for it */
};

/* Recomputes every block, or none or some if that is faster.  Without a sizing: nothing fits, or
 * only what the software lacks more for, or the estimates do not come close to the present rate. */
static struct mw_choice
choose_of_strategy(struct search *search, const struct mw_settings *asked, struct present best)
{
    struct mw_settings settings = keeping_all(asked);
    struct mw_choice choice = {0};
    g_autoptr(GPtrArray) needless = g_ptr_array_new_with_free_func((GDestroyNotify)mw_sizing_free);
    g_autoptr(GPtrArray) candidates = find_with_needless(search->question, asked, needless);
    g_autoptr(GPtrArray) spare = g_ptr_array_new_with_free_func((GDestroyNotify)mw_sizing_free);
    g_autoptr(GPtrArray) ahead = find_ahead(search->question, asked, candidates, spare);
    g_autoptr(GPtrArray) kept =
        may_keep_all(asked) ? find_fitting(search->question, &settings) : NULL;
    int lacks = fewest_lacks(search, kept, fewest_lacks(search, candidates, best.lacks));
    drop_lacking(search, candidates, lacks);
    drop_lacking(search, needless, lacks);
    drop_lacking(search, ahead, lacks);
    drop_lacking(search, kept, lacks);
    double present = lacks < best.lacks ? 0 : best.rate;
    double recomputed = best_estimate(candidates), all = best_estimate(kept);
    g_autoptr(GPtrArray) mixed =
        encodes_some(search->question, asked) ? find_fewest(search->question, asked)
        : may_recompute_some(search, asked)
            ? find_mixed(search->question, asked, candidates, needless, fmax(recomputed, all),
                         NEAR * present)
            : NULL;
    g_autoptr(GPtrArray) mixed_ahead =
        mixed && ahead ? find_mixed(search->question, asked, ahead, spare, fmax(recomputed, all),
                                    NEAR * present)
                       : NULL;
    drop_lacking(search, mixed, lacks);
    drop_lacking(search, mixed_ahead, lacks);
    double some = best_estimate(mixed), most = fmax(recomputed, fmax(all, some));
    bool on_gpu = stay_on_gpu(candidates) && stay_on_gpu(kept);
    double floor = on_gpu ? NEAR * most : 0;

    if (most <= 0 || most < NEAR * present)
        return choice;
    if (candidates && candidates->len && recomputed >= floor)
        choice = fastest_candidate(search, candidates, SIMULATED, floor);
    if (best_estimate(ahead) >= NEAR * most)
        take_fastest(search, &choice, ahead, SIMULATED_AHEAD, NEAR * most);
    if (all > recomputed && all >= floor)
        take_fastest(search, &choice, kept, SIMULATED, floor);
    /* Transfers are worse than estimated where they wait for each other in backward. */
    double worth = (on_gpu ? 1 : NEAR) * fmax(recomputed, all);
    if (some > worth)
        take_fastest(search, &choice, mixed, SIMULATED_MIXED, worth);
    if (best_estimate(mixed_ahead) > worth)
        take_fastest(search, &choice, mixed_ahead, SIMULATED_MIXED, worth);
    return choice;
}

/* Of a strategy of which nothing fits: what lacks least. */
static bool
choose_nearest(const struct search *search, const struct mw_settings *asked,
               struct mw_choice *choice, GError **error)
{
    struct mw_settings fewest = recomputing_fewest(asked);
    g_autoptr(GPtrArray) nearest = find_nearest(
        search->question, encodes_some(search->question, asked) ? &fewest : asked, error);

    *choice = (struct mw_choice){.keeps_plan = search->keeps_plan};
    if (nearest)
        choice->sizing = g_steal_pointer(&nearest->pdata[0]);
    return nearest != NULL;
}

/* --- among the strategies -------------------------------------------------------------------- */

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

    if (!other->sizing || !fits(one) || !fits(other))
        return !other->sizing ||
               (!fits(other) && (fits(one) || mw_sizing_is_nearer(one->sizing, other->sizing)));
    return field->rates[strategy] * WORTH_COMPLEXITY >= fastest &&
           (field->rates[to] * WORTH_COMPLEXITY < fastest || is_simpler(one, other));
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
field_add(struct search *search, struct field *field, int strategy, struct mw_choice *choice)
{
    const struct mw_strategies all = mw_strategies_of(MW_STRATEGY_AUTO);
    int lacks = lacks_of(search, choice);

    if (lacks > field->lacks) {
        mw_choice_clear(choice);
        return;
    }
    if (lacks < field->lacks)
        field_clear(field);
    field->lacks = lacks;
    field->rates[strategy] = rate_of(search, choice);
    field->choices[strategy] = *choice;
    double fastest = fastest_of(field);

    field->best = MW_STRATEGY_AUTO;
    for (int i = 0; i < all.count; i++)
        if (field->choices[all.one[i]].sizing &&
            is_preferred(field, all.one[i], field->best, fastest))
            field->best = all.one[i];
    for (int s = 0; s < MW_STRATEGY_COUNT; s++)
        if (s != field->best) {
            free_plan(&field->choices[s]);
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

/* The strategies worth trying: with offloaded state two of them may lead to the same plan. */
static struct mw_strategies
strategies_to_try(const struct mw_settings *asked)
{
    struct mw_strategies all = mw_strategies_of(asked->strategy), some = {.count = 0};
    bool renames = asked->strategy == MW_STRATEGY_AUTO && asks_for_offload(asked);

    for (int i = 0; i < all.count; i++)
        if (!renames || !mw_strategy_traits(all.one[i])->offloads_by_another_name)
            some.one[some.count++] = all.one[i];
    return some;
}

static struct mw_choice
choose_strategy(struct search *search, const struct mw_settings *asked)
{
    const struct mw_strategies strategies = strategies_to_try(asked);
    struct mw_settings settings = *asked;
    struct field field = {.lacks = INT_MAX};

    for (int i = 0; i < strategies.count; i++) {
        settings.strategy = strategies.one[i];
        struct mw_choice other = choose_of_strategy(
            search, &settings, (struct present){fastest_of(&field), field.lacks});
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
choose_nearest_strategy(struct search *search, const struct mw_settings *asked,
                        struct mw_choice *choice, GError **error)
{
    const struct mw_strategies strategies = strategies_to_try(asked);
    struct mw_settings settings = *asked;
    g_autoptr(GError) refused = NULL, large = NULL, of_taken = NULL;
    struct field field = {.lacks = INT_MAX};

    for (int i = 0; i < strategies.count; i++) {
        struct mw_choice other;
        settings.strategy = strategies.one[i];
        g_clear_error(&refused);
        if (choose_nearest(search, &settings, &other, &refused)) {
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
choose_best(struct search *search, const struct mw_settings *asked)
{
    return asked->strategy == MW_STRATEGY_AUTO
               ? choose_strategy(search, asked)
               : choose_of_strategy(search, asked, (struct present){0, INT_MAX});
}

/* Asks why nothing fits only if nothing does.  Stages that are balanced by their times come first,
 * however much they recompute or offload; where nothing fits so, those that have room, too. */
static bool
choose(struct search *search, const struct mw_settings *asked, struct mw_choice *choice,
       GError **error)
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
               : choose_nearest(search, asked, choice, error);
}

/* --- refusals --------------------------------------------------------------------------------- */

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
    const struct mw_strategies strategies = strategies_to_try(asked);
    struct mw_sizing *best = NULL;

    for (int way = 0; way < (may_keep_all(asked) ? 2 : 1); way++)
        for (int s = 0; s < strategies.count; s++) {
            struct mw_settings settings = way ? keeping_all(asked) : *asked;
            settings.strategy = strategies.one[s];
            g_autoptr(GPtrArray) found = best && is_spared(question, settings.strategy)
                                             ? NULL
                                             : find_fitting(question, &settings);
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
    const struct mw_strategies strategies = strategies_to_try(asked);

    if (asked->global_batch == MW_AUTO || asked->grad_accum != MW_AUTO ||
        question->model.layers > REFUSED_LAYERS)
        return false;
    for (int way = 0; way < (may_keep_all(asked) ? 2 : 1); way++)
        for (int s = 0; s < strategies.count; s++) {
            struct mw_settings settings = way ? keeping_all(asked) : *asked;
            settings.strategy = strategies.one[s];
            mw_planner_nearest_batches(&planned, &settings, batches);
        }
    if (batches->quick && !is_answered(question, asked, batches->quick))
        batches->quick = 0;
    return batches->most && is_answered(question, asked, batches->most);
}

/* The message has the number of ops and the nearest values of the plan that would be chosen. */
static void
refuse_chosen(const struct mw_question *question, const struct mw_settings *asked, GError **error)
{
    struct mw_request planned = {&question->model, &question->hardware[MW_OUTLOOK_TYPICAL]};
    struct mw_settings settings = with_many_ops(asked);

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
    double rate = rate_by_few(one), other_rate = rate_by_few(other);

    return rate > 0 && other_rate > 0 ? rate / other_rate
                                      : mw_estimated_rate_of(one) / mw_estimated_rate_of(other);
}

struct mw_sizing *
mw_choice_left_out(const struct mw_question *question, enum mw_strategy strategy,
                   const struct mw_sizing *chosen, double *times)
{
    struct mw_settings asked = question->settings;

    asked.strategy = strategy;
    struct mw_settings many = with_many_ops(&asked);
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

/* --- the choice ------------------------------------------------------------------------------- */

/* The result for an open batch is the result of requesting that batch. */
static void
choose_as_if_asked(struct search *search, const struct mw_settings *asked, struct mw_choice *choice)
{
    struct mw_settings settings = *asked;
    struct mw_choice again;

    if (asked->micro_batch != MW_AUTO || !fits(choice))
        return;
    settings.micro_batch = choice->sizing->settings.micro_batch;
    settings.grad_accum = choice->sizing->settings.grad_accum;
    if (choose(search, &settings, &again, NULL)) {
        mw_choice_clear(choice);
        *choice = again;
    }
}

static bool
same_batch(const struct mw_choice *one, const struct mw_choice *other)
{
    const struct mw_settings *a = &one->sizing->settings, *b = &other->sizing->settings;

    return a->micro_batch == b->micro_batch && a->grad_accum == b->grad_accum;
}

/* The most micro-batches of such a size within the default step. */
static int64_t
most_micro_batches(const struct mw_settings *asked, const struct mw_choice *choice)
{
    struct mw_settings s = choice->sizing->settings;

    s.step_tokens_max = asked->step_tokens_max;
    if (s.step_tokens_max == MW_AUTO)
        s.step_tokens_max = mw_default_step_tokens(choice->sizing->model, &s);
    return mw_most_micro_batches(&s);
}

/* A step that had no room for one more micro-batch may have for one of another split. */
static void
fill_step(struct search *search, const struct mw_settings *asked, struct mw_choice *choice)
{
    struct mw_settings settings = *asked;
    struct mw_choice other;

    settings.micro_batch = choice->sizing->settings.micro_batch;
    settings.grad_accum = most_micro_batches(asked, choice);
    if (settings.grad_accum > choice->sizing->settings.grad_accum &&
        choose(search, &settings, &other, NULL))
        take_better(search, choice, &other);
}

/* At least as fast as requesting the same global batch, which may be split differently. */
static void
try_global_batch(struct search *search, const struct mw_settings *asked, struct mw_choice *choice)
{
    struct mw_settings settings = *asked;
    struct mw_choice other;

    if (asked->micro_batch != MW_AUTO || asked->global_batch != MW_AUTO ||
        asked->grad_accum != MW_AUTO || !fits(choice))
        return;
    settings.global_batch =
        llround(mw_tokens_per_step(choice->sizing) / (double)choice->sizing->settings.seq);
    if (!choose(search, &settings, &other, NULL))
        return;
    if (same_batch(choice, &other)) { /* as which it has been asked for already */
        mw_choice_clear(&other);
        return;
    }
    choose_as_if_asked(search, &settings, &other);
    if (fits(&other) && choice->sizing->settings.grad_accum == most_micro_batches(asked, choice))
        fill_step(search, asked, &other);
    take_better(search, choice, &other);
}

/* A step of as many sequences, or about as many, in micro-batches of another size.  Whether it was
 * faster, and is the choice now. */
static bool
try_size(struct search *search, const struct mw_settings *asked, struct mw_choice *choice,
         int64_t sequences)
{
    const struct mw_settings *now = &choice->sizing->settings;
    int64_t grain = mw_settings_batch_grain(now);
    double sharers = (double)mw_settings_sharers(now);
    int64_t of_step = llround(now->micro_batch * sharers) * now->grad_accum;
    struct mw_settings settings = *asked;

    if (sequences < 1 || of_step / sequences < grain)
        return false;
    settings.strategy = now->strategy;
    settings.global_batch = MW_AUTO;
    settings.micro_batch = (double)sequences / sharers;
    settings.grad_accum = of_step / sequences / grain * grain;
    struct mw_choice other = choose_of_strategy(search, &settings, (struct present){0, INT_MAX});
    bool faster = fits(&other) && is_better(search, &other, choice) &&
                  rate_of(search, &other) > SAME_RATE * rate_of(search, choice);
    if (faster) {
        mw_choice_clear(choice);
        *choice = other;
    } else {
        mw_choice_clear(&other);
    }
    return faster;
}

/* The next size, up or down, into which the sequences of a step can be split; 0: none. */
static int64_t
next_split(const struct mw_settings *now, int64_t here, int way)
{
    int64_t of_step = here * now->grad_accum, grain = mw_settings_batch_grain(now);

    for (int64_t size = here + way; size >= 1 && size <= of_step / grain; size += way)
        if (of_step % size == 0 && of_step / size % grain == 0)
            return size;
    return 0;
}

/* Larger micro-batches compute faster, smaller ones leave room for layers that keep their
 * activations: between the sizes that were tried there may be a better one. */
static bool
climb_sizes(struct search *search, const struct mw_settings *asked, struct mw_choice *choice)
{
    bool open = asked->micro_batch == MW_AUTO && asked->grad_accum == MW_AUTO;
    bool given = asked->global_batch != MW_AUTO, climbed = false, better = open && fits(choice);

    while (better) {
        const struct mw_settings *now = &choice->sizing->settings;
        int64_t here = llround(now->micro_batch * (double)mw_settings_sharers(now));
        int64_t less = given ? next_split(now, here, -1) : here > 2 ? here - 1 : 0;
        int64_t more = given ? next_split(now, here, 1) : here + 1;
        better = (!given && try_size(search, asked, choice, here / 2)) ||
                 try_size(search, asked, choice, less) || try_size(search, asked, choice, more);
        climbed = climbed || better;
    }
    return climbed;
}

static bool
choose_batch(struct search *search, const struct mw_settings *asked, struct mw_choice *choice,
             GError **error)
{
    if (!choose(search, asked, choice, error))
        return false;
    choose_as_if_asked(search, asked, choice);
    try_global_batch(search, asked, choice);
    if (climb_sizes(search, asked, choice))
        choose_as_if_asked(search, asked, choice);
    return true;
}

static bool
search_best(struct search *search, enum mw_strategy strategy, struct mw_choice *choice,
            GError **error)
{
    const struct mw_question *question = search->question;
    struct mw_settings asked = question->settings;

    asked.strategy = strategy;
    bool good = choose_batch(search, &asked, choice, error);
    if (good && search->keeps_plan)
        build_plan(choice);
    if (!good)
        refuse_chosen(question, &asked, error);
    return good;
}

bool
mw_choose(const struct mw_question *question, enum mw_strategy strategy, bool keeps_plan,
          struct mw_choice *choice, GError **error)
{
    struct search search = {question, keeps_plan, false,
                            g_array_new(FALSE, FALSE, sizeof(struct known))};
    bool good = search_best(&search, strategy, choice, error);

    g_array_unref(search.known);
    return good;
}

bool
mw_choose_by_estimate(const struct mw_question *question, enum mw_strategy strategy,
                      struct mw_choice *choice, GError **error)
{
    struct search search = {question, false, true, NULL};

    return search_best(&search, strategy, choice, error);
}
