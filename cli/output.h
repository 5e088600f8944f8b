/* output.h - answers to the strategies of a request, and printing them. */
#ifndef MW_CLI_OUTPUT_H
#define MW_CLI_OUTPUT_H

#include "cli/cli.h"

/* The files that were asked for, then tables, JSON or CSV on standard output: of plans, or from
 * CLI_DEPTH_ROW on of steps.  An error is one line on standard error.  Returns the exit status. */
int cli_answer_request(const struct cli_request *request, enum cli_depth depth);
/* The same of answers that are there. */
int cli_answers_print(const struct cli_request *request, struct cli_answer *const *answers,
                      int count, bool plan_only);

/* The files of -o and --write-deepspeed, of an answer with a plan. */
bool cli_write_plan_files(const struct cli_request *request, const struct cli_answer *answer,
                          GError **error);

#endif
