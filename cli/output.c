#include "cli/output.h"

#include <stdio.h>

#include "cli/doubts.h"
#include "cli/progress_line.h"
#include "cli/question.h"

void
cli_say_unwritten(const struct cli_request *request)
{
    const char *const paths[] = {request->output, request->write_deepspeed, request->trace,
                                 request->plot};

    for (size_t i = 0; i < G_N_ELEMENTS(paths); i++)
        if (paths[i])
            cli_say("%s: not written, as the plan does not fit", paths[i]);
}

/* Options that write files refuse several strategies, so there is one. */
static bool
write_files(const struct cli_request *request, const struct memwall_answer *answer, GError **error)
{
    const struct {
        const char *path;
        enum memwall_form form;
    } files[] = {
        {request->output, MEMWALL_PLAN_TEXT},
        {request->write_deepspeed, MEMWALL_DEEPSPEED},
        {request->trace, MEMWALL_TRACE},
        {request->plot, MEMWALL_PLOT},
    };
    struct memwall_error *failed = NULL;

    if (!memwall_answer_fits(answer)) {
        cli_say_unwritten(request);
        return true;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++)
        if (files[i].path && !memwall_answer_write(answer, files[i].form, files[i].path, &failed))
            return cli_take_error(failed, error);
    return true;
}

static enum memwall_form
form_of(const struct cli_request *request)
{
    return request->json      ? MEMWALL_JSON
           : request->csv     ? MEMWALL_CSV
           : request->details ? MEMWALL_DETAILS
                              : MEMWALL_TEXT;
}

static bool
print(const struct cli_request *request, const struct memwall_answer *answer, GError **error)
{
    struct memwall_error *failed = NULL;

    return write_files(request, answer, error) &&
           (memwall_answer_print(answer, form_of(request), stdout, &failed) ||
            cli_take_error(failed, error));
}

static int
show(const struct cli_request *request, const struct memwall_answer *answer,
     enum memwall_depth depth)
{
    g_autoptr(GError) error = NULL;
    size_t left_out = 0;

    for (; memwall_answer_warning(answer, left_out); left_out++)
        cli_say("%s", memwall_answer_warning(answer, left_out));
    if (left_out && !request->plan_file && depth != MEMWALL_ADVISE &&
        !memwall_answer_string(answer, "strategy"))
        return CLI_USAGE; /* every strategy is left out */
    cli_doubts_tell_of(answer);
    if (!print(request, answer, &error))
        return cli_fail(error);
    if (cli_flush() != CLI_DONE)
        return CLI_FAILED;
    return memwall_answer_fits(answer) || request->largest ? CLI_DONE : CLI_DOES_NOT_FIT;
}

int
cli_ask(const struct cli_request *request, enum memwall_depth depth)
{
    struct memwall_error *failed = NULL;
    g_autoptr(GError) error = NULL;

    memwall_question_listen(request->asked, cli_progress_line_show, NULL);
    struct memwall_answer *answer = memwall_ask(request->asked, depth, &failed);
    cli_progress_line_clear();
    if (!answer) {
        cli_take_error(failed, &error);
        return cli_fail(error);
    }
    int status = show(request, answer, depth);
    memwall_answer_free(answer);
    return status;
}
