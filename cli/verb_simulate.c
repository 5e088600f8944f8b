/* `memwall simulate`: the predicted step; several strategies give a row each. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/plan_file.h"

static int
answer(const struct cli_request *request)
{
    enum cli_depth depth = request->sensitivity ? CLI_DEPTH_FULL : CLI_DEPTH_VERDICT;

    return request->plan_file ? cli_plan_file(request) : cli_answer_request(request, depth);
}

static int
run(int argc, char **argv)
{
    return cli_request_run(&cli_verb_simulate, NULL, NULL, argc, argv, answer);
}

const struct cli_verb cli_verb_simulate = {
    "simulate", "predict a step: how fast, what limits it, what would help most",
    "-m MODEL [-H HW] | PLANFILE", run};
