/* compare.h - reports a run beside its prediction, in the form that a request asks for. */
#ifndef MW_CLI_COMPARE_H
#define MW_CLI_COMPARE_H

#include "cli/cli.h"
#include "report/run.h"

/* What was measured and predicted; borrowed. */
struct cli_measured {
    struct mw_result *predicted; /* with plan and timeline */
    const struct mw_measured *measured;
    const struct mw_run_facts *facts; /* or NULL */
    const char *machine;
};

/* Writes trace and plot if the request names them; then prints JSON if it asks for that, else the
 * table, or its summary line if `brief`. */
bool cli_compare_report(const struct cli_request *request, const struct cli_measured *it,
                        bool brief, GError **error);

#endif
