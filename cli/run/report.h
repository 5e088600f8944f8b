/* report.h - what `memwall run` keeps of its steps, and what it says and writes at the end. */
#ifndef MW_CLI_RUN_REPORT_H
#define MW_CLI_RUN_REPORT_H

#include "cli/run/training.h"

struct cli_run_report;

/* Before anything is trained: the plan's files are written; those of the end can be, or false. */
bool cli_run_report_prepare(struct cli_training *training, GError **error);

/* Of a training that is started and outlives it. */
struct cli_run_report *cli_run_report_new(const struct cli_training *training);
void cli_run_report_free(struct cli_run_report *report); /* NULL is allowed */

/* A step that is done; returns its time in ns, and what the hypervisor took of it: 0 where that is
 * too little to count. */
int64_t cli_run_report_step(struct cli_run_report *report, const struct mw_trainer_step *step,
                            int64_t *stolen_ns);

/* After the last step, by all ranks together: the first learns what the others did. */
bool cli_run_report_unite(struct cli_run_report *report, GError **error);

/* Then, by the first: the run's file, then what cli_compare_report says. */
bool cli_run_report_end(struct cli_run_report *report, GError **error);

#endif
