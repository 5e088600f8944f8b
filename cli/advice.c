#include "cli/advice.h"

#include "cli/changes.h"
#include "cli/choose.h"
#include "cli/evaluate.h"

/* A change that gains less than this is not worth a line. */
#define WORTHWHILE 1.01
/* Of the changes with the best estimates. */
#define PLANNED 3

static void
take(struct mw_result *result, struct cli_change *change, struct cli_choice *choice)
{
    const struct mw_settings *s = &choice->sizing->settings;

    g_free(result->change.what);
    g_free(result->change.flags);
    result->change = (struct mw_result_change){
        .what = g_steal_pointer(&change->what),
        .flags = g_steal_pointer(&change->flags),
        .step_time_s = choice->step_s,
        .tokens_per_s = cli_choice_rate(choice),
        .micro_batch = s->micro_batch,
        .global_batch = cli_tokens_per_step(choice->sizing) / s->seq,
    };
}

/* Plans the changed request as if it had been typed in.  What is free comes first: money is for
 * where no setting helps. */
void
cli_advise(const struct cli_request *request, const struct cli_answer *answer)
{
    struct mw_result *result = answer->result;
    double best = WORTHWHILE * result->tokens_per_s;
    g_autoptr(GPtrArray) changes = cli_changes_new(request, answer);
    int planned[2] = {0, 0};

    for (guint i = 0; i < changes->len; i++) {
        struct cli_change *change = changes->pdata[i];
        struct cli_choice choice = {0};
        if (change->bought && result->change.what && !planned[1])
            break;
        if (change->gain * result->tokens_per_s < best || planned[change->bought]++ >= PLANNED)
            continue;
        if (cli_choose(&change->request, request->strategies[0], &choice, NULL) &&
            cli_choice_rate(&choice) > best) {
            best = cli_choice_rate(&choice);
            take(result, change, &choice);
        }
        cli_choice_clear(&choice);
    }
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
        cli_choice_rate(&choice) > WORTHWHILE * result->tokens_per_s) {
        result->smaller_batch = choice.sizing->settings.micro_batch;
        result->smaller_batch_tokens_per_s = cli_choice_rate(&choice);
    }
    cli_choice_clear(&choice);
}
