/* `memwall plan`: what will be where and when; fits or not; --largest. */
#include <math.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/output.h"
#include "planner/error.h"

static int
print_largest(const struct cli_request *request)
{
    struct mw_request planned = {&request->model, &request->hardware[MW_OUTLOOK_TYPICAL]};
    bool some = false;

    if (request->json)
        printf("[");
    else
        printf("%-20s %10s %14s %14s\n", "strategy", "layers", "params", "12·nl·hd²");
    for (int i = 0; i < request->strategy_count; i++) {
        bool all = request->strategies[i] == MW_STRATEGY_AUTO;
        int first = all ? MW_STRATEGY_DDP : request->strategies[i];
        int last = all ? MW_STRATEGY_COUNT - 1 : request->strategies[i];
        for (int s = first; s <= last; s++) {
            g_autoptr(GError) error = NULL;
            struct mw_settings asked = request->settings, resolved;
            struct mw_model model = request->model;
            asked.strategy = s;
            if (!mw_settings_resolve(&planned, &asked, &resolved, &error) ||
                (model.layers = mw_planner_largest_layers(&planned, &resolved, &error)) < 0) {
                if (all)
                    continue;
                return cli_fail(error);
            }
            double params = model.layers ? mw_model_params(&model) : 0;
            double paper = model.layers ? mw_model_params_paper(&model) : 0;
            if (request->json)
                printf("%s{\"strategy\": \"%s\", \"layers\": %" G_GINT64_FORMAT
                       ", \"params\": %.0f, \"paper_params\": %.0f}",
                       some ? ", " : "", mw_strategy_name(s), model.layers, params, paper);
            else
                printf("%-20s %10" G_GINT64_FORMAT " %14s %14s\n", mw_strategy_name(s),
                       model.layers, mw_format_count(params), mw_format_count(paper));
            some = true;
        }
    }
    if (request->json)
        printf("]\n");
    return CLI_DONE;
}

static int
print_plans(const struct cli_request *request)
{
    struct cli_answers answers;
    int status = cli_answers_make(request, CLI_DEPTH_PLAN, &answers);

    if (status == CLI_DONE)
        status = cli_answers_print(request, &answers, true);
    cli_answers_clear(&answers);
    return status;
}

static int
run(int argc, char **argv)
{
    struct cli_request request = {0};
    gboolean done;
    int status = cli_request_parse(&request, "plan", argc, argv, &done);

    if (status == CLI_DONE && !done)
        status = request.largest ? print_largest(&request) : print_plans(&request);
    cli_request_clear(&request);
    return status;
}

const struct cli_verb cli_verb_plan = {
    "plan", "what will be where and when; fits or not; --largest: the most layers that fit", run};
