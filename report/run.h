/*
 * run.h - a run beside its prediction: tables, JSON, one trace and one picture of both.
 */
#ifndef MW_REPORT_RUN_H
#define MW_REPORT_RUN_H

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>

#include "report/compare.h"
#include "report/measured.h"
#include "study/result.h"

struct mw_run_facts {    /* not in a timeline; all since the first step began */
    const char *backend; /* lives as long as the program */
    int64_t steps, skipped;
    double first_loss, last_loss, seconds;
    int64_t peak_bytes[MW_TIER_COUNT]; /* reserved for what the plan counts */
    int64_t scratch_bytes;             /* of kernels and saves, in host memory */
    int64_t program_bytes;             /* the process without both, before the first step; -1: not
                                        * known */
    int64_t planned_bytes;             /* both, and what the plan has in host memory; -1: not
                                        * known */
    int64_t resident_bytes;            /* the process's peak: VmHWM and huge pages */
    int64_t nvme_read_bytes, nvme_written_bytes;
    /* Where experts are spread over ranks: tokens of the fullest rank over the mean of those that
     * share them, in the steps after the first (in the first, where there are no others). */
    double expert_imbalance;      /* median over steps of the mean over layers; 0: not spread */
    double expert_imbalance_most; /* of any layer, micro-batch and step */
    double *layer_imbalance;      /* [layers] means over these steps; g_free; 0: of another stage */
    int64_t layers;
};

struct mw_run {
    struct mw_result *predicted; /* all borrowed */
    const struct mw_measured *measured;
    const struct mw_compare *compare;
    const struct mw_run_facts *facts; /* NULL: read from a file, which lacks them */
    const char *machine;              /* that was measured */
};

/* The prediction, with measured values in place of the predicted ones; its timeline is the typical
 * step's, borrowed.  Free with mw_run_result_free before `predicted`. */
struct mw_result *mw_run_result(const struct mw_run *run);
void mw_run_result_free(struct mw_result *result);

/* If the profile was measured here and is slower than the run: why the log shows an MFU above 100%,
 * and what to do.  NULL otherwise; g_free it. */
char *mw_run_faster_text(const struct mw_run *run);

void mw_table_run(FILE *out, const struct mw_run *run);
/* The keys of `simulate`, with measured values, then `predicted`, `compare` and `run`. */
bool mw_json_run_write(FILE *out, const struct mw_run *run);
/* One process "predicted", one "measured", each with a track per lane and its memory. */
bool mw_trace_run_write(const char *path, const struct mw_run *run, GError **error);
/* Timelines above each other on one axis: predicted, and measured by each rank. */
bool mw_plot_run_write(const char *path, const struct mw_run *run, GError **error);

#endif
