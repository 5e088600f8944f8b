/* From a question to an answer. */
#include <math.h>

#include "base/progress.h"
#include "study/choose.h"
#include "study/known_steps.h"
#include "study/planned.h"
#include "study/set_result.h"
#include "study/stages.h"
#include "study/study.h"

/* Runs the engine on the choice; false with *error if it refuses the plan. */
static bool
simulate(struct mw_choice *choice, GError **error)
{
    return (mw_choice_rate(choice) > 0 && isfinite(choice->step_s)) ||
           mw_evaluate_plan(choice->plan, choice->sizing->hardware, true, &choice->engine, error);
}

static void
forget_timeline(struct mw_choice *choice)
{
    g_free(choice->engine.timeline.rows);
    choice->engine.timeline = (struct mw_timeline){0};
}

/* It is about the steps that go on for ever. */
void
mw_answer_take(struct mw_answer *answer, struct mw_variants *variants)
{
    uint32_t count;

    answer->variants = variants;
    if (!answer->known)
        answer->known = mw_known_steps_new();
    answer->plan = variants->plans[*mw_variants_last(variants, &count)];
}

/* Sizing and plan go to the answer. */
static struct mw_answer *
answer_of(struct mw_choice *choice, GError **error)
{
    struct mw_answer *answer = g_new0(struct mw_answer, 1);
    const struct mw_plan *simulated = choice->plan;

    answer->result = mw_result_new();
    answer->sizing = g_steal_pointer(&choice->sizing);
    answer->known = g_steal_pointer(&choice->known);
    if (choice->plan)
        mw_answer_take(answer, mw_build_variants(answer->sizing, g_steal_pointer(&choice->plan)));
    if (answer->plan)
        mw_result_set_stages(answer->plan, answer->result);
    if (answer->plan == simulated)
        return answer;
    mw_engine_result_clear(&choice->engine);
    if (mw_known_evaluate(answer->known, answer->plan, answer->sizing->hardware, true,
                          &choice->engine, error))
        return answer;
    mw_answer_free(answer);
    return NULL;
}

static void
sign(const struct mw_question *question, enum mw_strategy strategy, const struct mw_answer *answer)
{
    for (uint32_t v = 0; answer->plan && v < answer->variants->plan_count; v++)
        mw_question_sign(question, answer->variants->plans[v]);
    if (answer->plan)
        mw_planned_sign(question, strategy, &answer->sizing->settings, answer->variants->plans[0]);
}

/* Fills in an answer that has its sizing and plans. */
static void
fill(const struct mw_question *question, enum mw_strategy strategy, enum mw_depth depth,
     struct mw_answer *answer, struct mw_choice *choice)
{
    sign(question, strategy, answer);
    mw_result_set_sizing(question, strategy, answer);
    if (answer->plan && depth == MW_DEPTH_PLAN)
        mw_result_set_layout(answer, &choice->engine);
    else if (answer->plan)
        mw_result_set_simulation(question, answer, depth, &choice->engine);
}

struct mw_answer *
mw_answer_new(const struct mw_question *question, enum mw_strategy strategy, enum mw_depth depth,
              bool keep_timeline, GError **error)
{
    struct mw_choice choice = {0};
    struct mw_answer *answer = NULL;

    mw_progress("planning");
    if (mw_choose(question, strategy, true, &choice, error) &&
        (!choice.plan || simulate(&choice, error)))
        answer = answer_of(&choice, error);
    if (answer && depth == MW_DEPTH_ROW && !keep_timeline)
        forget_timeline(&choice);
    if (answer)
        fill(question, strategy, depth, answer, &choice);
    mw_choice_clear(&choice);
    mw_progress_end();
    return answer;
}

/* --- again, of a plan that was read ----------------------------------------------------------- */

/* The answer to `made`, with sizing and plans, if these are the given ones. */
static struct mw_answer *
plan_again(const struct mw_question *made, const struct mw_variants *variants,
           struct mw_choice *choice)
{
    struct mw_answer *answer = NULL;

    if (mw_choose(made, made->strategies[0], true, choice, NULL) && choice->plan &&
        simulate(choice, NULL))
        answer = answer_of(choice, NULL);
    if (answer && !mw_variants_agree(answer->variants, variants))
        g_clear_pointer(&answer, mw_answer_free);
    if (!answer)
        mw_choice_clear(choice);
    return answer;
}

static bool
is_made_for(const struct mw_variants *variants, const struct mw_question *question)
{
    g_autofree char *machine = mw_question_machine_text(question);

    return !g_strcmp0(variants->plans[0]->machine, machine);
}

/* By what was chosen, which may be of another machine; else by what was asked: stages of a pipeline
 * may have chosen for themselves. */
struct mw_answer *
mw_planned_answer(const struct mw_question *question, enum mw_depth depth,
                  const struct mw_variants *variants)
{
    struct mw_question closed = *question;
    struct mw_choice choice = {0};

    if (!mw_planned_read(variants->plans[0]->chosen, &closed.settings, NULL))
        return NULL;
    closed.settings.folds = question->settings.folds;
    closed.settings.ops_max = question->settings.ops_max;
    closed.strategies[0] = closed.settings.strategy;
    mw_progress("planning");
    struct mw_answer *answer = plan_again(&closed, variants, &choice);
    if (!answer && is_made_for(variants, question))
        answer = plan_again(question, variants, &choice);
    if (answer)
        fill(question, question->strategies[0], depth, answer, &choice);
    mw_choice_clear(&choice);
    mw_progress_end();
    return answer;
}

void
mw_answer_free(struct mw_answer *answer)
{
    if (!answer)
        return;
    mw_result_free(answer->result);
    mw_known_steps_free(answer->known);
    mw_variants_free(answer->variants);
    mw_sizing_free(answer->sizing);
    free(answer->timeline.rows);
    g_free(answer);
}
