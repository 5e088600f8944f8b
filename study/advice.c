#include "study/advice.h"

#include <math.h>

#include "base/progress.h"
#include "study/improvements.h"
#include "study/choose.h"
#include "study/evaluate.h"

/* Changes of one kind, with the best estimates, that are planned. */
#define PLANNED 4
/* This many more are planned in place of those that may not be advised. */
#define REFUSED 6
/* A change whose estimate is lower by this factor may still turn out better than the best one. */
#define NEAR 0.75

/* `left_out`: factor by which the plan that was left out as too slow to plan is faster than the
 * answer.  A change that leads to fewer micro-batches gains as much without being the cause. */
static void
take_if_better(struct mw_result_change *best, struct mw_improvement *change,
               struct mw_choice *choice, double gain, double left_out)
{
    const struct mw_settings *s = &choice->sizing->settings;
    double merit = mw_improvement_per_dollar(change, gain);

    g_free(best->what);
    g_free(best->flags);
    *best = (struct mw_result_change){
        .what = left_out > 1 ? g_strdup_printf("%s (%.2fx the plan left out as slow to plan)",
                                               change->what, gain / left_out)
                             : g_strdup(change->what),
        .flags = g_steal_pointer(&change->flags),
        .priced = change->priced,
        .times_tokens_per_usd = change->priced ? merit : NAN,
        .step_time_s = choice->step_s,
        .tokens_per_s = mw_choice_rate(choice),
        .micro_batch = s->micro_batch,
        .global_batch = mw_tokens_per_step(choice->sizing) / s->seq,
    };
}

/* Plans the changes with the best estimates as if they had been requested.  A kind of change whose
 * estimates are too high does not hide other kinds.  Changes that do not fit hide nothing either,
 * up to a bound in time. */
static void
advise(const struct mw_question *question, const struct mw_answer *answer, const GPtrArray *changes,
       double left_out, struct mw_result_change *best)
{
    double now = answer->result->tokens_per_s, most = 0;
    int planned[MW_IMPROVEMENT_KINDS] = {0}, refused[MW_IMPROVEMENT_KINDS] = {0};

    for (guint i = 0; i < changes->len; i++) {
        struct mw_improvement *change = changes->pdata[i];
        struct mw_choice choice = {0};
        mw_progress("looking for what would help most: change %u of %u", i + 1, changes->len);
        if (mw_improvement_per_dollar(change, change->gain) < NEAR * most ||
            planned[change->kind] >= PLANNED || refused[change->kind] >= REFUSED)
            continue;
        bool good = mw_choose(&change->question, question->strategies[0], false, &choice, NULL) &&
                    choice.sizing->fits;
        (good ? planned : refused)[change->kind]++;
        double gain = good ? mw_choice_rate(&choice) / now : 0;
        if (mw_improvement_is_worth(change, gain / left_out) &&
            mw_improvement_per_dollar(change, gain) > most) {
            most = mw_improvement_per_dollar(change, gain);
            take_if_better(best, change, &choice, gain, left_out);
        }
        mw_choice_clear(&choice);
    }
}

/* Settings and purchases are reported side by side: neither hides the other. */
void
mw_advise(const struct mw_question *question, const struct mw_answer *answer)
{
    g_autoptr(GPtrArray) settings = mw_best_settings(question, answer);
    g_autoptr(GPtrArray) paid = mw_best_purchases(question, answer);

    double times = 1;
    struct mw_sizing *out =
        mw_choice_left_out(question, question->strategies[0], answer->sizing, &times);

    advise(question, answer, settings, 1, &answer->result->change);
    advise(question, answer, paid, out ? times : 1, &answer->result->paid_change);
    mw_sizing_free(out);
}

void
mw_advise_batch(const struct mw_question *question, const struct mw_answer *answer)
{
    struct mw_result *result = answer->result;
    struct mw_choice choice = {0};

    if (question->settings.micro_batch != MW_AUTO)
        return;
    g_autoptr(GPtrArray) changes = mw_best_smaller_batches(question, answer);
    struct mw_improvement *change = changes->len ? changes->pdata[0] : NULL;
    if (change &&
        mw_choose(&change->question, answer->sizing->settings.strategy, false, &choice, NULL) &&
        mw_improvement_is_worth(change, mw_choice_rate(&choice) / result->tokens_per_s)) {
        result->smaller_batch = choice.sizing->settings.micro_batch;
        result->smaller_batch_tokens_per_s = mw_choice_rate(&choice);
    }
    mw_choice_clear(&choice);
}
