#include "cli/advice.h"

#include <math.h>

#include "cli/changes.h"
#include "cli/choose.h"
#include "cli/evaluate.h"
#include "cli/progress.h"

/* Of the changes of one kind with the best estimates. */
#define PLANNED 4
/* Beside these so many that may not be advised. */
#define REFUSED 6
/* An estimate so much lower than the best that was planned may yet turn out to be better. */
#define NEAR 0.75

/* `left_out`: how many times as fast as the answer the plan is that was too slow to plan; what
 * makes fewer micro-batches gains that too, without being the cause. */
static void
take(struct mw_result_change *best, struct cli_change *change, struct cli_choice *choice,
     double gain, double left_out)
{
    const struct mw_settings *s = &choice->sizing->settings;
    double merit = cli_change_merit(change, gain);

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
        .tokens_per_s = cli_choice_rate(choice),
        .micro_batch = s->micro_batch,
        .global_batch = cli_tokens_per_step(choice->sizing) / s->seq,
    };
}

/* Plans those with the best estimates as if they had been typed in.  A kind whose estimates are too
 * good hides no other.  Nobody is led to keep more than eager frameworks have room for; what would
 * be refused for that hides nothing either, up to a bound in time. */
static void
advise(const struct cli_request *request, const struct cli_answer *answer, const GPtrArray *changes,
       double left_out, struct mw_result_change *best)
{
    double now = answer->result->tokens_per_s, most = 0;
    int planned[CLI_CHANGE_KINDS] = {0}, refused[CLI_CHANGE_KINDS] = {0};
    bool keeps = cli_keeps_too_much(answer->sizing);

    for (guint i = 0; i < changes->len; i++) {
        struct cli_change *change = changes->pdata[i];
        struct cli_choice choice = {0};
        cli_progress("looking for what would help most: change %u of %u", i + 1, changes->len);
        if (cli_change_merit(change, change->gain) < NEAR * most ||
            planned[change->kind] >= PLANNED || refused[change->kind] >= REFUSED)
            continue;
        bool good = cli_choose(&change->request, request->strategies[0], &choice, NULL) &&
                    (keeps || !cli_keeps_too_much(choice.sizing));
        (good ? planned : refused)[change->kind]++;
        double gain = good ? cli_choice_rate(&choice) / now : 0;
        if (cli_change_is_worth(change, gain / left_out) && cli_change_merit(change, gain) > most) {
            most = cli_change_merit(change, gain);
            take(best, change, &choice, gain, left_out);
        }
        cli_choice_clear(&choice);
    }
}

/* What is free and what has to be paid for stand beside each other: neither hides the other. */
void
cli_advise(const struct cli_request *request, const struct cli_answer *answer)
{
    g_autoptr(GPtrArray) settings = cli_changes_free(request, answer);
    g_autoptr(GPtrArray) paid = cli_changes_paid(request, answer);

    double times = 1;
    struct mw_sizing *out =
        cli_choice_left_out(request, request->strategies[0], answer->sizing, &times);

    advise(request, answer, settings, 1, &answer->result->change);
    advise(request, answer, paid, out ? times : 1, &answer->result->paid_change);
    mw_sizing_free(out);
}

void
cli_advise_batch(const struct cli_request *request, const struct cli_answer *answer)
{
    struct mw_result *result = answer->result;
    struct cli_choice choice = {0};

    if (request->settings.micro_batch != MW_AUTO)
        return;
    g_autoptr(GPtrArray) changes = cli_changes_smaller_batches(request, answer);
    struct cli_change *change = changes->len ? changes->pdata[0] : NULL;
    if (change && cli_choose(&change->request, answer->sizing->settings.strategy, &choice, NULL) &&
        cli_change_is_worth(change, cli_choice_rate(&choice) / result->tokens_per_s)) {
        result->smaller_batch = choice.sizing->settings.micro_batch;
        result->smaller_batch_tokens_per_s = cli_choice_rate(&choice);
    }
    cli_choice_clear(&choice);
}
