/* question.h - the command's part of a question, set through the library's own header. */
#ifndef MW_CLI_QUESTION_H
#define MW_CLI_QUESTION_H

#include "lib/question.h"

/* As memwall_question_set; the error is the command's. */
bool cli_question_set(struct memwall_question *question, const char *name, const char *text,
                      GError **error);

/* A key of the hardware profile, "SECTION.KEY=VALUE", as --set has it. */
bool cli_question_set_key(struct memwall_question *question, const char *assignment,
                          GError **error);

#endif
