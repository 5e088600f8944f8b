/* `memwall simulate`: the predicted step; several strategies give a row each. */
#include <errno.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/evaluate.h"
#include "cli/output.h"
#include "planner/error.h"

static struct mw_plan *
read_plan(const char *path, GError **error)
{
    char why[256];
    bool folder = g_file_test(path, G_FILE_TEST_IS_DIR);
    FILE *in = folder ? NULL : fopen(path, "r");

    if (!in) {
        g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s", path,
                    g_strerror(folder ? EISDIR : errno));
        return NULL;
    }
    struct mw_plan *plan = mw_plan_read(in, why, sizeof why);
    fclose(in);
    if (plan && mw_plan_check(plan, why, sizeof why))
        return plan;
    mw_plan_free(plan);
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "%s: %s", path, why);
    return NULL;
}

static void
print_lanes(const struct mw_plan *plan, const struct mw_engine_result *engine)
{
    struct mw_result *result = g_new0(struct mw_result, 1);

    mw_summary_lanes(plan, &engine->timeline, result);
    printf("%-16s %12s %12s\n", "lane", "busy", "exposed");
    for (size_t l = 0; l < result->lane_count; l++)
        printf("%-16s %12s %12s\n", result->lanes[l].name,
               mw_format_seconds(result->lanes[l].busy_s),
               mw_format_seconds(result->lanes[l].exposed_s));
    mw_result_free(result);
}

/* A plan alone says nothing of tokens or FLOP/s: its step and its lanes. */
static int
simulate_file(const struct cli_request *request)
{
    g_autoptr(GError) error = NULL;
    struct mw_plan *plan = read_plan(request->plan_file, &error);
    struct mw_engine_result engine;

    if (!plan ||
        !cli_engine(plan, &request->hardware[MW_OUTLOOK_TYPICAL], true, &engine, &error)) {
        mw_plan_free(plan);
        return cli_fail(error);
    }
    printf("%s\nstep %s, first step %s, %u ops\n\n", plan->title,
           mw_format_seconds(engine.step_ns * 1e-9), mw_format_seconds(engine.first_step_ns * 1e-9),
           plan->op_count);
    print_lanes(plan, &engine);
    mw_engine_result_clear(&engine);
    mw_plan_free(plan);
    return cli_flush();
}

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
        status = request.plan_file ? simulate_file(&request) : simulate_request(&request);
    cli_request_clear(&request);
    return status;
}

const struct cli_verb cli_verb_simulate = {
    "simulate", "the predicted step: how fast, what limits it, what would help most", run};
