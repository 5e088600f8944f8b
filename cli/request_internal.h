/*
 * request_internal.h - the parts of a request: words, and what contradicts what.
 */
#ifndef MW_CLI_REQUEST_INTERNAL_H
#define MW_CLI_REQUEST_INTERNAL_H

#include "cli/cli.h"

/* Words that are gone when the request is made; owned. */
struct cli_request_words {
    char *strategies, *outlook;
    gboolean help;
};

/* Reads the options of `verb` and `more` into both, and the plan's or the run's file; or prints
 * help. */
bool cli_request_read_words(struct cli_request *request, struct cli_request_words *words,
                            const struct cli_verb *verb, const struct cli_words_group *more,
                            int argc, char **argv, GError **error);
void cli_request_words_clear(struct cli_request_words *words);

/* Options of the answer that exclude each other, or are another verb's, and its files. */
bool cli_request_check_outputs(const struct cli_request *request, const char *verb, GError **error);
/* The same of a plan file, which is what it is: only the machine that it would run on is open. */
bool cli_request_check_plan_file(const struct cli_request *request,
                                 const struct cli_request_words *words, GError **error);

#endif
