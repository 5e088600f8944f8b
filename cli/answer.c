/* From a request to an answer. */
#include <math.h>

#include "cli/choose.h"
#include "cli/cli.h"
#include "cli/deepspeed_file.h"
#include "cli/evaluate.h"
#include "cli/fill.h"
#include "cli/progress.h"

/* What the engine says of the choice, or why it refuses it. */
static bool
simulate(struct cli_choice *choice, GError **error)
{
    return (cli_choice_rate(choice) > 0 && isfinite(choice->step_s)) ||
           cli_engine(choice->plan, choice->sizing->hardware, true, &choice->engine, error);
}

static void
forget_timeline(struct cli_choice *choice)
{
    g_free(choice->engine.timeline.rows);
    choice->engine.timeline = (struct mw_timeline){0};
}

/* Sizing and plan go to the answer. */
static struct cli_answer *
answer_of(struct cli_choice *choice)
{
    struct cli_answer *answer = g_new0(struct cli_answer, 1);

    answer->result = mw_result_new();
    answer->sizing = g_steal_pointer(&choice->sizing);
    answer->plan = g_steal_pointer(&choice->plan);
    return answer;
}

struct cli_answer *
cli_answer_new(const struct cli_request *request, enum mw_strategy strategy, enum cli_depth depth,
               bool keep_timeline, GError **error)
{
    struct cli_choice choice = {0};
    struct cli_answer *answer = NULL;

    cli_progress("planning");
    if (cli_choose(request, strategy, &choice, error) &&
        (!choice.plan || simulate(&choice, error))) {
        answer = answer_of(&choice);
        if (answer->plan)
            mw_plan_set_machine(answer->plan, mw_hwprofile_name(request->profile));
        cli_fill_sizing(request, strategy, answer);
        if (depth == CLI_DEPTH_ROW && !keep_timeline)
            forget_timeline(&choice);
        if (answer->plan && depth == CLI_DEPTH_PLAN)
            cli_fill_layout(answer, &choice.engine);
        else if (answer->plan)
            cli_fill_simulation(request, answer, depth, &choice.engine);
    }
    cli_choice_clear(&choice);
    cli_progress_end();
    cli_deepspeed_blame(request, error);
    return answer;
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
