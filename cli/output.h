/* output.h - answers to the strategies of a request, and printing them. */
#ifndef MW_CLI_OUTPUT_H
#define MW_CLI_OUTPUT_H

#include "cli/cli.h"

/* The files that were asked for, then tables, JSON or CSV on standard output: of plans, or from
 * MW_DEPTH_ROW on of steps.  An error is one line on standard error.  Returns the exit status. */
int cli_answer_request(const struct cli_request *request, enum mw_depth depth);
/* The same of answers that are there. */
int cli_answers_print(const struct cli_request *request, struct mw_answer *const *answers,
                      int count, bool plan_only);

/* The files of -o and --write-deepspeed, of an answer with a plan. */
bool cli_write_plan_files(const struct cli_request *request, const struct mw_answer *answer,
                          GError **error);

/* The answer to the request's strategy of that index; an error about a setting that a file has
 * given names the file. */
struct mw_answer *cli_answer_new(const struct cli_request *request, int index, enum mw_depth depth,
                                 bool keep_timeline, GError **error);

#endif
