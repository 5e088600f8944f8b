/* report.h - what `memwall run` records of its steps, and what it prints and writes at the end. */
#ifndef MW_CLI_RUN_REPORT_H
#define MW_CLI_RUN_REPORT_H

#include "cli/run/training.h"

struct cli_run_report;

/* Before training: writes the plan's files, and checks that those of the end can be written; false
 * if not. */
bool cli_run_report_prepare(struct cli_training *training, GError **error);

/* For a training that has started and outlives the report. */
struct cli_run_report *cli_run_report_new(const struct cli_training *training);
void cli_run_report_free(struct cli_run_report *report); /* NULL is allowed */

/* Records a step that is done; returns its time in ns, and how much of it the hypervisor took: 0 if
 * too little to count. */
int64_t cli_run_report_step(struct cli_run_report *report, const struct mw_trainer_step *step,
                            int64_t *stolen_ns);

/* After the last step, by all ranks together: the first rank gets the measurements of the
 * others. */
bool cli_run_report_unite(struct cli_run_report *report, GError **error);

/* Then, on the first rank: writes the run's file and prints what cli_compare_report says. */
bool cli_run_report_end(struct cli_run_report *report, GError **error);

#endif
