/* How fast a choice is: its plan, and few micro-batches of it. */
#include <math.h>
#include <string.h>

#include "base/progress.h"
#include "base/thread_memory.h"
#include "planner/known.h"
#include "study/choose_internal.h"
#include "study/evaluate.h"
#include "study/known_steps.h"

/* If a plan has more micro-batches, this number and one less are simulated; each further
 * micro-batch takes the difference of the two. */
#define SIMULATED_MICRO_BATCHES 3

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

bool
mw_choice_fits(const struct mw_choice *choice)
{
    return choice->sizing && choice->sizing->fits;
}

void
mw_choice_build_plan(struct mw_choice *choice)
{
    if (!choice->plan && mw_choice_fits(choice))
        choice->plan = choice->keeps_plan ? mw_build_plan(choice->sizing)
                                          : mw_build_small_plan(choice->sizing);
}

void
mw_choice_free_plan(struct mw_choice *choice)
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
    if (!choice->simulated && !choice->keeps_plan && mw_choice_fits(choice)) {
        choice->step_s = folded_step_s(choice->sizing);
        if (choice->step_s <= 0)
            choice->step_s = mw_step_by_few_s(choice->sizing);
        choice->simulated = choice->step_s > 0;
    }
    if (!choice->simulated) {
        mw_choice_build_plan(choice);
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

GArray *
mw_choose_known_new(void)
{
    return g_array_new(FALSE, FALSE, sizeof(struct known));
}

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

double
mw_choose_fetch_s(const struct mw_sizing *sizing)
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

double
mw_choose_rate_by_few(const struct mw_sizing *sizing)
{
    int64_t few = simulated_micro_batches(sizing);
    int64_t grain = mw_settings_batch_grain(&sizing->settings);
    double few_s = step_with(sizing, few), fewer_s = step_with(sizing, few - grain);
    double missing = (double)(sizing->settings.grad_accum - few) / (double)grain;

    return isfinite(few_s) && isfinite(fewer_s)
               ? mw_tokens_per_step(sizing) / (few_s + missing * (few_s - fewer_s))
               : 0;
}

double
mw_choose_rate(struct mw_choose_search *search, struct mw_choice *choice)
{
    if (!mw_choice_fits(choice))
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
                   ? mw_choose_rate_by_few(choice->sizing)
                   : mw_choice_rate(choice);
    if (!search->keeps_plan)
        mw_choice_free_plan(choice);
    g_array_append_val(search->known, new);
    return new.rate;
}

double
mw_estimated_rate_of(const struct mw_sizing *sizing)
{
    return mw_tokens_per_step(sizing) / mw_estimate_s(sizing, sizing->hardware);
}
