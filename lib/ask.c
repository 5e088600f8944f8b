/* From a question to an answer. */
#include <locale.h>
#include <string.h>

#include "base/error.h"
#include "base/progress.h"
#include "lib/answer.h"
#include "lib/question.h"
#include "study/planned.h"

static enum mw_depth
depth_of(const struct memwall_answer *answer)
{
    static const enum mw_depth depths[] = {
        [MEMWALL_PLAN] = MW_DEPTH_PLAN,    [MEMWALL_SIMULATE] = MW_DEPTH_VERDICT,
        [MEMWALL_WHAT_IF] = MW_DEPTH_FULL, [MEMWALL_STEP] = MW_DEPTH_ROW,
        [MEMWALL_CUTS] = MW_DEPTH_PLAN,    [MEMWALL_ROW] = MW_DEPTH_ROW,
        [MEMWALL_ESTIMATE] = MW_DEPTH_ROW, [MEMWALL_ESTIMATE_CHECKED] = MW_DEPTH_ROW,
    };
    enum mw_depth depth = depths[answer->depth];

    return answer->compares ? MIN(depth, MW_DEPTH_ROW) : depth;
}

/* Of several strategies, leaves out one whose step has too many ops. */
static bool
leave_out(struct memwall_answer *answer, enum mw_strategy strategy, GError **refused)
{
    if (!answer->compares || !g_error_matches(*refused, MW_ERROR, MW_ERROR_LARGE))
        return false;
    g_ptr_array_add(answer->warnings,
                    g_strdup_printf("%s is left out: %s", mw_strategy_name((int)strategy),
                                    (*refused)->message));
    g_clear_error(refused);
    return true;
}

static struct mw_answer *
answer_strategy(const struct memwall_answer *answer, enum mw_strategy strategy, GError **error)
{
    return answer->depth == MEMWALL_ESTIMATE || answer->depth == MEMWALL_ESTIMATE_CHECKED
               ? mw_answer_estimated(&answer->question, strategy,
                                     answer->depth == MEMWALL_ESTIMATE_CHECKED, error)
               : mw_answer_new(&answer->question, strategy, depth_of(answer), false, error);
}

/* What usually trains with the strategy that is chosen may be another program than what trains with
 * most: an open question has the answer of one that asks for that strategy.  Rows of a comparison
 * keep their one program. */
static bool
answer_by_usual_software(const struct memwall_question *question, struct memwall_answer *answer,
                         GError **error)
{
    struct mw_question *asked = &answer->question;
    bool open = asked->strategy_count == 1 && asked->strategies[0] == MW_STRATEGY_AUTO &&
                !question->software && answer->depth < MEMWALL_ROW;

    if (!open || !answer->answers[0]->sizing->fits) /* of a comparison all may be left out */
        return true;
    struct mw_question before = *asked;
    asked->strategies[0] = answer->answers[0]->sizing->settings.strategy;
    bool usual = !strcmp(mw_question_default_software(asked), mw_profile_name(asked->software));
    struct mw_answer *by_usual = NULL;
    if (!usual && mw_lib_software(question, asked, NULL, error))
        by_usual = answer_strategy(answer, asked->strategies[0], error);
    bool fits = by_usual && by_usual->sizing->fits;
    mw_answer_free(fits ? answer->answers[0] : by_usual);
    answer->answers[0] = fits ? by_usual : answer->answers[0];
    if (asked->software != before.software)
        mw_profile_free(fits ? before.software : asked->software);
    if (!fits)
        *asked = before;
    return usual || by_usual;
}

/* What an answer builds plans with, whatever was asked. */
static void
limit_plans(const struct memwall_answer *answer, struct mw_settings *settings)
{
    if (answer->depth == MEMWALL_WHAT_IF)
        settings->ops_max = MW_WHAT_IF_OPS_MAX;
    else if (settings->pp > 1)
        settings->ops_max = MW_OPS_MAX_PIPELINE;
    settings->folds = true;
}

/* What is refused with every strategy is refused as that which keeps the strategy that goes
 * furthest: each of the others has a reason of its own, which nobody asked for. */
static void
blame_settings(const struct mw_question *asked, enum mw_strategy strategy, GError **refused)
{
    g_autoptr(GError) own = NULL;

    if (strategy != MW_STRATEGY_AUTO || !g_error_matches(*refused, MW_ERROR, MW_ERROR_INVALID) ||
        mw_lib_check(asked, &asked->hardware[MW_OUTLOOK_TYPICAL], &own))
        return;
    g_error_free(*refused);
    *refused = g_steal_pointer(&own);
}

