#include "cli/output.h"

#include <stdio.h>

#include "base/error.h"
#include "base/whole_file.h"
#include "cli/deepspeed_file.h"
#include "planner/deepspeed/deepspeed.h"

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
        .buffers = mw_deepspeed_buffers(sizing),
        .nvme_queue_depth = sizing->hardware->nvme_queue_depth,
        .nvme_block_bytes = sizing->hardware->nvme_block_bytes,
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
            cli_say("%s: not written, as the plan does not fit", paths[i]);
}

bool
cli_write_plan_files(const struct cli_request *request, const struct mw_answer *answer,
                     GError **error)
{
    if (request->output && !write_plan(request->output, answer->plan, error))
        return false;
    return !request->write_deepspeed ||
           write_deepspeed(request->write_deepspeed, answer->sizing, error);
}

static bool
write_files(const struct cli_request *request, const struct mw_answer *answer, GError **error)
{
    if (!answer->result->feasible) {
        say_unwritten(request);
        return true;
    }
    if (!cli_write_plan_files(request, answer, error))
        return false;
    if (request->trace && !mw_trace_write(request->trace, answer->result, error))
        return false;
    return !request->plot || mw_plot_write(request->plot, answer->result, error);
}

static void
print_results(const struct cli_request *request, struct mw_result *const *results, int count,
              bool plan_only)
{
    bool several = request->question.strategy_count > 1;

    if (request->json)
        mw_json_write(stdout, results, count);
    else if (request->csv)
        mw_csv_write(stdout, results, count);
    else if (several)
        mw_table_compare(stdout, results, count);
    else if (plan_only)
        mw_table_plan(stdout, results[0]);
    else
        mw_table_simulate(stdout, results[0], request->details);
}

int
cli_answers_print(const struct cli_request *request, struct mw_answer *const *answers, int count,
                  bool plan_only)
{
    g_autoptr(GError) error = NULL;
    struct mw_result *results[MW_STRATEGY_COUNT];
    bool fits = false;

    cli_request_tell(request);
    if (request->question.strategy_count <= 1 && !write_files(request, answers[0], &error))
        return cli_fail(error);
    for (int i = 0; i < count; i++) {
        results[i] = answers[i]->result;
        fits = fits || results[i]->feasible;
    }
    print_results(request, results, count, plan_only);
    if (cli_flush() != CLI_DONE)
        return CLI_FAILED;
    return fits ? CLI_DONE : CLI_DOES_NOT_FIT;
}

struct mw_answer *
cli_answer_new(const struct cli_request *request, int index, enum mw_depth depth,
               bool keep_timeline, GError **error)
{
    struct mw_answer *answer = mw_answer_new(
        &request->question, request->question.strategies[index], depth, keep_timeline, error);

    cli_deepspeed_blame(request, error);
    return answer;
}

/* Of several strategies a row each. */
static struct mw_answer *
answer_strategy(const struct cli_request *request, int index, enum mw_depth depth, GError **error)
{
    if (request->question.strategy_count > 1)
        depth = MIN(depth, MW_DEPTH_ROW);
    return cli_answer_new(request, index, depth, request->trace || request->plot, error);
}

/* Of several strategies one whose step has too many ops is left out, in words. */
static bool
leave_out(const struct cli_request *request, int index, GError **refused)
{
    if (request->question.strategy_count == 1 ||
        !g_error_matches(*refused, MW_ERROR, MW_ERROR_LARGE))
        return false;
    cli_say("%s is left out: %s", mw_strategy_name(request->question.strategies[index]),
            (*refused)->message);
    g_clear_error(refused);
    return true;
}

int
cli_answer_request(const struct cli_request *request, enum mw_depth depth)
{
    struct mw_answer *answers[MW_STRATEGY_COUNT];
    g_autoptr(GError) error = NULL;
    int count = 0, status;

    for (int i = 0; i < request->question.strategy_count && !error; i++) {
        answers[count] = answer_strategy(request, i, depth, &error);
        if (answers[count])
            count++;
        else
            leave_out(request, i, &error);
    }
    status = error    ? cli_fail(error)
             : !count ? CLI_USAGE
                      : cli_answers_print(request, answers, count, depth == MW_DEPTH_PLAN);
    while (count > 0)
        mw_answer_free(answers[--count]);
    return status;
}
