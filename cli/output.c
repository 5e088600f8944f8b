#include "cli/output.h"

#include <stdio.h>
#include <string.h>

#include "planner/deepspeed.h"
#include "report/file.h"

int
cli_answers_make(const struct cli_request *request, enum cli_depth depth,
                 struct cli_answers *answers)
{
    bool several = request->strategy_count > 1;
    bool keep = request->trace || request->plot;

    memset(answers, 0, sizeof *answers);
    if (several && depth > CLI_DEPTH_ROW)
        depth = CLI_DEPTH_ROW;
    for (int i = 0; i < request->strategy_count; i++) {
        g_autoptr(GError) error = NULL;
        enum mw_strategy strategy = request->strategies[i];
        struct cli_answer *answer =
            strategy == MW_STRATEGY_AUTO ? cli_answer_auto(request, depth, keep, &error)
                                         : cli_answer_new(request, strategy, depth, keep, &error);
        if (!answer)
            return cli_fail(error);
        answers->answer[answers->count] = answer;
        answers->result[answers->count++] = answer->result;
    }
    return CLI_DONE;
}

void
cli_answers_clear(struct cli_answers *answers)
{
    for (int i = 0; i < answers->count; i++)
        cli_answer_free(answers->answer[i]);
    answers->count = 0;
}

static bool
write_plan(const char *path, const struct mw_plan *plan, GError **error)
{
    struct mw_file *file = mw_file_open(path, error);

    if (!file)
        return false;
    mw_plan_write(plan, file->stream);
    return mw_file_commit(file, error);
}

static int64_t
largest_part(const struct mw_sizing *sizing)
{
    int64_t largest = 0;

    for (int c = 0; c < MW_CLASS_COUNT; c++)
        for (int u = 0; u < sizing->classes[c].unit_count; u++)
            largest = MAX(largest, sizing->classes[c].units[u].tile_params);
    return largest;
}

static bool
write_deepspeed(const char *path, const struct mw_sizing *sizing, GError **error)
{
    const struct mw_settings *s = &sizing->settings;
    int64_t part = largest_part(sizing);
    struct mw_deepspeed_facts facts = {
        .micro_batch = s->micro_batch,
        .grad_accum = s->grad_accum,
        .train_batch = s->micro_batch * sizing->ranks * s->grad_accum,
        .prefetch_elements = part * s->prefetch,
        .live_elements = part * (s->prefetch + 1),
        .largest_unit_elements = part,
        .buffer_count = MAX(1, sizing->pinned_ring),
        .nvme_queue_depth = sizing->hardware->nvme_queue_depth,
        .bf16 = sizing->hardware->gpu_bf16,
    };
    g_autofree char *text = mw_deepspeed_text(s, &facts);
    struct mw_file *file = mw_file_open(path, error);

    if (!file)
        return false;
    fputs(text, file->stream);
    return mw_file_commit(file, error);
}

/* What does not fit has no plan to write. */
static void
say_unwritten(const struct cli_request *request)
{
    const char *const paths[] = {request->output, request->write_deepspeed, request->trace,
                                 request->plot};

    for (size_t i = 0; i < G_N_ELEMENTS(paths); i++)
        if (paths[i])
            fprintf(stderr, "memwall: %s: not written, as the plan does not fit\n", paths[i]);
}

static bool
write_files(const struct cli_request *request, const struct cli_answer *answer, GError **error)
{
    if (!answer->result->feasible) {
        say_unwritten(request);
        return true;
    }
    if (request->output && !write_plan(request->output, answer->plan, error))
        return false;
    if (request->write_deepspeed && !write_deepspeed(request->write_deepspeed, answer->sizing, error))
        return false;
    if (request->trace && !mw_trace_write(request->trace, answer->result, error))
        return false;
    return !request->plot || mw_plot_write(request->plot, answer->result, error);
}

static void
print_answers(const struct cli_request *request, const struct cli_answers *answers, bool plan_only)
{
    if (request->json)
        mw_json_write(stdout, answers->result, answers->count);
    else if (request->csv)
        mw_csv_write(stdout, answers->result, answers->count);
    else if (answers->count > 1)
        mw_table_compare(stdout, answers->result, answers->count);
    else if (plan_only)
        mw_table_plan(stdout, answers->result[0]);
    else
        mw_table_simulate(stdout, answers->result[0]);
}

int
cli_answers_print(const struct cli_request *request, const struct cli_answers *answers,
                  bool plan_only)
{
    g_autoptr(GError) error = NULL;
    bool fits = false;

    if (answers->count == 1 && !write_files(request, answers->answer[0], &error))
        return cli_fail(error);
    print_answers(request, answers, plan_only);
    if (cli_flush() != CLI_DONE)
        return CLI_FAILED;
    for (int i = 0; i < answers->count; i++)
        fits = fits || answers->result[i]->feasible;
    return fits ? CLI_DONE : CLI_DOES_NOT_FIT;
}