static bool
answer_strategies(const struct memwall_question *question, struct memwall_answer *answer,
                  GError **error)
{
    struct mw_question *asked = &answer->question;

    answer->compares = asked->strategy_count > 1;
    limit_plans(answer, &asked->settings);
    asked->ends = answer->depth != MEMWALL_STEP;
    asked->figures_only = answer->depth >= MEMWALL_ROW;
    for (int i = 0; i < asked->strategy_count; i++) {
        GError *refused = NULL;
        struct mw_answer *one = answer_strategy(answer, asked->strategies[i], &refused);
        if (one) {
            answer->answers[answer->count++] = one;
        } else if (!leave_out(answer, asked->strategies[i], &refused)) {
            blame_settings(asked, asked->strategies[i], &refused);
            mw_lib_blame_deepspeed(question, &asked->settings, &refused);
            g_propagate_error(error, refused);
            return false;
        }
    }
    return answer_by_usual_software(question, answer, error);
}

static bool
answer_largest(struct memwall_answer *answer, GError **error)
{
    answer->largest = mw_largest_find(&answer->question, error);
    return answer->largest != NULL;
}

/* Of the batch and activations that the asked strategy has. */
static bool
answer_cuts(const struct memwall_question *question, struct memwall_answer *answer, GError **error)
{
    struct mw_question *asked = &answer->question;

    if (asked->strategy_count > 1)
        return mw_refuse(error, "{strategies}: takes the batch of one strategy");
    if (!answer_strategies(question, answer, error))
        return false;
    struct mw_sizing *sizing = answer->answers[0]->sizing;
    if (sizing->element_bytes != 2 || sizing->settings.optimizer)
        return mw_refuse(error, "{strategies}: counts training in 16 bits with AdamW's state: "
                                "leave out {dtype} and {optimizer}");
    answer->cuts = g_new(struct mw_cut_placements, 1);
    *answer->cuts = mw_cut_placements_of(sizing, &asked->hardware[MW_OUTLOOK_TYPICAL]);
    return true;
}

static void
warn(struct memwall_answer *answer, char *warning)
{
    if (warning)
        g_ptr_array_add(answer->warnings, warning);
}

static bool
answer_plan(const struct memwall_question *question, struct memwall_answer *answer,
            const char **blamed, GError **error)
{
    struct mw_question *asked = &answer->question;
    struct mw_variants *variants = mw_lib_read_plan(question, asked, blamed, error);
    struct mw_answer *again = NULL, *one = NULL;

    limit_plans(answer, &asked->settings);
    if (variants && *asked->model.name)
        again = mw_planned_answer(asked, MW_DEPTH_VERDICT, variants);
    if (variants && !again)
        one = mw_answer_of_plan(asked, question->plan, variants, error);
    if (!again && !one)
        return false;
    const struct mw_plan *plan = again ? variants->plans[0] : one->plan;
    answer->answers[answer->count++] = again ? again : one;
    warn(answer, mw_answer_other_machine(asked, question->plan, plan, answer->answers[0]));
    if (!question->software)
        warn(answer, mw_answer_other_software(asked, question->plan, plan));
    if (again)
        mw_variants_free(variants);
    return true;
}

/* What is given and would change nothing. */
static const char *
unread_by_serving(const struct memwall_question *question)
{
    if (question->strategy || question->deepspeed)
        return question->strategy ? "strategy" : "deepspeed";
    for (int i = 0; i < MW_SETTINGS_COUNT; i++)
        if (question->settings[i] && !mw_serving_reads(mw_settings_table[i].name))
            return mw_settings_table[i].name;
    return NULL;
}

static bool
answer_serving(const struct memwall_question *question, struct memwall_answer *answer,
               GError **error)
{
    const char *unread = unread_by_serving(question);

    if (unread)
        return mw_refuse(error, "{%s=%s}: is of training; {serve} generates tokens: leave it out",
                         unread, memwall_question_get(question, unread));
    if (answer->depth != MEMWALL_SIMULATE && answer->depth != MEMWALL_STEP)
        return mw_refuse(error,
                         "{serve=%s}: generating is simulated, without the tables of one plan; "
                         "leave it out",
                         memwall_question_get(question, "serve"));
    answer->serving = g_new0(struct mw_serving, 1);
    return mw_serving_find(&answer->question, answer->question.settings.serve, answer->serving,
                           error);
}

