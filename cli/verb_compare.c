/* `memwall compare`: sets what `run --save-timeline` wrote beside a prediction. */
#include "cli/compare.h"
#include "cli/doubts.h"
#include "cli/unfit.h"

static int
report(const struct cli_request *request, struct mw_answer *answer,
       const struct mw_measured *measured, const char *machine)
{
    const struct cli_measured it = {answer->result, measured, NULL, machine};
    g_autoptr(GError) error = NULL;

    if (!answer->result->feasible)
        return cli_unfit_print(request, answer, true);
    cli_doubts_tell(request->question.profile);
    if (!cli_compare_report(request, &it, false, &error))
        return cli_fail(error);
    return cli_flush();
}

static int
answer(const struct cli_request *request)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *machine = NULL;
    struct mw_plan *plan = NULL;
    struct mw_measured *measured = mw_measured_read(request->plan_file, &plan, &machine, &error);
    struct mw_answer *predicted = measured
                                      ? mw_answer_of_plan(&request->question, request->plan_file,
                                                          mw_variants_new(plan), &error)
                                      : NULL;
    int status = predicted ? report(request, predicted, measured, machine) : cli_fail(error);

    mw_answer_free(predicted);
    mw_measured_free(measured);
    return status;
}

static int
run(int argc, char **argv)
{
    return cli_request_run(&cli_verb_compare, NULL, NULL, NULL, argc, argv, answer);
}

const struct cli_verb cli_verb_compare = {
    .name = "compare",
    .summary = "set a saved run beside its prediction, op by op",
    .arguments = "RUNFILE [-H HW]",
    .examples = "memwall compare run.txt -H rtx4090",
    .details = "RUNFILE is what memwall run --save-timeline wrote.",
    .run = run,
};
