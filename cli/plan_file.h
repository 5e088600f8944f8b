/* plan_file.h - `memwall simulate PLANFILE`: a plan whose text alone is known. */
#ifndef MW_CLI_PLAN_FILE_H
#define MW_CLI_PLAN_FILE_H

#include "cli/cli.h"

#define CLI_PLAN_WANTED "a plan, as `memwall plan -o` writes it"

/* Reads and checks request->plan_file, simulates it on the request's hardware, prints what was
 * asked for.  Says nothing of tokens, FLOP/s or closed forms: a plan does not hold its model.
 * Returns the exit status. */
int cli_plan_file(const struct cli_request *request);

/* The profile of the machine that the plan was made for, where the file names one that is known;
 * NULL: this machine's, or none.  A stream is not read for it.  g_free it. */
char *cli_plan_file_machine(const char *path);

/* Whether the file holds a plan that is whole. */
bool cli_plan_file_check(const char *path, GError **error);

/* The checked plan of a file; NULL with *error.  mw_plan_free it. */
struct mw_plan *cli_plan_file_read(const char *path, GError **error);

/* A word that stands for the plan's model: no path, whatever the file says.  g_free it. */
char *cli_plan_file_model(const char *path);

#endif