static bool
answer_objective(struct memwall_answer *answer, GError **error)
{
    if (answer->depth != MEMWALL_SIMULATE && answer->depth != MEMWALL_STEP)
        return mw_refuse(
            error,
            "{objective=%s}: a step of several models is simulated, without "
            "the tables of one plan",
            mw_objective_name((enum mw_objective_kind)answer->question.settings.objective));
    answer->objective = g_new0(struct mw_objective, 1);
    answer->question.settings.folds = true;
    return mw_objective_find(&answer->question, answer->objective, error);
}

static bool
answer_capacity(const struct memwall_question *question, struct memwall_answer *answer,
                const char **blamed, GError **error)
{
    struct mw_lib_machines *machines = &answer->machines;

    if (!mw_lib_read_machines(question, machines, blamed, error))
        return false;
    warn(answer, g_strdup(machines->note));
    for (int i = 0; i < machines->count; i++)
        machines->all[i].question.settings.folds = true;
    answer->capacity = g_new0(struct mw_capacity, 1);
    mw_capacity_find(machines->all, machines->count, &machines->limits, answer->capacity);
    return true;
}

static bool
answer_purchases(const struct memwall_question *question, struct memwall_answer *answer,
                 const char **blamed, GError **error)
{
    struct mw_lib_owned *owned = &answer->owned;

    if (!mw_lib_read_owned(question, owned, blamed, error))
        return false;
    *blamed = NULL;
    warn(answer, g_strdup(owned->note));
    owned->question.settings.folds = true;
    answer->purchases = g_new0(struct mw_purchases, 1);
    if (!mw_purchases_find(&owned->question, owned->prices, owned->count, answer->purchases, error))
        return false;
    answer->purchases->days = owned->days;
    answer->purchases->usd = owned->usd;
    return true;
}

static bool
answer_parallel(const struct memwall_question *question, struct memwall_answer *answer,
                const char **blamed, GError **error)
{
    if (!mw_lib_read_parallel(question, &answer->divided, blamed, error))
        return false;
    answer->parallel = g_new0(struct mw_parallel, 1);
    if (!mw_parallel_find(&answer->divided.asked, answer->parallel, error))
        return false;
    mw_parallel_simulate(&answer->divided.asked, answer->parallel);
    return true;
}

static bool
answer_asked(const struct memwall_question *question, struct memwall_answer *answer,
             const char **blamed, GError **error)
{
    if (answer->depth == MEMWALL_ADVISE && mw_lib_asks_parallel(question))
        return answer_parallel(question, answer, blamed, error);
    if (answer->depth == MEMWALL_ADVISE)
        return question->hardware ? answer_purchases(question, answer, blamed, error)
                                  : answer_capacity(question, answer, blamed, error);
    if (!mw_lib_read(question, &answer->question, blamed, error))
        return false;
    if (!mw_objective_check_settings(&answer->question.settings, error))
        return false;
    if (answer->question.settings.objective != MW_OBJECTIVE_CAUSAL)
        return answer_objective(answer, error);
    if (answer->question.settings.serve)
        return answer_serving(question, answer, error);
    return answer->depth == MEMWALL_LARGEST ? answer_largest(answer, error)
           : answer->depth == MEMWALL_CUTS  ? answer_cuts(question, answer, error)
                                            : answer_strategies(question, answer, error);
}

/* The first name of a search for machines that is set; NULL: none is. */
static const char *
search_name(const struct memwall_question *question)
{
    for (int i = 0; i < MW_LIB_LIMITS; i++)
        if (question->limits[i])
            return mw_lib_limits[i].name;
    return question->machines    ? "machines"
           : question->prices    ? "prices"
           : question->region    ? "region"
           : question->pay       ? "pay"
           : question->over      ? "over"
           : question->budget_of ? "budget-of"
           : question->include   ? "include"
           : question->search    ? "search"
                                 : NULL;
}

/* Nothing else has limits. */
static bool
check_search(const struct memwall_question *question, enum memwall_depth depth, GError **error)
{
    const char *name = search_name(question);

    return depth == MEMWALL_ADVISE || !name ||
           mw_refuse(error, "{%s}: is of the comparison of machines alone", name);
}

