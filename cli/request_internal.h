/*
 * request_internal.h - reads the words of a request, and checks them against each other.
 */
#ifndef MW_CLI_REQUEST_INTERNAL_H
#define MW_CLI_REQUEST_INTERNAL_H

#include "cli/cli.h"

/* Words that are needed only until the question is set; owned. */
struct cli_request_words {
    char *strategies, *outlook;
    gboolean help;
};

/* Reads the options of `verb` and of `more` into both, and the file argument of simulate and
 * compare; or prints help. */
bool cli_request_read_words(struct cli_request *request, struct cli_request_words *words,
                            const struct cli_verb *verb, const struct cli_words_group *more,
                            int argc, char **argv, GError **error);
void cli_request_words_clear(struct cli_request_words *words);

/* Checks the options for the answer and its files: some exclude each other, some belong to other
 * verbs. */
bool cli_request_check_outputs(const struct cli_request *request, const char *verb, GError **error);
/* The same for a plan file, which leaves only the machine open. */
bool cli_request_check_plan_file(const struct cli_request *request,
                                 const struct cli_request_words *words, GError **error);

#endif
