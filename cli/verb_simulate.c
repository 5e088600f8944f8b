/* `memwall simulate`: predicts a step; several strategies give a row each. */
#include <string.h>

#include "cli/cli.h"
#include "cli/output.h"

/* A table of several strategies shows no ranges, so none are computed. */
static enum memwall_depth
depth_of(const struct cli_request *request)
{
    const char *strategies = memwall_question_get(request->asked, "strategy");
    bool several = strategies && strchr(strategies, ',');

    if (request->sensitivity)
        return MEMWALL_WHAT_IF;
    return several && !request->json && !request->csv ? MEMWALL_STEP : MEMWALL_SIMULATE;
}

static int
answer(const struct cli_request *request)
{
    return cli_ask(request, depth_of(request));
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
                "memwall simulate -m llama-3.1-8b -H rtx4090 --train lora:16 --weight-bits 4\n"
                "memwall simulate -m gpt3-13b -H rtx4090 -s zero-offload,zero-infinity-nvme",
    .details =
        "PLANFILE is what -o wrote; it takes -H (default: the machine that the plan was made "
        "for) and --software (default: the plan's), each with what was set of it, --set, "
        "--outlook, --json, --details, --trace and --plot.",
    .run = run,
};
