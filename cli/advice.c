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

/* Plans the best of one kind as if they had been typed in. */
static void
advise_kind(const struct cli_request *request, const struct cli_answer *answer, GPtrArray *changes,
            enum cli_change_kind kind)
{
    struct mw_result *result = answer->result;
    double least = WORTHWHILE * result->tokens_per_s, best = 0;
    int planned = 0;

    for (guint i = 0; i < changes->len; i++) {
        struct cli_change *change = changes->pdata[i];
        struct cli_choice choice = {0};
        double there = change->gain * result->tokens_per_s;
        if (change->kind != kind || there < least || there / change->price_usd < best ||
            planned++ >= PLANNED)
            continue;
        if (cli_choose(&change->request, request->strategies[0], &choice, NULL) &&
            cli_choice_rate(&choice) > least &&
            cli_choice_rate(&choice) / change->price_usd > best) {
            best = cli_choice_rate(&choice) / change->price_usd;
            take(result, change, &choice);
        }
        cli_choice_clear(&choice);
    }
}

/* What is free comes first: money is for where no setting helps, and most of it for where nothing
 * else does.  What is not reached is not estimated either. */
void
cli_advise(const struct cli_request *request, const struct cli_answer *answer)
{
    static GPtrArray *(*const lists[CLI_CHANGE_KINDS])(const struct cli_request *,
                                                       const struct cli_answer *) = {
        [CLI_CHANGE_SETTING] = cli_changes_new,
        [CLI_CHANGE_NODES] = cli_changes_nodes,
        [CLI_CHANGE_MACHINE] = cli_changes_machines,
    };
    GPtrArray *changes = NULL;

    for (int kind = 0; kind < CLI_CHANGE_KINDS && !answer->result->change.what; kind++) {
        if (lists[kind]) {
            g_clear_pointer(&changes, g_ptr_array_unref);
            changes = lists[kind](request, answer);
        }
        advise_kind(request, answer, changes, kind);
    }
    g_ptr_array_unref(changes);
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
