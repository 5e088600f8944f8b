/* fill.h - what a sizing, a plan and a timeline say, filled into an answer's result. */
#ifndef MW_CLI_FILL_H
#define MW_CLI_FILL_H

#include "cli/cli.h"

/* Identity, settings, ledger, notes, verdict. */
void cli_fill_sizing(const struct cli_request *request, const struct cli_answer *answer);
/* Memory over the step, for a plan whose speed was not asked for. */
bool cli_fill_layout(const struct cli_request *request, struct cli_answer *answer, GError **error);
/* Step time and everything that follows from it, as deep as asked. */
bool cli_fill_simulation(const struct cli_request *request, struct cli_answer *answer,
                         enum cli_depth depth, bool keep_timeline, GError **error);

#endif