static bool
check_depth(const struct memwall_question *question, enum memwall_depth depth, GError **error)
{
    if ((int)depth < MEMWALL_PLAN || depth > MEMWALL_ADVISE)
        return mw_refuse(
            error,
            "depth %d: must be MEMWALL_PLAN, MEMWALL_SIMULATE, MEMWALL_WHAT_IF, "
            "MEMWALL_STEP, MEMWALL_LARGEST, MEMWALL_CUTS, MEMWALL_ROW, MEMWALL_ESTIMATE, "
            "MEMWALL_ESTIMATE_CHECKED or MEMWALL_ADVISE",
            (int)depth);
    if (question->plan && depth != MEMWALL_PLAN && depth != MEMWALL_SIMULATE)
        return mw_refuse(error, "{plan}: a plan that was written before can only be simulated");
    return check_search(question, depth, error);
}

static struct memwall_answer *
ask(const struct memwall_question *question, enum memwall_depth depth, const char **blamed,
    GError **error)
{
    struct memwall_answer *answer = g_new0(struct memwall_answer, 1);

    answer->depth = depth;
    answer->warnings = g_ptr_array_new_with_free_func(g_free);
    g_mutex_init(&answer->lock);
    if (check_depth(question, depth, error) &&
        (question->plan ? answer_plan(question, answer, blamed, error)
                        : answer_asked(question, answer, blamed, error)))
        return answer;
    memwall_answer_free(answer);
    return NULL;
}

/* Numbers are written with a decimal point, whatever the caller's locale: changes the locale of
 * this thread meanwhile. */
static struct memwall_answer *
ask_with_points(const struct memwall_question *question, enum memwall_depth depth,
                const char **blamed, GError **error)
{
    locale_t points = newlocale(LC_NUMERIC_MASK, "C", duplocale(uselocale((locale_t)0)));
    locale_t before = points ? uselocale(points) : (locale_t)0;
    struct memwall_answer *answer = ask(question, depth, blamed, error);

    if (points) {
        uselocale(before);
        freelocale(points);
    }
    return answer;
}

struct hearing {
    memwall_listener listener;
    void *data;
};

/* The listener is not told of the end: memwall_ask returns then. */
static void
call_listener(void *data, const char *doing, int simulated)
{
    const struct hearing *hearing = data;

    if (doing)
        hearing->listener(hearing->data, doing, simulated);
}

struct memwall_answer *
memwall_ask(const struct memwall_question *question, enum memwall_depth depth,
            struct memwall_error **error)
{
    struct hearing hearing = {question->listener, question->data};
    const char *blamed = NULL;
    GError *failed = NULL;

    if (hearing.listener)
        mw_progress_listen(call_listener, &hearing);
    struct memwall_answer *answer = ask_with_points(question, depth, &blamed, &failed);
    mw_progress_end();
    if (hearing.listener)
        mw_progress_listen(NULL, NULL);
    if (!answer)
        mw_lib_fail(failed, blamed, error);
    return answer;
}

void
memwall_answer_free(struct memwall_answer *answer)
{
    if (!answer)
        return;
    for (size_t i = 0; i < answer->count; i++)
        mw_answer_free(answer->answers[i]);
    if (answer->largest)
        g_array_unref(answer->largest);
    if (answer->cuts)
        mw_cut_placements_clear(answer->cuts);
    g_free(answer->cuts);
    if (answer->serving)
        mw_serving_clear(answer->serving);
    g_free(answer->serving);
    if (answer->objective)
        mw_objective_clear(answer->objective);
    g_free(answer->objective);
    if (answer->capacity)
        mw_capacity_clear(answer->capacity);
    g_free(answer->capacity);
    if (answer->purchases)
        mw_purchases_clear(answer->purchases);
    g_free(answer->purchases);
    if (answer->parallel)
        mw_parallel_clear(answer->parallel);
    g_free(answer->parallel);
    mw_lib_parallel_clear(&answer->divided);
    mw_lib_owned_clear(&answer->owned);
    mw_lib_machines_clear(&answer->machines);
    mw_lib_clear(&answer->question);
    g_ptr_array_unref(answer->warnings);
    g_mutex_clear(&answer->lock);
    if (answer->figures)
        json_node_unref(answer->figures);
    if (answer->keys)
        g_hash_table_unref(answer->keys);
    g_free(answer->json);
    g_free(answer->text);
    g_free(answer->plan);
    g_free(answer);
}
