/* output.h - answers to the strategies of a request, and printing them. */
#ifndef MW_CLI_OUTPUT_H
#define MW_CLI_OUTPUT_H

#include "cli/cli.h"

struct cli_answers {
    struct cli_answer *answer[MW_STRATEGY_COUNT];
    struct mw_result *result[MW_STRATEGY_COUNT]; /* borrowed */
    int count;
};

/* On an error prints it and returns the exit status. */
int cli_answers_make(const struct cli_request *request, enum cli_depth depth,
                     struct cli_answers *answers);
/* Tables or JSON or CSV on standard output, then the files that were asked for. */
int cli_answers_print(const struct cli_request *request, const struct cli_answers *answers,
                      bool plan_only);
void cli_answers_clear(struct cli_answers *answers);

#endif
