/* `memwall plan`: what is kept where, and whether it fits; --largest, --strategies. */
#include "cli/cli.h"
#include "cli/output.h"

static int
answer(const struct cli_request *request)
{
    return cli_ask(request, request->largest ? MEMWALL_LARGEST
                            : request->cuts  ? MEMWALL_CUTS
                                             : MEMWALL_PLAN);
}

static int
run(int argc, char **argv)
{
    return cli_request_run(&cli_verb_plan, NULL, NULL, NULL, argc, argv, answer);
}

const struct cli_verb cli_verb_plan = {
    .name = "plan",
    .summary = "show what will be where, and whether it fits",
    .arguments = "-m MODEL [-H HW]",
    .examples = "memwall plan -m llama-3.1-8b -H rtx4090\n"
                "memwall plan -m gpt3-13b -H rtx4090 --largest\n"
                "memwall plan -m gpt3-13b -H rtx4090 --strategies",
    .run = run,
};
