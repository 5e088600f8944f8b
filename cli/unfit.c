#include "cli/unfit.h"

#include <stdio.h>

#include "cli/doubts.h"
#include "cli/output.h"

int
cli_unfit_print(const struct cli_request *request, const struct mw_answer *answer, bool simulated)
{
    struct mw_result *const results[] = {answer->result};

    cli_doubts_tell(request->question.profile);
    cli_say_unwritten(request);
    if (request->json)
        mw_json_write(stdout, results, 1);
    else if (simulated)
        mw_table_simulate(stdout, answer->result, false);
    else
        mw_table_plan(stdout, answer->result);
    return cli_flush() == CLI_DONE ? CLI_DOES_NOT_FIT : CLI_FAILED;
}
