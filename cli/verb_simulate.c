/* `memwall simulate`: the predicted step; several strategies give a row each. */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/plan_file.h"

static int
answer(const struct cli_request *request)
{
    enum mw_depth depth = request->sensitivity ? MW_DEPTH_FULL : MW_DEPTH_VERDICT;

    return request->plan_file ? cli_plan_file(request) : cli_answer_request(request, depth);
}

static int
run(int argc, char **argv)
{
    return cli_request_run(&cli_verb_simulate, NULL, NULL, NULL, argc, argv, answer);
}

const struct cli_verb cli_verb_simulate = {
    .name = "simulate",
    .summary = "predict a step: how fast, what limits it, what would help most",
    .arguments = "-m MODEL [-H HW] | PLANFILE",
    .examples = "memwall simulate -m llama-3.1-8b -H rtx4090 --tokens 10B\n"
                "memwall simulate -m gpt3-13b -H rtx4090 -s zero-offload,zero-infinity-nvme",
    .details =
        "PLANFILE is what -o wrote; it takes -H (default: the machine that the plan was made "
        "for, where its profile is known), --set, --outlook, --json, --details, --trace and "
        "--plot.",
    .run = run,
};
