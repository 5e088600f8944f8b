/* `memwall simulate`: the predicted step; several strategies give a row each. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/plan_file.h"

static int
simulate_request(const struct cli_request *request)
{
    struct cli_answers answers;
    int status = cli_answers_make(
        request, request->sensitivity ? CLI_DEPTH_FULL : CLI_DEPTH_VERDICT, &answers);

    if (status == CLI_DONE)
        status = cli_answers_print(request, &answers, false);
    cli_answers_clear(&answers);
    return status;
}

static int
run(int argc, char **argv)
{
    struct cli_request request = {0};
    gboolean done;
    int status = cli_request_parse(&request, "simulate", argc, argv, &done);

    if (status == CLI_DONE && !done)
        status = request.plan_file ? cli_plan_file(&request) : simulate_request(&request);
    cli_request_clear(&request);
    return status;
}

const struct cli_verb cli_verb_simulate = {
    "simulate", "the predicted step: how fast, what limits it, what would help most", run};
