/* list_runs.h - `memwall list runs`: the runs that can be resumed, exported and deleted. */
#ifndef MW_CLI_RUNS_LIST_RUNS_H
#define MW_CLI_RUNS_LIST_RUNS_H

#include <stdbool.h>

/* Returns the exit status. */
int cli_list_runs(bool as_json);

#endif
