/* compare.h - a run beside its prediction, as a request asks for it. */
#ifndef MW_CLI_COMPARE_H
#define MW_CLI_COMPARE_H

#include "cli/cli.h"
#include "report/run.h"

/* Beside the request; borrowed. */
struct cli_measured {
    struct mw_result *predicted; /* with plan and timeline */
    const struct mw_measured *measured;
    const struct mw_run_facts *facts; /* or NULL */
    const char *machine;
};

/* Trace and plot, where the request names them; then on standard output JSON where it asks for it,
 * else the table, or of it (`brief`) one line. */
bool cli_compare_report(const struct cli_request *request, const struct cli_measured *it,
                        bool brief, GError **error);

#endif
