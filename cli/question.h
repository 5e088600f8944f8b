/* question.h - calls of the library whose errors become the command's. */
#ifndef MW_CLI_QUESTION_H
#define MW_CLI_QUESTION_H

#include <glib.h>

#include "lib/memwall.h"

/* Turns an error of the library, which it frees, into one of the command; returns false. */
bool cli_take_error(struct memwall_error *failed, GError **error);

/* Like memwall_question_set. */
bool cli_question_set(struct memwall_question *question, const char *name, const char *text,
                      GError **error);

/* Sets a key of the hardware profile from "SECTION.KEY=VALUE", as --set takes it. */
bool cli_question_set_key(struct memwall_question *question, const char *assignment,
                          GError **error);
/* Like memwall_question_check. */
bool cli_question_check(const struct memwall_question *question, GError **error);

#endif
