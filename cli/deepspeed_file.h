/*
 * deepspeed_file.h - settings from the file of --deepspeed, beside those of options.
 */
#ifndef MW_CLI_DEEPSPEED_FILE_H
#define MW_CLI_DEEPSPEED_FILE_H

#include "cli/cli.h"

/* Reads request->deepspeed_file into the settings, in which the options are already: they go before
 * what it says. */
bool cli_deepspeed_load(struct cli_request *request, GError **error);

/* Of a refusal that names an option which nobody typed: its value came from the file, and the
 * message says so before. */
void cli_deepspeed_blame(const struct cli_request *request, GError **error);

/* What a DeepSpeed file asks that the plan does otherwise, for a run, whose answer shows no notes:
 * a line each on standard error. */
void cli_deepspeed_tell(const struct cli_request *request, const struct mw_sizing *sizing);

#endif
